"""Topics that match the pattern of a KIP-848 group: only those with Describe (Kafka 4.3)."""

from __future__ import annotations

from random import Random

import pytest

from pykafka2.broker.base.patterns import MAX_STEPS, Pattern, Steps, compile_pattern
from pykafka2.broker.coordinators.groups.consumer import assignment as steps
from pykafka2.errors import InvalidRegularExpression
from pykafka2.testing import STANDARD_AUTHORIZER
from pykafka2.testing.simulation import Simulation
from tests.broker.support.bench import GROUP, ClusterBench

ME = "User:ANONYMOUS"
BOTH = "orders|refunds"


@pytest.fixture
def bench(simulation: Simulation) -> ClusterBench:
    """Resources without ACLs are open; Describe on one of the two topics is denied."""
    config = {"authorizer.class.name": STANDARD_AUTHORIZER, "allow.everyone.if.no.acl.found": True}
    bench = ClusterBench(simulation, config=config)
    bench.cluster.acls.deny(ME, "DESCRIBE", topic="refunds")
    return bench


def matched(bench: ClusterBench) -> set[str]:
    return {topic for topics in bench.consumer().regexes.values() for topic in topics}


def test_pattern_matches_only_topics_that_the_member_can_describe(bench: ClusterBench) -> None:
    joined = bench.beat("one", 0, regex=BOTH)
    assert joined.error_code == 0
    assert matched(bench) == {"orders"}
    assert bench.cluster.acls.denials() == []  # the topic is left out, not denied


def test_changed_acls_take_effect_with_the_next_heartbeat(bench: ClusterBench) -> None:
    epoch = bench.beat("one", 0, regex=BOTH).member_epoch
    bench.cluster.acls.revoke()
    bench.advance(1.0)
    assert bench.beat("one", epoch).member_epoch == epoch + 1
    assert matched(bench) == {"orders", "refunds"}
    bench.cluster.acls.deny(ME, "DESCRIBE", topic="orders")
    bench.advance(1.0)
    bench.beat("one", epoch + 1, owned={})
    assert matched(bench) == {"refunds"}


def test_subscription_to_names_without_describe_is_rejected(bench: ClusterBench) -> None:
    assert bench.beat("one", 0, topics=["orders", "refunds"]).error_code == 29
    assert [one.facts["resource"] for one in bench.cluster.acls.denials()] == ["refunds"]
    assert GROUP not in bench.shard.groups


def test_join_of_a_classic_member_matches_the_patterns_again(bench: ClusterBench) -> None:
    """JoinGroup matches the patterns again if topics or ACLs have changed."""
    bench.cluster.acls.revoke()
    bench.beat("one", 0, regex=BOTH)
    assert matched(bench) == {"orders", "refunds"}
    bench.cluster.acls.deny(ME, "DESCRIBE", topic="refunds")
    bench.advance(1.0)
    bench.join(instance="two")
    assert matched(bench) == {"orders"}


@pytest.mark.gate
def test_new_topics_that_make_a_pattern_too_slow_do_not_fail_other_members(bench: ClusterBench) -> None:
    """Their heartbeat matches all patterns again; those that take too many steps keep their topics."""
    slow = ".*r.{200}|orders"
    first = bench.beat("one", 0, regex=slow)
    assert bench.beat("two", 0, regex="orders.*").error_code == 0
    random = Random(1)
    for number in range(60):
        bench.cluster.create_topic(f"orders-{number}-{''.join(random.choices('orde', k=225))}")
    bench.advance(1.0)
    response = bench.beat("three", 0, regex="refunds")
    assert response.error_code == 0
    matches = bench.consumer().regexes
    assert (len(matches["orders.*"]), matches[slow]) == (61, {"orders"})
    assert bench.beat("one", first.member_epoch, owned={}).error_code == 0
    bench.cluster.acls.deny(ME, "DESCRIBE", topic="orders")
    bench.advance(1.0)
    assert bench.beat("four", 0, regex="refunds").error_code == 0
    assert bench.consumer().regexes[slow] == set()


def test_patterns_of_a_group_share_the_steps_of_a_request(
    bench: ClusterBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits: list[int] = []

    def compile_noted(text: str, limit: Steps) -> Pattern:
        limits.append(limit.left)
        return compile_pattern(text, limit)

    monkeypatch.setattr(steps, "compile_pattern", compile_noted)
    for number in range(4):
        assert bench.beat(str(number), 0, regex=f"orders{number}").error_code == 0
    limits.clear()
    bench.cluster.create_topic("another")
    bench.advance(1.0)
    assert bench.beat("4", 0, regex="orders4").error_code == 0
    assert limits == [MAX_STEPS // 5] * 5


@pytest.mark.gate
def test_usual_patterns_of_many_members_get_new_topics(bench: ClusterBench) -> None:
    """A fortieth of the steps for each pattern would be too few, and miss the topics."""
    patterns = [f".*(orders|payments|shipping|customers|{number}).*" for number in range(40)]
    for pattern in patterns:
        assert bench.beat(pattern, 0, regex=pattern).error_code == 0
    random = Random(1)
    for _ in range(60):
        bench.cluster.create_topic("".join(random.choices("ordespaymntchi-._0123456789", k=100)) + "orders")
    bench.advance(1.0)
    assert bench.beat("another", 0, regex="orders").error_code == 0
    matches = bench.consumer().regexes
    assert [len(matches[pattern]) for pattern in patterns] == [61] * 40


def test_new_pattern_that_takes_too_many_steps_is_rejected(bench: ClusterBench) -> None:
    response = bench.beat("one", 0, regex="((a{1000}){1000}){1000}")
    assert response.error_code == InvalidRegularExpression.code
    assert GROUP not in bench.shard.groups
