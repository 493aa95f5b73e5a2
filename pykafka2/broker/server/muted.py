"""Connections of a processor that are read no more for a while, since a reply said how long (KIP-219).

Their replies go on leaving.  Belongs to the processor's thread.
"""

from __future__ import annotations

from pykafka2.broker.server.connection import Connection
from pykafka2.clock import FOREVER


class MutedConnections:
    """Who is muted, and until when.  Times are those of the monotonic clock."""

    def __init__(self) -> None:
        self._until: dict[Connection, float] = {}

    def __bool__(self) -> bool:
        return bool(self._until)

    def add(self, connection: Connection, until: float) -> None:
        """Read nothing more from a connection until then; of two such times the later counts."""
        before = self._until.get(connection)
        if before is None:
            connection.channel.throttle()
        self._until[connection] = until if before is None else max(before, until)

    def due(self, now: float) -> list[Connection]:
        """Those whose time is up, in the order in which they were muted; they may be read again."""
        due = [connection for connection, until in self._until.items() if until <= now]
        for connection in due:
            del self._until[connection]
            connection.channel.end_throttle()
        return due

    @property
    def next_at(self) -> float:
        """When the next one's time is up."""
        return min(self._until.values(), default=FOREVER)

    def forget(self, connection: Connection) -> None:
        """It is closed."""
        self._until.pop(connection, None)

    def clear(self) -> None:
        self._until.clear()
