"""`pykafka2 perf produce`: the rate of a producer, and the latencies of its acknowledgements."""

from __future__ import annotations

import argparse
import os
import time
from functools import partial
from itertools import cycle
from typing import TYPE_CHECKING, Any

from pykafka2.cli.common import connection
from pykafka2.cli.common.output import Output
from pykafka2.cli.perf.measurements import DEFAULT_RECORDS, Samples, close_now, print_result, rates
from pykafka2.errors import KafkaError
from pykafka2.text import counted

if TYPE_CHECKING:
    from pykafka2 import KafkaProducer

BURST = 500
"""Records between two readings of the clock."""
BURST_SECONDS = 0.01
"""With a rate: records that are due within this time are sent together."""
VALUES, VALUES_BYTES = 64, 1_000_000
TYPICAL_SAMPLES = 10_000
"""A callback for each record would slow the producer down."""
END_TIMEOUT = 5.0
"""Seconds for the acknowledgements of records in flight after Ctrl-C."""


def measure(arguments: argparse.Namespace, output: Output) -> int:
    """Send the records and print the result; 1 if a record failed."""
    with connection.producer(arguments, max_block_ms=connection.CONNECT_TIMEOUT_MS) as producer:
        run = _Run(producer, arguments)
        producer.partitions_for(arguments.topic)  # waits for the metadata, which is not measured
        try:
            run.send_all(output)
        except KeyboardInterrupt:
            producer.purge()
            run.wait_for_acknowledgements(END_TIMEOUT)
            print_result(output, run.result(is_interrupted=True))
            close_now(producer)
            raise
        except KafkaError:
            print_result(output, run.result())
            close_now(producer)
            raise
        run.wait_for_acknowledgements(None)
        print_result(output, run.result())
    if run.error is not None:
        output.error(f"{counted(run.failed, 'record')} failed: {type(run.error).__name__}: {run.error}")
    return 1 if run.error is not None else 0


class _Run:
    """One measurement."""

    def __init__(self, producer: KafkaProducer[Any, Any], arguments: argparse.Namespace) -> None:
        self.error: KafkaError | None = None
        self._producer = producer
        self._topic = arguments.topic
        self._size = arguments.size
        self._rate: float | None = arguments.rate
        self._duration: float | None = arguments.duration
        self._count: int | None = arguments.records or (DEFAULT_RECORDS if self._duration is None else None)
        self._samples = Samples()
        self._samples.stride = max((self._count or 0) // TYPICAL_SAMPLES, 1)
        self._sent = 0
        self._began = self._ended = time.perf_counter()

    @property
    def failed(self) -> int:
        """The number of records that were not written."""
        return int(self._producer.metrics()["record-error-total"])

    def send_all(self, output: Output) -> None:
        """Send until the number or the duration is reached."""
        count = max(min(VALUES, VALUES_BYTES // self._size), 1)
        values = cycle([os.urandom(self._size) for _ in range(count)])
        self._began = time.perf_counter()
        ends_at = None if self._duration is None else self._began + self._duration
        with output.progress(self._count, f"produce {self._topic}") as bar:
            while self._count is None or self._sent < self._count:
                now = time.perf_counter()
                if ends_at is not None and now >= ends_at:
                    return
                burst = self._next_burst(now)
                if burst:
                    self._send_burst(burst, values)
                    bar.update(burst)
                else:
                    time.sleep(BURST_SECONDS)

    def _next_burst(self, now: float) -> int:
        burst = BURST
        if self._rate is not None:
            burst = min(int((now - self._began) * self._rate) + 1 - self._sent, BURST)
        return burst if self._count is None else min(burst, self._count - self._sent)

    def _send_burst(self, burst: int, values: Any) -> None:
        send, topic, stride, rate = self._producer.send, self._topic, self._samples.stride, self._rate
        for number in range(self._sent, self._sent + burst):
            if number % stride:
                send(topic, next(values))
            else:
                due = time.perf_counter() if rate is None else self._began + number / rate
                send(topic, next(values), on_delivery=partial(self._on_delivery, due))
            self._sent += 1

    def _on_delivery(self, due: float, metadata: Any, error: KafkaError | None) -> None:
        if error is None:
            self._samples.add(time.perf_counter() - due)
        elif self.error is None:
            self.error = error

    def wait_for_acknowledgements(self, timeout: float | None) -> None:
        """Wait for the records in flight; note the first error."""
        try:
            self._producer.flush(timeout)
        except KafkaError as error:
            self.error = self.error or error

    def result(self, *, is_interrupted: bool = False) -> dict[str, Any]:
        """Return what was measured until now."""
        seconds = time.perf_counter() - self._began
        written = int(self._producer.metrics()["record-send-total"])
        return {
            "topic": self._topic,
            **rates(written, written * self._size, seconds),
            "failed": self.failed,
            "latency_ms": self._samples.in_ms(),
            "interrupted": is_interrupted,
        }
