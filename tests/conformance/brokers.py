"""The clusters that the same tests run on: the bundled broker, and Apache Kafka."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any

import attrs

from pykafka2.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.broker.support.raw_client import RawClient

NUMBERS = count(1)
TIMEOUT = 60.0


@attrs.frozen
class Cluster:
    """The broker that a test produces to and consumes from; librdkafka's admin client creates the topics, on
    both kinds alike.
    """

    kind: str
    bootstrap_servers: str
    replicas: int

    def new_topic(self, partitions: int = 1, **configs: str) -> str:
        """Create a topic under a name of its own; option names with underscores.  Returns its name."""
        from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

        name = f"conformance-{next(NUMBERS)}"
        topic = NewTopic(
            name,
            num_partitions=partitions,
            replication_factor=self.replicas,
            config={option.replace("_", "."): value for option, value in configs.items()},
        )
        admin: Any = AdminClient({"bootstrap.servers": self.bootstrap_servers})
        for future in admin.create_topics([topic], request_timeout=TIMEOUT).values():
            future.result(TIMEOUT)
        self.await_topic(name, partitions)
        return name

    def await_topic(self, name: str, partitions: int) -> None:
        """Wait until each broker knows so many partitions and their leaders."""
        for address in self.bootstrap_servers.split(","):
            with RawClient(address) as wire:
                eventually(
                    partial(_has_leaders, wire, name, partitions), f"{name} has no leaders, by {address}"
                )


def eventually(condition: Callable[[], bool], otherwise: str = "it did not come true") -> None:
    """Wait until it holds: a broker learns a moment later of what the controller has done."""
    deadline = time.monotonic() + TIMEOUT
    while not condition():
        assert time.monotonic() < deadline, otherwise
        time.sleep(0.01)


def await_deletion(bootstrap_servers: str, name: str) -> None:
    """Wait until no broker has the deleted topic in its metadata."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
    for address in bootstrap_servers.split(","):
        with RawClient(address) as wire:
            eventually(
                lambda wire=wire: not wire.call(request, 12).topics[0].partitions,  # type: ignore[misc]
                f"{address} still has {name}",
            )


def _has_leaders(wire: RawClient, name: str, partitions: int) -> bool:
    """Whether this broker knows it: some learn of a topic after others have reported it to clients."""
    (topic,) = wire.call(MetadataRequest(topics=[MetadataRequestTopic(name=name)]), 12).topics
    return len(topic.partitions) == partitions and all(one.leader_id >= 0 for one in topic.partitions)
