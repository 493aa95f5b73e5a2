"""What a broker does from time to time, and what it does once requests have been handled.

Parts of a broker (server/threads.py); both take the cluster's lock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pykafka2.broker.server.threads import Part
from pykafka2.clock import FOREVER

if TYPE_CHECKING:
    from pykafka2.broker.broker import Broker


class Chores(Part):
    """A broker's timers: requests that time out, followers that lag, groups and transactions."""

    def __init__(self, broker: Broker) -> None:
        super().__init__(f"chores-{broker.id}")
        self._broker = broker
        self._isr_check_every = broker.config.seconds("replica.lag.time.max.ms") / 2
        self._isr_check_at = 0.0
        self._expiry_every = broker.config.seconds("producer.id.expiration.check.interval.ms")
        self._expiry_at = 0.0
        self._retention_check_every = broker.config.seconds("log.retention.check.interval.ms")
        self._retention_check_at = broker.clock.monotonic() + self._retention_check_every
        self.due = 0.0  # when it runs next; unlike `wake_at` it changes under the lock only

    def run(self, now: float) -> float:
        broker = self._broker
        with broker.lock:
            if not broker.is_running:
                self.due = FOREVER
                return FOREVER
            broker.wheel.advance(now)
            broker.lifecycle.run(now)
            if now >= self._isr_check_at:
                self._isr_check_at = now + self._isr_check_every
                broker.replicas.isrs.shrink(list(broker.replicas.replicas.values()), now)
                broker.replicas.isrs.expand(broker.replicas.replicas.values(), now)
            if now >= self._expiry_at:
                self._expiry_at = now + self._expiry_every
                broker.expire_producers()
            if now >= self._retention_check_at:
                self._retention_check_at = now + self._retention_check_every
                broker.apply_retention()
            broker.coordinators.run(now)
            broker.replicas.complete_delayed(now)
            broker.coordinators.send_markers(now)
            self.due = min(
                broker.wheel.next_deadline(),
                self._isr_check_at,
                self._expiry_at,
                self._retention_check_at,
                broker.coordinators.due,
                broker.lifecycle.due,
            )
            return self.due


class Completions(Part):
    """Completes what the requests handled so far have made possible, once no more of them are at hand.

    A follower's fetch that waits then takes along all that one read from a producer's socket has brought, and
    not just the first batch of it; and a hundred appends are looked at once.
    """

    runs_last = True

    def __init__(self, broker: Broker) -> None:
        super().__init__(f"completions-{broker.id}")
        self._complete = broker.complete

    def run(self, now: float) -> float:
        self._complete(now)
        return FOREVER
