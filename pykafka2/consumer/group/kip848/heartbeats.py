"""The heartbeats of a KIP-848 member, from the first one to the one that leaves the group.

Owned by membership.py, on the driver's thread. A heartbeat carries only changes; `forget` makes the next
one carry everything, because only a response confirms what the coordinator has received. A static member
that leaves temporarily keeps its partitions until its session times out, and must leave before it can
rejoin.
"""

from __future__ import annotations

from collections.abc import Callable

from pykafka2.backoff import Backoff
from pykafka2.cluster.client import ClusterClient
from pykafka2.consumer.group.kip848.assignment import Owned, SubscribedTopics, written
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
from pykafka2.slotted import slotted

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
STATIC_LEAVE_EPOCH = -2
"""The static member will return: it keeps its partitions until its session times out."""

FIRST_VERSION_WITH_PATTERN = 1

NOTHING = Owned(0, {}, is_whole=True)
"""The owned partitions of a member that has just joined."""

_GONE = (UnknownMemberId, GroupIdNotFound, FencedMemberEpoch, FencedInstanceId)
"""Errors of a leave heartbeat that mean that no member has this id and epoch."""


@slotted
class Heartbeats:
    """Builds the heartbeats of one member."""

    _options: ConsumerOptions
    _member_id: str
    _subscribed: SubscribedTopics | None = None
    """The subscription that was sent last; None if the coordinator may not have it."""
    _owned: Owned | None = None
    _had_pattern: bool = False
    """Whether the coordinator may have a pattern of this member, which must then be cleared explicitly."""

    def forget(self) -> None:
        """Send everything again in the next heartbeat, because the last one may be lost."""
        self._subscribed = self._owned = None

    def next(self, epoch: int, subscribed: SubscribedTopics, owned: Owned) -> ConsumerGroupHeartbeatRequest:
        """Return the next heartbeat; with `JOIN_EPOCH` it carries everything.

        The owned partitions are sent again for each target, even unchanged: until a report arrives, the
        coordinator assumes that the member owns what it was assigned before.
        """
        options, before = self._options, self._subscribed
        if epoch == JOIN_EPOCH:
            before, owned = None, NOTHING
        is_full = before is None
        request = ConsumerGroupHeartbeatRequest(
            group_id=options.group_id or "",
            member_id=self._member_id,
            member_epoch=epoch,
            instance_id=options.group_instance_id,
        )
        if is_full:
            request.rack_id = options.client_rack or None
            request.rebalance_timeout_ms = min(int(options.max_poll_interval * 1000), 2**31 - 1)
            request.server_assignor = options.group_remote_assignor
        if before is None or subscribed.topics != before.topics:
            request.subscribed_topic_names = sorted(subscribed.topics)
        if before is None or subscribed.pattern != before.pattern:
            # An empty string clears the pattern; null leaves it unchanged and works with older brokers, too.
            request.subscribed_topic_regex = subscribed.pattern or ("" if self._had_pattern else None)
            self._had_pattern = self._had_pattern or subscribed.pattern is not None
        if is_full or owned != self._owned:
            request.topic_partitions = written(owned.partitions)
        self._subscribed, self._owned = subscribed, owned
        return request


def leave_group(
    options: ConsumerOptions, member_id: str, epoch: int, attempts: int, backoff: Backoff
) -> Script[None]:
    """Send the heartbeat that leaves the group (`LEAVE_EPOCH` or `STATIC_LEAVE_EPOCH`).

    Retriable errors are retried; raise the error of the last attempt.
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
    """Leaves the group for one member (a `Pollable`).

    `done(error)` is called when the leave heartbeat has ended.
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
        """Whether the coordinator may have this consumer as the owner of its group_instance_id."""
        return self._may_hold_place

    def on_place_taken(self) -> None:
        """Handle that the coordinator has accepted the member, or may have."""
        self._may_hold_place = self._is_static

    def poll(self, now: float) -> PollResult:
        result = PollResult.idle()
        self._leave_requests.poll_into(result, now)
        return result

    def leave(self, for_good: bool | None, was_member: bool, done: Done) -> None:
        """Leave the group for the application.

        `for_good` True removes the member. None, as in Kafka, lets a static member return. False does the
        same, and a dynamic member sends nothing.
        """
        if was_member and self._is_static and not for_good:
            self._send(STATIC_LEAVE_EPOCH, done)
        elif (was_member and for_good is not False) or (for_good and self._may_hold_place):
            self._send(LEAVE_EPOCH, done)
        else:
            done(None)

    def step_out(self) -> None:
        """Leave because the application does not poll; a static member can return before its session ends."""
        self._send(STATIC_LEAVE_EPOCH if self._is_static else LEAVE_EPOCH, lambda error: None)

    def release_place(self) -> None:
        """Release the group_instance_id, which this consumer may own since a lost join response."""
        self._may_hold_place = False
        self._send(STATIC_LEAVE_EPOCH, lambda error: None)

    def give_up(self, now: float) -> None:
        """Cancel the leave heartbeats in progress, because the member rejoins."""
        self._leave_requests.give_up(ClientClosed("the member rejoins"), now)

    def _send(self, epoch: int, done: Done) -> None:
        def on_end(error: KafkaError | None) -> None:
            self._may_hold_place = self._may_hold_place and error is not None
            done(error)

        script = leave_group(self._options, self._member_id, epoch, LEAVE_ATTEMPTS, self._new_backoff())
        self._leave_requests.start(script, on_end)
