"""Severe bugs of other producers, once each: the trigger as it was, and the right outcome.

Those of transactions stand with the transactions' tests.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from pykafka2 import KafkaProducer
from pykafka2.errors import (
    BufferExhausted,
    DeliveryTimeout,
    KafkaError,
    KafkaTimeoutError,
    NoBrokersAvailable,
    NotLeaderOrFollower,
    OutOfOrderSequenceNumber,
    RecordTooLarge,
    RequestTimedOut,
    UnknownProducerId,
    UnknownTopicOrPartition,
)
from pykafka2.producer.idempotence import LAST_EPOCH, LAST_SEQUENCE
from pykafka2.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic
from pykafka2.protocol.messages.produce import ProduceRequest, ProduceResponse
from pykafka2.protocol.messages.transaction import InitProducerIdRequest
from pykafka2.testing import KafkaCluster, Simulation
from tests.producer.sending.test_sender import Bench


def numbered(count: int, start: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(start, start + count)]


def log(cluster: KafkaCluster, topic: str = "orders", partition: int = 0) -> list[bytes | None]:
    return cluster.log(topic, partition).values()


def error_after_append(
    error: type[KafkaError],
) -> Callable[[ProduceRequest, ProduceResponse], ProduceResponse]:
    """The broker writes the batch and answers that it did not."""

    def reply(request: ProduceRequest, response: ProduceResponse) -> ProduceResponse:
        for topic in response.responses:
            for answer in topic.partition_responses:
                answer.error_code, answer.base_offset = error.code, -1  # type: ignore[attr-defined]
        return response

    return reply


def sent_bytes(cluster: KafkaCluster) -> list[bytes]:
    requests = cast("list[ProduceRequest]", cluster.history.requests("Produce"))
    return [bytes(request.topic_data[0].partition_data[0].records or b"") for request in requests]


class TestLossOfRecords:
    def test_bytes_of_an_expired_batch_stay_its_own_until_they_have_left(self) -> None:
        """Java up to 4.1.1 used the buffer again: records of the next topic were written to this one, and
        acknowledged."""
        bench = Bench()
        bench.append(0, b"first")
        [send] = bench.produce()
        [data] = send.request.topic_data[0].partition_data  # type: ignore[attr-defined]
        leaving = bytearray(data.records)
        bench.now = 121.0
        bench.poll()
        assert bench.accumulator.unsent_records() == 0  # it has expired, and its request has no answer yet
        bench.append(1, b"other")
        [other] = bench.produce()
        assert len(other.request.topic_data[0].partition_data[0].records) == len(leaving)  # type: ignore[attr-defined]
        assert data.records == leaving
        assert bench.accumulator.pool.available_bytes <= bench.accumulator.pool.total_bytes - 2 * len(leaving)

    def test_a_topic_that_metadata_forgets_for_a_while_keeps_its_sequence(
        self, simulation: Simulation, cluster: KafkaCluster
    ) -> None:
        """librdkafka 1.9.0 began to count at 0 again, and the broker took new records for old ones."""
        producer = simulation.producer(cluster, batch_size=0)
        for value in numbered(5):
            producer.send("orders", value).result(10)

        def forget(request: MetadataRequest, response: MetadataResponse) -> MetadataResponse:
            response.topics = [
                MetadataResponseTopic(name="orders", error_code=UnknownTopicOrPartition.code, partitions=[])
            ]
            return response

        hidden = cluster.controls.rule(api=MetadataRequest, then="replace_reply", reply=forget)
        producer._core.client.metadata.request_update("the test says so")
        # One answer is doubted, three are believed.
        assert simulation.wait_until(
            lambda: not producer._core.client.metadata.topic("orders").partitions, 10
        )
        cluster.controls.remove_rule(hidden)
        deliveries = [producer.send("orders", value) for value in numbered(10, 5)]
        producer.flush(timeout=60)
        assert [delivery.result(0).offset for delivery in deliveries] == list(range(5, 15))
        assert log(cluster) == numbered(15)

    @pytest.mark.parametrize("error", [NotLeaderOrFollower, RequestTimedOut])
    def test_an_error_after_the_append_does_not_mean_that_nothing_was_written(
        self, simulation: Simulation, cluster: KafkaCluster, error: type[KafkaError]
    ) -> None:
        """Redpanda's clients under Jepsen: a send that had "failed" was in the log."""
        cluster.controls.rule(
            api=ProduceRequest, times=1, then="replace_reply", reply=error_after_append(error)
        )
        producer = simulation.producer(cluster)
        assert producer.send("orders", b"retried").result(10).offset in (0, -1)
        assert log(cluster) == [b"retried"]
        cluster.controls.rule(
            api=ProduceRequest, times=1, then="replace_reply", reply=error_after_append(error)
        )
        at_once = simulation.producer(cluster, retries=0)
        with pytest.raises(error, match="may or may not be in the log"):
            at_once.send("orders", b"not retried").result(10)
        assert log(cluster) == [b"retried", b"not retried"]

    def test_new_records_do_not_reuse_sequences_of_an_expired_written_record(
        self, simulation: Simulation, cluster: KafkaCluster
    ) -> None:
        """franz-go before 1.20.7 used the numbers again of a record that had timed out after the append."""
        producer = simulation.producer(
            cluster, delivery_timeout_ms=2000, request_timeout_ms=1000, batch_size=0
        )
        producer.send("orders", b"0").result(10)
        rule = cluster.controls.rule(
            api=ProduceRequest, then="replace_reply", reply=error_after_append(RequestTimedOut)
        )
        with pytest.raises(DeliveryTimeout, match="may or may not be in the log"):
            producer.send("orders", b"given up").result(10)
        cluster.controls.remove_rule(rule)
        deliveries = [producer.send("orders", value) for value in (b"1", b"2")]
        assert [delivery.result(10).offset for delivery in deliveries] == [2, 3]
        assert log(cluster) == [b"0", b"given up", b"1", b"2"]

    def test_a_request_that_never_arrived_is_sent_again_under_its_own_numbers(
        self, simulation: Simulation, cluster: KafkaCluster
    ) -> None:
        """librdkafka counted on after a lost reply, and the producer ended with a fatal error."""
        producer = simulation.producer(cluster, batch_size=0)
        producer.send("orders", b"0").result(10)
        lost = cluster.controls.disconnect_next(ProduceRequest, times=3)
        deliveries = [producer.send("orders", value) for value in numbered(10, 1)]
        producer.flush(timeout=30)
        assert lost.fired == 3
        assert [delivery.result(0).offset for delivery in deliveries] == list(range(1, 11))
        assert log(cluster) == numbered(11)
        assert {batch.producer_epoch for batch in cluster.log("orders", 0).batches()} == {0}

    @pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
    def test_a_batch_is_sent_again_with_the_same_bytes(
        self, simulation: Simulation, cluster: KafkaCluster, codec: str
    ) -> None:
        """librdkafka and kafka-python built it again, or compressed what was compressed already."""
        producer = simulation.producer(cluster, compression_type=codec, linger_ms=50)
        cluster.controls.lose_reply(ProduceRequest)
        cluster.controls.disconnect_next(ProduceRequest)
        for value in numbered(20):
            producer.send("orders", value * 20, headers=[("h", value)])
        producer.flush(timeout=30)
        sent = sent_bytes(cluster)
        assert len(sent) == 3
        assert len({*sent}) == 1
        assert log(cluster) == [value * 20 for value in numbered(20)]


class TestDoublesAndOrder:
    def test_a_leader_that_moves_with_five_in_flight_doubles_nothing(
        self, simulation: Simulation, cluster: KafkaCluster
    ) -> None:
        """librdkafka: the new leader got the batches again under other numbers."""
        producer = simulation.producer(cluster, client_id="me", batch_size=0, linger_ms=0)
        producer.send("orders", b"0").result(10)
        cluster.controls.delay_client("me", 0.1)
        deliveries = [producer.send("orders", value) for value in numbered(20, 1)]
        simulation.sleep(0.15)  # written and replicated; the answers are on their way
        assert len(log(cluster)) == 6
        cluster.controls.cut_client("me")
        old = cluster.partition("orders", 0)
        cluster.controls.move_leader(("orders", 0), next(node for node in old.isr if node != old.leader))
        cluster.controls.heal()
        producer.flush(timeout=30)
        assert log(cluster) == numbered(21)
        assert {delivery.result(0).offset for delivery in deliveries} <= {*range(1, 21), -1}

    @pytest.mark.gate
    def test_threads_that_send_at_once_never_share_a_number(
        self, simulation: Simulation, cluster: KafkaCluster
    ) -> None:
        """platformatic/kafka: several acknowledgements at one offset, and one record."""
        producer = simulation.producer(cluster, batch_size=100, linger_ms=0)
        offsets: list[int] = []

        def send(name: bytes) -> None:
            deliveries = [producer.send("orders", b"%s-%d" % (name, number)) for number in range(10)]
            offsets.extend(delivery.result(30).offset for delivery in deliveries)

        actors = [simulation.spawn(lambda name=b"%d" % number: send(name)) for number in range(20)]  # type: ignore[misc]
        simulation.wait_until(lambda: all(actor.is_done for actor in actors), 60)
        assert sorted(offsets) == list(range(200))
        assert len({*log(cluster)}) == 200

    @pytest.mark.parametrize("error", [UnknownProducerId, OutOfOrderSequenceNumber])
    def test_a_broker_that_forgets_the_producer_with_five_in_flight_doubles_nothing(
        self, simulation: Simulation, cluster: KafkaCluster, error: type[KafkaError]
    ) -> None:
        """Java gave new numbers in the wrong order, or dropped the wrong batch."""
        producer = simulation.producer(cluster, batch_size=0, linger_ms=0)
        producer.send("orders", b"0").result(10)
        # Of five in flight the first is refused, the third not answered; what is between and behind them is
        # refused as out of order by the broker itself.
        first = cluster.controls.rule(api=ProduceRequest, nth=1, then=error)  # type: ignore[arg-type]
        third = cluster.controls.rule(api=ProduceRequest, nth=3, then="apply_then_lose_reply")
        deliveries = [producer.send("orders", value) for value in numbered(20, 1)]
        producer.flush(timeout=30)
        assert (first.fired, third.fired) == (1, 1)
        assert log(cluster) == numbered(21)
        assert [delivery.result(0).offset for delivery in deliveries] == list(range(1, 21))

    def test_a_refusal_behind_a_batch_of_unknown_outcome_gives_that_one_no_new_number(
        self, simulation: Simulation, cluster: KafkaCluster
    ) -> None:
        """Java: what was behind it began the sequence again, and the first was written twice."""
        producer = simulation.producer(cluster, batch_size=0, linger_ms=0)
        producer.send("orders", b"0").result(10)
        unknown = error_after_append(RequestTimedOut)
        cluster.controls.rule(api=ProduceRequest, nth=1, then="replace_reply", reply=unknown)
        cluster.controls.rule(api=ProduceRequest, nth=2, then=OutOfOrderSequenceNumber)
        for value in numbered(5, 1):
            producer.send("orders", value)
        producer.flush(timeout=30)
        assert log(cluster) == numbered(6)
        assert producer.health()["producer_epoch"] == 0

    def test_partition_idle_during_an_epoch_bump_continues_at_sequence_0(
        self, simulation: Simulation, cluster: KafkaCluster
    ) -> None:
        """Java: the idle partition kept its old numbers under the new epoch, out of order for ever."""
        producer = simulation.producer(cluster, delivery_timeout_ms=5000, request_timeout_ms=1000)
        for partition in (0, 1):
            for number in range(3):
                producer.send("spread", b"%d" % number, partition=partition).result(10)
        cluster.controls.fail_next(ProduceRequest, OutOfOrderSequenceNumber)
        producer.send("spread", b"bump", partition=0).result(10)
        assert producer.health()["producer_epoch"] == 1
        assert producer.send("spread", b"3", partition=1).result(4).offset == 3
        epochs = [batch.producer_epoch for batch in cluster.log("spread", 1).batches()]
        sequences = [batch.base_sequence for batch in cluster.log("spread", 1).batches()]
        assert (epochs, sequences) == ([0, 0, 0, 1], [0, 1, 2, 0])

    def test_sequences_continue_at_zero_after_the_last_one(
        self, simulation: Simulation, cluster: KafkaCluster
    ) -> None:
        """Java failed at sequence 2**31 - 1."""
        producer = simulation.producer(cluster, linger_ms=20)
        identity = producer._core.sender.identity
        assert identity is not None
        identity.sequences.on_identity(4711, 0)
        queue_run = identity.sequences._run  # the broker takes any number from a producer it does not know
        first = producer.send("orders", b"0")
        batch = next(iter(producer._core.accumulator.incomplete))
        run = queue_run(batch)
        run.begin(identity.sequences.identity)
        run.next_sequence = LAST_SEQUENCE - 3
        assert first.result(10).offset == 0
        for start in (1, 6, 11):  # the second batch has the last number and the first in it
            for value in numbered(5, start):
                producer.send("orders", value)
            producer.flush(timeout=10)
        assert log(cluster) == numbered(16)
        sequences = [batch.base_sequence for batch in cluster.log("orders", 0).batches()]
        assert sequences == [LAST_SEQUENCE - 3, LAST_SEQUENCE - 2, 2, 7]

    def test_past_the_last_epoch_there_is_a_new_producer_id(
        self, simulation: Simulation, cluster: KafkaCluster
    ) -> None:
        """Java failed at epoch 32766, and later at 32767."""
        producer = simulation.producer(cluster, batch_size=0)
        identity = producer._core.sender.identity
        assert identity is not None
        identity.sequences.on_identity(4711, LAST_EPOCH - 1)
        for number in range(3):
            cluster.controls.fail_next(ProduceRequest, OutOfOrderSequenceNumber)
            assert producer.send("orders", b"%d" % number).result(10).offset == number
        epochs = [batch.producer_epoch for batch in cluster.log("orders", 0).batches()]
        ids = [batch.producer_id for batch in cluster.log("orders", 0).batches()]
        assert epochs == [LAST_EPOCH, 0, 1]
        assert ids[0] == 4711
        assert ids[1] == ids[2] != 4711

    def test_order_holds_when_the_leader_moves_between_an_attempt_and_the_next(
        self, simulation: Simulation, cluster: KafkaCluster
    ) -> None:
        """aiokafka: what came later went to the new leader while the old one still had the first."""
        producer = simulation.producer(
            cluster,
            enable_idempotence=False,
            max_in_flight_requests_per_connection=1,
            batch_size=0,
            request_timeout_ms=2000,
        )
        producer.send("orders", b"0").result(10)
        for partition in range(6):  # another broker shall be there to tell of the new leader
            producer.send("spread", b"v", partition=partition).result(10)
        old = cluster.partition("orders", 0)
        cluster.controls.rule(api=ProduceRequest, broker=old.leader, then="swallow")
        first = producer.send("orders", b"1")
        simulation.sleep(0.1)
        cluster.controls.move_leader(("orders", 0), next(node for node in old.isr if node != old.leader))
        producer._core.client.metadata.request_update("the test says so")
        simulation.sleep(0.5)
        moved = producer._core.client.metadata.leader_of("orders", 0)
        assert moved is not None
        assert moved.leader != old.leader
        later = [producer.send("orders", value) for value in (b"2", b"3")]
        simulation.sleep(0.5)
        assert not any(delivery.done() for delivery in [first, *later])
        producer.flush(timeout=30)
        assert log(cluster) == numbered(4)


class TestCallsThatNeverCameBack:
    @pytest.mark.parametrize(
        "options",
        [
            {"batch_size": 0},
            {"batch_size": 1},
            {"batch_size": 0, "linger_ms": 1000},
            {"batch_size": 2**31 - 1, "linger_ms": 0},
            {"max_request_size": 200},
            {"max_request_size": 1, "max_block_ms": 1000},
            {"buffer_memory": 0, "max_block_ms": 1000},
            {"buffer_memory": 300, "max_block_ms": 1000},
            {"buffer_memory": 5000, "batch_size": 16384},
            {"max_block_ms": 0},
            {"linger_ms": 0, "retry_backoff_ms": 0, "retry_backoff_max_ms": 0},
        ],
        ids=str,
    )
    @pytest.mark.parametrize("key", [None, b"k"])
    def test_send_ends_at_the_bounds_of_every_size(
        self, simulation: Simulation, cluster: KafkaCluster, options: dict[str, Any], key: bytes | None
    ) -> None:
        """Java's send() turned for ever with batch.size=0 and no key."""
        producer = simulation.producer(cluster, **options)
        started = simulation.now
        for number in range(5):
            try:
                delivery = producer.send("spread", b"%d" % number, key)
            except (RecordTooLarge, BufferExhausted, NoBrokersAvailable):
                assert {"max_request_size", "buffer_memory", "max_block_ms"} & {*options}
            else:
                assert delivery.result(5).offset >= 0
        assert simulation.now - started < 6

    @pytest.mark.parametrize("state", ["no broker", "paused", "no metadata", "no producer id", "no answer"])
    def test_close_returns_within_its_timeout_in_each_blocked_state(
        self, simulation: Simulation, cluster: KafkaCluster, state: str
    ) -> None:
        """Java and kafka-python: close() never came back."""
        producer = simulation.producer(cluster, max_block_ms=1000)
        if state == "no broker":
            for broker in range(3):
                cluster.controls.crash_broker(broker)
        elif state == "paused":
            for broker in range(3):
                cluster.controls.pause_broker(broker)
        elif state == "no metadata":
            cluster.controls.hold(MetadataRequest)
        elif state == "no producer id":
            cluster.controls.hold(InitProducerIdRequest)
        else:
            cluster.controls.hold(ProduceRequest)
        waiting: KafkaProducer | None = producer
        try:
            delivery = producer.send("orders", b"v")
        except KafkaError:
            waiting = None  # no record was taken
        started = simulation.now
        if waiting is None:
            producer.close(2)
        else:
            with pytest.raises(KafkaTimeoutError, match="1 record remains"):
                producer.close(2)
            assert delivery.exception(0) is not None
        assert simulation.now - started <= 3
        cluster.controls.clear()

    def test_expired_records_of_a_dead_cluster_are_reported_by_flush_delivery_and_log(
        self, simulation: Simulation, cluster: KafkaCluster, caplog: pytest.LogCaptureFixture
    ) -> None:
        """kafka-python: the batch expired, flush() was content, and nothing was raised or logged."""
        producer = simulation.producer(cluster, delivery_timeout_ms=3000, request_timeout_ms=1000)
        producer.send("orders", b"0").result(10)
        for broker in range(3):
            cluster.controls.crash_broker(broker)
        deliveries = [producer.send("orders", value) for value in numbered(3, 1)]
        with pytest.raises(DeliveryTimeout, match="3 records were not delivered"):
            producer.flush(timeout=10)
        assert all(isinstance(delivery.exception(0), DeliveryTimeout) for delivery in deliveries)
        [line] = [record for record in caplog.records if record.levelname == "ERROR"]
        assert "orders-0: 3 records were not delivered" in line.getMessage()

    def test_each_outage_of_a_partition_is_one_line_of_log(
        self, simulation: Simulation, cluster: KafkaCluster, caplog: pytest.LogCaptureFixture
    ) -> None:
        producer = simulation.producer(cluster, retries=0, enable_idempotence=False)

        def lines() -> list[str]:
            return [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]

        for outage in (1, 2):
            cluster.controls.fail_next(ProduceRequest, NotLeaderOrFollower, times=3)
            for _ in range(3):
                lost = producer.send("orders", b"lost")
                assert simulation.wait_until(lambda lost=lost: lost.done(), 10)  # type: ignore[misc]
            assert len(lines()) == outage
            assert "[producer-1] orders-0: 1 record was not delivered" in lines()[-1]
            producer.send("orders", b"written").result(10)
        with pytest.raises(NotLeaderOrFollower, match="6 records"):
            producer.flush(10)
