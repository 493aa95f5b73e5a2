"""A bundled cluster for the verbs that need one, and topics with records."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import count

import pytest

from pykafka2 import KafkaAdminClient, KafkaProducer, NewTopic
from pykafka2.testing import QUICK, KafkaCluster

NUMBERS = count(1)
Record = tuple[bytes | None, bytes | None]
NewTopicOf = Callable[..., str]


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    """The address of one broker, which does not create topics by itself."""
    with KafkaCluster(brokers=1, config={**QUICK, "auto.create.topics.enable": False}) as cluster:
        yield cluster.bootstrap_servers


@pytest.fixture
def new_topic(servers: str) -> NewTopicOf:
    """A function that creates a topic with (key, value) records, round robin; returns its name."""

    def create(records: Sequence[Record] = (), partitions: int = 1) -> str:
        name = f"topic-{next(NUMBERS)}"
        with KafkaAdminClient(bootstrap_servers=servers) as admin:
            admin.create_topics([NewTopic(name, partitions, 1)], wait_for_metadata=True)
        with KafkaProducer(bootstrap_servers=servers) as producer:
            for number, (key, value) in enumerate(records):
                producer.send(name, value, key=key, partition=number % partitions, timestamp_ms=1000 + number)
        return name

    return create
