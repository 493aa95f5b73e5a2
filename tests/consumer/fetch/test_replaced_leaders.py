"""A broker that may be a leader which was replaced: when it is doubted, and how often.

The parts alone; `commit/test_commit_leader_epoch.py` has the story.
"""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from pykafka2.cluster.client import ClusterClient
from pykafka2.cluster.snapshot import ClusterSnapshot, TopicSnapshot
from pykafka2.consumer.fetch.buffer import FetchBuffer
from pykafka2.consumer.fetch.fetcher import Fetcher
from pykafka2.consumer.fetch.offset_lookups import OffsetLookups
from pykafka2.consumer.fetch.partitions import FetchState
from pykafka2.consumer.fetch.responses import DOUBT
from pykafka2.consumer.options import CONSUMER_OPTIONS
from pykafka2.errors import OffsetOutOfRange
from pykafka2.protocol.messages.fetch import PartitionData
from pykafka2.protocol.messages.metadata import MetadataRequest
from pykafka2.types import Node, PartitionInfo, TopicPartition
from tests.cluster.scripted import BOOTSTRAP
from tests.consumer.logs import LogCluster

ORDERS = TopicPartition("orders", 0)
OUT_OF_RANGE = PartitionData(partition_index=0, error_code=OffsetOutOfRange.code, high_watermark=-1)
NOTHING_YET = PartitionData(partition_index=0, high_watermark=20)


@attrs.define
class Reading:
    """A fetch from offset 20 of a partition, behind a record of leader epoch 5; the responses are made by
    hand.
    """

    fetcher: Fetcher
    client: ClusterClient

    @property
    def state(self) -> FetchState:
        return self.fetcher.table.states[ORDERS]

    def led_in(self, epoch: int) -> None:
        """So the metadata tell."""
        leader = PartitionInfo("orders", 0, leader=0, leader_epoch=epoch, replicas=(0,), isr=(0,))
        topic = TopicSnapshot("orders", partitions={0: leader})
        node = Node(0, "broker-0", 9092)
        self.client.metadata.snapshot = ClusterSnapshot(1, nodes={0: node}, topics={"orders": topic})

    def accept(self, answer: PartitionData, now: float) -> bool:
        """Whether that response ends the doubt about the position: it is fetched by its offset alone."""
        self.fetcher._responses.apply(self.state, 20, answer, [], now)
        return self.state.epoch < 0


@pytest.fixture
def reading() -> Reading:
    cluster = LogCluster({"orders": [0]}, brokers=1)
    options = CONSUMER_OPTIONS.parse(None, {"bootstrap_servers": BOOTSTRAP})
    runtime: Any = cluster.runtime
    client = ClusterClient(options, name="test", runtime=runtime)
    fetcher = Fetcher(
        options, client, FetchBuffer(client.driver.wake), OffsetLookups(client, options.isolation)
    )
    fetcher.begin(ORDERS, 1, 20, epoch=5)
    return Reading(fetcher, client)


def test_a_doubt_after_a_good_answer_is_a_first_one(reading: Reading) -> None:
    reading.led_in(4)
    assert not reading.accept(OUT_OF_RANGE, now=100.0)
    assert not reading.accept(NOTHING_YET, now=101.0)
    assert not reading.accept(OUT_OF_RANGE, now=101.0 + DOUBT)
    assert not reading.accept(OUT_OF_RANGE, now=100.0 + 2 * DOUBT)
    assert reading.accept(OUT_OF_RANGE, now=101.0 + 2 * DOUBT)


def test_metadata_is_requested_while_the_leader_is_in_doubt(reading: Reading) -> None:
    reading.led_in(4)
    reading.accept(OUT_OF_RANGE, now=100.0)
    request = reading.client.metadata.poll(100.0).sends
    assert [type(send.request) for send in request] == [MetadataRequest]
    assert reading.state.not_before >= 100.1, "and the broker is left alone meanwhile"


@pytest.mark.parametrize("epoch", [-1, 5, 6])
def test_leader_of_the_same_or_a_later_epoch_is_believed_at_once(reading: Reading, epoch: int) -> None:
    """Brokers of old tell no epoch."""
    reading.led_in(epoch)
    assert reading.accept(OUT_OF_RANGE, now=100.0)
