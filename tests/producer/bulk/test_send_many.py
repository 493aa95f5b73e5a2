"""Columns of records: where they arrive, which callbacks run, and the state after a call that fails."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, cast

import attrs
import pytest

from pykafka2.errors import (
    BufferExhausted,
    ClientClosed,
    ForkedClientError,
    IllegalArgument,
    IllegalState,
    IncompleteSend,
    KafkaError,
    KafkaTimeoutError,
    NotEnoughReplicas,
    NotLeaderOrFollower,
    OutOfOrderSequenceNumber,
    RecordTooLarge,
    SerializationError,
    UnknownTopicOrPartition,
)
from pykafka2.producer.append import AppendGuard
from pykafka2.producer.bulk.delivery import BulkDelivery
from pykafka2.producer.bulk.sender import MIN_BLOCK_RECORDS, BulkSender
from pykafka2.producer.interceptors import ProducerRecord
from pykafka2.producer.partitioning.murmur2 import murmur2, positive
from pykafka2.protocol.messages.produce import ProduceRequest
from pykafka2.testing import KafkaCluster, Simulation
from pykafka2.types import BatchMetadata, RecordMetadata
from tests.driver.interleave import at_every_line, at_line
from tests.gate import rest_in_gate
from tests.producer.transactions.transactional import a_cluster, a_producer, committed

MANY = 3000


def values_of(count: int, size: int = 100) -> list[bytes | None]:
    """Values of one length, each another."""
    return [b"%0*d" % (size, number) for number in range(count)]


def log(cluster: KafkaCluster, topic: str = "orders", partition: int = 0) -> list[bytes | None]:
    return cluster.log(topic, partition).values()


def base_offset(batch: BatchMetadata) -> int:
    return batch.base_offset


def rows_of(batches: Sequence[BatchMetadata]) -> list[int]:
    return sorted(row for batch in batches for row in batch.rows)


class TestArriving:
    def test_column_is_sent_in_batches_of_bulk_batch_size(
        self, simulation: Simulation, cluster: KafkaCluster
    ) -> None:
        producer = simulation.producer(cluster, bulk_batch_size=100_000)
        values = values_of(MANY)
        batches = producer.send_many("orders", values).result(10)
        assert log(cluster) == values
        written = list(cluster.log("orders", 0).batches())
        assert all(90_000 < batch.size_bytes <= 100_000 for batch in written[:-1])
        assert [batch.base_offset for batch in batches] == [batch.base_offset for batch in written]
        assert rows_of(batches) == list(range(MANY))
        assert all(
            list(batch.rows) == list(range(batch.base_offset, batch.base_offset + batch.count))
            for batch in batches
        )

    def test_a_batch_is_never_beyond_max_request_size(
        self, simulation: Simulation, cluster: KafkaCluster
    ) -> None:
        """Nor where a codec finds nothing to compress, and so makes it larger."""
        producer = simulation.producer(cluster, max_request_size=20_000, compression_type="lz4")
        chance = random.Random(1)
        values = [chance.randbytes(4973) for _ in range(12)]  # four of them are 19,989 bytes with the header
        producer.send_many("orders", values).result(10)
        assert log(cluster) == values
        assert max(batch.size_bytes for batch in cluster.log("orders", 0).batches()) <= 20_000

    def test_rows_between_records_of_another_caller_have_their_own_offsets(
        self, simulation: Simulation, cluster: KafkaCluster, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        producer = simulation.producer(cluster)
        append_row = producer._core.appender.append_row

        def spy(*arguments: Any) -> Any:
            delivery = append_row(*arguments)
            producer.send("orders", b"another caller's", partition=0)
            return delivery

        monkeypatch.setattr(producer._core.appender, "append_row", spy)
        values = [b"a", b"b", b"c"]
        batches = producer.send_many("orders", values, partition=0).result(10)
        offsets = {row: batch.base_offset + at for batch in batches for at, row in enumerate(batch.rows)}
        assert [log(cluster)[offsets[row]] for row in range(3)] == values

    @pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
    def test_every_codec_arrives(self, simulation: Simulation, cluster: KafkaCluster, codec: str) -> None:
        producer = simulation.producer(cluster, compression_type=codec)
        values = values_of(MANY)
        producer.send_many("orders", values).result(10)
        assert log(cluster) == values

    @pytest.mark.parametrize("size", [1, 100], ids=["few bytes", "many"])
    def test_records_arrive_with_their_keys_values_headers_and_timestamps(
        self, simulation: Simulation, cluster: KafkaCluster, size: int
    ) -> None:
        producer = simulation.producer(cluster)
        count = 500
        values = [None if row % 7 == 0 else b"v" * size * (row % 3) for row in range(count)]
        keys = [None if row % 5 == 0 else b"k%d" % row for row in range(count)]
        headers = [None if row % 2 else [("row", b"%d" % row), ("none", None)] for row in range(count)]
        times = [1000 + row * row for row in range(count)]
        producer.send_many(
            "orders", values, keys=keys, headers=headers, timestamps_ms=times, partition=0
        ).result(10)
        records = list(cluster.log("orders", 0).records())
        assert [record.value for record in records] == values
        assert [record.key for record in records] == keys
        assert [record.headers for record in records] == [own or [] for own in headers]
        assert [record.timestamp for record in records] == times

    def test_headers_may_be_the_same_for_all(self, simulation: Simulation, cluster: KafkaCluster) -> None:
        producer = simulation.producer(cluster)
        producer.send_many("orders", values_of(MANY), headers=[("trace", b"1")]).result(10)
        assert all(record.headers == [("trace", b"1")] for record in cluster.log("orders", 0).records())

    @pytest.mark.parametrize("count", [30, MANY], ids=["few", "many"])
    def test_keys_go_where_send_puts_them(
        self, simulation: Simulation, cluster: KafkaCluster, count: int
    ) -> None:
        producer = simulation.producer(cluster)
        keys = [b"customer-%d" % (row % 40) for row in range(count)]
        values = values_of(count)
        batches = producer.send_many("spread", values, keys=keys).result(10)
        for partition in range(6):
            rows = [row for row, key in enumerate(keys) if positive(murmur2(key)) % 6 == partition]
            assert log(cluster, "spread", partition) == [values[row] for row in rows]
            assert [row for batch in batches if batch.partition == partition for row in batch.rows] == rows
        assert rows_of(batches) == list(range(count))

    @pytest.mark.gate
    @pytest.mark.parametrize("form", rest_in_gate(["lists", "arrow"]))
    def test_long_columns_are_spread_in_blocks(
        self, simulation: Simulation, cluster: KafkaCluster, form: str
    ) -> None:
        count = 2 * MIN_BLOCK_RECORDS + 100
        producer = simulation.producer(cluster, bulk_batch_size=20_000, batch_size=2000)
        values, keys = values_of(count, 20), [b"%d" % (row % 70) for row in range(count)]
        columns: tuple[Any, Any] = (values, keys)
        if form == "arrow":
            pa = pytest.importorskip("pyarrow")
            columns = (pa.array(values, pa.binary()), pa.array(keys, pa.binary()))
        batches = producer.send_many("spread", columns[0], keys=columns[1]).result(30)
        for partition in range(6):
            rows = [row for row, key in enumerate(keys) if positive(murmur2(key)) % 6 == partition]
            assert log(cluster, "spread", partition) == [values[row] for row in rows]
            found = [batch for batch in batches if batch.partition == partition]
            assert [row for batch in sorted(found, key=base_offset) for row in batch.rows] == rows

    def test_records_without_a_key_stick_batch_by_batch(
        self, simulation: Simulation, cluster: KafkaCluster
    ) -> None:
        producer = simulation.producer(cluster, bulk_batch_size=20_000)
        batches = producer.send_many("spread", values_of(MANY)).result(10)
        assert len({batch.partition for batch in batches}) > 2
        assert sum(len(log(cluster, "spread", partition)) for partition in range(6)) == MANY

    @pytest.mark.gate
    def test_few_records_without_a_key_stick_as_single_ones_do(
        self, simulation: Simulation, cluster: KafkaCluster
    ) -> None:
        producer = simulation.producer(cluster, batch_size=1000)
        batches = [producer.send_many("spread", values_of(5)).result(10)[0] for _ in range(60)]
        partitions = [batch.partition for batch in batches]
        assert len({*partitions}) > 2
        assert sum(one == other for one, other in pairwise(partitions)) > 20

    def test_rows_may_name_their_partitions(self, simulation: Simulation, cluster: KafkaCluster) -> None:
        producer = simulation.producer(cluster)
        values = values_of(MANY)
        keys = [b"a"] * MANY
        own = positive(murmur2(b"a")) % 6
        named = [None if row % 2 else row % 6 for row in range(MANY)]
        producer.send_many("spread", values, keys=keys, partitions=named).result(10)
        for partition in range(6):
            rows = [
                row for row, number in enumerate(named) if (own if number is None else number) == partition
            ]
            assert log(cluster, "spread", partition) == [values[row] for row in rows]

    @pytest.mark.gate
    @pytest.mark.slow
    def test_rows_go_to_their_partitions_though_the_topic_shrinks_meanwhile(
        self, simulation: Simulation, cluster: KafkaCluster
    ) -> None:
        """The topic is deleted and created again; the row went to the partition that others stick to."""
        producer = simulation.producer(cluster, linger_ms=0)
        producer.partitions_for("spread")
        metadata = producer._core.client.metadata

        def shrink() -> None:
            known = metadata.snapshot.topics["spread"]
            fewer = {number: known.partitions[number] for number in range(3)}
            topics = {**metadata.snapshot.topics, "spread": attrs.evolve(known, partitions=fewer)}
            metadata.snapshot = attrs.evolve(metadata.snapshot, topics=topics)

        def attempt(line: int) -> bool:
            def send() -> None:
                producer.send_many("spread", [b"3", b"5"], partitions=[3, 5]).result(10)

            return at_line(BulkSender._send_part.__code__, line, shrink, send)

        tried = list(at_every_line(attempt))
        assert len(tried) > 10
        for number in (3, 5):
            assert cluster.log("spread", number).values() == [b"%d" % number] * (len(tried) + 1)

    def test_order_is_kept_with_single_sends_around(
        self, simulation: Simulation, cluster: KafkaCluster
    ) -> None:
        producer = simulation.producer(cluster, linger_ms=1000)
        producer.send("orders", b"first")
        producer.send_many("orders", values_of(MANY), partition=0)
        producer.send("orders", b"last")
        producer.flush(10)
        assert log(cluster) == [b"first", *values_of(MANY), b"last"]

    def test_few_records_join_the_open_batch(self, simulation: Simulation, cluster: KafkaCluster) -> None:
        producer = simulation.producer(cluster, linger_ms=100)
        deliveries = [producer.send_many("orders", [b"%d" % number]) for number in range(20)]
        producer.send("orders", b"single")
        assert deliveries[19].result(10)[0].base_offset == 19
        assert len(list(cluster.log("orders", 0).batches())) == 1
        assert [delivery.result(0)[0].base_offset for delivery in deliveries] == list(range(20))

    def test_serializers_and_partitioners_see_each_record(
        self, simulation: Simulation, cluster: KafkaCluster
    ) -> None:
        class ByObject:
            def partition(
                self, topic: str, key: Any, key_bytes: Any, value: Any, value_bytes: Any, view: Any
            ) -> int:
                assert (key_bytes, value_bytes) == (key.encode(), b"%d" % value)
                return int(value) % 6

        class Tracing:
            def serialize(self, topic: str, headers: Any, data: int) -> bytes:
                headers.append(("number", b"%d" % data))
                return b"%d" % data

        producer = simulation.producer(
            cluster, key_serializer=str.encode, value_serializer=Tracing(), partitioner=ByObject()
        )
        producer.send_many("spread", list(range(600)), keys=["key"] * 600).result(10)
        for partition in range(6):
            records = list(cluster.log("spread", partition).records())
            assert [record.value for record in records] == [
                b"%d" % number for number in range(partition, 600, 6)
            ]
            assert all(record.headers == [("number", record.value)] for record in records)

    @pytest.mark.gate
    def test_a_partitioner_sees_each_record_of_a_long_column(
        self, simulation: Simulation, cluster: KafkaCluster
    ) -> None:
        class ByObject:
            def partition(
                self, topic: str, key: Any, key_bytes: Any, value: Any, value_bytes: Any, view: Any
            ) -> int:
                assert (key, value_bytes) == (-value, b"%d" % value)
                return int(value) % 6

        producer = simulation.producer(
            cluster,
            bulk_batch_size=1000,
            key_serializer=lambda key: b"%d" % key,
            value_serializer=lambda value: b"%d" % value,
            partitioner=ByObject(),
        )
        numbers = list(range(MIN_BLOCK_RECORDS + 600))
        producer.send_many("spread", numbers, keys=[-number for number in numbers]).result(10)
        for partition in range(6):
            assert log(cluster, "spread", partition) == [b"%d" % n for n in numbers if n % 6 == partition]

    @pytest.mark.gate
    @pytest.mark.slow
    def test_rows_that_waited_for_memory_have_a_later_timestamp(
        self, simulation: Simulation, cluster: KafkaCluster
    ) -> None:
        """Records without times of their own have that of when they were taken."""
        producer = simulation.producer(
            cluster, bulk_batch_size=50_000, buffer_memory=100_000, max_in_flight_requests_per_connection=1
        )
        cluster.controls.delay(ProduceRequest, 0.2)
        producer.send_many("spread", values_of(3 * MIN_BLOCK_RECORDS)).result(100)
        cluster.controls.clear()
        times = [
            record.timestamp
            for partition in range(6)
            for record in cluster.log("spread", partition).records()
        ]
        assert max(times) - min(times) > 1000

    def test_keys_count_where_few_records_join_a_batch(
        self, simulation: Simulation, cluster: KafkaCluster
    ) -> None:
        producer = simulation.producer(cluster, batch_size=1000, linger_ms=50)
        for number in range(20):
            producer.send_many("orders", [b"v"], keys=[b"%0200d" % number], partition=0)
        producer.flush(10)
        assert all(batch.size_bytes <= 1000 for batch in cluster.log("orders", 0).batches())
        assert len(log(cluster)) == 20

    def test_interceptors_see_each_record_and_each_outcome(
        self, simulation: Simulation, cluster: KafkaCluster
    ) -> None:
        outcomes: list[RecordMetadata | None] = []

        class Spy:
            def on_send(self, record: ProducerRecord) -> ProducerRecord:
                record.value = record.value.upper()
                record.headers = [("seen", b"")]
                return record

            def on_acknowledgement(self, metadata: RecordMetadata | None, error: KafkaError | None) -> None:
                outcomes.append(metadata)

        producer = simulation.producer(cluster, interceptors=[Spy()])
        producer.send_many("orders", [b"abc"] * MANY, keys=[b"k"] * MANY).result(10)
        assert log(cluster) == [b"ABC"] * MANY
        assert next(iter(cluster.log("orders", 0).records())).headers == [("seen", b"")]
        assert [metadata.offset for metadata in outcomes if metadata is not None] == list(range(MANY))
        moving = type("Moving", (), {"on_send": lambda self, record: ProducerRecord("other", b"")})()
        with pytest.raises(IllegalArgument, match="an interceptor changed it"):
            simulation.producer(cluster, interceptors=[moving]).send_many("orders", [b"1"])

    def test_interceptors_see_each_record_that_was_not_taken(
        self, simulation: Simulation, cluster: KafkaCluster
    ) -> None:
        outcomes: list[type | None] = []

        class Spy:
            def on_acknowledgement(self, metadata: RecordMetadata | None, error: KafkaError | None) -> None:
                outcomes.append(None if error is None else type(error))

        options: dict[str, Any] = {"interceptors": [Spy()], "buffer_memory": 40_000, "max_block_ms": 100}
        producer = simulation.producer(cluster, **options)
        producer.partitions_for("orders")
        with pytest.raises(SerializationError):
            producer.send_many("orders", [b"1", "2", b"3"])
        assert outcomes == [SerializationError] * 3
        outcomes.clear()
        with pytest.raises(RecordTooLarge):
            producer.send_many("orders", [b"1", b"x" * 50_000])
        assert outcomes == [RecordTooLarge] * 2
        outcomes.clear()
        cluster.controls.hold(ProduceRequest)
        with pytest.raises(IncompleteSend) as raised:
            producer.send_many("orders", [b"x" * 1000] * 100)
        assert outcomes == [IncompleteSend] * len(raised.value.left)
        cluster.controls.clear()
        producer.flush(60)
        assert outcomes.count(None) == raised.value.taken == 100 - len(raised.value.left)

    def test_send_many_of_no_rows_succeeds_at_once(
        self, simulation: Simulation, cluster: KafkaCluster
    ) -> None:
        delivery = simulation.producer(cluster).send_many("orders", [])
        assert (len(delivery), delivery.result(0), delivery.done()) == (0, [], True)


class TestTelling:
    def test_on_delivery_is_called_once_a_batch(self, simulation: Simulation, cluster: KafkaCluster) -> None:
        outcomes: list[tuple[BatchMetadata | None, KafkaError | None]] = []
        producer = simulation.producer(cluster, bulk_batch_size=100_000)
        delivery = producer.send_many(
            "orders", values_of(MANY), on_delivery=lambda metadata, error: outcomes.append((metadata, error))
        )
        producer.flush(10)
        assert [metadata for metadata, _ in outcomes] == delivery.result(0)
        assert all(error is None for _, error in outcomes)
        assert len(outcomes) == 4

    def test_failures_name_their_rows(self, simulation: Simulation, cluster: KafkaCluster) -> None:
        outcomes: list[Any] = []
        producer = simulation.producer(cluster, bulk_batch_size=100_000, retries=0, enable_idempotence=False)
        cluster.controls.fail_next(ProduceRequest, NotEnoughReplicas)
        delivery = producer.send_many(
            "orders", values_of(MANY), on_delivery=lambda *both: outcomes.append(both)
        )
        producer.flush(10)  # a callback has run, so it does not raise
        [(rows, error)] = delivery.failures()
        assert isinstance(error, NotEnoughReplicas)
        assert rows[0] == 0
        assert sorted([*rows, *rows_of(delivery.written())]) == list(range(MANY))
        with pytest.raises(NotEnoughReplicas):
            delivery.result(0)
        assert isinstance(delivery.exception(), NotEnoughReplicas)
        assert [type(error) for _, error in outcomes if error is not None] == [NotEnoughReplicas]

    def test_flush_raises_unreported_failures_of_send_many(
        self, simulation: Simulation, cluster: KafkaCluster
    ) -> None:
        producer = simulation.producer(cluster, retries=0, enable_idempotence=False)
        cluster.controls.fail_next(ProduceRequest, NotEnoughReplicas)
        producer.send_many("orders", values_of(MANY))
        with pytest.raises(NotEnoughReplicas, match=f"{MANY} records were not delivered"):
            producer.flush(10)

    def test_failure_raised_by_result_is_not_raised_by_flush(
        self, simulation: Simulation, cluster: KafkaCluster
    ) -> None:
        producer = simulation.producer(cluster, retries=0, enable_idempotence=False)
        cluster.controls.fail_next(ProduceRequest, NotEnoughReplicas, times=2)
        for count in (MANY, 5):
            with pytest.raises(NotEnoughReplicas):
                producer.send_many("orders", values_of(count)).result(10)
        producer.flush(10)

    def test_waiting_has_a_limit(self, simulation: Simulation, cluster: KafkaCluster) -> None:
        producer = simulation.producer(cluster)
        producer.send("orders", b"1").result(10)
        cluster.controls.hold(ProduceRequest)
        delivery = producer.send_many("orders", values_of(MANY))
        with pytest.raises(KafkaTimeoutError, match=f"{MANY} of {MANY} records have no outcome yet"):
            delivery.result(1)
        assert not delivery.done()
        cluster.controls.clear()
        assert rows_of(delivery.get(10)) == list(range(MANY))
        assert repr(delivery) == f"<BulkDelivery of {MANY} records in 1 batches, done>"

    def test_bulk_delivery_can_be_awaited(self, simulation: Simulation, cluster: KafkaCluster) -> None:
        delivery = simulation.producer(cluster).send_many("orders", values_of(MANY))
        delivery.result(10)

        async def awaited(bulk: BulkDelivery) -> list[BatchMetadata]:
            return await bulk

        assert asyncio.run(awaited(delivery)) == delivery.result()


class TestFailing:
    def test_a_retried_batch_keeps_its_place(self, simulation: Simulation, cluster: KafkaCluster) -> None:
        producer = simulation.producer(cluster, bulk_batch_size=50_000)
        rule = cluster.controls.fail_next(ProduceRequest, NotLeaderOrFollower)
        delivery = producer.send_many("orders", values_of(MANY))
        assert rows_of(delivery.result(30)) == list(range(MANY))
        assert rule.fired == 1
        assert log(cluster) == values_of(MANY)

    def test_a_lost_answer_doubles_nothing(self, simulation: Simulation, cluster: KafkaCluster) -> None:
        producer = simulation.producer(cluster, bulk_batch_size=50_000, request_timeout_ms=1000)
        producer.send("orders", b"first").result(10)
        cluster.controls.lose_reply(ProduceRequest, times=1)
        producer.send_many("orders", values_of(MANY)).result(60)
        assert log(cluster) == [b"first", *values_of(MANY)]

    def test_renumbered_batches_arrive_whole(self, simulation: Simulation, cluster: KafkaCluster) -> None:
        producer = simulation.producer(cluster, bulk_batch_size=50_000, compression_type="lz4")
        producer.send("orders", b"first").result(10)
        cluster.controls.fail_next(ProduceRequest, OutOfOrderSequenceNumber)
        producer.send_many("orders", values_of(MANY)).result(60)
        assert log(cluster) == [b"first", *values_of(MANY)]
        assert producer.health()["producer_epoch"] == 1

    def test_a_full_buffer_is_waited_for(self, simulation: Simulation, cluster: KafkaCluster) -> None:
        producer = simulation.producer(cluster, buffer_memory=100_000, bulk_batch_size=40_000)
        producer.send_many("orders", values_of(MANY)).result(30)
        assert log(cluster) == values_of(MANY)
        health = producer.health()
        assert (health["buffer_available_bytes"], health["buffer_overhead_bytes"]) == (100_000, 0)

    def test_buffer_timeout_midway_reports_the_taken_and_left_rows(
        self, simulation: Simulation, cluster: KafkaCluster
    ) -> None:
        producer = simulation.producer(
            cluster, buffer_memory=100_000, bulk_batch_size=40_000, max_block_ms=2000
        )
        producer.send("orders", b"first").result(10)
        cluster.controls.hold(ProduceRequest)
        values = values_of(MANY)
        with pytest.raises(
            IncompleteSend, match=f"of {MANY} records for topic 'orders' were appended"
        ) as raised:
            producer.send_many("orders", values)
        error = raised.value
        assert isinstance(error.__cause__, BufferExhausted)
        assert 0 < error.taken < MANY
        assert list(error.left) == list(range(error.taken, MANY))
        cluster.controls.clear()
        assert rows_of(error.delivery.result(30)) == list(range(error.taken))
        producer.send_many("orders", [values[row] for row in error.left]).result(30)
        assert log(cluster) == [b"first", *values]
        assert producer.health()["buffer_available_bytes"] == 100_000

    def test_a_few_rows_that_find_room_for_some_are_counted(
        self, simulation: Simulation, cluster: KafkaCluster
    ) -> None:
        producer = simulation.producer(
            cluster, buffer_memory=1000, batch_size=1000, linger_ms=60_000, max_block_ms=100
        )
        producer.partitions_for("orders")
        cluster.controls.hold(ProduceRequest)
        producer.send("orders", b"x" * 600)
        values = [b"%d" % number * 80 for number in range(10)]
        with pytest.raises(IncompleteSend) as raised:
            producer.send_many("orders", values)
        error = raised.value
        assert 0 < error.taken < 5
        assert error.left == list(range(error.taken, 10))
        cluster.controls.clear()
        assert rows_of(error.delivery.result(30)) == list(range(error.taken))

    def test_buffer_timeout_names_each_row_that_was_not_taken(
        self, simulation: Simulation, cluster: KafkaCluster
    ) -> None:
        producer = simulation.producer(
            cluster, buffer_memory=100_000, bulk_batch_size=20_000, batch_size=1000, max_block_ms=2000
        )
        producer.send("spread", b"first", partition=0).result(10)
        cluster.controls.hold(ProduceRequest)
        keys = [b"%d" % (row % 50) for row in range(MANY)]
        with pytest.raises(IncompleteSend) as raised:
            producer.send_many("spread", values_of(MANY), keys=keys)
        cluster.controls.clear()
        taken = rows_of(raised.value.delivery.result(30))
        assert len(taken) == raised.value.taken
        assert sorted([*taken, *raised.value.left]) == list(range(MANY))

    def test_no_memory_at_all_is_the_plain_error(self, simulation: Simulation, cluster: KafkaCluster) -> None:
        producer = simulation.producer(cluster, buffer_memory=100_000, max_block_ms=2000)
        producer.send("orders", b"first").result(10)
        cluster.controls.hold(ProduceRequest)
        producer.send_many("orders", values_of(900))
        with pytest.raises(BufferExhausted):
            producer.send_many("orders", values_of(900))
        cluster.controls.clear()
        producer.flush(30)
        assert producer.health()["buffer_available_bytes"] == 100_000

    def test_a_closed_producer_takes_nothing(self, simulation: Simulation, cluster: KafkaCluster) -> None:
        producer = simulation.producer(cluster)
        producer.close()
        with pytest.raises(ClientClosed):
            producer.send_many("orders", [b"1"])

    def test_forked_child_gets_forked_client_error(
        self, simulation: Simulation, cluster: KafkaCluster
    ) -> None:
        producer = simulation.producer(cluster)
        producer.partitions_for("orders")
        producer._on_fork_in_child(ForkedClientError("created before a fork"))
        with pytest.raises(ForkedClientError, match="created before a fork"):
            producer.send_many("orders", values_of(MANY))
        assert producer.health()["records_waiting"] == 0
        producer._core.refusal = None

    @pytest.mark.gate
    def test_ctrl_c_notes_how_many_records_were_appended(
        self, simulation: Simulation, cluster: KafkaCluster, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        producer = simulation.producer(cluster, bulk_batch_size=50_000)
        check, calls = AppendGuard.check, []

        def interrupted(guard: AppendGuard) -> None:
            calls.append(1)
            if len(calls) == 3:
                raise KeyboardInterrupt
            check(guard)

        monkeypatch.setattr(AppendGuard, "check", interrupted)
        with pytest.raises(KeyboardInterrupt) as raised:
            producer.send_many("orders", values_of(MANY))
        assert f"of {MANY} records for topic 'orders' were appended" in raised.value.__notes__[0]
        producer.flush(10)
        assert log(cluster) == values_of(MANY)[: len(log(cluster))]


class TestArguments:
    @pytest.mark.parametrize(
        ("arguments", "error", "words"),
        [
            ({"values": 5}, IllegalArgument, r"values=5 .* must be a list"),
            ({"values": b"bytes"}, IllegalArgument, r"values=b'bytes' .* must be a list"),
            ({"values": {b"a": 1}}, IllegalArgument, "values=.* must be a list"),
            ({"values": (b"a" for _ in "ab")}, IllegalArgument, r"values=<generator.* give list\(values\)"),
            (
                {"values": [b"1", "text"]},
                SerializationError,
                r"values\[1\] .* is a str; give bytes, or set value",
            ),
            ({"keys": [b"1"]}, IllegalArgument, "keys has 1 entries, and values has 2"),
            (
                {"keys": [b"1", 2]},
                SerializationError,
                r"keys\[1\] .* is an int; give bytes, or set key_serializer",
            ),
            ({"headers": {"a": b"1"}}, IllegalArgument, r"headers=.*list\(headers.items\(\)\)"),
            ({"headers": [("a", b"1"), ("b", 2)]}, IllegalArgument, r"headers\[1\].* the value is not bytes"),
            ({"headers": [[("a", b"1")]]}, IllegalArgument, "headers has 1 entries, and values has 2"),
            (
                {"headers": [None, [("b", 2)]]},
                IllegalArgument,
                r"record 1: headers\[0\].* the value is not bytes",
            ),
            ({"headers": 5}, IllegalArgument, "headers=5"),
            ({"headers": [("\ud800", b"")]}, IllegalArgument, "headers=.* a name cannot be encoded as UTF-8"),
            ({"headers": [None, [("\ud800", b"")]]}, IllegalArgument, "a name cannot be encoded as UTF-8"),
            ({"partition": 1.5}, IllegalArgument, "partition=1.5"),
            ({"partition": 0, "partitions": [0, 0]}, IllegalArgument, "both set"),
            (
                {"partitions": [0, -1]},
                IllegalArgument,
                r"partitions\[1\]=-1 .* takes the number of a partition",
            ),
            ({"partitions": [0, True]}, IllegalArgument, r"partitions\[1\]=True"),
            ({"partitions": [0, "1"]}, IllegalArgument, r"partitions\[1\]='1'"),
            ({"partitions": [0, 9]}, UnknownTopicOrPartition, "no partition 9"),
            ({"partition": -1}, UnknownTopicOrPartition, "no partition -1"),
            ({"timestamps_ms": [1, -5]}, IllegalArgument, r"timestamps_ms\[1\]=-5"),
            ({"timestamps_ms": [1, 1 << 63]}, IllegalArgument, r"timestamps_ms\[1\]="),
            ({"timestamps_ms": [1.5, 1]}, IllegalArgument, r"timestamps_ms\[0\]=1.5"),
            ({"timestamps_ms": 5}, IllegalArgument, "timestamps_ms=5 .* must be a list"),
            ({"on_delivery": 5}, IllegalArgument, "on_delivery=5"),
            ({"topic": 5}, IllegalArgument, "topic=5"),
            (
                {"values": [b"1", b"x" * 2_000_000]},
                RecordTooLarge,
                r"values\[1\] .* max_request_size=1048576",
            ),
        ],
    )
    def test_invalid_argument_raises_and_appends_nothing(
        self,
        simulation: Simulation,
        cluster: KafkaCluster,
        arguments: dict[str, Any],
        error: type[Exception],
        words: str,
    ) -> None:
        producer = simulation.producer(cluster, max_block_ms=500)
        call = {"topic": "orders", "values": [b"1", b"2"], **arguments}
        with pytest.raises(error, match=words):
            cast(Any, producer.send_many)(call.pop("topic"), call.pop("values"), **call)
        health = producer.health()
        assert (health["records_waiting"], health["buffer_available_bytes"]) == (0, 33_554_432)

    def test_buffers_are_copied_and_none_is_a_null(
        self, simulation: Simulation, cluster: KafkaCluster
    ) -> None:
        producer = simulation.producer(cluster)
        mine = bytearray(b"mine")
        producer.send_many("orders", [mine, memoryview(b"view"), None, b"bytes"])
        mine[:] = b"late"
        producer.flush(10)
        assert log(cluster) == [b"mine", b"view", None, b"bytes"]

    def test_other_sequences_and_numbers_of_numpy(
        self, simulation: Simulation, cluster: KafkaCluster
    ) -> None:
        np = pytest.importorskip("numpy")
        producer = simulation.producer(cluster)
        times = np.arange(5, dtype=np.uint32)
        producer.send_many(
            "orders", tuple(values_of(5)), partitions=np.zeros(5, np.int16), timestamps_ms=times
        ).result(10)
        assert [record.timestamp for record in cluster.log("orders", 0).records()] == [0, 1, 2, 3, 4]

    def test_on_the_io_thread_it_does_not_wait(self, simulation: Simulation, cluster: KafkaCluster) -> None:
        producer = simulation.producer(cluster)
        raised: list[BaseException] = []

        def on_delivery(metadata: object, error: object) -> None:
            try:
                producer.send_many("orders", values_of(10)).result(1)
            except IllegalState as problem:
                raised.append(problem)

        producer.send("orders", b"1", on_delivery=on_delivery).result(10)
        producer.flush(10)
        assert len(raised) == 1


def test_too_large_batches_are_split(simulation: Simulation) -> None:
    cluster = simulation.cluster(brokers=1, topics={"small": 1}, config={"message.max.bytes": 30_000})
    producer = simulation.producer(cluster, bulk_batch_size=100_000)
    outcomes: list[Any] = []
    delivery = producer.send_many("small", values_of(MANY), on_delivery=lambda *both: outcomes.append(both))
    batches = delivery.result(60)
    assert log(cluster, "small") == values_of(MANY)
    assert rows_of(batches) == list(range(MANY))
    assert rows_of([metadata for metadata, _ in outcomes]) == list(range(MANY))


@pytest.mark.gate
def test_columns_belong_to_a_transaction(simulation: Simulation) -> None:
    cluster = a_cluster(simulation, 2)
    producer = a_producer(simulation, cluster)
    with pytest.raises(IllegalState, match="begin_transaction"):
        producer.send_many("orders", values_of(MANY))
    producer.begin_transaction()
    producer.send_many("orders", values_of(MANY))
    producer.abort_transaction()
    with producer.transaction():
        delivery = producer.send_many("orders", values_of(MANY))
    assert rows_of(delivery.result(0)) == list(range(MANY))
    assert committed(simulation, cluster) == values_of(MANY)
    with pytest.raises(IllegalState, match="begin_transaction"):
        producer.send_many("orders", [b"1"])
