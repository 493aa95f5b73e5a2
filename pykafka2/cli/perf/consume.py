"""`pykafka2 perf consume`: the rate of a consumer."""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING, Any

from pykafka2.cli.common import connection
from pykafka2.cli.common.output import Output
from pykafka2.cli.perf.measurements import print_result, rates
from pykafka2.errors import KafkaError, UnknownTopicOrPartition

if TYPE_CHECKING:
    from pykafka2 import KafkaConsumer, TopicPartition

POLL_MS = 100
TYPICAL_POLL = 500
"""The default of max_poll_records: only a poll near the end has a limit of its own."""


def measure(arguments: argparse.Namespace, output: Output) -> int:
    """Read the records and print the result; 1 if they did not arrive in time."""
    options: dict[str, Any] = {
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
        "allow_auto_create_topics": False,
    }
    if arguments.group is not None:
        options |= {"group_id": arguments.group, "enable_auto_commit": True}
    with connection.consumer(arguments, **options) as consumer:
        run = _Run(consumer, arguments)
        consumer.bootstrap(connection.connect_timeout_ms(arguments))
        run.begin()
        try:
            is_complete = run.read_all(output)
        except KeyboardInterrupt:
            print_result(output, run.result(is_interrupted=True))
            raise
        except KafkaError:
            print_result(output, run.result())
            raise
        print_result(output, run.result())
    if not is_complete:
        output.error(f"no record arrived for {arguments.timeout:g} s (--timeout)")
    return 0 if is_complete else 1


class _Run:
    """One measurement."""

    def __init__(self, consumer: KafkaConsumer[Any, Any], arguments: argparse.Namespace) -> None:
        self._consumer = consumer
        self._topic: str = arguments.topic
        self._group: str | None = arguments.group
        self._timeout: float = arguments.timeout
        self._wanted: int | None = arguments.records
        self._ends: dict[TopicPartition, int] = {}
        self._available = 0
        self._records = self._bytes = 0
        self._began = time.perf_counter()
        self._first: float | None = None
        self._last = self._began

    def begin(self) -> None:
        """Assign or subscribe, and find the ends of the partitions. Raise UnknownTopicOrPartition."""
        from pykafka2 import TopicPartition

        consumer = self._consumer
        numbers = consumer.partitions_for_topic(self._topic)
        if not numbers:
            raise UnknownTopicOrPartition(
                f"topic {self._topic!r} does not exist; create it with topics create"
            )
        partitions = [TopicPartition(self._topic, number) for number in sorted(numbers)]
        self._ends = consumer.end_offsets(partitions)
        begins = consumer.beginning_offsets(partitions)
        self._available = sum(self._ends[partition] - begins[partition] for partition in partitions)
        if self._group is None:
            consumer.assign(partitions)
        else:
            consumer.subscribe([self._topic])

    def read_all(self, output: Output) -> bool:
        """Read until the number or the end is reached; return False if records stay away."""
        total = self._available if self._wanted is None else self._wanted
        self._began = self._last = time.perf_counter()
        with output.progress(total, f"consume {self._topic}") as bar:
            while not self._is_complete():
                count = self._read_once()
                now = time.perf_counter()
                if count:
                    bar.update(count)
                    self._last = now
                    if self._first is None:
                        self._first = now - self._began
                elif now - self._last > self._timeout:
                    return False
        return True

    def _read_once(self) -> int:
        left = None if self._wanted is None else self._wanted - self._records
        limit = None if left is None or left > TYPICAL_POLL else left
        count = 0
        for records in self._consumer.poll(timeout_ms=POLL_MS, max_records=limit).values():
            count += len(records)
            self._bytes += sum(len(record.value or b"") + len(record.key or b"") for record in records)
        self._records += count
        return count

    def _is_complete(self) -> bool:
        if self._wanted is not None:
            return self._records >= self._wanted
        if self._records >= self._available:
            return True
        if self._group is not None:  # other members, and committed offsets: the group reads the rest
            return self._is_group_done()
        return all(self._consumer.position(partition) >= end for partition, end in self._ends.items())

    def _is_group_done(self) -> bool:
        assigned = self._consumer.assignment()
        return bool(assigned) and all(self._consumer.position(one) >= self._ends[one] for one in assigned)

    def result(self, *, is_interrupted: bool = False) -> dict[str, Any]:
        """Return what was measured until now."""
        ended = self._last if self._records else time.perf_counter()
        return {
            "topic": self._topic,
            **rates(self._records, self._bytes, ended - self._began),
            "first_record_ms": None if self._first is None else round(self._first * 1000, 3),
            "interrupted": is_interrupted,
        }
