"""Partitions of two topics change hands, and a commit, a deletion or a Ctrl-C comes in between."""

from __future__ import annotations

from collections.abc import Callable, Collection
from types import SimpleNamespace
from typing import Any

import pytest

from pykafka2.consumer.group.listeners import Listeners
from pykafka2.consumer.group.owned_partitions import OwnedPartitions
from pykafka2.consumer.options import CONSUMER_OPTIONS
from pykafka2.consumer.state.iteration_queue import IterationQueue
from pykafka2.consumer.state.poll_interval import PollClock
from pykafka2.consumer.state.subscription import Hold, Subscription
from pykafka2.driver.completion import Completion
from pykafka2.hooks import Hooks
from pykafka2.metrics import Metrics
from pykafka2.types import TopicPartition

ORDERS = [TopicPartition("orders", number) for number in range(2)]
BILLS = [TopicPartition("bills", number) for number in range(2)]


class Driver:
    """Waits end at once, or raise what `strikes` has."""

    def __init__(self) -> None:
        self.clock = SimpleNamespace(monotonic=lambda: self.now)
        self.now = 0.0
        self.strikes: list[BaseException] = []

    def wait_until(self, predicate: Callable[[], bool], timeout: float, *queues: object) -> bool:
        if self.strikes:
            raise self.strikes.pop()
        return predicate()


class Owner:
    """A member that owns two partitions of two topics, with its commits and the calls of its listener."""

    def __init__(self) -> None:
        self.driver = Driver()
        self.subscription = Subscription(by_group=True)
        self.subscription.subscribe(["orders", "bills"])
        self.commits: list[tuple[list[TopicPartition], Completion[None]]] = []
        self.strikes: list[BaseException] = []
        self.revoked: list[list[TopicPartition]] = []
        self.lost: list[list[TopicPartition]] = []
        options = CONSUMER_OPTIONS.parse(None, {"group_id": "g"})
        cluster: Any = SimpleNamespace(driver=self.driver, metrics=Metrics())
        polls = PollClock(self.driver.clock, options.max_poll_interval, 0.0)
        self.parts = OwnedPartitions(
            options, cluster, self.subscription, IterationQueue(), polls, self, Hooks(())
        )
        self.parts.listeners = Listeners(
            revoked=lambda partitions: self.revoked.append([*partitions]),
            lost=lambda partitions: self.lost.append([*partitions]),
        )
        self.complete_assignment(ORDERS + BILLS)

    def complete_assignment(self, partitions: list[TopicPartition]) -> None:
        self.parts.begin_assignment(partitions)
        self.parts.complete_assignment(partitions)

    def commit_before_rebalance(
        self, partitions: Collection[TopicPartition], timeout: float
    ) -> Completion[None]:
        if self.strikes:
            raise self.strikes.pop()
        completion: Completion[None] = Completion(self.driver, "a commit")
        self.commits.append((list(partitions), completion))
        return completion

    @property
    def owned(self) -> list[TopicPartition]:
        return sorted(self.subscription.assigned)


def test_partitions_of_recreated_topics_are_not_committed_on_revocation() -> None:
    owner = Owner()
    assert owner.parts.begin_revocation(ORDERS + BILLS, of_other_topics=BILLS)
    assert [partitions for partitions, _ in owner.commits] == [ORDERS]
    owner.commits[0][1].succeed(None)
    assert owner.parts.continue_reconciliation() is True
    owner.complete_assignment(BILLS)
    assert owner.parts.begin_revocation(BILLS)
    assert [partitions for partitions, _ in owner.commits] == [ORDERS, BILLS], "that holds for one rebalance"


def test_a_ctrl_c_before_the_last_commit_of_a_second_rebalance_does_not_skip_it() -> None:
    owner = Owner()
    for number in (1, 2):
        if number == 2:
            owner.complete_assignment(ORDERS)
            owner.strikes.append(KeyboardInterrupt())
            with pytest.raises(KeyboardInterrupt):
                owner.parts.begin_revocation(ORDERS)
            assert owner.subscription.held(Hold.REVOKING) == ORDERS
            assert owner.parts.continue_reconciliation() is False
        else:
            assert owner.parts.begin_revocation(ORDERS)
        assert [partitions for partitions, _ in owner.commits] == [ORDERS] * number
        owner.commits[-1][1].succeed(None)
        assert owner.parts.continue_reconciliation() is True
        assert (owner.revoked, owner.owned) == ([ORDERS] * number, BILLS)


def test_a_ctrl_c_in_the_last_commit_at_close_leaves_no_partition() -> None:
    owner = Owner()
    owner.driver.strikes.append(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        owner.parts.revoke_all(5.0, commit=True)
    assert owner.owned == []
    assert owner.parts.continue_reconciliation() is None


def test_a_commit_of_partitions_that_were_lost_keeps_nothing_waiting() -> None:
    owner = Owner()
    assert owner.parts.begin_revocation(ORDERS)
    owner.parts.lose("another member may read these")
    assert (owner.lost, owner.revoked, owner.owned) == ([sorted(ORDERS + BILLS)], [], [])
    assert owner.parts.due_in() == float("inf")
    owner.commits[0][1].succeed(None)
    assert owner.parts.last_commit is None
