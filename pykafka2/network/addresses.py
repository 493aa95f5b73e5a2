"""Bootstrap addresses: from the text of an option to (host, port), and from a name to its endpoints.

`parse_addresses` is pure.  `resolve` asks the machine's resolver and blocks: it is called through `offload`
only.  The only room in which names are resolved.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable

from pykafka2.errors import ConfigurationError, NoBrokersAvailable
from pykafka2.network.transport import Endpoint

DEFAULT_PORT = 9092

Address = tuple[str, int]


def parse_addresses(text: str | Iterable[str], *, option: str = "bootstrap_servers") -> tuple[Address, ...]:
    """`"host:port,host2:port"` or a list of such, as (host, port) pairs in order.

    A host without a port gets 9092; IPv6 addresses stand in brackets: `[::1]:9092`.  Duplicates are dropped.
    Raises `ConfigurationError` that names the option, the entry and what is wrong with it.
    """
    entries = text.split(",") if isinstance(text, str) else list(text)
    found: dict[Address, None] = {}
    for entry in entries:
        if not isinstance(entry, str):
            raise ConfigurationError(f"{option}: {entry!r} is no address; write host:port")
        for part in entry.split(","):
            if part.strip():
                found[parse_address(part.strip(), option=option)] = None
    if not found:
        raise ConfigurationError(f"{option}: no address given; write host:port, several with commas")
    return tuple(found)


def parse_address(entry: str, *, option: str = "bootstrap_servers") -> Address:
    """One `host:port`.  Raises `ConfigurationError`."""
    if "://" in entry:
        _refuse(option, entry, "write host:port without a scheme (security_protocol says whether to use TLS)")
    if entry.startswith("["):
        host, bracket, rest = entry[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            _refuse(option, entry, "write an IPv6 address as [::1]:9092")
        port_text = rest[1:] if rest else str(DEFAULT_PORT)
        if ":" not in host:
            _refuse(option, entry, "brackets are for IPv6 addresses only")
    elif entry.count(":") > 1:
        _refuse(option, entry, "write an IPv6 address in brackets: [::1]:9092")
    else:
        host, colon, port_text = entry.partition(":")
        if not colon:
            port_text = str(DEFAULT_PORT)
    if not host or any(character.isspace() or character in "/@" for character in host):
        _refuse(option, entry, "the host is missing or not legal")
    if not (port_text.isascii() and port_text.isdigit()) or not 0 < int(port_text) < 65536:
        _refuse(option, entry, "the port must be a number from 1 to 65535")
    return host, int(port_text)


def _refuse(option: str, entry: str, why: str) -> None:
    raise ConfigurationError(f"{option}: {entry!r}: {why}")


def format_addresses(addresses: Iterable[Address]) -> str:
    """Addresses as an error message names them."""
    return ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in addresses)


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
