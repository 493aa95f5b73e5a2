"""Who asks: the principal behind a request, and whence it came.

A principal is a kind and a name, "User:alice" as one text, and what access rules are about (KIP-290's words).
A connection makes its `Caller` when it has authenticated and never changes it; who did not authenticate is
User:ANONYMOUS.  Plain values, any thread.
"""

from __future__ import annotations

import ipaddress
import struct

import attrs

from pykafka2.errors import ConfigurationError, CorruptData
from pykafka2.protocol.messages.principal import DefaultPrincipalData
from pykafka2.protocol.primitives import Buffer

USER = "User"

_VERSION_BYTES = 2
_UNKNOWN_HOST = "127.0.0.1"


@attrs.define(frozen=True)
class Principal:
    """Whom a request is from.  `str` is Kafka's notation, such as "User:alice"."""

    kind: str
    name: str
    is_from_token: bool = attrs.field(default=False, eq=False)
    """Whether a delegation token stood for it; the same principal all the same, as in Kafka."""

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


ANONYMOUS = Principal(USER, "ANONYMOUS")


def principal_of(text: str) -> Principal:
    """The principal that a text such as "User:alice" names.  Raises `ConfigurationError` for another."""
    kind, colon, name = text.partition(":")
    if not kind or not colon or not name:
        raise ConfigurationError(f"{text!r} is no principal; one is a kind and a name, such as 'User:alice'")
    return Principal(kind, name)


@attrs.define(frozen=True)
class Caller:
    """Who asks, from where, and by which listener of the broker."""

    principal: Principal = ANONYMOUS
    host: str = _UNKNOWN_HOST
    """The client's address without its port, as access rules compare it."""
    listener: str = "PLAINTEXT"
    """The name of the listener that the client came by; the controller is not told it, as in Kafka."""
    protocol: str = "PLAINTEXT"
    """The security protocol of that listener."""
    is_broker: bool = False
    """Another broker of this cluster, on its own behalf; what it forwards is the client's that asked it."""


BROKER = Caller(is_broker=True)


def principal_bytes(principal: Principal) -> bytes:
    """As an Envelope carries it (KIP-590): the version of the structure, then the structure."""
    data = DefaultPrincipalData(
        type=principal.kind, name=principal.name, token_authenticated=principal.is_from_token
    )
    return bytes(_VERSION_BYTES) + data.encode(0)


def principal_from_bytes(data: Buffer) -> Principal:
    """The principal in an Envelope.  Raises `CorruptData`."""
    view = memoryview(data)
    if len(view) < _VERSION_BYTES or any(view[:_VERSION_BYTES]):
        raise CorruptData("the principal of an envelope is of a version that is not known")
    read, _ = DefaultPrincipalData.decode_from(view, _VERSION_BYTES, 0)
    return Principal(read.type, read.name, read.token_authenticated)


def notations_of(host: str) -> tuple[str, ...]:
    """How access rules may write a client's address: as it is, and one of IPv6 in Java's way, too, which has
    all eight groups.
    """
    try:
        address = ipaddress.IPv6Address(host)
    except ValueError:
        return (host,)
    groups = struct.unpack(">8H", address.packed)
    scope = f"%{address.scope_id}" if address.scope_id else ""
    return host, ":".join(f"{one:x}" for one in groups) + scope


def host_bytes(host: str) -> bytes:
    """The client's address as an Envelope carries it.  A name, as hosts have in the simulation, counts as
    this machine.
    """
    try:
        return ipaddress.ip_address(host.partition("%")[0]).packed
    except ValueError:
        return ipaddress.ip_address(_UNKNOWN_HOST).packed


def host_from_bytes(data: bytes) -> str:
    """The client's address in an Envelope.  Raises `CorruptData`."""
    try:
        return str(ipaddress.ip_address(bytes(data)))
    except ValueError:
        raise CorruptData(f"an envelope's client address of {len(data)} bytes") from None
