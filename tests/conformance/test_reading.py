"""Reading at the edges: the bundled broker answers as Apache Kafka does.

Each question is put to both, the answers are compared.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import attrs
import pytest

from pykafka2.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from pykafka2.protocol.messages.log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
)
from pykafka2.protocol.messages.offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from pykafka2.protocol.messages.topics import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from pykafka2.records.batch import batches
from pykafka2.testing import KafkaCluster
from tests.broker.support.batches import batch
from tests.broker.support.data_requests import fetch_request, produce
from tests.broker.support.produce_cases import create_topics
from tests.broker.support.raw_client import RawClient

from .real_kafka import RealKafka

TRIES = 2
"""A broker that waits does so each time; one that answers at once may be late on a busy machine."""

TOPICS: dict[str, dict[str, str]] = {
    "rf": {},
    "rf-deleted": {},
    "rf-empty": {},
    "rf-compacted": {"cleanup.policy": "compact"},
}


@attrs.define
class Asker:
    """Puts questions to one cluster; times in the answers are relative to its `now`."""

    wire: RawClient
    now: int

    def fetch(
        self, version: int = 12, topic: str = "rf", partition: int = 0, offset: int = 0, **o: Any
    ) -> Any:
        waited = True
        for _ in range(TRIES):
            began = time.monotonic()
            response = self.wire.call(fetch_request(topic, partition, offset, **o), version)
            waited = waited and time.monotonic() - began > 0.25
            if not waited:
                break
        data = response.responses[0].partitions[0]
        offsets = [one.base_offset for one in batches(data.records or b"")]
        marks = (data.high_watermark, data.last_stable_offset, data.log_start_offset)
        return response.error_code, data.error_code, marks, offsets, data.aborted_transactions, waited

    def offset_at(
        self, timestamp: int, version: int = 10, topic: str = "rf", count: int = 1, **o: Any
    ) -> Any:
        relative = timestamp if timestamp <= 0 else self.now + timestamp - 1000
        requested = ListOffsetsPartition(**({"partition_index": 0, "timestamp": relative} | o))
        topics = [ListOffsetsTopic(name=topic, partitions=[requested] * count)]
        answers = (
            self.wire.call(ListOffsetsRequest(replica_id=-1, topics=topics), version).topics[0].partitions
        )
        return [
            (
                one.error_code,
                one.offset,
                one.timestamp - (self.now if one.timestamp > 0 else 0),
                one.leader_epoch,
            )
            for one in answers
        ]

    def end_of_epoch(self, epoch: int, topic: str = "rf", partition: int = 0, current: int = -1) -> Any:
        requested = OffsetForLeaderPartition(
            partition=partition, leader_epoch=epoch, current_leader_epoch=current
        )
        topics = [OffsetForLeaderTopic(topic=topic, partitions=[requested])]
        answer = self.wire.call(OffsetForLeaderEpochRequest(topics=topics), 4).topics[0].partitions[0]
        return answer.error_code, answer.leader_epoch, answer.end_offset

    def delete(self, offset: int, topic: str = "rf", partition: int = 0) -> Any:
        requested = DeleteRecordsPartition(partition_index=partition, offset=offset)
        topics = [DeleteRecordsTopic(name=topic, partitions=[requested])]
        answer = (
            self.wire.call(DeleteRecordsRequest(topics=topics, timeout_ms=2000), 2).topics[0].partitions[0]
        )
        return answer.error_code, answer.low_watermark

    def directories(self, topics: list[DescribableLogDirTopic] | None) -> Any:
        response = self.wire.call(DescribeLogDirsRequest(topics=topics), 4)
        return response.error_code, [
            (
                topic.name,
                [(one.partition_index, one.offset_lag, one.is_future_key) for one in topic.partitions],
            )
            for directory in response.results
            for topic in sorted(directory.topics, key=lambda one: one.name)
            if topic.name in TOPICS
        ]

    def move(self, topic: str, partition: int = 0, path: str | None = None) -> Any:
        if path is None:
            path = self.wire.call(DescribeLogDirsRequest(topics=None), 4).results[0].log_dir
        topics = [AlterReplicaLogDirTopic(name=topic, partitions=[partition])]
        dirs = [AlterReplicaLogDir(path=path, topics=topics)]
        answer = self.wire.call(AlterReplicaLogDirsRequest(dirs=dirs), 2)
        return [one.error_code for result in answer.results for one in result.partitions]

    def session(
        self, session_id: int, epoch: int, requested: tuple[tuple[int, int], ...] = (), version: int = 12
    ) -> tuple[int, Any]:
        partitions = [
            FetchPartition(partition=number, fetch_offset=offset, partition_max_bytes=1000)
            for number, offset in requested
            if offset >= 0
        ]
        forgotten = [number for number, offset in requested if offset < 0]
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=1,
            session_id=session_id,
            session_epoch=epoch,
            topics=[FetchTopic(topic="rf", partitions=partitions)] if partitions else [],
            forgotten_topics_data=[ForgottenTopic(topic="rf", partitions=forgotten)] if forgotten else [],
        )
        response = self.wire.call(request, version)
        rows = [
            (one.partition_index, one.error_code, one.high_watermark)
            for topic in response.responses
            for one in topic.partitions
        ]
        return response.session_id, (response.error_code, response.session_id > 0, rows)

    def sessions(self) -> Any:
        """A session's life, and what is refused."""
        session_id, opened = self.session(0, 0, ((0, 5),))
        story = [opened]
        for epoch, requested in ((1, ()), (1, ()), (2, ((7, 0),)), (3, ()), (-1, ((0, 5),)), (4, ())):
            story.append(self.session(session_id, epoch, requested)[1])
        story += [self.session(12345, 3)[1], self.session(0, 5, ((0, 5),))[1], self.session(0, 0)[1]]
        for requested, version in ((((0, -1),), 12), ((), 13)):
            session_id, _ = self.session(0, 0, ((0, 5),))
            story.append(self.session(session_id, 1, requested, version)[1])
        return story


def asker(address: str) -> Asker:
    wire = RawClient(address)
    create_topics(wire, topics=TOPICS)
    now = int(time.time() * 1000)
    for topic in ("rf", "rf-deleted"):
        for number in range(5):
            assert not produce(wire, topic, 0, batch([b"x" * 50], timestamp=now - 1000 + number)).error_code
    return Asker(wire, now)


@pytest.fixture(scope="module")
def ours() -> Iterator[Asker]:
    with KafkaCluster(brokers=1, config={"auto.create.topics.enable": False}) as cluster:
        one = asker(cluster.bootstrap_servers)
        with one.wire:
            yield one


@pytest.fixture(scope="module")
def theirs(real_kafka: RealKafka) -> Iterator[Asker]:
    one = asker(real_kafka.bootstrap_servers.split(",")[0])
    with one.wire:
        yield one


WAIT = {"max_wait_ms": 300}
FETCHES: list[dict[str, Any]] = [
    {},
    {"max_bytes": 0},
    {"max_bytes": -1},
    {"partition_max_bytes": 0},
    {"partition_max_bytes": -1},
    {"partition_max_bytes": -1, "max_bytes": 0},
    {"min_bytes": 5000, "max_bytes": 100, **WAIT},
    {"min_bytes": 5000, "max_bytes": 100},
    {"min_bytes": 2**31 - 1, **WAIT},
    {"min_bytes": 0, "offset": 5, **WAIT},
    {"min_bytes": -1, "offset": 5, **WAIT},
    {"max_wait_ms": -1, "offset": 5},
    {"offset": 5, **WAIT},
    {"offset": 6, **WAIT},
    {"offset": -1, **WAIT},
    {"partition": 9, **WAIT},
    {"topic": "nosuch", **WAIT},
    {"epoch": 9},
    {"epoch": 0},
    {"last_fetched_epoch": 0},
    {"last_fetched_epoch": 9},
    {"last_fetched_epoch": 0, "offset": 7},
    *({"version": version} for version in range(4, 13)),
]
TIMES = (-1, -2, -3, -4, -5, -6, -7, 0, 2, 1005)  # above 0: milliseconds after a second ago

QUESTIONS: dict[str, Callable[[Asker], Any]] = {
    "list offsets of nothing": lambda one: [one.offset_at(time, topic="rf-empty") for time in TIMES],
    "list offsets of no topic": lambda one: one.offset_at(-1, topic="nosuch"),
    "list offsets, epoch 9": lambda one: one.offset_at(-1, current_leader_epoch=9),
    "list offsets twice": lambda one: one.offset_at(-1, count=2),
    "ends of epochs": lambda one: [one.end_of_epoch(epoch) for epoch in (0, 1, -1, -2)],
    "end of an epoch of nothing": lambda one: one.end_of_epoch(0, topic="rf-empty"),
    "end of an epoch, epoch 9": lambda one: one.end_of_epoch(0, current=9),
    "end of an epoch of no partition": lambda one: one.end_of_epoch(0, partition=9),
    "directories": lambda one: one.directories(None),
    "directories of nothing": lambda one: one.directories([]),
    "directories of one": lambda one: one.directories(
        [DescribableLogDirTopic(topic="rf", partitions=[0, 5])]
    ),
    "move to where it is": lambda one: one.move("rf"),
    "move elsewhere": lambda one: one.move("rf", path="/nowhere"),
    "move no topic": lambda one: one.move("nosuch"),
    "move no partition": lambda one: one.move("rf", 9),
    "sessions": lambda one: one.sessions(),
}


@pytest.mark.parametrize("options", FETCHES, ids=str)
def test_a_fetch_is_answered_alike(ours: Asker, theirs: Asker, options: dict[str, Any]) -> None:
    assert ours.fetch(**options) == theirs.fetch(**options)


@pytest.mark.parametrize("version", range(1, 12))
def test_offsets_by_time_are_answered_alike(ours: Asker, theirs: Asker, version: int) -> None:
    assert [ours.offset_at(at, version) for at in TIMES] == [theirs.offset_at(at, version) for at in TIMES]


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_is_answered_alike(ours: Asker, theirs: Asker, question: str) -> None:
    assert QUESTIONS[question](ours) == QUESTIONS[question](theirs)


def test_records_are_deleted_alike(ours: Asker, theirs: Asker) -> None:
    def story(one: Asker) -> list[Any]:
        done = [one.delete(offset, "rf-deleted") for offset in (0, 1, 6, -2, 2)]
        done += [one.delete(0, partition=9), one.delete(0, "nosuch"), one.delete(0, "rf-compacted")]
        done += [one.fetch(topic="rf-deleted"), one.offset_at(-2, topic="rf-deleted")]
        done += [one.offset_at(0, topic="rf-deleted"), one.end_of_epoch(0, "rf-deleted")]
        done += [one.delete(-1, "rf-deleted"), one.offset_at(-2, topic="rf-deleted")]
        return [*done, one.fetch(topic="rf-deleted", offset=5)]

    assert story(ours) == story(theirs)
