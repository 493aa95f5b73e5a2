"""The states of share partitions at the share coordinator: initialized before they are assigned.

The records of a group say which of its partitions have a state:

| partition    | meaning                                             | next                           |
|--------------|-----------------------------------------------------|--------------------------------|
| new          | a member subscribes to it                           | initializing                   |
| initializing | the share coordinator was called; tried again later | initialized, new (1), deleting |
| initialized  | the group assigns it                                | deleting, initializing (2)     |
| deleting     | by topic; a failed deletion can be repeated         | new, initializing (3)          |

(1) After an error.
(2) When its start offset is altered; meanwhile it is both.
(3) When a member subscribes, or its start offset is altered, before the deletion has ended.

With its topic, a partition is removed from each state.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Any, Protocol

import attrs

from pykafka2.broker.coordinators.groups.classic.rebalance import Groups
from pykafka2.broker.coordinators.groups.share import records
from pykafka2.broker.coordinators.groups.share.state import (
    Assignment,
    PartitionStates,
    ShareGroup,
    united,
    without,
    without_topics,
)
from pykafka2.broker.coordinators.refusals import refusal
from pykafka2.broker.coordinators.replay import Deferred, Result
from pykafka2.broker.coordinators.settings import NO_TOPICS, GroupSettings, Topics
from pykafka2.errors import NonEmptyGroup
from pykafka2.protocol.messages import group_admin
from pykafka2.protocol.messages.share_state import (
    DeleteShareGroupStateRequestPartitionData,
    InitializeShareGroupStateRequestPartitionData,
)
from pykafka2.protocol.struct import Response

Place = tuple[bytes, int]
"""A topic id and a partition."""
Results = Mapping[Place, Any]
"""For each share partition its entry in the share coordinator's response."""
Then = Callable[[Results, float], None]
"""Callback: (results, now)."""


class ShareContext(Protocol):
    """The coordinator as the share groups of one shard use it."""

    def call(self, group_id: str, topic_id: bytes, entry: Any, done: Callable[[Any, float], None]) -> None:
        """Send the entry of a request about a share partition to the share coordinator."""
        ...

    def carry_out(self, result: Result, now: float) -> None:
        """Execute a result; its responses become NOT_COORDINATOR after the partition has moved."""
        ...


class ShareGroupStates:
    """The states of the partitions of a shard's share groups."""

    def __init__(
        self,
        groups: Groups,
        settings: GroupSettings,
        wall_ms: Callable[[float], int],
        context: ShareContext,
    ) -> None:
        self.topics: Topics = NO_TOPICS
        self.context = context
        self._groups = groups
        self._settings = settings
        self._wall_ms = wall_ms

    def find(self, group_id: str) -> ShareGroup | None:
        """Return a share group, which can have been deleted or replaced meanwhile."""
        group = self._groups.get(group_id)
        return group if isinstance(group, ShareGroup) else None

    def write(self, group_id: str, states: PartitionStates, out: Result) -> None:
        records.write_states(out, group_id, states, self.topics)

    # -- initialization -----------------------------------------------------------------------------

    def initialize_new(
        self,
        group: ShareGroup,
        subscribed: Collection[str],
        epoch: int,
        deferred: Deferred[Any],
        out: Result,
        now: float,
    ) -> None:
        """Have the share coordinator initialize the partitions that are new to the group.

        New topics get the start offset -1: the leader chooses it by share.auto.offset.reset. Partitions that
        were added to a known topic start at 0.
        """
        new = self._new_partitions(group, subscribed, now)
        if not new:
            return
        states = group.states or PartitionStates()
        known = states.initialized.keys() | states.initializing.keys()
        self.write_initializing(group, new, out)
        starts = {
            (topic_id, number): 0 if topic_id in known else -1
            for topic_id, numbers in new.items()
            for number in numbers
        }

        def initialized(results: Results, now: float) -> None:
            out = Result()
            self.write_initialized(group.id, new, error_in(results), out)
            self.context.carry_out(out, now)

        def responded(response: Response) -> None:
            if not response.error_code:  # type: ignore[attr-defined]
                self.initialize(group.id, epoch, starts, initialized)

        deferred.then(responded)

    def _new_partitions(self, group: ShareGroup, subscribed: Iterable[str], now: float) -> Assignment:
        """Return the partitions that are neither initialized nor were tried lately."""
        states = group.states or PartitionStates()
        is_recent = self._wall_ms(now) - states.recorded_ms < self._settings.share_initialize_retry * 1000
        known = united(states.initialized, states.initializing if is_recent else {})
        every = {
            topic_id: frozenset(range(self.topics.partition_count(name)))
            for name in subscribed
            if (topic_id := self.topics.id_of(name)) is not None
        }
        return without(every, known)

    def write_initializing(self, group: ShareGroup, partitions: Assignment, out: Result) -> None:
        states = group.states or PartitionStates()
        changed = attrs.evolve(
            states,
            initializing=united(states.initializing, partitions),
            deleting=states.deleting - partitions.keys(),
        )
        self.write(group.id, changed, out)

    def write_initialized(self, group_id: str, partitions: Assignment, code: int, out: Result) -> None:
        """Write that partitions are initialized, or after an error that they are to be tried again."""
        group = self.find(group_id)
        if group is None or group.states is None:
            return
        states = group.states
        changed = attrs.evolve(states, initializing=without(states.initializing, partitions))
        if not code:
            initialized = united(states.initialized, self._existing(partitions))
            changed = attrs.evolve(changed, initialized=initialized)
        self.write(group_id, changed, out)

    def _existing(self, partitions: Assignment) -> Assignment:
        """Return these partitions without those of topics that were deleted meanwhile.

        The group can have a record of them: a coordinator that loads does not see topics being deleted.
        """
        names = {topic_id: self.topics.name_of(topic_id) for topic_id in partitions}
        return {
            topic_id: partitions[topic_id] & frozenset(range(self.topics.partition_count(name)))
            for topic_id, name in names.items()
            if name is not None
        }

    def on_topics(self, topics: Topics) -> Result:
        """Apply changed topics. Return a result that removes the partitions of deleted ones."""
        before, self.topics = self.topics, topics
        out = Result()
        for group in self._groups.values():
            if not isinstance(group, ShareGroup) or group.states is None:
                continue
            states = group.states
            known = {*states.initializing, *states.initialized, *states.deleting}
            deleted = {
                topic_id for topic_id in known if before.name_of(topic_id) and not topics.name_of(topic_id)
            }
            if deleted:
                changed = attrs.evolve(
                    states,
                    initializing=without_topics(states.initializing, deleted),
                    initialized=without_topics(states.initialized, deleted),
                    deleting=states.deleting - deleted,
                )
                self.write(group.id, changed, out)
        return out

    # -- calls of the share coordinator -------------------------------------------------------------

    def initialize(self, group_id: str, state_epoch: int, starts: Mapping[Place, int], then: Then) -> None:
        """Initialize states with these start offsets; `then` is called with all results."""
        entries = {
            place: InitializeShareGroupStateRequestPartitionData(
                partition=place[1], state_epoch=state_epoch, start_offset=start_offset
            )
            for place, start_offset in starts.items()
        }
        self._call(group_id, entries, then)

    def delete(self, group_id: str, partitions: Assignment, then: Then) -> None:
        """Delete states; `then` is called with all results."""
        entries = {
            (topic_id, number): DeleteShareGroupStateRequestPartitionData(partition=number)
            for topic_id, numbers in partitions.items()
            for number in numbers
        }
        self._call(group_id, entries, then)

    def _call(self, group_id: str, entries: Mapping[Place, Any], then: Then) -> None:
        results: dict[Place, Any] = {}

        def done(place: Place, result: Any, now: float) -> None:
            results[place] = result
            if len(results) == len(entries):
                then(results, now)

        for place, entry in entries.items():
            self.context.call(group_id, place[0], entry, partial(done, place))

    def after_commit(self, deferred: Deferred[Any], out: Result, then: Callable[[], None]) -> None:
        """Call `then` once the records are committed; otherwise the response has their error."""
        inner: Deferred[Any] = Deferred(deferred.request, deferred.version)
        committed: Any = refusal(deferred.request, deferred.version, 0)

        def answered(response: Response) -> None:
            if response is committed:
                then()
            else:
                deferred.complete(response)

        inner.then(answered)
        out.respond(inner, committed)

    # -- DeleteGroups -------------------------------------------------------------------------------

    def delete_group(self, group: ShareGroup, deferred: Deferred[Any], out: Result) -> None:
        """Delete a group without members: first the states of its partitions, then its records."""
        if group.members:
            _respond_deletion(deferred, group.id, NonEmptyGroup.code, out)
            return
        states = group.states or PartitionStates()
        again = {
            topic_id: frozenset(range(self.topics.partition_count(name)))
            for topic_id in states.deleting
            if (name := self.topics.name_of(topic_id)) is not None
        }
        partitions = self._existing(united(states.initialized, states.initializing, again))
        if group.states is not None:
            deleting = attrs.evolve(states, initializing={}, initialized={}, deleting=frozenset(partitions))
            self.write(group.id, deleting, out)
        if any(partitions.values()):
            deleted = partial(self._on_deleted, group.id, partitions, deferred)
            self.after_commit(deferred, out, lambda: self.delete(group.id, partitions, deleted))
        else:
            records.write_group_removal(out, group)
            _respond_deletion(deferred, group.id, 0, out)

    def _on_deleted(
        self, group_id: str, partitions: Assignment, deferred: Deferred[Any], results: Results, now: float
    ) -> None:
        """Delete a group whose states were deleted, unless a member has joined meanwhile."""
        out = Result()
        code = error_in(results)
        group = self.find(group_id)
        if not code and group is not None:
            states = group.states or PartitionStates()
            if group.members or states.initialized or states.initializing:
                code = NonEmptyGroup.code
                if group.states is not None:  # the member's partitions are initialized again
                    left = without(states.initialized, partitions)
                    self.write(group_id, attrs.evolve(states, initialized=left), out)
            else:
                records.write_group_removal(out, group)
        _respond_deletion(deferred, group_id, code, out)
        self.context.carry_out(out, now)


def _respond_deletion(deferred: Deferred[Any], group_id: str, code: int, out: Result) -> None:
    result = group_admin.DeletableGroupResult(group_id=group_id, error_code=code)
    out.respond(deferred, group_admin.DeleteGroupsResponse(results=[result]))


def error_in(results: Results) -> int:
    """Return the first error code among results, 0 if there is none."""
    return next((result.error_code for result in results.values() if result.error_code), 0)
