"""Programs after the scenarios of aiokafka's README and documentation run with the import changed.

Each one is written for aiokafka. With pykafka2 it prints the same; with aiokafka it runs in the gate, so that
the programs stay true to it.
"""

from __future__ import annotations

import asyncio
import textwrap
from typing import Any

import pytest

from pykafka2.testing import KafkaCluster, Listener

IMPORTS = {
    "from aiokafka import AIOKafkaProducer": "from pykafka2.aio import KafkaProducer as AIOKafkaProducer",
    "from aiokafka import AIOKafkaConsumer": "from pykafka2.aio import KafkaConsumer as AIOKafkaConsumer",
    "from aiokafka.admin import AIOKafkaAdminClient, NewTopic": (
        "from pykafka2 import NewTopic\nfrom pykafka2.aio import KafkaAdminClient as AIOKafkaAdminClient"
    ),
    "from aiokafka import": "from pykafka2 import",
    "from aiokafka.errors import": "from pykafka2.errors import",
}
"""Replacements for a program's text, the longest match first."""

LIBRARIES = [pytest.param("aiokafka", marks=pytest.mark.gate), "pykafka2"]

pytestmark = [
    pytest.mark.kafka(
        brokers=1,
        topics={"orders": 2, "totals": 1, "single": 1},
        config={"group.initial.rebalance.delay.ms": 0},
    ),
    pytest.mark.parametrize("library", LIBRARIES),
]


def printed(source: str, library: str, **names: Any) -> list[str]:
    """Run a program that has a coroutine function `main`; return the lines it prints."""
    source = textwrap.dedent(source)
    if library == "pykafka2":
        for theirs, ours in IMPORTS.items():
            source = source.replace(theirs, ours)
        assert "from aiokafka" not in source
    lines: list[str] = []

    def to_lines(*words: object) -> None:
        lines.append(" ".join(map(str, words)))

    program: dict[str, Any] = {**names, "print": to_lines}
    exec(source, program)
    asyncio.run(asyncio.wait_for(program["main"](), 60))
    return lines


PRODUCE = """
    from aiokafka import AIOKafkaProducer

    async def main():
        producer = AIOKafkaProducer(bootstrap_servers=SERVERS)
        await producer.start()
        try:
            metadata = await producer.send_and_wait("single", b"Super message")
            print(metadata.topic, metadata.partition, metadata.offset)
            fut = await producer.send("single", b"second", key=b"k", headers=[("h", b"v")])
            print((await fut).offset)
        finally:
            await producer.stop()
"""


def test_readme_producer(kafka_cluster: KafkaCluster, library: str) -> None:
    assert printed(PRODUCE, library, SERVERS=kafka_cluster.bootstrap_servers) == [
        "single 0 0",
        "1",
    ]
    assert kafka_cluster.log("single", 0).values() == [b"Super message", b"second"]


CONSUME = """
    from aiokafka import AIOKafkaConsumer
    from aiokafka import AIOKafkaProducer

    async def main():
        async with AIOKafkaProducer(bootstrap_servers=SERVERS) as producer:
            for number in range(3):
                await producer.send_and_wait("single", b"%d" % number, key=b"k", timestamp_ms=1000 + number)
        consumer = AIOKafkaConsumer("single", bootstrap_servers=SERVERS, auto_offset_reset="earliest")
        await consumer.start()
        try:
            async for msg in consumer:
                print(msg.topic, msg.partition, msg.offset, msg.key, msg.value, msg.timestamp)
                if msg.offset == 2:
                    break
        finally:
            await consumer.stop()
"""


def test_readme_consumer(kafka_cluster: KafkaCluster, library: str) -> None:
    assert printed(CONSUME, library, SERVERS=kafka_cluster.bootstrap_servers) == [
        f"single 0 {number} b'k' b'{number}' {1000 + number}" for number in range(3)
    ]


GROUP = """
    import asyncio
    from aiokafka import AIOKafkaConsumer
    from aiokafka import AIOKafkaProducer
    from aiokafka import ConsumerRebalanceListener

    class Listener(ConsumerRebalanceListener):
        def __init__(self, name):
            self.name = name
            self.assigned = set()

        async def on_partitions_revoked(self, revoked):
            self.assigned -= set(revoked)

        async def on_partitions_assigned(self, assigned):
            self.assigned |= set(assigned)

    async def main():
        found, listeners, tasks = [], [Listener("a"), Listener("b")], []

        async def member(listener):
            consumer = AIOKafkaConsumer(
                bootstrap_servers=SERVERS,
                group_id="my-group",
                auto_offset_reset="earliest",
                heartbeat_interval_ms=100,
            )
            consumer.subscribe(["orders"], listener=listener)
            await consumer.start()
            try:
                async for msg in consumer:
                    found.append((msg.partition, msg.value))
            finally:
                await consumer.stop()

        for listener in listeners:
            tasks.append(asyncio.create_task(member(listener)))
            while not listener.assigned:
                await asyncio.sleep(0.01)
        while [len(listener.assigned) for listener in listeners] != [1, 1]:
            await asyncio.sleep(0.01)
        async with AIOKafkaProducer(bootstrap_servers=SERVERS) as producer:
            for number in range(4):
                await producer.send_and_wait("orders", b"%d" % number, partition=number % 2)
        while len(found) < 4:
            await asyncio.sleep(0.01)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        print(sorted(found))
"""


@pytest.mark.gate
def test_group_consumer_with_a_rebalance_listener(kafka_cluster: KafkaCluster, library: str) -> None:
    assert printed(GROUP, library, SERVERS=kafka_cluster.bootstrap_servers) == [
        "[(0, b'0'), (0, b'2'), (1, b'1'), (1, b'3')]"
    ]


TRANSACTIONS = """
    import collections
    from aiokafka import AIOKafkaConsumer
    from aiokafka import AIOKafkaProducer
    from aiokafka import TopicPartition

    async def main():
        async with AIOKafkaProducer(bootstrap_servers=SERVERS) as producer:
            for number in range(10):
                await producer.send_and_wait("orders", b"%d" % number, partition=number % 2)
        consumer = AIOKafkaConsumer(
            "orders",
            bootstrap_servers=SERVERS,
            enable_auto_commit=False,
            group_id="batcher",
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            fetch_max_wait_ms=20,
        )
        await consumer.start()
        producer = AIOKafkaProducer(bootstrap_servers=SERVERS, transactional_id="batcher-1")
        await producer.start()
        try:
            read = 0
            while read < 10:
                batch = await consumer.getmany(timeout_ms=5000, max_records=4)
                async with producer.transaction():
                    offsets, total = {}, 0
                    for tp, msgs in batch.items():
                        total += sum(int(msg.value) for msg in msgs)
                        read += len(msgs)
                        offsets[tp] = msgs[-1].offset + 1
                    await producer.send("totals", b"%d" % total)
                    await producer.send_offsets_to_transaction(offsets, "batcher")
            try:
                async with producer.transaction():
                    await producer.send("totals", b"1000")
                    raise ValueError("not this one")
            except ValueError as error:
                print(error)
            await producer.begin_transaction()
            await producer.send("totals", b"2000")
            await producer.abort_transaction()
            await producer.begin_transaction()
            await producer.send("totals", b"0")
            await producer.commit_transaction()
            print([await consumer.committed(TopicPartition("orders", n)) for n in range(2)])
        finally:
            await consumer.stop()
            await producer.stop()
        async with AIOKafkaConsumer(
            "totals",
            bootstrap_servers=SERVERS,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
        ) as totals:
            sum_of_all, last = 0, None
            while last != 0:
                last = int((await totals.getone()).value)
                sum_of_all += last
            print(sum_of_all)
"""


@pytest.mark.gate
def test_transactional_consume_process_produce(kafka_cluster: KafkaCluster, library: str) -> None:
    assert printed(TRANSACTIONS, library, SERVERS=kafka_cluster.bootstrap_servers) == [
        "not this one",
        "[5, 5]",
        "45",
    ]
    kafka_cluster.wait_until(lambda: kafka_cluster.transaction("batcher-1").state == "CompleteCommit")


MANUAL_COMMIT = """
    from aiokafka import AIOKafkaConsumer
    from aiokafka import AIOKafkaProducer
    from aiokafka import TopicPartition

    async def main():
        async with AIOKafkaProducer(bootstrap_servers=SERVERS) as producer:
            await producer.send("single", b"0")
            for number in range(1, 6):
                await producer.send("single", b"%d" % number)
        tp = TopicPartition("single", 0)

        def new():
            return AIOKafkaConsumer(
                "single",
                bootstrap_servers=SERVERS,
                group_id="manual",
                enable_auto_commit=False,
                auto_offset_reset="earliest",
                fetch_max_wait_ms=20,
            )

        async with new() as consumer:
            for _ in range(2):
                msg = await consumer.getone()
            await consumer.commit()
            print(await consumer.committed(tp))
            msg = await consumer.getone()
            await consumer.commit({tp: msg.offset + 1})
            msg = await consumer.getone()
            await consumer.commit({tp: (msg.offset + 1, "some metadata")})
            print(await consumer.committed(tp), await consumer.position(tp))
            await consumer.getone()  # not committed
        async with new() as consumer:
            msg = await consumer.getone()
            print(msg.value)
            await consumer.seek_to_committed(tp)
            print((await consumer.getone(tp)).value)
"""


@pytest.mark.gate
def test_manual_commit(kafka_cluster: KafkaCluster, library: str) -> None:
    assert printed(MANUAL_COMMIT, library, SERVERS=kafka_cluster.bootstrap_servers) == [
        "2",
        "4 4",
        "b'4'",
        "b'4'",
    ]


BATCHES = """
    from aiokafka import AIOKafkaConsumer
    from aiokafka import AIOKafkaProducer

    async def main():
        producer = AIOKafkaProducer(bootstrap_servers=SERVERS, max_batch_size=2000)
        await producer.start()
        batch, sent = producer.create_batch(), []
        number = 0
        while number < 100:
            metadata = batch.append(key=None, value=b"%03d" % number + bytes(97), timestamp=None)
            if metadata is None:
                partitions = await producer.partitions_for("single")
                sent.append(batch.record_count())
                await producer.send_batch(batch, "single", partition=min(partitions))
                batch = producer.create_batch()
                continue
            number += 1
        sent.append(batch.record_count())
        await (await producer.send_batch(batch, "single", partition=0))
        await producer.stop()
        print(sum(sent), max(sent) < 20)
        consumer = AIOKafkaConsumer(
            "single", bootstrap_servers=SERVERS, auto_offset_reset="earliest", max_poll_records=30
        )
        await consumer.start()
        try:
            found = []
            while len(found) < 100:
                result = await consumer.getmany(timeout_ms=10 * 1000)
                for tp, messages in result.items():
                    assert 0 < len(messages) <= 30
                    found += [int(message.value[:3]) for message in messages]
            print(found == list(range(100)))
        finally:
            await consumer.stop()
"""


def test_batch_produce_and_batch_read(kafka_cluster: KafkaCluster, library: str) -> None:
    assert printed(BATCHES, library, SERVERS=kafka_cluster.bootstrap_servers) == ["100 True", "True"]


SEEK = """
    from aiokafka import AIOKafkaConsumer
    from aiokafka import AIOKafkaProducer
    from aiokafka import TopicPartition

    async def main():
        async with AIOKafkaProducer(bootstrap_servers=SERVERS) as producer:
            for number in range(10):
                await producer.send_and_wait(
                    "orders", b"%d" % number, partition=number % 2, timestamp_ms=1_700_000_000_000 + number
                )
        tp, other = TopicPartition("orders", 0), TopicPartition("orders", 1)
        consumer = AIOKafkaConsumer(bootstrap_servers=SERVERS, fetch_max_wait_ms=20)
        await consumer.start()
        try:
            consumer.assign([tp, other])
            consumer.seek(tp, 3)
            print((await consumer.getone(tp)).value)
            await consumer.seek_to_beginning(tp)
            print((await consumer.getone(tp)).value, await consumer.position(tp))
            await consumer.seek_to_end(tp, other)
            print(await consumer.position(tp), await consumer.position(other))
            print(sorted(consumer.assignment()) == [tp, other], consumer.paused())
            offsets = await consumer.offsets_for_times({tp: 1_700_000_000_003, other: 1_800_000_000_000})
            print(offsets[tp].offset, offsets[tp].timestamp, offsets[other])
            print(await consumer.beginning_offsets([tp]) == {tp: 0})
            print(await consumer.end_offsets([tp]) == {tp: 5})
            consumer.seek(tp, offsets[tp].offset)
            consumer.seek(other, 0)
            consumer.pause(other)
            result = await consumer.getmany(timeout_ms=5000)
            print([msg.value for msg in result[tp]], other in result)
            consumer.resume(other)
            result = await consumer.getmany(other, timeout_ms=5000, max_records=2)
            print([msg.value for msg in result[other]])
            print(consumer.highwater(tp), sorted(await consumer.topics())[:1])
        finally:
            await consumer.stop()
"""


@pytest.mark.gate
def test_seek_pause_and_offsets(kafka_cluster: KafkaCluster, library: str) -> None:
    assert printed(SEEK, library, SERVERS=kafka_cluster.bootstrap_servers) == [
        "b'6'",
        "b'0' 1",
        "5 5",
        "True set()",
        "2 1700000000004 None",
        "True",
        "True",
        "[b'4', b'6', b'8'] False",
        "[b'1', b'3']",
        "5 ['orders']",
    ]


SERIALIZERS = """
    import json
    from aiokafka import AIOKafkaConsumer
    from aiokafka import AIOKafkaProducer

    def partitioner(key, all_partitions, available_partitions):
        return max(all_partitions) if key == b"vip" else min(all_partitions)

    async def main():
        producer = AIOKafkaProducer(
            bootstrap_servers=SERVERS,
            value_serializer=lambda value: json.dumps(value).encode(),
            key_serializer=lambda key: key.encode(),
            compression_type="gzip",
            partitioner=partitioner,
            enable_idempotence=True,
            acks="all",
            linger_ms=5,
            request_timeout_ms=10_000,
        )
        async with producer:
            for key in ("vip", "other"):
                metadata = await producer.send_and_wait("orders", {"key": key}, key=key)
                print(key, metadata.partition)
        consumer = AIOKafkaConsumer(
            "orders",
            bootstrap_servers=SERVERS,
            value_deserializer=lambda value: json.loads(value),
            key_deserializer=lambda key: key.decode() if key else "",
            auto_offset_reset="earliest",
        )
        async with consumer:
            found = {}
            while len(found) < 2:
                msg = await consumer.getone()
                found[msg.partition] = msg.key, msg.value
            print(sorted(found.items()))
"""


def test_serializers_compression_and_a_custom_partitioner(kafka_cluster: KafkaCluster, library: str) -> None:
    assert printed(SERIALIZERS, library, SERVERS=kafka_cluster.bootstrap_servers) == [
        "vip 1",
        "other 0",
        "[(0, ('other', {'key': 'other'})), (1, ('vip', {'key': 'vip'}))]",
    ]


ERRORS = """
    import asyncio
    from aiokafka import AIOKafkaConsumer
    from aiokafka import AIOKafkaProducer
    from aiokafka import TopicPartition
    from aiokafka.errors import ConsumerStoppedError, IllegalStateError, KafkaError
    from aiokafka.errors import OffsetOutOfRangeError

    async def main():
        async with AIOKafkaProducer(bootstrap_servers=SERVERS, max_request_size=1000) as producer:
            try:
                await producer.send_and_wait("single", bytes(2000))
            except KafkaError:
                print("too large")
        consumer = AIOKafkaConsumer(bootstrap_servers=SERVERS, auto_offset_reset="none")
        await consumer.start()
        tp = TopicPartition("single", 0)
        consumer.assign([tp])
        consumer.seek(tp, 77)
        try:
            await consumer.getone()
        except OffsetOutOfRangeError:
            print("out of range")
        try:
            consumer.seek(TopicPartition("single", 9), 1)
        except IllegalStateError:
            print("not assigned")
        consumer.seek(tp, 0)
        pending = asyncio.create_task(consumer.getone())
        await asyncio.sleep(0.05)
        await consumer.stop()
        try:
            await pending
        except ConsumerStoppedError:
            print("stopped")
"""


def test_errors_have_aiokafkas_names(kafka_cluster: KafkaCluster, library: str) -> None:
    assert printed(ERRORS, library, SERVERS=kafka_cluster.bootstrap_servers) == [
        "too large",
        "out of range",
        "not assigned",
        "stopped",
    ]


SECURITY = """
    import ssl
    from aiokafka import AIOKafkaConsumer
    from aiokafka import AIOKafkaProducer

    async def main():
        context = ssl.create_default_context(cafile=CA_FILE)
        login = {"sasl_plain_username": "ann", "sasl_plain_password": "ann-secret"}
        for protocol, options in (
            ("SSL", {"ssl_context": context}),
            ("SASL_PLAINTEXT", {"sasl_mechanism": "PLAIN", **login}),
            ("SASL_SSL", {"sasl_mechanism": "SCRAM-SHA-256", "ssl_context": context, **login}),
        ):
            options = {"bootstrap_servers": SERVERS[protocol], "security_protocol": protocol, **options}
            producer = AIOKafkaProducer(**options)
            await producer.start()
            await producer.send_and_wait("single", protocol.encode())
            await producer.stop()
            consumer = AIOKafkaConsumer("single", auto_offset_reset="earliest", **options)
            async with consumer:
                async for msg in consumer:
                    if msg.value == protocol.encode():
                        print(msg.value)
                        break
"""


@pytest.mark.gate
def test_tls_and_sasl(library: str) -> None:
    protocols = ("SSL", "SASL_PLAINTEXT", "SASL_SSL")
    listeners = dict.fromkeys(protocols)
    with KafkaCluster(1, {"single": 1}, listeners=listeners, users={"ann": "ann-secret"}) as cluster:
        servers = {protocol: cluster.bootstrap_servers_of(protocol) for protocol in protocols}
        assert printed(SECURITY, library, SERVERS=servers, CA_FILE=cluster.ca_file) == [
            "b'SSL'",
            "b'SASL_PLAINTEXT'",
            "b'SASL_SSL'",
        ]


OAUTH = """
    from aiokafka import AIOKafkaConsumer
    from aiokafka import AIOKafkaProducer

    class CustomTokenProvider(AbstractTokenProvider):
        async def token(self):
            return await new_token()

    async def main():
        options = {
            "bootstrap_servers": SERVERS,
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "OAUTHBEARER",
            "sasl_oauth_token_provider": CustomTokenProvider(),
        }
        async with AIOKafkaProducer(**options) as producer:
            await producer.send_and_wait("single", b"by token")
        async with AIOKafkaConsumer("single", auto_offset_reset="earliest", **options) as consumer:
            print((await consumer.getone()).value)
"""


def test_oauthbearer_with_a_coroutine(library: str) -> None:
    listeners = {"SASL_PLAINTEXT": Listener(mechanisms=["OAUTHBEARER"])}
    with KafkaCluster(1, {"single": 1}, listeners=listeners, users={"ann": "ann-secret"}) as cluster:

        async def new_token() -> str:
            await asyncio.sleep(0)
            return cluster.token("ann")

        names = {"new_token": new_token, "AbstractTokenProvider": object}
        if library == "aiokafka":
            from aiokafka.abc import AbstractTokenProvider

            names["AbstractTokenProvider"] = AbstractTokenProvider
        servers = cluster.bootstrap_servers_of("SASL_PLAINTEXT")
        assert printed(OAUTH, library, SERVERS=servers, **names) == ["b'by token'"]


ADMIN = """
    from aiokafka.admin import AIOKafkaAdminClient, NewTopic

    async def main():
        admin = AIOKafkaAdminClient(bootstrap_servers=SERVERS)
        await admin.start()
        try:
            await admin.create_topics([NewTopic("audit", num_partitions=2, replication_factor=1)])
            print("audit" in await admin.list_topics())
            await admin.delete_topics(["audit"])
            print("audit" in await admin.list_topics())
        finally:
            await admin.close()
"""


def test_admin_client(kafka_cluster: KafkaCluster, library: str) -> None:
    assert printed(ADMIN, library, SERVERS=kafka_cluster.bootstrap_servers) == ["True", "False"]
