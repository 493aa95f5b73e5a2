"""Two threads: `send` returns whatever the brokers do, and one thread of the producer's own does the rest."""

from __future__ import annotations

import threading

import pytest

from pykafka2 import KafkaProducer
from pykafka2.testing import KafkaCluster, Simulation


def test_with_the_brokers_paused_a_thousand_sends_return_and_none_is_done(simulation: Simulation) -> None:
    cluster = simulation.cluster(brokers=3, topics={"orders": 1})
    producer = simulation.producer(cluster)
    producer.partitions_for("orders")
    for broker in range(3):
        cluster.controls.pause_broker(broker)
    began = simulation.now
    deliveries = [producer.send("orders", b"%d" % number) for number in range(1000)]
    assert simulation.now == began, "nothing was waited for"
    simulation.run_for(2)
    assert not any(delivery.done() for delivery in deliveries)
    for broker in range(3):
        cluster.controls.resume_broker(broker)
    producer.flush(timeout=60)
    assert [delivery.result(0).offset for delivery in deliveries] == list(range(1000))


@pytest.mark.slow
def test_a_producer_has_one_thread(kafka_cluster: KafkaCluster) -> None:
    before = {*threading.enumerate()}
    with KafkaProducer(bootstrap_servers=kafka_cluster.bootstrap_servers, client_id="counted") as producer:
        for number in range(100):
            producer.send("orders", b"%d" % number)
        producer.flush(timeout=10)
        own = [thread for thread in {*threading.enumerate()} - before if "counted" in thread.name]
        assert len(own) == 1
    own[0].join(5)
    assert not own[0].is_alive()
