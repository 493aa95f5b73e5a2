"""Replicas are described, placed and moved between two log directories as by Apache Kafka (KIP-113)."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from pykafka2.protocol.messages.log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
)
from pykafka2.protocol.messages.topics import CreateTopicsRequest
from pykafka2.testing import KafkaCluster
from tests.broker.support.admin_requests import topic_of
from tests.broker.support.batches import batch
from tests.broker.support.data_requests import produce
from tests.broker.support.raw_client import RawClient

from .brokers import eventually
from .maven import KafkaJars
from .real_kafka import RealKafka

OTHER = {"a": "b", "b": "a"}
Answers = list[tuple[str, Any]]


class Story:
    """One broker whose log directories are "a" and "b" under a folder."""

    def __init__(self, wire: RawClient, folder: str) -> None:
        self.wire = wire
        self.folder = folder
        self.answers: Answers = []

    def places(self, topics: list[DescribableLogDirTopic] | None = None) -> dict[tuple[str, int], str]:
        """The directory of each replica that has one, and is not being moved."""
        response = self.wire.call(DescribeLogDirsRequest(topics=topics), 4)
        assert sorted(one.log_dir for one in response.results) == [f"{self.folder}/a", f"{self.folder}/b"]
        assert not any(one.error_code for one in response.results)
        found: dict[tuple[str, int], str] = {}
        for directory in response.results:
            for topic in directory.topics:
                for one in topic.partitions:
                    if not one.is_future_key:
                        found[topic.name, one.partition_index] = directory.log_dir[len(self.folder) + 1 :]
        return found

    def move(self, label: str, *moves: tuple[str, str, int]) -> None:
        dirs = [
            AlterReplicaLogDir(
                path=f"{self.folder}/{path}", topics=[AlterReplicaLogDirTopic(name=name, partitions=[number])]
            )
            for path, name, number in moves
        ]
        results = self.wire.call(AlterReplicaLogDirsRequest(dirs=dirs), 2).results
        codes = [
            (one.topic_name, part.partition_index, part.error_code)
            for one in results
            for part in one.partitions
        ]
        self.answers.append((label, sorted(codes)))

    def create(self, name: str, partitions: int) -> None:
        request = CreateTopicsRequest(topics=[topic_of(name, partitions)], timeout_ms=9000)
        assert self.wire.call(request, 7).topics[0].error_code == 0
        eventually(lambda: sum(topic == name for topic, _ in self.places()) == partitions)


def answers_of(address: str, folder: str) -> Answers:
    """The response of the broker at an address."""
    with RawClient(address) as wire:
        story = Story(wire, folder)
        answers = story.answers
        answers.append(("nothing yet", story.places()))
        story.create("t", 4)
        eventually(lambda: produce(wire, "t", 0, batch(), acks=1).error_code == 0)
        before = story.places()
        answers.append(("spread", sorted(before.values())))
        first = before["t", 0]
        story.move("to where it is", (first, "t", 0))
        story.move("to the other one", (OTHER[first], "t", 0))
        eventually(lambda: story.places().get(("t", 0)) == OTHER[first])
        after = story.places()
        answers.append(
            ("the others stay", all(after["t", number] == before["t", number] for number in (1, 2, 3)))
        )
        story.move("to an unknown one", ("c", "t", 0))
        story.move("an unknown partition, and a later topic", ("a", "t", 7), ("b", "later", 0))
        story.move("one partition to both", ("a", "t", 1), ("b", "t", 1))
        time.sleep(0.1)
        story.create("later", 1)
        answers.append(
            ("where it was wanted", story.places([DescribableLogDirTopic(topic="later", partitions=[0])]))
        )
        answers.append(("no topics", story.places([])))
        answers.append(
            ("an unknown topic", story.places([DescribableLogDirTopic(topic="no", partitions=[0])]))
        )
        return answers


EXPECTED: Answers = [
    ("nothing yet", {}),
    ("spread", ["a", "a", "b", "b"]),
    ("to where it is", [("t", 0, 0)]),
    ("to the other one", [("t", 0, 0)]),
    ("the others stay", True),
    ("to an unknown one", [("t", 0, 57)]),
    ("an unknown partition, and a later topic", [("later", 0, 3), ("t", 7, 3)]),
    ("one partition to both", [("t", 1, 0)]),
    ("where it was wanted", {("later", 0): "b"}),
    ("no topics", {}),
    ("an unknown topic", {}),
]


def test_two_log_directories_of_the_bundled_broker() -> None:
    with KafkaCluster(1, config={"log.dirs": "/x/a,/x/b"}) as cluster:
        assert answers_of(cluster.bootstrap_servers, "/x") == EXPECTED


@pytest.mark.long
def test_two_log_directories_of_apache_kafka(jars: KafkaJars, tmp_path: Path) -> None:
    """Start a server of its own."""
    extra = f"log.dirs={tmp_path}/a,{tmp_path}/b\nmetadata.log.dir={tmp_path}/metadata\n"
    with RealKafka(jars, extra=extra) as kafka:
        assert answers_of(kafka.bootstrap_servers, str(tmp_path)) == EXPECTED
