"""The producer against the bundled cluster, in virtual time: what is promised when things go wrong."""

from __future__ import annotations

import contextlib
import re
import sys
from functools import partial
from itertools import groupby
from types import FunctionType
from typing import Any, cast

import pytest

from pykafka2 import KafkaProducer, RecordMetadata
from pykafka2.compression import codec as find_codec
from pykafka2.errors import (
    BufferExhausted,
    ClientClosed,
    ClusterAuthorizationFailed,
    DeliveryTimeout,
    IllegalArgument,
    IllegalState,
    InvalidRecord,
    InvalidTopicException,
    KafkaError,
    KafkaTimeoutError,
    MessageTooLarge,
    NoBrokersAvailable,
    NotEnoughReplicas,
    NotLeaderOrFollower,
    OutOfOrderSequenceNumber,
    ProducerFenced,
    RecordTooLarge,
    SerializationError,
    TopicAuthorizationFailed,
    UnknownProducerId,
    UnknownTopicOrPartition,
)
from pykafka2.producer.idempotence import LAST_EPOCH
from pykafka2.producer.interceptors import ProducerInterceptor, ProducerRecord
from pykafka2.producer.shutdown import Shutdown
from pykafka2.protocol.messages.metadata import MetadataRequest
from pykafka2.protocol.messages.produce import ProduceRequest
from pykafka2.protocol.messages.topics import CreatePartitionsRequest, CreatePartitionsTopic
from pykafka2.protocol.messages.transaction import InitProducerIdRequest
from pykafka2.protocol.struct import Response
from pykafka2.testing import KafkaCluster, Simulation, Topic
from pykafka2.text import type_of
from tests.driver.interleave import at_every_line, at_line
from tests.gate import rest_in_gate

JAVA_HASH_OF_ABC = 479470107
"""murmur2 of b"abc"."""


class CutShort(Response, api_key=0, versions="0-99"):
    """The first byte of an answer, and no more."""

    def encode_into(self, version: int, parts: list[Any]) -> None:
        parts.append(b"\0")


def numbered(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


def log(cluster: KafkaCluster, topic: str = "orders", partition: int = 0) -> list[bytes | None]:
    return cluster.log(topic, partition).values()


class TestDelivering:
    def test_record_is_written_and_its_metadata_has_topic_partition_and_offset(
        self, simulation: Simulation, cluster: KafkaCluster
    ) -> None:
        producer = simulation.producer(cluster)
        metadata = producer.send("orders", b"value", b"key", [("h", b"1")], timestamp_ms=5).result(10)
        assert metadata == RecordMetadata("orders", 0, 0, 5, 3, 5)
        [record] = cluster.log("orders", 0).records()
        assert (record.key, record.value, record.headers, record.timestamp) == (
            b"key",
            b"value",
            [("h", b"1")],
            5,
        )

    @pytest.mark.parametrize("acks", [0, 1, "all"])
    def test_every_acks_delivers(
        self, simulation: Simulation, cluster: KafkaCluster, acks: int | str
    ) -> None:
        producer = simulation.producer(cluster, acks=acks)
        deliveries = [producer.send("orders", value) for value in numbered(50)]
        producer.flush(timeout=10)
        offsets = [delivery.result(0).offset for delivery in deliveries]
        assert offsets == ([-1] * 50 if acks == 0 else list(range(50)))
        simulation.sleep(1)  # with acks=0 flush only means that the records left
        assert log(cluster) == numbered(50)

    @pytest.mark.gate
    def test_no_request_is_sent_before_the_first_send(
        self, simulation: Simulation, cluster: KafkaCluster
    ) -> None:
        producer = simulation.producer(cluster)
        simulation.sleep(60)
        assert not list(cluster.history.entries())
        producer.send("orders", b"v").result(10)
        assert len(cluster.history.requests("Metadata")) == 1

    def test_equal_keys_go_to_one_partition_and_keyless_records_are_spread(
        self, simulation: Simulation, cluster: KafkaCluster
    ) -> None:
        producer = simulation.producer(cluster)
        keyed = [producer.send("spread", b"v", b"abc") for _ in range(20)]
        spread = [producer.send("spread", b"x" * 1000) for _ in range(600)]
        producer.flush(timeout=30)
        assert {delivery.result(0).partition for delivery in keyed} == {JAVA_HASH_OF_ABC % 6} == {3}
        assert {delivery.result(0).partition for delivery in spread} == set(range(6))

    def test_keyless_records_stick_to_a_partition_until_its_batch_is_full(
        self, simulation: Simulation, cluster: KafkaCluster
    ) -> None:
        producer = simulation.producer(cluster, linger_ms=100)
        deliveries = [producer.send("spread", b"x" * 100) for _ in range(100)]
        producer.flush(timeout=30)
        assert len({delivery.result(0).partition for delivery in deliveries}) == 1

    @pytest.mark.parametrize("value_bytes", [250, 400])
    def test_full_batch_that_is_still_open_counts_towards_the_bytes_of_the_sticky_partition(
        self, simulation: Simulation, cluster: KafkaCluster, value_bytes: int
    ) -> None:
        producer = simulation.producer(cluster, linger_ms=10_000, batch_size=1000)
        deliveries = [producer.send("spread", b"x" * value_bytes) for _ in range(60)]
        producer.flush(timeout=30)
        runs = [len([*run]) for _, run in groupby(delivery.result(0).partition for delivery in deliveries)]
        records = 2 * (1000 // (value_bytes + 20))  # two batches, as one has less than batch_size
        assert [run % records for run in runs[:-1]] == [0] * (len(runs) - 1)
        assert len(runs) > 60 // records // 2

    def test_a_named_partition_is_used(self, simulation: Simulation, cluster: KafkaCluster) -> None:
        producer = simulation.producer(cluster)
        assert producer.send("spread", b"v", partition=3).result(10).partition == 3

    @pytest.mark.gate
    def test_mutable_key_value_and_headers_are_copied(
        self, simulation: Simulation, cluster: KafkaCluster
    ) -> None:
        producer = simulation.producer(cluster)
        value, key, header = bytearray(b"value"), bytearray(b"key"), bytearray(b"header")
        delivery = producer.send("orders", value, memoryview(key), [("h", header)])
        for mine in (value, key, header):
            mine[:] = b"?" * len(mine)
        delivery.result(10)
        [record] = cluster.log("orders", 0).records()
        assert (record.value, record.key, record.headers) == (b"value", b"key", [("h", b"header")])

    def test_added_partitions_of_a_topic_receive_records(
        self, simulation: Simulation, cluster: KafkaCluster
    ) -> None:
        producer = simulation.producer(cluster, metadata_max_age_ms=1000)
        producer.send("orders", b"v", b"abc").result(10)
        more = CreatePartitionsTopic(name="orders", count=6, assignments=None)
        request = CreatePartitionsRequest(topics=[more], timeout_ms=5000, validate_only=False)
        simulation.client(cluster).request(request)
        simulation.sleep(2)
        assert producer.send("orders", b"v", b"abc").result(10).partition == JAVA_HASH_OF_ABC % 6 == 3

    def test_a_partitioner_of_ones_own_decides(self, simulation: Simulation, cluster: KafkaCluster) -> None:
        seen = []

        def last(key: bytes | None, everything: list[int], available: list[int]) -> int:
            seen.append((key, everything, available))
            return everything[-1]

        producer = simulation.producer(cluster, partitioner=last)
        assert producer.send("spread", b"v", b"k").result(10).partition == 5
        assert seen == [(b"k", [0, 1, 2, 3, 4, 5], [0, 1, 2, 3, 4, 5])]

    def test_a_batch_lingers_for_company(self, simulation: Simulation, cluster: KafkaCluster) -> None:
        producer = simulation.producer(cluster, linger_ms=500)
        producer.partitions_for("orders")
        start = simulation.now
        first = producer.send("orders", b"1")
        simulation.sleep(0.3)
        second = producer.send("orders", b"2")
        assert not first.done()
        second.result(10)
        assert 0.5 <= simulation.now - start < 0.6
        assert len(cluster.history.requests("Produce")) == 1

    def test_a_full_batch_does_not_linger(self, simulation: Simulation, cluster: KafkaCluster) -> None:
        producer = simulation.producer(cluster, linger_ms=10_000, batch_size=1000)
        deliveries = [producer.send("orders", b"x" * 400) for _ in range(5)]
        assert deliveries[3].result(5).offset == 3
        assert not deliveries[4].done()

    def test_callback_of_another_client_is_refused_though_a_batch_is_open(
        self, simulation: Simulation, cluster: KafkaCluster
    ) -> None:
        producer = simulation.producer(cluster, linger_ms=10_000)
        deliveries = [producer.send("orders", b"open") for _ in range(3)]
        producer._wall_ns = partial(int, producer._wall_ns())  # the open batch takes the time of its record
        deliveries += [producer.send("orders", b"open") for _ in range(3)]
        with pytest.raises(TypeError, match="use on_delivery="):
            producer.send("orders", b"refused", callback=print)  # type: ignore[arg-type]
        producer.flush(10)
        assert [delivery.result(0).offset for delivery in deliveries] == [*range(6)]
        assert cluster.log("orders", 0).values() == 6 * [b"open"]

    def test_batch_does_not_linger_if_the_record_that_did_not_fit_went_to_another_partition(
        self, simulation: Simulation, cluster: KafkaCluster
    ) -> None:
        producer = simulation.producer(cluster, linger_ms=10_000, batch_size=1000)
        deliveries = [producer.send("spread", b"x" * 400) for _ in range(60)]
        simulation.sleep(5)
        done = [delivery.result(0).partition for delivery in deliveries if delivery.done()]
        assert len({*done}) > 1
        assert len(done) > 60 - 2 * 6

    @pytest.mark.parametrize(("batch_size", "value"), [(1000, b"x" * 2000), (0, b"v")])
    def test_a_single_record_that_fills_its_batch_does_not_linger(
        self, simulation: Simulation, cluster: KafkaCluster, batch_size: int, value: bytes
    ) -> None:
        producer = simulation.producer(cluster, linger_ms=10_000, batch_size=batch_size)
        assert producer.send("orders", value).result(5).offset == 0

    def test_serializers_make_the_bytes(self, simulation: Simulation, cluster: KafkaCluster) -> None:
        producer = simulation.producer(
            cluster, key_serializer=str.encode, value_serializer=lambda n: b"%d" % n
        )
        producer.send("orders", 7, "k").result(10)
        producer.send("orders", None, None).result(10)
        assert (log(cluster), cluster.log("orders", 0).keys()) == ([b"7", None], [b"k", None])

    @pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
    def test_every_codec_arrives(self, simulation: Simulation, cluster: KafkaCluster, codec: str) -> None:
        producer = simulation.producer(cluster, compression_type=codec)
        for value in numbered(100):
            producer.send("orders", value)
        producer.flush(timeout=10)
        assert log(cluster) == numbered(100)
        assert {batch.codec_id for batch in cluster.log("orders", 0).batches()} == {find_codec(codec).id}


class TestFailing:
    def test_a_retried_batch_keeps_its_place(self, simulation: Simulation, cluster: KafkaCluster) -> None:
        producer = simulation.producer(cluster, enable_idempotence=True, batch_size=200)
        rule = cluster.controls.fail_next(ProduceRequest, NotLeaderOrFollower)
        deliveries = [producer.send("orders", value) for value in numbered(100)]
        producer.flush(timeout=30)
        assert rule.fired == 1
        assert [delivery.result().offset for delivery in deliveries] == list(range(100))
        assert log(cluster) == numbered(100)

    @pytest.mark.gate
    def test_a_lost_reply_doubles_nothing_with_five_in_flight(
        self, simulation: Simulation, cluster: KafkaCluster
    ) -> None:
        producer = simulation.producer(cluster, batch_size=200, linger_ms=0)
        producer.send("orders", b"first").result(10)
        rule = cluster.controls.lose_reply(ProduceRequest, times=3)
        cluster.controls.pause_followers()  # so that acknowledgements wait
        deliveries = [producer.send("orders", value) for value in numbered(500)]
        simulation.sleep(0.5)
        assert producer.metrics()["requests-in-flight"] == 5
        cluster.controls.resume_followers()
        producer.flush(timeout=60)
        assert rule.fired == 3
        assert log(cluster) == [b"first", *numbered(500)]
        assert [delivery.result().offset for delivery in deliveries] == list(range(1, 501))
        assert cluster.history.in_flight_max("Produce") == 5

    def test_record_errors_after_the_delivery_timeout_do_not_affect_later_records(
        self, simulation: Simulation
    ) -> None:
        topic = Topic(1, configs={"message.timestamp.after.max.ms": 1000})
        cluster = simulation.cluster(topics={"orders": topic})
        producer = simulation.producer(cluster, delivery_timeout_ms=3000, request_timeout_ms=2995)
        producer.send("orders", b"first").result(10)
        cluster.controls.disconnect_next(ProduceRequest)
        late = cluster.controls.delay(ProduceRequest, 2.98)
        refused = producer.send("orders", b"from the future", timestamp_ms=2**45)
        with pytest.raises(DeliveryTimeout):
            refused.result(10)
        simulation.sleep(1)
        assert late.fired == 1
        cluster.controls.clear()
        assert producer.send("orders", b"last").result(10).offset == 1

    def test_retries_carry_identical_bytes(self, simulation: Simulation, cluster: KafkaCluster) -> None:
        producer = simulation.producer(cluster)
        cluster.controls.lose_reply(ProduceRequest, times=2)
        producer.send("orders", b"v").result(30)
        requests = cast("list[ProduceRequest]", cluster.history.requests("Produce"))
        sent = [bytes(request.topic_data[0].partition_data[0].records or b"") for request in requests]
        assert len(sent) == 3
        assert len(set(sent)) == 1

    def test_order_holds_without_idempotence_at_one_in_flight(
        self, simulation: Simulation, cluster: KafkaCluster
    ) -> None:
        producer = simulation.producer(
            cluster, enable_idempotence=False, max_in_flight_requests_per_connection=1, batch_size=200
        )
        cluster.controls.fail_next(ProduceRequest, NotLeaderOrFollower)
        for value in numbered(100):
            producer.send("orders", value)
        producer.flush(timeout=30)
        assert log(cluster) == numbered(100)
        assert cluster.history.in_flight_max("Produce") == 1

    def test_five_in_flight_without_idempotence_may_reorder(
        self, simulation: Simulation, cluster: KafkaCluster
    ) -> None:
        # A known trap, pinned: as in Java, nothing is lost, but order may be.
        producer = simulation.producer(cluster, enable_idempotence=False, batch_size=200, linger_ms=0)
        producer.partitions_for("orders")
        cluster.controls.fail_next(ProduceRequest, NotEnoughReplicas)
        cluster.controls.delay(ProduceRequest, 0.05)
        for value in numbered(100):
            producer.send("orders", value)
        producer.flush(timeout=30)
        assert sorted(log(cluster), key=lambda value: int(value or b"")) == numbered(100)
        assert log(cluster) != numbered(100)

    @pytest.mark.gate
    def test_a_crashed_leader_loses_and_doubles_nothing(
        self, simulation: Simulation, cluster: KafkaCluster
    ) -> None:
        producer = simulation.producer(cluster, batch_size=200, linger_ms=0)
        deliveries = []
        for number, value in enumerate(numbered(1000)):
            deliveries.append(producer.send("orders", value))
            if number == 500:
                simulation.sleep(0.002)
                cluster.controls.crash_broker(cluster.partition("orders", 0).leader)
        producer.flush(timeout=60)
        assert log(cluster) == numbered(1000)
        assert [delivery.result().offset for delivery in deliveries] == list(range(1000))

    @pytest.mark.parametrize("error", [OutOfOrderSequenceNumber, UnknownProducerId])
    def test_a_broker_that_lost_the_sequence_gets_a_new_epoch(
        self, simulation: Simulation, cluster: KafkaCluster, error: type[OutOfOrderSequenceNumber]
    ) -> None:
        producer = simulation.producer(cluster)
        producer.send("orders", b"0").result(10)
        cluster.controls.fail_next(ProduceRequest, error)
        assert producer.send("orders", b"1").result(10).offset == 1
        assert producer.send("orders", b"2").result(10).offset == 2
        assert [batch.producer_epoch for batch in cluster.log("orders", 0).batches()] == [0, 1, 1]
        assert producer.health()["producer_epoch"] == 1

    def test_fenced_producer_raises_producer_fenced_and_sends_no_more_records(
        self, simulation: Simulation, cluster: KafkaCluster
    ) -> None:
        producer = simulation.producer(cluster, batch_size=0)
        producer.send("orders", b"0").result(10)
        cluster.controls.fail_next(ProduceRequest, ProducerFenced)
        deliveries = [producer.send("orders", b"1") for _ in range(3)]
        for delivery in deliveries:
            with pytest.raises(ProducerFenced):
                delivery.result(10)
        with pytest.raises(ProducerFenced, match=r"reject this producer's id: .*create a new one"):
            producer.send("orders", b"3")
        assert log(cluster) == [b"0"]

    def test_records_are_sent_when_the_epochs_of_a_producer_id_are_exhausted(
        self, simulation: Simulation, cluster: KafkaCluster
    ) -> None:
        producer = simulation.producer(cluster)
        identity = producer._core.sender.identity
        assert identity is not None
        identity.sequences.on_identity(4711, LAST_EPOCH)
        cluster.controls.fail_next(ProduceRequest, MessageTooLarge)
        with pytest.raises(MessageTooLarge):
            producer.send("orders", b"0").result(10)
        assert producer.send("orders", b"1").result(1).offset == 0
        [batch] = cluster.log("orders", 0).batches()
        assert (batch.producer_id != 4711, batch.producer_epoch) == (True, 0)

    def test_a_batch_that_failed_for_good_does_not_block_those_behind_it(
        self, simulation: Simulation, cluster: KafkaCluster
    ) -> None:
        producer = simulation.producer(cluster, batch_size=0)
        cluster.controls.fail_next(ProduceRequest, MessageTooLarge)
        deliveries = [producer.send("orders", value) for value in numbered(10)]
        with pytest.raises(MessageTooLarge, match=r"orders-0"):
            deliveries[0].result(10)
        producer.flush(timeout=10)
        assert [delivery.result(0).offset for delivery in deliveries[1:]] == list(range(9))
        assert log(cluster) == numbered(10)[1:]

    def test_retries_are_counted(self, simulation: Simulation, cluster: KafkaCluster) -> None:
        producer = simulation.producer(cluster, retries=2)
        rule = cluster.controls.fail_next(ProduceRequest, NotEnoughReplicas, times=10)
        with pytest.raises(NotEnoughReplicas):
            producer.send("orders", b"v").result(60)
        assert rule.fired == 3
        assert producer.metrics()["record-retry-total"] == 2
        cluster.controls.clear()
        producer.send("orders", b"w").result(10)
        assert log(cluster) == [b"w"]

    def test_retries_back_off(self, simulation: Simulation, cluster: KafkaCluster) -> None:
        producer = simulation.producer(cluster, retry_backoff_ms=1000, retry_backoff_max_ms=10_000)
        producer.send("orders", b"v").result(10)
        cluster.controls.fail_next(ProduceRequest, NotEnoughReplicas, times=3)
        start = simulation.now
        producer.send("orders", b"w").result(60)
        assert 7 * 0.8 <= simulation.now - start <= 7 * 1.2 + 0.1

    @pytest.mark.gate
    def test_delivery_timeout_fails_the_batch_and_warns_that_it_may_be_in_the_log(
        self, simulation: Simulation, cluster: KafkaCluster
    ) -> None:
        producer = simulation.producer(cluster, delivery_timeout_ms=10_000, request_timeout_ms=3000)
        producer.send("orders", b"v").result(10)
        cluster.controls.fail_next(ProduceRequest, NotEnoughReplicas, times=1000)
        start = simulation.now
        with pytest.raises(
            DeliveryTimeout, match=r"orders-0: not acknowledged .* it may or may not be in the log"
        ):
            producer.send("orders", b"w").result()
        assert 10 <= simulation.now - start < 11

    def test_a_batch_without_an_answer_ends_by_its_delivery_timeout_too(
        self, simulation: Simulation, cluster: KafkaCluster
    ) -> None:
        producer = simulation.producer(cluster, delivery_timeout_ms=5000, request_timeout_ms=4000)
        producer.send("orders", b"v").result(10)
        cluster.controls.hold(ProduceRequest)
        start = simulation.now
        with pytest.raises(DeliveryTimeout):
            producer.send("orders", b"w").result()
        assert 5 <= simulation.now - start < 6
        cluster.controls.clear()
        producer.send("orders", b"x").result(30)
        assert log(cluster)[-1] == b"x"
        simulation.sleep(10)
        assert producer.health()["buffer_available_bytes"] == 33554432

    def test_unreadable_init_producer_id_response_is_retried(
        self, simulation: Simulation, cluster: KafkaCluster
    ) -> None:
        producer = simulation.producer(cluster)
        cut_short = cluster.controls.rule(
            api=InitProducerIdRequest, times=2, then="replace_reply", reply=lambda *_: CutShort()
        )
        assert producer.send("orders", b"v").result(10).offset == 0
        assert cut_short.fired == 2

    def test_missing_producer_id_in_the_response_is_retried_with_backoff(
        self, simulation: Simulation, cluster: KafkaCluster
    ) -> None:
        producer = simulation.producer(cluster)
        none = {"producer_id": -1, "producer_epoch": -1}
        rule = cluster.controls.rule(api=InitProducerIdRequest, then="replace_reply", reply=none)
        delivery = producer.send("orders", b"v")
        simulation.sleep(5)
        assert 3 < rule.fired < 20
        cluster.controls.clear()
        assert delivery.result(10).offset == 0

    @pytest.mark.parametrize("enable_idempotence", [True, False])
    def test_an_acknowledgement_that_cannot_be_read_leaves_the_outcome_open(
        self, simulation: Simulation, cluster: KafkaCluster, enable_idempotence: bool
    ) -> None:
        producer = simulation.producer(cluster, enable_idempotence=enable_idempotence)
        cut_short = cluster.controls.rule(
            api=ProduceRequest, times=1, then="replace_reply", reply=lambda *_: CutShort()
        )
        producer.send("orders", b"v").result(10)
        assert cut_short.fired == 1
        # Written twice at most: without idempotence the broker cannot know the second attempt again.
        assert log(cluster) == [b"v"] * (1 if enable_idempotence else 2)

    def test_a_refused_producer_id_fails_every_send(
        self, simulation: Simulation, cluster: KafkaCluster
    ) -> None:
        producer = simulation.producer(cluster)
        cluster.controls.fail_next(InitProducerIdRequest, ClusterAuthorizationFailed)
        with pytest.raises(ClusterAuthorizationFailed, match="no producer id"):
            producer.send("orders", b"v").result(10)
        with pytest.raises(ClusterAuthorizationFailed, match="no producer id"):
            producer.send("orders", b"v")


class TestBadInput:
    def test_an_oversize_record_is_refused_at_once(
        self, simulation: Simulation, cluster: KafkaCluster
    ) -> None:
        producer = simulation.producer(cluster, max_request_size=1000, buffer_memory=100_000)
        producer.partitions_for("orders")
        start = simulation.now
        with pytest.raises(RecordTooLarge, match="max_request_size=1000"):
            producer.send("orders", b"x" * 1000)
        assert simulation.now == start
        producer = simulation.producer(cluster, buffer_memory=20_000)
        with pytest.raises(RecordTooLarge, match="buffer_memory=20000"):
            producer.send("orders", b"x" * 20_000)

    def test_an_unknown_topic_raises_within_max_block_ms(
        self, simulation: Simulation, cluster: KafkaCluster
    ) -> None:
        cluster = simulation.cluster(brokers=1, config={"auto.create.topics.enable": False})
        producer = simulation.producer(cluster, max_block_ms=3000)
        start = simulation.now
        with pytest.raises(UnknownTopicOrPartition, match="'nothing' does not exist"):
            producer.send("nothing", b"v")
        assert 3 <= simulation.now - start < 3.5
        with pytest.raises(UnknownTopicOrPartition, match="'nothing' does not exist"):
            producer.send("nothing", b"v")  # which finds what is known of it

    def test_an_unknown_partition_raises_within_max_block_ms(
        self, simulation: Simulation, cluster: KafkaCluster
    ) -> None:
        producer = simulation.producer(cluster, max_block_ms=3000)
        producer.partitions_for("orders")
        start = simulation.now
        with pytest.raises(UnknownTopicOrPartition, match="'orders' has 1 partition and no partition 1"):
            producer.send("orders", b"v", partition=1)
        assert 3 <= simulation.now - start < 3.5
        with pytest.raises(UnknownTopicOrPartition, match="count from 0"):
            producer.send("orders", b"v", partition=-1)

    @pytest.mark.parametrize(
        ("topic", "partition", "words"),
        [
            ("ordres", None, "'ordres' does not exist"),
            ("orders", 1, "'orders' has 1 partition and no partition 1"),
        ],
    )
    def test_wait_for_a_missing_topic_or_partition_is_logged_while_it_lasts(
        self,
        simulation: Simulation,
        caplog: pytest.LogCaptureFixture,
        topic: str,
        partition: int | None,
        words: str,
    ) -> None:
        cluster = simulation.cluster(
            brokers=1, topics=["orders"], config={"auto.create.topics.enable": False}
        )
        producer = simulation.producer(cluster, max_block_ms=60_000)
        sending = simulation.spawn(lambda: producer.send(topic, b"v", partition=partition))
        simulation.run_for(5)
        [line] = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
        assert words in line
        assert "waiting for at most 58 s more" in line
        with pytest.raises(UnknownTopicOrPartition):
            sending.result()

    def test_a_topic_without_permission_raises_at_once(
        self, simulation: Simulation, cluster: KafkaCluster
    ) -> None:
        producer = simulation.producer(cluster)
        cluster.controls.fail_next(MetadataRequest, TopicAuthorizationFailed, times=100)
        with pytest.raises(TopicAuthorizationFailed):
            producer.send("orders", b"v")
        assert simulation.now < 1

    def test_no_broker_raises_within_max_block_ms(
        self, simulation: Simulation, cluster: KafkaCluster
    ) -> None:
        producer = simulation.producer(cluster, bootstrap_servers="broker-0:1", max_block_ms=2000)
        start = simulation.now
        with pytest.raises(NoBrokersAvailable, match="broker-0:1"):
            producer.send("orders", b"v")
        assert simulation.now - start < 2.5

    def test_text_without_a_serializer_is_refused(
        self, simulation: Simulation, cluster: KafkaCluster
    ) -> None:
        producer = simulation.producer(cluster)
        with pytest.raises(SerializationError, match="the value of a record for topic 'orders' is a str"):
            producer.send("orders", "text")
        with pytest.raises(SerializationError, match=r"the key .* is an int"):
            producer.send("orders", b"v", 7)
        with pytest.raises(SerializationError, match="headers must be a list of pairs"):
            producer.send("orders", b"v", headers=[("name", "text")])  # type: ignore[list-item]
        producer.flush(timeout=5)
        assert not cluster.history.requests("Produce")

    @pytest.mark.parametrize("topic", [b"orders", 5, None, "a\ud800", "a" * 40_000])
    def test_invalid_topic_name_is_rejected_without_effect_on_other_topics(
        self, simulation: Simulation, cluster: KafkaCluster, topic: object
    ) -> None:
        # It must not get among the topics wanted: no request that names them could be written any more.
        producer = simulation.producer(cluster)
        with pytest.raises((TypeError, InvalidTopicException)):
            producer.send(cast(str, topic), b"v")
        with pytest.raises((TypeError, InvalidTopicException)):
            producer.partitions_for(cast(str, topic))
        assert producer.send("orders", b"v").result(10).offset == 0

    def test_a_negative_timestamp_is_refused_as_in_java(
        self, simulation: Simulation, cluster: KafkaCluster
    ) -> None:
        producer = simulation.producer(cluster)
        with pytest.raises(SerializationError, match=r"timestamp_ms=-5 .* is negative"):
            producer.send("orders", b"v", timestamp_ms=-5)
        assert producer.send("orders", b"v", timestamp_ms=0).result(10).timestamp == 0

    def test_a_failing_serializer_is_named(self, simulation: Simulation, cluster: KafkaCluster) -> None:
        producer = simulation.producer(cluster, value_serializer=str.encode)
        with pytest.raises(SerializationError, match="value_serializer failed for topic 'orders'"):
            producer.send("orders", 7)

    def test_transactions_need_their_option(self, simulation: Simulation, cluster: KafkaCluster) -> None:
        producer = simulation.producer(cluster)
        with pytest.raises(IllegalState, match="needs the option transactional_id"):
            producer.init_transactions()
        with pytest.raises(IllegalState, match="needs the option transactional_id"):
            producer.transaction()


class TestMemory:
    @pytest.mark.gate
    def test_send_waits_for_memory_and_continues(self, simulation: Simulation, cluster: KafkaCluster) -> None:
        producer = simulation.producer(cluster, buffer_memory=50_000)
        deliveries = [producer.send("orders", b"x" * 1000) for _ in range(500)]
        producer.flush(timeout=30)
        assert [delivery.result(0).offset for delivery in deliveries] == list(range(500))
        assert producer.health()["buffer_available_bytes"] == 50_000

    def test_metadata_and_memory_share_max_block_ms(
        self, simulation: Simulation, cluster: KafkaCluster
    ) -> None:
        producer = simulation.producer(cluster, buffer_memory=20_000, max_block_ms=3000)
        producer.send("orders", b"first").result(10)
        cluster.controls.hold(ProduceRequest)
        producer.send("orders", b"x" * 15_000)
        cluster.controls.delay(MetadataRequest, 2.0)
        started = simulation.now
        with pytest.raises(BufferExhausted):
            producer.send("spread", b"x" * 15_000)
        assert 3 <= simulation.now - started < 3.5
        cluster.controls.clear()
        producer.flush(timeout=60)

    def test_a_full_buffer_raises_after_max_block_ms_and_loses_no_memory(
        self, simulation: Simulation, cluster: KafkaCluster
    ) -> None:
        producer = simulation.producer(cluster, buffer_memory=40_000, max_block_ms=1000)
        producer.send("orders", b"first").result(10)
        cluster.controls.hold(ProduceRequest)
        taken = 0
        with pytest.raises(BufferExhausted, match="buffer_memory of 40000 bytes is full"):  # noqa: PT012
            for taken in range(100):  # noqa: B007
                producer.send("orders", b"x" * 1000)
        assert 20 < taken < 40
        cluster.controls.clear()
        producer.flush(timeout=60)
        assert producer.health()["buffer_available_bytes"] == 40_000

    @pytest.mark.gate
    def test_waiting_senders_continue_when_memory_is_released(
        self, simulation: Simulation, cluster: KafkaCluster
    ) -> None:
        producer = simulation.producer(cluster, buffer_memory=40_000)
        producer.partitions_for("orders")

        def send_some() -> None:
            for _ in range(100):
                producer.send("orders", b"x" * 1000)

        actors = [simulation.spawn(send_some) for _ in range(5)]
        for actor in actors:
            actor.result()
        producer.flush(timeout=60)
        assert len(log(cluster)) == 500


class TestTelling:
    def test_on_delivery_is_called_once_per_record_in_order(
        self, simulation: Simulation, cluster: KafkaCluster
    ) -> None:
        outcomes: list[tuple[RecordMetadata | None, KafkaError | None]] = []
        producer = simulation.producer(cluster)
        for value in numbered(100):
            producer.send(
                "orders", value, on_delivery=lambda metadata, error: outcomes.append((metadata, error))
            )
        producer.flush(timeout=10)
        assert [metadata.offset for metadata, error in outcomes if metadata and error is None] == list(
            range(100)
        )

    @pytest.mark.parametrize("time_is", ["CreateTime", "LogAppendTime"])
    def test_on_delivery_gets_the_metadata_that_the_delivery_has(
        self, simulation: Simulation, time_is: str
    ) -> None:
        configs = {"message.timestamp.type": time_is}
        cluster = simulation.cluster(topics={"orders": Topic(configs=configs)})
        outcomes: list[RecordMetadata | None] = []
        producer = simulation.producer(cluster)
        deliveries = [
            producer.send("orders", *pair, on_delivery=lambda metadata, error: outcomes.append(metadata))
            for pair in ((b"value",), (b"value", b"key"), (None, b"key"), (b"", b""))
        ]
        producer.flush(timeout=10)
        assert outcomes == [delivery.result(0) for delivery in deliveries]
        sizes = [(one.serialized_key_size, one.serialized_value_size) for one in outcomes if one is not None]
        assert sizes == [(-1, 5), (3, 5), (3, -1), (0, 0)]
        times = [record.timestamp for record in cluster.log("orders", 0).records()]
        assert [one.timestamp for one in outcomes if one is not None] == times

    def test_failure_reported_to_a_callback_is_not_raised_again(
        self, simulation: Simulation, cluster: KafkaCluster
    ) -> None:
        outcomes: list[KafkaError | None] = []
        producer = simulation.producer(cluster)
        cluster.controls.fail_next(ProduceRequest, MessageTooLarge)
        producer.send("orders", b"v", on_delivery=lambda metadata, error: outcomes.append(error))
        producer.flush(timeout=10)
        assert [type(error) for error in outcomes] == [MessageTooLarge]
        producer.close()

    def test_unreported_failure_is_raised_by_flush_once(
        self, simulation: Simulation, cluster: KafkaCluster
    ) -> None:
        producer = simulation.producer(cluster)
        cluster.controls.fail_next(ProduceRequest, InvalidRecord)
        for value in numbered(3):
            producer.send("orders", value)
        with pytest.raises(InvalidRecord, match=r"3 records were not delivered; the first: orders-0"):
            producer.flush(timeout=10)
        producer.flush(timeout=10)

    def test_callback_that_raises_is_logged_and_does_not_affect_other_records(
        self, simulation: Simulation, cluster: KafkaCluster, caplog: pytest.LogCaptureFixture
    ) -> None:
        producer = simulation.producer(cluster)

        def fail(metadata: RecordMetadata | None, error: KafkaError | None) -> None:
            raise ZeroDivisionError

        producer.send("orders", b"1", on_delivery=fail)
        assert producer.send("orders", b"2").result(10).offset == 1
        assert "a delivery callback for orders-0 failed" in caplog.text

    @pytest.mark.parametrize("call", ["flush", "close", "result", "send"])
    def test_a_blocking_call_in_a_callback_raises_at_once(
        self, simulation: Simulation, cluster: KafkaCluster, call: str
    ) -> None:
        raised: list[BaseException] = []
        producer = simulation.producer(cluster, linger_ms=50)
        producer.partitions_for("orders")

        def block(metadata: RecordMetadata | None, error: KafkaError | None) -> None:
            later = producer.send("orders", b"later")
            try:
                if call == "result":
                    later.result(10)
                elif call == "send":
                    producer.send("spread", b"its metadata is not known yet")
                else:
                    getattr(producer, call)()
            except IllegalState as problem:
                raised.append(problem)

        producer.send("orders", b"v", on_delivery=block)
        producer.flush(timeout=10)
        assert len(raised) == 1
        producer.flush(timeout=10)
        assert log(cluster) == [b"v", b"later"]

    @pytest.mark.parametrize("what", rest_in_gate(["refused", "expired", "purged"]))
    def test_a_record_that_failed_can_be_sent_again_by_its_callback(
        self, simulation: Simulation, cluster: KafkaCluster, what: str
    ) -> None:
        """Though its batch had all the memory there is."""
        producer = simulation.producer(
            cluster, buffer_memory=16384, request_timeout_ms=1000, delivery_timeout_ms=3000
        )
        producer.partitions_for("orders")
        failed: list[KafkaError] = []

        def again(metadata: RecordMetadata | None, error: KafkaError | None) -> None:
            if error is not None:
                failed.append(error)
                cluster.controls.clear()
                producer.send("orders", b"v", on_delivery=again)

        if what == "refused":
            cluster.controls.fail_next(ProduceRequest, InvalidRecord)
        else:
            cluster.controls.hold(InitProducerIdRequest)
        producer.send("orders", b"v", on_delivery=again)
        if what == "purged":
            producer.purge()
        simulation.sleep(15)
        producer.flush(timeout=10)
        assert len(failed) == 1
        assert log(cluster) == [b"v"]
        assert producer.health()["buffer_available_bytes"] == 16384

    def test_an_interceptor_that_returns_nothing_changes_the_record_in_place(
        self, simulation: Simulation, cluster: KafkaCluster
    ) -> None:
        class Forgetful:
            def on_send(self, record: ProducerRecord) -> None:
                record.value = record.value.upper()

        producer = simulation.producer(cluster, interceptors=[Forgetful()])
        producer.send("orders", b"v").result(10)
        assert log(cluster) == [b"V"]

    @pytest.mark.parametrize("wrong", [True, "orders", ("orders", b"v")])
    def test_an_interceptor_that_returns_no_record_is_logged_and_breaks_nothing(
        self, simulation: Simulation, cluster: KafkaCluster, caplog: pytest.LogCaptureFixture, wrong: object
    ) -> None:
        class Mistaken:
            def on_send(self, record: ProducerRecord) -> object:
                return wrong

        class Adding:
            def on_send(self, record: ProducerRecord) -> None:
                record.value += b"!"

        producer = simulation.producer(cluster, interceptors=[Mistaken(), Adding()])
        producer.send("orders", b"v").result(10)
        producer.send_many("orders", [b"w"]).result(10)
        assert log(cluster) == [b"v!", b"w!"]
        assert f"returned {type_of(wrong)} instead of a ProducerRecord" in caplog.text

    def test_an_interceptor_or_partitioner_that_fails_to_close_keeps_nothing_from_being_closed(
        self, simulation: Simulation, cluster: KafkaCluster, caplog: pytest.LogCaptureFixture
    ) -> None:
        closed: list[str] = []

        class Shutdown:
            def __init__(self, name: str) -> None:
                self.name = name

            def partition(self, *arguments: object) -> int:
                return 0

            def close(self) -> None:
                closed.append(self.name)
                raise RuntimeError("broken")

        producer = simulation.producer(
            cluster, interceptors=[Shutdown("first"), Shutdown("second")], partitioner=Shutdown("partitioner")
        )
        delivery = producer.send("orders", b"v")
        producer.close()
        producer.close()
        assert delivery.result(0).offset == 0
        assert closed == ["first", "second", "partitioner"]
        assert caplog.text.count("failed") == 3
        assert producer.health()["state"] == "closed"

    def test_interceptors_see_records_and_outcomes(
        self, simulation: Simulation, cluster: KafkaCluster, caplog: pytest.LogCaptureFixture
    ) -> None:
        class Shouting:
            def __init__(self) -> None:
                self.outcomes: list[object] = []

            def on_send(self, record: object) -> object:
                record.value = record.value.upper()  # type: ignore[attr-defined]
                return record

            def on_acknowledgement(self, metadata: object, error: object) -> None:
                self.outcomes.append(metadata or error)

        class Broken:
            def on_send(self, record: object) -> object:
                raise RuntimeError("broken")

        shouting = Shouting()
        order: list[int] = []
        producer = simulation.producer(cluster, interceptors=[Broken(), shouting])
        producer.send("orders", b"a", on_delivery=lambda *_: order.append(len(shouting.outcomes)))
        producer.send("orders", b"b")
        producer.flush(timeout=10)
        assert log(cluster) == [b"A", b"B"]
        assert len(shouting.outcomes) == 2
        assert order == [1]
        assert "on_send of" in caplog.text

    def test_interceptor_may_change_topic_and_partition(
        self, simulation: Simulation, cluster: KafkaCluster
    ) -> None:
        class Elsewhere(ProducerInterceptor):
            def on_send(self, record: ProducerRecord) -> ProducerRecord:
                return ProducerRecord("spread", record.value, b"key", [("was", b"orders")], 3, 5)

        producer = simulation.producer(cluster, interceptors=[Elsewhere()])
        place = producer.send("orders", b"v").result(10)
        assert (place.topic, place.partition, place.timestamp) == ("spread", 3, 5)
        [record] = cluster.log("spread", 3).records()
        assert (record.value, record.key, record.headers) == (b"v", b"key", [("was", b"orders")])

    def test_interceptor_that_exits_does_not_keep_other_callbacks_from_being_called(
        self, simulation: Simulation, cluster: KafkaCluster
    ) -> None:
        outcomes: list[object] = []

        class Exits:
            def on_acknowledgement(self, metadata: object, error: object) -> None:
                raise SystemExit(3)

        class Listens:
            def on_acknowledgement(self, metadata: object, error: object) -> None:
                outcomes.append("interceptor")

        producer = simulation.producer(cluster, interceptors=[Exits(), Listens()])
        producer.send("orders", b"v", on_delivery=lambda *_: outcomes.append("callback"))
        with pytest.raises(SystemExit):
            producer.flush(timeout=10)
        assert outcomes == ["interceptor", "callback"]

    def test_uncallable_callback_with_interceptors_is_rejected(
        self, simulation: Simulation, cluster: KafkaCluster
    ) -> None:
        producer = simulation.producer(cluster, interceptors=[ProducerInterceptor()])
        wrong: Any = "print"
        with pytest.raises(IllegalArgument, match=r"on_delivery='print' .* must be a callable"):
            producer.send("orders", b"v", on_delivery=wrong)

    def test_interceptors_see_each_record_that_was_not_taken(
        self, simulation: Simulation, cluster: KafkaCluster
    ) -> None:
        """A count of requests in flight would be wrong from then on."""
        outcomes: list[KafkaError | None] = []

        class Listens:
            def on_acknowledgement(self, metadata: object, error: KafkaError | None) -> None:
                outcomes.append(error)

        def no_partition(*_: object) -> int:
            raise ZeroDivisionError

        producer = simulation.producer(cluster, interceptors=[Listens()], partitioner=no_partition)
        with pytest.raises(ZeroDivisionError):
            producer.send("orders", b"v")
        with pytest.raises(IllegalArgument):
            producer.send("orders", "text")
        assert [type(error) for error in outcomes] == [KafkaError, IllegalArgument]
        assert isinstance(outcomes[0].__cause__, ZeroDivisionError)


class TestClosing:
    def test_close_sends_the_remaining_records(self, simulation: Simulation, cluster: KafkaCluster) -> None:
        producer = simulation.producer(cluster, linger_ms=10_000)
        for value in numbered(10):
            producer.send("orders", value)
        producer.close()
        assert log(cluster) == numbered(10)
        producer.close()

    def test_leaving_the_block_sends_the_remaining_records(
        self, simulation: Simulation, cluster: KafkaCluster
    ) -> None:
        with simulation.producer(cluster, linger_ms=10_000) as producer:
            producer.send("orders", b"v")
        assert log(cluster) == [b"v"]

    def test_leaving_the_block_raises_the_failure_of_a_record(
        self, simulation: Simulation, cluster: KafkaCluster
    ) -> None:
        cluster.controls.fail_next(ProduceRequest, MessageTooLarge)
        with pytest.raises(MessageTooLarge), simulation.producer(cluster) as producer:
            producer.send("orders", b"v")

    def test_exception_in_the_block_gets_a_note_of_failed_records(
        self, simulation: Simulation, cluster: KafkaCluster
    ) -> None:
        cluster.controls.fail_next(ProduceRequest, MessageTooLarge)
        with pytest.raises(ZeroDivisionError) as raised, simulation.producer(cluster) as producer:
            [producer.send("orders", b"v"), 1 / 0]
        assert "while the producer was closed: MessageTooLarge" in raised.value.__notes__[0]

    def test_flush_timeout_names_the_remaining_records_and_keeps_them_in_flight(
        self, simulation: Simulation, cluster: KafkaCluster
    ) -> None:
        producer = simulation.producer(cluster)
        producer.send("orders", b"0").result(10)
        cluster.controls.hold(ProduceRequest)
        delivery = producer.send("orders", b"1")
        with pytest.raises(
            KafkaTimeoutError, match=r"1 record remains after 2 s\. Records queued or in flight: 1"
        ):
            producer.flush(timeout=2)
        cluster.controls.clear()
        assert delivery.result(10).offset == 1

    def test_records_linger_again_after_a_flush(self, simulation: Simulation, cluster: KafkaCluster) -> None:
        producer = simulation.producer(cluster, linger_ms=500)
        producer.send("orders", b"v")
        producer.flush(10)
        delivery = producer.send("orders", b"v")
        simulation.sleep(0.3)
        assert not delivery.done()

    def test_flush_has_one_timeout_for_all_that_it_waits_for(
        self, simulation: Simulation, cluster: KafkaCluster
    ) -> None:
        producer = simulation.producer(cluster)
        producer.partitions_for("spread")
        slow, fast = (cluster.partition("spread", number).leader for number in (0, 1))
        cluster.controls.delay(ProduceRequest, 1.6, broker=slow)
        cluster.controls.delay(ProduceRequest, 0.8, broker=fast)
        deliveries = [producer.send("spread", b"v", partition=number) for number in (0, 1)]
        began = simulation.now
        with pytest.raises(KafkaTimeoutError, match="1 record remains after 1 s"):
            producer.flush(1)
        assert 1 <= round(simulation.now - began, 9) < 1.2
        assert [delivery.done() for delivery in deliveries] == [False, True]
        cluster.controls.clear()
        producer.flush(10)

    def test_close_timeout_names_the_remaining_records_and_fails_their_deliveries(
        self, simulation: Simulation, cluster: KafkaCluster
    ) -> None:
        producer = simulation.producer(cluster)
        producer.send("orders", b"0").result(10)
        cluster.controls.hold(ProduceRequest)
        delivery = producer.send("orders", b"1")
        with pytest.raises(
            KafkaTimeoutError, match=r"close: 1 record remains after 2 s and will be dr.*\. Rec"
        ) as raised:
            producer.close(timeout=2)
        assert "The producer is closed" not in str(raised.value)
        with pytest.raises(ClientClosed, match="it may be in the log"):
            delivery.result(0)

    def test_close_with_timeout_zero_names_the_records_that_will_be_dropped(
        self, simulation: Simulation, cluster: KafkaCluster
    ) -> None:
        producer = simulation.producer(cluster, linger_ms=10_000)
        producer.partitions_for("orders")
        producer.send("orders", b"0")
        with pytest.raises(KafkaTimeoutError, match="1 record remains after 0 s and will be dropped"):
            producer.close(timeout=0)

    def test_close_raises_the_delivery_timeout_of_records_that_expired_before_it(
        self, simulation: Simulation, cluster: KafkaCluster
    ) -> None:
        producer = simulation.producer(cluster, delivery_timeout_ms=3000, request_timeout_ms=2995)
        producer.send("orders", b"0").result(10)
        cluster.controls.hold(ProduceRequest)
        producer.send("orders", b"1")
        simulation.sleep(4)
        with pytest.raises(DeliveryTimeout, match=r"^1 record was not delivered") as raised:
            producer.close(timeout=2)
        assert "close: " not in str(raised.value)

    def test_concurrent_close_calls_all_raise_the_remaining_records(
        self, simulation: Simulation, cluster: KafkaCluster
    ) -> None:
        producer = simulation.producer(cluster)
        producer.send("orders", b"0").result(10)
        cluster.controls.hold(ProduceRequest)
        producer.send("orders", b"1")

        def close() -> str:
            try:
                producer.close(timeout=1)
            except KafkaTimeoutError as error:
                return str(error)
            return "as if all were well"

        actors = [simulation.spawn(close) for _ in range(4)]
        said = [actor.result() for actor in actors]
        assert all("close: 1 record remains after 1 s" in text for text in said), said
        assert simulation.now < 2
        producer.close()

    def test_a_close_that_waits_for_another_ends_as_that_one_does(
        self, simulation: Simulation, cluster: KafkaCluster
    ) -> None:
        producer = simulation.producer(cluster)
        cluster.controls.fail_next(ProduceRequest, MessageTooLarge)
        cluster.controls.delay(ProduceRequest, 0.5)
        producer.send("orders", b"v")

        def close() -> str:
            with pytest.raises(MessageTooLarge) as raised:
                producer.close()
            return str(raised.value)

        actors = [simulation.spawn(close) for _ in range(2)]
        assert all("1 record was not delivered" in actor.result() for actor in actors)

    @pytest.mark.gate
    @pytest.mark.slow
    @pytest.mark.parametrize("function", rest_in_gate([Shutdown.close, Shutdown._lead, Shutdown._flush]))
    def test_close_after_a_ctrl_c_in_close_completes(
        self, simulation: Simulation, cluster: KafkaCluster, function: FunctionType
    ) -> None:
        strikes: list[int] = []

        def is_struck(line: int) -> bool:
            def strike() -> None:
                strikes.append(line)
                raise KeyboardInterrupt

            producer = simulation.producer(cluster, linger_ms=10_000)
            deliveries = [producer.send("orders", value) for value in numbered(3)]
            with contextlib.suppress(KeyboardInterrupt):
                at_line(function.__code__, line, strike, producer.close)
            producer.close(timeout=10)
            assert all(delivery.result(0).offset >= 0 for delivery in deliveries), f"line {line}"
            assert producer.explain() == "The producer is closed."
            return line in strikes

        assert len([*at_every_line(is_struck)]) > 5

    def test_ctrl_c_while_close_aborts_leaves_the_record_count_to_the_next_close(
        self, simulation: Simulation, cluster: KafkaCluster
    ) -> None:
        def strike() -> None:
            raise KeyboardInterrupt

        producer = simulation.producer(cluster)
        producer.send("orders", b"0").result(10)
        cluster.controls.hold(ProduceRequest)
        producer.send_many("orders", numbered(3))
        with pytest.raises(KeyboardInterrupt):
            at_line(Shutdown._abort.__code__, 1, strike, lambda: producer.close(timeout=1))
        with pytest.raises(KafkaError, match="3 records"):
            producer.close(timeout=1)

    def test_closed_producer_raises_client_closed(
        self, simulation: Simulation, cluster: KafkaCluster
    ) -> None:
        producer = simulation.producer(cluster)
        producer.send("orders", b"v")
        producer.close()
        for call in (
            lambda: producer.send("orders", b"v"),
            lambda: producer.flush(),
            lambda: producer.partitions_for("orders"),
        ):
            with pytest.raises(ClientClosed, match="closed; create a new one"):
                call()
        assert producer.explain() == "The producer is closed."

    def test_close_ends_a_send_that_waits_for_memory(
        self, simulation: Simulation, cluster: KafkaCluster
    ) -> None:
        producer = simulation.producer(cluster, buffer_memory=40_000)
        producer.send("orders", b"0").result(10)
        cluster.controls.hold(ProduceRequest)

        def send_too_much() -> str:
            try:
                for _ in range(100):
                    producer.send("orders", b"x" * 1000)
            except ClientClosed as error:
                return str(error)
            return "nothing was raised"

        actor = simulation.spawn(send_too_much)
        simulation.sleep(1)
        with pytest.raises(KafkaTimeoutError):
            producer.close(timeout=1)
        assert "was closed" in actor.result()

    def test_metrics_and_health_count_sent_records(
        self, simulation: Simulation, cluster: KafkaCluster
    ) -> None:
        producer = simulation.producer(cluster)
        for value in numbered(10):
            producer.send("orders", value)
        assert producer.health()["records_waiting"] == 10
        assert producer.explain().startswith("Records queued or in flight: 10.")
        producer.flush(timeout=10)
        metrics = producer.metrics()
        assert (metrics["record-send-total"], metrics["requests-in-flight"]) == (10, 0)
        assert metrics["request-latency-avg"] > 0
        health = producer.health()
        assert (health["state"], health["records_waiting"], health["producer_epoch"]) == ("open", 0, 0)
        assert producer.explain() == "Nothing waits: every record sent was written or has failed."

    @pytest.mark.gate
    def test_explain_names_a_throttling_broker(self, simulation: Simulation, cluster: KafkaCluster) -> None:
        producer = simulation.producer(cluster)
        cluster.controls.throttle(None, ProduceRequest, 30.0, times=1)
        producer.send("orders", b"1").result(10)
        producer.send("orders", b"2")
        simulation.sleep(1)
        assert "throttles this client: no request is sent to it for another" in producer.explain()
        assert len(producer.health()["throttled"]) == 1
        producer.flush(40)

    def test_delivery_that_times_out_under_a_quota_names_the_throttling_broker(
        self, simulation: Simulation, cluster: KafkaCluster
    ) -> None:
        cluster.create_topic("paid", 2)
        producer = simulation.producer(cluster, delivery_timeout_ms=10_000, request_timeout_ms=5000)
        cluster.controls.throttle(None, ProduceRequest, 30.0, times=2)
        for partition in (0, 1):
            producer.send("paid", b"1", partition=partition).result(40)
        began = simulation.now
        for delivery in [producer.send("paid", b"2", partition=partition) for partition in (0, 1)]:
            with pytest.raises(DeliveryTimeout) as caught:
                delivery.result(20)
            assert simulation.now - began == pytest.approx(10, abs=0.5)
            found = re.search(
                r"never sent, it waited for node \d \(broker-\d:\d+\), which throttles this client because "
                r"of a quota \((\d+\.\d) s remain\)$",
                str(caught.value),
            )
            assert found is not None, str(caught.value)
            assert 15 < float(found[1]) < 21


def test_delivery_that_times_out_before_the_producer_id_names_the_unreachable_leader() -> None:
    with Simulation(seed=1) as simulation:
        cluster = simulation.cluster(brokers=1, topics={"paid": 1})
        producer = simulation.producer(cluster, delivery_timeout_ms=4000, request_timeout_ms=3000)
        producer.partitions_for("paid")
        cluster.controls.crash_broker(0)
        with pytest.raises(
            DeliveryTimeout,
            match=r"a producer id and for a connection to node 0 \(broker-0:\d+: nothing listens there",
        ):
            producer.send("paid", b"1").result(20)


def test_bootstrap_connected_is_true_while_a_broker_is_connected(
    simulation: Simulation, cluster: KafkaCluster
) -> None:
    producer = simulation.producer(cluster)
    assert not producer.bootstrap_connected()
    producer.send("orders", b"v").result(10)
    assert producer.bootstrap_connected()
    producer.close()
    assert not producer.bootstrap_connected()


def test_partitions_are_listed_in_order(simulation: Simulation, cluster: KafkaCluster) -> None:
    producer: KafkaProducer = simulation.producer(cluster)
    assert producer.partitions_for("spread") == {0, 1, 2, 3, 4, 5}
    assert [info.partition for info in producer.partition_infos("spread")] == [0, 1, 2, 3, 4, 5]


class TestCallbacksThatAskForTheEnd:
    def test_sys_exit_in_a_callback_is_raised_by_the_next_call_that_waits(
        self, simulation: Simulation, cluster: KafkaCluster, caplog: pytest.LogCaptureFixture
    ) -> None:
        producer = simulation.producer(cluster, linger_ms=10)
        outcomes = []

        def on_delivery(metadata: RecordMetadata | None, error: KafkaError | None) -> None:
            outcomes.append(metadata)
            if len(outcomes) == 2:
                sys.exit("enough")

        deliveries = [producer.send("orders", value, on_delivery=on_delivery) for value in numbered(5)]
        with pytest.raises(SystemExit, match="enough"):
            producer.flush(timeout=10)
        assert len(outcomes) == 5, "the other callbacks are called"
        assert [delivery.result(0).offset for delivery in deliveries] == list(range(5))
        assert "requested the exit" in caplog.text
        assert producer.send("orders", b"more").result(10).offset == 5, "raised once; the IO thread lives"

    @pytest.mark.parametrize("error", [None, InvalidRecord])
    def test_exit_requested_in_an_added_callback_keeps_other_callbacks_running(
        self,
        simulation: Simulation,
        cluster: KafkaCluster,
        caplog: pytest.LogCaptureFixture,
        error: type[InvalidRecord] | None,
    ) -> None:
        producer = simulation.producer(cluster, linger_ms=10)
        producer.partitions_for("orders")
        if error is not None:
            cluster.controls.fail_next(ProduceRequest, error)
        outcomes: list[object] = []

        def tell(outcome: object) -> None:
            outcomes.append(outcome)
            if len(outcomes) == 2:
                sys.exit("enough")

        for value in numbered(5):
            producer.send("orders", value).add_both(tell)
        with pytest.raises(SystemExit, match="enough"):
            producer.flush(timeout=10)
        assert [type(outcome) for outcome in outcomes] == [error or RecordMetadata] * 5
        assert "requested the exit" in caplog.text
        producer.send("orders", b"more").result(10)

    def test_sys_exit_in_a_callback_at_interpreter_exit_does_not_stop_other_records(
        self, simulation: Simulation, cluster: KafkaCluster
    ) -> None:
        """The requested work is under way. The bug kept other producers from sending their records."""
        producer = simulation.producer(cluster, linger_ms=10_000)
        producer.partitions_for("spread")
        cluster.controls.rule(api="Produce", topic="orders", nth=1, then="error:NOT_ENOUGH_REPLICAS")
        last = producer.send("orders", b"1")
        producer.send("spread", b"2", on_delivery=lambda metadata, error: sys.exit("enough"))
        assert producer._on_exit(10) == 0
        assert last.result(0).offset == 0

    @pytest.mark.parametrize("call", ["flush", "close"])
    def test_sys_exit_in_a_callback_is_raised_by_a_call_that_finds_nothing_to_wait_for(
        self, simulation: Simulation, cluster: KafkaCluster, call: str
    ) -> None:
        producer = simulation.producer(cluster, linger_ms=10)
        sent = producer.send("orders", b"1", on_delivery=lambda metadata, error: sys.exit("enough"))
        while not sent.done():
            simulation.sleep(0.01)
        with pytest.raises(SystemExit, match="enough"):
            getattr(producer, call)(10)
        producer.close(10)

    def test_sys_exit_in_a_callback_is_raised_by_close_when_everything_is_sent(
        self, simulation: Simulation, cluster: KafkaCluster, caplog: pytest.LogCaptureFixture
    ) -> None:
        producer = simulation.producer(cluster, linger_ms=10)
        producer.partitions_for("spread")
        producer.send("orders", b"1", on_delivery=lambda metadata, error: sys.exit("enough"))
        last = producer.send("spread", b"2")
        with pytest.raises(SystemExit, match="enough"):
            producer.close(10)
        assert last.result(0).offset == 0
        with pytest.raises(ClientClosed):
            producer.send("orders", b"3")
