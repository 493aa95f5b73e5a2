"""Controls of the ISR: remove followers and keep them out, or let them rejoin.

A mixin of `Controls` (controls/controls.py).  Any thread except the cluster's own; both
calls wait until the cluster's controller has made the change.
"""

from __future__ import annotations

from collections.abc import Callable

from pykafka2.broker.base.arguments import partition_key
from pykafka2.errors import ConfigurationError, KafkaTimeoutError
from pykafka2.protocol.messages.fetch import FetchRequest
from pykafka2.testing.running import Running
from pykafka2.testing.views.partitions import partition_view
from pykafka2.types import TopicPartition

# Far longer than a change takes; a follower that cannot reach its leader never joins.
TIMEOUT = 30.0
# A fetch held by a fault rule or a paused leader is not waited for any longer.
UNDER_WAY_TIMEOUT = 0.5
# Waiters are not notified of a new image.
POLL_EVERY = 0.002


class IsrControls:
    """`controls.shrink_isr(("orders", 0), 2)`."""

    _running: Running

    def shrink_isr(self, partition: TopicPartition | tuple[str, int], *brokers: int) -> None:
        """Remove these followers from the ISR, and stop their fetches of the partition, so that they stay out
        until `expand_isr` or `resume_followers`.
        """
        running = self._running
        key = partition_key(running.controllers.image, partition)
        self._check_followers(key, brokers)
        with running.lock:
            for broker in brokers:
                running.broker(broker).fetchers.pause([key])
        for _ in range(int(UNDER_WAY_TIMEOUT / POLL_EVERY)):
            if not self._is_fetch_under_way(key, brokers):
                break
            running.runtime.wait_until(lambda: False, POLL_EVERY)

        def drop() -> None:
            leader = running.controllers.partition(*key).leader
            leading = None if leader < 0 else running.broker(leader).replicas
            replica = None if leading is None else leading.replicas.get(key)
            # Retried: the controller rejects a request with an old partition epoch.
            if leading is not None and replica is not None and replica.pending_isr is None:
                followers = [one for one in brokers if one in replica.followers]
                leading.isrs.drop(replica, followers, running.now())

        self._wait_for_isr(key, lambda isr: not isr & set(brokers), "shrink", drop)

    def _is_fetch_under_way(self, key: tuple[str, int], brokers: tuple[int, ...]) -> bool:
        """Return whether earlier fetches of these brokers wait at the leader and would let them rejoin."""
        running = self._running
        with running.lock:
            leader = running.controllers.partition(*key).leader
            return any(running.links.is_under_way(FetchRequest, one, leader) for one in brokers)

    def expand_isr(self, partition: TopicPartition | tuple[str, int], *brokers: int) -> None:
        """Let these followers fetch the partition, and wait until they are back in the ISR."""
        running = self._running
        key = partition_key(running.controllers.image, partition)
        self._check_followers(key, brokers)
        with running.lock:
            for broker in brokers:
                running.broker(broker).fetchers.resume([key])
        self._wait_for_isr(key, lambda isr: set(brokers) <= isr, "grow")

    def _check_followers(self, key: tuple[str, int], brokers: tuple[int, ...]) -> None:
        view = partition_view(self._running, *key)
        for broker in brokers:
            if broker == view.leader or broker not in view.replicas:
                known = sorted(set(view.replicas) - {view.leader})
                raise ConfigurationError(
                    f"Broker {broker} does not follow {key[0]}-{key[1]}. Its followers are {known}."
                )

    def _wait_for_isr(
        self,
        key: tuple[str, int],
        is_done: Callable[[set[int]], bool],
        verb: str,
        work: Callable[[], object] = lambda: None,
    ) -> None:
        """Repeat `work` under the lock until it is done."""
        running = self._running

        def done() -> bool:
            image = running.controllers.image.partition(*key)
            return image is not None and is_done(set(image.isr))

        for _ in range(int(TIMEOUT / POLL_EVERY)):
            with running.lock:
                if not done():
                    work()
            if running.runtime.wait_until(done, POLL_EVERY):
                return
            running.check()
        view = partition_view(running, *key)
        raise KafkaTimeoutError(f"the ISR of {key[0]}-{key[1]} did not {verb} within {TIMEOUT} s: {view}")
