"""Builds the parts that only a consumer with a group_id has: commits, committed offsets, and the membership.

Runs once on the caller's thread, when the consumer is created. The parts get their references to each other
here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

from pykafka2.cluster.client import ClusterClient
from pykafka2.consumer.assignors.registry import read_assignors
from pykafka2.consumer.commit.commit_queue import CommitQueue
from pykafka2.consumer.commit.committer import Committer, IsOfOldTopic
from pykafka2.consumer.commit.offset_fetch import CommittedOffsets
from pykafka2.consumer.commit.start_positions import StartPositions
from pykafka2.consumer.group.classic.membership import Membership
from pykafka2.consumer.group.classic.rebalance import OfferedAssignors, Rebalance
from pykafka2.consumer.group.kip848.membership import ConsumerMembership
from pykafka2.consumer.group.kip848.reconciliation import Reconciliation
from pykafka2.consumer.group.owned_partitions import OwnedPartitions
from pykafka2.consumer.group.task import GroupProtocol, GroupTask
from pykafka2.consumer.interceptors import Interceptors
from pykafka2.consumer.options import CONSUMER, ConsumerOptions
from pykafka2.consumer.state.group_identity import GroupStatus
from pykafka2.consumer.state.iteration_queue import IterationQueue
from pykafka2.consumer.state.poll_interval import PollClock
from pykafka2.consumer.state.subscription import Subscription
from pykafka2.metrics import Metrics
from pykafka2.protocol.registry import ApiKey
from pykafka2.slotted import slotted


@slotted(frozen=True, eq=False)
class Group:
    """The group-related parts of one consumer."""

    group_status: GroupStatus
    commits: CommitQueue
    committer: Committer
    committed: CommittedOffsets
    resume: StartPositions
    membership: Membership | ConsumerMembership
    rebalance: GroupTask

    @classmethod
    def build(
        cls,
        options: ConsumerOptions,
        cluster: ClusterClient,
        subscription: Subscription,
        iteration_queue: IterationQueue,
        interceptors: Interceptors,
        is_of_old_topic: IsOfOldTopic,
    ) -> Self:
        """Build the parts.  Raise `ConfigurationError` for an unknown assignor."""
        group_status = GroupStatus(options.group_id or "")
        _time_requests(cluster.metrics, is_classic=options.group_protocol != CONSUMER)
        commits = CommitQueue(cluster, group_status)
        committer = Committer(
            options,
            cluster,
            subscription,
            iteration_queue,
            group_status,
            commits,
            interceptors,
            is_of_old_topic,
        )
        committed = CommittedOffsets(cluster, group_status)

        def owned_partitions(polls: PollClock) -> OwnedPartitions:
            return OwnedPartitions(
                options, cluster, subscription, iteration_queue, polls, committer, interceptors
            )

        make = _kip848 if options.group_protocol == CONSUMER else _classic
        membership, moves, protocol = make(options, cluster, subscription, group_status, owned_partitions)
        cluster.add(commits, membership)
        rebalance = GroupTask(
            group_status.group_id, cluster, subscription, group_status, membership, moves, protocol
        )
        resume = StartPositions(committed, subscription)
        return cls(group_status, commits, committer, committed, resume, membership, rebalance)


def _time_requests(metrics: Metrics, *, is_classic: bool) -> None:
    heartbeats = metrics.series("heartbeat-response-time")
    metrics.latencies.update(
        {
            ApiKey.HEARTBEAT: heartbeats,
            ApiKey.CONSUMER_GROUP_HEARTBEAT: heartbeats,
            ApiKey.OFFSET_COMMIT: metrics.series("commit-latency"),
        }
    )
    if is_classic:
        metrics.latencies_of_successes.update(
            {
                ApiKey.JOIN_GROUP: metrics.series("join-time"),
                ApiKey.SYNC_GROUP: metrics.series("sync-time"),
            }
        )


def _classic(
    options: ConsumerOptions,
    cluster: ClusterClient,
    subscription: Subscription,
    group_status: GroupStatus,
    owned_partitions: Callable[[PollClock], OwnedPartitions],
) -> tuple[Membership, OwnedPartitions, GroupProtocol]:
    assignors = OfferedAssignors(read_assignors(options.partition_assignment_strategy), options.client_rack)
    member = Membership(options, cluster, group_status, assignors.assignors, assignors.protocol)
    moves = owned_partitions(member.polls)
    return member, moves, Rebalance(options, cluster, subscription, member, moves, assignors)


def _kip848(
    options: ConsumerOptions,
    cluster: ClusterClient,
    subscription: Subscription,
    group_status: GroupStatus,
    owned_partitions: Callable[[PollClock], OwnedPartitions],
) -> tuple[ConsumerMembership, OwnedPartitions, GroupProtocol]:
    member = ConsumerMembership(options, cluster, group_status)
    moves = owned_partitions(member.polls)
    return member, moves, Reconciliation(cluster, subscription, member, moves)
