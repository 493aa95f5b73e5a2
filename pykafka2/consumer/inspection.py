"""The consumer's `metrics()`, `metric_rows()`, `health()` and `explain()`.

Used on any thread. It reads without locks what the two threads of the consumer write, so the values are not
a snapshot of one instant.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pykafka2 import lifecycle
from pykafka2.cluster.client import ClusterClient
from pykafka2.cluster.metadata import Metadata
from pykafka2.consumer.bad_records import BadRecords
from pykafka2.consumer.fetch.buffer import FetchBuffer
from pykafka2.consumer.fetch.fetcher import Fetcher
from pykafka2.consumer.options import CLASSIC, CONSUMER, ConsumerOptions
from pykafka2.consumer.poll.stall_detector import StallDetector
from pykafka2.consumer.state.subscription import Hold, Mode, Subscription
from pykafka2.text import named, why_not_open
from pykafka2.types import ConsumerHealth, Metric

if TYPE_CHECKING:
    from pykafka2.consumer.group.group import Group


class Inspection:
    """Reads the state of the parts of one consumer."""

    def __init__(
        self,
        options: ConsumerOptions,
        cluster: ClusterClient,
        subscription: Subscription,
        buffer: FetchBuffer,
        fetcher: Fetcher,
        bad_records: BadRecords,
        stall_detector: StallDetector,
        group: Group | None = None,
    ) -> None:
        self._cluster = cluster
        self._subscription = subscription
        self._buffer = buffer
        self._fetcher = fetcher
        self._stall_detector = stall_detector
        self._group = group
        self._options = options
        metrics = cluster.metrics
        metrics.gauge("assigned-partitions", lambda: len(subscription.assigned))
        metrics.gauge("buffered-bytes", lambda: buffer.size_bytes)
        metrics.counter("bad-records-total", lambda: bad_records.skipped)

    def metric_rows(self) -> list[Metric]:
        with lifecycle.loading:
            from pykafka2 import metric_table

        table = metric_table.CONSUMER_ALONE
        if self._group is not None:
            table = metric_table.CONSUMER_IN_GROUP
            if self._cluster.metrics.latencies_of_successes:
                table = metric_table.CONSUMER_ALL
        return self._cluster.metrics.rows(table, self._cluster.options.client_id or "")

    def labels(self) -> dict[str, str]:
        """Return the consumer's attributes in telemetry, as the Java client names them."""
        options = self._options
        member_id = "" if self._group is None else self._group.group_status.identity.member_id
        labels = {
            "group_id": options.group_id,
            "group_instance_id": options.group_instance_id,
            "client_rack": options.client_rack,
            "group_member_id": member_id,
        }
        return {name: text for name, text in labels.items() if text}

    def health(self) -> ConsumerHealth:
        with lifecycle.loading:
            from pykafka2.compression.libraries import packages_in_use

        cluster, now = self._cluster, self._cluster.driver.clock.monotonic()
        stalled = self._stall_detector.stalled_for()
        return {
            **cluster.health(is_closed=cluster.is_closed),
            "group": None if self._group is None else group_health(self._group, cluster.metadata, now),
            "partitions": {
                str(partition): {
                    "position": self._subscription.positions.get(partition),
                    "high_watermark": self._fetcher.table.high_watermarks.get(partition),
                    "buffered_bytes": self._buffer.bytes_of(partition),
                    "paused": assigned.is_paused,
                    "resetting": assigned.is_resetting,
                    "last_trouble": self._fetcher.table.troubles.get(partition),
                    "stands_still_for": stalled.get(partition, 0.0),
                }
                for partition, assigned in list(self._subscription.assigned.items())
            },
            "buffered_bytes": self._buffer.size_bytes,
            "codec_libraries": packages_in_use(),
        }

    def explain(self) -> str:
        health = self.health()
        if health["state"] != "open":
            return why_not_open("consumer", health["state"], health["failure"])
        lines = self._cluster.nodes.explain(self._cluster.driver.clock.monotonic())
        if health["metadata_error"]:
            lines.append(f"The last request for metadata failed: {health['metadata_error']}")
        for topic in sorted(self._subscription.wanted_topics):
            error = self._cluster.metadata.topic_error(topic)
            if error is not None:
                lines.append(f"{error}.")
        pattern = self._subscription.pattern
        if pattern is not None and not self._subscription.topics:
            lines.append(f"No topic matches {pattern.regex.pattern!r}; poll() waits for one.")
        for partition in sorted(self._subscription.assigned):
            known = self._cluster.metadata.topic(partition.topic)
            if known is not None and known.is_usable and partition.partition not in known.partitions:
                has = f"topic {partition.topic!r} has {len(known.partitions)} partitions"
                lines.append(f"{has} and no partition {partition.partition}.")
        if health["group"] is not None:
            lines += group_words(health["group"], self._subscription)
        elif not health["partitions"]:
            is_subscribed = self._subscription.mode is Mode.TOPICS
            step = "poll() assigns them" if is_subscribed else "call subscribe() or assign(), then poll()"
            lines.append(f"No partition is assigned; {step}.")
        for made_anew in sorted(set(self._fetcher.table.recreated)):
            lines.append(
                f"{made_anew}: its topic was deleted and created again while it was read; auto_offset_reset "
                "has set the position."
            )
        for name, of_partition in health["partitions"].items():
            last_error = of_partition["last_trouble"]
            seconds = of_partition["stands_still_for"]
            trouble = f"; the last error: {last_error.rstrip('.')}" if last_error else ""
            stall = f"; it has not advanced for {seconds:.0f} s" if seconds else ""
            lines.append(f"{name} {_words(of_partition)}{stall}{trouble}.")
        return "\n".join(lines)


def _words(partition: dict[str, Any]) -> str:
    if partition["paused"]:
        return "is paused"
    position, end = partition["position"], partition["high_watermark"]
    if position is None:
        return "waits for its start position"
    # Before buffered_bytes: the next poll frees a buffer whose last record was returned.
    if end is not None and position >= end:
        return f"is read to its high watermark, offset {end}"
    if partition["buffered_bytes"]:
        return f"has {partition['buffered_bytes']} fetched bytes from offset {position} for the next poll()"
    if end is None:
        return f"waits for its first fetch at offset {position}"
    return f"is being fetched from offset {position}; its high watermark is {end}"


MOST_NAMED = 5
"""The maximum number of members that a sentence names."""


def group_health(group: Group, metadata: Metadata, now: float) -> dict[str, Any]:
    """Return the state of the membership; ages are in seconds, None for events that never happened."""
    from pykafka2.consumer.group.classic.membership import Membership  # loaded with the group

    member, group_status, commits = group.membership, group.group_status, group.commits
    coordinator = None if member.coordinator is None else metadata.node(member.coordinator)
    return {
        "id": group_status.group_id,
        "protocol": CLASSIC if isinstance(member, Membership) else CONSUMER,
        "state": member.state.value,
        "state_age": now - member.state_since,
        "member_id": group_status.identity.member_id,
        "generation": group_status.identity.generation_id,
        "leading": member.is_leading,
        "leader_id": member.leader_id,
        "other_members": [*member.others],
        "coordinator": member.coordinator,
        "coordinator_address": None if coordinator is None else f"{coordinator.host}:{coordinator.port}",
        "coordinator_error": None if member.coordinator_error is None else str(member.coordinator_error),
        "because": member.because,
        "last_poll_age": member.polls.gap(now),
        "last_heartbeat_age": _age(member.heartbeat.answered_at, now),
        "last_commit_age": _age(commits.last_written_at, now),
        "last_commit_error": None if commits.last_error is None else str(commits.last_error),
        "committed_offsets_awaited": {
            str(partition): group.resume.why_unknown(partition) for partition in group.resume.waits_for
        },
        "unfinished_rebalances": member.unfinished_rebalances,
        "failure": None if member.failure is None else str(member.failure),
    }


def group_words(health: dict[str, Any], subscription: Subscription) -> list[str]:
    """Return the state of the group in sentences."""
    group, state = f"group {health['id']!r}", health["state"]
    lines = []
    if subscription.mode is Mode.TOPICS:
        in_words = state_in_words if health["protocol"] == CONSUMER else _state_in_words
        lines.append(in_words(group, state, health))
    elif subscription.mode is Mode.NONE:
        lines.append("No partition is assigned; call subscribe() or assign(), then poll().")
    if health["failure"]:
        lines.append(f"{health['failure']}.")
    if health["coordinator"] is None and subscription.mode is not Mode.NONE:
        why = health["coordinator_error"]
        failed = f"the last lookup failed ({why}), and " if why else ""
        lines.append(f"The coordinator of {group} is unknown; {failed}it is looked up for the next request.")
    if health["unfinished_rebalances"]:
        lines.append(f"{health['unfinished_rebalances']} rebalances in a row did not complete.")
    if health["last_commit_error"]:
        lines.append(f"The last commit failed: {health['last_commit_error']}")
    lines += [
        f"{name} waits: {why.rstrip('.')}." for name, why in health["committed_offsets_awaited"].items()
    ]
    revoking = subscription.held(Hold.REVOKING)
    if revoking:
        lines.append(f"{named(revoking)}: revoked as soon as their last commit is done.")
    return lines


def _state_in_words(group: str, state: str, health: dict[str, Any]) -> str:
    from pykafka2.consumer.group.classic.states import MemberState as ClassicState

    because = f": {health['because']}" if health["because"] else ""
    if state == ClassicState.STABLE.value:
        role = "leads" if health["leading"] else "is a member of"
        heartbeat_age = health["last_heartbeat_age"]
        return (
            f"The consumer {role} {group} in generation {health['generation']}; its last heartbeat was "
            f"answered {heartbeat_age:.1f} s ago, its last poll was {health['last_poll_age']:.1f} s ago."
        )
    if state == ClassicState.JOINING.value:
        return f"The consumer is joining {group}{because} and has waited {_for_the_join(health)}."
    if state == ClassicState.SYNCING.value:
        if health["leader_id"] == health["member_id"]:
            age = f"{health['state_age']:.1f} s"
            return f"The consumer leads {group} and has been assigning partitions for {age}."
        return (
            f"The consumer has waited {health['state_age']:.1f} s for member {health['leader_id']!r}, the "
            f"leader of {group}, to assign partitions."
        )
    if state == ClassicState.MUST_JOIN.value:
        return f"{group} rebalances{because}; the next poll() takes part.".replace("group", "Group", 1)
    if state == ClassicState.FENCED.value:
        return f"Another consumer with its group_instance_id has fenced this one in {group}; close it."
    return f"The consumer is not a member of {group}{because}; poll() joins it."


def _for_the_join(health: dict[str, Any]) -> str:
    """Explain what a joining member waits for; a member that led the group before knows the other members."""
    waits = f"{health['state_age']:.1f} s for {coordinator_in_words(health)}"
    others = health["other_members"]
    if health["coordinator"] is None:
        return waits
    waits += ", which responds when all members have joined"
    if not others:
        return f"{waits} (only the coordinator knows the members)"
    more = f" and {len(others) - MOST_NAMED} more" if len(others) > MOST_NAMED else ""
    names = ", ".join(map(repr, others[:MOST_NAMED]))
    return f"{waits}; in generation {health['generation']} the others were {names}{more}"


def _age(at: float, now: float) -> float | None:
    return now - at if at > 0 else None


def coordinator_in_words(health: dict[str, Any]) -> str:
    """Name the coordinator's broker, if it is known."""
    if health["coordinator"] is None:
        return "the lookup of its coordinator"
    at = f" at {health['coordinator_address']}" if health["coordinator_address"] else ""
    return f"the coordinator, broker {health['coordinator']}{at}"


def state_in_words(group: str, state: str, health: dict[str, Any]) -> str:
    """Return one sentence about the state of a member of the KIP-848 protocol."""
    from pykafka2.consumer.group.kip848.states import MemberState as ConsumerState

    because = f": {health['because']}" if health["because"] else ""
    age, coordinator = f"{health['state_age']:.1f} s", coordinator_in_words(health)
    words = {
        ConsumerState.UNSUBSCRIBED: f"The consumer is not a member of {group}{because}; poll() joins it.",
        ConsumerState.JOINING: (
            f"The consumer is joining {group} and has waited {age} for {coordinator} to answer its first "
            "heartbeat."
        ),
        ConsumerState.RECONCILING: (
            f"The coordinator of {group} has sent a new assignment at epoch {health['generation']}; poll() "
            "revokes and adds partitions as soon as their topics are in the metadata."
        ),
        ConsumerState.ACKNOWLEDGING: (
            f"The consumer owns its assignment in {group} and has waited {age} for {coordinator} to "
            "acknowledge it."
        ),
        ConsumerState.FENCED: f"The consumer was removed from {group}{because}; poll() joins again.",
        ConsumerState.STALE: f"The consumer has left {group}{because}; poll() joins again.",
        ConsumerState.LEAVING: f"The consumer is leaving {group} and has waited {age} for {coordinator}.",
        ConsumerState.FATAL: f"The coordinator of {group} rejects this consumer; subscribe() tries again.",
    }
    found = words.get(ConsumerState(state))
    if found is not None:
        return found
    heartbeat_age, polled = health["last_heartbeat_age"], health["last_poll_age"]
    return (
        f"The consumer is a member of {group} at epoch {health['generation']}; its last heartbeat was "
        f"answered {heartbeat_age:.1f} s ago, its last poll was {polled:.1f} s ago."
    )
