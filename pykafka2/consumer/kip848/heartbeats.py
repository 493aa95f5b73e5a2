"""What a member tells its coordinator: heartbeats that say only what has changed, and the last one.

Owned by membership.py, on the driver's thread.  Whether something has been heard is only known by the answer,
so `forget` has the next heartbeat say everything again.
"""

from __future__ import annotations

import attrs

from pykafka2.backoff import Backoff
from pykafka2.consumer.kip848.assignment import Owned, Wish, written
from pykafka2.consumer.options import ConsumerOptions
from pykafka2.driver.script_runner import call_to, forget_coordinator
from pykafka2.errors import (
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
        """What was said may not have been heard."""
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
