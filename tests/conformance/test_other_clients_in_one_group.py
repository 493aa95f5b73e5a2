"""Members of several libraries in one group, with one assignor: ours, Java's, librdkafka's, Python's others.

The member that joined first leads a classic group, so every library assigns for the others once.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from .bridge import Bridge
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
LONG_AS_A_RULE = (TOGETHER[2], TOGETHER[3], TOGETHER[8], TOGETHER[9])
"""kafka-python 3.0 gives up a join that takes longer than its poll() and begins another, which puts the group
to work again: that goes on for 2 to 45 s.  In the gate it is together with us where Java is, too."""

WITH_JAVA = [
    ("range", ["java", "pykafka2", "confluent", "kafka-python"]),
    ("range", ["pykafka2", "kafka-python", "java", "confluent"]),
    ("roundrobin", ["pykafka2", "java", "confluent"]),
    ("sticky", ["java", "pykafka2"]),
    ("sticky", ["pykafka2", "java"]),
    ("cooperative-sticky", ["java", "pykafka2", "confluent"]),
    ("cooperative-sticky", ["pykafka2", "java", "kafka-python"]),
    ("", ["pykafka2 with KIP-848", "java with KIP-848", "confluent with KIP-848"]),
]
"""With "" the coordinator assigns."""
JAVA_IN_EVERY_GATE = (WITH_JAVA[0], WITH_JAVA[6])


def _cases() -> list[Any]:
    """On the bundled broker the gate has them all; on Apache Kafka some, the others are of the long stage.

    What needs Java's jars belongs to the stage of Apache Kafka on either.
    """
    cases = []
    for kind in ("bundled", "apache"):
        for number, (assignor, libraries) in enumerate([*TOGETHER, *WITH_JAVA]):
            marks = []
            if (assignor, libraries) in WITH_JAVA:
                marks = [pytest.mark.real_kafka]
                if (assignor, libraries) not in JAVA_IN_EVERY_GATE:
                    marks.append(pytest.mark.long)
            elif (assignor, libraries) in LONG_AS_A_RULE or (
                kind == "apache" and (assignor, libraries) not in IN_EVERY_GATE
            ):
                marks = [pytest.mark.long]
            elif kind == "bundled" and number:
                marks = [pytest.mark.gate]
            words = "+".join([kind, assignor or "by the coordinator", *libraries])
            cases.append(pytest.param(kind, assignor, libraries, id=words, marks=marks))
    return cases


class Mixed:
    """The members, and what each has read."""

    def __init__(self, cluster: Cluster, topic: str, assignor: str, java: Bridge | None) -> None:
        self._cluster = cluster
        self._topic = topic
        self._assignor = assignor
        self._java = java
        self.members: list[GroupMember] = []
        self.read: list[bytes] = []

    def join(self, library: str) -> None:
        servers, topic = self._cluster.bootstrap_servers, self._topic
        group = f"{topic}-mixed"
        self.members.append(group_member(library, servers, group, topic, self._assignor, self._java))

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
    cluster: Cluster, assignor: str, libraries: list[str], request: pytest.FixtureRequest
) -> None:
    topic = cluster.new_topic(partitions=4)
    has_java = any(library.startswith("java") for library in libraries)
    mixed = Mixed(cluster, topic, assignor, request.getfixturevalue("java") if has_java else None)
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
