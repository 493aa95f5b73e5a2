"""Listeners that close the consumer, poll, or read in the middle of a rebalance; both protocols."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pykafka2.errors import ClientClosed, IllegalState
from pykafka2.testing import Simulation
from pykafka2.types import TopicPartition
from tests.consumer.group.kip848.groups import consumer_group
from tests.consumer.group.life import Group, Member

pytestmark = pytest.mark.slow

PROTOCOLS = pytest.mark.parametrize("new_group", [Group, consumer_group], ids=["classic", "consumer"])
MOMENTS = pytest.mark.parametrize("moment", ["assigned", "revoked", "lost"])
NewGroup = Callable[..., Group]


def lead_to(moment: str, group: Group, member: Member) -> Member:
    """Bring it about that the member's next polls tell its listener of this; the other member."""
    if moment == "assigned":
        return group.member("b")
    group.turn_until(lambda: len(member.owned) == 6, 20)
    other = group.member("b")
    if moment == "lost":
        member.is_stalled = True
        group.turn_until(lambda: len(other.owned) == 6, 20)
        member.is_stalled = False
    return other


@pytest.mark.gate
@MOMENTS
@PROTOCOLS
def test_close_in_a_listener_calls_it_once_and_the_group_continues(
    simulation: Simulation, new_group: NewGroup, moment: str
) -> None:
    group = new_group(simulation, max_poll_interval_ms=5_000)
    values = group.produce(60)
    member = group.member("a")
    other = lead_to(moment, group, member)
    before = len(member.calls)

    def act(what: str, partitions: list[object]) -> None:
        if what == moment:
            member.consumer.close(timeout=2)

    member.in_listener = act  # type: ignore[assignment]
    group.turn_until(lambda: bool(member.errors), 20)
    assert isinstance(member.errors[-1], ClientClosed)
    gone = [one for call in member.calls[before:] if call.what != "assigned" for one in call.partitions]
    assert len(gone) == len(set(gone)), "one call for each"
    assert member.calls[before].what == moment
    assert not member.owned
    with pytest.raises(ClientClosed):
        member.consumer.poll(0)
    member.consumer.close()
    group.members.remove(member)
    group.turn_until(lambda: len(other.owned) == 6, 20)
    group.turn(1)
    assert len(group.cluster.group("g").members) == 1
    assert set(other.read) | set(member.read) <= set(values)


@PROTOCOLS
def test_close_in_a_listener_during_close_is_harmless(simulation: Simulation, new_group: NewGroup) -> None:
    group = new_group(simulation)
    member = group.member("a")
    group.settle()
    member.in_listener = lambda what, partitions: member.consumer.close()
    member.consumer.close()
    assert member.what("revoked") == [[0, 1, 2, 3, 4, 5]]
    assert not group.cluster.group("g").members
    with pytest.raises(ClientClosed):
        member.consumer.poll(0)
    member.consumer.close()


@pytest.mark.gate
@MOMENTS
@PROTOCOLS
def test_poll_in_a_listener_raises_illegal_state_without_further_effect(
    simulation: Simulation, new_group: NewGroup, moment: str
) -> None:
    group = new_group(simulation, max_poll_interval_ms=5_000)
    values = group.produce(60)
    member = group.member("a")
    other = lead_to(moment, group, member)
    errors: list[IllegalState] = []

    def act(what: str, partitions: list[object]) -> None:
        if what == moment:
            for call in (lambda: member.consumer.poll(0), lambda: next(member.consumer)):
                with pytest.raises(IllegalState, match="inside a rebalance listener") as raised:
                    call()
                errors.append(raised.value)

    member.in_listener = act  # type: ignore[assignment]
    group.turn_until(lambda: bool(errors) and len(member.owned) == len(other.owned) == 3, 30)
    group.turn(2)
    assert not member.errors
    assert set(member.read) | set(other.read) == set(values)


@pytest.mark.gate
@MOMENTS
@PROTOCOLS
def test_assign_in_a_listener_reads_all_assigned_partitions(
    simulation: Simulation, new_group: NewGroup, moment: str
) -> None:
    group = new_group(simulation, max_poll_interval_ms=5_000)
    values = group.produce(60)
    member = group.member("a")
    other = lead_to(moment, group, member)
    wanted = [TopicPartition("orders", number) for number in range(6)]

    def act(what: str, partitions: list[object]) -> None:
        if what == moment and member.consumer.subscription():
            member.consumer.unsubscribe()
            member.consumer.assign(wanted)
            member.consumer.seek_to_beginning()

    member.in_listener = act  # type: ignore[assignment]
    read: list[bytes] = []
    until = group.now + 20
    while len(read) < 60 and group.now < until:
        polled = member.consumer.poll(50)
        if not member.consumer.subscription():
            read += [record.value for records in polled.values() for record in records]
        other.poll()
    assert member.consumer.assignment() == set(wanted)
    assert sorted(read) == sorted(values)


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt], ids=["error", "ctrl-c"])
@PROTOCOLS
def test_close_leaves_the_group_though_the_listener_raises(
    simulation: Simulation, new_group: NewGroup, error: type[BaseException]
) -> None:
    """Else the others would wait for its session to end."""
    group = new_group(simulation)
    first, second = group.member("a"), group.member("b")
    group.settle()

    def refuse(what: str, partitions: list[object]) -> None:
        raise error("not now")

    first.in_listener = refuse  # type: ignore[assignment]
    with pytest.raises(error, match="not now"):
        first.consumer.close()
    group.members.remove(first)
    assert group.turn_until(lambda: len(second.owned) == 6, 10) < 3


@pytest.mark.gate
@pytest.mark.parametrize("call", ["close", "unsubscribe"])
@PROTOCOLS
def test_ctrl_c_is_raised_though_a_listener_raised(
    simulation: Simulation, new_group: NewGroup, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    group = new_group(simulation)
    member = group.member("a")
    group.settle()

    def press(predicate: object, timeout: float, *queues: object) -> bool:
        raise KeyboardInterrupt

    def refuse(what: str, partitions: list[object]) -> None:
        monkeypatch.setattr(member.consumer._core.cluster.driver, "wait_until", press)
        raise RuntimeError("not now")

    member.in_listener = refuse  # type: ignore[assignment]
    with pytest.raises(KeyboardInterrupt):
        getattr(member.consumer, call)()


@PROTOCOLS
def test_ctrl_c_in_the_last_commit_is_raised_though_the_listener_raised(
    simulation: Simulation, new_group: NewGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = new_group(simulation)
    group.produce(12)
    member = group.member("a")
    group.settle()
    group.turn_until(lambda: len(member.read) == 12, 10)
    driver, strikes = member.consumer._core.cluster.driver, [KeyboardInterrupt()]
    wait_until = driver.wait_until

    def press(predicate: Callable[[], bool], timeout: float) -> bool:
        if strikes:
            raise strikes.pop()
        return wait_until(predicate, timeout)

    def refuse(what: str, partitions: list[object]) -> None:
        raise RuntimeError("not now")

    member.in_listener = refuse  # type: ignore[assignment]
    monkeypatch.setattr(driver, "wait_until", press)
    with pytest.raises(KeyboardInterrupt):
        member.consumer.close()
    assert not strikes


@PROTOCOLS
def test_seek_in_a_listener_with_an_empty_assignment_is_allowed(
    simulation: Simulation, new_group: NewGroup
) -> None:
    """If it is assigned no partition, `seek_to_beginning(*assigned)` has no argument, which is no mistake
    there.
    """
    group = new_group(simulation, topics={"orders": 1})
    members = [group.member("a"), group.member("b")]
    for member in members:
        member.in_listener = lambda what, partitions, one=member: (  # type: ignore[misc]
            one.consumer.seek_to_beginning(*partitions) if what == "assigned" else None
        )
    group.settle()
    assert not [error for member in members for error in member.errors]
    idle = next(member for member in members if not member.owned)
    with pytest.raises(IllegalState, match=r"seek_to_beginning\(\): no partition is assigned"):
        idle.consumer.seek_to_beginning()
