"""The asyncio clients are not there yet; whoever imports one hears what serves meanwhile, and that works."""

from __future__ import annotations

import asyncio
from importlib import import_module

import pytest

from pykafka2 import KafkaConsumer, KafkaProducer
from pykafka2.testing import KafkaCluster


@pytest.mark.parametrize("name", ["KafkaProducer", "KafkaConsumer", "KafkaAdminClient"])
def test_importing_a_missing_client_names_the_alternative(name: str) -> None:
    with pytest.raises(ImportError, match=rf"no {name} yet: .* until then use pykafka2\.{name}"):
        exec(f"from pykafka2.aio import {name}")
    with pytest.raises(ImportError, match="later version"):
        getattr(import_module("pykafka2.aio"), name)


def test_any_other_name_is_simply_not_there() -> None:
    aio = import_module("pykafka2.aio")
    assert not hasattr(aio, "KafkaThing")
    with pytest.raises(ImportError, match="cannot import name 'KafkaThing'"):
        exec("from pykafka2.aio import KafkaThing")


@pytest.mark.kafka(brokers=1, topics={"orders": 1})
def test_recommended_alternative_works_in_a_coroutine(kafka_cluster: KafkaCluster) -> None:
    servers = kafka_cluster.bootstrap_servers

    async def there_and_back() -> list[bytes | None]:
        with KafkaProducer(bootstrap_servers=servers) as producer:
            await producer.send("orders", b"value")
        found: list[bytes | None] = []
        with KafkaConsumer("orders", bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
            while not found:
                polled = await asyncio.to_thread(consumer.poll, 1000)
                found += [record.value for records in polled.values() for record in records]
        return found

    assert asyncio.run(there_and_back()) == [b"value"]
