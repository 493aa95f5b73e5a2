"""When poll() takes a step of the membership: after every change that a step depends on, and only then."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from pykafka2.consumer.group.task import GroupTask
from pykafka2.consumer.state.subscription import Mode
from pykafka2.errors import KafkaError


class Parts:
    """A group task whose parts have nothing to do, and which is settled."""

    def __init__(self) -> None:
        self.steps = 0
        self.error: BaseException | None = None
        self.is_reconciling = False
        polls = SimpleNamespace(enter=lambda: 0.0, limit=300.0)
        self.member: Any = SimpleNamespace(news=1, losses=0, failure=None, polls=polls)
        self.metadata: Any = SimpleNamespace(snapshot=SimpleNamespace(version=1))
        self.subscription: Any = SimpleNamespace(
            mode=Mode.TOPICS,
            changes=1,
            topics=frozenset({"orders"}),
            remote_pattern=None,
            is_reconciling=lambda: self.is_reconciling,
        )
        self.standing: Any = SimpleNamespace(lost_because="", obstacle=None)
        owned: Any = SimpleNamespace(
            is_in_listener=False, continue_reconciliation=lambda: None, lose=lambda because: None
        )
        protocol: Any = SimpleNamespace(
            raise_failure=lambda: None, step=self.step, forget=lambda: None, subscribed=lambda: False
        )
        cluster: Any = SimpleNamespace(driver=None, metadata=self.metadata)
        self.task = GroupTask("g", cluster, self.subscription, self.standing, self.member, owned, protocol)
        self.member.losses = self.task._seen_losses
        self.task.run(1.0)
        self.steps = 0

    def step(self, losses: int) -> bool:
        self.steps += 1
        if self.error is not None:
            raise self.error
        return False

    def steps_of_attend(self) -> int:
        self.steps = 0
        self.task.run(1.0)
        return self.steps


CHANGES: dict[str, Callable[[Parts], None]] = {
    "news of the member": lambda parts: vars(parts.member).update(news=2),
    "loss of the membership": lambda parts: vars(parts.member).update(losses=1),
    "metadata": lambda parts: vars(parts.metadata.snapshot).update(version=2),
    "assigned partitions": lambda parts: vars(parts.subscription).update(changes=2),
    # The metadata can change between the pattern's match and the step.
    "topics of a pattern": lambda parts: vars(parts.subscription).update(topics=frozenset({"payments"})),
    "remote pattern": lambda parts: vars(parts.subscription).update(remote_pattern="pay.*"),
    "subscription": lambda parts: parts.task.subscribed(SimpleNamespace()),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("change", CHANGES)
def test_poll_takes_a_step_after_a_change_and_then_none(change: str) -> None:
    parts = Parts()
    assert parts.steps_of_attend() == 0
    CHANGES[change](parts)
    assert parts.steps_of_attend() > 0
    assert parts.steps_of_attend() == 0


def test_each_poll_takes_a_step_while_partitions_are_reconciled() -> None:
    parts = Parts()
    parts.is_reconciling = True
    assert (parts.steps_of_attend(), parts.steps_of_attend()) == (1, 1)


def test_each_poll_takes_a_step_while_the_membership_has_failed() -> None:
    parts = Parts()
    parts.member.failure = KafkaError("refused")
    assert (parts.steps_of_attend(), parts.steps_of_attend()) == (1, 1)


@pytest.mark.parametrize("error", [KafkaError("listener"), KeyboardInterrupt()])
def test_step_that_raised_is_taken_again_though_nothing_has_changed(error: BaseException) -> None:
    parts = Parts()
    parts.task.subscribed(SimpleNamespace())  # type: ignore[arg-type]
    parts.error = error
    with pytest.raises(type(error)):
        parts.task.run(1.0)
    parts.error = None
    assert parts.steps_of_attend() == 1


def test_step_that_raised_after_a_change_that_was_undone_is_taken_again() -> None:
    parts = Parts()
    topics, parts.subscription.topics = parts.subscription.topics, frozenset({"payments"})
    parts.error = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        parts.task.run(1.0)
    parts.subscription.topics, parts.error = topics, None
    assert parts.steps_of_attend() == 1


def test_change_during_a_step_leads_to_another_step() -> None:
    parts = Parts()
    parts.member.news += 1

    def step(losses: int) -> bool:
        parts.member.news += 1
        return False

    parts.task.protocol.step = step  # type: ignore[method-assign]
    parts.task.run(1.0)
    parts.task.protocol.step = parts.step  # type: ignore[method-assign]
    assert parts.steps_of_attend() == 1
