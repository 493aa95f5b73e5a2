"""The asyncio consumer's signature.  Its behaviour comes with the asyncio facade (design section 1).

What waits for the cluster is a coroutine; what only changes or reads the consumer's own state is not.
tests/typing holds it against `pykafka2.KafkaConsumer`, name by name and parameter by parameter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, Self

from pykafka2.types import (
    ConsumerGroupMetadata,
    ConsumerRecord,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    TopicPartition,
)

if TYPE_CHECKING:
    from pykafka2.consumer.group_calls import Offsets
    from pykafka2.consumer.reader import Records
    from pykafka2.records.columns import Columns


class KafkaConsumer(Protocol):
    """`pykafka2.KafkaConsumer` on the event loop: same options, names, parameters and errors.

    Belongs to the loop that is running when it is entered, and to one task at a time: a second one inside a
    call raises `ConcurrentUse`.  Heartbeats live off the loop, so a blocked loop does not evict the member.
    Cancelling a call ends it early (there is no `wakeup`), and a cancelled `poll` loses no record: the
    position moves only when records are handed over.
    """

    async def __aenter__(self) -> Self:
        """Belong to the running loop.  Nothing is connected to yet."""
        ...

    async def __aexit__(self, *exception: object) -> None:
        """Close, as `close` without arguments."""
        ...

    def __aiter__(self) -> Self:
        """`async for record in consumer:` hands over one record at a time."""
        ...

    async def __anext__(self) -> ConsumerRecord:
        """The next record.  Ends after consumer_timeout_ms without one; raises as `poll`."""
        ...

    # ------------------------------------------------------------------ what to read

    def subscribe(self, topics: Iterable[str] = (), pattern: str | None = None, listener: Any = None) -> None:
        """Read all partitions of these topics from now on, those added later included; does not wait.

        Replaces an earlier subscription; partitions that stay keep their positions.  The listener's methods
        may be coroutines.

        Raises:
            IllegalState: partitions are assigned by `assign`.
        """
        ...

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions; those that stay keep their positions.  Does not wait.

        Raises:
            IllegalState: topics are subscribed to.
        """
        ...

    def unsubscribe(self) -> None:
        """Read nothing any more, whether subscribed or assigned; positions are forgotten."""
        ...

    def assignment(self) -> set[TopicPartition]:
        """The partitions being read; after `subscribe` they are known once `poll` has met the brokers."""
        ...

    def subscription(self) -> set[str]:
        """The topics subscribed to; empty after `assign`."""
        ...

    # ------------------------------------------------------------------ reading

    async def poll(
        self, timeout_ms: float = 0, max_records: int | None = None, update_offsets: bool = True
    ) -> Records:
        """Records by partition, as soon as there are any; an empty dict after `timeout_ms` milliseconds.

        With 0 it only hands over what has been fetched already.  At most `max_records` (default:
        max_poll_records), in order within a partition.  The position moves past what is handed over; with
        `update_offsets=False` it stays.

        Raises:
            CorruptMessage, CorruptData, SerializationError: a record cannot be read; the position stays.
            OffsetOutOfRange, NoOffsetForPartition: the position is not in the log, or there is none, and
                auto_offset_reset is 'none'.
            UnknownTopicOrPartition, NoBrokersAvailable: a topic is missing, or no broker has been reached,
                for default_api_timeout_ms.
            TopicAuthorizationFailed, InvalidTopicException, TlsError: at once, as no waiting will help.
            ConcurrentUse, ClientClosed, ForkedClientError: called while another task is inside, or too late.
        """
        ...

    async def poll_columns(
        self, timeout_ms: float = 0, max_records: int | None = None
    ) -> dict[TopicPartition, Columns]:
        """As `poll`, column by column: keys, values, offsets, timestamps and headers as lists.

        No deserializer is run.  Batches are handed over whole, so the last one may exceed `max_records`.
        """
        ...

    # ------------------------------------------------------------------ the group

    async def commit(self, offsets: Offsets | None = None, timeout_ms: int | None = None) -> None:
        """Commit offsets to the group (None: the positions), and wait until they are written.

        Not to wait, make a task of it.  `timeout_ms` is in milliseconds (default: default_api_timeout_ms).

        Raises:
            NotYetAvailable: this version has no consumer groups yet.
        """
        ...

    async def committed(
        self, partition: TopicPartition, metadata: bool = False, timeout_ms: int | None = None
    ) -> OffsetAndMetadata | None:
        """What the group has committed for a partition, or None.  Raises as `commit`."""
        ...

    def group_metadata(self) -> ConsumerGroupMetadata:
        """What a transactional producer must know of the membership (KIP-447).  Raises as `commit`."""
        ...

    def enforce_rebalance(self) -> None:
        """Have the group share its partitions anew; the next `poll` does it.  Raises as `commit`."""
        ...

    # ------------------------------------------------------------------ positions

    async def position(self, partition: TopicPartition, timeout_ms: float | None = None) -> int:
        """The offset of the next record of this partition to be handed over.

        Waits at most `timeout_ms` milliseconds (default: default_api_timeout_ms) where the brokers are asked.

        Raises:
            IllegalState: the partition is not assigned.
            KafkaTimeoutError, NoBrokersAvailable, UnknownTopicOrPartition: it was not to be had in time.
        """
        ...

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Go on reading at this offset.  It is not checked here: one outside the log is met with
        auto_offset_reset by `poll`.

        Raises:
            IllegalState: the partition is not assigned.
        """
        ...

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Go to the first record of these partitions (none named: of all assigned); `poll` looks it up."""
        ...

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Go behind the last record of these partitions (none named: of all assigned); `poll` looks it up."""
        ...

    async def beginning_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """The first offset of each partition, assigned or not.

        Raises:
            KafkaTimeoutError, NoBrokersAvailable, UnknownTopicOrPartition: not all were to be had within
                `timeout_ms` milliseconds (default: default_api_timeout_ms).
        """
        ...

    async def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """The offset behind the last record that may be read: the high watermark, or with read_committed the
        last stable offset.  Raises as `beginning_offsets`."""
        ...

    async def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """For each partition the first record at or after a time (milliseconds since the epoch), or None.

        Raises as `beginning_offsets`; `ValueError` for a negative time.
        """
        ...

    def highwater(self, partition: TopicPartition) -> int | None:
        """The end of the partition as of its last fetch, without asking the broker; None before the first."""
        ...

    # ------------------------------------------------------------------ flow

    def pause(self, *partitions: TopicPartition) -> None:
        """Hand over nothing of these partitions until `resume`; what is fetched stays fetched."""
        ...

    def resume(self, *partitions: TopicPartition) -> None:
        """Hand over records of these partitions again."""
        ...

    def paused(self) -> set[TopicPartition]:
        """The partitions that are paused."""
        ...

    # ------------------------------------------------------------------ the cluster

    async def partitions_for_topic(self, topic: str) -> set[int] | None:
        """The topic's partition numbers; None if there is no such topic.

        Raises:
            NoBrokersAvailable, KafkaTimeoutError: no answer within default_api_timeout_ms.
            TopicAuthorizationFailed, InvalidTopicException: the brokers refuse.
        """
        ...

    async def topics(self) -> set[str]:
        """The names of all topics that may be seen; Kafka's own ones only with exclude_internal_topics=False.

        Raises:
            NoBrokersAvailable, KafkaTimeoutError: no answer within default_api_timeout_ms.
        """
        ...

    async def bootstrap(self, timeout_ms: float | None = None, refresh: bool = False) -> None:
        """Meet the brokers now, not with the first call that needs them; again only with `refresh`.

        Raises:
            NoBrokersAvailable, KafkaTimeoutError, TlsError: not within `timeout_ms` milliseconds (default:
                default_api_timeout_ms).
        """
        ...

    def bootstrap_connected(self) -> bool:
        """True while any broker is connected."""
        ...

    def metrics(self, raw: bool = False) -> dict[str, float]:
        """Totals since the start and current values, as plain numbers; `raw` changes nothing."""
        ...

    def health(self) -> dict[str, Any]:
        """What the consumer is doing, as data: state, position and end of each partition, metadata."""
        ...

    def explain(self) -> str:
        """What the consumer is waiting for, in words."""
        ...

    # ------------------------------------------------------------------ the end

    async def close(
        self,
        timeout: float | None = None,
        leave_group: bool = True,
        *,
        autocommit: bool = True,
        timeout_ms: float | None = None,
    ) -> None:
        """Commit (where the group does so by itself, and with `autocommit`), leave the group, and end the
        connections.  Safe to repeat.

        `timeout` is in seconds, `timeout_ms` in milliseconds for those who come from kafka-python; 5 s where
        neither is given.

        Raises:
            ConcurrentUse: another task is inside a call; cancel it first.
        """
        ...
