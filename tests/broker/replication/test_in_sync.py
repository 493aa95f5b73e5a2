"""Membership of the ISR, fetches of replicas, topic ids, replica selectors and truncation."""

from __future__ import annotations

import pytest

from pykafka2.broker.log.partition_log import PartitionLog
from pykafka2.broker.replication.fetch import CachedPartition, FetchInfo, FetchSession
from pykafka2.broker.replication.replica import NEVER, FollowerState
from pykafka2.errors import ConfigurationError
from pykafka2.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    PartitionData,
    ReplicaState,
)
from pykafka2.testing.cluster import KafkaCluster
from pykafka2.testing.simulation import Simulation
from tests.broker.support.batches import batch
from tests.broker.support.data_requests import error_name, produce
from tests.broker.support.leaders import append, ends, settled
from tests.broker.support.raw_client import RawClient
from tests.connections import LiveCluster

KEY = ("t", 0)


class TestLastCaughtUp:
    def test_fetch_at_the_log_end_is_caught_up_at_its_own_time(self) -> None:
        follower = FollowerState(1, last_caught_up=0.0)
        follower.fetched(10, 0, 10, now=5.0)
        assert follower.caught_up_at == 5.0
        follower.fetched(12, 0, 11, now=6.0)
        assert follower.caught_up_at == 6.0

    def test_fetch_at_the_log_end_of_the_last_fetch_is_caught_up_at_the_time_of_that(self) -> None:
        follower = FollowerState(1, last_caught_up=0.0)
        follower.fetched(8, 0, 10, now=5.0)
        assert follower.caught_up_at == 0.0
        follower.fetched(10, 0, 14, now=7.0)
        assert follower.caught_up_at == 5.0
        follower.fetched(14, 0, 20, now=9.0)
        assert follower.caught_up_at == 7.0

    def test_fetch_behind_both_log_ends_changes_nothing(self) -> None:
        follower = FollowerState(1, last_caught_up=3.0)
        follower.fetched(8, 0, 10, now=5.0)
        follower.fetched(9, 0, 12, now=7.0)
        assert follower.caught_up_at == 3.0

    def test_caught_up_time_never_moves_back(self) -> None:
        follower = FollowerState(1, last_caught_up=9.0)
        follower.fetched(10, 0, 10, now=5.0)
        assert follower.caught_up_at == 9.0

    def test_follower_is_out_of_sync_after_more_than_the_lag_time(self) -> None:
        follower = FollowerState(1, last_caught_up=10.0)
        follower.fetched(5, 0, 6, now=11.0)
        assert follower.is_caught_up(6, now=40.0, max_lag=30.0)
        assert not follower.is_caught_up(6, now=40.1, max_lag=30.0)
        assert follower.is_caught_up(5, now=99.0, max_lag=30.0), "it has all records"

    def test_follower_joins_the_isr_at_the_high_watermark_and_the_start_of_the_leader_epoch(self) -> None:
        """The high watermark of a new leader can be far behind the records committed before its epoch."""
        follower = FollowerState(1, last_caught_up=0.0)
        for offset, can_join in ((3, False), (4, False), (5, False), (6, True), (7, True)):
            follower.fetched(offset, 0, 9, now=1.0)
            assert follower.may_join(4, 6) is can_join
            assert follower.may_join(offset, 0)
            assert not follower.may_join(offset + 1, 0)

    def test_session_fetches_without_the_partition_count_while_it_has_no_new_records(self) -> None:
        item = FetchInfo("t", bytes(16), 0, 10, 1)
        session = FetchSession(1, False, 1, 0.0, 0.0)
        place = session.partitions["t", 0] = CachedPartition(item, session)
        follower = FollowerState(1, last_caught_up=0.0)
        session.fetched(5.0)
        follower.fetched(10, 0, 10, 5.0, place)
        session.fetched(8.0)
        assert follower.caught_up_at == 8.0
        # The leader appends: the last fetch before that counts.
        session.fetched(9.0)
        follower.fetched(10, 0, 12, 9.0, place)
        session.fetched(11.0)
        assert follower.caught_up_at == 8.0
        session.fetched(13.0)
        follower.fetched(12, 0, 15, 13.0, place)
        assert follower.caught_up_at == 11.0
        place.session = None  # the partition is paused, so it is not in the session
        session.fetched(20.0)
        assert follower.caught_up_at == 11.0

    def test_new_leader_counts_only_isr_members_as_caught_up(self) -> None:
        with Simulation(seed=2) as simulation:
            cluster = settled(simulation, brokers=3, topics={"t": 1})
            view = cluster.partition(*KEY)
            new, out = (broker for broker in range(3) if broker != view.leader)
            cluster.controls.pause_followers()
            simulation.run_for(1)
            cluster.controls.shrink_isr(KEY, out)
            before = cluster.runtime.clock.monotonic()
            cluster.controls.move_leader(KEY, new)
            with cluster.lock:
                followers = cluster.broker(new).replicas.replicas[KEY].followers
            assert before <= followers[view.leader].caught_up_at <= cluster.runtime.clock.monotonic()
            assert followers[out].caught_up_at == NEVER


# ---------------------------------------------------------------------- fetches of replicas


def replica_fetch(
    wire: RawClient,
    cluster: KafkaCluster,
    replica: int,
    epoch: int,
    *,
    offset: int = 0,
    leader_epoch: int = -1,
) -> PartitionData:
    requested = FetchPartition(
        partition=0, fetch_offset=offset, partition_max_bytes=1 << 20, current_leader_epoch=leader_epoch
    )
    topic_id = cluster.controller.image.topics["t"].id
    request = FetchRequest(
        replica_state=ReplicaState(replica_id=replica, replica_epoch=epoch),
        max_wait_ms=0,
        min_bytes=0,
        topics=[FetchTopic(topic_id=topic_id, partitions=[requested])],
    )
    return wire.call(request, 17).responses[0].partitions[0]


@pytest.mark.kafka(brokers=3, topics={"t": 1})
def test_replica_fetch_reads_to_the_log_end_with_its_current_broker_epoch_only(live: LiveCluster) -> None:
    wire = live.leader(*KEY)
    live.controls.pause_followers()
    produce(wire, *KEY, batch(), acks=1)
    view = live.cluster.partition(*KEY)
    follower = next(broker for broker in view.replicas if broker != view.leader)
    epoch = live.cluster.broker(follower).epoch

    def error(replica: int, epoch: int, **options: int) -> str:
        data = replica_fetch(wire, live.cluster, replica, epoch, **options)
        return error_name(data.error_code)

    assert len(replica_fetch(wire, live.cluster, follower, epoch).records or b"") == len(batch())
    assert live.cluster.partition(*KEY).high_watermark == 0, "a fetch from 0 acknowledges nothing"
    assert error(follower, epoch - 1) == "NotLeaderOrFollower"
    assert error(77, -1) == "NotLeaderOrFollower"
    assert error(follower, epoch, leader_epoch=5) == "UnknownLeaderEpoch"
    assert error(follower, epoch, offset=2) == "OffsetOutOfRange"


@pytest.mark.kafka(
    brokers=2, topics={"t": 1}, config={"fetch.max.bytes": 2500, "replica.fetch.response.max.bytes": 2000}
)
def test_fetch_limits_bound_follower_fetches_except_for_the_first_batch(live: LiveCluster) -> None:
    """fetch.max.bytes is the leader's limit, replica.fetch.response.max.bytes that in followers' requests."""
    max_bytes: list[int] = []
    live.controls.rule(
        api="Fetch", between_brokers=True, where=lambda one: max_bytes.append(one.max_bytes), then="hold"
    )
    wire = live.leader(*KEY)
    live.controls.pause_followers()
    large, small = batch([bytes(5000)]), batch([bytes(900)])
    for data in (small, small, small, large):
        assert produce(wire, *KEY, data, acks=1).error_code == 0
    view = live.cluster.partition(*KEY)
    follower = next(broker for broker in view.replicas if broker != view.leader)
    epoch = live.cluster.broker(follower).epoch
    sizes = [
        len(replica_fetch(wire, live.cluster, follower, epoch, offset=offset).records or b"")
        for offset in range(4)
    ]
    assert sizes == [2 * len(small), 2 * len(small), len(small), len(large)]
    live.controls.resume_followers()
    live.wait_for(lambda: live.cluster.partition(*KEY).high_watermark == 4)
    assert set(max_bytes) == {2000}


# ---------------------------------------------------------------------- topic ids


@pytest.mark.kafka(brokers=1, topics={"t": 1})
def test_fetch_with_a_topic_id_other_than_that_of_the_log_is_inconsistent(live: LiveCluster) -> None:
    """The metadata has the new topic, but the log is still that of the old one."""
    wire = live.connect()
    with live.cluster.lock:
        replica = live.cluster.broker(0).replicas.replicas[KEY]
        kept = replica.log
        replica.log = PartitionLog("t", 0, b"\x09" * 16)
    data = replica_fetch(wire, live.cluster, -1, -1)
    assert error_name(data.error_code) == "InconsistentTopicId"
    with live.cluster.lock:
        replica.log = kept
    assert replica_fetch(wire, live.cluster, -1, -1).error_code == 0


# ---------------------------------------------------------------------- replica selectors


@pytest.mark.parametrize(
    "name", ["NoSuchSelector", "org.apache.kafka.common.replica.RackAwareReplicaSelektor"]
)
def test_unknown_replica_selector_raises_with_the_known_one(name: str) -> None:
    with pytest.raises(ConfigurationError, match="RackAwareReplicaSelector"):
        KafkaCluster(brokers=1, config={"replica.selector.class": name}).start()


# ---------------------------------------------------------------------- truncation


def test_former_leader_truncates_over_several_leader_epochs(simulation: Simulation) -> None:
    """Several epochs are between its own and the leader's, so it truncates step by step (KIP-101)."""
    cluster = settled(simulation, brokers=3, topics={"t": 1})
    append(cluster, KEY, b"common")
    simulation.run_for(1)
    old = cluster.partition(*KEY).leader
    others = [broker for broker in range(3) if broker != old]
    for other in others:
        cluster.controls.cut_link(old, other)
    append(cluster, KEY, b"lost 1")
    append(cluster, KEY, b"lost 2")
    append(cluster, KEY, b"lost 3")
    for number, new in enumerate((others[0], others[1], others[0])):
        cluster.controls.move_leader(KEY, new)
        append(cluster, KEY, b"kept %d" % number, broker=new)
        simulation.run_for(1)
    cluster.controls.heal()
    simulation.run_for(3)
    assert ends(cluster, KEY) == [4, 4, 4]
    for broker in range(3):
        assert cluster.log(*KEY, broker=broker).values() == [b"common", b"kept 0", b"kept 1", b"kept 2"]
