"""Takes connections from a broker's listening socket and deals them out to its processors, in turn."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from pykafka2.clock import FOREVER
from pykafka2.errors import KafkaError
from pykafka2.network.transport import READABLE, Listener
from pykafka2.testing.server.processor import Processor
from pykafka2.testing.server.threads import Part

logger = logging.getLogger(__name__)


class Acceptor(Part):
    """Belongs to its loop's thread."""

    def __init__(self, name: str, listener: Listener, processors: Sequence[Processor]) -> None:
        super().__init__(name)
        self._listener = listener
        self._processors = processors
        self._next = 0
        self._is_open = False

    def open(self) -> None:
        """Begin to accept; in the loop's thread, once the acceptor is part of it."""
        self.loop.selector.register(self._listener, READABLE, self)
        self._is_open = True

    def run(self, now: float) -> float:
        return FOREVER

    def on_ready(self, bits: int, now: float) -> None:
        """The selector reported the listener."""
        while self._is_open:
            try:
                transport = self._listener.accept()
            except KafkaError as error:
                logger.warning("%s: %s", self.name, error)
                return
            if transport is None:
                return
            self._next = (self._next + 1) % len(self._processors)
            self._processors[self._next].adopt(transport)

    def close(self) -> None:
        """Stop listening.  Safe to repeat."""
        if self._is_open:
            self._is_open = False
            self.loop.selector.unregister(self._listener)
        self._listener.close()
