"""Takes connections from one of a broker's listening sockets and deals them out to its processors, in turn.

What the broker's quotas do not let in yet stays in the listener's backlog (connection_quotas.py).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from pykafka2.broker.server.connection_quotas import ConnectionQuotas
from pykafka2.broker.server.entrance import Entrance
from pykafka2.broker.server.processor import Processor
from pykafka2.broker.server.threads import REST, Part
from pykafka2.clock import FOREVER
from pykafka2.errors import KafkaError
from pykafka2.network.transport import READABLE, Listener

logger = logging.getLogger(__name__)


class Acceptor(Part):
    """Belongs to its loop's thread."""

    def __init__(
        self,
        entrance: Entrance,
        listener: Listener,
        processors: Sequence[Processor],
        quotas: ConnectionQuotas,
    ) -> None:
        super().__init__(entrance.acceptor)
        self._entrance = entrance
        self._listener = listener
        self._processors = processors
        self._next = 0
        self._is_open = False
        self._opens_soon = False
        self._quotas = quotas
        self._room_at: float | None = None  # while connections have to wait: until when
        quotas.call_when_room(self.signal)

    def open(self) -> None:
        """Begin to accept; in the loop's thread, once the acceptor is part of it."""
        self.loop.selector.register(self._listener, READABLE, self)
        self._is_open = True

    def open_soon(self) -> None:
        """Begin to accept with the next turn; from any thread."""
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
        return FOREVER if self._room_at is None else self._room_at

    def on_ready(self, bits: int, now: float) -> None:
        """The selector reported the listener."""
        while self._is_open:
            room_at = self._quotas.room_at(now)
            if room_at > now:
                # `run` looks again then, and whenever a connection has ended.
                self._room_at = self.wake_at = room_at
                self.loop.selector.modify(self._listener, 0, self)
                return
            try:
                transport = self._listener.accept()
            except KafkaError as error:
                logger.warning("%s: %s", self.name, error)
                self._rest(now)
                return
            if transport is None:
                return
            if not self._quotas.take(transport.peer, now):
                logger.info("%s: too many connections from the address of %s", self.name, transport.peer)
                transport.close()
                continue
            self._next = (self._next + 1) % len(self._processors)
            self._processors[self._next].adopt(transport, self._entrance)

    def on_failure(self, error: Exception, now: float) -> None:
        """Something of ours raised in `on_ready`."""
        self._rest(now)

    def _rest(self, now: float) -> None:
        """Leave the listener alone for a while, or it would be reported again at once."""
        self._room_at = self.wake_at = now + REST
        self.loop.selector.modify(self._listener, 0, self)

    def close(self) -> None:
        """Stop listening.  Safe to repeat."""
        if self._is_open:
            self._is_open = False
            self.loop.selector.unregister(self._listener)
        self._listener.close()
