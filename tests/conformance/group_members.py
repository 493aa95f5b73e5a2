"""Our members of groups, with the calls of their listeners and the records that they read."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from pykafka2 import ConsumerRebalanceListener, KafkaConsumer, KafkaProducer

from .brokers import Cluster

TIMEOUT = 60.0
EVERYTHING = {0, 1, 2, 3}


class ListeningMember(ConsumerRebalanceListener):
    """One consumer, the calls of its listener, and the records that it read."""

    consumer: KafkaConsumer

    def __init__(self) -> None:
        self.calls: list[tuple[str, list[int]]] = []
        self.read: list[bytes] = []

    def on_partitions_assigned(self, assigned: Any) -> None:
        self.calls.append(("assigned", [one.partition for one in assigned]))

    def on_partitions_revoked(self, revoked: Any) -> None:
        self.calls.append(("revoked", [one.partition for one in revoked]))

    def on_partitions_lost(self, lost: Any) -> None:
        self.calls.append(("lost", [one.partition for one in lost]))

    @property
    def owned(self) -> set[int]:
        return {one.partition for one in self.consumer.assignment()}

    def poll(self) -> None:
        for records in self.consumer.poll(timeout_ms=50).values():
            self.read += [record.value for record in records]


def poll_until(holds: Callable[[], object], *members: ListeningMember) -> None:
    deadline = time.monotonic() + TIMEOUT
    while not holds():
        assert time.monotonic() < deadline, [one.consumer.explain() for one in members]
        for member in members:
            member.poll()


def all_owned(*members: ListeningMember) -> bool:
    """Whether each partition has one owner and each member owns a partition."""
    owned = [number for member in members for number in member.owned]
    return sorted(owned) == sorted(EVERYTHING) and all(member.owned for member in members)


def produce(cluster: Cluster, topic: str, name: str) -> list[bytes]:
    values = [f"{name}-{number}".encode() for number in range(40)]
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for number, value in enumerate(values):
            producer.send(topic, value, partition=number % 4)
    return values
