"""Reading from the replica in the consumer's rack (KIP-392), and from the leader when that does not work."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka2 import KafkaConsumer, TopicPartition
from pykafka2.errors import CorruptMessage
from pykafka2.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from pykafka2.protocol.messages.metadata import MetadataRequest, MetadataResponse
from pykafka2.testing import KafkaCluster
from tests.cluster.scripted import Answer, Hold, Later, ScriptedBroker
from tests.consumer.logs import LogCluster
from tests.consumer.test_consumer_on_sockets import produce, read

ORDERS_0 = TopicPartition("orders", 0)
SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


class RackCluster(LogCluster):
    """Broker 0 leads and sends readers of rack "r1" to broker 1, which answers as `follower` says."""

    def __init__(self) -> None:
        super().__init__({"orders": [0]}, brokers=2)
        self.brokers[0].on(FetchRequest, self.redirect)
        self.brokers[1].on(FetchRequest, self.follow)
        self.follower_error = 0
        self.redirects = 0

    def redirect(self, request: FetchRequest, broker: ScriptedBroker) -> Answer:
        if request.rack_id != "r1":
            return super().fetch(request, broker)
        self.redirects += 1
        return answer_with(request, preferred_read_replica=1)

    def metadata_with_all(self, request: MetadataRequest) -> MetadataResponse:
        """The others' view: the follower is alive, though the consumer does not reach it."""
        follower = self.brokers[1]
        was_up, follower.is_up = follower.is_up, True
        answer = self.metadata(request)
        follower.is_up = was_up
        return answer

    def follow(self, request: FetchRequest, broker: ScriptedBroker) -> Answer:
        if self.follower_error:
            return answer_with(request, error_code=self.follower_error)
        return super().fetch(request, self.brokers[0])


def answer_with(request: FetchRequest, **fields: Any) -> Answer:
    answer = [
        FetchableTopicResponse(
            topic=topic.topic,
            topic_id=topic.topic_id,
            partitions=[PartitionData(partition_index=0, high_watermark=-1, **fields)],
        )
        for topic in request.topics
    ]
    return Later(0.001, lambda: FetchResponse(responses=answer))


def values(consumer: KafkaConsumer, polls: int = 4) -> list[bytes]:
    return [record.value for _ in range(polls) for some in consumer.poll(600).values() for record in some]


def test_follower_is_read_until_the_leader_redirects_again() -> None:
    cluster = RackCluster()
    for number in range(5):
        cluster.append("orders", 0, b"%d" % number)
    with cluster.consumer("orders", client_rack="r1", metadata_max_age_ms=20_000) as consumer:
        assert values(consumer) == [b"0", b"1", b"2", b"3", b"4"]
        assert cluster.redirects == 1
        cluster.runtime.run_for(15)
        assert cluster.redirects == 1
        cluster.runtime.run_for(6)
        assert cluster.redirects == 2
        cluster.append("orders", 0, b"5")
        assert values(consumer) == [b"5"]


@pytest.mark.parametrize("error", [1, 3, 6, 9, 74, 76], ids=str)
def test_an_error_of_the_follower_sends_the_reader_to_the_leader(error: int) -> None:
    cluster = RackCluster()
    cluster.append("orders", 0, b"0")
    with cluster.consumer("orders", client_rack="r1", auto_offset_reset="none") as consumer:
        consumer.unsubscribe()
        consumer.assign([ORDERS_0])
        consumer.seek(ORDERS_0, 0)
        cluster.follower_error = error
        assert values(consumer, 2) == []
        before = len(cluster.requests(FetchRequest))
        cluster.runtime.run_for(10)
        assert len(cluster.requests(FetchRequest)) - before < 220, "ten a second and broker at most"
        cluster.follower_error = 0
        assert values(consumer, 2) == [b"0"]


def test_corrupt_copy_of_a_follower_is_raised_once_and_the_leader_is_read_next() -> None:
    cluster = RackCluster()
    cluster.append("orders", 0, b"0")
    cluster.follower_error = CorruptMessage.code or 0
    with cluster.consumer("orders", client_rack="r1") as consumer:
        with pytest.raises(CorruptMessage, match="orders-0 at offset 0"):
            values(consumer, 4)
        cluster.brokers[0].on(FetchRequest, cluster.fetch)
        consumer.seek(ORDERS_0, 0)
        assert values(consumer, 4) == [b"0"]


def test_a_follower_that_dies_is_left() -> None:
    cluster = RackCluster()
    cluster.append("orders", 0, b"0")
    with cluster.consumer("orders", client_rack="r1") as consumer:
        assert values(consumer, 2) == [b"0"]
        cluster.brokers[1].stop()
        cluster.brokers[0].on(FetchRequest, cluster.fetch)
        cluster.append("orders", 0, b"1")
        assert values(consumer, 4) == [b"1"]


def test_records_that_come_with_a_hint_are_taken() -> None:
    cluster = RackCluster()
    cluster.append("orders", 0, b"0")
    batch = memoryview(cluster.log("orders").batches[0])
    cluster.brokers[0].on(
        FetchRequest,
        lambda request, broker: (
            answer_with(request, preferred_read_replica=1, records=batch, last_stable_offset=-1)
            if request.topics and request.topics[0].partitions[0].fetch_offset == 0
            else cluster.fetch(request, broker)
        ),
    )
    with cluster.consumer("orders", client_rack="r1") as consumer:
        assert values(consumer, 1) == [b"0"]
        assert not cluster.brokers[1].requests(FetchRequest)


def test_follower_lost_while_paused_is_replaced_by_the_leader() -> None:
    cluster = RackCluster()
    cluster.append("orders", 0, b"0")
    with cluster.consumer("orders", client_rack="r1") as consumer:
        assert values(consumer, 2) == [b"0"]
        consumer.pause(ORDERS_0)
        cluster.runtime.run_for(2)
        cluster.brokers[1].stop()
        cluster.on(MetadataRequest, lambda request, broker: cluster.metadata_with_all(request))
        cluster.brokers[0].on(FetchRequest, cluster.fetch)
        cluster.append("orders", 0, b"1")
        cluster.runtime.run_for(2)
        consumer.resume(ORDERS_0)
        assert values(consumer, 4) == [b"1"]


def test_stalled_follower_read_restarts_at_the_leader() -> None:
    """The watchdog's call for a partition that does not advance."""
    cluster = RackCluster()
    cluster.append("orders", 0, b"0")
    with cluster.consumer("orders", client_rack="r1") as consumer:
        assert values(consumer, 2) == [b"0"]
        cluster.brokers[1].on(FetchRequest, lambda request, broker: Hold())
        values(consumer, 2)
        fetcher = consumer._core.fetcher
        assert set(fetcher._nodes.in_flight) == {1}
        fetcher.reset_brokers_of(ORDERS_0)
        assert not fetcher._nodes.in_flight


@pytest.mark.slow
@pytest.mark.gate
def test_a_real_follower_serves_its_rack() -> None:
    racks = ["a", "b", "c"]
    with KafkaCluster(
        brokers=3, racks=racks, topics={"orders": 1}, config={"replica.selector.class": SELECTOR}
    ) as cluster:
        expected = produce(cluster, 200)
        leader = cluster.partition("orders", 0).leader
        near = (leader + 1) % 3
        with KafkaConsumer(
            "orders",
            bootstrap_servers=cluster.bootstrap_servers,
            auto_offset_reset="earliest",
            client_rack=racks[near],
        ) as consumer:
            assert read(consumer, 200) == expected
            expected = produce(cluster, 100, 200)
            assert read(consumer, 100) == expected
            assert consumer._core.fetcher.table.states[ORDERS_0].replica == near
