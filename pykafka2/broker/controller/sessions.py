"""Broker sessions: the last heartbeat of each broker (Kafka's BrokerHeartbeatTracker).

A broker whose last heartbeat is older than broker.session.timeout.ms has lost its session. Access requires
the cluster's lock.
"""

from __future__ import annotations

from pykafka2.clock import FOREVER


class BrokerSessions:
    """Last contacts by broker; `timeout` in seconds."""

    def __init__(self, timeout: float) -> None:
        self.timeout = timeout
        self._contacts: dict[int, float] = {}

    def touch(self, broker_id: int, now: float) -> None:
        """Record a heartbeat of a broker."""
        self._contacts[broker_id] = now

    def forget(self, broker_id: int) -> None:
        self._contacts.pop(broker_id, None)

    def restart(self, brokers: list[int], now: float) -> None:
        """Start sessions of exactly these brokers now."""
        self._contacts = dict.fromkeys(brokers, now)

    def is_valid(self, broker_id: int, now: float) -> bool:
        contact = self._contacts.get(broker_id)
        return contact is not None and now - contact < self.timeout

    def end_overdue(self, now: float) -> list[int]:
        """End the sessions of brokers without a recent heartbeat. Return these brokers."""
        ended = [broker for broker, contact in self._contacts.items() if now - contact >= self.timeout]
        for broker in ended:
            del self._contacts[broker]
        return ended

    def next_end(self) -> float:
        """Return when the next session expires without further heartbeats."""
        return min(self._contacts.values(), default=FOREVER) + self.timeout
