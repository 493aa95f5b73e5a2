"""Resets positions to an end of the log or to a timestamp.

Driver's thread, on command of the application's (fetcher.py); offset_lookups.py asks the brokers.
"""

from __future__ import annotations

from functools import partial

from pykafka2.clock import FOREVER
from pykafka2.consumer.fetch.buffer import FetchBuffer
from pykafka2.consumer.fetch.fetched_data import Problem
from pykafka2.consumer.fetch.offset_lookups import OffsetLookups, Question
from pykafka2.consumer.fetch.partitions import FRUITLESS_GAP, FetchTable
from pykafka2.consumer.reset_policy import LATEST_TIMESTAMP
from pykafka2.errors import KafkaError, NoOffsetForPartition
from pykafka2.types import OffsetAndTimestamp, TopicPartition


class PositionResets:
    """Looks for the places at which to begin."""

    def __init__(self, lookups: OffsetLookups, buffer: FetchBuffer, table: FetchTable) -> None:
        self._lookups = lookups
        self._buffer = buffer
        self._table = table
        self._not_before: dict[TopicPartition, float] = {}
        """When an offset that was refused is asked for again at the earliest."""
        self._open: dict[TopicPartition, Question] = {}
        """What is being asked for now; given up where it is not wanted any more, or it would be asked for
        until there is an answer: for ever, of a topic that is gone."""

    def begin(self, partition: TopicPartition, generation: int, timestamp: int) -> None:
        """Find the offset at this time, tell the buffer, and fetch from there on."""
        self._table.lose_place(partition, generation)
        self._ask(partition, generation, timestamp)

    def give_up(self, partition: TopicPartition) -> None:
        """It is known by now where to begin."""
        question = self._open.pop(partition, None)
        if question is not None:
            self._lookups.give_up(question)

    def forget(self, partition: TopicPartition) -> None:
        """It is not read any more."""
        self.give_up(partition)
        self._not_before.pop(partition, None)

    def _ask(
        self, partition: TopicPartition, generation: int, timestamp: int, end: int | None = None
    ) -> None:
        self._look_up(
            Question(
                partition,
                timestamp,
                on_found=partial(self._on_found, partition, generation, timestamp, end),
                on_failed=partial(self._on_failed, partition, generation),
                not_before=self._not_before.get(partition, -FOREVER),
            )
        )

    def _look_up(self, question: Question) -> None:
        question.is_of_read_topic = True
        self.give_up(question.partition)
        self._open[question.partition] = question
        self._lookups.ask(question)

    def _on_found(
        self,
        partition: TopicPartition,
        generation: int,
        timestamp: int,
        end: int | None,
        found: OffsetAndTimestamp | None,
        now: float,
    ) -> None:
        if self._table.generations.get(partition) != generation:
            return  # the application has moved on
        if found is None and timestamp >= 0:
            if end is None:
                self._ask_for_end(partition, generation, timestamp)
                return
            found = OffsetAndTimestamp(end, timestamp)
        if found is None:
            error = NoOffsetForPartition(f"{partition}: the broker names no offset to begin at")
            self._on_failed(partition, generation, error, now)
            return
        self.give_up(partition)
        self._table.begin(partition, generation, found.offset)
        misses = self._table.misses.get(partition)
        if misses is not None and misses.attempts > 1:
            # The offset that the broker named last time was out of its range.
            self._table.states[partition].not_before = now + max(
                misses.delay(misses.attempts - 2), FRUITLESS_GAP
            )
        self._buffer.put_reset(partition, generation, found.offset)

    def _ask_for_end(self, partition: TopicPartition, generation: int, timestamp: int) -> None:
        """No record is that young: begin at the end, but at one that was written just now if there is one.

        So the time is asked for again after the end; between the two orders only this one skips nothing.
        """

        def on_found(found: OffsetAndTimestamp | None, now: float) -> None:
            if self._table.generations.get(partition) == generation:
                self._ask(partition, generation, timestamp, found.offset if found else 0)

        failed = partial(self._on_failed, partition, generation)
        self._look_up(Question(partition, LATEST_TIMESTAMP, on_found, failed))

    def _on_failed(self, partition: TopicPartition, generation: int, error: KafkaError, now: float) -> None:
        if self._table.generations.get(partition) == generation:
            self._not_before[partition] = now + FRUITLESS_GAP
            self._buffer.put(Problem(partition, generation, -1, error))
