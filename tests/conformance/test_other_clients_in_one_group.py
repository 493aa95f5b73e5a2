"""Members of different libraries in one group, with one assignor: ours, librdkafka's, Python's others.

Whoever joined first leads, so every library assigns for the others once.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from .brokers import Cluster
from .group_peers import GroupMember, group_member
from .test_other_clients import write_everywhere

TIMEOUT = 60.0
PARTITIONS = {0, 1, 2, 3}

TOGETHER = [
    ("range", ["pykafka2", "confluent"]),
    ("range", ["confluent", "pykafka2"]),
    ("range", ["kafka-python", "pykafka2"]),
    ("range", ["pykafka2", "kafka-python", "confluent"]),
    ("roundrobin", ["aiokafka", "pykafka2"]),
    ("roundrobin", ["pykafka2", "aiokafka"]),
    ("cooperative-sticky", ["pykafka2", "confluent"]),
    ("cooperative-sticky", ["confluent", "pykafka2"]),
    ("cooperative-sticky", ["kafka-python", "pykafka2"]),
    ("cooperative-sticky", ["pykafka2", "kafka-python", "confluent"]),
]
IN_EVERY_GATE = (TOGETHER[0], TOGETHER[6])


def _cases() -> list[Any]:
    """On the bundled broker the gate has them all; on Apache Kafka two, the others are of the long stage."""
    cases = []
    for kind, mark in (("bundled", pytest.mark.gate), ("apache", pytest.mark.long)):
        for number, (assignor, libraries) in enumerate(TOGETHER):
            is_spared = number == 0 if kind == "bundled" else (assignor, libraries) in IN_EVERY_GATE
            words = "+".join([kind, assignor, *libraries])
            cases.append(pytest.param(kind, assignor, libraries, id=words, marks=() if is_spared else mark))
    return cases


class Mixed:
    """The members, and what each has read."""

    def __init__(self, cluster: Cluster, topic: str, assignor: str) -> None:
        self._cluster = cluster
        self._topic = topic
        self._assignor = assignor
        self.members: list[GroupMember] = []
        self.read: list[bytes] = []

    def join(self, library: str) -> None:
        servers, topic = self._cluster.bootstrap_servers, self._topic
        self.members.append(group_member(library, servers, f"{topic}-mixed", topic, self._assignor))

    def poll_until(self, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + TIMEOUT
        while not holds():
            assert time.monotonic() < deadline, [sorted(member.owned()) for member in self.members]
            for member in self.members:
                self.read += member.poll(0.05)

    def is_shared_out(self) -> bool:
        owned = [number for member in self.members for number in member.owned()]
        return sorted(owned) == sorted(PARTITIONS) and all(member.owned() for member in self.members)

    def commit(self) -> None:
        """Each commits what it has read; one that finds the group rebalancing polls, and tries again."""
        deadline = time.monotonic() + TIMEOUT
        todo = list(self.members)
        while todo:
            try:
                todo[0].commit()
            except Exception as error:
                if "rebalanc" not in repr(error).lower() or time.monotonic() > deadline:
                    raise
                for member in self.members:
                    self.read += member.poll(0.05)
            else:
                todo.pop(0)

    def close(self) -> None:
        while self.members:
            self.members.pop().close()


@pytest.mark.parametrize(("cluster", "assignor", "libraries"), _cases(), indirect=["cluster"])
def test_members_of_several_libraries_share_one_group(
    cluster: Cluster, assignor: str, libraries: list[str]
) -> None:
    topic = cluster.new_topic(partitions=4)
    mixed = Mixed(cluster, topic, assignor)
    try:
        values = write(cluster, topic, "first")
        for library in libraries:
            mixed.join(library)
            mixed.poll_until(mixed.is_shared_out)
            mixed.poll_until(lambda: set(values) <= set(mixed.read))
            mixed.commit()
        mixed.read.clear()
        more = write(cluster, topic, "second")
        mixed.poll_until(lambda: set(more) <= set(mixed.read))
        assert set(mixed.read) == set(more), "what was committed is not read again"
        mixed.commit()

        leaving = mixed.members.pop(0)
        leaving.close()
        mixed.poll_until(mixed.is_shared_out)
        mixed.read.clear()
        more = write(cluster, topic, "third")
        mixed.poll_until(lambda: set(more) <= set(mixed.read))
        assert set(mixed.read) == set(more), "from where the one that left has committed"
    finally:
        mixed.close()


def write(cluster: Cluster, topic: str, name: str) -> list[bytes]:
    values = [f"{name}-{number}".encode() for number in range(40)]
    write_everywhere(cluster, topic, values)
    return values
