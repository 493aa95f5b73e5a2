"""One of two log directories of a broker fails: the answers of both brokers are Apache Kafka's (KIP-858)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pykafka2.protocol.messages.log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
    DescribeLogDirsRequest,
)
from pykafka2.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from pykafka2.protocol.messages.offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from pykafka2.protocol.messages.topics import CreateTopicsRequest
from pykafka2.testing import KafkaCluster
from tests.broker.support.admin_requests import topic_of
from tests.broker.support.batches import batch
from tests.broker.support.data_requests import fetch, produce
from tests.broker.support.raw_client import RawClient

from .brokers import eventually
from .maven import KafkaJars
from .real_kafka import RealKafka

FAILED = 1
"""The broker of the failed directory."""
TOPICS = {"t": {0: [1, 0], 1: [1, 0], 2: [0, 1], 3: [0, 1]}, "u": {0: [1], 1: [1]}}
LEADERS = {(name, number): brokers[0] for name, parts in TOPICS.items() for number, brokers in parts.items()}
Key = tuple[str, int]
Answers = list[tuple[str, Any]]


class Story:
    """Two brokers; broker 1 has the log directories "a" and "b" in a folder, and "b" fails."""

    def __init__(self, wires: list[RawClient], folder: Path) -> None:
        self.wires = wires
        self.folder = folder

    def directories(self) -> dict[str, tuple[int, list[Key]]]:
        """The error and the partitions of each directory of the broker."""
        results = self.wires[FAILED].call(DescribeLogDirsRequest(topics=None), 4).results
        return {
            one.log_dir.rpartition("/")[2]: (
                one.error_code,
                sorted(
                    (topic.name, part.partition_index) for topic in one.topics for part in topic.partitions
                ),
            )
            for one in results
        }

    def partitions(self) -> dict[Key, Any]:
        """Error, leader, ISR and offline replicas of each partition.

        Without a leader the ISR is left out: Apache Kafka empties it for eligible leader replicas (KIP-966).
        """
        request = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in TOPICS])
        return {
            (topic.name or "", part.partition_index): (
                part.error_code,
                part.leader_id,
                sorted(part.isr_nodes) if part.leader_id >= 0 else [],
                sorted(part.offline_replicas),
            )
            for topic in self.wires[0].call(request, 12).topics
            for part in topic.partitions
        }

    def move(self, key: Key, path: str) -> int:
        topics = [AlterReplicaLogDirTopic(name=key[0], partitions=[key[1]])]
        request = AlterReplicaLogDirsRequest(
            dirs=[AlterReplicaLogDir(path=f"{self.folder}/{path}", topics=topics)]
        )
        return self.wires[FAILED].call(request, 2).results[0].partitions[0].error_code

    def list_offsets(self, key: Key) -> int:
        partition = ListOffsetsPartition(partition_index=key[1], timestamp=-1)
        request = ListOffsetsRequest(
            replica_id=-1, topics=[ListOffsetsTopic(name=key[0], partitions=[partition])]
        )
        return self.wires[FAILED].call(request, 7).topics[0].partitions[0].error_code

    def answers(self) -> Answers:
        wire = self.wires[FAILED]
        topics = [topic_of(name, assignment=parts) for name, parts in TOPICS.items()]
        created = self.wires[0].call(CreateTopicsRequest(topics=topics, timeout_ms=9000), 7).topics
        assert not any(one.error_code for one in created)
        eventually(lambda: len(self.directories()["a"][1]) == len(self.directories()["b"][1]) == 3)
        for key in LEADERS:  # where they are by themselves varies in Apache Kafka
            assert self.move(key, "a" if key[1] % 2 else "b") == 0
        lost = [key for key in LEADERS if not key[1] % 2]
        eventually(lambda: self.directories()["b"] == (0, lost))
        for key, leader in LEADERS.items():
            eventually(lambda k=key, at=leader: not produce(self.wires[at], *k, batch()).error_code)
        # Open files can still be written; the next checkpoint of offsets cannot.
        (self.folder / "b").rename(self.folder / "unplugged")

        def is_offline() -> bool:
            for key in lost:
                if LEADERS[key] == FAILED:
                    produce(wire, *key, batch())
            return self.directories()["b"][0] != 0

        eventually(is_offline)
        eventually(lambda: all(FAILED in self.partitions()[key][3] for key in lost))
        known = self.partitions()
        answers: Answers = [
            ("directories", {name: error for name, (error, _) in self.directories().items()}),
            ("partitions in it", self.directories()["b"][1]),
            ("lost partitions", sorted(known[key] for key in lost)),
            ("other partitions", sorted(known[key] for key in LEADERS if key not in lost)),
        ]
        for key in sorted(lost, key=lambda one: (one[0], LEADERS[one])):
            answers += [
                (f"{key[0]} of {LEADERS[key]}: produce", produce(wire, *key, batch()).error_code),
                ("fetch", fetch(wire, *key, 0).error_code),
                ("list offsets", self.list_offsets(key)),
                ("move out of it", self.move(key, "a")),
                ("move into it", self.move(key, "b")),
            ]
        kept = next(key for key in LEADERS if key not in lost)
        answers += [
            ("move another one into it", self.move(kept, "b")),
            ("move to where it is", self.move(kept, "a")),
            ("the others still work", produce(self.wires[known[kept][1]], *kept, batch()).error_code),
        ]
        return answers


def answers_of(addresses: list[str], folder: Path) -> Answers:
    wires = [RawClient(address) for address in addresses]
    try:
        return Story(wires, folder).answers()
    finally:
        for wire in wires:
            wire.close()


REFUSED: Answers = [
    ("fetch", 56),
    ("list offsets", 56),
    ("move out of it", 56),
    ("move into it", 56),
]
EXPECTED: Answers = [
    ("directories", {"a": 0, "b": 56}),
    ("partitions in it", []),
    ("lost partitions", [(0, 0, [0], [1]), (0, 0, [0], [1]), (5, -1, [], [1])]),
    ("other partitions", [(0, 0, [0, 1], []), (0, 1, [0, 1], []), (0, 1, [1], [])]),
    ("t of 0: produce", 56),
    *REFUSED,
    ("t of 1: produce", 56),
    *REFUSED,
    ("u of 1: produce", 56),
    *REFUSED,
    ("move another one into it", 56),
    ("move to where it is", 0),
    ("the others still work", 0),
]
"""56: KAFKA_STORAGE_ERROR, 5: LEADER_NOT_AVAILABLE."""


def test_failed_directory_of_the_bundled_broker(tmp_path: Path) -> None:
    with KafkaCluster(2, data_dir=tmp_path, config={"log.dirs": "a,b"}) as cluster:
        addresses = [broker.address for broker in cluster.brokers]
        assert answers_of(addresses, tmp_path / f"broker-{FAILED}") == EXPECTED


@pytest.mark.long
def test_failed_directory_of_apache_kafka(jars: KafkaJars, tmp_path: Path) -> None:
    """Start a server of its own."""
    extra = (
        f"log.dirs={tmp_path}/{{node}}/a,{tmp_path}/{{node}}/b\n"
        f"metadata.log.dir={tmp_path}/{{node}}/metadata\n"
    )
    with RealKafka(jars, brokers=2, extra=extra) as kafka:
        addresses = kafka.bootstrap_servers.split(",")
        assert answers_of(addresses, tmp_path / str(FAILED)) == EXPECTED
