"""The sender of a request: its principal and its address.

A principal is a type and a name, written "User:alice"; ACLs refer to principals (KIP-290). A connection makes
its `Caller` once it has authenticated and never changes it; without authentication it is User:ANONYMOUS.
Plain values, any thread.
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
    """The principal of a request. `str` is Kafka's notation, such as "User:alice"."""

    kind: str
    name: str
    is_from_token: bool = attrs.field(default=False, eq=False)
    """Whether it authenticated by a delegation token; this does not affect equality, as in Kafka."""

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


ANONYMOUS = Principal(USER, "ANONYMOUS")


def principal_of(text: str) -> Principal:
    """Return the principal that a string such as "User:alice" names.

    Raise `ConfigurationError` if it is invalid.
    """
    kind, colon, name = text.partition(":")
    if not kind or not colon or not name:
        raise ConfigurationError(f"{text!r} is not a principal; use a type and a name, such as 'User:alice'")
    return Principal(kind, name)


@attrs.define(frozen=True)
class Caller:
    """Principal, address and listener of the sender of a request."""

    principal: Principal = ANONYMOUS
    host: str = _UNKNOWN_HOST
    """The client's address without the port, as ACLs compare it."""
    listener: str = "PLAINTEXT"
    """The name of the listener that the client is connected to; not passed to the controller, as in Kafka."""
    protocol: str = "PLAINTEXT"
    """The security protocol of that listener."""
    is_broker: bool = False
    """Whether the sender is a broker of this cluster on its own behalf; a forwarded request has the client as
    its caller.
    """


BROKER = Caller(is_broker=True)


def principal_bytes(principal: Principal) -> bytes:
    """Encode a principal for an Envelope (KIP-590): the version of the structure, then the structure."""
    data = DefaultPrincipalData(
        type=principal.kind, name=principal.name, token_authenticated=principal.is_from_token
    )
    return bytes(_VERSION_BYTES) + data.encode(0)


def principal_from_bytes(data: Buffer) -> Principal:
    """Decode the principal of an Envelope. Raise `CorruptData`."""
    view = memoryview(data)
    if len(view) < _VERSION_BYTES or any(view[:_VERSION_BYTES]):
        raise CorruptData("the principal of an envelope has an unknown version")
    read, _ = DefaultPrincipalData.decode_from(view, _VERSION_BYTES, 0)
    return Principal(read.type, read.name, read.token_authenticated)


def notations_of(host: str) -> tuple[str, ...]:
    """Return the notations of a client's address in ACLs.

    For IPv6 these are the address itself and Java's notation with all eight groups.
    """
    try:
        address = ipaddress.IPv6Address(host)
    except ValueError:
        return (host,)
    groups = struct.unpack(">8H", address.packed)
    scope = f"%{address.scope_id}" if address.scope_id else ""
    return host, ":".join(f"{group:x}" for group in groups) + scope


def host_bytes(host: str) -> bytes:
    """Encode the client's address for an Envelope. A host name, as in the simulation, becomes 127.0.0.1."""
    try:
        return ipaddress.ip_address(host.partition("%")[0]).packed
    except ValueError:
        return ipaddress.ip_address(_UNKNOWN_HOST).packed


def host_from_bytes(data: bytes) -> str:
    """Decode the client's address of an Envelope. Raise `CorruptData`."""
    try:
        return str(ipaddress.ip_address(bytes(data)))
    except ValueError:
        raise CorruptData(f"an envelope has a client address of {len(data)} bytes") from None
