"""Listener addresses of a broker: where it binds, and the advertised address for clients.

A listener's default name is that of its security protocol. Clients connected by a listener receive the
addresses of the same listener of every broker. The only state is the port assigned to a listener.
"""

from __future__ import annotations

import re
from ipaddress import IPv6Address, ip_address
from typing import Final

import attrs

PROTOCOLS: Final = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}
"""Kafka's numbers of the security protocols."""

_ZEROS: Final = re.compile(r"0[xX0]?0*(\.0[xX0]?0*){0,3}", re.ASCII)
"""0.0.0.0 in the forms that the system's resolver accepts, such as 0, 0.0, 000.0 and 0x0."""


def is_every_interface(host: str) -> bool:
    """Return whether a server at this host, such as 0.0.0.0, listens on every interface."""
    return loopback_of(host) != host


def loopback_of(host: str) -> str:
    """Return an address at which this machine reaches a server at `host`: loopback, for all interfaces."""
    if not host or _ZEROS.fullmatch(host):
        return "127.0.0.1"
    try:
        address = ip_address(host)
    except ValueError:
        return host  # a name
    if address.is_unspecified:
        return "::1"
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return "127.0.0.1" if mapped is not None and mapped.is_unspecified else host


def address_text(host: str, port: int) -> str:
    """Return a bootstrap address, which has an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


@attrs.define(frozen=True)
class Endpoint:
    """One listener in a broker's registration."""

    listener: str
    host: str
    port: int
    protocol: int = 0


@attrs.define
class ListenerAddress:
    """A listener of one broker: its bind address, and its advertised address if that differs."""

    name: str
    protocol: str
    host: str
    port: int
    """0 binds a free port at the first start and keeps it."""
    advertised_host: str | None = None
    advertised_port: int = 0

    @property
    def address(self) -> str:
        """The bind address, or with all interfaces that of loopback."""
        return address_text(loopback_of(self.host), self.port)

    @property
    def advertised(self) -> tuple[str, int]:
        """The advertised host and port."""
        return self.advertised_host or self.host, self.advertised_port or self.port

    @property
    def endpoint(self) -> Endpoint:
        """The endpoint as the broker registers it."""
        return Endpoint(self.name, *self.advertised, PROTOCOLS[self.protocol])
