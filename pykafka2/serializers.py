"""Objects into the bytes of keys and values, and back, as the Java client's serializers do it.

They run on the caller's thread: serializers inside `send`, deserializers inside `poll`.  All are stateless
and may be shared.  The names are those of org.apache.kafka.common.serialization, and so are the bytes.

The clients' options take one of these, any other object with `serialize(topic, headers, data)` or
`deserialize(topic, headers, data)`, or a plain function of the data.  None is never handed to them: a null
key or value stays one.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar, overload

from pykafka2.errors import ConfigurationError, KafkaError, SerializationError
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
    """A function that serializes a key or a value; None as result writes a null.

    A protocol and no `Callable`, because mypy then infers Any for the parameter of a lambda.
    """

    def __call__(self, data: T_contra, /) -> bytes | None: ...


class SupportsSerialize(Protocol[T_contra]):
    """The interface of a user's serializer; None as its result makes a null."""

    def serialize(self, topic: str, headers: Headers, data: T_contra) -> bytes | None: ...


class SupportsDeserialize(Protocol[T_co]):
    """The interface of a user's deserializer."""

    def deserialize(self, topic: str, headers: Headers, data: bytes) -> T_co: ...


def serialize_function(option: Any, name: str = "serializer") -> SerializeFunction | None:
    """The option as a function of topic, headers and data; None stays None and means bytes as they are.

    Raises:
        ConfigurationError: it is neither; the message calls it `name`.
    """
    return _as_function(option, "serialize", name)


def deserialize_function(option: Any, name: str = "deserializer") -> DeserializeFunction | None:
    """Return the function for the option, like `serialize_function` for the other direction."""
    return _as_function(option, "deserialize", name)


def _as_function(option: Any, method_name: str, name: str) -> Callable[[str, Headers, Any], Any] | None:
    if option is None:
        return None
    if isinstance(option, type) and (
        hasattr(option, "serialize") or hasattr(option, "deserialize") or "__call__" in vars(option)
    ):
        raise ConfigurationError(
            f"{name} is the class {option.__name__}; give an object: {option.__name__}()"
        )
    if option is str:  # which makes "b'...'" of bytes, and nothing that can be sent
        meant = "bytes.decode" if method_name == "deserialize" else "str.encode"
        raise ConfigurationError(f"{name} is str; write {meant}")
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
    """Base of the serializers here: subclasses say `to_bytes`; its errors become SerializationError."""

    fixed_bytes: ClassVar[int | None] = None
    """The size of every value, where there is one; lists are then written without sizes."""

    def to_bytes(self, data: T) -> bytes | None:
        raise NotImplementedError

    def serialize(self, topic: str, headers: Headers, data: T | None) -> bytes | None:
        """Raises SerializationError naming the topic if data is not of this serializer's kind."""
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
    """Base of the deserializers here: subclasses say `from_bytes`; its errors become SerializationError."""

    fixed_bytes: ClassVar[int | None] = None

    def from_bytes(self, data: bytes) -> T:
        raise NotImplementedError

    @overload
    def deserialize(self, topic: str, headers: Headers, data: bytes) -> T: ...

    @overload
    def deserialize(self, topic: str, headers: Headers, data: bytes | None) -> T | None: ...

    def deserialize(self, topic: str, headers: Headers, data: bytes | None) -> T | None:
        """Raises SerializationError naming the topic if the bytes are not of this deserializer's kind."""
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
    """Text in an encoding; errors="replace" puts U+FFFD for what is not text, as Java does."""

    def __init__(self, encoding: str = "utf-8", errors: str = "strict") -> None:
        self.encoding = encoding
        self.errors = errors

    def from_bytes(self, data: bytes) -> str:
        return data.decode(self.encoding, self.errors)


class DefaultSerializer(Serializer[str | Buffer], Deserializer[str]):
    """Text in an encoding, or bytes as they are; reads text.  kafka-python's, for programs written for it."""

    def __init__(self, encoding: str = "utf-8") -> None:
        self.encoding = encoding

    def to_bytes(self, data: str | Buffer) -> bytes:
        return data.encode(self.encoding) if isinstance(data, str) else memoryview(data).tobytes()

    def from_bytes(self, data: bytes) -> str:
        return data.decode(self.encoding)


class BytesSerializer(Serializer[Buffer]):
    """Anything with the buffer protocol; the items of wider arrays go as they lie in memory."""

    def to_bytes(self, data: Buffer) -> bytes:
        return data if type(data) is bytes else memoryview(data).tobytes()


class BytesDeserializer(Deserializer[bytes]):
    """The bytes as they are."""

    def from_bytes(self, data: bytes) -> bytes:
        return data


class ByteArraySerializer(BytesSerializer):
    """Java's name for bytes."""


class ByteArrayDeserializer(BytesDeserializer):
    """Java's name for bytes."""


class ByteBufferSerializer(BytesSerializer):
    """Java's name for a buffer."""


class ByteBufferDeserializer(Deserializer[memoryview]):
    """A read-only view of the bytes."""

    def from_bytes(self, data: bytes) -> memoryview:
        return memoryview(data)


class VoidSerializer(Serializer[None]):
    """For keys or values that are always null."""

    def to_bytes(self, data: None) -> bytes | None:
        raise SerializationError(f"VoidSerializer takes only None, not {type(data).__name__}")


class VoidDeserializer(Deserializer[None]):
    """For keys or values that are always null."""

    def from_bytes(self, data: bytes) -> None:
        raise SerializationError(f"VoidDeserializer expects null, not {len(data)} bytes")


# ---------------------------------------------------------------------------------------------------
# Numbers: big-endian, of fixed size
# ---------------------------------------------------------------------------------------------------


class _NumberSerializer(Serializer[T]):
    layout: ClassVar[struct.Struct]

    def __init_subclass__(cls) -> None:
        cls.fixed_bytes = cls.layout.size

    def to_bytes(self, data: T) -> bytes:
        return self.layout.pack(data)


class _NumberDeserializer(Deserializer[T]):
    layout: ClassVar[struct.Struct]

    def __init_subclass__(cls) -> None:
        cls.fixed_bytes = cls.layout.size

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
    """float32; the nearest one."""

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
    """One byte, 1 or 0; anything else is refused."""

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
    """A list of what the inner serializer takes, None among it (KIP-466).

    Inner serializers of fixed size write a list of the positions of nulls and then the bare entries; others
    write the size before each entry, -1 for a null.
    """

    def __init__(self, inner: SupportsSerialize[T] | Callable[[T], bytes]) -> None:
        self.inner = serialize_function(inner, "the list's inner serializer")
        self.inner_bytes: int | None = getattr(inner, "fixed_bytes", None)

    def serialize(self, topic: str, headers: Headers, data: Iterable[T | None] | None) -> bytes | None:
        """Raises SerializationError if data is not a list, or an entry not of the inner serializer's kind."""
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
    """A list as `ListSerializer` writes it."""

    def __init__(self, inner: SupportsDeserialize[Any] | Callable[[bytes], Any]) -> None:
        self.inner = deserialize_function(inner, "the list's inner deserializer")
        self.inner_bytes: int | None = getattr(inner, "fixed_bytes", None)

    @overload
    def deserialize(self, topic: str, headers: Headers, data: bytes) -> list[Any]: ...

    @overload
    def deserialize(self, topic: str, headers: Headers, data: bytes | None) -> list[Any] | None: ...

    def deserialize(self, topic: str, headers: Headers, data: bytes | None) -> list[Any] | None:
        """Raises SerializationError if the bytes are not a list, or were written with another strategy."""
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
            raise SerializationError(f"{strategy} is not a way to write lists")
        if strategy == CONSTANT_SIZE and self.inner_bytes is None:
            raise SerializationError("the entries are of one size, but the inner deserializer names none")
        nulls: set[int] = set()
        if strategy == CONSTANT_SIZE:
            null_count, position = self._int(data, position)
            for _ in range(null_count):
                index, position = self._int(data, position)
                nulls.add(index)
        count, position = self._int(data, position)
        # A null takes four bytes wherever it is told, so this bounds what a false count can allocate.
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
    """JSON as UTF-8, without spaces; text beyond ASCII is written as it is.

    Reads as well, as kafka-python's does.
    """

    def to_bytes(self, data: Any) -> bytes:
        import json

        return json.dumps(data, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()
