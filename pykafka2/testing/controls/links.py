"""The controls of links: between two brokers, and between a client and a broker.

Part of `Controls` (controls.py).  Any thread but the cluster's own.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pykafka2.broker.base.arguments import check_client, check_number
from pykafka2.errors import ConfigurationError

if TYPE_CHECKING:
    from pykafka2.broker.faults.client_links import ClientLink
    from pykafka2.testing.cluster import KafkaCluster


class LinkControls:
    """Cut, delay and throttle what brokers and clients say to each other."""

    _cluster: KafkaCluster

    # ------------------------------------------------------------------ between brokers

    def cut_link(self, source: int, target: int, *, one_way: bool = False) -> None:
        """Lose whatever two brokers say to each other (with `one_way`: what `source` says to `target`)."""
        for one, other in self._ways(source, target, one_way):
            with self._cluster.lock:
                self._cluster.links.cut(one, other)

    def delay_link(self, source: int, target: int, seconds: float, *, one_way: bool = False) -> None:
        """Carry what two brokers say to each other that much later; 0 ends it."""
        check_number("seconds", seconds, least=0)
        for one, other in self._ways(source, target, one_way):
            with self._cluster.lock:
                self._cluster.links.delay(one, other, seconds)

    def throttle_link(
        self, source: int, target: int, bytes_per_second: float | None, *, one_way: bool = False
    ) -> None:
        """Carry at most so many bytes a second each way; None ends it."""
        if bytes_per_second is not None:
            check_number("bytes_per_second", bytes_per_second, least=1)
        for one, other in self._ways(source, target, one_way):
            with self._cluster.lock:
                self._cluster.links.throttle(one, other, bytes_per_second)

    def heal(self) -> None:
        """Make every link what it was at first, those of clients too, let all followers fetch, and tell
        every broker what it lacks of the metadata.
        """
        with self._cluster.lock:
            self._cluster.links.heal()
            self._cluster.faults.client_links.heal()
            now = self._cluster.runtime.clock.monotonic()
            self._cluster.controller.publisher.release(None, now)
            for broker in self._cluster.brokers:
                broker.fetchers.resume()
                if broker.is_running:
                    broker.lifecycle.hurry(now)

    # ------------------------------------------------------------------ between clients and brokers

    def cut_client(self, client_id: str, broker: int | None = None, *, silently: bool = False) -> None:
        """Cut a client off from a broker, or from all, until `heal`: its connections are reset, and new
        ones at their first request.

        `silently`: connections stay open and nothing is answered, as when packets are lost.  What was under
        way then is acted upon, but its answer is lost.
        """
        link = self._client_link(client_id, broker)
        with self._cluster.lock:
            link.is_cut, link.is_silent = True, silently
        if silently:
            return
        for one in self._cluster.brokers:
            if one.is_running and broker in (None, one.id):
                for processor in one.processors:
                    self._cluster.loops.call(processor, partial(processor.drop_client, client_id))

    def delay_client(self, client_id: str, seconds: float, broker: int | None = None) -> None:
        """Carry a client's requests, and the answers to it, that much later; 0 ends it."""
        check_number("seconds", seconds, least=0)
        link = self._client_link(client_id, broker)
        with self._cluster.lock:
            link.delay = seconds

    def throttle_client(
        self, client_id: str, bytes_per_second: float | None, broker: int | None = None
    ) -> None:
        """Carry at most so many bytes a second to a client, and from it; None ends it."""
        if bytes_per_second is not None:
            check_number("bytes_per_second", bytes_per_second, least=1)
        link = self._client_link(client_id, broker)
        with self._cluster.lock:
            link.rate = bytes_per_second

    # ------------------------------------------------------------------ inner parts

    def _client_link(self, client_id: str, broker: int | None) -> ClientLink:
        self._cluster.check()
        check_client(client_id)
        if broker is not None:
            self._cluster.broker(broker)
        with self._cluster.lock:
            return self._cluster.faults.client_links.link(client_id, broker)

    def _ways(self, source: int, target: int, one_way: bool) -> list[tuple[int, int]]:
        self._cluster.check()
        self._cluster.broker(source)
        self._cluster.broker(target)
        if source == target:
            raise ConfigurationError("a link joins two brokers")
        return [(source, target)] if one_way else [(source, target), (target, source)]
