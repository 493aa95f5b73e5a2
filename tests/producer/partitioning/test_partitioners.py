"""Partitions of records that name none: strategies by name, and custom partitioners."""

from __future__ import annotations

import ctypes
import random
from collections import Counter
from threading import Thread
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykafka2.errors import IllegalArgument
from pykafka2.producer.partitioning.key_hashes import fnv1a
from pykafka2.producer.partitioning.partitioners import ClusterView, Strategy, strategy_of
from pykafka2.producer.partitioning.topic_route import Route
from pykafka2.testing import KafkaCluster, Simulation
from tests.producer.partitioning.routes import a_route

# What librdkafka 2.16.0 answered for a topic of 97 partitions.
LIBRDKAFKA: dict[str, dict[bytes | None, int]] = {
    "consistent": {
        None: 0,
        b"": 0,
        b"a": 80,
        b"kafka": 30,
        b"order-17": 26,
        b"\xff" * 5: 33,
        b"this is another string with more length!": 57,
    },
    "murmur2": {
        None: 35,
        b"": 35,
        b"a": 49,
        b"kafka": 28,
        b"order-17": 69,
        b"\xff" * 5: 5,
        b"this is another string with more length!": 13,
    },
    "fnv1a": {
        None: 68,
        b"": 68,
        b"a": 49,
        b"kafka": 52,
        b"order-17": 10,
        b"\xff" * 5: 66,
        b"this is another string with more length!": 56,
    },
}


def strategy(name: Any) -> Strategy:
    return strategy_of(name, ignores_keys=False, seeded=random.Random(7))


def chosen(strategy: Strategy, route: Route, key: bytes | None = None) -> int | None:
    """The partition that `send` would take; None where the record sticks."""
    if strategy.choose is not None:
        queue = strategy.choose(route, key, key, b"v", b"v")
        return None if queue is None else queue.partition
    return None if key is None else strategy.hashes[key] % len(route.queues)


@pytest.mark.parametrize("name", LIBRDKAFKA)
def test_keys_go_where_librdkafka_sends_them(name: str) -> None:
    one, route = strategy(name), a_route(97)
    assert {key: chosen(one, route, key) for key in LIBRDKAFKA[name]} == LIBRDKAFKA[name]


@pytest.mark.parametrize(
    ("name", "spread"), [("consistent", [None, b""]), ("murmur2", [None]), ("fnv1a", [None])]
)
def test_the_random_ones_of_librdkafka_spread_records_without_a_key(
    name: str, spread: list[bytes | None]
) -> None:
    one, route = strategy(f"{name}_random"), a_route(97)
    expected = {key: None if key in spread else LIBRDKAFKA[name][key] for key in LIBRDKAFKA[name]}
    assert {key: chosen(one, route, key) for key in expected} == expected


@given(st.binary(max_size=60))
def test_fnv1a_agrees_with_an_independent_implementation(key: bytes) -> None:
    h = ctypes.c_int32(-2128831035)
    for byte in key:
        h = ctypes.c_int32((h.value ^ byte) * 16777619)
    assert fnv1a(key) == abs(h.value)


def test_ten_records_without_a_key_spread_evenly_over_three_partitions() -> None:
    for name in ("murmur2_round_robin", "round_robin"):
        one, route = strategy(name), a_route(3)
        partitions = [chosen(one, route) for _ in range(10)]
        assert sorted(Counter(partitions).values()) == [3, 3, 4]


def test_round_robin_begins_at_the_first_partition_and_ignores_keys_as_javas_does() -> None:
    one, route = strategy("round_robin"), a_route(3)
    assert [chosen(one, route, b"same") for _ in range(4)] == [0, 1, 2, 0]
    by_its_name_in_java = strategy("org.apache.kafka.clients.producer.RoundRobinPartitioner")
    assert [chosen(by_its_name_in_java, route, b"same") for _ in range(4)] == [0, 1, 2, 0]


def test_murmur2_round_robin_keeps_keys_together() -> None:
    one, route = strategy("murmur2_round_robin"), a_route(97)
    assert {key: chosen(one, route, key) for key in (b"a", b"kafka")} == {b"a": 49, b"kafka": 28}


def test_murmur2_round_robin_begins_anywhere_lest_all_clients_begin_at_the_first() -> None:
    route = a_route(3)
    strategies = [
        strategy_of("murmur2_round_robin", ignores_keys=False, seeded=random.Random(seed))
        for seed in range(20)
    ]
    assert {chosen(one, route) for one in strategies} == {0, 1, 2}


def test_partition_with_a_leader_missing_from_metadata_is_not_available() -> None:
    route = a_route(3)
    nodes = {number: node for number, node in route.snapshot.nodes.items() if number != 1}
    view = ClusterView(attrs.evolve(route.snapshot, nodes=nodes))
    assert view.available_partitions_for_topic("orders") == {0, 2}
    assert view.partitions_for_topic("orders") == {0, 1, 2}
    assert view.available_partitions_for_topic("unknown") == set()


def test_twenty_threads_share_their_turns() -> None:
    one, route = strategy("murmur2_round_robin"), a_route(7)
    partitions: list[int | None] = []
    threads = [
        Thread(target=lambda: partitions.extend([chosen(one, route) for _ in range(1000)])) for _ in range(20)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    counts = Counter(partitions).values()
    assert sum(counts) == 20_000
    assert max(counts) - min(counts) <= 1


@pytest.mark.parametrize("name", ["murmur2_round_robin", "round_robin", "random"])
def test_partitions_without_a_leader_are_skipped_unless_all_are(name: str) -> None:
    one = strategy(name)
    some, none = a_route(4, without_leader={1, 2}), a_route(4, without_leader=range(4))
    assert {chosen(one, some) for _ in range(100)} == {0, 3}
    assert {chosen(one, none) for _ in range(100)} == {0, 1, 2, 3}


def test_each_topic_has_turns_of_its_own() -> None:
    one, orders, other = strategy("round_robin"), a_route(3), a_route(3, topic="other")
    assert [chosen(one, orders), chosen(one, other), chosen(one, orders), chosen(one, other)] == [0, 0, 1, 1]


def test_random_partitioner_spreads_evenly_for_equal_keys() -> None:
    one, route = strategy("random"), a_route(4)
    counts = Counter(chosen(one, route, b"same") for _ in range(4000))
    assert all(900 < counts[partition] < 1100 for partition in range(4))


class Recording:
    """A partitioner as an object, as in Java."""

    def __init__(self) -> None:
        self.seen: list[tuple[Any, ...]] = []
        self.is_closed = False

    def partition(
        self,
        topic: str,
        key: Any,
        key_bytes: bytes | None,
        value: Any,
        value_bytes: bytes | None,
        cluster: ClusterView,
    ) -> int:
        self.seen.append((topic, key, key_bytes, value, value_bytes))
        return max(cluster.available_partitions_for_topic(topic))

    def close(self) -> None:
        self.is_closed = True


def test_partitioner_object_is_called_with_the_original_and_serialized_record(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    one = Recording()
    producer = simulation.producer(
        cluster, partitioner=one, key_serializer=str.encode, value_serializer=str.encode
    )
    assert producer.send("spread", "v", "k").result(10).partition == 5
    assert one.seen == [("spread", "k", b"k", "v", b"v")]
    producer.close()
    assert one.is_closed


class Index:
    def __index__(self) -> int:
        return 4


def test_any_whole_number_will_do(simulation: Simulation, cluster: KafkaCluster) -> None:
    producer = simulation.producer(cluster, partitioner=lambda *_: Index())
    assert producer.send("spread", b"v").result(10).partition == 4


@pytest.mark.parametrize("wrong", [None, -1, 6, "1", 1.0, True])
def test_a_wrong_answer_of_a_partitioner_is_named_and_nothing_is_appended(
    simulation: Simulation, cluster: KafkaCluster, wrong: object
) -> None:
    def mine(key: bytes | None, everything: list[int], available: list[int]) -> object:
        return wrong

    producer = simulation.producer(cluster, partitioner=mine)
    with pytest.raises(IllegalArgument, match=rf"mine.* returned {wrong!r} .*'spread'.*its 6 partitions"):
        producer.send("spread", b"v")
    assert producer.health()["records_waiting"] == 0
    assert producer.metrics()["buffer-available-bytes"] == producer.metrics()["buffer-total-bytes"]


def test_exception_of_a_partitioner_reaches_the_caller_with_a_note(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    def mine(key: bytes | None, everything: list[int], available: list[int]) -> int:
        raise ZeroDivisionError("no luck")

    producer = simulation.producer(cluster, partitioner=mine)
    with pytest.raises(ZeroDivisionError, match="no luck") as raised:
        producer.send("spread", b"v")
    [note] = raised.value.__notes__
    assert "mine" in note
    assert "topic 'spread', which was not appended" in note
    assert producer.health()["records_waiting"] == 0


def test_partitioner_that_changes_its_lists_does_not_affect_later_calls(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    producer = simulation.producer(
        cluster, partitioner=lambda key, everything, available: everything.pop() and available.pop()
    )
    assert [producer.send("spread", b"v").result(10).partition for _ in range(3)] == [5, 5, 5]


@pytest.mark.parametrize(("name", "most"), [("round_robin", 1), ("random", 60)])
def test_a_name_gives_its_strategy(
    simulation: Simulation, cluster: KafkaCluster, name: str, most: int
) -> None:
    producer = simulation.producer(cluster, partitioner=name)
    deliveries = [producer.send("spread", b"v", b"same") for _ in range(300)]
    producer.flush(timeout=30)
    counts = Counter(delivery.result(0).partition for delivery in deliveries)
    assert len(counts) == 6
    assert max(counts.values()) - min(counts.values()) <= most


def test_consistent_random_spreads_empty_keys_by_sticking(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    producer = simulation.producer(cluster, partitioner="consistent_random", linger_ms=100)
    sticking = [producer.send("spread", b"x", b"") for _ in range(50)]
    keyed = [producer.send("spread", b"x", b"%d" % number) for number in range(50)]
    producer.flush(timeout=30)
    assert len({delivery.result(0).partition for delivery in sticking}) == 1
    assert len({delivery.result(0).partition for delivery in keyed}) == 6
