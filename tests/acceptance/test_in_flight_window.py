"""Requests whose answers are awaited: as many as allowed, on one connection, and no more."""

from __future__ import annotations

import pytest

from pykafka2 import KafkaProducer
from pykafka2.errors import ConfigurationError
from pykafka2.testing import Simulation
from tests.gate import rest_in_gate


@pytest.mark.slow
@pytest.mark.parametrize("most", rest_in_gate([1, 5, 200]))
def test_producer_sends_up_to_max_in_flight_requests(simulation: Simulation, most: int) -> None:
    cluster = simulation.cluster(brokers=3, topics={"orders": 1})
    producer = simulation.producer(
        cluster,
        enable_idempotence=most <= 5,
        max_in_flight_requests_per_connection=most,
        batch_size=0,
        linger_ms=0,
    )
    producer.send("orders", b"first").result(10)
    cluster.controls.pause_followers()  # acknowledgements wait
    count = most + 50
    for number in range(count):
        producer.send("orders", b"%d" % number)
    simulation.run_for(0.5)
    cluster.controls.resume_followers()
    producer.flush(timeout=60)
    assert cluster.history.in_flight_max("Produce") == most
    assert cluster.log("orders", 0).values() == [b"first", *(b"%d" % number for number in range(count))]


def test_more_than_five_with_idempotence_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="at most 5"):
        KafkaProducer(max_in_flight_requests_per_connection=6)
