"""From a name to its endpoints: the machine's resolver is asked.

It blocks: called through `offload` only.  The only module that resolves names.
"""

from __future__ import annotations

import encodings.idna  # noqa: F401  getaddrinfo loads it, which a fork may meet half done
import socket

from pykafka2.errors import NoBrokersAvailable
from pykafka2.network.endpoint import Endpoint


def resolve(host: str, port: int, *, canonical: bool = False) -> list[Endpoint]:
    """All addresses of a name, in the resolver's order, without duplicates; they are tried in turn.

    With `canonical` each carries the name that its address is registered under, by which TLS then knows it
    (client_dns_lookup=resolve_canonical_bootstrap_servers_only, KIP-235: one alias for many machines); the
    address stands for itself where it has no name.  Blocks.  Raises `NoBrokersAvailable` that names the host.
    """
    try:
        answers = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise NoBrokersAvailable(
            f"the name {host!r} cannot be resolved ({reason}); check bootstrap_servers"
        ) from error
    found: dict[Endpoint, None] = {}
    for family, _, _, _, address in answers:
        if family in (socket.AF_INET, socket.AF_INET6):
            name = socket.getnameinfo(address, socket.NI_NUMERICSERV)[0] if canonical else None
            found[Endpoint(str(address[0]), port, family == socket.AF_INET6, name)] = None
    if not found:
        raise NoBrokersAvailable(f"the name {host!r} has no IPv4 or IPv6 address")
    return list(found)
