"""Puts together what only a consumer with a group_id has: commits, committed offsets, and the membership.

Caller's thread, once, when the consumer is made; the parts know each other only by what is handed in here.
"""

from __future__ import annotations

from typing import Self

import attrs

from pykafka2.cluster.client import ClusterClient
from pykafka2.consumer.assignors.lookup import read_assignors
from pykafka2.consumer.commits import Commits
from pykafka2.consumer.committed import CommittedOffsets, Resume
from pykafka2.consumer.committer import Committer
from pykafka2.consumer.group_identity import GroupStanding
from pykafka2.consumer.handover import Handover
from pykafka2.consumer.membership import Membership
from pykafka2.consumer.offered_assignors import OfferedAssignors
from pykafka2.consumer.options import ConsumerOptions
from pykafka2.consumer.rebalance import Rebalance
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
    membership: Membership
    rebalance: Rebalance

    @classmethod
    def build(
        cls,
        options: ConsumerOptions,
        cluster: ClusterClient,
        subscription: Subscription,
        undelivered: Undelivered,
    ) -> Self:
        """Raises `ConfigurationError` for an assignor that nobody knows."""
        standing = GroupStanding(options.group_id or "")
        assignors = OfferedAssignors(
            read_assignors(options.partition_assignment_strategy), options.client_rack
        )
        commits = Commits(cluster, standing)
        committer = Committer(options, cluster, subscription, undelivered, standing, commits)
        committed = CommittedOffsets(cluster, standing.group_id)
        membership = Membership(options, cluster, standing, assignors.assignors, assignors.protocol)
        handover = Handover(options, cluster, subscription, undelivered, membership.polls, committer)
        cluster.add(commits, membership)
        return cls(
            standing,
            commits,
            committer,
            committed,
            Resume(committed, subscription),
            membership,
            Rebalance(options, cluster, subscription, standing, membership, handover, assignors),
        )
