"""When a batch is sent although no caller waits for it, and which batches a request takes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pykafka2 import KafkaProducer
from pykafka2.errors import KafkaError
from pykafka2.testing import Simulation

LINGER = 10.0


def lingered(producer: KafkaProducer, simulation: Simulation) -> None:
    simulation.run_for(LINGER)


def full(producer: KafkaProducer, simulation: Simulation) -> None:
    producer.send("orders", b"x" * 16_300)


def above_batch_size(producer: KafkaProducer, simulation: Simulation) -> None:
    producer.send("orders", b"x" * 30_000)


def memory_is_waited_for(producer: KafkaProducer, simulation: Simulation) -> None:
    while producer.metrics()["buffer-available-bytes"] >= 16_384:
        producer.send("others", b"x" * 15_000)
    simulation.spawn(lambda: producer.send("others", b"x" * 15_000)).result()


def flushing(producer: KafkaProducer, simulation: Simulation) -> None:
    simulation.spawn(lambda: producer.flush(timeout=5)).result()


def closing(producer: KafkaProducer, simulation: Simulation) -> None:
    simulation.spawn(lambda: producer.close(timeout=5)).result()


@pytest.mark.parametrize(
    "because",
    [lingered, full, above_batch_size, memory_is_waited_for, flushing, closing],
    ids=lambda f: f.__name__,
)
def test_a_batch_leaves(simulation: Simulation, because: Callable[[KafkaProducer, Simulation], None]) -> None:
    cluster = simulation.cluster(brokers=1, topics={"orders": 1, "others": 1})
    producer = simulation.producer(
        cluster, linger_ms=LINGER * 1000, buffer_memory=100_000, delivery_timeout_ms=120_000
    )
    producer.partitions_for("others")
    delivery = producer.send("orders", b"v")
    simulation.run_for(LINGER / 2)
    assert not delivery.done(), "nothing has happened yet"
    began = simulation.now
    because(producer, simulation)
    simulation.run_for(0.5)
    assert delivery.succeeded()
    if because is not lingered:
        assert simulation.now - began < LINGER / 2


def test_a_transaction_that_completes_does_not_linger(simulation: Simulation) -> None:
    cluster = simulation.cluster(brokers=1, topics={"orders": 1})
    producer = simulation.producer(
        cluster, linger_ms=60_000, delivery_timeout_ms=120_000, transactional_id="t"
    )
    producer.init_transactions()
    began = simulation.now
    with producer.transaction():
        producer.send("orders", b"v")
    assert simulation.now - began < 1
    assert cluster.log("orders", 0).values() == [b"v"]


@pytest.mark.gate
@pytest.mark.slow
def test_requests_stay_within_their_size_and_no_partition_starves(simulation: Simulation) -> None:
    """Twenty partitions of one broker with large batches, of which a request holds three."""
    cluster = simulation.cluster(brokers=1, topics={"orders": 20})
    producer = simulation.producer(
        cluster, max_request_size=50_000, linger_ms=0, max_in_flight_requests_per_connection=1
    )
    behind: list[list[float]] = [[] for _ in range(20)]
    for number in range(1000):
        began = simulation.now

        def note(_: object, error: KafkaError | None, number: int = number, began: float = began) -> None:
            assert error is None
            behind[number % 20].append(simulation.now - began)

        producer.send("orders", b"x" * 15_000, partition=number % 20, on_delivery=note)
    producer.flush(timeout=120)
    for entry in cluster.history.entries("Produce"):
        sizes = [len(data.records) for topic in entry.request.topic_data for data in topic.partition_data]
        assert sum(sizes) <= 50_000
    assert [len(times) for times in behind] == [50] * 20
    longest = [max(times) for times in behind]
    assert max(longest) < 3 * min(longest), "every partition has its turn"


@pytest.mark.gate
@pytest.mark.slow
def test_no_partition_starves_over_a_thousand_drains(simulation: Simulation) -> None:
    """A request holds three of six partitions' batches, and each partition has the next batch ready at once.

    Two of the partitions have small batches, which fit where a large one does not and so could overtake.
    """
    partitions, rounds = 6, 1000
    cluster = simulation.cluster(brokers=1, topics={"orders": partitions})
    producer = simulation.producer(
        cluster,
        batch_size=0,
        max_request_size=10_000,
        buffer_memory=100_000_000,
        max_in_flight_requests_per_connection=1,
        delivery_timeout_ms=3_600_000,
    )
    producer.partitions_for("orders")
    sizes = [3000, 3000, 3000, 3000, 100, 100]
    for _ in range(rounds):
        for partition, size in enumerate(sizes):
            producer.send("orders", b"x" * size, partition=partition)
    producer.flush(timeout=3600)
    requests = [
        {data.index for topic in entry.request.topic_data for data in topic.partition_data}
        for entry in cluster.history.entries("Produce")
    ]
    assert len(requests) >= rounds
    left = dict.fromkeys(range(partitions), rounds)
    waited = dict.fromkeys(range(partitions), 0)
    longest = dict(waited)
    for drained in requests:
        for partition in range(partitions):
            is_drained = partition in drained
            left[partition] -= is_drained
            waited[partition] = 0 if is_drained or not left[partition] else waited[partition] + 1
            longest[partition] = max(longest[partition], waited[partition])
    assert set(left.values()) == {0}
    assert max(longest.values()) < partitions, "each is first once in so many drains"
