"""Parses the addresses of bootstrap_servers into (host, port).

Pure. network/resolver.py resolves names.
"""

from __future__ import annotations

from typing import Any, NoReturn

from pykafka2.text import without_secrets

DEFAULT_PORT = 9092

Addresses = tuple[tuple[str, int], ...]


class BadAddress(ValueError):
    """An entry is not a valid address; the message shows the entry and the reason."""


def parse_addresses(value: Any) -> Addresses:
    """Parse `"a:9092,b:9093"`, a list of such strings, or of `(host, port)`; drops duplicates.

    The default port is 9092; IPv6 addresses need brackets: `[::1]:9092`. Raise BadAddress, and ValueError
    for a value of another type.
    """
    if isinstance(value, str):
        entries: list[Any] = [value]
    elif isinstance(value, list | tuple | set | frozenset):
        entries = list(value)
    else:
        raise ValueError(f"{value!r} is neither a str nor a list")
    found: dict[tuple[str, int], None] = {}
    for entry in entries:
        if isinstance(entry, str) and "@" in entry:  # before a comma of a password divides it
            _refuse(entry, "has a user; set sasl_username and sasl_password, and write host:port")
        parts = entry.split(",") if isinstance(entry, str) else [entry]
        for part in parts:
            if not isinstance(part, str) or part.strip():
                found[_parse_one(part)] = None
    if not found:
        raise BadAddress("it is empty")
    return tuple(found)


def _parse_one(entry: Any) -> tuple[str, int]:
    if isinstance(entry, str):
        host, port = _host_and_port(entry.strip())
    elif (
        isinstance(entry, tuple)
        and len(entry) == 2
        and isinstance(entry[0], str)
        and isinstance(entry[1], int)
        and not isinstance(entry[1], bool)
    ):
        host, port = entry[0], str(entry[1])
    else:
        _refuse(entry, "is not an address")
    if not host or any(character.isspace() or character in "/@[]" for character in host):
        _refuse(entry, "has no legal host")
    if not (port.isascii() and port.isdigit()) or not 0 < int(port) < 65536:
        _refuse(entry, "has no port between 1 and 65535")
    return host, int(port)


def _host_and_port(entry: str) -> tuple[str, str]:
    # As in Java, "PLAINTEXT://host:9092" is accepted; security_protocol sets the protocol.
    scheme, separator, rest = entry.partition("://")
    if separator and not scheme.isupper():
        _refuse(entry, "is a URL; write host:port")
    text = rest if separator else entry
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            _refuse(entry, "write an IPv6 address like [::1]:9092")
        if ":" not in host:
            _refuse(entry, "brackets are only for IPv6 addresses")
        return host, rest[1:] if rest else str(DEFAULT_PORT)
    if text.count(":") > 1:
        _refuse(entry, "write an IPv6 address in brackets, like [::1]:9092")
    host, separator, port = text.partition(":")
    return host, port if separator else str(DEFAULT_PORT)


def _refuse(entry: Any, why: str) -> NoReturn:
    shown = without_secrets(repr(entry))
    raise BadAddress(f"{shown}: {why}" if why.startswith(("write", "brackets")) else f"{shown} {why}")
