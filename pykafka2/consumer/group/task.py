"""The caller's side of a membership, whatever the group's protocol: one of the tasks of poll().

Caller's thread only.  Each look does what can be done without waiting, so poll never blocks beyond its
timeout.  What is decided follows from what is found (the member's state, the holds of the partitions), so an
exception of a listener or a Ctrl-C in the middle only delays the rest.  What differs by protocol is a part of
it: classic/rebalance.py for classic groups, kip848/reconciliation.py where the coordinator assigns.
Neighbours: the memberships (the driver's side), owned_partitions.py (moves the partitions, tells the
listeners).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol

from pykafka2.cluster.client import ClusterClient
from pykafka2.consumer.group.listeners import Listeners
from pykafka2.consumer.group.member import Member
from pykafka2.consumer.group.owned_partitions import OwnedPartitions
from pykafka2.consumer.state.group_identity import GroupStanding
from pykafka2.consumer.state.subscription import Mode, Subscription
from pykafka2.errors import ClientClosed, ClientFailed, IllegalState, KafkaError, RebalanceInProgress
from pykafka2.interrupts import Cleanup, is_interrupt

Told = Callable[[KafkaError | None], None]

# Seconds to wait for the LeaveGroup response after an interrupt.
HASTE = 0.05


class GroupProtocol(Protocol):
    """The part of a group task that depends on the group protocol."""

    unnamed_topics: frozenset[bytes]
    """Ids of assigned topics whose names the metadata does not have yet."""

    def raise_failure(self) -> None:
        """Raise what the membership met."""
        ...

    def step(self, losses: int) -> bool:
        """Take one step towards the assignment, or towards membership; False if there is none to take now.

        `losses` says which membership the caller knows.
        """
        ...

    def forget(self) -> None:
        """The membership has ended, or is being left."""
        ...

    def subscribed(self) -> bool:
        """The subscription has changed; True if this is no member yet."""
        ...

    def enforce(self, reason: str) -> None:
        """The application wants a rebalance."""
        ...

    def leave(self, reason: str, told: Told, leave: bool | None) -> None:
        """Leave the group; `told` is called when the coordinator knows.  `leave` as in `GroupTask.end`."""
        ...

    def may_leave_unasked(self) -> bool:
        """Whether a program that ends says good-bye."""
        ...


class GroupTask:
    """Takes one consumer through the life of its membership (a `PollTask`)."""

    def __init__(
        self,
        group_id: str,
        cluster: ClusterClient,
        subscription: Subscription,
        standing: GroupStanding,
        membership: Member[Any, Any],
        owned_partitions: OwnedPartitions,
        protocol: GroupProtocol,
    ) -> None:
        self.protocol = protocol
        self._group_id = group_id
        self._driver = cluster.driver
        self._metadata = cluster.metadata
        self._subscription = subscription
        self._standing = standing
        self._membership = membership
        self._owned_partitions = owned_partitions
        self._seen_news = self._seen_version = -1
        self._seen_losses = 0
        self._settled_at: tuple[object, ...] = ()
        """The `_versions` at which the last step found nothing to do."""

    @property
    def is_in_listener(self) -> bool:
        """Whether a listener of the application is being called."""
        return self._owned_partitions.is_in_listener

    # ------------------------------------------------------------------ a task of poll()

    def attend(self, remaining: float) -> None:
        """Do what is due; never waits.  Raises what a listener raises, and why this cannot be a member."""
        if self.is_in_listener:
            raise IllegalState("poll() inside a rebalance listener would wait for itself; return first")
        if self._subscription.mode is not Mode.TOPICS:
            return
        self._complain_of(self._membership.polls.enter())
        versions = self._versions()
        is_settled = versions == self._settled_at and self._membership.failure is None
        if is_settled and not self._subscription.comes_or_goes():
            return  # as in nearly every poll()
        self._settled_at = ()
        while self._step():
            versions = self._versions()
        self._settled_at = versions

    def _versions(self) -> tuple[object, ...]:
        """Returns the versions of everything that a step depends on, except partitions on the move."""
        subscription = self._subscription
        return (
            self._membership.news,
            self._membership.losses,
            self._metadata.snapshot.version,
            subscription.changes,
            subscription.topics,
            subscription.remote_pattern,
        )

    def has_news(self) -> bool:
        if self._subscription.mode is not Mode.TOPICS:
            return False
        if self._membership.news != self._seen_news:
            return True
        last_commit = self._owned_partitions.last_commit
        if last_commit is not None and last_commit.is_done:
            return True
        return bool(self.protocol.unnamed_topics) and self._metadata.snapshot.version != self._seen_version

    def due_in(self) -> float:
        return self._owned_partitions.due_in()

    def on_wait(self) -> None:
        """poll() waits, which is not the application's time."""
        if self._subscription.mode is Mode.TOPICS:
            self._membership.polls.wait()

    def on_return(self) -> None:
        """poll() goes back to the application."""
        if self._subscription.mode is Mode.TOPICS:
            self._membership.polls.leave()

    def on_records_asked_for(self) -> None:
        """The application takes the next records of a poll: to those who watch it that is a poll."""
        self.on_return()

    # ------------------------------------------------------------------ one look

    def _step(self) -> bool:
        """Do one thing; False if there is nothing to do now."""
        if self._subscription.mode is not Mode.TOPICS:
            return False  # a listener has unsubscribed
        member = self._membership
        self._seen_news, self._seen_version = member.news, self._metadata.snapshot.version
        if member.losses != self._seen_losses:
            self._lose()
            return True
        self.protocol.raise_failure()
        has_gone_on = self._owned_partitions.go_on()
        if has_gone_on is not None:
            return has_gone_on
        return self.protocol.step(self._seen_losses)

    def _lose(self) -> None:
        """The membership has ended: others may read these partitions already."""
        losses = self._membership.losses
        self.protocol.forget()
        self._owned_partitions.lose(self._standing.lost_because)
        self._seen_losses = losses  # else they are told again, of what is left

    def _complain_of(self, gap: float) -> None:
        """Once it is known how long it was in the end."""
        polls = self._membership.polls
        if gap > polls.limit and self._membership.losses != self._seen_losses:
            self._standing.lost_because = polls.complaint(gap)

    # ------------------------------------------------------------------ calls of the application

    def subscribed(self, listeners: Listeners) -> None:
        """The subscription has changed: the next look sees to it."""
        self._owned_partitions.listeners = listeners
        self._seen_news = -1  # who iterates looks before the records of the last poll are through
        self._settled_at = ()
        if self.protocol.subscribed() and self._standing.obstacle is None:
            self._standing.obstacle = RebalanceInProgress(
                f"this consumer has not joined group {self._group_id!r} yet; poll(), then commit"
            )

    def enforce(self, reason: str) -> None:
        """The application wants a rebalance.  Raises `IllegalState` where that cannot be."""
        self.protocol.enforce(reason)

    def end(self, reason: str, timeout: float, *, commit: bool, leave: bool | None = None) -> None:
        """Give everything back and leave the group: `unsubscribe`, `close`.

        With `commit` what was handed over is committed before, where that is automatic.
        `leave=None` is Kafka's way: a static member stays, and may come back before its session ends.
        """
        if self._subscription.mode is not Mode.TOPICS:
            return
        deadline = self._driver.clock.monotonic() + timeout
        cleanup = Cleanup()
        cleanup.run(self._give_everything_back, deadline, commit)
        self.protocol.forget()
        self._membership.polls.leave()
        if cleanup.is_interrupted:
            deadline = min(deadline, self._driver.clock.monotonic() + HASTE)
        cleanup.run(self._leave, reason, deadline, leave)
        cleanup.raise_first()

    def _give_everything_back(self, deadline: float, commit: bool) -> None:
        if self._membership.losses != self._seen_losses or self._driver.failure is not None:
            self._lose()  # without its thread it cannot say that it gives them back
        self._owned_partitions.give_everything_back(deadline, commit=commit)

    def _leave(self, reason: str, deadline: float, leave: bool | None) -> None:
        """Leave the group and wait until the coordinator has responded, until `deadline` at most."""
        if self._driver.failure is None:
            responses: list[KafkaError | None] = []
            self.protocol.leave(reason, responses.append, leave)
            remaining = max(deadline - self._driver.clock.monotonic(), 0.0)
            self._driver.wait_until(lambda: bool(responses), remaining)

    def leave_if_interrupted(self, error: BaseException, reason: str, leave: bool | None = None) -> None:
        """Leave the group if an interrupt ended `end`, perhaps before it sent the LeaveGroup request."""
        if is_interrupt(error) and self._subscription.mode is Mode.TOPICS:
            with suppress(ClientClosed, ClientFailed):
                self._leave(reason, self._driver.clock.monotonic() + HASTE, leave)

    def leave_unasked(self, reason: str, timeout: float) -> None:
        """At interpreter exit, on any thread: leave the group without committing or calling listeners.  Never
        raises."""
        told: list[KafkaError | None] = []
        if self._subscription.mode is not Mode.TOPICS or not self.protocol.may_leave_unasked():
            return
        with suppress(KafkaError):
            self.protocol.leave(reason, told.append, None)
            self._driver.wait_until(lambda: bool(told), timeout)
