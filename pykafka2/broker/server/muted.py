"""Connections of a processor that are muted because their clients are throttled (KIP-219).

Their responses are still sent. Belongs to the processor's thread.
"""

from __future__ import annotations

from pykafka2.broker.server.connection import Connection
from pykafka2.clock import FOREVER


class MutedConnections:
    """Muted connections and when they are unmuted, by the monotonic clock."""

    def __init__(self) -> None:
        self._until: dict[Connection, float] = {}

    def __bool__(self) -> bool:
        return bool(self._until)

    def add(self, connection: Connection, until: float) -> None:
        """Stop reading a connection until then; the latest of several times applies."""
        before = self._until.get(connection)
        if before is None:
            connection.channel.throttle()
        self._until[connection] = until if before is None else max(before, until)

    def due(self, now: float) -> list[Connection]:
        """Unmute and return the connections that are due, in the order of muting."""
        due = [connection for connection, until in self._until.items() if until <= now]
        for connection in due:
            del self._until[connection]
            connection.channel.end_throttle()
        return due

    @property
    def next_at(self) -> float:
        """The time when the next connection is unmuted."""
        return min(self._until.values(), default=FOREVER)

    def forget(self, connection: Connection) -> None:
        """Remove a closed connection."""
        self._until.pop(connection, None)

    def clear(self) -> None:
        self._until.clear()
