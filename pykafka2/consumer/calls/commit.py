"""The calls of `KafkaConsumer` about committed offsets.

Callers' threads; the work is done by commit/committer.py and commit/offset_fetch.py.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any, Literal, overload

from pykafka2.cluster.arguments import checked_partition, checked_partitions, instead
from pykafka2.cluster.offset_arguments import GivenOffsets, checked_offsets
from pykafka2.consumer.calls.arguments import checked_timeout
from pykafka2.consumer.calls.guards import Owned, owned
from pykafka2.consumer.state.subscription import Mode
from pykafka2.errors import IllegalState
from pykafka2.option_fields import NOT_AWAITED, is_async
from pykafka2.types import ConsumerGroupMetadata, ConsumerRecord, OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from pykafka2.consumer.group.group import Group
    from pykafka2.consumer.options import ConsumerOptions
    from pykafka2.consumer.state.subscription import Subscription
    from pykafka2.driver.completion import Completion

logger = logging.getLogger(__name__)


class CommitCalls(Owned):
    """Mixed into the consumer."""

    _options: ConsumerOptions
    _subscription: Subscription
    _group: Group | None
    _is_warned = False

    @owned
    def commit(self, offsets: GivenOffsets | None = None, timeout_ms: float | None = None) -> None:
        """Commit offsets to the group, and wait until they are written.

        Waits for the asynchronous commits before it too, and has called their callbacks when it returns.
        Errors that pass are met by trying again until `timeout_ms` (default_api_timeout_ms by default: 60 s).
        A Ctrl-C ends the wait; the commit may have been written then.

        Args:
            offsets: the offset of the next record to be read, by partition: that of the last record done,
                plus one.  None commits the places up to which records were handed to you; with
                enable_auto_offset_store=False what `store_offsets` marked.

        Raises:
            CommitFailed: the group has given this member's partitions to others; the message says why.
            RebalanceInProgress: the group is sharing its partitions; poll, then commit again.
            FencedInstanceId: another member has the same group_instance_id.
            KafkaTimeoutError: not acknowledged in time; the message has the last reason.
            GroupAuthorizationFailed, TopicAuthorizationFailed, OffsetMetadataTooLarge: refused.
            UnknownTopicId: a topic was deleted and made anew meanwhile; the offsets are of the old one.
            IllegalState: there is no group_id.
        """
        committer = self._with_group("commit").committer
        timeout = self._options.default_api_timeout if timeout_ms is None else checked_timeout(timeout_ms)
        committer.commit(None if offsets is None else checked_offsets(offsets), timeout)

    def commit_sync(self, offsets: GivenOffsets | None = None, timeout_ms: float | None = None) -> None:
        """`commit`, by the Java client's name."""
        self.commit(offsets, timeout_ms)

    @owned
    def commit_async(
        self,
        offsets: GivenOffsets | None = None,
        callback: Callable[[Mapping[TopicPartition, OffsetAndMetadata], Any], Any] | None = None,
    ) -> Completion[None]:
        """Commit without waiting.  `offsets` as for `commit`.

        `callback(offsets, error)` is called with None or with the error, in the order of the commits, on
        your thread inside `poll`, `commit`, `commit_async` or `close`.  Without one,
        default_offset_commit_callback is called; that logs errors.  Such a commit is sent once: one that
        fails for a reason that passes is a `RetriableCommitFailed`, and you commit the latest offsets again.
        It is given up after request_timeout_ms.

        Raises:
            IllegalState: there is no group_id.
        """
        committer = self._with_group("commit_async").committer
        if callback is not None and not callable(callback):
            raise TypeError(f"callback={callback!r} is not callable; give f(offsets, error)")
        if is_async(callback):
            raise TypeError(f"callback={callback!r}: {NOT_AWAITED}")
        return committer.commit_async(None if offsets is None else checked_offsets(offsets), callback)

    @owned
    def store_offsets(
        self, record: ConsumerRecord[Any, Any] | None = None, offsets: GivenOffsets | None = None
    ) -> None:
        """Mark what is done, to be committed by the next commit, automatic or not.

        For enable_auto_offset_store=False, where nothing else is committed.  Give a record that is done, or
        offsets as for `commit`.  A mark is forgotten when its partition is given away or sought elsewhere.

        Raises:
            IllegalState: there is no group_id, enable_auto_offset_store is on, or the partition is not
                assigned.
        """
        self._with_group("store_offsets")
        if self._options.enable_auto_offset_store:
            raise IllegalState("store_offsets() needs enable_auto_offset_store=False; else poll() marks")
        if (record is None) == (offsets is None):
            raise TypeError("store_offsets() takes a record or offsets: one of the two")
        if record is not None:
            given: object = record
            if not isinstance(given, ConsumerRecord):
                meant = "write store_offsets(offsets=...)" if isinstance(given, Mapping) else "one by one"
                raise TypeError(
                    f"store_offsets() takes a record that poll() returned, not {instead(given)}; {meant}"
                )
            place = OffsetAndMetadata(record.offset + 1, "", record.leader_epoch)
            marks = {TopicPartition(record.topic, record.partition): place}
        else:
            marks = checked_offsets(offsets or {})
        for partition in marks:
            self._subscription.find(partition)
        self._subscription.stored.update(marks)

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
    def committed(
        self,
        partition: TopicPartition | Iterable[TopicPartition],
        metadata: bool = False,
        timeout_ms: float | None = None,
    ) -> Any:
        """Return the group's committed offset, even if the partition is not assigned to this consumer.

        Of one partition the offset, with `metadata=True` an `OffsetAndMetadata`, None if there is none; of
        several (a list, a set, the keys of a dict) a dict of `OffsetAndMetadata` or None.  Offsets of an open
        transaction are waited for.

        Raises:
            KafkaTimeoutError, NoBrokersAvailable: no answer within `timeout_ms` (default_api_timeout_ms).
            GroupAuthorizationFailed, TopicAuthorizationFailed: refused.
            IllegalState: there is no group_id.
        """
        return self._ask_committed(partition, metadata, timeout_ms)

    @owned
    def _ask_committed(self, partition: Any, metadata: bool, timeout_ms: float | None) -> Any:
        committed = self._with_group("committed").committed
        timeout = self._options.default_api_timeout if timeout_ms is None else checked_timeout(timeout_ms)
        if _are_several(partition):
            return committed.of(checked_partitions(partition), timeout)
        one = checked_partition(partition)
        found = committed.of([one], timeout)[one]
        return found if metadata or found is None else found.offset

    @owned
    def group_metadata(self) -> ConsumerGroupMetadata:
        """Return the membership metadata for a transactional producer (KIP-447).

        Of one that has been lost since, while the consumer is subscribed: with that the coordinator refuses
        the offsets of what others may have read by now.  A consumer that also commits by itself is warned of:
        what a transaction has read would count as done though it is aborted.

        Raises:
            IllegalState: there is no group_id.
        """
        standing = self._with_group("group_metadata").standing
        options = self._options
        if options.enable_auto_commit and options.enable_auto_offset_store and not self._is_warned:
            self._is_warned = True
            logger.warning(
                "group_metadata() is for transactions, and this consumer of group %r commits by itself, "
                "whether they are committed or aborted: records may be lost; set enable_auto_commit=False",
                standing.group_id,
            )
        is_member = self._subscription.mode is Mode.TOPICS
        identity = standing.last_membership if is_member else standing.identity
        return ConsumerGroupMetadata(
            standing.group_id, identity.generation_id, identity.member_id, identity.group_instance_id
        )

    def _with_group(self, what: str) -> Group:
        if self._group is None:
            raise IllegalState(
                f"{what}() needs a group to commit to: make the consumer with group_id=...; without one, "
                "keep position() yourself and come back to it with seek()"
            )
        return self._group


def _are_several(partition: object) -> bool:
    """Whether it is a collection of partitions; one of them is a tuple, too."""
    if isinstance(partition, tuple):
        return bool(partition) and isinstance(partition[0], tuple)
    return isinstance(partition, Iterable) and not isinstance(partition, str | bytes)
