"""Checks the arguments of `send` besides key and value, before memory is reserved.

Used on callers' threads; pure. Called only for optional arguments, and for unusual types.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import index
from typing import TYPE_CHECKING, Any, NoReturn

from pykafka2.errors import IllegalArgument
from pykafka2.records.encoder import encode_headers

if TYPE_CHECKING:
    from typing_extensions import TypeVar  # comes with every type checker; knows defaults

    from pykafka2.serializers import Buffer
    from pykafka2.types import Headers

    K = TypeVar("K", default=Buffer, contravariant=True)
    V = TypeVar("V", default=Buffer, contravariant=True)
else:
    from typing import TypeVar

    K = TypeVar("K", contravariant=True)
    V = TypeVar("V", contravariant=True)

NO_TIMESTAMP_FROM = 1 << 63
"""The first number too large for a timestamp."""

HEADERS = "a list of pairs of a str and bytes (or None)"


def checked_headers(topic: object, headers: Any) -> Headers:
    """Return the headers as a list that can be read more than once.

    Raise IllegalArgument if they are not a collection of pairs, or if a pair is invalid; names the pair.
    """
    if isinstance(headers, dict | str | bytes) or not isinstance(headers, Iterable):
        hint = ""
        if isinstance(headers, dict):
            hint = "; for a dict: list(headers.items())"
        elif isinstance(headers, int):  # aiokafka's fourth argument
            hint = f"; for a partition write partition={headers}"
        refuse("headers", headers, topic, f"must be {HEADERS}{hint}")
    pairs = list(headers)
    for number, pair in enumerate(pairs):
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            refuse(f"headers[{number}]", pair, topic, f"is not a pair; headers must be {HEADERS}")
        name, value = pair
        if not isinstance(name, str):
            refuse(f"headers[{number}]", pair, topic, f"the name is not a str; headers must be {HEADERS}")
        if not (value is None or isinstance(value, bytes | bytearray | memoryview)):
            refuse(f"headers[{number}]", pair, topic, f"the value is not bytes; headers must be {HEADERS}")
    return pairs


def encoded_headers(topic: object, headers: Any) -> bytes:
    """Return the headers encoded as in a record; values are copied.

    Raise the errors of `checked_headers`, and IllegalArgument for a name that cannot be encoded.
    """
    return encoded_pairs(topic, checked_headers(topic, headers))


def encoded_pairs(topic: object, pairs: Headers) -> bytes:
    """Encode headers that were checked. Raise IllegalArgument for a name that cannot be encoded."""
    try:
        return encode_headers(pairs)
    except UnicodeEncodeError as error:
        refuse("headers", pairs, topic, f"a name cannot be encoded as UTF-8: {error}")


def checked_partition(topic: object, partition: Any) -> int:
    """Return the partition as an int. Raise IllegalArgument if it is not an integer."""
    return _whole("partition", partition, topic, "a partition number (an int), or None")


def checked_timestamp(topic: object, timestamp_ms: Any) -> int:
    """Return the timestamp as an int of at least 0. Raise IllegalArgument for other values."""
    number = _whole("timestamp_ms", timestamp_ms, topic, "milliseconds since the epoch (an int), or None")
    if not 0 <= number < NO_TIMESTAMP_FROM:
        what = "is negative" if number < 0 else "does not fit into 64 bits"
        raise IllegalArgument(
            f"timestamp_ms={number} of a record for topic {topic!r} {what}; use milliseconds since the epoch"
        )
    return number


def refuse(argument: str, got: object, topic: object, because: str) -> NoReturn:
    """Raise IllegalArgument with the argument, its value and the reason."""
    shown = repr(got)
    shown = shown if len(shown) <= 100 else shown[:97] + "..."
    raise IllegalArgument(f"{argument}={shown} of a record for topic {topic!r}: {because}")


def _whole(argument: str, got: Any, topic: object, takes: str) -> int:
    if not isinstance(got, bool):
        try:
            return index(got)
        except TypeError:
            pass
    hint = "; for headers write headers=[...]" if isinstance(got, list) else ""  # aiokafka's last argument
    refuse(argument, got, topic, f"must be {takes}{hint}")
