"""Resolves names to endpoints with the operating system's resolver.

It blocks, so it is called through `offload` only. No other module resolves names.
"""

from __future__ import annotations

import encodings.idna  # noqa: F401  getaddrinfo would import it later, which a fork could interrupt
import socket

from pykafka2.errors import NoBrokersAvailable
from pykafka2.network.endpoint import Endpoint


def resolve(host: str, port: int, *, canonical: bool = False) -> list[Endpoint]:
    """Return all addresses of a name, in the resolver's order, without duplicates.

    With `canonical`, each has its canonical name (or its address if it has none), which TLS verifies:
    client_dns_lookup=resolve_canonical_bootstrap_servers_only, KIP-235, for one alias of many machines.
    Block. Raise NoBrokersAvailable.
    """
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise NoBrokersAvailable(
            f"DNS cannot resolve {host!r} ({reason}); check bootstrap_servers"
        ) from error
    found: dict[Endpoint, None] = {}
    for family, _, _, _, address in addresses:
        if family in (socket.AF_INET, socket.AF_INET6):
            name = socket.getnameinfo(address, socket.NI_NUMERICSERV)[0] if canonical else None
            found[Endpoint(str(address[0]), port, family == socket.AF_INET6, name)] = None
    if not found:
        raise NoBrokersAvailable(f"{host!r} has no IPv4 or IPv6 address; check bootstrap_servers")
    return list(found)
