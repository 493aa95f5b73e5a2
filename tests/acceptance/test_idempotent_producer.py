"""Five in flight, answers that are lost, leaders that move: each value once and in order."""

from __future__ import annotations

import pytest

from pykafka2.testing import Simulation


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_each_value_is_in_the_log_once_and_in_order(seed: int) -> None:
    with Simulation(seed=seed) as simulation:
        cluster = simulation.cluster(brokers=3, topics={"orders": 1})
        producer = simulation.producer(cluster, batch_size=300, linger_ms=0)
        cluster.controls.rule(api="Produce", every=4, then="apply_then_lose_reply", times=5)
        values = [b"%d" % number for number in range(400)]
        deliveries = []
        for number, value in enumerate(values):
            deliveries.append(producer.send("orders", value))
            if number in (150, 300):
                simulation.run_for(0.05)
                leader = cluster.partition("orders", 0).leader
                cluster.controls.move_leader(("orders", 0), (leader + 1) % 3)
        producer.flush(timeout=100)
        assert cluster.log("orders", 0).values() == values
        assert [delivery.result(0).offset for delivery in deliveries] == list(range(400))


@pytest.mark.parametrize(
    ("options", "is_ordered"),
    [
        ({"max_in_flight_requests_per_connection": 1, "enable_idempotence": False}, True),
        ({"max_in_flight_requests_per_connection": 5}, True),
        ({"max_in_flight_requests_per_connection": 5, "enable_idempotence": False}, False),
    ],
    ids=["one in flight", "idempotent", "five in flight without idempotence"],
)
def test_order_after_one_failure(
    simulation: Simulation, options: dict[str, object], *, is_ordered: bool
) -> None:
    """The last is the trap that the guide names: the next batch overtakes the one that is repeated."""
    cluster = simulation.cluster(brokers=3, topics={"orders": 1})
    producer = simulation.producer(cluster, batch_size=0, linger_ms=0, **options)
    producer.send("orders", b"0").result(10)
    cluster.controls.rule(api="Produce", nth=1, then="error:NOT_ENOUGH_REPLICAS")
    values = [b"%d" % number for number in range(1, 6)]
    for value in values:
        producer.send("orders", value)
    producer.flush(timeout=30)
    written = cluster.log("orders", 0).values()[1:]
    assert sorted(value or b"" for value in written) == values
    assert (written == values) == is_ordered
