"""Where a broker listens, and where clients are told to find it: one address for each of its listeners.

A listener has a name, by default that of its security protocol, and clients that came by it are told the
addresses of the same listener of every broker.  No state but the port that a listener was given.
"""

from __future__ import annotations

from typing import Final

import attrs

PROTOCOLS: Final = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}
"""The security protocols, with Kafka's numbers."""


@attrs.define(frozen=True)
class Endpoint:
    """What a broker's registration says of one listener."""

    listener: str
    host: str
    port: int
    protocol: int = 0


@attrs.define
class ListenerAddress:
    """A listener of one broker: where it listens, and what clients are told instead, if anything."""

    name: str
    protocol: str
    host: str
    port: int
    """0 takes a free one at the first start, and keeps it."""
    advertised_host: str | None = None
    advertised_port: int = 0

    @property
    def address(self) -> str:
        """Host and port at which it listens."""
        return f"{self.host}:{self.port}"

    @property
    def advertised(self) -> tuple[str, int]:
        """Host and port, as clients are told."""
        return self.advertised_host or self.host, self.advertised_port or self.port

    @property
    def endpoint(self) -> Endpoint:
        """As the broker registers it."""
        return Endpoint(self.name, *self.advertised, PROTOCOLS[self.protocol])
