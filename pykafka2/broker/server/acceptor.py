"""Accepts connections of one listener and assigns them to processors in turn.

Connections above the broker's limits wait in the listener's backlog; those above the quota of their address
are held unread and then closed (connection_quotas.py).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from pykafka2.broker.security.listeners import ListenerEndpoint
from pykafka2.broker.server.connection_quotas import ConnectionQuotas
from pykafka2.broker.server.processor import Processor
from pykafka2.broker.server.threads import REST, Part
from pykafka2.clock import FOREVER
from pykafka2.errors import KafkaError
from pykafka2.network.transport import READABLE, Listener, Transport

logger = logging.getLogger(__name__)


class Acceptor(Part):
    """Accepts connections of one listener. Runs on its loop's thread."""

    def __init__(
        self,
        endpoint: ListenerEndpoint,
        listener: Listener,
        processors: Sequence[Processor],
        quotas: ConnectionQuotas,
    ) -> None:
        super().__init__(endpoint.acceptor)
        self._endpoint = endpoint
        self._listener = listener
        self._processors = processors
        self._next = 0
        self._is_open = False
        self._opens_soon = False
        self._has_failed = False  # since the last accepted connection
        self._quotas = quotas
        self._room_at: float | None = None  # set while connections must wait
        self._throttled: list[tuple[float, Transport]] = []  # and when they are closed
        quotas.call_when_room(self.signal)

    def open(self) -> None:
        """Start accepting; on the loop's thread, once the acceptor is part of it."""
        self.loop.selector.register(self._listener, READABLE, self)
        self._is_open = True

    def open_soon(self) -> None:
        """Start accepting with the next turn; from any thread."""
        self._opens_soon = True
        self.signal()

    def run(self, now: float) -> float:
        if self._opens_soon:
            self._opens_soon = False
            self.open()
        if self._room_at is not None and self._is_open:
            self._room_at = None
            self.loop.selector.modify(self._listener, READABLE, self)
            self.on_ready(READABLE, now)
        wake_at = FOREVER if self._room_at is None else self._room_at
        return min(wake_at, self._close_throttled(now))

    def _close_throttled(self, now: float) -> float:
        """Close throttled connections whose time is over. Return when the next one is closed."""
        due = [transport for close_at, transport in self._throttled if close_at <= now]
        self._throttled = [(close_at, transport) for close_at, transport in self._throttled if close_at > now]
        for transport in due:
            transport.close()
        return min((close_at for close_at, _ in self._throttled), default=FOREVER)

    def on_ready(self, bits: int, now: float) -> None:
        """Handle an event of the listener."""
        while self._is_open:
            room_at = self._quotas.room_at(now)
            if room_at > now:
                # `run` checks again at that time, and whenever a connection closes.
                self._room_at = room_at
                self.wake_at = min(self.wake_at, room_at)
                self.loop.selector.modify(self._listener, 0, self)
                return
            try:
                transport = self._listener.accept()
            except KafkaError as error:
                if not self._has_failed:  # it is repeated ten times per second
                    self._has_failed = True
                    logger.warning("%s: accepts no connections for now: %s", self.name, error)
                self._rest(now)
                return
            if transport is None:
                return
            self._has_failed = False
            throttled_for = self._quotas.throttled_for(transport.peer, now)
            if throttled_for:
                self._throttled.append((now + throttled_for, transport))
                self.wake_at = min(self.wake_at, now + throttled_for)
                continue
            if not self._quotas.take(transport.peer, now):
                logger.info("%s: too many connections from the address of %s", self.name, transport.peer)
                transport.close()
                continue
            self._next = (self._next + 1) % len(self._processors)
            self._processors[self._next].adopt(transport, self._endpoint)

    def on_failure(self, error: Exception, now: float) -> None:
        """Handle an unexpected exception in `on_ready`."""
        self._rest(now)

    def _rest(self, now: float) -> None:
        """Ignore the listener for a while; otherwise it would be reported again at once."""
        self._room_at = now + REST
        self.wake_at = min(self.wake_at, now + REST)
        self.loop.selector.modify(self._listener, 0, self)

    def close(self) -> None:
        """Stop listening. Can be called repeatedly."""
        if self._is_open:
            self._is_open = False
            self.loop.selector.unregister(self._listener)
        self._listener.close()
        self._close_throttled(FOREVER)
