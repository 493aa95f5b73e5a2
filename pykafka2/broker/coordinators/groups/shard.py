"""One partition of __consumer_offsets as a shard: classic, KIP-848 and share groups, and offsets.

Dispatches requests and records to the parts that handle them, and owns the timers. Runs under the broker's
lock, driven by runtime.py; on_topics passes in the cluster's topics.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from typing import TYPE_CHECKING, Any, Final

from pykafka2.broker.coordinators.groups import describing
from pykafka2.broker.coordinators.groups.classic.group import ClassicGroups
from pykafka2.broker.coordinators.groups.classic.rebalance import Groups
from pykafka2.broker.coordinators.groups.classic.state import ClassicGroup
from pykafka2.broker.coordinators.groups.consumer import records as consumer_records
from pykafka2.broker.coordinators.groups.consumer.state import ConsumerGroup
from pykafka2.broker.coordinators.groups.migration import MixedGroups
from pykafka2.broker.coordinators.groups.offset_requests import Offsets
from pykafka2.broker.coordinators.replay import (
    GROUP_RECORDS,
    Caller,
    Deferred,
    Producer,
    Result,
    decode_record,
)
from pykafka2.broker.coordinators.settings import NO_TOPICS, GroupSettings, Topics
from pykafka2.broker.coordinators.timers import Timers
from pykafka2.errors import BrokerError, IllegalState, InvalidGroupId
from pykafka2.protocol.messages import committed_offsets as offset_messages
from pykafka2.protocol.messages import consumer_group as consumer_messages
from pykafka2.protocol.messages import group as classic_messages
from pykafka2.protocol.messages import group_admin
from pykafka2.protocol.messages.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    LegacyOffsetCommitKey,
    OffsetCommitKey,
    OffsetCommitValue,
)
from pykafka2.protocol.messages.transaction import TxnOffsetCommitRequest
from pykafka2.protocol.registry import ApiKey

if TYPE_CHECKING:
    from pykafka2.broker.coordinators.groups.share.group import ShareGroups
    from pykafka2.broker.coordinators.groups.share.partition_states import ShareContext

SHARE_APIS: Final = frozenset(
    {
        ApiKey.SHARE_GROUP_HEARTBEAT,
        ApiKey.SHARE_GROUP_DESCRIBE,
        ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
        ApiKey.ALTER_SHARE_GROUP_OFFSETS,
        ApiKey.DELETE_SHARE_GROUP_OFFSETS,
    }
)
SHARE_KINDS: Final = frozenset(kind.to_bytes(2, "big") for kind in range(10, 16))
"""The first bytes of the keys of share groups' records."""


class GroupShard:
    """The groups of one partition.

    `wall_ms` converts a time to milliseconds since 1970, `new_id` returns the random part of member ids.
    """

    # like CoordinatorRuntime, which marks the partition's coordinator as failed
    LOADS_WHAT_CAN_BE_READ = False

    def __init__(
        self, settings: GroupSettings, wall_ms: Callable[[float], int], new_id: Callable[[], str]
    ) -> None:
        self.settings = settings
        self.groups: Groups = {}
        self.timers = Timers()
        self.classic = ClassicGroups(self.groups, self.timers, settings, wall_ms, new_id)
        self.consumer = MixedGroups(self.classic, settings, wall_ms, new_id)
        self.offsets = Offsets(self.groups, self.classic, settings, wall_ms)
        self.topics: Topics = NO_TOPICS
        self.share_context: ShareContext | None = None
        self._shares: ShareGroups | None = None
        self._wall_ms = wall_ms
        self._is_loading = True

    @property
    def shares(self) -> ShareGroups:
        """The share groups; imported with the first request or record of one."""
        if self._shares is None:
            from pykafka2.broker.coordinators.groups.share.group import ShareGroups

            if self.share_context is None:
                raise IllegalState("this shard has no context for share groups")
            self._shares = ShareGroups(
                self.groups, self.timers, self.settings, self._wall_ms, self.share_context
            )
            self._shares.states.topics = self.topics
            self._shares.group_configs = self.consumer.group_configs
        return self._shares

    # -- the Shard interface ----------------------------------------------------------------------------

    def operation(self, caller: Caller, deferred: Deferred[Any], now: float) -> Result:
        out = Result()
        request = deferred.request
        if request.API_KEY in SHARE_APIS:
            self._handle_share(caller, deferred, out, now)
            return out
        if self._shares is not None and self._is_refused_for_share(deferred, out):
            return out
        if isinstance(request, classic_messages.JoinGroupRequest):
            self._join(caller, deferred, out, now)
        elif isinstance(request, classic_messages.SyncGroupRequest):
            if self._is_mixed(request.group_id):
                self.consumer.sync_classic(caller, deferred, out, now)
            else:
                self.classic.sync(caller, deferred, out, now)
        elif isinstance(request, classic_messages.HeartbeatRequest):
            if self._is_mixed(request.group_id):
                self.consumer.heartbeat_classic(caller, deferred, out, now)
            else:
                self.classic.heartbeat(caller, deferred, out, now)
        elif isinstance(request, classic_messages.LeaveGroupRequest):
            if self._is_mixed(request.group_id):
                self.consumer.leave_classic(caller, deferred, out, now)
            else:
                self.classic.leave(caller, deferred, out, now)
        elif isinstance(request, offset_messages.OffsetCommitRequest):
            self.offsets.commit(caller, deferred, out, now)
        elif isinstance(request, offset_messages.OffsetFetchRequest):
            self.offsets.fetch(caller, deferred, out, now)
        elif isinstance(request, offset_messages.OffsetDeleteRequest):
            self.offsets.delete(caller, deferred, out, now)
        elif isinstance(request, TxnOffsetCommitRequest):
            self.offsets.commit_transactional(caller, deferred, out, now)
        elif isinstance(request, consumer_messages.ConsumerGroupHeartbeatRequest):
            self.consumer.heartbeat(caller, deferred, out, now)
        else:
            self._administer(caller, deferred, out)
        return out

    def _handle_share(self, caller: Caller, deferred: Deferred[Any], out: Result, now: float) -> None:
        from pykafka2.broker.coordinators.groups.share.requests import handle

        handle(self.shares, caller, deferred, out, now)

    def _is_refused_for_share(self, deferred: Deferred[Any], out: Result) -> bool:
        """Reject a request of another kind of group about a share group. Return whether it was."""
        from pykafka2.broker.coordinators.groups.share.requests import refuse_other

        return refuse_other(self.shares, deferred, out)

    def _administer(self, caller: Caller, deferred: Deferred[Any], out: Result) -> None:
        request = deferred.request
        if isinstance(request, group_admin.DescribeGroupsRequest):
            describing.describe(self.groups, caller, deferred, out, is_before_4_0=self.settings.is_before_4_0)
        elif isinstance(request, group_admin.ListGroupsRequest):
            describing.list_groups(self.groups, caller, deferred, out)
        elif isinstance(request, group_admin.DeleteGroupsRequest):
            describing.delete_groups(self.groups, self.offsets, self._shares, deferred, out)
        elif isinstance(request, consumer_messages.ConsumerGroupDescribeRequest):
            default = self.settings.consumer_assignors[0]
            describing.describe_consumer_groups(self.groups, self.topics, default, deferred, out)
        else:
            raise TypeError(f"{type(request).__name__} is not a request for a group coordinator")

    def _join(self, caller: Caller, deferred: Deferred[Any], out: Result, now: float) -> None:
        """Handle a JoinGroup; an empty KIP-848 group is replaced by a classic one of the same name."""
        group_id: str = deferred.request.group_id  # type: ignore[attr-defined]
        if not group_id:
            raise InvalidGroupId
        group = self.groups.get(group_id)
        if not isinstance(group, ConsumerGroup):
            self.classic.join(caller, deferred, out, now)
            return
        if group.members:
            self.classic.check_session_timeout(deferred.request)  # type: ignore[arg-type]
            try:
                self.consumer.join_classic(caller, deferred, out, now)
            except BrokerError as error:  # without the member id, as in Kafka
                out.refuse(deferred, error.code or 0, member_id="")
            return
        # The live classic group must exist before the tombstones of the other one are replayed.
        del self.groups[group_id]
        tombstones = Result()
        consumer_records.write_group_removal(tombstones, group)
        try:
            self.classic.join(caller, deferred, out, now)
        finally:
            if group_id not in self.groups:
                self.groups[group_id] = group
        out.records[:0] = tombstones.records
        undo_join = out.on_append_error

        def restore(error: Any, repair: Result) -> None:
            if undo_join is not None:
                undo_join(error, repair)
            self.groups[group_id] = group

        out.on_append_error = restore

    def _is_mixed(self, group_id: str) -> bool:
        """Return whether the group is a KIP-848 group, which can have classic members."""
        return isinstance(self.groups.get(group_id), ConsumerGroup)

    def poll(self, now: float) -> Result | None:
        return self.timers.run_due(now)

    @property
    def next_deadline(self) -> float:
        return self.timers.next_deadline

    def replay(
        self, key: bytes, value: bytes | None, producer: Producer | None, now: float, offset: int
    ) -> None:
        decoded = decode_record(GROUP_RECORDS, key, value)
        if decoded is None:
            if key[:2] in SHARE_KINDS:
                self.shares.replay(key, value, now)
            return
        record_key, record_value = decoded
        if isinstance(record_key, OffsetCommitKey | LegacyOffsetCommitKey):
            assert record_value is None or isinstance(record_value, OffsetCommitValue)  # noqa: S101
            self.offsets.replay(record_key, record_value, producer)
        elif isinstance(record_key, GroupMetadataKey):
            assert record_value is None or isinstance(record_value, GroupMetadataValue)  # noqa: S101
            self.classic.replay(record_key, record_value, self._is_loading)
        else:
            consumer_records.replay(self.groups, record_key, record_value)

    def replay_marker(self, producer: Producer, committed: bool, now: float) -> None:
        self.offsets.replay_marker(producer, committed)

    def on_loaded(self, now: float) -> Result:
        self._is_loading = False
        out = Result()
        for group in list(self.groups.values()):
            if isinstance(group, ClassicGroup):
                self.classic.on_loaded(group, out, now)
            elif isinstance(group, ConsumerGroup):
                self.consumer.on_loaded(group, now)
            else:
                self.shares.on_loaded(group, now)
        self._arm_cleanup(now)
        return out

    def on_unloaded(self) -> Result:
        out = Result()
        self.timers.clear()
        for group in self.groups.values():
            if isinstance(group, ClassicGroup):
                self.classic.on_unloaded(group, out)
        return out

    # -- topics and cleanup --------------------------------------------------

    def on_topics(self, topics: Topics, deleted: Set[str] | None = None) -> Result:
        """Apply changed topics. Return a result that deletes the offsets of deleted topics.

        None for `deleted` means that they are determined here.
        """
        if deleted is None:
            deleted = set(self.topics.names()) - set(topics.names())
        self.topics = self.consumer.topics = self.offsets.topics = topics
        out = Result() if self._shares is None else self._shares.states.on_topics(topics)
        if deleted:
            self.offsets.forget_topics(deleted, out)
        return out

    def _arm_cleanup(self, now: float) -> None:
        self.timers.set("cleanup", now + self.settings.offsets_retention_check_interval, self._clean_up)

    def _clean_up(self, now: float) -> Result:
        """Expire offsets; a group without members is removed with its last offset (rule offsets-expire)."""
        out = Result()
        for group_id, group in list(self.groups.items()):
            if group.kind == "share":
                continue  # it stays until it is deleted
            has_no_members = not group.members and (
                isinstance(group, ConsumerGroup) or group.state.value == "Empty"
            )
            if self.offsets.expire(group_id, now, out) and has_no_members:
                describing.write_group_removal(group, out)
        self._arm_cleanup(now)
        return out
