"""Connection limits of a broker: total, per address, and per second.

Like Kafka's ConnectionQuotas: above max.connections or max.connection.creation.rate new connections wait in
the listener's backlog; above max.connections.per.ip a connection is accepted and closed at once, above the
quota of its address (connection_creation_rate) closed after the throttle time. The acceptor and the
processors call it on their own threads, hence the lock.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Mapping

from pykafka2.broker.config.configs import BrokerConfig
from pykafka2.broker.quotas.rates import WindowedRate
from pykafka2.clock import FOREVER

RATE_WINDOW = 1.0
IPV4_MAPPED = "::ffff:"


def address_of(peer: str) -> str:
    """Return the address in "address:port" without brackets.

    An IPv4 address on an IPv6 socket is returned as IPv4, as in Java: quotas and ACLs use that form.
    """
    address = peer.rpartition(":")[0].strip("[]")
    return address.removeprefix(IPV4_MAPPED) if "." in address else address


class ConnectionQuotas:
    """The connections of one broker on all its listeners. Any thread."""

    def __init__(self, config: BrokerConfig) -> None:
        self._waiting: list[Callable[[], object]] = []
        self._config = config
        self._lock = threading.Lock()
        self._open: Counter[str] = Counter()
        self._count = 0
        self._recent: deque[float] = deque()  # times of the connections of the last second
        self._address_rates: Mapping[str | None, float] = {}
        self._measured: dict[str, WindowedRate] = {}  # addresses with a quota
        self.configure()

    def set_address_rates(self, rates: Mapping[str | None, float]) -> None:
        """Set the quotas of new connections per second by address; None: any other address."""
        with self._lock:
            self._address_rates = rates
            self._measured.clear()

    def throttled_for(self, peer: str, now: float) -> float:
        """Count a connection for its address. Return how long to hold it before closing; 0: accepted."""
        address = address_of(peer)
        with self._lock:
            limit = self._address_rates.get(address, self._address_rates.get(None))
            if limit is None:
                return 0.0
            rate = self._measured.get(address)
            windows, seconds = self._windows
            if rate is None:
                rate = self._measured[address] = WindowedRate(windows, seconds * 1000)
            now_ms = int(now * 1000)
            rate.record(1.0, now_ms)
            throttle_ms = rate.throttle_ms(limit, now_ms)
            if throttle_ms:
                rate.record(-1.0, now_ms)  # it is not accepted
            return min(throttle_ms / 1000.0, seconds)

    def configure(self) -> None:
        """Read the current limits; open connections stay."""
        config = self._config
        self._windows = config.int("quota.window.num"), config.int("quota.window.size.seconds")
        self._max = config.int("max.connections")
        self._max_per_ip = config.int("max.connections.per.ip")
        self._overrides: dict[str, int] = config.get("max.connections.per.ip.overrides")
        self._max_rate = config.int("max.connection.creation.rate")
        self._notify()

    def call_when_room(self, callback: Callable[[], object]) -> None:
        """Add a callback for closed connections and changed limits."""
        self._waiting.append(callback)

    def _notify(self) -> None:
        for callback in self._waiting:
            callback()

    def __len__(self) -> int:
        """Return the number of open connections."""
        return self._count

    def room_at(self, now: float) -> float:
        """Return when the next connection can be accepted.

        That is now, later (the rate), or FOREVER: once one closes.
        """
        with self._lock:
            if self._count >= self._max:
                return FOREVER
            recent = self._recent
            while recent and recent[0] + RATE_WINDOW <= now:  # the sum that is returned below
                recent.popleft()
            if len(recent) < self._max_rate:
                return now
            return recent[0] + RATE_WINDOW if recent else FOREVER

    def take(self, peer: str, now: float) -> bool:
        """Count a connection. Return False, without counting it, if its address has too many."""
        address = address_of(peer)
        with self._lock:
            # The rate counts attempts; without a limit nothing is stored.
            if self._max_rate < 1 << 20:
                self._recent.append(now)
            if self._open[address] >= self._overrides.get(address, self._max_per_ip):
                return False
            self._open[address] += 1
            self._count += 1
            return True

    def release(self, peer: str) -> None:
        """Remove a closed connection from the count."""
        address = address_of(peer)
        with self._lock:
            self._open[address] -= 1
            if not self._open[address]:
                del self._open[address]
            self._count -= 1
        self._notify()
