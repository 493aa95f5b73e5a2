"""The leader's part of a classic group: assigns partitions, and starts a rebalance if topics get partitions
or if a revoked partition has no owner.

Owned by membership.py, on the driver's thread; assignors run on a helper thread, as they may take long and
heartbeats must not wait.  Members' topics are kept in the metadata for as long as this member leads.
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
from pykafka2.errors import InconsistentGroupProtocol, KafkaError
from pykafka2.logs import ClientLogger
from pykafka2.network.script import Script, wait
from pykafka2.protocol.messages.group import JoinGroupResponse, SyncGroupRequestAssignment
from pykafka2.protocol.messages.group_admin import DescribeGroupsRequest
from pykafka2.text import named, shown
from pykafka2.types import TopicPartition

# Topics that only other members read must be heard of before they can be assigned.
LOOK_EVERY = 0.02
LONGEST_LOOK = 10.0
STABLE = "Stable"


class GroupLeader:
    """The leader's part of one member."""

    def __init__(
        self,
        options: ConsumerOptions,
        metadata: Metadata,
        clock: Clock,
        assignors: Sequence[Assignor],
        protocol: RebalanceProtocol,
    ) -> None:
        self.topics: frozenset[str] = frozenset()
        """What the members of the group read, while this one leads; else nothing."""
        self._group_id = options.group_id or ""
        self._patience = options.session_timeout
        self._log = ClientLogger(__name__, options.client_id)
        self._metadata = metadata
        self._clock = clock
        self._assignors = {assignor.name: assignor for assignor in assignors}
        self._protocol = protocol
        self._counts: dict[str, int] = {}
        self._looked_at = -1
        self._moving: frozenset[TopicPartition] = frozenset()
        """What its owner is to give up, so that the next rebalance can give it to another."""
        self._moving_since = 0.0

    def lead(self, joined: JoinGroupResponse) -> Script[list[SyncGroupRequestAssignment]]:
        """Assign the partitions of all topics; what SyncGroup is to carry.

        A static leader that came back may be told to leave the assignment as it is (KIP-814): it only watches
        the topics again.
        """
        name = joined.protocol_name or ""
        assignor = self._assignors.get(name)
        if assignor is None:
            raise InconsistentGroupProtocol(
                f"the coordinator chose the assignor {shown(repr(name), 100)}, which was not offered"
            )
        members = {
            member.member_id: read_subscription(bytes(member.metadata), member.group_instance_id)
            for member in joined.members
        }
        yield from self._learn(members)
        if joined.skip_assignment:
            assigned = yield from self._look_at_assignment()
            counts = {topic: self._count(topic) for topic in self.topics}
            self._counts = counts if assigned is None else {topic: assigned[topic] for topic in self.topics}
            self._looked_at = -1  # topics may have come or grown before it came back
            return []
        snapshot = self._metadata.snapshot
        self._counts = {topic: self._count(topic) for topic in self.topics}
        self._looked_at = snapshot.version
        cluster = cluster_metadata(snapshot, self.topics)
        shares = yield from offloaded(lambda: group_assignment(assignor, self._protocol, cluster, members))
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

    def resign(self) -> None:
        """This member leads no more, or does not know yet whether it will."""
        self.topics = frozenset()
        self._counts = {}
        self._moving = frozenset()

    def keep_topics(self, now: float) -> None:
        """Have the metadata of all members' topics kept."""
        for topic in self.topics:
            self._metadata.want_topic(topic, now)

    def news(self, now: float) -> str:
        """Return why the group must rebalance, in words: changed partition counts, or partitions without an
        owner since a member had to revoke them.

        The owner asks for that rebalance itself.  A static one that came back meanwhile does not: it got what
        was left to it without one, and has nothing to give up (KIP-345).
        """
        if self._moving and now >= self._moving_since + self._patience:
            unread, self._moving = named(sorted(self._moving)), frozenset()
            return f"nobody has {unread}, and who was to give them up has said nothing"
        if not self.topics or self._metadata.version == self._looked_at:
            return ""
        self._looked_at = self._metadata.version
        for topic in sorted(self.topics):
            before, count = self._counts.get(topic, 0), self._count(topic)
            if count != before:
                return f"topic {topic!r} has {count} partitions now, and had {before}"
        return ""

    def _look_at_assignment(self) -> Script[Counter[str] | None]:
        """How many partitions of each topic the group's assignment has; None where nobody tells."""
        try:
            request = DescribeGroupsRequest(groups=[self._group_id])
            response = yield from call_to(request, timeout=LONGEST_LOOK)
            group = next((one for one in response.groups if one.group_state == STABLE), None)
            if group is None:
                return None
            partitions = {
                partition
                for member in group.members
                for partition in read_assignment(bytes(member.member_assignment)).partitions
            }
        except KafkaError as error:
            self._log.info("group %r: what is assigned now is not known: %s", self._group_id, error)
            return None
        return Counter(partition.topic for partition in partitions)

    def _learn(self, members: Mapping[str, MemberSubscription]) -> Script[None]:
        self.topics = frozenset(topic for member in members.values() for topic in member.topics)
        for _ in range(int(LONGEST_LOOK / LOOK_EVERY)):
            self.keep_topics(self._clock.monotonic())
            if all(self._metadata.topic(topic) is not None for topic in self.topics):
                return
            yield from wait(LOOK_EVERY)

    def _count(self, topic: str) -> int:
        return self._metadata.partition_count(topic) or 0
