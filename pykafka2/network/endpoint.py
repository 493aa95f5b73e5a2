"""A network address. A plain value; any thread."""

from __future__ import annotations

from pykafka2.slotted import slotted


@slotted(frozen=True)
class Endpoint:
    """A resolved address: an IP (or, in the simulation, a broker's name) and a port.

    `name` is the machine's canonical name if it was requested: TLS expects it in the certificate.
    """

    host: str
    port: int
    is_ipv6: bool = False
    name: str | None = None

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if self.is_ipv6 else f"{self.host}:{self.port}"
