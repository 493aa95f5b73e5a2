"""Controls of links: between two brokers, and between a client and a broker.

A mixin of `Controls` (controls/controls.py).  Any thread except the cluster's own.
"""

from __future__ import annotations

from functools import partial

from pykafka2.broker.base.arguments import check_client, check_flag, check_number
from pykafka2.broker.faults.client_links import ClientLink
from pykafka2.errors import ConfigurationError
from pykafka2.testing.running import Running


class LinkControls:
    """Cuts, delays and throttles the traffic of brokers and clients."""

    _running: Running

    # ------------------------------------------------------------------ between brokers

    def cut_link(self, source: int, target: int, *, one_way: bool = False) -> None:
        """Drop all messages between two brokers (with `one_way` only those from `source` to `target`)."""
        for one, other in self._ways(source, target, one_way):
            with self._running.lock:
                self._running.links.cut(one, other)

    def delay_link(self, source: int, target: int, seconds: float, *, one_way: bool = False) -> None:
        """Delay messages between two brokers; 0 ends it."""
        check_number("seconds", seconds, least=0)
        for one, other in self._ways(source, target, one_way):
            with self._running.lock:
                self._running.links.delay(one, other, seconds)

    def throttle_link(
        self, source: int, target: int, bytes_per_second: float | None, *, one_way: bool = False
    ) -> None:
        """Limit the bytes per second in each direction; None ends it."""
        if bytes_per_second is not None:
            check_number("bytes_per_second", bytes_per_second, least=1)
        for one, other in self._ways(source, target, one_way):
            with self._running.lock:
                self._running.links.throttle(one, other, bytes_per_second)

    def heal(self) -> None:
        """Restore all links, including those of clients, resume all followers, and send all brokers the
        current metadata.
        """
        with self._running.lock:
            self._running.links.heal()
            self._running.faults.client_links.heal()
            now = self._running.now()
            self._running.controllers.publisher.release(None, now)
            for broker in self._running.brokers:
                broker.fetchers.resume()
                if broker.is_running:
                    broker.lifecycle.heartbeat_now(now)

    # ------------------------------------------------------------------ between clients and brokers

    def cut_client(self, client_id: str, broker: int | None = None, *, silently: bool = False) -> None:
        """Disconnect a client from a broker, or from all, until `heal`: its connections are reset, and new
        ones at their first request.

        `silently`: connections stay open without responses, as if packets were lost.  Requests in flight are
        still handled, but their responses are lost.
        """
        check_flag("silently", silently)
        link = self._client_link(client_id, broker)
        with self._running.lock:
            link.is_cut, link.is_silent = True, silently
        if silently:
            return
        for one in self._running.brokers:
            if one.is_running and broker in (None, one.id):
                for processor in one.processors:
                    self._running.loops.call(processor, partial(processor.drop_client, client_id))

    def delay_client(self, client_id: str, seconds: float, broker: int | None = None) -> None:
        """Delay a client's requests and responses; 0 ends it."""
        check_number("seconds", seconds, least=0)
        link = self._client_link(client_id, broker)
        with self._running.lock:
            link.delay = seconds

    def throttle_client(
        self, client_id: str, bytes_per_second: float | None, broker: int | None = None
    ) -> None:
        """Limit the bytes per second to and from a client; None ends it."""
        if bytes_per_second is not None:
            check_number("bytes_per_second", bytes_per_second, least=1)
        link = self._client_link(client_id, broker)
        with self._running.lock:
            link.rate = bytes_per_second

    # ------------------------------------------------------------------ inner parts

    def _client_link(self, client_id: str, broker: int | None) -> ClientLink:
        self._running.check()
        check_client(client_id)
        if broker is not None:
            self._running.broker(broker)
        with self._running.lock:
            return self._running.faults.client_links.link(client_id, broker)

    def _ways(self, source: int, target: int, one_way: bool) -> list[tuple[int, int]]:
        self._running.check()
        check_flag("one_way", one_way)
        self._running.broker(source)
        self._running.broker(target)
        if source == target:
            raise ConfigurationError("A link joins two different brokers. Name two ids.")
        return [(source, target)] if one_way else [(source, target), (target, source)]
