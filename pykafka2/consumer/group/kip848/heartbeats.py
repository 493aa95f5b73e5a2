"""The heartbeats of a KIP-848 member, from the first one to the one that leaves the group.

Owned by membership.py, on the driver's thread. A heartbeat carries only changes; `forget` makes the next
one carry everything, because only a response confirms what the coordinator has received. A static member
that leaves temporarily keeps its partitions until its session times out, and must leave before it can
rejoin.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

from pykafka2.backoff import Backoff
from pykafka2.cluster.client import ClusterClient
from pykafka2.consumer.group.kip848.assignment import Owned, Wish, written
from pykafka2.consumer.group.leave import LEAVE_ATTEMPTS, LeaveRequests
from pykafka2.consumer.options import ConsumerOptions
from pykafka2.driver.pollable import PollResult, ToCoordinator
from pykafka2.driver.script_runner import call_to, forget_coordinator
from pykafka2.errors import (
    ClientClosed,
    FencedInstanceId,
    FencedMemberEpoch,
    GroupIdNotFound,
    KafkaError,
    UnknownMemberId,
    error_of,
)
from pykafka2.network.script import Script, wait
from pykafka2.protocol.messages.consumer_group import ConsumerGroupHeartbeatRequest

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
STATIC_LEAVE_EPOCH = -2
"""The member will be back: its partitions stay its own until its session ends."""

FIRST_VERSION_WITH_PATTERN = 1

NOTHING = Owned(0, {}, is_whole=True)
"""What a member owns that has just joined."""

_GONE = (UnknownMemberId, GroupIdNotFound, FencedMemberEpoch, FencedInstanceId)
"""Answers to a good-bye that mean: nobody of this name and epoch is a member."""


@attrs.define
class Heartbeats:
    """Makes the heartbeats of one member."""

    _options: ConsumerOptions
    _member_id: str
    _wish: Wish | None = None
    """The subscription that was said last; None for nothing that can be relied on."""
    _owned: Owned | None = None
    _had_pattern: bool = False
    """The coordinator may have a pattern of this member, so that its end must be said."""

    def forget(self) -> None:
        """Send everything again in the next heartbeat, because the last one may be lost."""
        self._wish = self._owned = None

    def next(self, epoch: int, wish: Wish, owned: Owned) -> ConsumerGroupHeartbeatRequest:
        """The heartbeat to be sent now; with `JOIN_EPOCH` it says everything.

        What is owned is said for each assignment anew, be it what was said before: the coordinator takes for
        owned what it has given, until it hears of it.
        """
        options, before = self._options, self._wish
        if epoch == JOIN_EPOCH:
            before, owned = None, NOTHING
        says_all = before is None
        request = ConsumerGroupHeartbeatRequest(
            group_id=options.group_id or "",
            member_id=self._member_id,
            member_epoch=epoch,
            instance_id=options.group_instance_id,
        )
        if says_all:
            request.rack_id = options.client_rack or None
            request.rebalance_timeout_ms = min(int(options.max_poll_interval * 1000), 2**31 - 1)
            request.server_assignor = options.group_remote_assignor
        if before is None or wish.topics != before.topics:
            request.subscribed_topic_names = sorted(wish.topics)
        if before is None or wish.pattern != before.pattern:
            # Empty takes a pattern back; null says nothing, which older brokers understand, too.
            request.subscribed_topic_regex = wish.pattern or ("" if self._had_pattern else None)
            self._had_pattern = self._had_pattern or wish.pattern is not None
        if says_all or owned != self._owned:
            request.topic_partitions = written(owned.partitions)
        self._wish, self._owned = wish, owned
        return request


def leave_group(
    options: ConsumerOptions, member_id: str, epoch: int, attempts: int, backoff: Backoff
) -> Script[None]:
    """Say good-bye (`LEAVE_EPOCH` or `STATIC_LEAVE_EPOCH`), so that nobody waits for the session to end.

    Raises what kept it from being said.
    """
    while True:
        attempts -= 1
        request = ConsumerGroupHeartbeatRequest(
            group_id=options.group_id or "",
            member_id=member_id,
            member_epoch=epoch,
            instance_id=options.group_instance_id,
        )
        try:
            response = yield from call_to(request, timeout=options.request_timeout)
        except KafkaError as failure:
            if not failure.retriable or not attempts:
                raise
            yield from wait(backoff.next())
            continue
        if not response.error_code:
            return
        error = error_of(response.error_code)
        if isinstance(error, _GONE):
            return
        if not error.retriable or not attempts:
            raise error
        if error.refresh_coordinator:
            yield from forget_coordinator()
        yield from wait(backoff.next())


Done = Callable[[KafkaError | None], None]


class Leaving:
    """Says good-bye for one member (a `Pollable`).

    `done(error)` is called when the coordinator knows, or cannot be told.
    """

    def __init__(
        self,
        options: ConsumerOptions,
        cluster: ClusterClient,
        to: ToCoordinator,
        member_id: str,
        new_backoff: Callable[[], Backoff],
    ) -> None:
        self._options = options
        self._member_id = member_id
        self._new_backoff = new_backoff
        self._leave_requests = LeaveRequests(options, cluster, to)
        self._is_static = options.group_instance_id is not None
        self._may_hold_place = False

    @property
    def may_hold_place(self) -> bool:
        """The coordinator may take this consumer for the static member that it asks to be."""
        return self._may_hold_place

    def on_place_taken(self) -> None:
        """The coordinator has taken the member in, or may have."""
        self._may_hold_place = self._is_static

    def poll(self, now: float) -> PollResult:
        result = PollResult.idle()
        self._leave_requests.poll_into(result, now)
        return result

    def leave(self, for_good: bool | None, was_member: bool, done: Done) -> None:
        """The application leaves.  None is Kafka's way: a static member will be back.  False leaves it at
        that, and a member that is not static says nothing."""
        if was_member and self._is_static and not for_good:
            self._say(STATIC_LEAVE_EPOCH, done)
        elif (was_member and for_good is not False) or (for_good and self._may_hold_place):
            self._say(LEAVE_EPOCH, done)
        else:
            done(None)

    def step_out(self) -> None:
        """The application does not poll; a static member may be back before its session ends."""
        self._say(STATIC_LEAVE_EPOCH if self._is_static else LEAVE_EPOCH, lambda error: None)

    def release_place(self) -> None:
        """Give up the place that this consumer may hold without knowing it."""
        self._may_hold_place = False
        self._say(STATIC_LEAVE_EPOCH, lambda error: None)

    def give_up(self, now: float) -> None:
        """The member joins again: what has not been said is not to be said any more."""
        self._leave_requests.give_up(ClientClosed("the member joins again"), now)

    def _say(self, epoch: int, done: Done) -> None:
        def said(error: KafkaError | None) -> None:
            self._may_hold_place = self._may_hold_place and error is not None
            done(error)

        script = leave_group(self._options, self._member_id, epoch, LEAVE_ATTEMPTS, self._new_backoff())
        self._leave_requests.start(script, said)
