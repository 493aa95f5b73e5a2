"""Run the whole pipeline: start brokers, write orders, run the Spark job, and compare the totals."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence

from examples.pipeline.orders import Totals, encoded, make_orders, plain_totals, the_last_order
from pykafka2 import KafkaConsumer, KafkaProducer
from pykafka2.testing import KafkaCluster
from spark_connector.testing import local_session, why_no_spark


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser("python -m examples.pipeline", description=__doc__)
    parser.add_argument("--orders", type=int, default=20_000, help="number of orders (default: 20000)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the orders (default: 1)")
    parser.add_argument(
        "--option", action="append", default=[], metavar="NAME=VALUE", help="option of the sink"
    )
    parser.epilog = "The sink uses delivery=exactly_once; --option delivery=at_least_once changes that."
    settings = parser.parse_args(arguments)
    reason = why_no_spark()
    if reason is not None:
        print(f"the pipeline needs Spark: {reason}", file=sys.stderr)
        return 2
    sink = {"delivery": "exactly_once", **dict(one.split("=", 1) for one in settings.option)}
    orders = make_orders(settings.orders, settings.seed)
    with KafkaCluster(brokers=3, topics={"orders": 4, "totals": 2}, process=True) as cluster:
        servers = cluster.bootstrap_servers
        print(f"brokers at {servers}")
        with KafkaProducer(bootstrap_servers=servers) as producer:
            keys = [one.customer.encode() for one in orders]
            producer.send_many("orders", encoded(orders), keys=keys).result(60)
            # One for each partition, so that every partition reaches the end of the last window.
            last = encoded([the_last_order(orders)])
            for partition in range(4):
                producer.send_many("orders", last, partitions=[partition]).result(60)
        print(f"{len(orders)} orders are in topic orders; Spark starts (some seconds)")
        _run_job(servers, len(orders) // 6 or 1, sink)
        return _compared(_read_totals(servers), plain_totals(orders), len(orders))


def _run_job(servers: str, per_batch: int, sink: dict[str, str]) -> None:
    from examples.pipeline import job  # imports pyspark, which is installed by now

    spark = local_session()
    try:
        with tempfile.TemporaryDirectory() as checkpoint:
            job.watch(job.start(spark, servers, checkpoint, per_batch=per_batch, sink=sink), print)
    finally:
        spark.stop()


def _read_totals(servers: str) -> list[tuple[int, str, int, int]]:
    """Return the records of topic totals, read without Spark; aborted transactions do not count."""
    found = []
    with KafkaConsumer(
        "totals",
        bootstrap_servers=servers,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        consumer_timeout_ms=2_000,
    ) as consumer:
        for record in consumer:
            one = json.loads(record.value or b"{}")
            found.append((one["start_ms"], one["category"], one["orders"], one["cents"]))
    return found


def _compared(read: list[tuple[int, str, int, int]], wanted: Totals, orders: int) -> int:
    found = {(start, category): (count, cents) for start, category, count, cents in read}
    repeated = len(read) - len(found)
    wrong = {key for key in found.keys() | wanted.keys() if found.get(key) != wanted.get(key)}
    for key in sorted(wrong)[:10]:
        print(f"{key}: Spark computed {found.get(key)}, plain Python {wanted.get(key)}")
    if wrong or repeated:
        print(f"DIFFERENT: {len(wrong)} of {len(wanted)} totals are wrong, {repeated} are repeated")
        return 1
    print(f"{orders} orders, {len(found)} totals: the same as in plain Python, none missing, none repeated")
    return 0


if __name__ == "__main__":
    sys.exit(main())
