"""Warns of missing topics and unreachable brokers, and raises an error instead of waiting forever.

Used on the caller's thread, inside poll(). A missing topic and unreachable brokers are waited for up to
`default_api_timeout`; errors that are not retriable are raised at once.
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
# A new client, or a connection that is lost for a moment, needs no warning.
UNREACHABLE_FOR = 1.0
# Seconds between two checks for a connection while there is one, because polls can be very frequent.
CONNECTED_FOR = 0.1


class MissingTopics:
    """The missing topics and partitions, and since when they have been missing."""

    def __init__(self, cluster: ClusterClient, subscription: Subscription) -> None:
        self._cluster = cluster
        self._metadata = cluster.metadata
        self._subscription = subscription
        self._checked_version = -1
        self._checked_topics: frozenset[str] = frozenset()
        self._checked_changes = -1
        self.missing: dict[str | TopicPartition, float] = {}
        """The missing topics and partitions, with the times since when."""
        self._warned_at: dict[str | TopicPartition, float] = {}
        self._unreachable_since: float | None = None
        self._warned_unreachable_at = -FOREVER
        self._connected_until = -FOREVER

    def has_fatal_error(self) -> bool:
        """Return whether `check` would raise the error of the last metadata request."""
        error = self._metadata.last_error
        return error is not None and not error.retriable

    def due_in(self) -> float:
        """Return the seconds until the next `check`, for a warning or for a topic missing for too long."""
        if not self.missing:
            return WARN_EVERY  # to check whether brokers are still connected
        limit = self._cluster.options.default_api_timeout
        due = min(min(self.missing.values()) + limit, self._next_warning())
        return max(due - self._cluster.driver.clock.monotonic(), 0.001)

    def check(self) -> None:
        """Raise the reason why a topic cannot be read, if waiting cannot help or has lasted long enough."""
        error = self._metadata.last_error
        if error is not None and not error.retriable:
            raise error.anew()  # each poll() raises it until the next response
        version, topics = self._metadata.version, self._subscription.wanted_topics
        is_checked = version == self._checked_version and topics == self._checked_topics
        changes = self._subscription.changes
        if not is_checked or changes != self._checked_changes:
            self.missing = self._find_missing(topics)
            self._checked_changes = changes
        if not is_checked:
            self._checked_version, self._checked_topics = version, topics
            self._raise_topic_error(topics)
        if topics:
            self._warn_if_unreachable()
        if self.missing:
            self._warn_of_missing()
            self._raise_if_overdue()

    def error_of_position(self, partition: TopicPartition, timeout: float) -> KafkaError:
        """Return the reason why a partition's position was not found within `timeout` seconds."""
        known = self._metadata.topic(partition.topic)
        if known is None or not known.is_usable:
            return self._error_of(partition.topic, timeout)
        if partition.partition not in known.partitions:
            return self._error_of(partition, timeout)
        info = self._metadata.leader_of(*partition)
        leader = f"its leader is node {info.leader}" if info is not None else "it has no leader now"
        return KafkaTimeoutError(f"no position of {partition} within {timeout:g} s; {leader}")

    def _find_missing(self, topics: frozenset[str]) -> dict[str | TopicPartition, float]:
        now = self._cluster.driver.clock.monotonic()
        missing: dict[str | TopicPartition, float] = {}
        for topic in sorted(topics):
            known = self._metadata.topic(topic)
            if known is None or not known.is_usable:
                missing[topic] = self.missing.get(topic, now)
        for partition in self._subscription.assigned:
            known = self._metadata.topic(partition.topic)
            if known is not None and known.is_usable and partition.partition not in known.partitions:
                missing[partition] = self.missing.get(partition, now)
        return missing

    def _raise_topic_error(self, topics: frozenset[str]) -> None:
        """Raise a topic's error that is not retriable, once per metadata response."""
        for topic in sorted(topics):
            error = self._metadata.topic_error(topic)
            if error is not None and not error.retriable:
                self._metadata.request_update(error)  # the next response can be without the error
                raise error

    def _raise_if_overdue(self) -> None:
        now, limit = self._cluster.driver.clock.monotonic(), self._cluster.options.default_api_timeout
        for missing, since in self.missing.items():
            if now - since >= limit:
                self.missing[missing] = now
                raise self._error_of(missing, limit)

    def _next_warning(self) -> float:
        """Return when to warn again, which also ends the wait of a poll() with an infinite timeout."""
        if self._unreachable_since is not None:
            return max(self._unreachable_since + UNREACHABLE_FOR, self._warned_unreachable_at + WARN_EVERY)
        return min(
            (self._warned_at[missing] for missing in self.missing if missing in self._warned_at),
            default=FOREVER,
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
        for missing, since in self.missing.items():
            topic = missing.topic if isinstance(missing, TopicPartition) else missing
            if (
                self._metadata.topic(topic) is None
                or now < self._warned_at.get(missing, -FOREVER) + WARN_EVERY
            ):
                continue
            self._warned_at[missing] = now
            logger.warning(
                "[%s] no record of %s can be read: %s",
                self._cluster.name,
                topic,
                self._error_of(missing, now - since),
            )

    def _error_of(self, missing: str | TopicPartition, limit: float) -> KafkaError:
        if isinstance(missing, TopicPartition):
            count = self._metadata.partition_count(missing.topic)
            hint = "assign() another, or add partitions to the topic"
            if self._subscription.mode is Mode.TOPICS:
                hint = (
                    "the group has assigned it, so its leader or its coordinator has other metadata of the "
                    "topic"
                )
            return UnknownTopicOrPartition(
                f"topic {missing.topic!r} has {count} partitions and no partition {missing.partition}; {hint}"
            )
        return self._cluster.topic_failure(missing, limit)
