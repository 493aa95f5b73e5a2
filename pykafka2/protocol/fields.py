"""Declares the fields of messages: the names of the protocol's types, and field() for more than a type.

    class FetchPartition(Struct):
        partition: Int32
        current_leader_epoch: Int32 = field("9+", default=-1)

The type names are plain Python types to a type checker; struct.py collects the declarations, the
code generators read them at first use. This module does not encode or decode bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Final, TypeAlias

from pykafka2.protocol.primitives import ZERO_UUID, Buffer

Bool: TypeAlias = Annotated[bool, "bool"]
Int8: TypeAlias = Annotated[int, "int8"]
Int16: TypeAlias = Annotated[int, "int16"]
Int32: TypeAlias = Annotated[int, "int32"]
Int64: TypeAlias = Annotated[int, "int64"]
UInt16: TypeAlias = Annotated[int, "uint16"]
Float64: TypeAlias = Annotated[float, "float64"]
String: TypeAlias = Annotated[str, "string"]
Uuid: TypeAlias = Annotated[bytes, "uuid"]
"""16 raw bytes; see uuid_to_text."""
Bytes: TypeAlias = Annotated[bytes, "bytes"]
"""Decoded as bytes; any buffer is accepted when encoding."""
Records: TypeAlias = Annotated[Buffer, "records"]
"""Record batches. Decoded as a memoryview of the frame; never copied, also when encoding."""

WIRE_NAMES: Final[dict[str, str]] = {
    "Bool": "bool",
    "Int8": "int8",
    "Int16": "int16",
    "Int32": "int32",
    "Int64": "int64",
    "UInt16": "uint16",
    "Float64": "float64",
    "String": "string",
    "Uuid": "uuid",
    "Bytes": "bytes",
    "Records": "records",
}
"""Kafka's name of each type, by the name used in declarations."""

STRUCT_CODES: Final[dict[str, str]] = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "int32": "i",
    "int64": "q",
    "uint16": "H",
    "float64": "d",
    "uuid": "16s",
}
"""The types of fixed width, with their codes in the standard library's struct module."""

_IMPLICIT_DEFAULTS: Final[dict[str, Any]] = {
    "bool": False,
    "float64": 0.0,
    "string": "",
    "uuid": ZERO_UUID,
    "bytes": b"",
    "records": None,
}


class VersionRange:
    """An inclusive range of versions; empty if `low` is above `high`."""

    __slots__ = ("high", "low")

    ENDLESS: Final = 32767

    def __init__(self, low: int, high: int) -> None:
        self.low = low
        self.high = high

    @classmethod
    def parse(cls, text: str) -> VersionRange:
        """Parse Kafka's notation: "3", "3-5", "3+", "none"."""
        if text == "none":
            return cls(1, 0)
        if text.endswith("+"):
            return cls(int(text[:-1]), cls.ENDLESS)
        low, _, high = text.partition("-")
        return cls(int(low), int(high or low))

    def __contains__(self, version: int) -> bool:
        return self.low <= version <= self.high

    def __repr__(self) -> str:
        return f"VersionRange({self.low}, {self.high})"


ALL_VERSIONS: Final = VersionRange(0, VersionRange.ENDLESS)
NO_VERSIONS: Final = VersionRange(1, 0)


class _Missing:
    """The default of a required field."""

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = _Missing()


class Field:
    """One declared field. `name` and `annotation` come from the class, the rest from field()."""

    __slots__ = (
        "annotation",
        "array",
        "default",
        "factory",
        "flexible",
        "ignorable",
        "kind",
        "name",
        "nullable_text",
        "optional",
        "secret",
        "struct",
        "tag",
        "tagged_text",
        "versions_text",
    )

    name: str
    annotation: str
    kind: str  # Kafka's type name, or "struct"; of the elements where `array`
    struct: type[Any] | None
    array: bool
    optional: bool  # None is a value in some version

    def __init__(
        self,
        versions: str,
        default: Any,
        factory: Callable[[], Any] | None,
        nullable: str,
        tag: int | None,
        tagged: str,
        ignorable: bool,
        flexible: bool,
        secret: bool,
    ) -> None:
        self.versions_text = versions
        self.default = default
        self.factory = factory
        self.nullable_text = nullable
        self.tag = tag
        self.tagged_text = tagged
        self.ignorable = ignorable
        self.flexible = flexible
        self.secret = secret

    @property
    def versions(self) -> VersionRange:
        """The versions with the field."""
        return VersionRange.parse(self.versions_text)

    @property
    def nullable(self) -> VersionRange:
        """The versions in which it may be null."""
        return VersionRange.parse(self.nullable_text)

    @property
    def tagged(self) -> VersionRange:
        """The versions with it as a tagged field."""
        return NO_VERSIONS if self.tag is None else VersionRange.parse(self.tagged_text or self.versions_text)

    @property
    def required(self) -> bool:
        """Whether it is required when a message is created."""
        return self.default is MISSING and self.factory is None

    def absent_value(self) -> Any:
        """Return the value after decoding a version without the field: its default, as in Kafka."""
        if self.factory is not None:
            return self.factory()
        if self.default is not MISSING:
            return self.default
        if self.array:
            return []
        if self.struct is not None:
            return self.struct()
        return _IMPLICIT_DEFAULTS.get(self.kind, 0)


def field(
    versions: str = "0+",
    *,
    default: Any = MISSING,
    factory: Callable[[], Any] | None = None,
    nullable: str = "none",
    tag: int | None = None,
    tagged: str = "",
    ignorable: bool = False,
    flexible: bool = True,
    secret: bool = False,
) -> Any:
    """Declare the properties of a field beyond its type.

    Args:
        versions: the versions with the field, in Kafka's notation ("3+", "0-12", "4").
        default: its value if not passed, and after decoding a version without it. A field with neither
            `default` nor `factory` is required.
        factory: creates a new default, for lists and structs.
        nullable: the versions in which it can be None.
        tag: its number as a tagged field, which is sent only if it differs from its default (KIP-482).
        tagged: the versions in which it is tagged, if not those of `versions`.
        ignorable: dropped silently when a version without it is encoded; otherwise a value other than the
            default raises UnsupportedVersion there.
        flexible: False for the one field that keeps its old encoding in flexible versions (KIP-511).
        secret: never shown by repr().
    """
    return Field(versions, default, factory, nullable, tag, tagged, ignorable, flexible, secret)
