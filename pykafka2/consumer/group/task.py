"""The caller's side of a membership in either group protocol: one of the tasks of poll().

Used on the caller's thread. Each call does the work that needs no waiting, so poll() never blocks beyond its
timeout. Each step depends only on the current state (of the member and of the partitions), so an exception of
a listener or a Ctrl-C only delays the remaining steps. The protocol-specific part is classic/rebalance.py or
kip848/reconciliation.py. Neighbors: the memberships (the driver's side), owned_partitions.py (revokes and
assigns partitions, calls the listeners).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol

from pykafka2.cluster.client import ClusterClient
from pykafka2.consumer.group.listeners import Listeners
from pykafka2.consumer.group.member import Member
from pykafka2.consumer.group.owned_partitions import OwnedPartitions
from pykafka2.consumer.state.group_identity import GroupStatus
from pykafka2.consumer.state.subscription import Mode, Subscription
from pykafka2.errors import ClientClosed, ClientFailed, IllegalState, KafkaError, RebalanceInProgress
from pykafka2.interrupts import Cleanup, is_interrupt

Done = Callable[[KafkaError | None], None]

# Seconds to wait for the LeaveGroup response after an interrupt.
LEAVE_WAIT_AFTER_INTERRUPT = 0.05


class GroupProtocol(Protocol):
    """The part of a group task that depends on the group protocol."""

    unnamed_topics: frozenset[bytes]
    """Ids of assigned topics whose names the metadata does not have yet."""

    def raise_failure(self) -> None:
        """Raise the error of the membership, if there is one."""
        ...

    def step(self, losses: int) -> bool:
        """Take one step towards membership or the assignment; False if there is none to take now.

        `losses` identifies the membership that the caller has seen.
        """
        ...

    def forget(self) -> None:
        """Reset after the membership has ended or before the member leaves."""
        ...

    def subscribed(self) -> bool:
        """Handle a changed subscription; True if this consumer is not a member yet."""
        ...

    def enforce(self, reason: str) -> None:
        """Request a rebalance for the application."""
        ...

    def leave(self, reason: str, done: Done, leave: bool | None) -> None:
        """Leave the group; `done` is called when the request has ended.  `leave` as in `GroupTask.end`."""
        ...

    def leaves_at_exit(self) -> bool:
        """Return whether the member leaves the group at interpreter exit."""
        ...


class GroupTask:
    """Drives the membership of one consumer from poll() (a `PollTask`)."""

    def __init__(
        self,
        group_id: str,
        cluster: ClusterClient,
        subscription: Subscription,
        group_status: GroupStatus,
        membership: Member[Any, Any],
        owned_partitions: OwnedPartitions,
        protocol: GroupProtocol,
    ) -> None:
        self.protocol = protocol
        self._group_id = group_id
        self._driver = cluster.driver
        self._metadata = cluster.metadata
        self._subscription = subscription
        self._group_status = group_status
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

    def run(self, remaining: float) -> None:
        """Do the work that is due without waiting.  Raise errors of listeners and of the membership."""
        if not self.run_without_listeners():
            return  # as in nearly every poll()
        versions = self._versions()
        self._settled_at = ()
        while self._step():
            versions = self._versions()
        self._settled_at = versions

    def run_without_listeners(self) -> bool:
        """Start a poll(); return whether the group has a step to take, which can call a listener."""
        if self.is_in_listener:
            raise IllegalState(
                "poll() was called inside a rebalance listener, where it would wait for itself; return from "
                "the listener first"
            )
        if self._subscription.mode is not Mode.TOPICS:
            return False
        self._explain_loss(self._membership.polls.enter())
        is_settled = self._versions() == self._settled_at and self._membership.failure is None
        return not is_settled or self._subscription.is_reconciling()

    def _versions(self) -> tuple[object, ...]:
        """Return the versions of everything that a step depends on, except revocations and assignments in
        progress."""
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
        """Stop the poll interval while poll() waits."""
        if self._subscription.mode is Mode.TOPICS:
            self._membership.polls.wait()

    def on_return(self) -> None:
        """Start the poll interval when poll() returns."""
        if self._subscription.mode is Mode.TOPICS:
            self._membership.polls.leave()

    def on_iteration(self) -> None:
        """Restart the poll interval: iterating over polled records counts as a poll."""
        self.on_return()

    # ------------------------------------------------------------------ one step

    def _step(self) -> bool:
        """Take one step; False if there is nothing to do now."""
        if self._subscription.mode is not Mode.TOPICS:
            return False  # a listener has unsubscribed
        member = self._membership
        self._seen_news, self._seen_version = member.news, self._metadata.snapshot.version
        if member.losses != self._seen_losses:
            self._handle_lost_membership()
            return True
        self.protocol.raise_failure()
        has_progressed = self._owned_partitions.continue_reconciliation()
        if has_progressed is not None:
            return has_progressed
        return self.protocol.step(self._seen_losses)

    def _handle_lost_membership(self) -> None:
        """Handle the end of the membership: other members can own the partitions already."""
        losses = self._membership.losses
        self.protocol.forget()
        self._owned_partitions.lose(self._group_status.lost_because)
        self._seen_losses = losses  # last: if a listener raises, the next step calls it for the rest

    def _explain_loss(self, gap: float) -> None:
        """Record the final length of the poll gap that ended the membership."""
        polls = self._membership.polls
        if gap > polls.limit and self._membership.losses != self._seen_losses:
            self._group_status.lost_because = polls.complaint(gap)

    # ------------------------------------------------------------------ calls of the application

    def subscribed(self, listeners: Listeners) -> None:
        """Handle a changed subscription in the next step."""
        self._owned_partitions.listeners = listeners
        self._seen_news = -1  # iteration then takes a step before the records of the last poll run out
        self._settled_at = ()
        if self.protocol.subscribed() and self._group_status.commit_error is None:
            self._group_status.commit_error = RebalanceInProgress(
                f"this consumer has not joined group {self._group_id!r} yet; call poll(), then commit"
            )

    def enforce(self, reason: str) -> None:
        """Request a rebalance for the application.  Raise `IllegalState` if that is impossible."""
        self.protocol.enforce(reason)

    def end(self, reason: str, timeout: float, *, commit: bool, leave: bool | None = None) -> None:
        """Revoke all partitions and leave the group, for `unsubscribe` and `close`.

        With `commit` the positions are committed first, if auto-commit is enabled. With `leave=None` a
        static member stays in the group, as in Kafka, and can return before its session times out.
        """
        if self._subscription.mode is not Mode.TOPICS:
            return
        deadline = self._driver.clock.monotonic() + timeout
        cleanup = Cleanup()
        cleanup.run(self._revoke_all, deadline, commit)
        self.protocol.forget()
        self._membership.polls.leave()
        if cleanup.is_interrupted:
            deadline = min(deadline, self._driver.clock.monotonic() + LEAVE_WAIT_AFTER_INTERRUPT)
        cleanup.run(self._leave, reason, deadline, leave)
        cleanup.raise_first()

    def _revoke_all(self, deadline: float, commit: bool) -> None:
        if self._membership.losses != self._seen_losses or self._driver.failure is not None:
            self._handle_lost_membership()  # after a failure of the driver's thread nothing can be committed
        self._owned_partitions.revoke_all(deadline, commit=commit)

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
                self._leave(reason, self._driver.clock.monotonic() + LEAVE_WAIT_AFTER_INTERRUPT, leave)

    def leave_at_exit(self, reason: str, timeout: float) -> None:
        """Leave the group at interpreter exit, on any thread, without committing or calling listeners.

        Errors are ignored.
        """
        responses: list[KafkaError | None] = []
        if self._subscription.mode is not Mode.TOPICS or not self.protocol.leaves_at_exit():
            return
        with suppress(KafkaError):
            self.protocol.leave(reason, responses.append, None)
            self._driver.wait_until(lambda: bool(responses), timeout)
