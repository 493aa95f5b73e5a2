"""Messages as classes with declared fields, compiled at first use.

A Struct costs almost nothing at import: its metaclass stores the declarations and adds slots. The first
instance compiles `__init__` and `__eq__` (methods.py), the first encode or decode of a version compiles that
codec (encoding.py, decoding.py). Messages are plain values: mutable, compared by value, not shared between
threads. Two threads can compile the same codec at once, which is harmless.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, dataclass_transform

from pykafka2.errors import UnsupportedVersion
from pykafka2.protocol.declared import Decoder, Encoder, WeighingDecoder, module_of, resolved_fields
from pykafka2.protocol.fields import MISSING, Field, VersionRange, field
from pykafka2.protocol.primitives import (
    DECODE_ERRORS,
    ENCODE_ERRORS,
    Budget,
    Buffer,
    FramePart,
    flat,
    uuid_to_text,
)

if TYPE_CHECKING:
    from typing import Self

LONG_BYTES = 1 << 18
"""Longer messages are decoded with a memory budget; shorter ones cannot take more than about 12 MB."""


class StructMeta(type):
    """Turns annotations into slots. This needs a metaclass: slots must exist when the class is created."""

    def __new__(
        mcls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **keywords: Any
    ) -> StructMeta:
        if "__slots__" not in namespace:
            declared: list[Field] = []
            for field_name, annotation in namespace.get("__annotations__", {}).items():
                entry = namespace.pop(field_name, None) or field()
                entry.name = field_name
                entry.annotation = annotation
                declared.append(entry)
            namespace["__slots__"] = tuple(entry.name for entry in declared)
            namespace["_fields"] = tuple(declared)
        return super().__new__(mcls, name, bases, namespace, **keywords)


@dataclass_transform(kw_only_default=True, field_specifiers=(field,))
class Struct(metaclass=StructMeta):
    """A group of fields, declared as annotated names in a module with postponed annotations.

    Instances are created with keywords; fields without a default are required. They are compared by value and
    are not hashable. Not thread-safe while being changed.
    """

    __slots__ = ()

    _fields: ClassVar[tuple[Field, ...]] = ()
    _resolved: ClassVar[bool] = False
    _encoders: ClassVar[dict[tuple[int, bool], Encoder]] = {}
    _decoders: ClassVar[dict[tuple[int, bool], Decoder]] = {}
    _weighing_decoders: ClassVar[dict[tuple[int, bool], WeighingDecoder]] = {}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls._encoders = {}
        cls._decoders = {}
        cls._weighing_decoders = {}

    if not TYPE_CHECKING:

        def __init__(self, **values: Any) -> None:
            from pykafka2.protocol.methods import compile_init

            cls = type(self)
            cls.__init__ = compile_init(cls)
            self.__init__(**values)

    def __eq__(self, other: object) -> bool:
        from pykafka2.protocol.methods import compile_eq

        cls = type(self)
        cls.__eq__ = compile_eq(cls)  # type: ignore[method-assign]
        return self.__eq__(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        """Return the fields that differ from their defaults; secrets and long bytes are not shown."""
        shown = []
        for entry in resolved_fields(type(self)):
            value = getattr(self, entry.name, MISSING)
            if entry.required or value != entry.absent_value():
                shown.append(f"{entry.name}={_shown(entry, value)}")
        return f"{type(self).__name__}({', '.join(shown)})"


class Message(Struct):
    """A top-level struct, with versions and an encoding."""

    __slots__ = ()

    NAME: ClassVar[str] = ""
    """Kafka's name of the message."""
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = -1
    """The highest stable version in Kafka, which is offered and used."""
    LAST_VERSION: ClassVar[int] = -1
    """The highest declared version: MAX_VERSION, or one above it that is unstable."""
    FLEXIBLE_FROM: ClassVar[int] = VersionRange.ENDLESS + 1
    """The first flexible version (KIP-482)."""

    def __init_subclass__(
        cls, *, versions: str = "none", flexible: str = "none", latest_version_unstable: bool = False
    ) -> None:
        super().__init_subclass__()
        span = VersionRange.parse(versions)
        cls.NAME = cls.__name__
        cls.MIN_VERSION = span.low
        cls.LAST_VERSION = span.high
        cls.MAX_VERSION = span.high - latest_version_unstable
        cls.FLEXIBLE_FROM = VersionRange.ENDLESS + 1 if flexible == "none" else int(flexible.rstrip("+"))

    @classmethod
    def is_flexible(cls, version: int) -> bool:
        """Return whether `version` has compact lengths and tagged fields (KIP-482)."""
        return version >= cls.FLEXIBLE_FROM

    def encode(self, version: int) -> bytes:
        """Return the message's bytes, without header and length.

        Raises:
            UnsupportedVersion: the message has no such version, or a field that the version lacks is set.
            SerializationError: a value does not fit its field; names the field.
        """
        parts: list[Buffer] = []
        self.encode_into(version, parts)
        return b"".join(parts)

    def encode_into(self, version: int, parts: list[Buffer] | list[FramePart]) -> None:
        """Append the message's bytes to `parts`; record batches and long bytes are appended uncopied.

        Only messages with records can have file parts.

        Raise the errors of encode(); `parts` can then contain the start of the message.
        """
        encoder = self._encoders.get((version, version >= self.FLEXIBLE_FROM))
        if encoder is None:
            from pykafka2.protocol.encoding import encoder_of

            encoder = encoder_of(type(self), self.checked_version(version), self.is_flexible(version))
        try:
            encoder(self, parts.append)
        except ENCODE_ERRORS as error:
            from pykafka2.protocol.field_errors import unencodable

            raise unencodable(self.NAME, version, error) from error

    @classmethod
    def decode(cls, data: Buffer, version: int, *, allow_trailing: bool = False) -> Self:
        """Return the message that `data` contains, from first to last byte.

        Records remain views of `data`, which must therefore not be changed.

        Raises:
            UnsupportedVersion: the message has no such version.
            CorruptData: the bytes are malformed, continue after the message without `allow_trailing`, or
                would take more memory than `MAX_DECODED_BYTES`.
        """
        message, position = cls.decode_from(data, 0, version)
        if position != len(data) and not allow_trailing:
            from pykafka2.protocol.field_errors import trailing_bytes

            raise trailing_bytes(cls.NAME, version, len(data) - position)
        return message

    @classmethod
    def decode_from(cls, data: Buffer, offset: int, version: int) -> tuple[Self, int]:
        """Decode from `offset`; return the message and the position after it."""
        if type(data) is not bytes:
            data = flat(data)
        if len(data) > LONG_BYTES:
            return cls._decode_long(data, offset, version)
        decoder = cls._decoders.get((version, version >= cls.FLEXIBLE_FROM))
        if decoder is None:
            from pykafka2.protocol.decoding import decoder_of

            decoder = decoder_of(cls, cls.checked_version(version), cls.is_flexible(version))
        try:
            return decoder(data, offset, len(data))
        except DECODE_ERRORS as error:
            from pykafka2.protocol.field_errors import corrupt_data

            raise corrupt_data(cls.NAME, version, error) from error

    @classmethod
    def _decode_long(cls, data: Buffer, offset: int, version: int) -> tuple[Self, int]:
        """Decode with a memory budget: each array is checked first, as the peer sets its count."""
        from pykafka2.protocol.decoding import weighing_decoder_of

        decoder = weighing_decoder_of(cls, cls.checked_version(version), cls.is_flexible(version))
        try:
            return decoder(data, offset, len(data), Budget())
        except DECODE_ERRORS as error:
            from pykafka2.protocol.field_errors import corrupt_data

            raise corrupt_data(cls.NAME, version, error) from error

    @classmethod
    def checked_version(cls, version: int) -> int:
        """Return `version`. Raise UnsupportedVersion if it is not declared."""
        if cls.MIN_VERSION <= version <= cls.LAST_VERSION:
            return version
        raise UnsupportedVersion(
            f"{cls.NAME} has no version {version}, only {cls.MIN_VERSION} to {cls.LAST_VERSION}"
        )


class Response(Message):
    """A broker's response; API_KEY is that of its request."""

    __slots__ = ()

    API_KEY: ClassVar[int] = -1

    def __init_subclass__(
        cls,
        *,
        api_key: int = -1,
        versions: str = "none",
        flexible: str = "none",
        latest_version_unstable: bool = False,
    ) -> None:
        super().__init_subclass__(
            versions=versions, flexible=flexible, latest_version_unstable=latest_version_unstable
        )
        cls.API_KEY = api_key
        # A response is declared after its request, in the same module, with the same name.
        request = vars(module_of(cls)).get(cls.__name__.removesuffix("Response") + "Request")
        if request is not None:
            request.RESPONSE = cls


ResponseT_co = TypeVar("ResponseT_co", bound=Response, covariant=True)


class Request(Message, Generic[ResponseT_co]):
    """A request, generic in the class of its response, so that a call is typed."""

    __slots__ = ()

    API_KEY: ClassVar[int] = -1
    RESPONSE: ClassVar[type[Response]] = Response
    """The class of the response."""

    def __init_subclass__(
        cls,
        *,
        api_key: int = -1,
        versions: str = "none",
        flexible: str = "none",
        latest_version_unstable: bool = False,
    ) -> None:
        super().__init_subclass__(
            versions=versions, flexible=flexible, latest_version_unstable=latest_version_unstable
        )
        cls.API_KEY = api_key


class Data(Message):
    """A structure inside the bytes of other messages or records, with its own version."""

    __slots__ = ()


class RecordKey(Data):
    """The key of a coordinator's record; an int16 before it is its kind."""

    __slots__ = ()

    RECORD_KIND: ClassVar[int] = -1

    def __init_subclass__(cls, *, kind: int = -1, versions: str = "none", flexible: str = "none") -> None:
        super().__init_subclass__(versions=versions, flexible=flexible)
        cls.RECORD_KIND = kind


class RecordValue(Data):
    """The value of a coordinator's record; an int16 before it is its version."""

    __slots__ = ()

    RECORD_KIND: ClassVar[int] = -1

    def __init_subclass__(cls, *, kind: int = -1, versions: str = "none", flexible: str = "none") -> None:
        super().__init_subclass__(versions=versions, flexible=flexible)
        cls.RECORD_KIND = kind


class MetadataRecord(Data):
    """A record of the metadata log; its API key is none of a request."""

    __slots__ = ()

    RECORD_KIND: ClassVar[int] = -1

    def __init_subclass__(cls, *, api_key: int = -1, versions: str = "none", flexible: str = "none") -> None:
        super().__init_subclass__(versions=versions, flexible=flexible)
        cls.RECORD_KIND = api_key


def _shown(entry: Field, value: Any) -> str:
    if value is None or value is MISSING:
        return repr(value)
    if entry.secret:
        return "***"
    if entry.kind == "uuid" and not entry.array:
        return uuid_to_text(value) if len(value) == 16 else repr(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return repr(bytes(value)) if len(value) <= 16 else f"<{len(value)} bytes>"
    if entry.kind == "uuid" and isinstance(value, list):
        value = [uuid_to_text(item) if len(item) == 16 else item for item in value]
    if isinstance(value, list) and len(value) > 8:
        return f"[{', '.join(map(repr, value[:8]))}, … {len(value) - 8} more]"
    return repr(value)
