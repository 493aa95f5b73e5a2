"""Topics as tables: `python -m benchmarks.tables [--records N] [--rounds N] [--broker apache]`.

All records of a topic (100 bytes, 6 partitions) become one polars frame with partition, offset, timestamp,
key and value: by `pykafka2.scan`, and by a loop over confluent-kafka's `consume`, tuned for throughput.
Further runs write the topic to a Parquet file, and aggregate it with a lazy polars query and with DuckDB.
Each run is a process of its own, and the clients take turns.

Targets: at least twice as fast as the loop; peak memory at most 500 MB above the finished frame (the sizes of
its buffers, with 16 bytes for each entry of a binary column, as polars stores them); below 500 MB in all for
Parquet and for the aggregates. The exit status is 1 if a target is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from statistics import median
from typing import Any

from benchmarks.consumer.clients import CONFLUENT_TUNED
from benchmarks.producer.brokers import BROKERS, running
from benchmarks.side_by_side.measured import clock, peak_rss_mb

PARTITIONS = 6
COLUMNS = ("partition", "offset", "timestamp", "key", "value")
MB = 1 << 20
VIEW_BYTES = 16
MAX_ABOVE_FRAME_MB = MAX_IN_ALL_MB = 500
LEAST_RATIO = 2.0


def scan_to_polars(servers: str, topic: str, records: int) -> Any:
    import pykafka2

    return pykafka2.scan(topic, columns=COLUMNS, bootstrap_servers=servers, progress=False).to_polars()


def confluent_to_polars(servers: str, topic: str, records: int) -> Any:
    import polars as pl
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    consumer = Consumer(
        {"bootstrap.servers": servers, "group.id": "tables", "enable.auto.commit": False, **CONFLUENT_TUNED}
    )
    consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(PARTITIONS)])
    schema = dict(zip(COLUMNS, (pl.Int32, pl.Int64, pl.Int64, pl.Binary, pl.Binary), strict=True))
    frames, count = [], 0
    while count < records:
        messages = consumer.consume(min(10_000, records - count), timeout=10.0)
        if not messages:
            raise RuntimeError(f"nothing came for 10 s after {count} of {records} records")
        columns = (
            [one.partition() for one in messages],
            [one.offset() for one in messages],
            [one.timestamp()[1] for one in messages],
            [one.key() for one in messages],
            [one.value() for one in messages],
        )
        frames.append(pl.DataFrame(dict(zip(COLUMNS, columns, strict=True)), schema=schema))
        count += len(messages)
    consumer.close()
    return pl.concat(frames).with_columns(pl.col("timestamp").cast(pl.Datetime("ms", "UTC")))


def scan_to_parquet(servers: str, topic: str, records: int) -> None:
    import pykafka2

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "topic.parquet")
        rows = pykafka2.scan(topic, bootstrap_servers=servers, progress=False).to_parquet(path)
        assert rows == records


def lazy_aggregate(servers: str, topic: str, records: int) -> None:
    import polars as pl

    import pykafka2

    lazy = pykafka2.scan(topic, bootstrap_servers=servers, progress=False).lazy()
    sizes = lazy.group_by("partition").agg(pl.len(), pl.col("value").bin.size().sum())
    assert sizes.collect(engine="streaming")["len"].sum() == records


def duckdb_aggregate(servers: str, topic: str, records: int) -> None:
    import duckdb

    import pykafka2

    scan = pykafka2.scan(topic, bootstrap_servers=servers, progress=False)
    relation = scan.to_duckdb(duckdb.connect())
    rows = relation.aggregate("partition, count(*), sum(octet_length(value))").fetchall()
    assert sum(row[1] for row in rows) == records


RUNS: dict[str, Callable[[str, str, int], Any]] = {
    "scan to polars": scan_to_polars,
    "confluent-kafka to polars": confluent_to_polars,
    "scan to parquet": scan_to_parquet,
    "lazy aggregate": lazy_aggregate,
    "DuckDB aggregate": duckdb_aggregate,
}


def play(name: str, servers: str, topic: str, records: int) -> dict[str, float]:
    """Run in this process: seconds of the clock and of its processors, peak memory, size of the frame."""
    import polars as pl

    started, cpu = clock()
    frame = RUNS[name](servers, topic, records)
    ended, cpu_ended = clock()
    size = 0
    if frame is not None:
        assert len(frame) == records
        binary = sum(kind == pl.Binary for kind in frame.dtypes)
        size = frame.estimated_size() + binary * VIEW_BYTES * records
    return {
        "seconds": ended - started,
        "cpu": cpu_ended - cpu,
        "peak_mb": peak_rss_mb(),
        "frame_mb": size / MB,
    }


def fill(servers: str, topic: str, records: int) -> None:
    """Write the records in a producer's batches of 16 KiB."""
    from benchmarks.producer.inputs import inputs_of
    from benchmarks.producer.runs import Cell
    from pykafka2 import KafkaProducer

    values = inputs_of(Cell(size=100)).values
    with KafkaProducer(bootstrap_servers=servers, bulk_batch_size=16_384) as producer:
        for number, start in enumerate(range(0, records, len(values))):
            part = values[: min(len(values), records - start)]
            producer.send_many(topic, part, partition=number % PARTITIONS)


def measure(servers: str, topic: str, records: int, rounds: int) -> dict[str, list[dict[str, float]]]:
    """Play all runs in turns; every other round goes backwards."""
    found: dict[str, list[dict[str, float]]] = {name: [] for name in RUNS}
    for number in range(rounds):
        for name in list(RUNS) if number % 2 == 0 else list(RUNS)[::-1]:
            command = [
                sys.executable,
                "-m",
                "benchmarks.tables",
                "--play",
                name,
                servers,
                topic,
                str(records),
            ]
            done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=600)
            found[name].append(json.loads(done.stdout.splitlines()[-1]))
            print(".", end="", flush=True, file=sys.stderr)
    return found


def report(found: dict[str, list[dict[str, float]]], records: int) -> bool:
    """Print the table; return whether all targets are reached."""
    print(f"{records:,} records of 100 bytes, medians of {len(found['scan to polars'])} rounds")
    middle = {
        name: {key: median(one[key] for one in runs) for key in runs[0]}
        for name, runs in found.items()
        if runs
    }
    for name, one in middle.items():
        above = f", {one['peak_mb'] - one['frame_mb']:.0f} MB above the frame" if one["frame_mb"] else ""
        print(
            f"{name:26} {one['seconds']:7.2f} s {one['cpu']:7.2f} s CPU   "
            f"peak {one['peak_mb']:5.0f} MB{above}"
        )
    pairs = list(zip(found["confluent-kafka to polars"], found["scan to polars"], strict=True))
    ratios = {key: median(theirs[key] / ours[key] for theirs, ours in pairs) for key in ("seconds", "cpu")}
    print(
        f"scan against confluent-kafka: {ratios['seconds']:.2f} x in time, {ratios['cpu']:.2f} x in CPU time"
    )
    frame = middle["scan to polars"]
    reached = [
        ratios["seconds"] >= LEAST_RATIO,
        frame["peak_mb"] - frame["frame_mb"] <= MAX_ABOVE_FRAME_MB,
        *(middle[name]["peak_mb"] < MAX_IN_ALL_MB for name in ("scan to parquet", "lazy aggregate")),
    ]
    print("all targets reached" if all(reached) else "a target was MISSED")
    return all(reached)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--broker", choices=BROKERS, default="apache")
    parser.add_argument("--play", nargs=4, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.play:
        name, servers, topic, records = arguments.play
        print(json.dumps(play(name, servers, topic, int(records))))
        return 0
    with running(arguments.broker) as broker, broker.topic(PARTITIONS) as topic:
        fill(broker.bootstrap_servers, topic, arguments.records)
        found = measure(broker.bootstrap_servers, topic, arguments.records, arguments.rounds)
    return 0 if report(found, arguments.records) else 1


if __name__ == "__main__":
    sys.exit(main())
