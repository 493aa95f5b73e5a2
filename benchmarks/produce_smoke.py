"""How long `send` takes, and how fast records reach the bundled cluster in the same process.

`python -m benchmarks.produce_smoke [records]`.  The first row stops the brokers' answers, so that it shows
the caller's thread alone; the others share the interpreter with three brokers.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

from pykafka2 import KafkaProducer
from pykafka2.protocol.messages.produce import ProduceRequest
from pykafka2.testing import KafkaCluster

VALUE = b"x" * 100


def send_all(producer: KafkaProducer, records: int, on_delivery: Callable[..., Any] | None) -> float:
    """Return the microseconds a record, without waiting for deliveries."""
    send = producer.send
    start = time.perf_counter()
    for _ in range(records):
        send("orders", VALUE, on_delivery=on_delivery)
    return (time.perf_counter() - start) / records * 1e6


def main(records: int) -> None:
    print(f"{'records of 100 bytes':<44}{'send us':>9}{'all us':>9}{'CPU us':>9}")
    with KafkaCluster(brokers=3, topics={"orders": 6}) as cluster:
        servers = cluster.bootstrap_servers
        cluster.history.is_on = False
        producer = KafkaProducer(bootstrap_servers=servers, buffer_memory=2**30, request_timeout_ms=20_000)
        producer.send("orders", VALUE).result(10)
        cluster.controls.hold(ProduceRequest)
        best = min(send_all(producer, records, lambda metadata, error: None) for _ in range(3))
        print(f"{'send alone, on_delivery, no broker answers':<44}{best:>9.2f}")
        cluster.controls.clear()
        producer.close()
        for name, callback, options in (
            ("idempotent, acks=all, on_delivery", lambda metadata, error: None, {}),
            ("idempotent, acks=all, no callback", None, {}),
            ("lz4, on_delivery", lambda metadata, error: None, {"compression_type": "lz4"}),
        ):
            with KafkaProducer({"bootstrap.servers": servers, **options}) as producer:
                producer.send("orders", VALUE).result(10)
                start, cpu = time.perf_counter(), time.process_time()
                sending = send_all(producer, records, callback)
                producer.flush()
                took = (time.perf_counter() - start) / records * 1e6
                spent = (time.process_time() - cpu) / records * 1e6
                print(f"{name:<44}{sending:>9.2f}{took:>9.2f}{spent:>9.2f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
