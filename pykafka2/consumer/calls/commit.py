"""The calls of `KafkaConsumer` about committed offsets.

Callers' threads; the work is done by commit/committer.py and commit/offset_fetch.py.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any, Literal, overload

from pykafka2.cluster.arguments import checked_partition, checked_partitions, describe_argument
from pykafka2.cluster.offset_arguments import OffsetsToCommit, checked_offsets
from pykafka2.consumer.calls.arguments import checked_timeout
from pykafka2.consumer.core import Owned, owned
from pykafka2.consumer.state.subscription import Mode
from pykafka2.errors import IllegalState
from pykafka2.option_fields import NOT_AWAITED, is_async
from pykafka2.other_clients import explaining
from pykafka2.types import ConsumerGroupMetadata, ConsumerRecord, OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from pykafka2.driver.completion import Completion

logger = logging.getLogger(__name__)


class CommitCalls(Owned):
    """Mixed into the consumer."""

    _is_warned = False

    @owned
    def commit(self, offsets: OffsetsToCommit | None = None, timeout_ms: float | None = None) -> None:
        """Commit offsets to the group, and wait until they are written.

        It first waits for earlier asynchronous commits and calls their callbacks. Retriable errors are
        retried until `timeout_ms` (default_api_timeout_ms by default). After a Ctrl-C it is unknown whether
        the offsets were committed.

        Args:
            offsets: the offset of the next record to read, by partition: the last processed offset plus one.
                None commits the positions after the returned records; with enable_auto_offset_store=False,
                the offsets of `store_offsets`. Those in deleted topics are left out.
            timeout_ms: milliseconds.

        Raises:
            CommitFailed: the group has assigned this member's partitions to others; the message names the
                reason.
            RebalanceInProgress: the group is rebalancing; call `poll`, then commit again.
            FencedInstanceId: another member uses the same group_instance_id.
            KafkaTimeoutError: the commit was not acknowledged in time; the message has the last error.
            GroupAuthorizationFailed, TopicAuthorizationFailed, OffsetMetadataTooLarge: the broker rejects it.
            UnknownTopicId: a topic in `offsets` was deleted and created again; they belong to the old one.
            UnknownTopicOrPartition: a topic in `offsets` was deleted or never existed.
            IllegalState: there is no group_id.
            IllegalArgument: an offset or partition is invalid.
        """
        committer = self._core.group_for("commit").committer
        timeout = (
            self._core.options.default_api_timeout if timeout_ms is None else checked_timeout(timeout_ms)
        )
        committer.commit(None if offsets is None else checked_offsets(offsets), timeout)

    def commit_sync(self, offsets: OffsetsToCommit | None = None, timeout_ms: float | None = None) -> None:
        """`commit`, by the Java client's name."""
        self.commit(offsets, timeout_ms)

    @owned
    def commit_async(
        self,
        offsets: OffsetsToCommit | None = None,
        callback: Callable[[Mapping[TopicPartition, OffsetAndMetadata], Any], Any] | None = None,
    ) -> Completion[None]:
        """Commit offsets without waiting. The commit is sent once and fails after request_timeout_ms.

        Callbacks run in the order of the commits, on the caller's thread inside `poll`, `commit`,
        `commit_async` or `close`. A retriable error is a `RetriableCommitFailed`: commit the latest offsets
        again.

        Args:
            offsets: as for `commit`.
            callback: called as callback(offsets, error); error is None after a success. By default
                default_offset_commit_callback is called, which logs errors.

        Raises:
            IllegalState: there is no group_id.
        """
        committer = self._core.group_for("commit_async").committer
        if callback is not None and not callable(callback):
            raise TypeError(f"callback={callback!r} is not callable; pass f(offsets, error)")
        if is_async(callback):
            raise TypeError(f"callback={callback!r}: {NOT_AWAITED}")
        return committer.commit_async(None if offsets is None else checked_offsets(offsets), callback)

    @owned
    def store_offsets(
        self, record: ConsumerRecord[Any, Any] | None = None, offsets: OffsetsToCommit | None = None
    ) -> None:
        """Store the offsets that the next commit commits, automatic or not.

        It needs enable_auto_offset_store=False; only stored offsets are committed then. `seek` and a
        revocation of the partition discard its stored offset.

        Args:
            record: a processed record; the offset after it is stored.
            offsets: offsets as for `commit`, instead of a record.

        Raises:
            IllegalState: there is no group_id, enable_auto_offset_store is True, or a partition is not
                assigned.
        """
        self._core.group_for("store_offsets")
        if self._core.options.enable_auto_offset_store:
            raise IllegalState(
                "store_offsets() needs enable_auto_offset_store=False; otherwise poll() stores the offsets"
            )
        if (record is None) == (offsets is None):
            raise TypeError("store_offsets() takes either a record or offsets")
        if record is not None:
            argument: object = record
            if not isinstance(argument, ConsumerRecord):
                is_offsets = isinstance(argument, Mapping)
                remedy = "write store_offsets(offsets=...)" if is_offsets else "call it for each record"
                shown = describe_argument(argument)
                raise TypeError(f"store_offsets() takes a record that poll() returned, not {shown}; {remedy}")
            offset = OffsetAndMetadata(record.offset + 1, "", record.leader_epoch)
            stored = {TopicPartition(record.topic, record.partition): offset}
        else:
            stored = checked_offsets(offsets or {})
        for partition in stored:
            self._core.subscription.find(partition)
        self._core.subscription.stored.update(stored)

    @overload
    def committed(
        self,
        partition: TopicPartition,
        metadata: Literal[False] = False,
        timeout_ms: float | None = None,
    ) -> int | None: ...
    @overload
    def committed(
        self, partition: TopicPartition, metadata: Literal[True], timeout_ms: float | None = None
    ) -> OffsetAndMetadata | None: ...
    @overload
    def committed(
        self,
        partition: list[TopicPartition] | AbstractSet[TopicPartition],
        metadata: bool = False,
        timeout_ms: float | None = None,
    ) -> dict[TopicPartition, OffsetAndMetadata | None]: ...
    @explaining
    def committed(
        self,
        partition: TopicPartition | Iterable[TopicPartition],
        metadata: bool = False,
        timeout_ms: float | None = None,
    ) -> Any:
        """Return the group's committed offset, even if the partition is not assigned to this consumer.

        It waits for the end of an open transaction that contains offsets of these partitions.

        Args:
            partition: one partition returns its offset, or None without a commit; a list or set of partitions
                returns a dict of `OffsetAndMetadata` or None.
            metadata: True returns an `OffsetAndMetadata` for one partition, too.
            timeout_ms: milliseconds; default_api_timeout_ms by default.

        Raises:
            KafkaTimeoutError, NoBrokersAvailable: no coordinator responded within `timeout_ms`.
            GroupAuthorizationFailed, TopicAuthorizationFailed: the broker rejects the request.
            IllegalState: there is no group_id.
        """
        return self._fetch_committed(partition, metadata, timeout_ms)

    @owned
    def _fetch_committed(self, partition: Any, metadata: bool, timeout_ms: float | None) -> Any:
        driver = self._core.cluster.driver
        began = driver.clock.monotonic()
        try:
            return self._committed_offsets(partition, metadata, timeout_ms)
        finally:
            driver.metrics.count_ns("committed-time-ns-total", driver.clock.monotonic() - began)

    def _committed_offsets(self, partition: Any, metadata: bool, timeout_ms: float | None) -> Any:
        committed = self._core.group_for("committed").committed
        timeout = (
            self._core.options.default_api_timeout if timeout_ms is None else checked_timeout(timeout_ms)
        )
        if _are_several(partition):
            return committed.of(checked_partitions(partition), timeout)
        partition = checked_partition(partition)
        found = committed.of([partition], timeout)[partition]
        return found if metadata or found is None else found.offset

    @owned
    def seek_to_committed(self, *partitions: TopicPartition) -> dict[TopicPartition, int | None]:
        """Continue at the committed offsets of these or all assigned partitions; return the offsets.

        A partition without a committed offset stays at its position; its offset is None. Raise the errors of
        `committed`, too.

        Raises:
            IllegalState: there is no group_id, a partition is not assigned, or no partition is.
        """
        core = self._core
        committed = core.group_for("seek_to_committed").committed
        chosen = checked_partitions(partitions) or core.subscription.some_assigned("seek_to_committed()")
        for partition in chosen:
            core.subscription.find(partition)
        found = committed.of(chosen, core.options.default_api_timeout)
        offsets = {partition: None if one is None else one.offset for partition, one in found.items()}
        for partition, offset in offsets.items():
            if offset is not None and partition in core.subscription.assigned:  # another task can unassign it
                core.handover.rewind([partition])
                core.position_control.seek(partition, offset)
        return offsets

    @owned
    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return the membership metadata for a transactional producer (KIP-447).

        If the group has removed this member, the metadata of the lost membership is returned, and the
        coordinator rejects its offsets. If a topic was deleted and created again since the last call, the
        metadata has the id of the topic that was read first, and brokers of Kafka 4.4 reject offsets without
        an id of their own (see `next_offsets`).

        With enable_auto_commit a warning is logged, because automatic commits also commit the offsets of
        aborted transactions.

        Raises:
            IllegalState: there is no group_id.
        """
        group_status = self._core.group_for("group_metadata").group_status
        options = self._core.options
        if options.enable_auto_commit and options.enable_auto_offset_store and not self._is_warned:
            self._is_warned = True
            logger.warning(
                "group_metadata(): the consumer of group %r also commits automatically, so records of an "
                "aborted transaction can be lost; set enable_auto_commit=False",
                group_status.group_id,
            )
        is_member = self._core.subscription.mode is Mode.TOPICS
        identity = group_status.last_membership if is_member else group_status.identity
        return ConsumerGroupMetadata(
            group_status.group_id,
            identity.generation_id,
            identity.member_id,
            identity.group_instance_id,
            topic_ids=self._core.topics_read.ids(),
        )


def _are_several(partition: object) -> bool:
    """Return whether this is a collection of partitions; a TopicPartition is a tuple, too."""
    if isinstance(partition, tuple):
        return bool(partition) and isinstance(partition[0], tuple)
    return isinstance(partition, Iterable) and not isinstance(partition, str | bytes)
