"""One point of a curve: the run of a client in its own process.

    python -m benchmarks.tuning.points JSON

The argument is a Point as JSON; the command prints an Outcome as JSON.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable
from itertools import cycle, islice
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import attrs

from benchmarks.producer.inputs import inputs_of
from benchmarks.producer.runs import Cell
from benchmarks.tuning.curves import PACED_RATE, RECORD_BYTES, Workload
from pykafka2 import KafkaConsumer, KafkaProducer

RUN_TIMEOUT = 120.0
GROUPS_PER_SECOND = 200
"""Groups of sends in each second of a paced run."""


@attrs.frozen
class Point:
    """A client's workload: `records` as fast as it can, then `seconds` of paced records for the latency."""

    workload: Workload
    bootstrap_servers: str
    broker_pid: int
    topic: str
    quiet_topic: str
    records: int
    seconds: float
    options: dict[str, Any]

    def play(self) -> Outcome:
        """Measure the point in a process of its own."""
        command = [sys.executable, "-m", "benchmarks.tuning.points", json.dumps(attrs.asdict(self))]
        done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_TIMEOUT)
        if done.returncode:
            raise RuntimeError(done.stderr.strip()[-2000:])
        return Outcome(**json.loads(done.stdout.strip().splitlines()[-1]))


@attrs.frozen
class Moment:
    """Wall-clock time, and the processor time that client and broker have used so far, in seconds (Linux)."""

    clock: float
    client_cpu: float
    broker_cpu: float

    @classmethod
    def now(cls, point: Point) -> Moment:
        fields = Path(f"/proc/{point.broker_pid}/stat").read_text().rpartition(")")[2].split()
        broker_cpu = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        return cls(time.perf_counter(), time.process_time(), broker_cpu)


@attrs.define
class Outcome:
    """Throughput, latency in milliseconds, and processor time per record in microseconds."""

    records_per_second: float
    p50_ms: float
    p99_ms: float
    client_cpu_us: float
    broker_cpu_us: float


def median_of(outcomes: list[Outcome]) -> Outcome:
    """Return the median of each figure."""
    return Outcome(*(median(figures) for figures in zip(*map(attrs.astuple, outcomes), strict=True)))


def produce(point: Point) -> Outcome:
    values = inputs_of(Cell("bundled", "equal", size=RECORD_BYTES)).values
    with KafkaProducer(bootstrap_servers=point.bootstrap_servers, **point.options) as producer:
        producer.send(point.topic, values[0]).result(30)
        began = Moment.now(point)
        for value in islice(cycle(values), point.records):
            producer.send(point.topic, value)
        producer.flush()
        ended = Moment.now(point)
        took: list[float] = []

        def send() -> None:
            since = time.perf_counter()
            producer.send(
                point.quiet_topic,
                values[0],
                on_delivery=lambda metadata, error: took.append(time.perf_counter() - since),
            )

        _paced(send, point.seconds)
        producer.flush()
    return _outcome(point.records, began, ended, took)


def consume(point: Point) -> Outcome:
    options = {"auto_offset_reset": "earliest", **point.options}
    read = 0
    with KafkaConsumer(point.topic, bootstrap_servers=point.bootstrap_servers, **options) as consumer:
        while not consumer.poll(1000, max_records=1):
            pass
        began = Moment.now(point)
        while read < point.records - 1:
            read += sum(map(len, consumer.poll(1000, max_records=1000).values()))
        ended = Moment.now(point)
    return _outcome(read, began, ended, _times_to_poll(point, options))


def _times_to_poll(point: Point, options: dict[str, Any]) -> list[float]:
    """Return the seconds from each `send` to the `poll` that returned its record."""
    took: list[float] = []
    is_over = threading.Event()
    is_ready = threading.Event()

    def read() -> None:
        with KafkaConsumer(
            point.quiet_topic, bootstrap_servers=point.bootstrap_servers, **options
        ) as consumer:
            while not is_over.is_set():
                for records in consumer.poll(100).values():
                    is_ready.set()
                    now = time.perf_counter()
                    took.extend(now - float(record.value or 0) for record in records)

    reader = threading.Thread(target=read)
    reader.start()
    with KafkaProducer(bootstrap_servers=point.bootstrap_servers, linger_ms=0) as producer:

        def send() -> None:
            producer.send(point.quiet_topic, b"%.9f" % time.perf_counter())

        while not is_ready.wait(0.1):
            send()
        took.clear()
        _paced(send, point.seconds)
        producer.flush()
    is_over.set()
    reader.join()
    return took


def _paced(send: Callable[[], object], seconds: float) -> None:
    """Call `send` PACED_RATE times a second, evenly in small groups."""
    pause = 1 / GROUPS_PER_SECOND
    group = PACED_RATE // GROUPS_PER_SECOND
    due = time.perf_counter()
    for _ in range(round(seconds / pause)):
        for _ in range(group):
            send()
        due += pause
        time.sleep(max(0.0, due - time.perf_counter()))


def _outcome(records: int, began: Moment, ended: Moment, took: list[float]) -> Outcome:
    cuts = quantiles(took, n=100) if len(took) > 1 else [0.0] * 99
    return Outcome(
        records / (ended.clock - began.clock),
        cuts[49] * 1e3,
        cuts[98] * 1e3,
        (ended.client_cpu - began.client_cpu) / records * 1e6,
        (ended.broker_cpu - began.broker_cpu) / records * 1e6,
    )


def main(text: str) -> None:
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    point = Point(**json.loads(text))
    outcome = consume(point) if point.workload == "consume" else produce(point)
    print(json.dumps(attrs.asdict(outcome)))


if __name__ == "__main__":
    main(sys.argv[1])
