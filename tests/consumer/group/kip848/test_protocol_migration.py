"""Groups between the protocols: a running group changes over, member by member, and back."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka2.errors import GroupIdNotFound
from pykafka2.testing import Simulation
from tests.consumer.group.kip848.groups import CLASSIC_ONLY, SESSION, consumer_group
from tests.consumer.group.life import Group, Member

pytestmark = pytest.mark.slow

CLASSIC: dict[str, Any] = {"heartbeat_interval_ms": 500, "session_timeout_ms": 6000}
CONSUMER: dict[str, Any] = {"group_protocol": "consumer", **CLASSIC_ONLY}


def mixed_group(simulation: Simulation, **config: Any) -> Group:
    return Group(
        simulation, config={**SESSION, **config}, heartbeat_interval_ms=None, session_timeout_ms=None
    )


def settle(group: Group, *members: Member) -> None:
    """Every partition has one owner; the protocols count generations each in its own way."""

    def is_shared() -> bool:
        owned = sorted(partition.partition for member in members for partition in member.owned)
        return owned == list(range(6)) and all(member.owned for member in members)

    group.turn_until(is_shared, 60)


@pytest.mark.gate
@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_group_changes_its_protocol_forth_and_back_member_by_member(
    simulation: Simulation, strategy: str
) -> None:
    group = mixed_group(simulation)
    classic = {**CLASSIC, "partition_assignment_strategy": strategy}
    values = group.produce(60)
    old = [group.member(name, **classic) for name in ("a", "b")]
    settle(group, *old)
    read: list[bytes] = []
    names = iter("cdefgh")
    members = old
    for options in (CONSUMER, CONSUMER, classic, classic):
        gone, *stay = members
        gone.consumer.close()
        group.members.remove(gone)
        read += gone.read
        members = [*stay, group.member(next(names), **options)]
        settle(group, *members)
        values += group.produce(30, start=len(values))
        group.turn(1)
        kinds = [member.health()["protocol"] for member in members]
        assert group.cluster.group("g").kind == ("consumer" if "consumer" in kinds else "classic")
        assert all(member.errors == [] for member in members)
    read += [value for member in members for value in member.read]
    assert sorted(read) == sorted(values), "each once, over four restarts"
    assert group.problems == []


def test_members_of_both_protocols_join_and_leave_in_any_order(simulation: Simulation) -> None:
    group = mixed_group(simulation)
    first = group.member("a", **CONSUMER)
    group.settle()
    second = group.member("b", **CLASSIC)
    settle(group, first, second)
    third = group.member("c", **CONSUMER)
    settle(group, first, second, third)
    first.consumer.close()
    group.members.remove(first)
    settle(group, second, third)
    third.crash()
    settle(group, second)


@pytest.mark.parametrize("policy", ["disabled", "downgrade"])
def test_forbidden_protocol_migration_raises_with_the_migration_policy(
    simulation: Simulation, policy: str
) -> None:
    group = mixed_group(simulation, **{"group.consumer.migration.policy": policy})
    old = group.member("a", **CLASSIC)
    settle(group, old)
    new = group.member("b", **CONSUMER)
    group.turn_until(lambda: bool(new.errors), 10)
    with pytest.raises(GroupIdNotFound, match=r"migration\.policy.*group_protocol='classic'"):
        raise new.errors[0]
    assert len(old.owned) == 6
    group.members.remove(new)
    new.consumer.close()


def test_a_classic_static_member_joins_a_group_of_the_other_kind(simulation: Simulation) -> None:
    group = consumer_group(simulation)
    first = group.member("a")
    group.settle()
    options = {**CLASSIC, "group_protocol": "classic", "partition_assignment_strategy": "range"}
    second = group.member("b", group_instance_id="till-1", **options)
    settle(group, first, second)
    assert first.errors == second.errors == []


def test_static_member_changes_its_protocol_under_its_instance_id(simulation: Simulation) -> None:
    group = mixed_group(simulation)
    first = group.member("a", group_instance_id="till-1", **CLASSIC)
    second = group.member("b", group_instance_id="till-2", **CLASSIC)
    settle(group, first, second)
    had, count = set(first.owned), len(second.calls)
    first.consumer.close()
    group.members.remove(first)
    again = group.member("c", group_instance_id="till-1", **CONSUMER)
    settle(group, again, second)
    assert again.owned == had
    assert all(not one.partitions for one in second.calls[count:]), "the other one keeps what it had"
