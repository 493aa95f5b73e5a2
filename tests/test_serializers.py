"""Golden bytes of the Java client's serializers (kafka-clients 4.3.1) both ways, and pairs of one's own."""

from __future__ import annotations

import array
import math
import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykafka2 import serializers as s
from pykafka2.errors import ConfigurationError, SerializationError
from pykafka2.types import Headers

UUID = uuid.UUID("12345678-1234-5678-1234-567812345678")
UUID_TEXT = b"12345678-1234-5678-1234-567812345678"

# What Java printed for the same values.
GOLDEN: list[tuple[Any, Any, Any, str]] = [
    (s.StringSerializer(), s.StringDeserializer(), "zażółć €𝄞", "7a61c5bcc3b3c582c48720e282acf09d849e"),
    (s.StringSerializer("utf-16-be"), s.StringDeserializer("utf-16-be"), "é", "00e9"),
    (s.StringSerializer("latin-1"), s.StringDeserializer("latin-1"), "é", "e9"),
    (s.StringSerializer(), s.StringDeserializer(), "", ""),
    (s.BytesSerializer(), s.BytesDeserializer(), b"\1\2\3", "010203"),
    (s.ByteArraySerializer(), s.ByteArrayDeserializer(), b"\1\2\3", "010203"),
    (s.ByteBufferSerializer(), s.ByteBufferDeserializer(), memoryview(b"\1\2\3"), "010203"),
    (s.ShortSerializer(), s.ShortDeserializer(), -2, "fffe"),
    (s.IntegerSerializer(), s.IntegerDeserializer(), 1234567, "0012d687"),
    (s.LongSerializer(), s.LongDeserializer(), -1234567890123, "fffffee08e04fb35"),
    (s.FloatSerializer(), s.FloatDeserializer(), -1.10000002384185791015625, "bf8ccccd"),
    (s.DoubleSerializer(), s.DoubleDeserializer(), math.pi, "400921fb54442d18"),
    (s.BooleanSerializer(), s.BooleanDeserializer(), True, "01"),
    (s.BooleanSerializer(), s.BooleanDeserializer(), False, "00"),
    (s.UUIDSerializer(), s.UUIDDeserializer(), UUID, UUID_TEXT.hex()),
    (
        s.ListSerializer(s.IntegerSerializer()),
        s.ListDeserializer(s.IntegerDeserializer()),
        [1, None, 3],
        "000000000100000001000000030000000100000003",
    ),
    (
        s.ListSerializer(s.IntegerSerializer()),
        s.ListDeserializer(s.IntegerDeserializer()),
        [],
        "000000000000000000",
    ),
    (
        s.ListSerializer(s.StringSerializer()),
        s.ListDeserializer(s.StringDeserializer()),
        ["a", None, "", "bc"],
        "01000000040000000161ffffffff00000000000000026263",
    ),
    (s.ListSerializer(s.StringSerializer()), s.ListDeserializer(s.StringDeserializer()), [], "0100000000"),
    (
        s.ListSerializer(s.UUIDSerializer()),
        s.ListDeserializer(s.UUIDDeserializer()),
        [UUID, None],
        "00000000010000000100000002" + UUID_TEXT.hex(),
    ),
    (
        s.ListSerializer(s.BooleanSerializer()),
        s.ListDeserializer(s.BooleanDeserializer()),
        [True, None],
        "01000000020000000101ffffffff",
    ),
    (s.JsonSerializer(), s.JsonDeserializer(), {"é": [1, None, True]}, b'{"\xc3\xa9":[1,null,true]}'.hex()),
]


@pytest.mark.parametrize(("serializer", "deserializer", "value", "golden"), GOLDEN)
def test_bytes_are_those_of_java(serializer: Any, deserializer: Any, value: Any, golden: str) -> None:
    assert serializer.serialize("topic", [], value).hex() == golden
    assert deserializer.deserialize("topic", [], bytes.fromhex(golden)) == value


@pytest.mark.parametrize("pair", [row[:2] for row in GOLDEN] + [(s.VoidSerializer(), s.VoidDeserializer())])
def test_none_is_serialized_as_none(pair: tuple[Any, Any]) -> None:
    assert pair[0].serialize("topic", [], None) is None
    assert pair[1].deserialize("topic", [], None) is None


@pytest.mark.parametrize(
    ("serializer", "value"),
    [
        (s.StringSerializer(), b"bytes"),
        (s.StringSerializer(), "lone \ud800"),
        (s.StringSerializer("latin-1"), "€"),
        (s.BytesSerializer(), "text"),
        (s.BytesSerializer(), 5),
        (s.ShortSerializer(), 2**15),
        (s.IntegerSerializer(), 2**31),
        (s.IntegerSerializer(), 1.5),
        (s.LongSerializer(), -(2**63) - 1),
        (s.FloatSerializer(), 1e300),
        (s.DoubleSerializer(), "1"),
        (s.BooleanSerializer(), 1),
        (s.UUIDSerializer(), str(UUID)),
        (s.VoidSerializer(), b""),
        (s.ListSerializer(s.IntegerSerializer()), [1, "2"]),
        (s.ListSerializer(s.IntegerSerializer()), 5),
        (s.ListSerializer(s.StringSerializer()), "text"),
        (s.JsonSerializer(), {1, 2}),
        (s.JsonSerializer(), float("nan")),
    ],
)
def test_a_value_of_another_kind_is_refused(serializer: Any, value: Any) -> None:
    with pytest.raises(SerializationError, match=r"orders|Serializer takes"):
        serializer.serialize("orders", [], value)


@pytest.mark.parametrize(
    ("deserializer", "data"),
    [
        (s.StringDeserializer(), b"\xff"),
        (s.ShortDeserializer(), b"\0"),
        (s.IntegerDeserializer(), b""),
        (s.IntegerDeserializer(), bytes(5)),
        (s.LongDeserializer(), bytes(4)),
        (s.FloatDeserializer(), bytes(8)),
        (s.DoubleDeserializer(), bytes(4)),
        (s.BooleanDeserializer(), b"\2"),
        (s.BooleanDeserializer(), b"\0\0"),
        (s.BooleanDeserializer(), b""),
        (s.UUIDDeserializer(), UUID_TEXT[:-1]),
        (s.UUIDDeserializer(), b"x" * 36),
        (s.VoidDeserializer(), b""),
        (s.JsonDeserializer(), b"{"),
        (s.ListDeserializer(s.IntegerDeserializer()), b""),
        (s.ListDeserializer(s.IntegerDeserializer()), b"\2"),
        (s.ListDeserializer(s.IntegerDeserializer()), b"\0\0\0\0\0\x7f\xff\xff\xff"),
        (s.ListDeserializer(s.IntegerDeserializer()), b"\0\x7f\xff\xff\xff"),
        (s.ListDeserializer(s.IntegerDeserializer()), b"\0\0\0\0\0\0\0\0\1\0\0\0"),
        (s.ListDeserializer(s.IntegerDeserializer()), b"\0\0\0\0\0\xff\xff\xff\xff"),
        (s.ListDeserializer(s.StringDeserializer()), b"\1\0\0\0\1\0\0\0\5abc"),
        (s.ListDeserializer(s.StringDeserializer()), b"\1\0\0\0\1\xff\xff\xff\xfe"),
        (s.ListDeserializer(s.StringDeserializer()), b"\0\0\0\0\0\0\0\0\0"),
    ],
)
def test_bytes_of_another_kind_are_refused(deserializer: Any, data: bytes) -> None:
    with pytest.raises(SerializationError, match=r"orders|Deserializer expects"):
        deserializer.deserialize("orders", [], data)


def test_text_that_is_none_can_be_replaced_as_java_does() -> None:
    assert s.StringDeserializer(errors="replace").deserialize("t", [], b"a\xff") == "a\ufffd"


def test_wider_arrays_go_as_they_lie_in_memory() -> None:
    numbers = array.array("i", [1, 2])
    assert s.BytesSerializer().serialize("t", [], numbers) == numbers.tobytes()  # type: ignore[arg-type]


@given(st.lists(st.none() | st.integers(-(2**63), 2**63 - 1)))
def test_lists_of_fixed_size_round_trip(values: list[int | None]) -> None:
    data = s.ListSerializer(s.LongSerializer()).serialize("t", [], values)
    assert s.ListDeserializer(s.LongDeserializer()).deserialize("t", [], data) == values


@given(st.lists(st.none() | st.lists(st.none() | st.text(max_size=5), max_size=4), max_size=5))
def test_lists_of_lists_round_trip(values: list[list[str | None] | None]) -> None:
    serializer: Any = s.ListSerializer(s.ListSerializer(s.StringSerializer()))
    deserializer = s.ListDeserializer(s.ListDeserializer(s.StringDeserializer()))
    assert deserializer.deserialize("t", [], serializer.serialize("t", [], values)) == values


@given(st.binary(max_size=60))
def test_any_bytes_are_a_list_or_an_error(data: bytes) -> None:
    for inner in (s.ShortDeserializer(), s.StringDeserializer()):
        try:
            s.ListDeserializer(inner).deserialize("t", [], data)
        except SerializationError:
            pass


# ---------------------------------------------------------------------------------------------------
# What the clients' options take
# ---------------------------------------------------------------------------------------------------


class Tagged:
    """A user's own pair that reads topic and headers."""

    def serialize(self, topic: str, headers: Headers, data: str) -> bytes:
        headers.append(("type", b"text"))
        return f"{topic}:{data}".encode()

    def deserialize(self, topic: str, headers: Headers, data: bytes) -> tuple[str, Headers, bytes]:
        return topic, headers, data


def test_serializer_object_receives_topic_and_headers() -> None:
    headers: Headers = []
    serialize = s.serialize_function(Tagged())
    assert serialize is not None
    assert serialize("orders", headers, "x") == b"orders:x"
    assert headers == [("type", b"text")]
    deserialize = s.deserialize_function(Tagged())
    assert deserialize is not None
    assert deserialize("orders", headers, b"y") == ("orders", headers, b"y")


def test_serializer_function_receives_only_the_data() -> None:
    serialize, deserialize = s.serialize_function(str.encode), s.deserialize_function(bytes.decode)
    assert serialize is not None
    assert deserialize is not None
    assert serialize("orders", [], "é") == b"\xc3\xa9"
    assert deserialize("orders", [], b"\xc3\xa9") == "é"


def test_list_of_function_serialized_items_has_variable_size() -> None:
    data = s.ListSerializer(str.encode).serialize("t", [], ["a", None])
    assert data == b"\1\0\0\0\2\0\0\0\1a\xff\xff\xff\xff"
    assert s.ListDeserializer(bytes.decode).deserialize("t", [], data) == ["a", None]


def test_no_option_means_bytes_as_they_are() -> None:
    assert s.serialize_function(None) is None
    assert s.deserialize_function(None) is None


@pytest.mark.parametrize("option", [5, "utf-8", s.StringDeserializer(), s.StringSerializer])
def test_an_option_that_is_neither_is_refused_by_its_name(option: Any) -> None:
    with pytest.raises(ConfigurationError, match="value_serializer"):
        s.serialize_function(option, "value_serializer")


def test_a_class_that_makes_its_objects_of_bytes_is_a_function_of_the_data() -> None:
    deserialize = s.deserialize_function(int)
    assert deserialize is not None
    assert deserialize("orders", [], b"12") == 12


class Loads:
    def __call__(self, data: bytes) -> str:
        return data.decode()


@pytest.mark.parametrize(
    ("option", "words"),
    [
        (
            s.JsonSerializer,
            r"value_deserializer is the class JsonSerializer; pass an object: JsonSerializer\(\)",
        ),
        (Loads, r"value_deserializer is the class Loads; pass an object: Loads\(\)"),
        (str, "value_deserializer is str; write bytes.decode"),
        ("json", r"must be a function of the data or have deserialize\(.*\), not 'json'"),
    ],
)
def test_invalid_deserializer_recommends_valid_ones(option: object, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        s.deserialize_function(option, "value_deserializer")


def test_str_as_a_serializer_recommends_str_encode() -> None:
    with pytest.raises(ConfigurationError, match=r"key_serializer is str; write str\.encode"):
        s.serialize_function(str, "key_serializer")
