"""The group leader's duties: assigns partitions, and requests a rebalance if partitions are added to a topic
or a revoked partition has no owner.

Owned by membership.py, on the driver's thread. Assignors run on a helper thread, because they can take long
and must not delay heartbeats. The metadata keeps the topics of all members while this member leads.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from pykafka2.clock import Clock
from pykafka2.cluster.metadata import Metadata
from pykafka2.consumer.assignors.assignor import (
    Assignor,
    MemberSubscription,
    RebalanceProtocol,
    cluster_metadata,
    group_assignment,
)
from pykafka2.consumer.assignors.wire_format import assignment_bytes, read_assignment, read_subscription
from pykafka2.consumer.options import ConsumerOptions
from pykafka2.driver.script_runner import call_to, offloaded
from pykafka2.errors import AssignorFailed, InconsistentGroupProtocol, KafkaError
from pykafka2.logs import ClientLogger
from pykafka2.network.script import Lane, Script, wait
from pykafka2.protocol.messages.group import JoinGroupResponse, SyncGroupRequestAssignment
from pykafka2.protocol.messages.group_admin import DescribeGroupsRequest
from pykafka2.text import named, shown
from pykafka2.types import TopicPartition

# Topics that only other members read must be in the metadata before they can be assigned.
CHECK_INTERVAL = 0.02
METADATA_TIMEOUT = 10.0
STABLE = "Stable"


class GroupLeader:
    """The leader's duties of one member."""

    def __init__(
        self,
        options: ConsumerOptions,
        metadata: Metadata,
        clock: Clock,
        assignors: Sequence[Assignor],
        protocol: RebalanceProtocol,
    ) -> None:
        self.topics: frozenset[str] = frozenset()
        """The topics of all members while this one leads; otherwise empty."""
        self._group_id = options.group_id or ""
        self._patience = options.session_timeout
        self._max_poll_interval = options.max_poll_interval
        self._log = ClientLogger(__name__, options.client_id)
        self._metadata = metadata
        self._clock = clock
        self._assignors = {assignor.name: assignor for assignor in assignors}
        self._protocol = protocol
        self._counts: dict[str, int] = {}
        self._checked_version = -1
        """The version of the metadata that the partition counts were last compared with."""
        self._moving: frozenset[TopicPartition] = frozenset()
        """Partitions that their owners must revoke, so that the next rebalance can assign them to others."""
        self._moving_since = 0.0

    def lead(self, joined: JoinGroupResponse) -> Script[list[SyncGroupRequestAssignment]]:
        """Assign the partitions of all topics; return the assignments for SyncGroup.

        For a static leader that has returned, the coordinator can request to skip the assignment (KIP-814);
        then the leader only watches the topics again.
        """
        name = joined.protocol_name or ""
        assignor = self._assignors.get(name)
        if assignor is None:
            raise InconsistentGroupProtocol(
                f"the coordinator chose assignor {shown(repr(name), 100)}, which this member did not offer"
            )
        members = {
            member.member_id: read_subscription(bytes(member.metadata), member.group_instance_id)
            for member in joined.members
        }
        yield from self._await_topics(members)
        if joined.skip_assignment:
            assigned = yield from self._count_assigned()
            counts = {topic: self._count(topic) for topic in self.topics}
            self._counts = counts if assigned is None else {topic: assigned[topic] for topic in self.topics}
            self._checked_version = -1  # topics can have been added or grown while it was away
            return []
        snapshot = self._metadata.snapshot
        self._counts = {topic: self._count(topic) for topic in self.topics}
        self._checked_version = snapshot.version
        cluster = cluster_metadata(snapshot, self.topics)
        # A custom assignor can take long, or never return.
        shares = yield from offloaded(
            lambda: group_assignment(assignor, self._protocol, cluster, members),
            Lane.ASSIGNING,
            self._max_poll_interval,
            lambda: self._overdue(name),
        )
        claimed = {partition for member in members.values() for partition in member.owned}
        self._moving = frozenset(
            claimed.difference(*(share.partitions for share in shares.values()))
            if self._protocol is RebalanceProtocol.COOPERATIVE
            else ()
        )
        self._moving_since = self._clock.monotonic()
        return [
            SyncGroupRequestAssignment(member_id=member_id, assignment=assignment_bytes(assignment))
            for member_id, assignment in sorted(shares.items())
        ]

    def _overdue(self, assignor: str) -> KafkaError:
        return AssignorFailed(
            f"assignor {assignor!r}: assign() did not return within {self._max_poll_interval:g} s "
            "(max_poll_interval_ms), after which the coordinator removes the leader from the group"
        )

    def resign(self) -> None:
        """Stop leading: this member is no longer the leader, or is rejoining."""
        self.topics = frozenset()
        self._counts = {}
        self._moving = frozenset()

    def keep_topics(self) -> None:
        """Keep the metadata of all members' topics, and of no others.

        A request for a topic that no member reads any more would create it again after its deletion.
        """
        self._metadata.pin_topics_of_group(self.topics)

    def news(self, now: float) -> str:
        """Return why the group must rebalance: a changed partition count, or revoked partitions that still
        have no owner.

        Normally the previous owner rejoins after it has revoked them. A static member that has restarted
        does not: it got its new assignment without a rebalance and had nothing to revoke (KIP-345).
        """
        if self._moving and now >= self._moving_since + self._patience:
            unowned, self._moving = named(sorted(self._moving)), frozenset()
            return f"no member owns {unowned}, and the previous owner has not rejoined"
        if not self.topics or self._metadata.version == self._checked_version:
            return ""
        self._checked_version = self._metadata.version
        for topic in sorted(self.topics):
            before, count = self._counts.get(topic, 0), self._count(topic)
            if count != before:
                return f"topic {topic!r} has {count} partitions now, and had {before} before"
        return ""

    def _count_assigned(self) -> Script[Counter[str] | None]:
        """Return how many partitions of each topic the group has assigned; None if that is unknown."""
        try:
            request = DescribeGroupsRequest(groups=[self._group_id])
            response = yield from call_to(request, timeout=METADATA_TIMEOUT)
            stable = (group for group in response.groups if group.group_state == STABLE)
            group = next(stable, None)
            if group is None:
                return None
            partitions = {
                partition
                for member in group.members
                for partition in read_assignment(bytes(member.member_assignment)).partitions
            }
        except KafkaError as error:
            self._log.info("group %r: reading the current assignment failed: %s", self._group_id, error)
            return None
        return Counter(partition.topic for partition in partitions)

    def _await_topics(self, members: Mapping[str, MemberSubscription]) -> Script[None]:
        self.topics = frozenset(topic for member in members.values() for topic in member.topics)
        for _ in range(int(METADATA_TIMEOUT / CHECK_INTERVAL)):
            self.keep_topics()
            if all(self._metadata.topic(topic) is not None for topic in self.topics):
                return
            yield from wait(CHECK_INTERVAL)

    def _count(self, topic: str) -> int:
        return self._metadata.partition_count(topic) or 0
