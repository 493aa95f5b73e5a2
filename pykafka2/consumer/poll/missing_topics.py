"""Logs what poll() waits for: brokers, and topics and partitions that do not exist.

Used on the caller's thread, inside poll(). Only errors that are not retriable are raised: a service can start
before Kafka, or before its topic, and reads as soon as both exist. Calls with a timeout keep it (position()).
"""

from __future__ import annotations

import logging

from pykafka2.clock import FOREVER
from pykafka2.cluster.client import ClusterClient
from pykafka2.consumer.state.subscription import Mode, Subscription, TopicPattern
from pykafka2.driver.pollable import GROUP, ToCoordinator
from pykafka2.errors import KafkaError, KafkaTimeoutError, UnknownTopicOrPartition
from pykafka2.text import counted, named
from pykafka2.types import TopicPartition

logger = logging.getLogger(__name__)

WARN_EVERY = 60.0
# A new client, or a connection that is lost for a moment, needs no warning.
UNREACHABLE_FOR = 1.0
# Nor does a new cluster, which creates the topic of the committed offsets, or a busy one.
UNKNOWN_FOR = 5.0
# Seconds between two checks for a connection while there is one, because polls can be very frequent.
CONNECTED_FOR = 0.1

Missing = str | TopicPartition | TopicPattern | ToCoordinator
"""A topic, a partition that its topic does not have, a pattern that matches no topic, or the coordinator."""


class MissingTopics:
    """The missing topics and partitions, and since when they have been missing."""

    def __init__(self, cluster: ClusterClient, subscription: Subscription, group_id: str | None) -> None:
        self._cluster = cluster
        self._metadata = cluster.metadata
        self._subscription = subscription
        self._to = None if group_id is None else ToCoordinator(GROUP, group_id)
        self._checked: tuple[object, ...] = ()
        """Metadata version and topics whose errors were checked last."""
        self._found_as_of: tuple[object, ...] = ()
        """Metadata version and subscription at the last search for missing topics."""
        self.missing: dict[Missing, float] = {}
        """Since when each item is missing."""
        self._warned_at: dict[Missing, float] = {}
        self._unreachable_since: float | None = None
        self._warned_unreachable_at = -FOREVER
        self._connected_until = -FOREVER

    def has_fatal_error(self) -> bool:
        """Return whether `check` would raise the error of the last metadata request."""
        error = self._metadata.last_error
        return error is not None and not error.retriable

    def due_in(self) -> float:
        """Return the seconds until the next warning, which also ends the wait of an endless poll()."""
        if not self.missing and self._unreachable_since is None:
            return WARN_EVERY  # to check whether brokers are still connected
        now = self._cluster.driver.clock.monotonic()
        return max(self._next_warning(now) - now, 0.001)

    def check(self) -> None:
        """Log what poll() waits for. Raise errors that are not retriable."""
        error = self._metadata.last_error
        if error is not None and not error.retriable:
            raise error.anew()  # each poll() raises it until the next response
        subscription, version = self._subscription, self._metadata.version
        topics = subscription.wanted_topics
        as_of = (version, topics, subscription.pattern, subscription.changes, self._lacks_coordinator())
        if as_of != self._found_as_of:
            self.missing = self._find_missing(topics)
            self._warned_at = {item: at for item, at in self._warned_at.items() if item in self.missing}
            self._found_as_of = as_of
        if (version, topics) != self._checked:
            self._checked = version, topics
            self._raise_topic_error(topics)
        if topics or subscription.mode is Mode.TOPICS:
            self._warn_if_unreachable()
        if self.missing and self._unreachable_since is None:
            self._warn_of_missing()

    def error_of_position(self, partition: TopicPartition, timeout: float) -> KafkaError:
        """Return the reason why a partition's position was not found within `timeout` seconds."""
        known = self._metadata.topic(partition.topic)
        if known is None or not known.is_usable:
            return self._cluster.topic_failure(partition.topic, timeout)
        if partition.partition not in known.partitions:
            return UnknownTopicOrPartition(self._why_no_partition(partition))
        info = self._metadata.leader_of(*partition)
        leader = f"its leader is node {info.leader}" if info is not None else "it has no leader now"
        return KafkaTimeoutError(f"no position of {partition} within {timeout:g} s; {leader}")

    def _find_missing(self, topics: frozenset[str]) -> dict[Missing, float]:
        now = self._cluster.driver.clock.monotonic()
        missing: list[Missing] = []
        for topic in sorted(topics):
            known = self._metadata.topic(topic)
            if known is None or not known.is_usable:
                missing.append(topic)
        for partition in self._subscription.assigned:
            known = self._metadata.topic(partition.topic)
            if known is not None and known.is_usable and partition.partition not in known.partitions:
                missing.append(partition)
        if self._subscription.pattern is not None and not topics:
            missing.append(self._subscription.pattern)
        if self._to is not None and self._lacks_coordinator():
            missing.append(self._to)
        return {item: self.missing.get(item, now) for item in missing}

    def _lacks_coordinator(self) -> bool:
        """Return whether the last lookup of the group's coordinator failed."""
        return self._to is not None and self._cluster.coordinators.why_unknown(self._to) is not None

    def _raise_topic_error(self, topics: frozenset[str]) -> None:
        """Raise a topic's error that is not retriable, once per metadata response."""
        for topic in sorted(topics):
            error = self._metadata.topic_error(topic)
            if error is not None and not error.retriable:
                self._metadata.request_update(error)  # the next response can be without the error
                raise error

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
        elif now >= self._next_warning(now):
            self._warned_unreachable_at = now
            logger.warning(
                "[%s] waiting for a broker: %s", self._cluster.name, nodes.unconnected().removesuffix(".")
            )

    def _next_warning(self, now: float) -> float:
        if self._unreachable_since is not None:
            return max(self._unreachable_since + UNREACHABLE_FOR, self._warned_unreachable_at + WARN_EVERY)
        return min(map(self._warning_due_at, self.missing), default=FOREVER)

    def _warning_due_at(self, missing: Missing) -> float:
        """Return when the next warning is due: the first one soon, the others once a minute."""
        warned_at = self._warned_at.get(missing)
        if warned_at is not None:
            return warned_at + WARN_EVERY
        return self.missing[missing] + (UNKNOWN_FOR if self._is_unknown(missing) else 0.0)

    def _is_unknown(self, missing: Missing) -> bool:
        """Return whether no response has shown yet that it exists or does not."""
        if isinstance(missing, ToCoordinator):
            return True
        if isinstance(missing, TopicPattern):
            return not self._metadata.has_all_topics
        return isinstance(missing, str) and self._metadata.topic(missing) is None

    def _warn_of_missing(self) -> None:
        """Warn of each missing topic or partition once a minute."""
        now = self._cluster.driver.clock.monotonic()
        due = [missing for missing in self.missing if now >= self._warning_due_at(missing)]
        topics = [missing for missing in due if not isinstance(missing, ToCoordinator)]
        unknown = [missing for missing in topics if self._is_unknown(missing)]
        reasons = {_name(missing): self._why_missing(missing) for missing in topics if missing not in unknown}
        if unknown:
            error = self._metadata.last_error
            last = f"; the last request failed: {error}" if error is not None else ""
            seconds = now - min(self.missing[missing] for missing in unknown)
            reasons[named(map(_name, unknown))] = f"no broker has sent metadata for {seconds:.0f} s{last}"
        self._warned_at.update(dict.fromkeys(due, now))
        for name, reason in reasons.items():
            logger.warning("[%s] waiting for %s: %s", self._cluster.name, name, reason.removesuffix("."))
        if self._to is not None and self._to in due:
            self._warn_of_coordinator(self._to)

    def _warn_of_coordinator(self, to: ToCoordinator) -> None:
        """Warn once a minute; partitions that are assigned already are still read."""
        logger.warning(
            "[%s] waiting for the coordinator of group %r, without which no partition is assigned and no "
            "offset can be committed: %s",
            self._cluster.name,
            to.key,
            str(self._cluster.coordinators.why_unknown(to)).removesuffix("."),
        )

    def _why_missing(self, missing: str | TopicPartition | TopicPattern) -> str:
        if isinstance(missing, TopicPattern):
            return f"no topic matches {missing.regex.pattern!r}"
        if isinstance(missing, TopicPartition):
            return self._why_no_partition(missing)
        return str(self._metadata.topic_error(missing) or f"topic {missing!r} has no partitions")

    def _why_no_partition(self, partition: TopicPartition) -> str:
        count = self._metadata.partition_count(partition.topic) or 0
        hint = "assign() another, or add partitions to the topic"
        if self._subscription.mode is Mode.TOPICS:
            hint = (
                "the group has assigned it, so its leader or its coordinator has other metadata of the topic"
            )
        topic, number = partition
        return f"topic {topic!r} has {counted(count, 'partition')} and no partition {number}; {hint}"


def _name(missing: str | TopicPartition | TopicPattern) -> str:
    return missing.regex.pattern if isinstance(missing, TopicPattern) else str(missing)
