"""Connections of one processor that have found no room in the request queue, and their turns.

A processor stands in the queue's line while it has such connections (request_channel.py).  When it is the
first and there is room, it lets in a request of each that was waiting by then: one round.  Those that come
later, and those that have been let in, wait for its next one.  Belongs to the processor's thread.
"""

from __future__ import annotations

from collections.abc import Iterator

from pykafka2.broker.server.connection import Connection
from pykafka2.broker.server.request_channel import RequestChannel
from pykafka2.broker.server.threads import Part


class WaitingForRoom:
    """Who waits, in order.  A connection that waits is marked by `wants_room`, and not read meanwhile."""

    def __init__(self, processor: Part, requests: RequestChannel) -> None:
        self._processor = processor
        self._requests = requests
        self._next_round: dict[Connection, None] = {}
        self._round: dict[Connection, None] = {}  # those that are let in before it is another's turn
        self.is_in_line = False

    def must_wait(self, *, has_turn: bool) -> bool:
        """Whether a connection may not put its request now; `has_turn`: `turns` has just named it."""
        if self.is_in_line and not has_turn:
            return True
        return not self._requests.has_room_for(self._processor)

    def add(self, connection: Connection) -> None:
        """Have it wait; it keeps its place if it waits already."""
        connection.wants_room = True
        if connection not in self._round:
            self._next_round[connection] = None
        if not self.is_in_line:
            self.is_in_line = True
            self._requests.stand_in_line(self._processor)

    def drop(self, connection: Connection) -> None:
        """It waits no more.  The processor stays in line until its turn: somebody else may wait by then."""
        self._round.pop(connection, None)
        self._next_round.pop(connection, None)

    def turns(self) -> Iterator[Connection]:
        """The connections that may let a request in now; none while it is another processor's turn.

        Each ends its wait.  Without room the round goes on with the next call.
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
                requests.stand_in_line(processor)

    def clear(self) -> None:
        """Nobody waits any more."""
        self._round.clear()
        self._next_round.clear()
        if self.is_in_line:
            self.is_in_line = False
            self._requests.leave_line(self._processor)
