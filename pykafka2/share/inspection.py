"""The share consumer's `metric_rows()`, `health()` and `explain()`. Used on any thread."""

from __future__ import annotations

from typing import Any

from pykafka2 import lifecycle
from pykafka2.share.lock import LockState
from pykafka2.share.sessions import ShareSessions
from pykafka2.text import counted, why_not_open
from pykafka2.types import Metric, ShareConsumerHealth


class ShareInspection:
    """Reads the state of the parts of one share consumer."""

    def __init__(self, sessions: ShareSessions) -> None:
        self._sessions = sessions
        self._context = context = sessions.context
        self._options = context.options
        self._cluster = context.cluster
        self._membership = context.membership
        self._locks = context.locks
        self._buffer = context.buffer

    def metric_rows(self) -> list[Metric]:
        with lifecycle.loading:
            from pykafka2 import metric_table

        return self._cluster.metrics.rows(metric_table.SHARE_CONSUMER, self._options.client_id)

    def labels(self) -> dict[str, str]:
        """Return the consumer's attributes in telemetry, as the Java client names them."""
        labels = {
            "group_id": self._options.group_id,
            "client_rack": self._options.client_rack,
            "group_member_id": self._membership.member_id,
        }
        return {name: text for name, text in labels.items() if text}

    def health(self) -> ShareConsumerHealth:
        cluster, membership = self._cluster, self._membership
        now = cluster.driver.clock.monotonic()
        coordinator_error = membership.coordinator_error or membership.last_error
        return {
            **cluster.health(is_closed=cluster.is_closed),
            "group": {
                "id": self._options.group_id,
                "state": membership.state.value,
                "member_id": membership.member_id,
                "epoch": membership.epoch,
                "coordinator": membership.coordinator,
                "last_error": None if coordinator_error is None else str(coordinator_error),
                "assigned": sorted(
                    f"{cluster.metadata.topic_name(topic_id) or topic_id.hex()}-{number}"
                    for topic_id, number in membership.assigned
                ),
            },
            "lock_timeout": self._context.lock_timeout,
            "locks": self._partitions(now),
            "brokers": {
                node_id: {
                    "session_epoch": session.epoch,
                    "in_flight": session.in_flight or None,
                    "in_flight_for": now - session.sent_at if session.in_flight else None,
                    "acknowledgements_waiting": self._locks.count_ready(node_id),
                    "last_error": None if session.last_error is None else str(session.last_error),
                }
                for node_id, session in sorted(self._sessions.nodes.copy().items())
            },
            "buffered_records": self._buffer.count(),
            "locks_lost": self._locks.totals.lost,
            "locks_renewed": self._locks.totals.renewed,
        }

    def _partitions(self, now: float) -> dict[str, dict[str, Any]]:
        partitions: dict[str, dict[str, Any]] = {}
        for lock, offsets in self._locks.open_locks():
            of = partitions.setdefault(
                str(lock.partition),
                {"node": lock.node_id, "oldest_offset": -1, "oldest_age": -1.0, "expires_in": float("inf")}
                | {"handled": 0, "longest_handled": None}
                | dict.fromkeys((state.value for state in LockState if state is not LockState.SETTLED), 0),
            )
            of[lock.state.value] += len(offsets)
            age = now - lock.acquired_at
            if (age, -offsets[0]) > (of["oldest_age"], -of["oldest_offset"]):
                of["oldest_age"], of["oldest_offset"] = age, offsets[0]
            of["expires_in"] = min(of["expires_in"], lock.until - now)
            handled = [since for offset, since in lock.handled.copy().items() if offset in offsets]
            if handled:
                of["handled"] += len(handled)
                of["longest_handled"] = max(of["longest_handled"] or 0.0, now - min(handled))
        return partitions

    def explain(self) -> str:
        health = self.health()
        if health["state"] != "open":
            return why_not_open("share consumer", health["state"], health["failure"])
        lines = self._cluster.nodes.explain(self._cluster.driver.clock.monotonic())
        if health["metadata_error"]:
            lines.append(f"The last request for metadata failed: {health['metadata_error']}")
        for topic in sorted(self._membership.topics):
            error = self._cluster.metadata.topic_error(topic)
            if error is not None:
                lines.append(f"{error}.")
        lines.append(self._group_words(health["group"]))
        lines += [_lock_words(name, of) for name, of in sorted(health["locks"].items())]
        lines += [
            f"{partition}: poll() has not returned {counted(count, 'acquired record')} yet."
            for partition, count in sorted(self._buffer.partitions().items())
        ]
        for node_id, of_node in health["brokers"].items():
            lines += self._node_words(node_id, of_node)
        lines += [
            f"{partition}: the last fetch failed: {trouble}."
            for partition, trouble in sorted(self._context.troubles.copy().items())
        ]
        return "\n".join(lines)

    def _group_words(self, group: dict[str, Any]) -> str:
        name = f"share group {group['id']!r}"
        trouble = f"; the last error: {group['last_error'].rstrip('.')}" if group["last_error"] else ""
        if group["state"] == "unsubscribed":
            call = "the next poll() joins it" if self._membership.topics else "call subscribe(), then poll()"
            return f"It is not a member of {name}; {call}{trouble}."
        if group["state"] != "stable":
            return f"It is {group['state']} {name}{trouble}."
        assigned = ", ".join(group["assigned"]) or "no partition"
        waiting = " and waits for records" if self._context.wants_records else ""
        return f"It is a member of {name} with {assigned}{waiting}{trouble}."

    def _node_words(self, node_id: int, of_node: dict[str, Any]) -> list[str]:
        lines = []
        now = self._cluster.driver.clock.monotonic()
        request = of_node["in_flight"]
        waiting = of_node["acknowledgements_waiting"]
        if request:
            age = f"{of_node['in_flight_for']:.1f} s ago"
            what = "records" if request == "fetch" else "its response"
            lines.append(f"Node {node_id}: the {request} request of {age} waits for {what}.")
        if waiting:
            reason = f"the response to this {request}" if request else ""
            reason = reason or self._cluster.router.connection_to(node_id, now)
            wait = "waits" if waiting == 1 else "wait"
            lines.append(f"{counted(waiting, 'acknowledgement')} for node {node_id} {wait} for {reason}.")
        if of_node["last_error"]:
            lines.append(f"The share session with node {node_id} has ended: {of_node['last_error']}.")
        return lines


def _lock_words(name: str, of: dict[str, Any]) -> str:
    states = ", ".join(
        f"{of[state.value]} {word}"
        for state, word in (
            (LockState.HELD, "not acknowledged"),
            (LockState.DECIDED, "acknowledged, and sent by the next poll() or commit()"),
            (LockState.READY, "to be sent"),
            (LockState.SENDING, "sent and not confirmed"),
        )
        if of[state.value]
    )
    handled = ""
    if of["handled"]:
        handled = f" ({of['handled']} in a `with` block, for {of['longest_handled']:.1f} s at most)"
    return (
        f"{name} (node {of['node']}): {states}{handled}; the oldest, offset {of['oldest_offset']}, was "
        f"acquired {of['oldest_age']:.1f} s ago, and the first lock expires in {of['expires_in']:.1f} s."
    )
