"""Records without a key: batch_size bytes to one partition, then to another, less often to a slow one."""

from __future__ import annotations

import gc
import random
import weakref
from collections import Counter
from itertools import pairwise
from typing import Any

import pytest

from pykafka2 import KafkaProducer
from pykafka2.errors import ConfigurationError
from pykafka2.producer.partitioning.sticky import NodeDelays, StickyChoice
from pykafka2.producer.partitioning.topic_route import Route
from pykafka2.protocol.messages.produce import ProduceRequest
from pykafka2.testing import KafkaCluster, Simulation, Topic
from tests.producer.partitioning.routes import a_route

BATCH_BYTES = 1000


class Bench:
    """A choice without a cluster; time stands still at `now`."""

    def __init__(
        self, *, is_adaptive: bool = True, availability_timeout: float = 0, rack: str | None = None
    ) -> None:
        self.now = 0.0
        self.delays = NodeDelays()
        self.choice = StickyChoice(
            batch_bytes=BATCH_BYTES,
            is_adaptive=is_adaptive,
            availability_timeout=availability_timeout,
            rack=rack,
            delays=self.delays,
            seeded=random.Random(7),
            monotonic=lambda: self.now,
        )

    def drawn(self, route: Route, draws: int = 4000) -> Counter[int]:
        """How often each partition is stuck to."""
        self.choice.begin(route, None)
        counts: Counter[int] = Counter()
        for _ in range(draws):
            route.sticky.closed_bytes += BATCH_BYTES
            counts[self.choice.next(route).partition] += 1
        return counts


def with_batches(route: Route, *lengths: int) -> Route:
    for queue, length in zip(route.queues, lengths, strict=True):
        queue.batches.extend([None] * length)  # type: ignore[list-item]
    return route


def test_a_partition_is_stuck_to_until_it_has_had_batch_size() -> None:
    bench, route = Bench(), a_route(100)
    bench.choice.begin(route, None)
    first = route.sticky
    first.closed_bytes = BATCH_BYTES - 1
    assert bench.choice.next(route) is first
    first.closed_bytes = BATCH_BYTES
    assert bench.choice.next(route) is not first


def test_new_route_continues_with_the_sticky_state_of_the_old_one() -> None:
    bench, old, new = Bench(), a_route(100), a_route(100)
    bench.choice.begin(old, None)
    new.queues = old.queues
    old.sticky.closed_bytes = BATCH_BYTES - 1
    bench.choice.begin(new, old)
    assert (new.sticky, new.sticky_from_bytes) == (old.sticky, old.sticky_from_bytes)
    fewer = a_route(2)
    bench.choice.begin(fewer, old)
    assert fewer.sticky in fewer.queues


def test_equal_queues_are_drawn_alike() -> None:
    counts = Bench().drawn(with_batches(a_route(4), 2, 2, 2, 2))
    assert all(900 < counts[partition] < 1100 for partition in range(4))


def test_a_queue_is_drawn_the_less_often_the_longer_it_is() -> None:
    # One more than the longest, less its own length: 4, 1 and 3 of 8.
    counts = Bench().drawn(with_batches(a_route(3), 0, 3, 1), 8000)
    assert [round(counts[partition] / 1000) for partition in range(3)] == [4, 1, 3]


def test_non_adaptive_partitioner_ignores_queue_lengths() -> None:
    counts = Bench(is_adaptive=False).drawn(with_batches(a_route(3), 0, 3, 1), 3000)
    assert all(900 < counts[partition] < 1100 for partition in range(3))


@pytest.mark.parametrize("is_adaptive", [True, False])
def test_a_partition_without_a_leader_is_not_drawn_unless_there_is_no_other(is_adaptive: bool) -> None:
    bench = Bench(is_adaptive=is_adaptive)
    assert {*bench.drawn(a_route(4, without_leader={0, 2}))} == {1, 3}
    assert {*bench.drawn(a_route(2, without_leader={0, 1}))} == {0, 1}


@pytest.mark.gate
def test_unavailable_node_is_skipped_after_the_availability_timeout() -> None:
    bench = Bench(availability_timeout=2)
    bench.delays.note({1}, 0.0)
    bench.now = 2.0
    assert {*bench.drawn(a_route(3))} == {0, 1, 2}
    bench.now = 2.1
    assert {*bench.drawn(a_route(3))} == {0, 2}
    bench.delays.note({1}, 2.2)  # still, since the beginning
    assert {*bench.drawn(a_route(3))} == {0, 2}
    bench.delays.note((), 2.3)
    assert {*bench.drawn(a_route(3))} == {0, 1, 2}


def test_no_partition_is_skipped_if_all_nodes_are_unavailable() -> None:
    bench = Bench(availability_timeout=2)
    bench.delays.note({0, 1}, 0.0)
    bench.now = 5.0
    assert {*bench.drawn(a_route(2))} == {0, 1}


def test_queue_lengths_decide_if_all_nodes_are_unavailable() -> None:
    bench = Bench(availability_timeout=2)
    bench.delays.note({0, 1, 2}, 0.0)
    bench.now = 5.0
    counts = bench.drawn(with_batches(a_route(3), 0, 3, 1), 8000)
    assert [round(counts[partition] / 1000) for partition in range(3)] == [4, 1, 3]


def test_delays_are_ignored_without_an_availability_timeout() -> None:
    bench = Bench()
    bench.delays.note({1}, 0.0)
    bench.now = 1000.0
    assert {*bench.drawn(a_route(2))} == {0, 1}


# ------------------------------------------------------------------ racks (KIP-1123)


@pytest.mark.parametrize("is_adaptive", [True, False])
def test_leaders_in_the_own_rack_are_drawn(is_adaptive: bool) -> None:
    bench, route = Bench(is_adaptive=is_adaptive, rack="b"), a_route(6, racks=["a", "b", None])
    counts = bench.drawn(route)
    assert {*counts} == {1, 4}
    assert 1800 < counts[1] < 2200
    assert {queue.partition for queue in bench.choice.turns(route, 50)} == {1, 4}


def test_racks_do_not_matter_without_one_of_the_producer() -> None:
    assert {*Bench().drawn(a_route(3, racks=["a", "b", None]))} == {0, 1, 2}


@pytest.mark.parametrize("is_adaptive", [True, False])
def test_all_leaders_are_drawn_if_none_is_in_the_own_rack(is_adaptive: bool) -> None:
    bench = Bench(is_adaptive=is_adaptive, rack="c")
    assert {*bench.drawn(a_route(4, racks=["a", "b", None]))} == {0, 1, 2, 3}
    assert {*bench.drawn(a_route(3, racks=["a", "b", "c"], without_leader={2}))} == {0, 1}


def test_queues_in_the_own_rack_are_weighed_among_themselves() -> None:
    route = with_batches(a_route(6, racks=["a", "b"]), 0, 5, 9, 5, 1, 5)
    counts = Bench(rack="a").drawn(route, 8000)
    # One more than the longest, less its own length: 10, 1 and 9 of 20.
    assert [round(counts[partition] / 400) for partition in (0, 2, 4)] == [10, 1, 9]


def test_unavailable_leaders_in_the_own_rack_are_skipped() -> None:
    bench, racks = Bench(availability_timeout=2, rack="a"), ["a", "b"]
    bench.delays.note({0}, 0.0)
    bench.now = 5.0
    assert {*bench.drawn(a_route(4, racks=racks))} == {2}
    bench.delays.note({0, 2}, 5.0)
    bench.now = 10.0
    assert {*bench.drawn(a_route(4, racks=racks))} == {1, 3}
    bench.delays.note({0, 1, 2, 3}, 10.0)
    bench.now = 20.0
    assert {*bench.drawn(a_route(4, racks=racks))} == {0, 2}


def racks_of(cluster: KafkaCluster, deliveries: list[Any]) -> set[str | None]:
    """Return the racks of the leaders that the records went to."""
    image = cluster.controller.image
    leaders = {cluster.partition("spread", one.result(0).partition).leader for one in deliveries}
    return {image.brokers[leader].rack for leader in leaders}


@pytest.mark.gate
@pytest.mark.parametrize("is_aware", [True, False])
def test_producer_sends_to_its_rack_and_elsewhere_while_that_has_no_leader(
    simulation: Simulation, is_aware: bool
) -> None:
    cluster = simulation.cluster(3, {"spread": Topic(6, 3)}, racks=["a", "b", "c"])
    producer = simulation.producer(
        cluster, linger_ms=0, batch_size=1, client_rack="b", partitioner_rack_aware=is_aware
    )

    def sent(count: int = 60) -> set[str | None]:
        deliveries = [producer.send("spread", b"v") for _ in range(count)]
        producer.flush(timeout=100)
        return racks_of(cluster, deliveries)

    assert sent() == ({"b"} if is_aware else {"a", "b", "c"})
    cluster.controls.crash_broker(1)
    simulation.sleep(30)
    assert sent() == {"a", "c"}


# ------------------------------------------------------------------ with a cluster


def partitions_of_a_stream(simulation: Simulation, cluster: KafkaCluster, **options: Any) -> Counter[int]:
    """The partitions of 300 records that are sent over 0.6 seconds, while one broker takes 0.2 s for each
    request.
    """
    producer = simulation.producer(cluster, batch_size=1000, linger_ms=0, buffer_memory=10**8, **options)
    producer.partitions_for("spread")
    slow = cluster.partition("spread", 0).leader
    cluster.controls.delay(ProduceRequest, 0.2, broker=slow)
    deliveries = []
    for _ in range(60):
        deliveries += [producer.send("spread", b"x" * 900) for _ in range(5)]
        simulation.sleep(0.01)
    cluster.controls.clear()
    producer.flush(timeout=100)
    return Counter(delivery.result(0).partition for delivery in deliveries)


def of_broker(cluster: KafkaCluster, counts: Counter[int], broker: int) -> float:
    led = [number for number in range(6) if cluster.partition("spread", number).leader == broker]
    return sum(counts[number] for number in led) / counts.total()


@pytest.mark.gate
@pytest.mark.slow
def test_a_slow_broker_gets_fewer_records_by_default_only(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    slow = cluster.partition("spread", 0).leader
    adaptive = partitions_of_a_stream(simulation, cluster)
    even = partitions_of_a_stream(simulation, cluster, partitioner_adaptive_partitioning_enable=False)
    assert 0.25 < of_broker(cluster, even, slow) < 0.42
    assert of_broker(cluster, adaptive, slow) < 0.2


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.parametrize("timeout_ms", [1000, 0])
def test_a_broker_that_stands_still_is_avoided_after_the_availability_timeout(
    simulation: Simulation, cluster: KafkaCluster, timeout_ms: int
) -> None:
    # Lengths of queues are even here: one batch at a time.
    producer = simulation.producer(
        cluster,
        batch_size=0,
        linger_ms=0,
        max_in_flight_requests_per_connection=1,
        partitioner_adaptive_partitioning_enable=True,
        partitioner_availability_timeout_ms=timeout_ms,
    )
    producer.partitions_for("spread")
    still = cluster.partition("spread", 0).leader
    led = {number for number in range(6) if cluster.partition("spread", number).leader == still}
    cluster.controls.hold(ProduceRequest, broker=still)
    for partition in range(6):  # a request in flight, and one more batch that waits, for each
        producer.send("spread", b"v", partition=partition)
        producer.send("spread", b"v", partition=partition)
    simulation.sleep(2)
    deliveries = [producer.send("spread", b"v") for _ in range(200)]
    cluster.controls.clear()
    producer.flush(timeout=100)
    seen = {delivery.result(0).partition for delivery in deliveries}
    assert bool(seen & led) == (timeout_ms == 0)


@pytest.mark.gate
def test_batches_that_leave_before_they_are_full_do_not_change_the_partition(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    # KIP-794: a partition gets batch_size bytes, however many batches they make.
    producer = simulation.producer(cluster, batch_size=10_000, linger_ms=0)
    partitions = [producer.send("spread", b"x" * 400).result(10).partition for _ in range(40)]
    changes = sum(one != other for one, other in pairwise(partitions))
    assert changes <= 2
    assert len({*partitions[:20]}) == 1


def test_sticky_records_join_no_batch_opened_for_an_explicit_partition(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    producer = simulation.producer(cluster, partitioner_ignore_keys=True, linger_ms=60_000)
    for partition in range(6):
        producer.send("spread", b"v", partition=partition)
    sent = [producer.send("spread", b"v", b"%d" % number) for number in range(12)]
    few = producer.send_many("spread", [b"v"] * 3, keys=[b"1", b"2", b"3"])
    producer.flush(30)
    [sticky] = {one.result(0).partition for one in sent}
    assert sticky != 0, "else this says nothing of few rows"
    assert [batch.partition for batch in few.result(0)] == [sticky]


@pytest.mark.gate
def test_partitioner_ignore_keys_spreads_records_with_a_key(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    producer = simulation.producer(cluster, partitioner_ignore_keys=True, batch_size=200, bulk_batch_size=200)
    deliveries = [producer.send("spread", b"x" * 100, b"same") for _ in range(200)]
    producer.flush(timeout=30)
    assert {delivery.result(0).partition for delivery in deliveries} == set(range(6))
    bulk = producer.send_many("spread", [b"x" * 100] * 200, keys=[b"same"] * 200)
    assert {batch.partition for batch in bulk.result(10)} == set(range(6))


@pytest.mark.parametrize("rack", ["", " "])
def test_rack_aware_partitioner_needs_a_rack(rack: str) -> None:
    with pytest.raises(ConfigurationError, match="partitioner_rack_aware=True needs client_rack"):
        KafkaProducer(bootstrap_servers="b:9092", partitioner_rack_aware=True, client_rack=rack)


def test_topics_that_were_sent_to_once_keep_no_metadata_of_that_time() -> None:
    topics = {f"t{number}": 3 for number in range(8)}
    with Simulation(seed=7) as simulation:
        cluster = simulation.cluster(brokers=1, topics=topics)
        producer = simulation.producer(cluster)
        snapshots, versions = [], set()
        for topic in topics:
            producer.send(topic, b"v").result(10)
            versions.add(producer._metadata.version)
            snapshots.append(weakref.ref(producer._metadata.snapshot))
        gc.collect()
        assert len(versions) == len(topics)
        assert sum(known() is not None for known in snapshots) <= 2
        stuck_to = producer._routes_by_topic["t0"].sticky
        assert producer.send("t0", b"v").result(10).partition == stuck_to.partition
