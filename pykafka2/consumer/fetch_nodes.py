"""What the fetcher keeps of each broker: its session, the fetch under way, and when it may be asked again.

Driver's thread, within fetcher.py.
"""

from __future__ import annotations

from collections.abc import Callable

from pykafka2.backoff import Backoff
from pykafka2.clock import FOREVER
from pykafka2.consumer.fetch_session import FetchSession
from pykafka2.consumer.fetch_state import Flight


class FetchNodes:
    """Brokers by their ids."""

    def __init__(self, *, sessions_are_wanted: bool, new_backoff: Callable[[], Backoff]) -> None:
        self._sessions_are_wanted = sessions_are_wanted
        self._new_backoff = new_backoff
        self.in_flight: dict[int, Flight] = {}
        self._turns: dict[int, int] = {}
        self._sessions: dict[int, FetchSession] = {}
        self._backoffs: dict[int, Backoff] = {}
        self._not_before: dict[int, float] = {}

    def session(self, node_id: int) -> FetchSession:
        session = self._sessions.get(node_id)
        if session is None:
            session = self._sessions[node_id] = FetchSession(is_wanted=self._sessions_are_wanted)
        return session

    def not_before(self, node_id: int) -> float:
        """When it may be asked again."""
        return self._not_before.get(node_id, -FOREVER)

    def next_turn(self, node_id: int, count: int) -> int:
        """Which of `count` partitions comes first this time: a broker fills its answer in the order asked."""
        turn = self._turns.get(node_id, 0) % count
        self._turns[node_id] = turn + 1
        return turn

    def has_landed(self, flight: Flight) -> bool:
        """True for the answer that is waited for; not so where the broker was given up meanwhile."""
        if self.in_flight.get(flight.node_id) is not flight:
            return False
        del self.in_flight[flight.node_id]
        return True

    def answered(self, node_id: int) -> None:
        """It is there and well."""
        self._backoffs.pop(node_id, None)

    def failed(self, node_id: int, now: float) -> None:
        """Leave it alone for a while, longer each time."""
        backoff = self._backoffs.get(node_id)
        if backoff is None:
            backoff = self._backoffs[node_id] = self._new_backoff()
        self._not_before[node_id] = now + backoff.next()

    def brought_nothing(self, flight: Flight) -> None:
        self._not_before[flight.node_id] = flight.not_again_before

    def forget(self, node_id: int) -> None:
        """Begin anew with it, as if it was met just now."""
        self.in_flight.pop(node_id, None)
        self._sessions.pop(node_id, None)
        self._backoffs.pop(node_id, None)
        self._not_before.pop(node_id, None)
