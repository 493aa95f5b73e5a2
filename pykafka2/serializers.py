"""Serializers and deserializers of keys and values, compatible with the Java client's.

They run on the caller's thread: serializers inside `send`, deserializers inside `poll`. All are stateless and
can be shared. Names and bytes are those of org.apache.kafka.common.serialization.

The clients' options accept one of these, any other object with `serialize(topic, headers, data)` or
`deserialize(topic, headers, data)`, or a plain function of the data. They are never called with None: a null
key or value stays null.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar, overload

from pykafka2.errors import ConfigurationError, KafkaError, SerializationError
from pykafka2.flattened import own_copy
from pykafka2.option_fields import NOT_AWAITED, is_async
from pykafka2.types import Headers

if TYPE_CHECKING:
    from uuid import UUID

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)
T_co = TypeVar("T_co", covariant=True)

Buffer = bytes | bytearray | memoryview

SerializeFunction = Callable[[str, Headers, Any], "bytes | None"]
DeserializeFunction = Callable[[str, Headers, bytes], Any]


class ToBytes(Protocol[T_contra]):
    """A function that serializes a key or a value; the result None writes a null.

    A protocol rather than a `Callable`, so that mypy infers Any for the parameter of a lambda.
    """

    def __call__(self, data: T_contra, /) -> bytes | None: ...


class SupportsSerialize(Protocol[T_contra]):
    """The interface of a user's serializer; the result None writes a null."""

    def serialize(self, topic: str, headers: Headers, data: T_contra) -> bytes | None:
        """Return the bytes of a key or value that is not None. It can add items to `headers`."""
        ...


class SupportsDeserialize(Protocol[T_co]):
    """The interface of a user's deserializer."""

    def deserialize(self, topic: str, headers: Headers, data: bytes) -> T_co:
        """Return the value of a key's or value's bytes."""
        ...


def serialize_function(option: Any, name: str = "serializer") -> SerializeFunction | None:
    """Return the option as a function of topic, headers and data; None stays None (raw bytes).

    Raises:
        ConfigurationError: it is neither; the message has its `name`.
    """
    return _as_function(option, "serialize", name)


def deserialize_function(option: Any, name: str = "deserializer") -> DeserializeFunction | None:
    """Return the option as a function, like `serialize_function` for the other direction."""
    return _as_function(option, "deserialize", name)


def _as_function(option: Any, method_name: str, name: str) -> Callable[[str, Headers, Any], Any] | None:
    if option is None:
        return None
    if isinstance(option, type) and (
        hasattr(option, "serialize") or hasattr(option, "deserialize") or "__call__" in vars(option)
    ):
        raise ConfigurationError(
            f"{name} is the class {option.__name__}; pass an object: {option.__name__}()"
        )
    if option is str:  # str() turns bytes into "b'...'", and its result cannot be sent
        replacement = "bytes.decode" if method_name == "deserialize" else "str.encode"
        raise ConfigurationError(f"{name} is str; write {replacement}")
    method = getattr(option, method_name, None)
    if is_async(method if callable(method) else option):
        raise ConfigurationError(f"{name}: {NOT_AWAITED}")
    if callable(method):
        bound: Callable[[str, Headers, Any], Any] = method
        return bound
    if callable(option):
        return lambda topic, headers, data: option(data)
    raise ConfigurationError(
        f"{name} must be a function of the data or have {method_name}(topic, headers, data), not {option!r}"
    )


class Serializer(Generic[T]):
    """Base of the serializers here: subclasses define `to_bytes`; errors become SerializationError."""

    fixed_bytes: ClassVar[int | None] = None
    """The size of every value, if fixed; lists are then written without sizes."""

    def to_bytes(self, data: T) -> bytes | None:
        """Return the bytes of a value that is not None. Subclasses define this method."""
        raise NotImplementedError

    def serialize(self, topic: str, headers: Headers, data: T | None) -> bytes | None:
        """Serialize data. Raise SerializationError with the topic if it has the wrong type."""
        if data is None:
            return None
        try:
            return self.to_bytes(data)
        except KafkaError:
            raise
        except Exception as error:
            raise SerializationError(
                f"{type(self).__name__} for topic {topic}: cannot serialize {type(data).__name__}: {error}"
            ) from error


class Deserializer(Generic[T]):
    """Base of the deserializers here: subclasses define `from_bytes`; errors become SerializationError."""

    fixed_bytes: ClassVar[int | None] = None

    def from_bytes(self, data: bytes) -> T:
        """Return the value of these bytes. Subclasses define this method."""
        raise NotImplementedError

    @overload
    def deserialize(self, topic: str, headers: Headers, data: bytes) -> T: ...

    @overload
    def deserialize(self, topic: str, headers: Headers, data: bytes | None) -> T | None: ...

    def deserialize(self, topic: str, headers: Headers, data: bytes | None) -> T | None:
        """Deserialize bytes. Raise SerializationError with the topic if they are malformed."""
        if data is None:
            return None
        if self.fixed_bytes is not None and len(data) != self.fixed_bytes:
            raise SerializationError(
                f"{type(self).__name__} for topic {topic}: {len(data)} bytes, not {self.fixed_bytes}"
            )
        try:
            return self.from_bytes(data)
        except KafkaError:
            raise
        except Exception as error:
            raise SerializationError(
                f"{type(self).__name__} for topic {topic}: cannot deserialize {len(data)} bytes: {error}"
            ) from error


# ---------------------------------------------------------------------------------------------------
# Text and bytes
# ---------------------------------------------------------------------------------------------------


class StringSerializer(Serializer[str]):
    """Text in an encoding, UTF-8 by default (Java's serializer.encoding)."""

    def __init__(self, encoding: str = "utf-8") -> None:
        self.encoding = encoding

    def to_bytes(self, data: str) -> bytes:
        return data.encode(self.encoding)


class StringDeserializer(Deserializer[str]):
    """Text in an encoding; errors="replace" decodes invalid bytes as U+FFFD, as Java does."""

    def __init__(self, encoding: str = "utf-8", errors: str = "strict") -> None:
        self.encoding = encoding
        self.errors = errors

    def from_bytes(self, data: bytes) -> str:
        return data.decode(self.encoding, self.errors)


class DefaultSerializer(Serializer[str | Buffer], Deserializer[str]):
    """kafka-python's default: serializes text in an encoding, or raw bytes; deserializes text."""

    def __init__(self, encoding: str = "utf-8") -> None:
        self.encoding = encoding

    def to_bytes(self, data: str | Buffer) -> bytes:
        return data.encode(self.encoding) if isinstance(data, str) else memoryview(data).tobytes()

    def from_bytes(self, data: bytes) -> str:
        return data.decode(self.encoding)


class BytesSerializer(Serializer[Buffer]):
    """Any object with the buffer protocol; arrays of wider items are copied as they are in memory."""

    def to_bytes(self, data: Buffer) -> bytes:
        return data if type(data) is bytes else memoryview(data).tobytes()


class BytesDeserializer(Deserializer[bytes]):
    """The raw bytes."""

    def from_bytes(self, data: bytes) -> bytes:
        return data


class ByteArraySerializer(BytesSerializer):
    """`BytesSerializer` by Java's name for bytes."""


class ByteArrayDeserializer(BytesDeserializer):
    """`BytesDeserializer` by Java's name for bytes."""


class ByteBufferSerializer(BytesSerializer):
    """`BytesSerializer` by Java's name for a buffer."""


class ByteBufferDeserializer(Deserializer[memoryview]):
    """A read-only view of the bytes."""

    def from_bytes(self, data: bytes) -> memoryview:
        return memoryview(data)


class VoidSerializer(Serializer[None]):
    """Keys or values that are always null."""

    def to_bytes(self, data: None) -> bytes | None:
        raise SerializationError(f"VoidSerializer takes only None, not {type(data).__name__}")


class VoidDeserializer(Deserializer[None]):
    """Keys or values that are always null."""

    def from_bytes(self, data: bytes) -> None:
        raise SerializationError(f"VoidDeserializer expects null, not {len(data)} bytes")


# ---------------------------------------------------------------------------------------------------
# Numbers: big-endian, of fixed size
# ---------------------------------------------------------------------------------------------------


class _NumberSerializer(Serializer[T]):
    layout: ClassVar[struct.Struct]

    def __init_subclass__(cls) -> None:
        cls.fixed_bytes = cls.layout.size
        if _NumberSerializer in cls.__bases__:
            setattr(cls, "to_bytes", own_copy(_NumberSerializer.to_bytes, cls))  # noqa: B010 - for mypy

    def to_bytes(self, data: T) -> bytes:
        return self.layout.pack(data)


class _NumberDeserializer(Deserializer[T]):
    layout: ClassVar[struct.Struct]

    def __init_subclass__(cls) -> None:
        cls.fixed_bytes = cls.layout.size
        if _NumberDeserializer in cls.__bases__:
            setattr(cls, "from_bytes", own_copy(_NumberDeserializer.from_bytes, cls))  # noqa: B010 - for mypy

    def from_bytes(self, data: bytes) -> T:
        value: T = self.layout.unpack(data)[0]
        return value


class ShortSerializer(_NumberSerializer[int]):
    """int16."""

    layout = struct.Struct(">h")


class ShortDeserializer(_NumberDeserializer[int]):
    """int16."""

    layout = struct.Struct(">h")


class IntegerSerializer(_NumberSerializer[int]):
    """int32."""

    layout = struct.Struct(">i")


class IntegerDeserializer(_NumberDeserializer[int]):
    """int32."""

    layout = struct.Struct(">i")


class LongSerializer(_NumberSerializer[int]):
    """int64."""

    layout = struct.Struct(">q")


class LongDeserializer(_NumberDeserializer[int]):
    """int64."""

    layout = struct.Struct(">q")


class FloatSerializer(_NumberSerializer[float]):
    """float32, rounded to the nearest."""

    layout = struct.Struct(">f")


class FloatDeserializer(_NumberDeserializer[float]):
    """float32."""

    layout = struct.Struct(">f")


class DoubleSerializer(_NumberSerializer[float]):
    """float64."""

    layout = struct.Struct(">d")


class DoubleDeserializer(_NumberDeserializer[float]):
    """float64."""

    layout = struct.Struct(">d")


class BooleanSerializer(Serializer[bool]):
    """One byte, 1 or 0."""

    def to_bytes(self, data: bool) -> bytes:
        if not isinstance(data, bool):
            raise SerializationError(f"BooleanSerializer takes True and False, not {type(data).__name__}")
        return b"\1" if data else b"\0"


class BooleanDeserializer(Deserializer[bool]):
    """One byte, 1 or 0; any other is rejected."""

    def from_bytes(self, data: bytes) -> bool:
        if data not in (b"\0", b"\1"):
            raise SerializationError(f"BooleanDeserializer expects the byte 0 or 1, not {data[:8].hex()}")
        return data == b"\1"


class UUIDSerializer(Serializer["UUID"]):
    """The 36 characters of its text."""

    fixed_bytes = 36

    def to_bytes(self, data: UUID) -> bytes:
        from uuid import UUID

        if not isinstance(data, UUID):
            raise SerializationError(f"UUIDSerializer takes uuid.UUID, not {type(data).__name__}")
        return str(data).encode("ascii")


class UUIDDeserializer(Deserializer["UUID"]):
    """The 36 characters of its text."""

    fixed_bytes = 36

    def from_bytes(self, data: bytes) -> UUID:
        from uuid import UUID

        return UUID(data.decode("ascii"))


# ---------------------------------------------------------------------------------------------------
# Lists and JSON
# ---------------------------------------------------------------------------------------------------

CONSTANT_SIZE = 0
VARIABLE_SIZE = 1
NULL_ENTRY = -1

INT32 = struct.Struct(">i")


class ListSerializer(Serializer[Iterable[T]]):
    """A list of values of the inner serializer or None (KIP-466).

    With an inner serializer of fixed size the positions of nulls come first, then the bare entries; otherwise
    the size precedes each entry, -1 for a null.
    """

    def __init__(self, inner: SupportsSerialize[T] | Callable[[T], bytes]) -> None:
        self.inner = serialize_function(inner, "the list's inner serializer")
        self.inner_bytes: int | None = getattr(inner, "fixed_bytes", None)

    def serialize(self, topic: str, headers: Headers, data: Iterable[T | None] | None) -> bytes | None:
        """Serialize a list. Raise SerializationError if data is no list, or an entry has the wrong type."""
        if data is None:
            return None
        if isinstance(data, str | bytes | bytearray | memoryview) or not isinstance(data, Iterable):
            raise SerializationError(f"ListSerializer for topic {topic}: {type(data).__name__} is not a list")
        entries = [None if entry is None else self._entry(topic, headers, entry) for entry in data]
        parts = [bytes((VARIABLE_SIZE if self.inner_bytes is None else CONSTANT_SIZE,))]
        if self.inner_bytes is not None:
            nulls = [index for index, entry in enumerate(entries) if entry is None]
            parts += (INT32.pack(number) for number in (len(nulls), *nulls))
        parts.append(INT32.pack(len(entries)))
        for entry in entries:
            if self.inner_bytes is None:
                parts.append(INT32.pack(NULL_ENTRY if entry is None else len(entry)))
            parts.append(entry or b"")
        return b"".join(parts)

    def _entry(self, topic: str, headers: Headers, entry: T) -> bytes | None:
        return None if self.inner is None else self.inner(topic, headers, entry)


class ListDeserializer(Deserializer[list[Any]]):
    """A list in the format of `ListSerializer`."""

    def __init__(self, inner: SupportsDeserialize[Any] | Callable[[bytes], Any]) -> None:
        self.inner = deserialize_function(inner, "the list's inner deserializer")
        self.inner_bytes: int | None = getattr(inner, "fixed_bytes", None)

    @overload
    def deserialize(self, topic: str, headers: Headers, data: bytes) -> list[Any]: ...

    @overload
    def deserialize(self, topic: str, headers: Headers, data: bytes | None) -> list[Any] | None: ...

    def deserialize(self, topic: str, headers: Headers, data: bytes | None) -> list[Any] | None:
        """Deserialize a list. Raise SerializationError if the bytes are malformed or of another strategy."""
        if data is None:
            return None
        try:
            entries = self._entries(data)
        except (struct.error, IndexError, SerializationError) as error:
            raise SerializationError(f"ListDeserializer for topic {topic}: {error}") from error
        if self.inner is None:
            return list(entries)
        return [None if entry is None else self.inner(topic, headers, entry) for entry in entries]

    def _entries(self, data: bytes) -> list[bytes | None]:
        strategy, position = data[0], 1
        if strategy not in (CONSTANT_SIZE, VARIABLE_SIZE):
            raise SerializationError(f"{strategy} is not a valid strategy of lists")
        if strategy == CONSTANT_SIZE and self.inner_bytes is None:
            raise SerializationError("the entries have a fixed size, but the inner deserializer has none")
        nulls: set[int] = set()
        if strategy == CONSTANT_SIZE:
            null_count, position = self._int(data, position)
            for _ in range(null_count):
                index, position = self._int(data, position)
                nulls.add(index)
        count, position = self._int(data, position)
        # Each null takes four bytes in the data, so this limits what a false count can allocate.
        if count < 0 or count > len(data):
            raise SerializationError(f"{count} entries in {len(data)} bytes")
        entries: list[bytes | None] = []
        for index in range(count):
            size = self.inner_bytes
            if strategy == VARIABLE_SIZE:
                size, position = self._int(data, position)
            if size is None or size == NULL_ENTRY or index in nulls:
                entries.append(None)
                continue
            if not 0 <= size <= len(data) - position:
                raise SerializationError(f"an entry of {size} bytes where {len(data) - position} are left")
            entries.append(data[position : position + size])
            position += size
        return entries

    @staticmethod
    def _int(data: bytes, position: int) -> tuple[int, int]:
        return INT32.unpack_from(data, position)[0], position + INT32.size


class JsonDeserializer(Deserializer[Any]):
    """JSON as UTF-8."""

    def from_bytes(self, data: bytes) -> Any:
        import json

        return json.loads(data)


class JsonSerializer(Serializer[Any], JsonDeserializer):
    """JSON as UTF-8, without spaces or escapes of text beyond ASCII.

    It deserializes as well, like kafka-python's.
    """

    def to_bytes(self, data: Any) -> bytes:
        import json

        return json.dumps(data, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()
