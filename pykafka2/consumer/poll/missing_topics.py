"""Sees to it that a consumer whose topics cannot be read says so instead of waiting for ever.

Caller's thread, inside poll().  A topic that does not exist (yet), or brokers that nobody has reached, are
waited for as long as `default_api_timeout`; what no waiting will cure is raised at once.
"""

from __future__ import annotations

import logging

from pykafka2.clock import FOREVER
from pykafka2.cluster.client import ClusterClient
from pykafka2.consumer.state.subscription import Mode, Subscription
from pykafka2.errors import KafkaError, KafkaTimeoutError, UnknownTopicOrPartition
from pykafka2.types import TopicPartition

logger = logging.getLogger(__name__)

WARN_EVERY = 60.0
# A client that has just been made, or a connection lost for a moment, is not worth a warning.
UNREACHABLE_FOR = 1.0
# While brokers are connected, whether one still is, is looked at no more often: polls may follow at once.
CONNECTED_FOR = 0.1


class MissingTopics:
    """Since when which topic or partition has been missing."""

    def __init__(self, cluster: ClusterClient, subscription: Subscription) -> None:
        self._cluster = cluster
        self._metadata = cluster.metadata
        self._subscription = subscription
        self._checked_version = -1
        self._checked_topics: frozenset[str] = frozenset()
        self._looked_as_of = -1
        self._missing: dict[str | TopicPartition, float] = {}
        self._warned_at: dict[str | TopicPartition, float] = {}
        self._unreachable_since: float | None = None
        self._warned_unreachable_at = -FOREVER
        self._connected_until = -FOREVER

    def is_hopeless(self) -> bool:
        """True if `check` would raise because of what the last attempt to ask the brokers met."""
        error = self._metadata.last_error
        return error is not None and not error.retriable

    def patience(self) -> float:
        """Seconds until it is time to `check` again, for a warning or a topic missing for too long."""
        if not self._missing:
            return WARN_EVERY  # to look whether brokers are still connected
        limit = self._cluster.options.default_api_timeout
        due = min(min(self._missing.values()) + limit, self._next_warning())
        return max(due - self._cluster.driver.clock.monotonic(), 0.001)

    def check(self) -> None:
        """Raise why a topic cannot be read, if waiting does not help or has lasted long enough."""
        error = self._metadata.last_error
        if error is not None and not error.retriable:
            raise error.anew()  # until the next answer it is the same that each poll() raises
        version, topics = self._metadata.version, self._subscription.wanted_topics
        is_checked = version == self._checked_version and topics == self._checked_topics
        changes = self._subscription.changes
        if not is_checked or changes != self._looked_as_of:
            self._missing = self._look(topics)
            self._looked_as_of = changes
        if not is_checked:
            self._checked_version, self._checked_topics = version, topics
            self._raise_refusal(topics)
        if topics:
            self._warn_if_unreachable()
        if self._missing:
            self._warn_of_missing()
            self._raise_if_overdue()

    def failure_of(self, partition: TopicPartition, timeout: float) -> KafkaError:
        """Why a partition's position could not be found within `timeout` seconds."""
        known = self._metadata.topic(partition.topic)
        if known is None or not known.is_usable:
            return self._failure(partition.topic, timeout)
        if partition.partition not in known.partitions:
            return self._failure(partition, timeout)
        info = self._metadata.leader_of(*partition)
        leader = f"its leader is node {info.leader}" if info is not None else "it has no leader now"
        return KafkaTimeoutError(f"no position of {partition} within {timeout:g} s; {leader}")

    def _look(self, topics: frozenset[str]) -> dict[str | TopicPartition, float]:
        now = self._cluster.driver.clock.monotonic()
        missing: dict[str | TopicPartition, float] = {}
        for topic in sorted(topics):
            known = self._metadata.topic(topic)
            if known is None or not known.is_usable:
                missing[topic] = self._missing.get(topic, now)
        for partition in self._subscription.assigned:
            known = self._metadata.topic(partition.topic)
            if known is not None and known.is_usable and partition.partition not in known.partitions:
                missing[partition] = self._missing.get(partition, now)
        return missing

    def _raise_refusal(self, topics: frozenset[str]) -> None:
        """Raise what the brokers say of a topic, once for each answer, if no waiting will cure it."""
        for topic in sorted(topics):
            error = self._metadata.topic_error(topic)
            if error is not None and not error.retriable:
                self._metadata.request_update(error)  # so that the next answer may say something better
                raise error

    def _raise_if_overdue(self) -> None:
        now, limit = self._cluster.driver.clock.monotonic(), self._cluster.options.default_api_timeout
        for what, since in self._missing.items():
            if now - since >= limit:
                self._missing[what] = now
                raise self._failure(what, limit)

    def _next_warning(self) -> float:
        """When what is missing is to be warned of again; a poll() that waits for ever says it too."""
        if self._unreachable_since is not None:
            return max(self._unreachable_since + UNREACHABLE_FOR, self._warned_unreachable_at + WARN_EVERY)
        return min(
            (self._warned_at[one] for one in self._missing if one in self._warned_at), default=FOREVER
        ) + (WARN_EVERY)

    def _warn_if_unreachable(self) -> None:
        now = self._cluster.driver.clock.monotonic()
        if now < self._connected_until:
            return
        nodes = self._cluster.nodes
        if nodes.has_connection:
            self._unreachable_since, self._connected_until = None, now + CONNECTED_FOR
            return
        if self._unreachable_since is None:
            self._unreachable_since = now
        elif now >= self._next_warning():
            self._warned_unreachable_at = now
            logger.warning(
                "[%s] no record can be read, because no broker is connected: %s",
                self._cluster.name,
                nodes.why_unreachable(),
            )

    def _warn_of_missing(self) -> None:
        """Warn of each missing topic or partition, once a minute."""
        if self._unreachable_since is not None:
            return
        now = self._cluster.driver.clock.monotonic()
        for what, since in self._missing.items():
            topic = what.topic if isinstance(what, TopicPartition) else what
            if self._metadata.topic(topic) is None or now < self._warned_at.get(what, -FOREVER) + WARN_EVERY:
                continue
            self._warned_at[what] = now
            logger.warning(
                "[%s] no record of %s can be read: %s",
                self._cluster.name,
                topic,
                self._failure(what, now - since),
            )

    def _failure(self, what: str | TopicPartition, limit: float) -> KafkaError:
        if isinstance(what, TopicPartition):
            count = self._metadata.partition_count(what.topic)
            hint = "assign() another, or add partitions to the topic"
            if self._subscription.mode is Mode.TOPICS:
                hint = (
                    "the group has assigned it, so its leader, or its coordinator, knows the topic otherwise"
                )
            return UnknownTopicOrPartition(
                f"topic {what.topic!r} has {count} partitions and no partition {what.partition}; {hint}"
            )
        return self._cluster.topic_failure(what, limit)
