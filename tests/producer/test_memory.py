"""Memory of a producer while no broker responds, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from itertools import product

import pytest

from tests.gate import rest_in_long

MIB = 1 << 20

PROGRAM = textwrap.dedent(
    """
    import os, sys
    from pykafka2 import KafkaProducer
    from pykafka2.errors import BufferExhausted
    from pykafka2.protocol.messages.produce import ProduceRequest
    from pykafka2.testing import KafkaCluster

    def rss():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def ignore(metadata, error):
        pass

    value_bytes, kind = int(sys.argv[1]), sys.argv[2]
    has_callback = kind == "callback"
    with KafkaCluster(brokers=1, topics={"orders": 6}, process=True) as cluster:
        producer = KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, max_block_ms=1000)
        producer.send("orders", b"first").result(30)
        cluster.controls.hold(ProduceRequest)
        before, number = rss(), 0
        try:
            while True:
                value = b"%d" % number
                on_delivery = ignore if has_callback else None
                if kind == "closure":
                    on_delivery = lambda metadata, error, number=number: None
                delivery = producer.send(
                    "orders", value.ljust(value_bytes, b"x"), on_delivery=on_delivery
                )
                if has_callback and number % 2:
                    delivery.add_callback(ignore, None).add_errback(ignore, None)
                number += 1
        except BufferExhausted:
            print(rss() - before, number, producer.metrics()["buffer-total-bytes"])
        os._exit(0)
    """
)


@pytest.mark.gate
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(
    ("value_bytes", "kind"),
    rest_in_long(
        [
            (10, "callback"),
            (10, "closure"),
            (10_000, "plain"),
            (10, "plain"),
            (10_000, "callback"),
            *product([100], ["plain", "callback"]),
        ],
        in_gate=3,
    ),
)
def test_producer_without_responses_uses_at_most_buffer_memory_and_64_mib(
    value_bytes: int, kind: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(value_bytes), kind],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    grown, records, buffer_memory = map(float, done.stdout.split())
    assert records * value_bytes > buffer_memory / 40
    assert grown < buffer_memory + 64 * MIB
