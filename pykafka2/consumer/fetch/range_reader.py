"""A range of one partition's offsets as columns, without group, assignment or position: `read_range`.

Any caller's thread; each reader has its own fetches, one under way ahead of what is handed over, and shares
nothing with poll() but the connections.  Neighbours: fetched_data.py decodes; cluster/ sends again what may
be.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from pykafka2.cluster.client import ClusterClient
from pykafka2.cluster.snapshot import TopicSnapshot
from pykafka2.consumer.fetch.fetched_data import FetchedData, log_truncated, without_frames
from pykafka2.consumer.fetch.offset_lookups import OffsetQueries
from pykafka2.consumer.options import ConsumerOptions
from pykafka2.consumer.reset_policy import EARLIEST_TIMESTAMP
from pykafka2.driver.completion import Completion
from pykafka2.driver.pollable import ToLeader
from pykafka2.errors import (
    InconsistentTopicId,
    KafkaError,
    KafkaTimeoutError,
    NoBrokersAvailable,
    OffsetOutOfRange,
    UnknownServerError,
    UnknownTopicId,
    UnknownTopicOrPartition,
    error_of,
)
from pykafka2.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from pykafka2.protocol.primitives import ZERO_UUID
from pykafka2.records.columns import Columns
from pykafka2.types import READ_COMMITTED, TopicPartition

# Topics are named by their ids from here on (KIP-516).
FIRST_VERSION_WITH_IDS = 13
# Rows are cut at the range's end, not counted.
NO_LIMIT = 1 << 62
# An answer that brings nothing is not asked for again sooner than so long after it was asked for.
FRUITLESS_GAP = 0.1
# A topic or a partition that brokers do not know is given up after so many seconds: they may hear of a new
# one a little late, but offsets that are to be read are of one that was there.
PATIENCE_WITH_MISSING = 5.0
# Nor is an offset behind a log's end given up before: a leader that was replaced may not have heard of it.
PATIENCE_WITH_SHORT_LOGS = 5.0
# The driver ends calls itself, with better words than a waiter has.
GRACE = 1.0


class _FailedForNow(UnknownServerError):
    """A broker failed without a code for it: it may do better next time, as poll() takes it, too."""

    retriable = True


@attrs.define(eq=False)
class RangeReader:
    """Reads one range; `pieces` is what `KafkaConsumer.read_range` returns."""

    _options: ConsumerOptions
    _cluster: ClusterClient
    _queries: OffsetQueries
    _partition: TopicPartition
    _start: int
    _end: int
    _isolation: int
    _max_bytes: int
    _topic_id: bytes = ZERO_UUID
    _epoch: int = -1
    """The leader epoch of the record before the one that is asked for, by which a broker sees whether its log
    was cut (KIP-320); -1 while it is not known."""

    def pieces(self) -> Iterator[Columns]:
        position, clock = self._start, self._cluster.driver.clock
        if position >= self._end:
            return
        self._find_topic()
        waited_since = asked_at = clock.monotonic()
        under_way = self._ask(position)
        try:
            while position < self._end:
                try:
                    told = self._answer(under_way)
                except OffsetOutOfRange as missed:
                    self._raise_if_gone(position, missed, clock.monotonic() - waited_since)
                    self._pause(asked_at + FRUITLESS_GAP - clock.monotonic())
                    asked_at, under_way = clock.monotonic(), self._ask(position)
                    continue
                if told.diverging_epoch.end_offset >= 0:
                    raise log_truncated(self._partition, position, self._epoch, told.diverging_epoch)
                aborted = told.aborted_transactions if self._isolation == READ_COMMITTED else None
                data = None
                if told.records:
                    data = FetchedData(self._partition, 0, position, memoryview(told.records), aborted)
                next_offset = position if data is None else data.next_offset
                if data is not None and position < next_offset < self._end:
                    self._epoch = data.last_epoch
                    asked_at, under_way = clock.monotonic(), self._ask(next_offset)
                if data is None or (next_offset == position and data.error is None):
                    self._raise_if_late(position, told, clock.monotonic() - waited_since)
                    self._pause(asked_at + FRUITLESS_GAP - clock.monotonic())
                    asked_at, under_way = clock.monotonic(), self._ask(position)
                    continue
                is_all_read = False
                while not is_all_read:  # a large batch takes several steps, and others may follow it
                    position, columns, error = self._decode(data, position)
                    if columns:
                        yield columns
                    if error is not None:
                        raise error
                    is_all_read = position >= min(next_offset, self._end)
                position, waited_since = next_offset, clock.monotonic()
        finally:
            under_way.cancel()

    # ------------------------------------------------------------------ inside

    def _find_topic(self) -> None:
        topic, number = self._partition
        patience = min(PATIENCE_WITH_MISSING, self._options.default_api_timeout)
        try:
            known = self._cluster.wait_for_topic(topic, patience)
        except (KafkaTimeoutError, NoBrokersAvailable):  # nobody has said that it is missing
            left = self._options.default_api_timeout - patience
            if left <= 0:
                raise
            known = self._cluster.wait_for_topic(topic, left)
        if number not in known.partitions:
            known = self._with_partition(known, patience)
        self._topic_id = known.topic_id

    def _with_partition(self, known: TopicSnapshot, patience: float) -> TopicSnapshot:
        """The topic with the partition, which may have been added since the client heard of the topic."""
        (topic, number), monotonic = self._partition, self._cluster.driver.clock.monotonic
        deadline = monotonic() + patience
        while number not in known.partitions:
            left = deadline - monotonic()
            if left <= 0 or not self._cluster.wait_for_metadata(self._cluster.metadata.version, left):
                count = len(known.partitions)
                raise UnknownTopicOrPartition(
                    f"topic {topic!r} has {count} partitions and no partition {number}"
                )
            known = self._cluster.wait_for_topic(topic, max(deadline - monotonic(), 0.0))
        return known

    def _ask(self, position: int) -> Completion[FetchResponse]:
        topic, number = self._partition
        return self._cluster.start(
            self._request(position),
            ToLeader(topic, number),
            check=lambda response: self._refusal(response, position),
            max_version=None if self._topic_id != ZERO_UUID else FIRST_VERSION_WITH_IDS - 1,
            renewed=lambda: self._request(position),
        )

    def _request(self, position: int) -> FetchRequest:
        options, (topic, number) = self._options, self._partition
        asked = FetchPartition(
            partition=number,
            fetch_offset=position,
            last_fetched_epoch=self._epoch,
            partition_max_bytes=self._max_bytes,
        )
        return FetchRequest(
            max_wait_ms=int(options.fetch_max_wait * 1000),
            min_bytes=1,
            max_bytes=self._max_bytes,
            isolation_level=self._isolation,
            topics=[FetchTopic(topic=topic, topic_id=self._topic_id, partitions=[asked])],
        )

    def _refusal(self, response: FetchResponse, position: int) -> KafkaError | None:
        told = self._told(response)
        code = response.error_code or (told.error_code if told is not None else 0)
        if not code:
            return None
        why = error_of(code)
        if isinstance(why, UnknownTopicId | InconsistentTopicId):
            self._follow_topic(position)
        if isinstance(why, UnknownServerError):
            return _FailedForNow(f"{self._partition} at offset {position}: {why}")
        if told is None or response.error_code:
            return why
        if isinstance(why, OffsetOutOfRange):  # its own words are for who has a position
            words = "the offset is outside the log; see beginning_offsets() and end_offsets()"
            return error_of(code, f"{self._partition} at offset {position}: {words}")
        return error_of(code, f"{self._partition} at offset {position}: {why}")

    def _follow_topic(self, position: int) -> None:
        """The broker does not know the topic's id, on the driver's thread.

        What the client knew may be old, from before the topic was made anew; then the range is the new one's,
        unless some of the old one's records are handed over.
        """
        topic = self._partition.topic
        known = self._cluster.metadata.topic(topic)
        if known is None or not known.is_usable or known.topic_id == self._topic_id:
            return  # metadata is asked for again, before the next attempt
        if position > self._start:
            raise UnknownTopicOrPartition(f"{self._partition} at offset {position}: the topic was made anew")
        self._topic_id = known.topic_id

    def _answer(self, under_way: Completion[FetchResponse]) -> PartitionData:
        left = self._options.default_api_timeout + GRACE
        # Closing the client ends the request, with words of its own: `is_closed` is not to be looked at here.
        while left > 0 and not self._cluster.driver.wait_until(
            under_way.done, min(left, PATIENCE_WITH_MISSING), under_way.waiters
        ):
            left -= PATIENCE_WITH_MISSING
            self._raise_if_missing()
        told = self._told(under_way.result(0))
        # An answer that does not speak of the partition is as good as one that brings nothing.
        return told or PartitionData(partition_index=self._partition.partition, high_watermark=-1)

    def _told(self, response: FetchResponse) -> PartitionData | None:
        """Return this partition's data of the response and ignore other partitions."""
        name, number = self._partition
        for topic in response.responses:
            if topic.topic == name or (topic.topic_id == self._topic_id != ZERO_UUID):
                for one in topic.partitions:
                    if one.partition_index == number:
                        return one
        return None

    def _raise_if_missing(self) -> None:
        """Raise if the topic is missing on the brokers; one broker alone is not believed."""
        known = self._cluster.metadata.topic(self._partition.topic)
        if known is not None and known.is_gone:
            raise UnknownTopicOrPartition(f"{self._partition}: {known.error}")

    def _pause(self, seconds: float) -> None:
        """Brokers hold a fetch until there is something; one that does not is not asked all the time."""
        if seconds > 0:
            self._cluster.driver.wait_until(lambda: self._cluster.is_closed, seconds)

    def _raise_if_gone(self, position: int, error: OffsetOutOfRange, seconds: float) -> None:
        """Raise if the position is below the log start; a leader that lacks later offsets can be outdated, so
        it is retried."""
        info = self._cluster.metadata.partition(*self._partition)
        if info is None or info.leader_epoch >= self._epoch:
            self._epoch = -1  # the broker may only know nothing of that epoch
        limit = min(PATIENCE_WITH_SHORT_LOGS, self._options.default_api_timeout)
        if seconds >= limit:
            raise error
        first = self._queries.ends([self._partition], EARLIEST_TIMESTAMP, self._options.default_api_timeout)
        if position < first[self._partition]:
            raise error
        self._cluster.metadata.request_update(error)

    def _raise_if_late(self, position: int, told: PartitionData, seconds: float) -> None:
        """Records that are not there yet are waited for, as long as a call may take."""
        limit = self._options.default_api_timeout
        if seconds >= limit:
            end = told.high_watermark
            if self._isolation == READ_COMMITTED and told.last_stable_offset >= 0:
                end = told.last_stable_offset
            readable = f"records can be read up to {end}" if end >= 0 else "no answer speaks of it"
            raise KafkaTimeoutError(
                f"{self._partition}: no records from offset {position} on within {limit:g} s; the range ends "
                f"at {self._end}, and {readable}"
            )

    def _decode(self, data: FetchedData, position: int) -> tuple[int, Columns, KafkaError | None]:
        """The next position, the records up to it, and why the rest cannot be read."""
        options, columns = self._options, Columns()
        try:
            position = data.take_columns(
                position, NO_LIMIT, columns, options.check_crcs, options.max_decompressed_bytes, self._end
            )
        except KafkaError as error:
            return position, columns, without_frames(error)
        return position, columns, None
