"""Puts together what only a consumer with a group_id has: commits, committed offsets, and the membership.

Caller's thread, once, when the consumer is made; the parts know each other only by what is handed in here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

import attrs

from pykafka2.cluster.client import ClusterClient
from pykafka2.consumer.assignors.lookup import read_assignors
from pykafka2.consumer.commits import Commits
from pykafka2.consumer.committed import CommittedOffsets
from pykafka2.consumer.committer import Committer, IsOfOldTopic
from pykafka2.consumer.group_identity import GroupStanding
from pykafka2.consumer.group_options import CONSUMER
from pykafka2.consumer.group_task import GroupProtocol, GroupTask
from pykafka2.consumer.handover import Handover
from pykafka2.consumer.interceptors import Interceptors
from pykafka2.consumer.kip848.membership import ConsumerMembership
from pykafka2.consumer.kip848.reconciliation import Reconciliation
from pykafka2.consumer.membership import Membership
from pykafka2.consumer.offered_assignors import OfferedAssignors
from pykafka2.consumer.options import ConsumerOptions
from pykafka2.consumer.poll_clock import PollClock
from pykafka2.consumer.rebalance import Rebalance
from pykafka2.consumer.resume import Resume
from pykafka2.consumer.subscription import Subscription
from pykafka2.consumer.undelivered import Undelivered


@attrs.define(frozen=True, eq=False)
class GroupParts:
    """The parts, for the consumer's calls."""

    standing: GroupStanding
    commits: Commits
    committer: Committer
    committed: CommittedOffsets
    resume: Resume
    membership: Membership | ConsumerMembership
    rebalance: GroupTask

    @classmethod
    def build(
        cls,
        options: ConsumerOptions,
        cluster: ClusterClient,
        subscription: Subscription,
        undelivered: Undelivered,
        interceptors: Interceptors,
        is_of_old_topic: IsOfOldTopic,
    ) -> Self:
        """Raises `ConfigurationError` for an assignor that nobody knows."""
        standing = GroupStanding(options.group_id or "")
        commits = Commits(cluster, standing)
        committer = Committer(
            options, cluster, subscription, undelivered, standing, commits, interceptors, is_of_old_topic
        )
        committed = CommittedOffsets(cluster, standing)

        def handover(polls: PollClock) -> Handover:
            return Handover(options, cluster, subscription, undelivered, polls, committer)

        make = _by_coordinator if options.group_protocol == CONSUMER else _classic
        membership, moves, protocol = make(options, cluster, subscription, standing, handover)
        cluster.add(commits, membership)
        rebalance = GroupTask(standing.group_id, cluster, subscription, standing, membership, moves, protocol)
        resume = Resume(committed, subscription)
        return cls(standing, commits, committer, committed, resume, membership, rebalance)


def _classic(
    options: ConsumerOptions,
    cluster: ClusterClient,
    subscription: Subscription,
    standing: GroupStanding,
    handover: Callable[[PollClock], Handover],
) -> tuple[Membership, Handover, GroupProtocol]:
    assignors = OfferedAssignors(read_assignors(options.partition_assignment_strategy), options.client_rack)
    member = Membership(options, cluster, standing, assignors.assignors, assignors.protocol)
    moves = handover(member.polls)
    return member, moves, Rebalance(options, cluster, subscription, member, moves, assignors)


def _by_coordinator(
    options: ConsumerOptions,
    cluster: ClusterClient,
    subscription: Subscription,
    standing: GroupStanding,
    handover: Callable[[PollClock], Handover],
) -> tuple[ConsumerMembership, Handover, GroupProtocol]:
    member = ConsumerMembership(options, cluster, standing)
    moves = handover(member.polls)
    return member, moves, Reconciliation(cluster, subscription, member, moves)
