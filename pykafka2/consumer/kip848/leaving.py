"""How a member of a KIP-848 group leaves: for good, or, a static one, for a while.

Owned by membership.py, on the driver's thread.  A static member that leaves for a while keeps its partitions
until its session ends.  Its coordinator lets nobody have a place that is taken, not even the one who has it:
after a lost answer, or after being put out, that one must leave before it can join again.
"""

from __future__ import annotations

from collections.abc import Callable

from pykafka2.backoff import Backoff
from pykafka2.cluster.client import ClusterClient
from pykafka2.consumer.goodbyes import LEAVE_ATTEMPTS, Goodbyes
from pykafka2.consumer.kip848.heartbeats import LEAVE_EPOCH, STATIC_LEAVE_EPOCH, leave_group
from pykafka2.consumer.options import ConsumerOptions
from pykafka2.driver.pollable import PollResult, ToCoordinator
from pykafka2.errors import ClientClosed, KafkaError

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
        self._goodbyes = Goodbyes(options, cluster, to)
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
        self._goodbyes.poll_into(result, now)
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
        self._goodbyes.give_up(ClientClosed("the member joins again"), now)

    def _say(self, epoch: int, done: Done) -> None:
        def said(error: KafkaError | None) -> None:
            self._may_hold_place = self._may_hold_place and error is not None
            done(error)

        script = leave_group(self._options, self._member_id, epoch, LEAVE_ATTEMPTS, self._new_backoff())
        self._goodbyes.start(script, said)
