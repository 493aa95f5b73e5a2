"""The asyncio admin client has every call of the sync one, with its arguments."""

from __future__ import annotations

import asyncio
import inspect

import pytest

from pykafka2 import KafkaAdminClient as SyncAdmin
from pykafka2 import NewTopic
from pykafka2.admin.outcomes import ItemsFailed
from pykafka2.aio import KafkaAdminClient, KafkaConsumer
from pykafka2.errors import ClientClosed, KafkaTimeoutError, NoBrokersAvailable, UnknownTopicOrPartition
from pykafka2.protocol.messages.topics import CreateTopicsRequest
from pykafka2.testing import KafkaCluster
from tests.aio.running import run

pytestmark = pytest.mark.kafka(brokers=1)


def calls_of(client: type) -> dict[str, inspect.Signature]:
    return {
        name: inspect.signature(method)
        for name, method in inspect.getmembers(client, inspect.isroutine)
        if not name.startswith("_") and name not in ("close", "start", "stop")
    }


def test_each_call_of_the_sync_client_is_listed_with_its_arguments() -> None:
    missing = calls_of(SyncAdmin).keys() - calls_of(KafkaAdminClient).keys()
    lines = [f"    {name} = awaited(SyncAdmin.{name})" for name in sorted(missing)]
    assert not missing, "add to pykafka2/aio/admin.py:\n" + "\n".join(lines)
    assert calls_of(SyncAdmin) == calls_of(KafkaAdminClient)


def test_calls_are_awaited_side_by_side_and_raise_the_sync_errors(kafka_cluster: KafkaCluster) -> None:
    async def program() -> None:
        async with KafkaAdminClient(bootstrap_servers=kafka_cluster.bootstrap_servers) as admin:
            await admin.create_topics([NewTopic("orders", partitions=2)])
            with pytest.raises(ItemsFailed, match="already exists"):
                await admin.create_topics(["orders"])
            topics, cluster = await asyncio.gather(admin.list_topics(), admin.describe_cluster())
            assert topics == ["orders"]
            assert [node.id for node in cluster.nodes] == [0]
        with pytest.raises(ClientClosed):
            await admin.list_topics()
        await admin.stop()

    run(program())


def test_cancelled_call_stops_waiting_and_the_client_stays_usable(kafka_cluster: KafkaCluster) -> None:
    async def program() -> None:
        async with KafkaAdminClient(bootstrap_servers=kafka_cluster.bootstrap_servers) as admin:
            kafka_cluster.controls.hold(CreateTopicsRequest)
            creating = asyncio.create_task(admin.create_topics(["held"]))
            await kafka_cluster.wait_until_async(lambda: kafka_cluster.controls.held(CreateTopicsRequest))
            creating.cancel()
            with pytest.raises(asyncio.CancelledError):
                await creating
            kafka_cluster.controls.release(CreateTopicsRequest)
            await admin.wait_for_topics(["held"])

    run(program())


def test_failed_start_closes_the_client() -> None:
    async def program() -> None:
        admin = KafkaAdminClient(
            bootstrap_servers="127.0.0.1:1", default_api_timeout_ms=300, request_timeout_ms=200
        )
        with pytest.raises(NoBrokersAvailable):
            await admin.start()
        with pytest.raises(ClientClosed):
            await admin.list_topics()

    run(program())


def test_inspection_is_not_awaited_and_shows_the_calls_in_progress(kafka_cluster: KafkaCluster) -> None:
    async def program() -> None:
        async with KafkaAdminClient(bootstrap_servers=kafka_cluster.bootstrap_servers) as admin:
            assert admin.health()["state"] == "open"
            assert admin.health()["connected"] is False
            kafka_cluster.controls.hold(CreateTopicsRequest)
            creating = asyncio.create_task(admin.create_topics(["held"]))
            await kafka_cluster.wait_until_async(lambda: kafka_cluster.controls.held(CreateTopicsRequest))
            assert admin.health()["calls"] == ["CreateTopicsRequest"]
            assert admin.metrics()["calls-in-progress"] == 1
            assert admin.explain() == "Calls in progress: CreateTopicsRequest."
            kafka_cluster.controls.release(CreateTopicsRequest)
            await creating
            assert admin.explain() == "No call is in progress."
            assert admin.metrics()["connection-count"] >= 1
        assert admin.health()["state"] == "closed"
        assert admin.explain() == "The admin client is closed."

    run(program())


def test_topics_are_waited_for(kafka_cluster: KafkaCluster) -> None:
    async def program() -> None:
        servers = kafka_cluster.bootstrap_servers
        async with KafkaAdminClient(bootstrap_servers=servers) as admin:
            waiting = asyncio.create_task(admin.wait_for_topics(["late"], timeout=30))
            await asyncio.sleep(0.05)
            assert not waiting.done()
            await admin.create_topics(["late"])
            await waiting
            with pytest.raises(UnknownTopicOrPartition, match="missing"):
                await admin.wait_for_topics(["missing"], timeout=0.3)

    run(program())


@pytest.mark.gate
def test_group_is_waited_for_until_it_has_its_members(kafka_cluster: KafkaCluster) -> None:
    async def program() -> None:
        servers = kafka_cluster.bootstrap_servers
        async with KafkaAdminClient(bootstrap_servers=servers) as admin:
            await admin.create_topics(["orders"], wait_for_metadata=True)
            with pytest.raises(KafkaTimeoutError, match="'billing' did not become Stable"):
                await admin.wait_for_group("billing", timeout=0.3)
            waiting = asyncio.create_task(admin.wait_for_group("billing", members=1, timeout=30))
            async with KafkaConsumer("orders", bootstrap_servers=servers, group_id="billing") as consumer:
                while not waiting.done():
                    await consumer.poll(timeout_ms=50)
                group = await waiting
            assert (group.state, len(group.members)) == ("Stable", 1)
            assert (await admin.wait_for_group("billing", state="Empty", timeout=30)).members == ()

    run(program())
