"""Which broker is the controller: an election by lease among the brokers of the process.

It stands where Kafka has the votes of the KRaft quorum, and keeps what they promise: one controller in an
epoch, epochs that only rise, and a new one within a session's time after the old one was killed, paused or
cut off.  A broker may stand once it has not been answered by the controller for broker.session.timeout.ms.
Votes are those of the brokers that it reaches both ways and that miss the controller too; it needs more than
half of the brokers that run (one that is paused neither votes nor counts).  That an old controller changes
nothing when it wakes up late is not decided here but by the metadata log.  Under the cluster's lock.
"""

from __future__ import annotations

from collections.abc import Callable

from pykafka2.broker.controller.member import Members, can_act
from pykafka2.broker.controller.metadata_log import NO_CONTROLLER
from pykafka2.broker.replication.links import Links


class ControllerElection:
    """The lease: who holds it, and who may take it.  `session` in seconds."""

    def __init__(self, session: float, links: Links, members: Members) -> None:
        self.holder = NO_CONTROLLER
        """The broker that was elected last and has not given up; it may be dead without anybody knowing."""
        self.is_held = False
        """Nobody is elected while a test holds elections."""
        self._session = session
        self._links = links
        self._members = members
        self._contacts: dict[int, float] = {}

    # ------------------------------------------------------------------ contact

    def touch(self, broker_id: int, controller_id: int, now: float) -> None:
        """The controller has answered a broker."""
        if controller_id == self.holder:
            self._contacts[broker_id] = now

    def misses(self, broker_id: int, now: float) -> bool:
        """Whether a broker has not been answered for a session's time, or there is nobody to answer."""
        return self.holder == NO_CONTROLLER or now >= self.misses_at(broker_id)

    def misses_at(self, broker_id: int) -> float:
        return self._contacts.get(broker_id, 0.0) + self._session

    # ------------------------------------------------------------------ elections

    def may_win(self, candidate: int, now: float) -> bool:
        """Whether a broker that stands now would be elected."""
        if self.is_held or not can_act(self._members()[candidate]):
            return False
        running = self._running()
        votes = sum(
            one == candidate or (self.reaches(candidate, one) and self.misses(one, now)) for one in running
        )
        return votes * 2 > len(running) and self.misses(candidate, now)

    def has_majority(self, holder: int, heard: Callable[[int], bool]) -> bool:
        """Whether the controller still reaches half of the brokers that run, itself included; `heard` says
        of whom there was a heartbeat within a session's time.
        """
        running = self._running()
        reached = sum(one == holder or heard(one) or self.reaches(holder, one) for one in running)
        return reached * 2 >= len(running)

    def _running(self) -> list[int]:
        return [member.id for member in self._members().values() if can_act(member)]

    def elected(self, broker_id: int, now: float) -> None:
        """A broker holds the lease; all others have heard of it."""
        self.holder = broker_id
        self._contacts = dict.fromkeys((self._members()), now)

    def give_up(self, broker_id: int) -> None:
        """The holder is gone, and that is known: nobody waits for its lease to end."""
        if self.holder == broker_id:
            self.holder = NO_CONTROLLER

    def reaches(self, one: int, other: int) -> bool:
        """Whether two brokers can talk to each other."""
        return not self._links.is_cut(one, other) and not self._links.is_cut(other, one)
