"""Batches of `create_batch`: their limits, and what `send_batch` refuses."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from pykafka2 import KafkaProducer as SyncProducer
from pykafka2 import TopicPartition
from pykafka2.aio import KafkaConsumer, KafkaProducer
from pykafka2.aio.aiokafka_options import IgnoredOption
from pykafka2.aio.batch_builder import BatchBuilder
from pykafka2.errors import ConfigurationError, IllegalState
from pykafka2.testing import KafkaCluster
from tests.aio.running import run

pytestmark = pytest.mark.kafka(brokers=1, topics={"orders": 2})


def test_batch_accepts_records_up_to_its_size() -> None:
    batch = BatchBuilder(400)
    sizes = []
    while (record := batch.append(key=b"k", value=bytes(90), headers=[("name", b"value")])) is not None:
        sizes.append(record.size)
        assert record.offset == len(sizes) - 1
    assert batch.record_count() == len(sizes) == 3
    assert batch.size() == sum(sizes) <= 400
    assert batch.append(value=b"") is not None  # a smaller one has room
    batch.close()
    assert batch.append(value=b"") is None


def test_empty_batch_accepts_a_record_of_any_size() -> None:
    assert BatchBuilder(10).append(value=bytes(1000)) is not None


def test_key_value_and_headers_must_be_bytes() -> None:
    wrong: list[dict[str, Any]] = [{"key": "k"}, {"value": 1}, {"headers": [("name", "text")]}]
    for arguments in wrong:
        with pytest.raises(TypeError, match=r"append\(\): the (key|value|header) must be bytes or None"):
            BatchBuilder(100).append(**arguments)


def test_batch_is_sent_once_with_keys_headers_and_timestamps(kafka_cluster: KafkaCluster) -> None:
    async def program() -> None:
        servers = kafka_cluster.bootstrap_servers
        async with KafkaProducer(bootstrap_servers=servers) as producer:
            batch = producer.create_batch()
            batch.append(key=b"k", value=b"v", timestamp=1000, headers=[("name", b"value")])
            batch.append(value=None)
            delivery = await producer.send_batch(batch, "orders", partition=1)
            (written,) = await delivery
            assert (written.partition, written.base_offset, len(delivery)) == (1, 0, 2)
            assert batch.append(value=b"late") is None
            with pytest.raises(IllegalState, match="sent before"):
                await producer.send_batch(batch, "orders", partition=1)
            with pytest.raises(TypeError, match="create_batch"):
                await producer.send_batch([b"v"], "orders", partition=1)  # type: ignore[arg-type]
            assert len(await producer.send_batch(producer.create_batch(), "orders", partition=1)) == 0
        async with KafkaConsumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
            consumer.assign([TopicPartition("orders", 1)])
            first, second = await consumer.getone(), await consumer.getone()
            assert (first.key, first.value, first.timestamp) == (b"k", b"v", 1000)
            assert list(first.headers) == [("name", b"value")]
            assert second.value is None

    run(program())


def test_producer_with_serializers_refuses_to_create_a_batch() -> None:
    async def program() -> None:
        async with KafkaProducer(bootstrap_servers="127.0.0.1:1", value_serializer=str.encode) as producer:
            with pytest.raises(IllegalState, match="call send_many"):
                producer.create_batch()

    run(program())


def test_options_of_aiokafka_are_renamed_or_ignored() -> None:
    async def program() -> None:
        with pytest.warns(IgnoredOption, match="loop has no effect: the client belongs to the event loop of"):
            producer = KafkaProducer(loop=object(), max_batch_size=77)  # type: ignore[call-arg]
        assert producer._core.options.batch_size == 77
        await producer.close()
        with pytest.warns(IgnoredOption, match="max_poll_interval_ms is the rebalance timeout"):
            consumer: Any = KafkaConsumer(group_id="g", rebalance_timeout_ms=1, loop=None)  # type: ignore[call-arg]
        await consumer.close()
        with pytest.raises(ConfigurationError, match="max_batch_size and batch_size are the same option"):
            KafkaProducer(max_batch_size=77, batch_size=78)  # type: ignore[call-arg]

    run(program())


def test_options_of_a_mapping_are_adapted_as_those_by_name(kafka_cluster: KafkaCluster) -> None:
    threads: list[int] = []

    async def program() -> None:
        servers = kafka_cluster.bootstrap_servers
        with pytest.warns(IgnoredOption, match="loop has no effect"):
            producer: Any = KafkaProducer({"bootstrap.servers": servers, "max.batch.size": 77, "loop": 1})
        assert producer._core.options.batch_size == 77
        await producer.send_and_wait("orders", b"v", partition=0)
        await producer.close()
        options = {
            "bootstrap.servers": servers,
            "group.id": "billing",
            "auto.offset.reset": "earliest",
            "default.offset.commit.callback": lambda *_: threads.append(threading.get_ident()),
        }
        async with KafkaConsumer(options, "orders") as consumer:
            await consumer.getone()
            await (await consumer.commit_async())
            while not threads:
                await consumer.poll(20)
        with pytest.raises(ConfigurationError, match="max_batch_size and batch_size are the same option"):
            KafkaProducer({"max.batch.size": 77, "batch.size": 78})

    run(program())
    assert set(threads) == {threading.get_ident()}


def test_headers_count_for_the_size_of_a_batch() -> None:
    batch = BatchBuilder(200)
    first = batch.append(value=b"v", headers=[("name", b"x" * 50), ("null", None)])
    assert first is not None
    assert first.size > len(b"v" + b"name" + b"null") + 50
    assert batch.size() == first.size
    assert batch.append(value=b"v", headers=[("n" * 150, b"")]) is None
    assert batch.append(value=b"v", headers=[("n", b"x" * 150)]) is None
    assert batch.append(value=b"v", headers=[("n", b"x")]) is not None


def test_sync_client_refuses_a_token_provider_with_a_coroutine() -> None:
    class Provider:
        async def token(self) -> str:
            return "never awaited"

    with pytest.raises(ConfigurationError, match="it is async, and this client does not await it"):
        SyncProducer(
            bootstrap_servers="127.0.0.1:1",
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="OAUTHBEARER",
            sasl_oauth_token_provider=Provider(),
        )


def test_start_registers_the_transactional_id(kafka_cluster: KafkaCluster) -> None:
    async def program() -> None:
        producer = KafkaProducer(bootstrap_servers=kafka_cluster.bootstrap_servers, transactional_id="t")
        await producer.start()
        await producer.init_transactions()  # does nothing
        await producer.start()
        async with producer.transaction():
            await producer.send("orders", b"v", partition=0)
        with pytest.raises(IllegalState, match="only once"):
            await producer.init_transactions()
        await producer.stop()

    run(program())
    kafka_cluster.wait_until(lambda: kafka_cluster.transaction("t").state == "CompleteCommit")
