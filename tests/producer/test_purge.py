"""`purge`: what waits is given up, what may be in the log is not, and order holds."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka2 import KafkaProducer, RecordMetadata
from pykafka2.errors import ClientClosed, IllegalState, KafkaError, RecordPurged, TransactionFailed
from pykafka2.protocol.messages.produce import ProduceRequest
from pykafka2.testing import KafkaCluster, Simulation

FULL = b"x" * 20_000  # more than batch_size: a batch of its own


def behind_five_in_flight(
    simulation: Simulation, cluster: KafkaCluster, **options: Any
) -> tuple[KafkaProducer, list[Any]]:
    """A producer with five batches on the wire, whose answers are held, and three that wait."""
    producer = simulation.producer(cluster, **options)
    producer.send("orders", b"first").result(10)
    cluster.controls.hold(ProduceRequest)
    deliveries = [producer.send("orders", FULL) for _ in range(8)]
    simulation.run_for(0.1)
    assert producer.health()["requests_in_flight"] == 5
    return producer, deliveries


def test_purge_fails_waiting_records_and_keeps_those_on_the_wire(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    producer, deliveries = behind_five_in_flight(simulation, cluster)
    assert producer.purge() == 3
    assert [delivery.done() for delivery in deliveries] == [False] * 5 + [True] * 3
    for delivery in deliveries[5:]:
        with pytest.raises(RecordPurged, match="orders-0"):
            delivery.result(0)
    cluster.controls.clear()
    assert producer.send("orders", b"after").result(30).offset == 6
    assert cluster.log("orders", 0).values() == [b"first", *[FULL] * 5, b"after"]
    assert producer.health()["buffer_available_bytes"] == 33_554_432


def test_a_record_that_lingers_is_purged_with_its_open_batch(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    producer = simulation.producer(cluster, linger_ms=60_000, delivery_timeout_ms=120_000)
    outcomes: list[tuple[RecordMetadata | None, KafkaError | None]] = []
    for _ in range(10):
        producer.send("orders", b"v", on_delivery=lambda metadata, error: outcomes.append((metadata, error)))
    bulk = producer.send_many("spread", [b"v"] * 100)
    assert producer.purge() == 110
    assert [type(error) for _, error in outcomes] == [RecordPurged] * 10
    [(rows, error)] = bulk.failures()
    assert list(rows) == list(range(100))
    assert isinstance(error, RecordPurged)
    assert producer.purge() == 0
    assert producer.health()["records_waiting"] == 0


def test_a_batch_that_was_sent_once_is_not_purged(simulation: Simulation, cluster: KafkaCluster) -> None:
    """Its first attempt may have written it, so no error may claim that it was not sent."""
    producer = simulation.producer(cluster, retry_backoff_ms=5000, retry_backoff_max_ms=5000)
    cluster.controls.rule(api="Produce", nth=1, then="apply_then_lose_reply")
    delivery = producer.send("orders", b"v")
    simulation.run_for(1)
    assert producer.purge() == 0
    assert delivery.result(60).offset == 0
    assert cluster.log("orders", 0).values() == [b"v"]


def test_close_does_not_raise_purged_records_again(simulation: Simulation, cluster: KafkaCluster) -> None:
    producer = simulation.producer(cluster, linger_ms=60_000, delivery_timeout_ms=120_000)
    producer.send("orders", b"v")
    assert producer.purge() == 1
    producer.flush(timeout=1)
    producer.close()


def test_purging_makes_room_for_a_send_that_waits(simulation: Simulation, cluster: KafkaCluster) -> None:
    producer, _ = behind_five_in_flight(simulation, cluster, buffer_memory=200_000)
    waiting = simulation.spawn(lambda: producer.send("orders", b"y" * 100_000))
    simulation.run_for(0.1)
    assert producer.health()["senders_waiting_for_memory"] == 1
    assert producer.purge() == 3
    cluster.controls.clear()
    assert waiting.result().result(30).offset == 6


def test_a_transaction_that_lost_records_cannot_be_committed(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    producer = simulation.producer(
        cluster, transactional_id="t", linger_ms=60_000, delivery_timeout_ms=120_000
    )
    producer.init_transactions()
    producer.begin_transaction()
    producer.send("orders", b"v")
    assert producer.purge() == 1
    with pytest.raises(TransactionFailed, match="RecordPurged") as caught:
        producer.commit_transaction()
    assert isinstance(caught.value.__cause__, RecordPurged)
    producer.abort_transaction()
    with producer.transaction():
        producer.send("orders", b"w")
    assert cluster.log("orders", 0).values(isolation="read_committed") == [b"w"]


def test_purge_in_a_callback_or_after_close_is_rejected(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    producer = simulation.producer(cluster)
    raised: list[BaseException] = []

    def on_delivery(metadata: RecordMetadata | None, error: KafkaError | None) -> None:
        try:
            producer.purge()
        except IllegalState as refused:
            raised.append(refused)

    producer.send("orders", b"v", on_delivery=on_delivery).result(10)
    assert "would wait for itself" in str(raised[0])
    producer.close()
    with pytest.raises(ClientClosed):
        producer.purge()
