"""Connections of one processor that wait for room in the request queue.

The processor is in the queue's line while it has such connections (request_channel.py). When it is first and
there is room, it enqueues one request of each connection waiting by then: one round. Later connections, and
those that had their turn, wait for its next round. Belongs to the processor's thread.
"""

from __future__ import annotations

from collections.abc import Iterator

from pykafka2.broker.server.connection import Connection
from pykafka2.broker.server.request_channel import RequestChannel
from pykafka2.broker.server.threads import Part


class WaitingForRoom:
    """Waiting connections, in order. They are marked by `wants_room`, and not read meanwhile."""

    def __init__(self, processor: Part, requests: RequestChannel) -> None:
        self._processor = processor
        self._requests = requests
        self._next_round: dict[Connection, None] = {}
        self._round: dict[Connection, None] = {}  # connections served before another processor's turn
        self.is_in_line = False

    def must_wait(self, *, has_turn: bool) -> bool:
        """Return whether a connection must wait with its request; `has_turn`: `turns` returned it."""
        if self.is_in_line and not has_turn:
            return True
        return not self._requests.has_room_for(self._processor)

    def add(self, connection: Connection) -> None:
        """Add a connection, which keeps its place if it is waiting already."""
        connection.wants_room = True
        if connection not in self._round:
            self._next_round[connection] = None
        if not self.is_in_line:
            self.is_in_line = True
            self._requests.join_line(self._processor)

    def drop(self, connection: Connection) -> None:
        """Remove a connection. The processor stays in line until its turn, for connections added by then."""
        self._round.pop(connection, None)
        self._next_round.pop(connection, None)

    def turns(self) -> Iterator[Connection]:
        """Iterate over the connections that can enqueue a request now; none during another processor's turn.

        Each is no longer waiting. Without room the round continues with the next call.
        """
        requests, processor = self._requests, self._processor
        if not requests.has_room_for(processor):
            return
        if not self._round:
            self._round, self._next_round = self._next_round, {}
        while self._round and requests.has_room_for(processor):
            connection = next(iter(self._round))
            del self._round[connection]
            connection.wants_room = False
            yield connection
        if not self._round:
            requests.leave_line(processor)
            self.is_in_line = bool(self._next_round)
            if self.is_in_line:
                requests.join_line(processor)

    def clear(self) -> None:
        """Remove all connections."""
        self._round.clear()
        self._next_round.clear()
        if self.is_in_line:
            self.is_in_line = False
            self._requests.leave_line(self._processor)
