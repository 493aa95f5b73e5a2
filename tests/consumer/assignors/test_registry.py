"""Values of `partition_assignment_strategy`, and the rebalance protocol of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import pytest

from pykafka2.consumer.assignors.assignor import (
    Assignment,
    Assignor,
    ClusterMetadata,
    MemberSubscription,
    RebalanceProtocol,
    group_assignment,
    rebalance_protocol,
)
from pykafka2.consumer.assignors.range import RangeAssignor
from pykafka2.consumer.assignors.registry import read_assignors
from pykafka2.errors import AssignorFailed, ConfigurationError
from tests.consumer.assignors.groups import a_cluster, by_member, partitions, reading

COOPERATIVE = RebalanceProtocol.COOPERATIVE
EAGER = RebalanceProtocol.EAGER


class ToTheFirst(Assignor):
    """An application's own: everything goes to the first member."""

    answer: Any = None

    @property
    def name(self) -> str:
        return "to-the-first"

    def assign(
        self, cluster: ClusterMetadata, members: Mapping[str, MemberSubscription]
    ) -> Mapping[str, Assignment]:
        if self.answer is not None:
            return self.answer()  # type: ignore[no-any-return]
        every = tuple(one for topic in cluster.partitions for one in cluster.topic_partitions(topic))
        return {min(members): Assignment(every)}


class Cooperating(ToTheFirst):
    @property
    def name(self) -> str:
        return "cooperating"

    @property
    def protocols(self) -> tuple[RebalanceProtocol, ...]:
        return (COOPERATIVE,)


@attrs.define
class Foreign:
    """An object that inherits from nothing."""

    name: str = "foreign"
    protocols: tuple[RebalanceProtocol, ...] = (EAGER, COOPERATIVE)

    def assign(self, cluster: Any, members: Any) -> dict[str, Assignment]:
        return {}

    def user_data(self, topics: Any, last: Any) -> bytes:
        return b"mine"

    def on_assignment(self, assignment: Any, generation: int) -> None:
        return


def names(value: Any) -> list[str]:
    return [assignor.name for assignor in read_assignors(value)]


@pytest.mark.parametrize(
    "value",
    [
        "range",
        "org.apache.kafka.clients.consumer.RangeAssignor",
        "RangeAssignor",
        "RangePartitionAssignor",
        RangeAssignor,
        RangeAssignor(),
        ["range"],
        (RangeAssignor,),
    ],
)
def test_an_assignor_has_many_names(value: object) -> None:
    assert names(value) == ["range"]


def test_several_assignors_are_offered_in_the_configured_order() -> None:
    assert names("roundrobin, range") == ["roundrobin", "range"]
    assert names([ToTheFirst, "range"]) == ["to-the-first", "range"]
    assert names([Foreign(), "org.apache.kafka.clients.consumer.RoundRobinAssignor"]) == [
        "foreign",
        "roundrobin",
    ]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (
            "rang",
            r"no assignor 'rang'; the nearest is 'range', all are 'range', 'roundrobin', 'sticky', 'coop",
        ),
        ("roundrobbin", r"nearest is 'roundrobin'"),
        ("org.apache.kafka.clients.consumer.RangAssignor", r"nearest is 'range'"),
        ("", r"no assignor ''"),
        ([], r"needs an assignor"),
        (["range", "RangeAssignor"], r"two assignors are named 'range'"),
        (
            3,
            r"3 is not an assignor, because it lacks assign, user_data, on_assignment, name, protocols; inh",
        ),
        ([object()], r"is not an assignor"),
        (Foreign(name=""), r"name of .* is ''"),
        (Assignor, r"Assignor\(\) raised TypeError"),
        (
            ["range", Cooperating],
            r"no rebalance protocol in common: 'range' \(EAGER\), 'cooperating' \(COOPER",
        ),
    ],
)
def test_invalid_assignor_is_rejected_by_name(value: object, words: str) -> None:
    with pytest.raises(ConfigurationError, match=f"partition_assignment_strategy.*{words}"):
        read_assignors(value)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # kafka-python reads its schemas the old way
def test_classes_of_kafka_python_are_refused_with_their_counterparts() -> None:
    from kafka.coordinator.assignors.range import RangePartitionAssignor

    with pytest.raises(ConfigurationError, match=r"works in kafka only; use 'range' instead"):
        read_assignors([RangePartitionAssignor])


def test_one_eager_assignor_makes_all_eager() -> None:
    assert rebalance_protocol(read_assignors([Foreign])) is COOPERATIVE
    assert rebalance_protocol(read_assignors([Foreign, Cooperating])) is COOPERATIVE
    assert rebalance_protocol(read_assignors([Foreign, "range"])) is EAGER


def test_member_left_out_by_the_assignor_gets_an_empty_assignment() -> None:
    members = {"b": reading(["t"]), "a": reading(["t"])}
    assert by_member(group_assignment(ToTheFirst(), EAGER, a_cluster({"t": 2}), members)) == {
        "a": ["t-0", "t-1"],
        "b": [],
    }


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda: 1 // 0, r"assign\(\) raised ZeroDivisionError"),
        (
            lambda: {"z": Assignment()},
            r"assigned partitions to 'z', which is not a member; members are 'a', 'b'",
        ),
        (lambda: {"a": partitions("t-0")}, r"for member 'a'; return a pykafka2.Assignment"),
        (lambda: 3, r"raised TypeError"),
    ],
)
def test_invalid_assignment_raises_assignor_failed_with_its_name(answer: Any, words: str) -> None:
    assignor = ToTheFirst()
    assignor.answer = answer
    members = {"a": reading(["t"]), "b": reading(["t"])}
    with pytest.raises(AssignorFailed, match=f"assignor 'to-the-first': .*{words}"):
        group_assignment(assignor, EAGER, a_cluster({"t": 2}), members)


def test_a_partition_must_not_move_in_one_rebalance_of_the_cooperative_protocol() -> None:
    members = {"a": reading(["t"], generation=3), "b": reading(["t"], "t-1", generation=3)}
    with pytest.raises(
        AssignorFailed, match=r"'cooperating' is cooperative, but assigned t-1 to 'a' while 'b' owns"
    ):
        group_assignment(Cooperating(), COOPERATIVE, a_cluster({"t": 2}), members)


def test_partition_claimed_by_an_evicted_member_may_move() -> None:
    members = {"a": reading(["t"], generation=3), "b": reading(["t"], "t-1", generation=2)}
    assigned = group_assignment(Cooperating(), COOPERATIVE, a_cluster({"t": 2}), members)
    assert by_member(assigned)["a"] == ["t-0", "t-1"]
