"""One partition of __share_group_state as a shard: reads and writes of share partitions.

Each request is about one share partition; service.py splits those about several. The state epoch fences
writes from before an administrator's change of the start offset, the leader epoch those of former leaders.
Old records are deleted up to the first snapshot in use, and a state that is not written for long gets a new
snapshot, so that it does not keep the log long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from typing import Any, Final, cast

import attrs

from pykafka2.broker.coordinators.refusals import refusal
from pykafka2.broker.coordinators.replay import Caller, Deferred, Kinds, Producer, Result, decode_record
from pykafka2.broker.coordinators.settings import NO_TOPICS, ShareSettings, Topics
from pykafka2.broker.coordinators.share.state import NO_OFFSET, ShareState, StateBatch, combined
from pykafka2.broker.coordinators.timers import Timers
from pykafka2.errors import (
    BrokerError,
    FencedLeaderEpoch,
    FencedStateEpoch,
    InvalidRequest,
    UnknownTopicOrPartition,
)
from pykafka2.protocol.messages import share_state as messages
from pykafka2.protocol.messages import share_state_records as records

ShareKey = tuple[str, bytes, int]
"""A share partition: group id, topic id, partition."""

SHARE_RECORDS: Final[Kinds] = {
    0: (records.ShareSnapshotKey, records.ShareSnapshotValue),
    1: (records.ShareUpdateKey, records.ShareUpdateValue),
}
"""Records of __share_group_state, by the int16 at the start of their keys."""


DELIVERY_STATES: Final = frozenset({0, 2, 3, 4})
"""Available, acknowledged, archiving and archived; locks are not stored, so that no record is acquired."""


class ShareShard:
    """The share partitions of one partition. `wall_ms` converts a time to milliseconds since 1970."""

    LOADS_WHAT_CAN_BE_READ = False

    def __init__(self, settings: ShareSettings, wall_ms: Callable[[float], int]) -> None:
        self.settings = settings
        self.states: dict[ShareKey, ShareState] = {}
        self.topics: Topics = NO_TOPICS
        self.timers = Timers()
        self._wall_ms = wall_ms
        # The highest epochs ever, while the state can have lower ones.
        self._state_epochs: dict[ShareKey, int] = {}
        self._leader_epochs: dict[ShareKey, int] = {}
        self._updates: dict[ShareKey, int] = {}
        # The offset of each latest snapshot, in the order of the log.
        self._snapshots: dict[ShareKey, int] = {}
        self._obsolete_before = 0
        self._deleted_before = 0

    # -- the Shard interface ----------------------------------------------------------------------------

    def operation(self, caller: Caller, deferred: Deferred[Any], now: float) -> Result:
        out = Result()
        request = deferred.request
        try:
            if isinstance(request, messages.WriteShareGroupStateRequest):
                self._write(request, out, now)
                fields: dict[str, Any] = {}
            elif isinstance(request, messages.ReadShareGroupStateRequest):
                fields = self._read(request, out, now)
            elif isinstance(request, messages.InitializeShareGroupStateRequest):
                self._initialize(request, out, now)
                fields = {}
            elif isinstance(request, messages.ReadShareGroupStateSummaryRequest):
                fields = self._summarize(request)
            elif isinstance(request, messages.DeleteShareGroupStateRequest):
                self._delete(request, out)
                fields = {}
            else:
                raise TypeError(f"{type(request).__name__} is not a request for a share coordinator")
        except BrokerError as error:
            failed: Any = refusal(request, deferred.version, error.code or 0)
            failed.results[0].partitions[0].error_message = str(error)
            out.respond(deferred, failed)
            return out
        response: Any = refusal(request, deferred.version, 0)
        for name, value in fields.items():
            setattr(response.results[0].partitions[0], name, value)
        out.respond(deferred, response)
        return out

    def poll(self, now: float) -> Result | None:
        return self.timers.run_due(now)

    @property
    def next_deadline(self) -> float:
        return self.timers.next_deadline

    def replay(
        self, key: bytes, value: bytes | None, producer: Producer | None, now: float, offset: int
    ) -> None:
        decoded = decode_record(SHARE_RECORDS, key, value)
        if decoded is None:
            return
        record_key, record_value = cast("tuple[Any, Any]", decoded)
        share_key = (record_key.group_id, record_key.topic_id, record_key.partition)
        if isinstance(record_key, records.ShareUpdateKey):
            self._replay_update(share_key, record_value)
        else:
            self._replay_snapshot(share_key, record_value, offset)

    def replay_marker(self, producer: Producer, committed: bool, now: float) -> None:
        """Do nothing, because there are no transactions in this topic."""

    def on_loaded(self, now: float) -> Result:
        self.timers.set("prune", now + self.settings.prune_interval, self._prune)
        self.timers.set("snapshot", now + self.settings.cold_snapshot_interval, self._snapshot_cold)
        return Result()

    def on_unloaded(self) -> Result:
        self.timers.clear()
        return Result()

    # -- replay -------------------------------------------------------------------------------------

    def _replay_update(self, key: ShareKey, value: records.ShareUpdateValue) -> None:
        self._leader_epochs[key] = max(self._leader_epochs.get(key, 0), value.leader_epoch)
        state = self.states.get(key)
        self.states[key] = ShareState.from_update(value) if state is None else state.replayed(value)
        self._updates[key] = self._updates.get(key, 0) + 1

    def _replay_snapshot(self, key: ShareKey, value: records.ShareSnapshotValue | None, offset: int) -> None:
        self._snapshots.pop(key, None)
        self._snapshots[key] = offset
        self._obsolete_before = next(iter(self._snapshots.values()))
        if value is None:
            for known in (self.states, self._leader_epochs, self._state_epochs, self._updates):
                known.pop(key, None)
            del self._snapshots[key]
            return
        self._leader_epochs[key] = max(self._leader_epochs.get(key, 0), value.leader_epoch)
        self._state_epochs[key] = max(self._state_epochs.get(key, 0), value.state_epoch)
        self.states[key] = ShareState.from_snapshot(value)
        if self._updates.get(key, 0) >= self.settings.updates_per_snapshot:
            self._updates[key] = 0

    # -- requests -----------------------------------------------------------------------------------

    def _write(self, request: messages.WriteShareGroupStateRequest, out: Result, now: float) -> None:
        key, partition = _subject(request)
        self._check_partition(key)
        _check_not_negative(partition.leader_epoch, "leader epoch")
        _check_not_negative(partition.state_epoch, "state epoch")
        if key not in self.states:
            raise InvalidRequest("the share partition was not initialized, so it cannot be written")
        self._check_leader_epoch(key, partition.leader_epoch)
        self._check_state_epoch(key, partition.state_epoch)
        self._check_exists(key)
        _check_batches(partition.state_batches)
        written = map(StateBatch.of, partition.state_batches)
        self._write_state(
            key, partition.start_offset, partition.delivery_complete_count, written, None, out, now
        )

    def _write_state(
        self,
        key: ShareKey,
        start_offset: int,
        complete_count: int,
        batches: Any,
        leader_epoch: int | None,
        out: Result,
        now: float,
    ) -> None:
        """Write an update, or a snapshot after as many updates as the broker's option says."""
        state = self.states[key]
        if start_offset == state.start_offset:
            complete_count = max(complete_count, state.delivery_complete_count)
        elif start_offset < state.start_offset:
            complete_count = state.delivery_complete_count
        start_offset = max(start_offset, state.start_offset)
        is_snapshot = self._updates.get(key, 0) >= self.settings.updates_per_snapshot
        now_ms = self._wall_ms(now) if is_snapshot else 0
        written = attrs.evolve(
            state,
            snapshot_epoch=state.snapshot_epoch + is_snapshot,
            leader_epoch=state.leader_epoch if leader_epoch is None else leader_epoch,
            start_offset=start_offset,
            delivery_complete_count=complete_count,
            batches=combined(state.batches if is_snapshot else (), batches, start_offset),
            created_ms=now_ms,
            written_ms=now_ms,
        )
        group_id, topic_id, partition = key
        if is_snapshot:
            _write_snapshot(out, key, written)
        else:
            update_key = records.ShareUpdateKey(group_id=group_id, topic_id=topic_id, partition=partition)
            out.write(update_key, written.update_value())

    def _read(self, request: messages.ReadShareGroupStateRequest, out: Result, now: float) -> dict[str, Any]:
        """Read the state for a leader; one with a new epoch fences former leaders."""
        key, partition = _subject(request)
        self._check_partition(key)
        _check_not_negative(partition.leader_epoch, "leader epoch")
        state = self.states.get(key)
        if state is None:
            raise InvalidRequest("the share partition was not initialized, so it cannot be read")
        self._check_leader_epoch(key, partition.leader_epoch)
        self._check_exists(key)
        if self._leader_epochs[key] != partition.leader_epoch:
            self._write_state(
                key, state.start_offset, state.delivery_complete_count, (), partition.leader_epoch, out, now
            )
        cls = messages.ReadShareGroupStateResponseStateBatch
        return {
            "state_epoch": state.state_epoch,
            "start_offset": state.start_offset,
            "state_batches": [cls(**attrs.asdict(batch)) for batch in state.batches],
        }

    def _summarize(self, request: messages.ReadShareGroupStateSummaryRequest) -> dict[str, Any]:
        key, _ = _subject(request)
        self._check_partition(key)
        self._check_exists(key)
        state = self.states.get(key, ShareState())
        return {
            "state_epoch": state.state_epoch,
            "leader_epoch": state.leader_epoch,
            "start_offset": state.start_offset,
            "delivery_complete_count": state.delivery_complete_count,
        }

    def _initialize(
        self, request: messages.InitializeShareGroupStateRequest, out: Result, now: float
    ) -> None:
        key, partition = _subject(request)
        self._check_partition(key)
        _check_not_negative(partition.state_epoch, "state epoch")
        self._check_state_epoch(key, partition.state_epoch)
        self._check_exists(key)
        known = self.states.get(key)
        now_ms = self._wall_ms(now)
        state = ShareState(
            snapshot_epoch=0 if known is None else known.snapshot_epoch + 1,
            state_epoch=partition.state_epoch,
            start_offset=partition.start_offset,
            delivery_complete_count=-1 if partition.start_offset == NO_OFFSET else 0,
            created_ms=now_ms,
            written_ms=now_ms,
        )
        _write_snapshot(out, key, state)

    def _delete(self, request: messages.DeleteShareGroupStateRequest, out: Result) -> None:
        key, _ = _subject(request)
        self._check_partition(key)
        self._check_exists(key)
        if key in self.states:
            _write_snapshot(out, key, None)

    # -- checks -------------------------------------------------------------------------------------

    @staticmethod
    def _check_partition(key: ShareKey) -> None:
        _check_not_negative(key[2], "partition")

    def _check_exists(self, key: ShareKey) -> None:
        name = self.topics.name_of(key[1])
        if name is None or key[2] >= self.topics.partition_count(name):
            raise UnknownTopicOrPartition

    def _check_leader_epoch(self, key: ShareKey, epoch: int) -> None:
        if epoch < self._leader_epochs.get(key, 0):
            raise FencedLeaderEpoch

    def _check_state_epoch(self, key: ShareKey, epoch: int) -> None:
        if epoch < self._state_epochs.get(key, 0):
            raise FencedStateEpoch

    # -- topics and timers --------------------------------------------------------------------------

    def on_topics(self, topics: Topics, deleted: Set[bytes]) -> Result:
        """Apply changed topics. Return a result that deletes the states of deleted ones."""
        self.topics = topics
        out = Result()
        for key in self.states:
            if key[1] in deleted:
                _write_snapshot(out, key, None)
        return out

    def _prune(self, now: float) -> Result | None:
        """Delete records that snapshots have replaced."""
        self.timers.set("prune", now + self.settings.prune_interval, self._prune)
        if self._obsolete_before <= self._deleted_before:
            return None
        self._deleted_before = self._obsolete_before
        return Result(delete_before=self._obsolete_before)

    def _snapshot_cold(self, now: float) -> Result | None:
        """Write snapshots of the states that were not written for long; otherwise they keep old records."""
        interval = self.settings.cold_snapshot_interval
        self.timers.set("snapshot", now + interval, self._snapshot_cold)
        if all(state.created_ms != state.written_ms for state in self.states.values()):
            return None
        now_ms = self._wall_ms(now)
        out = Result()
        for key, state in self.states.items():
            if now_ms - state.written_ms >= interval * 1000:
                again = attrs.evolve(state, snapshot_epoch=state.snapshot_epoch + 1, written_ms=now_ms)
                _write_snapshot(out, key, again)
        return out


def _subject(request: Any) -> tuple[ShareKey, Any]:
    """Return the share partition of a request, and its entry in there."""
    topic = request.topics[0]
    partition = topic.partitions[0]
    return (request.group_id, topic.topic_id, partition.partition), partition


def _check_not_negative(value: int, name: str) -> None:
    if value < 0:
        raise InvalidRequest(f"the {name} {value} is negative")


def _check_batches(batches: Iterable[Any]) -> None:
    """Raise `InvalidRequest` for a batch that no leader could read."""
    for one in batches:
        if not 0 <= one.first_offset <= one.last_offset or one.delivery_state not in DELIVERY_STATES:
            raise InvalidRequest(f"the batch {one} has reversed offsets or an unknown state")


def _write_snapshot(out: Result, key: ShareKey, state: ShareState | None) -> None:
    """Write the whole state of a share partition; None deletes it."""
    group_id, topic_id, partition = key
    snapshot_key = records.ShareSnapshotKey(group_id=group_id, topic_id=topic_id, partition=partition)
    out.write(snapshot_key, None if state is None else state.snapshot_value())
