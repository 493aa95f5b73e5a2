"""Reads a range of one partition's offsets as columns, without group, assignment or position (`read_range`).

Used on any thread. Each reader has its own fetches, one of them in flight ahead of the application, and
shares only the connections with poll(). Neighbors: fetched_data.py decodes; cluster/ retries requests.
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
from pykafka2.records.columns import Columns, GrowingColumns
from pykafka2.text import counted
from pykafka2.types import READ_COMMITTED, TopicPartition

# Fetch requests identify topics by id from this version on (KIP-516).
FIRST_VERSION_WITH_IDS = 13
# The range ends at an offset, not after a number of rows.
NO_LIMIT = 1 << 62
# Minimum seconds between two fetches if the first one returned nothing.
FRUITLESS_GAP = 0.1
# Seconds to wait for an unknown topic or partition.  Metadata of a new one can arrive late, but a range of
# offsets usually belongs to an existing one.
PATIENCE_WITH_MISSING = 5.0
# Seconds to wait for an offset after the log end, which an outdated leader may not know yet.
PATIENCE_WITH_SHORT_LOGS = 5.0
# The driver fails calls at their deadline itself, with a better message than a waiter has.
GRACE = 1.0


class _FailedForNow(UnknownServerError):
    """An unknown server error that is retried, as in poll()."""

    retriable = True


@attrs.define(eq=False)
class RangeReader:
    """Reads one range; `KafkaConsumer.read_range` returns `pieces`."""

    _options: ConsumerOptions
    _cluster: ClusterClient
    _queries: OffsetQueries
    _partition: TopicPartition
    _start: int
    _end: int
    _isolation: int
    _max_bytes: int
    _wanted_id: bytes | None
    """The id that the topic must have; None for any."""
    _topic_id: bytes = ZERO_UUID
    _epoch: int = -1
    """The leader epoch of the record before the next one, -1 if unknown.  The broker uses it to detect a
    truncated log (KIP-320)."""

    def pieces(self) -> Iterator[Columns]:
        position, clock = self._start, self._cluster.driver.clock
        if position >= self._end:
            return
        self._find_topic()
        waited_since = sent_at = clock.monotonic()
        in_flight = self._fetch(position)
        try:
            while position < self._end:
                try:
                    fetched = self._await_response(in_flight)
                except OffsetOutOfRange as missed:
                    self._raise_if_gone(position, missed, clock.monotonic() - waited_since)
                    self._pause(sent_at + FRUITLESS_GAP - clock.monotonic())
                    sent_at, in_flight = clock.monotonic(), self._fetch(position)
                    continue
                if fetched.diverging_epoch.end_offset >= 0:
                    raise log_truncated(self._partition, position, self._epoch, fetched.diverging_epoch)
                aborted = fetched.aborted_transactions if self._isolation == READ_COMMITTED else None
                data = None
                if fetched.records:
                    data = FetchedData(self._partition, 0, position, memoryview(fetched.records), aborted)
                next_offset = position if data is None else data.next_offset
                if data is not None and position < next_offset < self._end:
                    self._epoch = data.last_epoch
                    sent_at, in_flight = clock.monotonic(), self._fetch(next_offset)
                if data is None or (next_offset == position and data.error is None):
                    self._raise_if_late(position, fetched, clock.monotonic() - waited_since)
                    self._pause(sent_at + FRUITLESS_GAP - clock.monotonic())
                    sent_at, in_flight = clock.monotonic(), self._fetch(position)
                    continue
                is_all_read = False
                while not is_all_read:  # a large batch takes several steps, and other batches can follow it
                    position, columns, error = self._decode(data, position)
                    if columns:
                        yield columns
                    if error is not None:
                        raise error
                    is_all_read = position >= min(next_offset, self._end)
                position, waited_since = next_offset, clock.monotonic()
        finally:
            in_flight.cancel()

    # ------------------------------------------------------------------ metadata and requests

    def _find_topic(self) -> None:
        topic, number = self._partition
        patience = min(PATIENCE_WITH_MISSING, self._options.default_api_timeout)
        try:
            known = self._cluster.wait_for_topic(topic, patience)
        except (KafkaTimeoutError, NoBrokersAvailable):  # no broker has reported the topic as missing
            left = self._options.default_api_timeout - patience
            if left <= 0:
                raise
            known = self._cluster.wait_for_topic(topic, left)
        if number not in known.partitions:
            known = self._with_partition(known, patience)
        # The broker compares the ids, because this metadata can be older than the caller's.
        self._topic_id = self._wanted_id or known.topic_id

    def _with_partition(self, known: TopicSnapshot, patience: float) -> TopicSnapshot:
        """Wait until the metadata of the topic has the partition, which can be new; return the topic."""
        (topic, number), monotonic = self._partition, self._cluster.driver.clock.monotonic
        deadline = monotonic() + patience
        while number not in known.partitions:
            left = deadline - monotonic()
            if left <= 0 or not self._cluster.wait_for_metadata(self._cluster.metadata.version, left):
                count = len(known.partitions)
                raise UnknownTopicOrPartition(
                    f"topic {topic!r} has {counted(count, 'partition')} and no partition {number}"
                )
            known = self._cluster.wait_for_topic(topic, max(deadline - monotonic(), 0.0))
        return known

    def _fetch(self, position: int) -> Completion[FetchResponse]:
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
        entry = FetchPartition(
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
            topics=[FetchTopic(topic=topic, topic_id=self._topic_id, partitions=[entry])],
        )

    def _refusal(self, response: FetchResponse, position: int) -> KafkaError | None:
        fetched = self._partition_data(response)
        code = response.error_code or (fetched.error_code if fetched is not None else 0)
        if not code:
            return None
        why = error_of(code)
        if isinstance(why, UnknownTopicId | InconsistentTopicId):
            self._follow_topic(position)
        if isinstance(why, UnknownServerError):
            return _FailedForNow(f"{self._partition} at offset {position}: {why}")
        if fetched is None or response.error_code:
            return why
        if isinstance(why, OffsetOutOfRange):  # its own message is about the consumer's position
            words = "the offset is outside the log; see beginning_offsets() and end_offsets()"
            return error_of(code, f"{self._partition} at offset {position}: {words}")
        return error_of(code, f"{self._partition} at offset {position}: {why}")

    def _follow_topic(self, position: int) -> None:
        """Switch to the current topic id after the broker rejected the old one; on the driver's thread.

        The topic was created again. The range is then read from the new topic, unless records of the old one
        were returned already, or the caller wants the old one.
        """
        topic = self._partition.topic
        known = self._cluster.metadata.topic(topic)
        if known is None or not known.is_usable or known.topic_id == self._topic_id:
            return  # the metadata is updated before the next attempt
        if self._topic_id == self._wanted_id or position > self._start:
            raise UnknownTopicOrPartition(
                f"{self._partition} at offset {position}: the topic was deleted and created again"
            )
        self._topic_id = known.topic_id

    def _await_response(self, in_flight: Completion[FetchResponse]) -> PartitionData:
        left = self._options.default_api_timeout + GRACE
        # No check of `is_closed` is needed: closing the client fails the request with its own message.
        while left > 0 and not self._cluster.driver.wait_until(
            in_flight.done, min(left, PATIENCE_WITH_MISSING), in_flight.waiters
        ):
            left -= PATIENCE_WITH_MISSING
            self._raise_if_missing()
        fetched = self._partition_data(in_flight.result(0))
        # A response without the partition is handled like one without records.
        return fetched or PartitionData(partition_index=self._partition.partition, high_watermark=-1)

    def _partition_data(self, response: FetchResponse) -> PartitionData | None:
        """Return this partition's data of the response and ignore other partitions."""
        name, number = self._partition
        for topic in response.responses:
            if topic.topic == name or (topic.topic_id == self._topic_id != ZERO_UUID):
                for partition in topic.partitions:
                    if partition.partition_index == number:
                        return partition
        return None

    def _raise_if_missing(self) -> None:
        """Raise if the topic is missing; the report of a single broker is not enough."""
        known = self._cluster.metadata.topic(self._partition.topic)
        if known is not None and known.is_gone:
            raise UnknownTopicOrPartition(f"{self._partition}: {known.error}")

    def _pause(self, seconds: float) -> None:
        """Wait between two fetches, in case the broker responds to empty fetches immediately."""
        if seconds > 0:
            self._cluster.driver.wait_until(lambda: self._cluster.is_closed, seconds)

    def _raise_if_gone(self, position: int, error: OffsetOutOfRange, seconds: float) -> None:
        """Raise if the position is below the log start; a leader that lacks later offsets can be outdated, so
        it is retried."""
        info = self._cluster.metadata.partition(*self._partition)
        if info is None or info.leader_epoch >= self._epoch:
            self._epoch = -1  # perhaps only the epoch is unknown to the broker
        limit = min(PATIENCE_WITH_SHORT_LOGS, self._options.default_api_timeout)
        if seconds >= limit:
            raise error
        first = self._queries.ends([self._partition], EARLIEST_TIMESTAMP, self._options.default_api_timeout)
        if position < first[self._partition]:
            raise error
        self._cluster.metadata.request_update(error)

    def _raise_if_late(self, position: int, fetched: PartitionData, seconds: float) -> None:
        """Raise if no record has arrived within default_api_timeout_ms."""
        limit = self._options.default_api_timeout
        if seconds >= limit:
            end = fetched.high_watermark
            if self._isolation == READ_COMMITTED and fetched.last_stable_offset >= 0:
                end = fetched.last_stable_offset
            readable = f"records can be read up to {end}" if end >= 0 else "no response has the partition"
            raise KafkaTimeoutError(
                f"{self._partition}: no records from offset {position} on within {limit:g} s; the range ends "
                f"at {self._end}, and {readable}"
            )

    def _decode(self, data: FetchedData, position: int) -> tuple[int, Columns, KafkaError | None]:
        """Return the next position, the records up to it, and the error of the rest, if any."""
        options, columns = self._options, GrowingColumns(self._partition)
        try:
            position = data.take_columns(
                position, NO_LIMIT, columns, options.check_crcs, options.max_decompressed_bytes, self._end
            )
        except KafkaError as error:
            return position, columns, without_frames(error)
        return position, columns, None
