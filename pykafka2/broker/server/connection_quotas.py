"""How many connections a broker takes: in all, from one address, and how many a second.

As Kafka's ConnectionQuotas: while max.connections are open, or more than max.connection.creation.rate came
within the last second, new ones wait in the listener's backlog; one above max.connections.per.ip is accepted
and closed at once.  Called by the acceptor and the processors, each on its own thread, hence the lock.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable

from pykafka2.broker.config.configs import BrokerConfig
from pykafka2.clock import FOREVER

RATE_WINDOW = 1.0
IPV4_MAPPED = "::ffff:"


def address_of(peer: str) -> str:
    """The address in "address:port", brackets of IPv6 taken off.  That of IPv4 over a socket of IPv6 counts
    as what it is, as in Java: quotas and access rules name it so.
    """
    address = peer.rpartition(":")[0].strip("[]")
    return address.removeprefix(IPV4_MAPPED) if "." in address else address


class ConnectionQuotas:
    """The connections of one broker, by all its listeners.  Any thread."""

    def __init__(self, config: BrokerConfig) -> None:
        self._waiting: list[Callable[[], object]] = []
        self._config = config
        self._lock = threading.Lock()
        self._open: Counter[str] = Counter()
        self._count = 0
        self._recent: deque[float] = deque()  # when those of the last second came
        self.configure()

    def configure(self) -> None:
        """Take over the limits as they are now; connections that are open stay."""
        config = self._config
        self._max = config.int("max.connections")
        self._max_per_ip = config.int("max.connections.per.ip")
        self._overrides: dict[str, int] = config.get("max.connections.per.ip.overrides")
        self._max_rate = config.int("max.connection.creation.rate")
        self._tell()

    def call_when_room(self, callback: Callable[[], object]) -> None:
        """Have `callback` called whenever a connection has ended, or the limits have changed."""
        self._waiting.append(callback)

    def _tell(self) -> None:
        for callback in self._waiting:
            callback()

    def __len__(self) -> int:
        """How many are open."""
        return self._count

    def room_at(self, now: float) -> float:
        """When the next connection may be taken: now, later (the rate), or FOREVER: once one has ended."""
        with self._lock:
            if self._count >= self._max:
                return FOREVER
            recent = self._recent
            while recent and recent[0] <= now - RATE_WINDOW:
                recent.popleft()
            if len(recent) < self._max_rate:
                return now
            return recent[0] + RATE_WINDOW if recent else FOREVER

    def take(self, peer: str, now: float) -> bool:
        """Count a connection; False if there are too many from its address, then it is not counted."""
        address = address_of(peer)
        with self._lock:
            # The rate counts attempts; without a limit nothing needs to be remembered.
            if self._max_rate < 1 << 20:
                self._recent.append(now)
            if self._open[address] >= self._overrides.get(address, self._max_per_ip):
                return False
            self._open[address] += 1
            self._count += 1
            return True

    def release(self, peer: str) -> None:
        """A connection that was taken has ended."""
        address = address_of(peer)
        with self._lock:
            self._open[address] -= 1
            if not self._open[address]:
                del self._open[address]
            self._count -= 1
        self._tell()
