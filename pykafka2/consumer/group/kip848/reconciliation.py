"""The caller's side of a KIP-848 group: brings what the application owns in line with what is assigned.

Caller's thread only, within group/task.py.  First what the assignment takes away is given up, then what it
brings is taken on, then the coordinator is told, who gives to others what this member has given up.
Neighbours: membership.py (the driver's side), group/owned_partitions.py (moves the partitions, tells the
listeners).
"""

from __future__ import annotations

from pykafka2.cluster.client import ClusterClient
from pykafka2.consumer.group.kip848.assignment import Owned, Target, Wish, by_id, resolve
from pykafka2.consumer.group.kip848.membership import ConsumerMembership
from pykafka2.consumer.group.kip848.states import MemberState
from pykafka2.consumer.group.owned_partitions import OwnedPartitions
from pykafka2.consumer.group.task import Told
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
        self._joins_asked = 0
        self._wish: Wish | None = None
        """What the coordinator was last to be told; None while this is no member."""
        self._subscribed_anew = False
        """Since the coordinator refused this member for good."""
        self._has_left = False
        """Since it last joined: the driver's thread may not have heard of it yet."""
        self._ids: dict[TopicPartition, bytes] = {}
        """The topics' ids of the partitions that are held: a topic made anew is another one."""
        self._told_of = 0
        """The number of the assignment that the listener was told of last."""
        self._reported: Owned | None = None
        self._settled: tuple[object, ...] = ()
        """What the last look at the assignment went by, if it found nothing to do."""
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
        elif self._subscribed_anew:
            return
        raise failure.anew()

    def step(self, losses: int) -> bool:
        target = self._membership.target
        if target is not None and not self._has_left and self._reconcile(target, losses):
            return True
        self._tell_subscription(losses)
        return False

    def forget(self) -> None:
        self._wish = self._reported = None
        self._settled, self._ids = (), {}
        self._await_names(frozenset())

    def subscribed(self) -> bool:
        state = self._membership.state
        self._subscribed_anew = state is MemberState.FATAL
        return state is MemberState.UNSUBSCRIBED

    def enforce(self, reason: str) -> None:
        raise IllegalState(
            "enforce_rebalance() is for groups whose members assign; with group_protocol='consumer' the "
            "coordinator does, by itself, whenever members, subscriptions or topics change"
        )

    def leave(self, reason: str, told: Told, leave: bool | None) -> None:
        """A static member says that it will be back before its session ends."""
        self._membership.leave(reason, told, leave)
        self._has_left = True  # last: who has not said it is a member still, and joins nowhere

    def may_leave_unasked(self) -> bool:
        return True

    # ------------------------------------------------------------------ towards the assignment

    def _reconcile(self, target: Target, losses: int) -> bool:
        """One step towards the assignment; False if it is reached, as far as its topics are known."""
        subscription, held = self._subscription, self._subscription.assigned
        found = (target.number, subscription.topics, self._metadata.version)
        if found == self._settled:
            return False
        names = {topic_id: one.topic for one, topic_id in self._ids.items()}
        resolved = resolve(
            target.partitions,
            lambda topic_id: names.get(topic_id) or self._metadata.topic_name(topic_id),
            lambda topic: subscription.remote_pattern is not None or topic in subscription.topics,
        )
        wanted = resolved.partitions
        gone = [one for one in held if wanted.get(one) != self._ids.get(one)]
        self._settled = ()
        if gone:
            return self._owned_partitions.begin_to_let_go(gone, of_other_topics=self._of_topics_gone(gone))
        self._ids = {one: topic_id for one, topic_id in self._ids.items() if one in held}
        self._await_names(resolved.unknown)
        new = [one for one in wanted if one not in held]
        if new or (target.number != self._told_of and not resolved.unknown):
            self._told_of = target.number
            self._ids.update((one, wanted[one]) for one in new)
            self._owned_partitions.begin_to_take_on(new)
            self._owned_partitions.take_on(new)
            return True
        self._report(Owned(target.number, by_id(self._ids), is_whole=not resolved.unknown), losses)
        self._settled = found
        return False

    def _of_topics_gone(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """Those whose topic was deleted, and perhaps made anew under its name.

        One broker that knows nothing of a topic is doubted (cluster/snapshot.py): its id stays known then, so
        what was handed over is committed.
        """
        return [one for one in partitions if self._metadata.topic_id(one.topic) != self._ids.get(one)]

    def _report(self, owned: Owned, losses: int) -> None:
        """Have the coordinator told, where that is news to it."""
        before = self._reported
        if before is not None and before.partitions == owned.partitions and not owned.is_whole:
            return
        if before == owned:
            return
        self._membership.reconciled(losses, owned)
        self._reported = owned  # last: what is only noted as told keeps the others waiting for it

    def _await_names(self, unknown: frozenset[bytes]) -> None:
        if unknown != self.unnamed_topics:
            self._metadata.want_topic_ids(unknown)
            self.unnamed_topics = unknown

    # ------------------------------------------------------------------ what the coordinator is told

    def _tell_subscription(self, losses: int) -> None:
        member, subscription = self._membership, self._subscription
        if member.joins_handled < self._joins_asked:
            return  # the driver's thread has not looked at the last wish yet
        if subscription.pattern is not None and not self._metadata.has_all_topics:
            return  # what topics there are is not known yet
        if subscription.remote_pattern is not None:
            wish = Wish(pattern=subscription.remote_pattern)
        else:
            wish = Wish(subscription.topics)
        if member.state in _JOINABLE or (member.state is MemberState.FATAL and self._subscribed_anew):
            self._subscribed_anew = False
            number = max(self._joins_asked, member.joins_handled) + 1
            self._has_left = False
            member.join(number, losses, wish)
            self._joins_asked = number  # last: who waits for a join that was not asked for waits for ever
        elif wish != self._wish:
            member.subscribe(wish)
        self._wish = wish
