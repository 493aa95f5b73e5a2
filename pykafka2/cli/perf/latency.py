"""`pykafka2 perf latency`: the time from send to acknowledgement, and to the record at a consumer."""

from __future__ import annotations

import argparse
import os
import time
from typing import TYPE_CHECKING, Any

from pykafka2.cli.common import connection
from pykafka2.cli.common.output import Output
from pykafka2.cli.common.parsing import UsageError
from pykafka2.cli.perf.measurements import Samples, close_now, print_result
from pykafka2.errors import KafkaError, KafkaTimeoutError, UnknownTopicOrPartition

if TYPE_CHECKING:
    from pykafka2 import KafkaConsumer, KafkaProducer

MARK_BYTES, NUMBER_BYTES = 16, 8
LEAST_BYTES = MARK_BYTES + NUMBER_BYTES
POLL_MS = 100


def measure(arguments: argparse.Namespace, output: Output) -> int:
    """Send and read the records, and print the result. Raise KafkaTimeoutError if one stays away."""
    if arguments.size < LEAST_BYTES:
        raise UsageError(f"--size {arguments.size} is not valid; use at least {LEAST_BYTES}, for the number")
    with (
        connection.consumer(
            arguments,
            enable_auto_commit=False,
            auto_offset_reset="latest",
            allow_auto_create_topics=False,
        ) as consumer,
        connection.producer(arguments, linger_ms=0) as producer,
    ):
        run = _Run(producer, consumer, arguments)
        consumer.bootstrap(connection.connect_timeout_ms(arguments))
        run.begin()
        try:
            run.measure_all(output)
        except (KeyboardInterrupt, KafkaError) as error:
            print_result(output, run.result(is_interrupted=isinstance(error, KeyboardInterrupt)))
            close_now(producer)
            raise
        print_result(output, run.result())
    return 0


class _Run:
    """One measurement: each value has the mark of this run and the record's number."""

    def __init__(
        self,
        producer: KafkaProducer[Any, Any],
        consumer: KafkaConsumer[Any, Any],
        arguments: argparse.Namespace,
    ) -> None:
        self._producer, self._consumer = producer, consumer
        self._topic: str = arguments.topic
        self._partition: int = arguments.partition
        self._size: int = arguments.size
        self._warmup: int = arguments.warmup
        self._count: int = arguments.records + arguments.warmup
        self._rate: float | None = arguments.rate
        self._timeout: float = arguments.timeout
        self._mark = os.urandom(MARK_BYTES)
        self._padding = os.urandom(self._size - LEAST_BYTES)
        self._due: dict[int, float] = {}
        self._error: KafkaError | None = None
        self._acknowledged, self._consumed = Samples(), Samples()

    def begin(self) -> None:
        """Position the consumer at the end. Raise UnknownTopicOrPartition, UsageError."""
        from pykafka2 import TopicPartition

        numbers = self._consumer.partitions_for_topic(self._topic)
        if not numbers:
            raise UnknownTopicOrPartition(
                f"topic {self._topic!r} does not exist; create it with topics create"
            )
        if self._partition not in numbers:
            raise UsageError(
                f"--partition {self._partition} is not valid; topic {self._topic} has 0 to {max(numbers)}"
            )
        partition = TopicPartition(self._topic, self._partition)
        self._consumer.assign([partition])
        self._consumer.seek_to_end(partition)
        self._consumer.position(partition)  # looked up now: a record sent later is behind it
        self._producer.partitions_for(self._topic)

    def measure_all(self, output: Output) -> None:
        """Send all records and read them. Raise KafkaTimeoutError if no record arrives in time."""
        began = last = time.perf_counter()
        sent = arrived = 0
        with output.progress(self._count, f"latency {self._topic}") as bar:
            while arrived < self._count:
                wait_ms = float(POLL_MS)
                if sent < self._count:
                    now = time.perf_counter()
                    due = now if self._rate is None else began + sent / self._rate
                    if now >= due and (self._rate is not None or arrived == sent):
                        self._send(sent, due)
                        sent += 1
                        continue
                    if self._rate is not None:
                        wait_ms = min(wait_ms, (due - now) * 1000)
                count = self._read(wait_ms)
                if self._error is not None:
                    raise self._error
                now = time.perf_counter()
                if count or sent == arrived:
                    last = now
                elif now - last > self._timeout:
                    raise KafkaTimeoutError(
                        f"record {arrived} of {self._count} did not arrive within {self._timeout:g} s "
                        "(--timeout)"
                    )
                arrived += count
                bar.update(count)

    def _send(self, number: int, due: float) -> None:
        self._due[number] = due
        value = self._mark + number.to_bytes(NUMBER_BYTES, "big") + self._padding

        def on_delivery(metadata: Any, error: KafkaError | None) -> None:
            if error is not None:
                self._error = error
            elif number >= self._warmup:
                self._acknowledged.add(time.perf_counter() - due)

        self._producer.send(self._topic, value, partition=self._partition, on_delivery=on_delivery)

    def _read(self, wait_ms: float) -> int:
        """Read once; return how many records of this run arrived for the first time."""
        count = 0
        for records in self._consumer.poll(timeout_ms=wait_ms).values():
            now = time.perf_counter()
            for record in records:
                value = record.value or b""
                if value[:MARK_BYTES] != self._mark:
                    continue  # another producer's record
                number = int.from_bytes(value[MARK_BYTES:LEAST_BYTES], "big")
                due = self._due.pop(number, None)
                if due is None:
                    continue
                count += 1
                if number >= self._warmup:
                    self._consumed.add(now - due)
        return count

    def result(self, *, is_interrupted: bool = False) -> dict[str, Any]:
        """Return what was measured until now."""
        return {
            "topic": self._topic,
            "records": len(self._consumed),
            "size": self._size,
            "mode": "one at a time"
            if self._rate is None
            else f"{self._rate:g} record{'' if self._rate == 1 else 's'} per second",
            "acknowledged_ms": self._acknowledged.in_ms(),
            "end_to_end_ms": self._consumed.in_ms(),
            "interrupted": is_interrupted,
        }
