"""A batch that is too large for the broker is halved until its records fit or one does not (KIP-126)."""

from __future__ import annotations

import random
from typing import Any

import pytest

from pykafka2.errors import (
    DeliveryTimeout,
    KafkaTimeoutError,
    MessageTooLarge,
    NotEnoughReplicas,
    OutOfOrderSequenceNumber,
)
from pykafka2.producer.accumulator.batch import ProducerBatch
from pykafka2.protocol.messages.produce import ProduceRequest
from pykafka2.testing import KafkaCluster, Simulation, Topic
from tests.producer.sending.test_sender import Bench

MAX_BYTES = 1000


@pytest.fixture
def cluster(simulation: Simulation) -> KafkaCluster:
    """`orders` takes batches of up to 1,000 bytes."""
    configs = {"max.message.bytes": MAX_BYTES}
    return simulation.cluster(brokers=3, topics={"orders": Topic(configs=configs)})


def numbered(count: int, start: int = 0) -> list[bytes]:
    return [b"%06d" % number * 10 for number in range(start, start + count)]


def log(cluster: KafkaCluster) -> list[bytes | None]:
    return cluster.log("orders", 0).values()


def batches(cluster: KafkaCluster) -> list[Any]:
    return list(cluster.log("orders", 0).batches())


@pytest.mark.parametrize("idempotent", [True, False])
def test_the_records_of_a_batch_that_is_too_large_arrive_in_smaller_ones(
    simulation: Simulation, cluster: KafkaCluster, idempotent: bool
) -> None:
    producer = simulation.producer(
        cluster, linger_ms=50, enable_idempotence=idempotent, max_in_flight_requests_per_connection=1
    )
    calls: list[int] = []
    deliveries = [
        producer.send("orders", value, on_delivery=lambda metadata, error: calls.append(metadata.offset))
        for value in numbered(100)
    ]
    producer.flush(timeout=30)
    assert log(cluster) == numbered(100)
    assert [delivery.result(0).offset for delivery in deliveries] == list(range(100))
    assert [delivery.result(0).serialized_value_size for delivery in deliveries] == [60] * 100
    assert calls == list(range(100))
    assert all(batch.size_bytes <= MAX_BYTES for batch in batches(cluster))
    assert producer.metrics()["batch-split-total"] == len(batches(cluster)) - 1
    assert producer.health()["records_waiting"] == 0
    assert producer.health()["buffer_available_bytes"] == 33554432
    assert producer.health()["buffer_overhead_bytes"] == 0
    if idempotent:
        assert {batch.producer_epoch for batch in batches(cluster)} == {0}
        assert [batch.base_sequence for batch in batches(cluster)] == [
            b.base_offset for b in batches(cluster)
        ]


def test_order_holds_with_five_in_flight(simulation: Simulation, cluster: KafkaCluster) -> None:
    producer = simulation.producer(cluster, batch_size=2500, linger_ms=0)
    producer.send("orders", numbered(1)[0]).result(10)
    for value in numbered(300, 1):
        producer.send("orders", value)
    producer.flush(timeout=30)
    assert log(cluster) == numbered(301)


def test_a_record_that_is_too_large_alone_fails_and_the_others_arrive(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    producer = simulation.producer(cluster, linger_ms=50)
    values = [*numbered(5), b"x" * 1500, *numbered(5, 5)]
    deliveries = [producer.send("orders", value) for value in values]
    with pytest.raises(MessageTooLarge):
        deliveries[5].result(10)
    producer.flush(timeout=30)
    assert log(cluster) == numbered(10)
    assert [delivery.result(0).offset for delivery in deliveries if delivery is not deliveries[5]] == [
        *range(10)
    ]


@pytest.mark.parametrize("large", [0, 5, 10])
def test_callbacks_of_a_split_batch_get_their_own_record(
    simulation: Simulation, cluster: KafkaCluster, caplog: pytest.LogCaptureFixture, large: int
) -> None:
    producer = simulation.producer(cluster, linger_ms=50)
    values = numbered(10)
    values.insert(large, b"x" * 1500)
    calls: list[tuple[int, object]] = []
    for number, value in enumerate(values):
        delivery = producer.send("orders", value)
        delivery.add_callback(lambda n, metadata: calls.append((n, metadata.offset)), number)
        delivery.add_errback(lambda n, error: calls.append((n, type(error))), number)
    producer.flush(timeout=30)
    expected: list[object] = [*range(10)]
    expected.insert(large, MessageTooLarge)
    assert dict(calls) == dict(enumerate(expected))
    assert len(calls) == 11
    assert "a delivery callback" not in caplog.text


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_a_column_is_split_as_records_are(simulation: Simulation, cluster: KafkaCluster, codec: str) -> None:
    # Or so few records would join the open batch one by one.
    producer = simulation.producer(
        cluster, compression_type=codec, max_in_flight_requests_per_connection=1, batch_size=100
    )
    values = [random.Random(number).randbytes(60) for number in range(60)]
    headers = [[("h", b"%d" % number)] for number in range(60)]
    bulk = producer.send_many("orders", values, keys=numbered(60), headers=headers, timestamps_ms=range(60))
    parts = bulk.result(10)
    assert [row for part in parts for row in part.rows] == list(range(60))
    assert len(parts) > 2
    records = list(cluster.log("orders", 0).records())
    assert [record.value for record in records] == values
    assert [record.key for record in records] == numbered(60)
    assert [record.headers for record in records] == headers
    assert [record.timestamp for record in records] == list(range(60))
    assert producer.metrics()["batch-split-total"] > 1


def test_replies_that_are_lost_meanwhile_double_nothing(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    producer = simulation.producer(cluster, batch_size=2500, linger_ms=0)
    producer.send("orders", numbered(1)[0]).result(10)
    cluster.controls.rule(api=ProduceRequest, every=4, then="apply_then_lose_reply", times=5)
    for value in numbered(200, 1):
        producer.send("orders", value)
    producer.flush(timeout=60)
    assert log(cluster) == numbered(201)


def test_halves_of_a_batch_in_the_log_are_not_written_again(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    """Its answer was lost, and the topic's limit lowered before the next attempt."""
    producer = simulation.producer(cluster, linger_ms=50)
    cluster.controls.rule(api=ProduceRequest, nth=1, then="apply_then_lose_reply")
    cluster.controls.rule(api=ProduceRequest, nth=2, then=MessageTooLarge)
    deliveries = [producer.send("orders", b"%d" % number) for number in range(5)]
    for delivery in deliveries:
        with pytest.raises(OutOfOrderSequenceNumber, match="may or may not be in the log"):
            delivery.result(10)
    producer.send("orders", b"later").result(10)
    assert log(cluster) == [b"0", b"1", b"2", b"3", b"4", b"later"]


def test_a_half_behind_a_failed_one_begins_a_new_epoch(simulation: Simulation, cluster: KafkaCluster) -> None:
    """A leader that knew nothing of the producer took the second half's number as its first: the records of
    the failed half were missing within an epoch, so that nothing fenced a late copy of them.
    """
    producer = simulation.producer(cluster, linger_ms=50, retries=3)
    cluster.controls.rule(api=ProduceRequest, nth=1, then=MessageTooLarge)
    for nth in (2, 3, 4):
        cluster.controls.rule(api=ProduceRequest, nth=nth, then=NotEnoughReplicas)
    deliveries = [producer.send("orders", b"%d" % number) for number in range(4)]
    for delivery in deliveries[:2]:
        with pytest.raises(NotEnoughReplicas):
            delivery.result(10)
    assert [delivery.result(10).offset for delivery in deliveries[2:]] == [0, 1]
    [batch] = batches(cluster)
    assert (batch.producer_epoch, batch.base_sequence) == (1, 0)


def test_a_half_that_may_be_in_the_log_fails_with_the_one_before_it(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    """The outcome of the whole batch is unknown, so its second half can be sent under no other number than
    its own, and not under its own behind a hole either.
    """
    producer = simulation.producer(cluster, linger_ms=50, retries=3)
    cluster.controls.rule(api=ProduceRequest, nth=1, then="close_before")
    cluster.controls.rule(api=ProduceRequest, nth=2, then=MessageTooLarge)
    for nth in (3, 4):
        cluster.controls.rule(api=ProduceRequest, nth=nth, then=NotEnoughReplicas)
    for delivery in [producer.send("orders", b"%d" % number) for number in range(4)]:
        with pytest.raises(NotEnoughReplicas, match="may or may not be in the log"):
            delivery.result(10)
    assert producer.health()["buffer_available_bytes"] == 33554432
    producer.send("orders", b"later").result(10)
    [batch] = batches(cluster)
    assert (batch.producer_epoch, batch.base_sequence) == (1, 0)


def test_halves_that_may_be_in_the_log_expire_together(simulation: Simulation, cluster: KafkaCluster) -> None:
    """The first to expire took the other along, which was then to fail once more; the IO thread ended."""
    producer = simulation.producer(cluster, linger_ms=50, delivery_timeout_ms=3000, request_timeout_ms=1000)
    cluster.controls.rule(api=ProduceRequest, nth=1, then="close_before")
    cluster.controls.rule(api=ProduceRequest, nth=2, then=MessageTooLarge)
    cluster.controls.rule(api=ProduceRequest, nth=3, then=NotEnoughReplicas, times=1000)
    for delivery in [producer.send("orders", b"%d" % number) for number in range(4)]:
        with pytest.raises(DeliveryTimeout, match="may or may not be in the log"):
            delivery.result(10)
    cluster.controls.clear()
    producer.send("orders", b"later").result(10)
    assert producer.health()["buffer_available_bytes"] == 33554432


def test_halves_expire_when_the_whole_would_have_each_record_once(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    """Java freed, or failed, a split batch twice."""
    producer = simulation.producer(
        cluster, linger_ms=50, delivery_timeout_ms=3000, request_timeout_ms=1000, retry_backoff_ms=100
    )
    producer.partitions_for("orders")
    outcomes: dict[int, list[object]] = {number: [] for number in range(20)}
    started = simulation.now
    for number, value in enumerate(numbered(20)):
        producer.send(
            "orders",
            value,
            on_delivery=lambda metadata, error, n=number: outcomes[n].append(error),  # type: ignore[misc]
        )
    # The whole is refused, its first half is written, the second gets no response.
    cluster.controls.rule(api=ProduceRequest, nth=3, then=NotEnoughReplicas, times=1000)
    assert simulation.wait_until(lambda: all(outcomes.values()), 10)
    assert 3 <= simulation.now - started < 4
    assert all(len(call) == 1 for call in outcomes.values())
    failed = [number for number, call in outcomes.items() if call[0] is not None]
    assert failed == list(range(failed[0], 20))
    assert all(isinstance(outcomes[number][0], DeliveryTimeout) for number in failed)
    assert log(cluster) == numbered(failed[0])
    cluster.controls.clear()
    simulation.sleep(2)
    assert producer.health()["buffer_available_bytes"] == 33554432
    assert producer.health()["records_waiting"] == 0
    producer.send("orders", b"later").result(10)
    assert log(cluster)[-1] == b"later"


def test_batch_behind_a_split_batch_expires_after_its_delivery_timeout(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    """The whole was done when its halves were, and yet was considered the oldest for ever."""
    producer = simulation.producer(cluster, linger_ms=50, delivery_timeout_ms=3000, request_timeout_ms=1000)
    for value in numbered(20):
        producer.send("orders", value)
    producer.flush(timeout=10)
    assert producer.metrics()["batch-split-total"] > 0
    cluster.controls.fail_next(ProduceRequest, NotEnoughReplicas, times=1000)
    late = producer.send("orders", b"late")
    with pytest.raises(DeliveryTimeout):
        late.result(4)
    cluster.controls.clear()


def test_two_records_that_are_too_large_together_are_written_one_by_one(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    producer = simulation.producer(cluster, linger_ms=50)
    deliveries = [producer.send("orders", b"x" * 600) for _ in range(2)]
    assert [delivery.result(10).offset for delivery in deliveries] == [0, 1]


def test_a_flush_that_began_before_the_split_waits_for_all_parts(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    producer = simulation.producer(cluster, linger_ms=10_000)
    deliveries = [producer.send("orders", value) for value in numbered(50)]
    cluster.controls.rule(api=ProduceRequest, nth=4, then=NotEnoughReplicas, times=3)
    producer.flush(timeout=30)
    assert all(delivery.done() for delivery in deliveries)


def test_close_fails_the_parts_of_a_split_batch(simulation: Simulation, cluster: KafkaCluster) -> None:
    producer = simulation.producer(cluster, linger_ms=50)
    deliveries = [producer.send("orders", value) for value in numbered(50)]
    cluster.controls.rule(api=ProduceRequest, nth=3, then="hold", times=1000)
    simulation.sleep(1)
    with pytest.raises(KafkaTimeoutError, match="remain"):
        producer.close(1)
    assert all(delivery.done() for delivery in deliveries)
    cluster.controls.clear()


def test_a_split_halves_by_bytes_and_keeps_at_least_one_record_in_each() -> None:
    bench = Bench(linger_ms=100, batch_size=100_000)
    sizes = [10, 10, 5000, 10, 10]
    for size in sizes:
        bench.append(0, b"x" * size)
    bench.now = 1.0
    [send] = bench.produce()
    whole = next(iter(bench.accumulator.incomplete))
    bench.answer(send, error_code=MessageTooLarge.code)
    parts: list[ProducerBatch] = whole.parts
    assert [part.count for part in parts] in ([2, 3], [3, 2])
    assert (parts[0].base_sequence, parts[1].base_sequence) == (0, parts[0].count)
    assert parts[0].order < parts[1].order
