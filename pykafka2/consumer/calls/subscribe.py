"""The calls of `KafkaConsumer` about subscriptions and assignments.

Used on the caller's thread. Rebalances run inside poll(), in group/.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pykafka2.cluster.arguments import checked_partitions, checked_topic
from pykafka2.consumer.core import Owned, owned
from pykafka2.consumer.group.listeners import Callback, listeners_of
from pykafka2.consumer.state.subscription import Mode, topic_pattern
from pykafka2.errors import ConfigurationError, IllegalArgument, IllegalState
from pykafka2.types import SubscriptionPattern, TopicPartition

if TYPE_CHECKING:
    pass

# Seconds for unsubscribe() to commit and to leave the group.
LEAVE_TIMEOUT = 5.0

# The reason of `enforce_rebalance`, which JoinGroup has.
REBALANCE_REASON = "the application asked for it"


class SubscriptionCalls(Owned):
    """Mixed into the consumer."""

    @owned
    def subscribe(
        self,
        topics: Iterable[str] = (),
        pattern: str | re.Pattern[str] | SubscriptionPattern | None = None,
        listener: Any = None,
        *,
        on_assigned: Callback | None = None,
        on_revoked: Callback | None = None,
        on_lost: Callback | None = None,
    ) -> None:
        """Subscribe to topics, including partitions that are added later.

        With a group_id the members of the group share the partitions, and `poll` takes part in rebalances.
        Without one, all partitions are read.  Replace an earlier subscription and its listener; partitions
        of topics in both keep their positions.  An empty list works like `unsubscribe`.

        Args:
            topics: a list of names.
            pattern: a regular expression instead of names, matched from the start of the name
                (`re.match`).  New topics are found at most metadata_max_age_ms after their creation.  With
                group_protocol='consumer' the brokers can match it: pass a `SubscriptionPattern`, which
                has RE2's syntax and must match the whole name.
            listener: an object with `on_partitions_assigned(partitions)`, `on_partitions_revoked(partitions)`
                and `on_partitions_lost(partitions)`, see `ConsumerRebalanceListener`.
            on_assigned: a function of the partitions, instead of a listener.
            on_revoked: a function of the partitions.
            on_lost: a function of the partitions; the default is `on_revoked`.

        Raises:
            IllegalState: partitions are assigned by `assign`, or topics and a pattern are given.
            ConfigurationError: a listener without a group_id, because it would never be called; or a
                `SubscriptionPattern` without group_protocol='consumer'.
            IllegalArgument: topics is not a list, or the pattern or the listener is invalid.
        """
        names = _checked_names(topics)
        if pattern is not None and names:
            raise IllegalState("subscribe() takes either topics or a pattern, not both")
        listeners = listeners_of(listener, on_assigned, on_revoked, on_lost)
        if self._core.group is None and (listener or on_assigned or on_revoked or on_lost):
            raise ConfigurationError(
                "subscribe(): a listener is called only in a group; set group_id, or leave the listener out"
            )
        is_remote = isinstance(pattern, SubscriptionPattern)
        if isinstance(pattern, SubscriptionPattern):
            self._check_remote_pattern(pattern)
            self._core.subscription.subscribe_to_remote_pattern(pattern.pattern)
        elif pattern is not None:
            named = topic_pattern(pattern, hides_internal=self._core.options.exclude_internal_topics)
            self._core.subscription.subscribe_to_pattern(named)
            self._core.subscription.match(self._core.cluster.metadata.snapshot)
        elif names:
            self._core.subscription.subscribe(names)
        else:
            self.unsubscribe()
            return
        self._core.cluster.metadata.want_all_topics(pattern is not None and not is_remote)
        if self._core.group is not None:
            self._core.group.rebalance.subscribed(listeners)
        else:
            topics_now = self._core.subscription.topics
            self._release([p for p in self._core.subscription.assigned if p.topic not in topics_now])

    @owned
    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions, without joining a group.

        Partitions that were assigned before keep their positions.  With enable_auto_commit, the offsets of
        removed partitions are committed in the background.  An empty list works like `unsubscribe`.

        Raises:
            IllegalState: topics are subscribed to.
        """
        wanted = checked_partitions(partitions)
        if wanted:
            self._assign(wanted)
        else:
            self.unsubscribe()

    def _assign(self, wanted: list[TopicPartition]) -> None:
        if self._core.group is not None and self._core.subscription.mode is Mode.PARTITIONS:
            stays = frozenset(wanted)
            self._core.group.committer.leave(
                [partition for partition in self._core.subscription.assigned if partition not in stays]
            )
        change = self._core.subscription.assign(wanted)
        self._core.iteration_queue.forget(change.removed)
        self._core.position_control.send_changes()

    @owned
    def incremental_assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Add partitions to the assignment; the others keep their positions.

        Raises:
            IllegalState: topics are subscribed to.
        """
        wanted = checked_partitions(partitions)
        self._assign(list(dict.fromkeys([*self._core.subscription.assigned, *wanted])))

    @owned
    def incremental_unassign(self, partitions: Iterable[TopicPartition]) -> None:
        """Remove partitions from the assignment; their offsets are committed as by `assign`.

        Raises:
            IllegalState: topics are subscribed to, or a partition is not assigned; nothing is removed.
        """
        going = dict.fromkeys(checked_partitions(partitions))
        if self._core.subscription.mode is not Mode.TOPICS:
            for partition in going:
                self._core.subscription.find(partition)
        self._assign([partition for partition in self._core.subscription.assigned if partition not in going])

    @owned
    def unsubscribe(self) -> None:
        """Remove the subscription or assignment, and the positions.

        A member of a group commits (with enable_auto_commit), calls its listener and leaves the group,
        which takes at most 5 s.
        """
        reason = "the consumer unsubscribed"
        try:
            if self._core.group is not None:
                self._core.group.rebalance.end(reason, LEAVE_TIMEOUT, commit=True)
        except BaseException as error:
            if self._core.group is not None:
                self._core.group.rebalance.leave_if_interrupted(error, reason)
            raise
        finally:
            self._core.cluster.metadata.want_all_topics(False)
            if self._core.group is not None:
                self._core.group.committer.leave(list(self._core.subscription.assigned))
            removed = self._core.subscription.unsubscribe().removed
            self._core.iteration_queue.forget(removed)
            self._core.position_control.send_changes()

    @owned
    def assignment(self) -> set[TopicPartition]:
        """Return the assigned partitions; empty after `subscribe` until a read has joined the group."""
        return set(self._core.subscription.assigned)

    @owned
    def subscription(self) -> set[str]:
        """Return the subscribed topics, including those that match the pattern; empty after `assign`."""
        return set(self._core.subscription.topics)

    @owned
    def enforce_rebalance(self, reason: str = REBALANCE_REASON) -> None:
        """Join the group again with the next `poll`, which can start a rebalance.

        The coordinator starts one if the member is the leader, or if its subscription changed (KIP-568).

        Raises:
            IllegalState: no topics are subscribed to, there is no group_id, or group_protocol='consumer',
                where the coordinator decides.
        """
        if self._core.group is None:
            raise IllegalState(
                "enforce_rebalance() needs a member of a group; set group_id, and call subscribe()"
            )
        self._core.group.rebalance.enforce(reason)

    # ------------------------------------------------------------------ inside

    def _check_remote_pattern(self, pattern: SubscriptionPattern) -> None:
        from pykafka2.consumer.options import CONSUMER  # loaded by the constructor

        if self._core.options.group_protocol != CONSUMER or self._core.group is None:
            raise ConfigurationError(
                f"subscribe(): pattern={pattern!r} is resolved by the coordinator of a group with "
                "group_protocol='consumer'; set that and group_id, or pass pattern=re.compile(...)"
            )
        if not isinstance(pattern.pattern, str) or not pattern.pattern:
            raise IllegalArgument(f"subscribe(): pattern={pattern!r} must not be empty")

    def _release(self, partitions: list[TopicPartition]) -> None:
        """Unassign partitions that a new subscription does not contain."""
        self._core.subscription.remove_partitions(partitions)
        self._core.iteration_queue.forget(partitions)
        self._core.position_control.send_changes()


def _checked_names(topics: object) -> list[str]:
    """Return the topics as a list of names; reject a string, which would be split into characters."""
    if topics is None:
        return []
    if isinstance(topics, (str, bytes)) or not isinstance(topics, Iterable):
        meant = f"write subscribe([{topics!r}])" if isinstance(topics, str) else "such as ['orders']"
        meant = f"write subscribe(pattern={topics!r})" if isinstance(topics, re.Pattern) else meant
        raise IllegalArgument(f"subscribe(): topics={topics!r} must be a list of names: {meant}")
    names = [checked_topic(name) for name in topics]
    for name in names:
        if name.startswith("^"):  # never legal in a name: confluent-kafka's sign of a pattern
            raise IllegalArgument(
                f"subscribe(): {name!r} is not a valid name; for a pattern write subscribe(pattern={name!r})"
            )
    return names
