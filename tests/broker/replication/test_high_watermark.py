"""The high watermark of one replica: which followers limit it, and which join the ISR."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import attrs
import pytest

from pykafka2.broker.base.image import BrokerImage, ClusterImage, PartitionImage
from pykafka2.broker.config.configs import BrokerConfig, TopicConfig
from pykafka2.broker.log.batch import parse_batch
from pykafka2.broker.log.partition_log import PartitionLog
from pykafka2.broker.replication.fetch import FetchInfo
from pykafka2.broker.replication.follower_fetcher import FollowerFetchers
from pykafka2.broker.replication.isr_manager import IsrManager
from pykafka2.broker.replication.replica import HostedReplicas, Replica
from pykafka2.errors import (
    BrokerError,
    FencedLeaderEpoch,
    IneligibleReplica,
    InvalidRequest,
    InvalidUpdateVersion,
    NotController,
    UnknownTopicId,
)
from pykafka2.protocol.messages.broker_lifecycle import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
)
from tests.broker.support.batches import batch

MAX_LAG = 30.0


class Leader:
    """Broker 0, which leads a partition with ten records; brokers 1 and 2 follow."""

    def __init__(self, *isr: int, min_isr: int = 1) -> None:
        image = PartitionImage((0, 1, 2), isr, 0)
        config = TopicConfig({"min.insync.replicas": min_isr}, BrokerConfig({}))
        self.replica = Replica(0, ("t", 0), PartitionLog("t", 0, bytes(16)), image, config)
        self.replica.lead(image, now=0.0)
        for _ in range(10):
            self.replica.log.append_as_leader(parse_batch(batch()), 0)

    def fetched(self, follower: int, offset: int, now: float = 1.0) -> None:
        assert self.replica.record_fetch(follower, FetchInfo("t", bytes(16), 0, offset, 1), now)

    def high_watermark(self, now: float = 1.0, dead: tuple[int, ...] = ()) -> int:
        self.replica.advance_high_watermark(now, MAX_LAG, lambda broker: broker not in dead)
        return self.replica.high_watermark


def test_replica_joining_the_isr_counts_before_the_controller_confirms() -> None:
    leader = Leader(0, 1)
    leader.fetched(1, 10)
    leader.fetched(2, 7, now=-100.0)  # long ago, so that it would not count by itself
    leader.replica.pending_isr = frozenset({0, 1, 2})
    assert leader.high_watermark() == 7
    leader.replica.pending_isr = None
    assert leader.high_watermark() == 10


def test_replica_leaving_the_isr_counts_until_the_controller_confirms() -> None:
    leader = Leader(0, 1, 2)
    leader.fetched(1, 10)
    leader.fetched(2, 4)
    leader.replica.pending_isr = frozenset({0, 1})
    assert leader.high_watermark() == 4


@pytest.mark.parametrize(
    ("last_fetch", "dead", "expected"),
    [(1.0, (), 9), (-100.0, (), 10), (1.0, (2,), 10)],
    ids=["caught up of late", "long ago", "dead"],
)
def test_caught_up_follower_outside_the_isr_limits_the_high_watermark(
    last_fetch: float, dead: tuple[int, ...], expected: int
) -> None:
    """Otherwise it could never join: the high watermark would always be ahead of it."""
    leader = Leader(0, 1)
    leader.fetched(1, 10)
    leader.fetched(2, 10, now=last_fetch)
    leader.replica.followers[2].log_end_offset = 9
    assert leader.high_watermark(dead=dead) == expected


def test_high_watermark_does_not_advance_with_an_isr_below_min_isr() -> None:
    leader = Leader(0, 1, min_isr=3)
    leader.fetched(1, 10)
    leader.fetched(2, 10)
    assert leader.high_watermark() == 0


@pytest.mark.parametrize("offset", [-1, 11])
def test_fetch_outside_of_the_log_does_not_change_the_follower_state(offset: int) -> None:
    leader = Leader(0, 1, 2)
    assert not leader.replica.record_fetch(1, FetchInfo("t", bytes(16), 0, offset, 1), 1.0)
    leader.replica.log.advance_high_watermark(8)
    leader.replica.log.advance_log_start(5)
    assert not leader.replica.record_fetch(1, FetchInfo("t", bytes(16), 0, 4, 1), 1.0)
    assert leader.replica.followers[1].log_end_offset == -1


@pytest.mark.parametrize(("pending", "error"), [(None, True), (frozenset({0, 1}), False)])
def test_pending_isr_expansion_counts_for_min_insync_replicas(
    pending: frozenset[int] | None, error: bool
) -> None:
    """The check of acks=all after replication counts the members of a pending ISR."""
    leader = Leader(0, min_isr=2)
    leader.replica.pending_isr = pending
    assert (len(leader.replica.maximal_isr) < leader.replica.min_isr) is error


@pytest.mark.parametrize(
    ("epoch", "is_fenced", "can_join"),
    [(5, False, True), (-1, False, True), (4, False, False), (5, True, False)],
)
def test_follower_joins_the_isr_only_with_the_broker_epoch_of_its_fetch(
    epoch: int, is_fenced: bool, can_join: bool
) -> None:
    """It can have lost its records before it registered again (KIP-903)."""
    brokers = {one: BrokerImage(one, "h", 9, None, 5, is_fenced and one == 2) for one in range(3)}
    hosted = HostedReplicas(0, ClusterImage(1, "c", brokers, {}, {}))
    manager = IsrManager(hosted, MAX_LAG, lambda request, version, on_response, now: None)
    leader = Leader(0, 1)
    leader.fetched(1, 10)
    leader.fetched(2, 10)
    leader.replica.followers[2].broker_epoch = epoch
    manager.expand([leader.replica], 1.0)
    assert leader.replica.pending_isr == (frozenset({0, 1, 2}) if can_join else None)


@pytest.mark.parametrize(("shuts_down", "epoch", "expected"), [(False, 5, 9), (True, 5, 10), (False, 4, 10)])
def test_high_watermark_ignores_followers_ineligible_for_the_isr(
    shuts_down: bool, epoch: int, expected: int
) -> None:
    """Kafka's isReplicaIsrEligible excludes brokers in controlled shutdown and former registrations."""
    brokers = {
        one: BrokerImage(one, "h", 9, None, 5, is_fenced=False, is_shutting_down=shuts_down and one == 2)
        for one in range(3)
    }
    hosted = HostedReplicas(0, ClusterImage(1, "c", brokers, {}, {}))
    manager = IsrManager(hosted, MAX_LAG, lambda request, version, on_response, now: None)
    leader = Leader(0, 1)
    leader.fetched(1, 10)
    leader.fetched(2, 10)
    leader.replica.followers[2].log_end_offset = 9
    leader.replica.followers[2].broker_epoch = epoch
    manager.advance_high_watermark(leader.replica, 1.0)
    assert leader.replica.high_watermark == expected


def test_follower_without_the_leaders_epoch_truncates_to_its_own_previous_epoch() -> None:
    """It has epochs 0 and 3, and the leader responds that the logs diverge in epoch 2. It truncates all of
    epoch 3, whatever end the leader returns; otherwise it would get the same response for ever.
    """
    leader = Leader(0)
    leader.replica.log.append_as_leader(parse_batch(batch()), 3)
    for _ in range(9):
        leader.replica.log.append_as_leader(parse_batch(batch()), 3)
    FollowerFetchers._truncate(cast("FollowerFetchers", None), leader.replica, 2, 15)
    assert leader.replica.log.log_end_offset == 10
    FollowerFetchers._truncate(cast("FollowerFetchers", None), leader.replica, 0, 7)
    assert leader.replica.log.log_end_offset == 7


def expand_isr(leader: Leader, error: int) -> IsrManager:
    """Let broker 2 reach the log end, request its ISR membership, and respond with an error."""
    brokers = {one: BrokerImage(one, "h", 9, None, 5, False) for one in range(3)}
    hosted = HostedReplicas(0, ClusterImage(1, "c", brokers, {}, {}))
    sent: list[tuple[AlterPartitionRequest, Callable[[Any, float], None]]] = []
    manager = IsrManager(
        hosted, MAX_LAG, lambda request, version, on_response, now: sent.append((request, on_response))
    )
    leader.fetched(1, 10)
    leader.fetched(2, 10)
    manager.expand([leader.replica], 1.0)
    leader.replica.followers[2].log_end_offset = 4  # it has not fetched the records since then
    leader.replica.followers[2].mark_lagging()
    ((request, on_response),) = sent
    (topic,) = request.topics
    result = AlterPartitionResponsePartitionData(
        partition_index=0, error_code=error, leader_id=-1, leader_epoch=-1, isr=[], partition_epoch=-1
    )
    on_response(
        AlterPartitionResponse(
            topics=[AlterPartitionResponseTopicData(topic_id=topic.topic_id, partitions=[result])]
        ),
        1.0,
    )
    return manager


@pytest.mark.parametrize(
    "error",
    [FencedLeaderEpoch, InvalidUpdateVersion, InvalidRequest, UnknownTopicId, NotController],
    ids=lambda one: one.__name__,
)
def test_rejected_isr_expansion_still_limits_the_high_watermark_until_new_metadata(
    error: type[BrokerError],
) -> None:
    """The follower can be in the ISR, and even the leader (seed 1029 of the simulated producers)."""
    leader = Leader(0, 1)
    expand_isr(leader, error.code)
    assert leader.high_watermark() == 4
    leader.replica.lead(attrs.evolve(leader.replica.image, partition_epoch=1), 2.0)
    assert leader.high_watermark() == 10, "the metadata has the ISR"


def test_ineligible_follower_does_not_limit_the_high_watermark() -> None:
    leader = Leader(0, 1)
    expand_isr(leader, IneligibleReplica.code)
    assert leader.high_watermark() == 10
