"""Options of a topic that act on its files, also when they change while the topic is in use."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from pykafka2.admin import ConfigResource, KafkaAdminClient
from pykafka2.broker.log.disk.log_directory import on_disk
from pykafka2.broker.log.disk.segment_file import DiskSegment
from pykafka2.testing import KafkaCluster, Topic
from tests.broker.support.batches import batch
from tests.broker.support.data_requests import produce
from tests.broker.support.raw_client import RawClient

Options = dict[str, str]


class TopicOnDisk:
    """A topic of one partition on a broker with a data directory."""

    def __init__(self, cluster: KafkaCluster, path: Path) -> None:
        self.cluster = cluster
        self.directory = path / "broker-0" / "t-0"

    def produce(self, count: int, size: int = 1000, timestamp: int = 1_700_000_000_000) -> None:
        with RawClient(self.cluster.bootstrap_servers) as wire:
            for _ in range(count):
                assert produce(wire, "t", 0, batch([b"x" * size], timestamp=timestamp)).error_code == 0

    def alter(self, options: Options) -> None:
        resource = ConfigResource("TOPIC", "t")
        with KafkaAdminClient(bootstrap_servers=self.cluster.bootstrap_servers) as admin:
            admin.alter_configs({resource: options})

    def segments(self) -> list[DiskSegment]:
        with self.cluster.broker(0).lock:
            return on_disk(self.cluster.broker(0).replicas.log_of(("t", 0)).segments)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[Options], TopicOnDisk]]:
    clusters: list[KafkaCluster] = []

    def started(options: Options) -> TopicOnDisk:
        cluster = KafkaCluster(
            1,
            {"t": Topic(1, configs=options)},
            data_dir=tmp_path,
            config={"replica.high.watermark.checkpoint.interval.ms": 100},  # files are removed then, too
        )
        cluster.start()
        clusters.append(cluster)
        return TopicOnDisk(cluster, tmp_path)

    yield started
    for cluster in clusters:
        cluster.close()


def test_index_interval_of_a_topic_acts_and_changes_while_it_is_in_use(
    start: Callable[[Options], TopicOnDisk],
) -> None:
    one = start({"index.interval.bytes": "2000"})
    one.produce(10)
    assert one.segments()[0].offsets.count == 4
    one.alter({"index.interval.bytes": "100000"})
    one.produce(10)
    assert one.segments()[0].offsets.count == 4
    one.alter({"index.interval.bytes": "0"})
    one.produce(5)
    assert one.segments()[0].offsets.count == 9


def test_full_index_of_a_topic_rolls_its_segment(start: Callable[[Options], TopicOnDisk]) -> None:
    one = start({"index.interval.bytes": "0", "segment.index.bytes": "80"})
    one.produce(25)
    assert [segment.base_offset for segment in one.segments()] == [0, 11, 22]
    one.alter({"segment.index.bytes": "40"})
    one.produce(8)
    assert [segment.base_offset for segment in one.segments()] == [0, 11, 22, 28]


def test_delay_of_deleted_files_is_that_of_the_topic(start: Callable[[Options], TopicOnDisk]) -> None:
    one = start({"file.delete.delay.ms": "3600000", "segment.bytes": "1048576", "retention.ms": "1000"})

    def delete() -> None:
        one.produce(2, timestamp=1000)
        one.cluster.controls.roll_segments(("t", 0))
        assert one.cluster.controls.apply_retention(("t", 0))

    def deleted() -> set[str]:
        return {path.name for path in one.directory.glob("*.deleted")}

    delete()
    kept = deleted()
    assert kept
    one.alter({"file.delete.delay.ms": "0"})
    delete()
    one.cluster.wait_until(lambda: deleted() == kept)


def test_segment_limits_of_a_topic_change_while_it_is_in_use(start: Callable[[Options], TopicOnDisk]) -> None:
    one = start({})
    one.produce(4)
    one.alter({"segment.bytes": "1048576"})
    one.produce(2, 600_000)
    assert [segment.base_offset for segment in one.segments()] == [0, 5]
    one.alter({"segment.ms": "5000"})
    one.produce(1, timestamp=1_700_000_005_000)
    one.produce(1, timestamp=1_700_000_005_001)
    assert [segment.base_offset for segment in one.segments()] == [0, 5, 7]


@pytest.mark.gate
def test_jitter_rolls_segments_earlier_by_less_than_its_limit(
    start: Callable[[Options], TopicOnDisk],
) -> None:
    one = start({"segment.ms": "100000", "segment.jitter.ms": "90000"})
    for number in range(400):
        one.produce(1, 10, timestamp=1_700_000_000_000 + number * 1000)
    bases = [segment.base_offset for segment in one.segments()]
    ages = [after - before for before, after in pairwise(bases)]
    assert len(set(ages)) > 2
    assert all(10 <= age <= 101 for age in ages)
