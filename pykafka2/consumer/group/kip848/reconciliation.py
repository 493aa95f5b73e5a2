"""The caller's side of a KIP-848 group: reconciles the owned partitions with the target assignment.

Used on the caller's thread by group/task.py. Partitions that are not in the target are revoked first, then
new ones are added, then the result is acknowledged, so that the coordinator can assign the revoked partitions
to other members. Neighbors: membership.py (the driver's side), group/owned_partitions.py (revokes and assigns
partitions, calls the listeners).
"""

from __future__ import annotations

from pykafka2.cluster.client import ClusterClient
from pykafka2.consumer.group.kip848.assignment import Owned, SubscribedTopics, Target, by_id, resolve
from pykafka2.consumer.group.kip848.membership import ConsumerMembership
from pykafka2.consumer.group.kip848.states import MemberState
from pykafka2.consumer.group.owned_partitions import OwnedPartitions
from pykafka2.consumer.group.task import Done
from pykafka2.consumer.state.subscription import Subscription
from pykafka2.errors import IllegalState
from pykafka2.types import TopicPartition

_JOINABLE = (MemberState.UNSUBSCRIBED, MemberState.FENCED, MemberState.STALE, MemberState.LEAVING)


class Reconciliation:
    """Takes one consumer through the assignments of its group (a `GroupProtocol`)."""

    def __init__(
        self,
        cluster: ClusterClient,
        subscription: Subscription,
        membership: ConsumerMembership,
        owned_partitions: OwnedPartitions,
    ) -> None:
        self._metadata = cluster.metadata
        self._subscription = subscription
        self._membership = membership
        self._owned_partitions = owned_partitions
        self._last_join = 0
        """The number of the last join that was requested."""
        self._subscribed: SubscribedTopics | None = None
        """The last subscription for the coordinator; None while this consumer is not a member."""
        self._has_resubscribed = False
        """Whether the subscription has changed since the coordinator rejected this member."""
        self._has_left = False
        """Whether this consumer has left since it last joined, even if the driver's thread has not handled
        that yet."""
        self._ids: dict[TopicPartition, bytes] = {}
        """The topic id of each owned partition, because a topic that was created again is a different one."""
        self._notified = 0
        """The number of the last target for which the listener was called."""
        self._reported: Owned | None = None
        self._settled: tuple[object, ...] = ()
        """The versions at which the last reconciliation found nothing to do."""
        self.unnamed_topics: frozenset[bytes] = frozenset()
        """Ids of assigned topics whose names the metadata does not have yet."""

    # ------------------------------------------------------------------ for group/task.py

    def raise_failure(self) -> None:
        """Raise the error of the membership once; a permanent rejection is raised until the subscription
        changes."""
        member = self._membership
        failure = member.failure
        if failure is None:
            return
        if member.state is not MemberState.FATAL:
            member.failure = None
        elif self._has_resubscribed:
            return
        raise failure.anew()

    def step(self, losses: int) -> bool:
        target = self._membership.target
        if target is not None and not self._has_left and self._reconcile(target, losses):
            return True
        self._send_subscription(losses)
        return False

    def forget(self) -> None:
        self._subscribed = self._reported = None
        self._settled, self._ids = (), {}
        self._await_names(frozenset())

    def subscribed(self) -> bool:
        state = self._membership.state
        self._has_resubscribed = state is MemberState.FATAL
        return state is MemberState.UNSUBSCRIBED

    def enforce(self, reason: str) -> None:
        raise IllegalState(
            "enforce_rebalance() needs group_protocol='classic'; with group_protocol='consumer' the "
            "coordinator reassigns partitions itself when members, subscriptions or topics change"
        )

    def leave(self, reason: str, done: Done, leave: bool | None) -> None:
        """Leave the group; by default a static member leaves temporarily."""
        self._membership.leave(reason, done, leave)
        self._has_left = True  # last: after a Ctrl-C before `leave` this consumer is still a member

    def leaves_at_exit(self) -> bool:
        """Return True: a static member leaves temporarily and keeps its partitions."""
        return True

    # ------------------------------------------------------------------ towards the assignment

    def _reconcile(self, target: Target, losses: int) -> bool:
        """Take one step towards the target; False if it is reached, as far as topic names are known."""
        subscription, held = self._subscription, self._subscription.assigned
        found = (target.number, subscription.topics, self._metadata.version)
        if found == self._settled:
            return False
        names = {topic_id: partition.topic for partition, topic_id in self._ids.items()}
        resolved = resolve(
            target.partitions,
            lambda topic_id: names.get(topic_id) or self._metadata.topic_name(topic_id),
            lambda topic: subscription.remote_pattern is not None or topic in subscription.topics,
        )
        wanted = resolved.partitions
        gone = [partition for partition in held if wanted.get(partition) != self._ids.get(partition)]
        self._settled = ()
        if gone:
            return self._owned_partitions.begin_revocation(gone, of_other_topics=self._of_topics_gone(gone))
        self._ids = {partition: topic_id for partition, topic_id in self._ids.items() if partition in held}
        self._await_names(resolved.unknown)
        new = [partition for partition in wanted if partition not in held]
        if new or (target.number != self._notified and not resolved.unknown):
            self._notified = target.number
            self._ids.update((partition, wanted[partition]) for partition in new)
            self._owned_partitions.begin_assignment(new)
            self._owned_partitions.complete_assignment(new)
            return True
        self._report(Owned(target.number, by_id(self._ids), is_whole=not resolved.unknown), losses)
        self._settled = found
        return False

    def _of_topics_gone(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """Return the partitions whose topic was deleted, and possibly created again under its name.

        If only one broker reports a topic as missing, the metadata keeps its id (cluster/snapshot.py), and
        the positions are still committed.
        """
        return [
            partition
            for partition in partitions
            if self._metadata.topic_id(partition.topic) != self._ids.get(partition)
        ]

    def _report(self, owned: Owned, losses: int) -> None:
        """Acknowledge the owned partitions to the coordinator, if they or the target have changed."""
        before = self._reported
        if before is not None and before.partitions == owned.partitions and not owned.is_whole:
            return
        if before == owned:
            return
        self._membership.reconciled(losses, owned)
        self._reported = owned  # last: a Ctrl-C before `reconciled` must not skip the acknowledgement

    def _await_names(self, unknown: frozenset[bytes]) -> None:
        if unknown != self.unnamed_topics:
            self._metadata.want_topic_ids(unknown)
            self.unnamed_topics = unknown

    # ------------------------------------------------------------------ joining and subscribing

    def _send_subscription(self, losses: int) -> None:
        member, subscription = self._membership, self._subscription
        if member.joins_handled < self._last_join:
            return  # the driver's thread has not handled the last join yet
        if subscription.pattern is not None and not self._metadata.has_all_topics:
            return  # the pattern must be matched against all topics first
        if subscription.remote_pattern is not None:
            subscribed = SubscribedTopics(pattern=subscription.remote_pattern)
        else:
            subscribed = SubscribedTopics(subscription.topics)
        if member.state in _JOINABLE or (member.state is MemberState.FATAL and self._has_resubscribed):
            self._has_resubscribed = False
            number = max(self._last_join, member.joins_handled) + 1
            self._has_left = False
            member.join(number, losses, subscribed)
            self._last_join = number  # last: a Ctrl-C before `join` would leave it waiting forever
        elif subscribed != self._subscribed:
            member.subscribe(subscribed)
        self._subscribed = subscribed
