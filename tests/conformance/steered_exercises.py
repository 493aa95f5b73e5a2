"""aiokafka and confluent-kafka while a test's controls take brokers and connections away from them.

Bundled cluster only: each exercise gets a `KafkaCluster` of three brokers.  What a client promises has to
hold: an idempotent producer's records are there once and in order, a group's member goes on from its commits,
a transaction is there wholly or not at all.  `python_clients.py` runs them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from pykafka2.errors import NotEnoughReplicas, NotLeaderOrFollower

if TYPE_CHECKING:
    from pykafka2.testing import KafkaCluster

COUNT = 300
PATIENCE = 40.0
CONFIG = {"min.insync.replicas": 2, "group.initial.rebalance.delay.ms": 0}


def steps(cluster: KafkaCluster, topic: str) -> dict[int, Callable[[], object]]:
    """Faults of the cluster, by the number of records sent before."""
    controls = cluster.controls
    leader = cluster.partition(topic, 0).leader
    other = (leader + 1) % 3
    return {
        20: lambda: controls.lose_reply("Produce", times=2),
        60: lambda: controls.disconnect_next("Produce", times=2),
        100: lambda: controls.crash_broker(leader),
        150: lambda: controls.restart_broker(leader),
        180: lambda: controls.fail_next("Produce", NotLeaderOrFollower, times=3),
        200: lambda: controls.fail_next("Produce", NotEnoughReplicas, times=3),
        220: lambda: controls.stop_broker(other),
        260: lambda: controls.restart_broker(other),
        280: lambda: controls.lose_reply("Produce", times=1),
    }


def aiokafka_sends_once_and_in_order(cluster: KafkaCluster) -> None:
    from aiokafka import AIOKafkaProducer

    async def send() -> None:
        befalling = steps(cluster, "t")
        loop = asyncio.get_running_loop()
        async with AIOKafkaProducer(
            bootstrap_servers=cluster.bootstrap_servers, enable_idempotence=True, retry_backoff_ms=50
        ) as producer:
            sent = []
            for n in range(COUNT):
                if n in befalling:
                    await loop.run_in_executor(None, befalling[n])
                sent.append(await producer.send("t", b"%d" % n, partition=0))
                await asyncio.sleep(0.002)
            await asyncio.wait_for(asyncio.gather(*sent), PATIENCE)

    asyncio.run(send())
    _is_once_and_in_order(cluster)


def confluent_sends_once_and_in_order(cluster: KafkaCluster) -> None:
    from confluent_kafka import Producer

    befalling, failures = steps(cluster, "t"), []
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "enable.idempotence": True, "linger.ms": 1}
    )
    for n in range(COUNT):
        if n in befalling:
            befalling[n]()
        producer.produce(
            "t",
            b"%d" % n,
            partition=0,
            on_delivery=lambda error, _: failures.append(error) if error else None,
        )
        producer.poll(0.002)
    assert producer.flush(PATIENCE) == 0
    assert not failures
    _is_once_and_in_order(cluster)


def _is_once_and_in_order(cluster: KafkaCluster) -> None:
    assert [int(value) for value in cluster.log("t", 0).values() if value] == list(range(COUNT))


def aiokafka_transactions_are_whole(cluster: KafkaCluster) -> None:
    """The coordinator crashes with a transaction open; later another one's EndTxn loses its reply."""
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

    async def work() -> list[int]:
        loop = asyncio.get_running_loop()
        servers = cluster.bootstrap_servers
        async with AIOKafkaProducer(bootstrap_servers=servers, transactional_id="tx") as producer:
            for n in range(6):
                await producer.begin_transaction()
                for part in range(2):
                    await producer.send_and_wait("t", b"%d" % n, partition=part)
                if n == 2:
                    down = cluster.coordinator("tx", "transaction")
                    await loop.run_in_executor(None, cluster.controls.crash_broker, down)
                if n == 4:
                    await loop.run_in_executor(None, cluster.controls.restart_broker, down)
                    cluster.controls.lose_reply("EndTxn")
                await (producer.abort_transaction() if n % 3 == 1 else producer.commit_transaction())
        found: list[int] = []
        async with AIOKafkaConsumer(
            "t", bootstrap_servers=servers, auto_offset_reset="earliest", isolation_level="read_committed"
        ) as consumer:
            deadline = time.monotonic() + PATIENCE
            while len(found) < 8:
                assert time.monotonic() < deadline, found
                for records in (await consumer.getmany(timeout_ms=200)).values():
                    found += [int(one.value) for one in records]
        return found

    assert sorted(asyncio.run(work())) == [0, 0, 2, 2, 3, 3, 5, 5]


def confluent_member_of_a_new_group_goes_on(cluster: KafkaCluster) -> None:
    """KIP-848: its coordinator crashes, then every connection is reset."""
    from confluent_kafka import Consumer, Producer

    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 1})
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "g",
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe(["t"])

    def forty_more(name: str) -> None:
        for n in range(40):
            producer.produce("t", f"{name}-{n}".encode(), partition=n % 2)
        assert producer.flush(PATIENCE) == 0
        found: list[bytes] = []
        deadline = time.monotonic() + PATIENCE
        while len(found) < 40:
            assert time.monotonic() < deadline, f"{len(found)} of {name}"
            found += [one.value() for one in consumer.consume(100, timeout=0.1) if one.error() is None]
        assert sorted(found) == sorted(f"{name}-{n}".encode() for n in range(40))
        consumer.commit(asynchronous=False)

    try:
        forty_more("first")
        down = cluster.coordinator("g")
        cluster.controls.crash_broker(down)
        forty_more("second")
        cluster.controls.restart_broker(down)
        cluster.controls.disconnect_next("Fetch", times=3)
        cluster.controls.disconnect_next("ConsumerGroupHeartbeat", times=2)
        forty_more("third")
        assert sorted(cluster.group("g").offsets.values()) == [60, 60]
    finally:
        consumer.close()


@contextmanager
def certificates() -> Iterator[tuple[Path, Path]]:
    """Files of an authority, and of a broker's certificate with its key."""
    import trustme

    with TemporaryDirectory() as name:
        authority, broker = Path(name, "ca.pem"), Path(name, "broker.pem")
        issuer = trustme.CA()
        issuer.cert_pem.write_to_path(str(authority))
        issuer.issue_cert("localhost", "127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(broker))
        yield authority, broker


def both_speak_tls(_: KafkaCluster) -> None:
    import ssl

    from aiokafka import AIOKafkaConsumer
    from confluent_kafka import Producer

    from pykafka2.testing import KafkaCluster

    async def read(servers: str, context: ssl.SSLContext) -> Any:
        async with AIOKafkaConsumer(
            "t",
            bootstrap_servers=servers,
            security_protocol="SSL",
            ssl_context=context,
            auto_offset_reset="earliest",
        ) as consumer:
            return await asyncio.wait_for(consumer.getone(), PATIENCE)

    with (
        certificates() as (authority, broker),
        KafkaCluster(brokers=2, topics={"t": 1}, tls={"cert_file": str(broker)}) as cluster,
    ):
        options = {"security.protocol": "SSL", "ssl.ca.location": str(authority)}
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, **options})
        producer.produce("t", b"secret" * 100_000, partition=0)
        assert producer.flush(PATIENCE) == 0
        context = ssl.create_default_context(cafile=str(authority))
        assert asyncio.run(read(cluster.bootstrap_servers, context)).value == b"secret" * 100_000


EXERCISES: dict[str, Callable[[KafkaCluster], None]] = {
    exercise.__name__.replace("_", " "): exercise
    for exercise in (
        aiokafka_sends_once_and_in_order,
        confluent_sends_once_and_in_order,
        aiokafka_transactions_are_whole,
        confluent_member_of_a_new_group_goes_on,
        both_speak_tls,
    )
}
