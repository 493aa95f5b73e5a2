"""Declarations as data, for comparison with Kafka's schemas.

Used by tests/conformance and by the naive codec of tests/protocol, never by the client or the broker. Version
ranges are effective: pairs (first, last) within the message's valid versions and, for nested fields, within
those of the outer field; None is the empty range.
"""

from __future__ import annotations

import re
from typing import Any, TypeAlias

from pykafka2.protocol.declared import resolved_fields
from pykafka2.protocol.fields import Field, VersionRange
from pykafka2.protocol.struct import (
    Data,
    Message,
    MetadataRecord,
    RecordKey,
    RecordValue,
    Request,
    Response,
    Struct,
)

Span: TypeAlias = "tuple[int, int] | None"


def describe(cls: type[Message]) -> dict[str, Any]:
    """Return a message's name, type, key, versions and fields.

    Returns:
        name; type ("request", "response", "coordinator-key", "coordinator-value", "metadata", "data");
        api_key (of records their kind, else None); valid_versions; flexible_versions;
        latest_version_unstable; fields, each with name, type (Kafka's, "struct" for any struct, "[]" before
        the elements' of an array), versions, nullable_versions, tagged_versions, tag, default (structs: None
        or "struct"), ignorable, flexible, secret, fields (of a struct, else empty).
    """
    valid = (cls.MIN_VERSION, cls.LAST_VERSION)
    return {
        "name": cls.NAME,
        "type": _type_of(cls),
        "api_key": _key_of(cls),
        "valid_versions": valid,
        "flexible_versions": within(VersionRange(cls.FLEXIBLE_FROM, VersionRange.ENDLESS), valid),
        "latest_version_unstable": cls.MAX_VERSION != cls.LAST_VERSION,
        "fields": _describe_fields(cls, valid),
    }


def within(versions: VersionRange, outer: Span) -> Span:
    """Return the intersection of two ranges."""
    if outer is None:
        return None
    low, high = max(versions.low, outer[0]), min(versions.high, outer[1])
    return (low, high) if low <= high else None


def snake_case(name: str) -> str:
    """Return the Python name of a field, from Kafka's."""
    name = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name)
    return re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1_\2", name).lower()


def _describe_fields(cls: type[Struct], outer: Span) -> list[dict[str, Any]]:
    described = []
    for field in resolved_fields(cls):
        versions = within(field.versions, outer)
        described.append(
            {
                "name": field.name,
                "type": ("[]" if field.array else "") + field.kind,
                "versions": versions,
                "nullable_versions": within(field.nullable, versions),
                "tagged_versions": within(field.tagged, versions),
                "tag": field.tag,
                "default": _default_of(field),
                "ignorable": field.ignorable,
                "flexible": field.flexible,
                "secret": field.secret,
                "fields": [] if field.struct is None else _describe_fields(field.struct, versions),
            }
        )
    return described


def _default_of(field: Field) -> Any:
    default = field.absent_value() if field.struct is None or field.array or not field.required else "struct"
    return "struct" if isinstance(default, Struct) else default


def _type_of(cls: type[Message]) -> str:
    for base, name in (
        (Request, "request"),
        (Response, "response"),
        (RecordKey, "coordinator-key"),
        (RecordValue, "coordinator-value"),
        (MetadataRecord, "metadata"),
        (Data, "data"),
    ):
        if issubclass(cls, base):
            return name
    raise TypeError(f"{cls.__name__} is not a message class")


def _key_of(cls: type[Message]) -> int | None:
    if issubclass(cls, Request | Response):
        return cls.API_KEY
    return cls.RECORD_KIND if issubclass(cls, RecordKey | RecordValue | MetadataRecord) else None
