"""The asyncio admin client has every call of the sync one, with its arguments."""

from __future__ import annotations

import asyncio
import inspect

import pytest

from pykafka2 import KafkaAdminClient as SyncAdmin
from pykafka2 import NewTopic
from pykafka2.admin.outcomes import ItemsFailed
from pykafka2.aio import KafkaAdminClient
from pykafka2.errors import ClientClosed, NoBrokersAvailable
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
