"""Reads names and dates of an X.509 certificate from its DER encoding.

`ssl` decodes only verified certificates, and a rejected one is the one to explain. Pure functions on bytes;
raises CorruptData for anything else than a certificate.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from datetime import UTC, datetime

from pykafka2.errors import CorruptData
from pykafka2.slotted import slotted

_SEQUENCE, _OID, _UTC_TIME, _GENERALIZED_TIME = 0x30, 0x06, 0x17, 0x18
_VERSION, _EXTENSIONS = 0xA0, 0xA3
_DNS_NAME, _IP_ADDRESS = 0x82, 0x87
_OCTET_STRING, _BMP_STRING = 0x04, 0x1E
_ALTERNATIVE_NAMES = bytes((0x55, 0x1D, 0x11))
_ATTRIBUTES = {
    bytes((0x55, 0x04, 0x03)): "CN",
    bytes((0x55, 0x04, 0x06)): "C",
    bytes((0x55, 0x04, 0x07)): "L",
    bytes((0x55, 0x04, 0x08)): "ST",
    bytes((0x55, 0x04, 0x0A)): "O",
    bytes((0x55, 0x04, 0x0B)): "OU",
}


@slotted(frozen=True)
class Certificate:
    """The readable part of a certificate; times are in UTC."""

    subject: str
    issuer: str
    not_before: datetime
    not_after: datetime
    names: tuple[str, ...]
    """The host names and addresses for which it is valid."""


def read_certificate(der: bytes) -> Certificate:
    """Return the names and dates of a certificate. Raise CorruptData."""
    try:
        return _read(der)
    except (IndexError, ValueError, StopIteration) as error:
        raise CorruptData(f"not a certificate: {error}") from error


def _read(der: bytes) -> Certificate:
    _, whole = next(_elements(der))
    _, signed = next(_elements(whole))
    parts = list(_elements(signed))
    if parts[0][0] == _VERSION:
        parts.pop(0)
    _, _, (_, issuer), (_, validity), (_, subject), *rest = parts
    (before_tag, before), (after_tag, after) = _elements(validity)
    extensions = next((content for tag, content in rest if tag == _EXTENSIONS), b"")
    return Certificate(
        _name(subject), _name(issuer), _time(before_tag, before), _time(after_tag, after), _names(extensions)
    )


def _elements(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield tag and content of each element."""
    at = 0
    while at < len(data):
        tag, size = data[at], data[at + 1]
        at += 2
        if size & 0x80:
            count = size & 0x7F
            if not 1 <= count <= 4:
                raise ValueError("an element has an invalid length")
            size = int.from_bytes(data[at : at + count], "big")
            at += count
        if at + size > len(data):
            raise ValueError("an element is cut off")
        yield tag, data[at : at + size]
        at += size


def _name(name: bytes) -> str:
    attributes = []
    for _, one_set in _elements(name):
        for _, pair in _elements(one_set):
            (_, oid), (tag, value) = list(_elements(pair))[:2]
            if oid in _ATTRIBUTES:
                text = value.decode("utf-16-be" if tag == _BMP_STRING else "utf-8", "replace")
                attributes.append(f"{_ATTRIBUTES[oid]}={text}")
    return ", ".join(attributes)


def _time(tag: int, value: bytes) -> datetime:
    if tag not in (_UTC_TIME, _GENERALIZED_TIME):
        raise ValueError("a date is missing")
    text = value.decode("ascii").removesuffix("Z")
    if tag == _UTC_TIME:  # two digits of the year: 50 to 99 are 1950 to 1999 (RFC 5280)
        text = ("19" if int(text[:2]) >= 50 else "20") + text
    return datetime.strptime(text, "%Y%m%d%H%M%S").replace(tzinfo=UTC)


def _names(extensions: bytes) -> tuple[str, ...]:
    found: list[str] = []
    for _, every in _elements(extensions):
        for _, extension in _elements(every):
            fields = list(_elements(extension))
            if fields[0] != (_OID, _ALTERNATIVE_NAMES):
                continue
            value = next(content for tag, content in fields if tag == _OCTET_STRING)
            for _, names in _elements(value):
                for tag, name in _elements(names):
                    if tag == _DNS_NAME:
                        found.append(name.decode("ascii", "replace"))
                    elif tag == _IP_ADDRESS:
                        found.append(str(ipaddress.ip_address(name)))
    return tuple(found)
