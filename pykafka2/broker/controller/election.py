"""Controller election by a lease among the brokers of the process.

Replaces the votes of the KRaft quorum with the same guarantees: one controller per epoch, increasing epochs,
and a new controller within a session timeout after the old one was killed, paused or cut off. A broker can
become a candidate once the controller has not responded for broker.session.timeout.ms. It gets the votes of
brokers that it can reach in both directions and that have lost the controller too; it needs more than half of
the running brokers (a paused one neither votes nor counts). That an old controller changes nothing when it
resumes late is ensured by the metadata log, not here. Access requires the cluster's lock.
"""

from __future__ import annotations

from collections.abc import Callable

from pykafka2.broker.controller.metadata.log import NO_CONTROLLER
from pykafka2.broker.controller.publisher import Members, can_act
from pykafka2.broker.server.links import Links


class ControllerElection:
    """The lease: its holder, and the conditions for taking it. `session` in seconds."""

    def __init__(self, session: float, links: Links, members: Members) -> None:
        self.holder = NO_CONTROLLER
        """The broker elected last that has not resigned; it can be dead without being detected."""
        self.is_held = False
        """Whether a test prevents elections."""
        self._session = session
        self._links = links
        self._members = members
        self._contacts: dict[int, float] = {}

    # ------------------------------------------------------------------ contact

    def touch(self, broker_id: int, controller_id: int, now: float) -> None:
        """Record a response of the controller to a broker."""
        if controller_id == self.holder:
            self._contacts[broker_id] = now

    def misses(self, broker_id: int, now: float) -> bool:
        """Return whether a broker has had no response for a session timeout, or there is no controller."""
        return self.holder == NO_CONTROLLER or now >= self.misses_at(broker_id)

    def misses_at(self, broker_id: int) -> float:
        return self._contacts.get(broker_id, 0.0) + self._session

    # ------------------------------------------------------------------ elections

    def may_win(self, candidate: int, now: float) -> bool:
        """Return whether a broker would be elected now."""
        if self.is_held or not can_act(self._members()[candidate]):
            return False
        running = self._running()
        votes = sum(
            voter == candidate or (self.reaches(candidate, voter) and self.misses(voter, now))
            for voter in running
        )
        return votes * 2 > len(running) and self.misses(candidate, now)

    def has_majority(self, holder: int, has_session: Callable[[int], bool]) -> bool:
        """Return whether the controller still reaches half of the running brokers, including itself.

        `has_session` returns whether a broker sent a heartbeat within a session timeout.
        """
        running = self._running()
        reached = sum(
            member == holder or has_session(member) or self.reaches(holder, member) for member in running
        )
        return reached * 2 >= len(running)

    def _running(self) -> list[int]:
        return [member.id for member in self._members().values() if can_act(member)]

    def elected(self, broker_id: int, now: float) -> None:
        """Make a broker the holder; all brokers know about it."""
        self.holder = broker_id
        self._contacts = dict.fromkeys((self._members()), now)

    def give_up(self, broker_id: int) -> None:
        """Remove a holder that is known to be down, without waiting for its lease to expire."""
        if self.holder == broker_id:
            self.holder = NO_CONTROLLER

    def reaches(self, source: int, target: int) -> bool:
        """Return whether two brokers can reach each other."""
        return not self._links.is_cut(source, target) and not self._links.is_cut(target, source)
