"""Checks the arguments of `send` besides key and value, before memory is reserved.

Callers' threads; pure.  Only arguments that are given, and are not of the plain kind, cost anything here.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import index
from typing import Any, NoReturn

from pykafka2.errors import IllegalArgument
from pykafka2.records.encoder import encode_headers
from pykafka2.types import Headers

NO_TIMESTAMP_FROM = 1 << 63
"""The first number too large for a timestamp."""

HEADERS = "a list of pairs of a str and bytes (or None)"


def checked_headers(topic: object, headers: Any) -> Headers:
    """The headers as a list that can be read more than once.

    Raises IllegalArgument for a dict, for what is no collection of pairs, and naming the pair that is wrong.
    """
    if isinstance(headers, dict | str | bytes) or not isinstance(headers, Iterable):
        hint = "; for a dict: list(headers.items())" if isinstance(headers, dict) else ""
        refuse("headers", headers, topic, f"takes {HEADERS}{hint}")
    pairs = list(headers)
    for number, pair in enumerate(pairs):
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            refuse(f"headers[{number}]", pair, topic, f"is no pair; headers are pairs: {HEADERS}")
        name, value = pair
        if not isinstance(name, str):
            refuse(f"headers[{number}]", pair, topic, f"has no str as name; headers are pairs: {HEADERS}")
        if not (value is None or isinstance(value, bytes | bytearray | memoryview)):
            refuse(f"headers[{number}]", pair, topic, f"has no bytes as value; headers are pairs: {HEADERS}")
    return pairs


def encoded_headers(topic: object, headers: Any) -> bytes:
    """The headers as they stand in a record; values are copied.

    Raises IllegalArgument as `checked_headers`, and for a name that cannot be encoded.
    """
    return encoded_pairs(topic, checked_headers(topic, headers))


def encoded_pairs(topic: object, pairs: Headers) -> bytes:
    """Headers that were checked, encoded.  Raises IllegalArgument for a name that cannot be."""
    try:
        return encode_headers(pairs)
    except UnicodeEncodeError as error:
        refuse("headers", pairs, topic, f"has a name that UTF-8 does not know: {error}")


def checked_partition(topic: object, partition: Any) -> int:
    """A whole number, whatever its type.  Raises IllegalArgument for anything else."""
    return _whole("partition", partition, topic, "the number of a partition (an int), or None")


def checked_timestamp(topic: object, timestamp_ms: Any) -> int:
    """A whole number from 0 on.  Raises IllegalArgument for anything else."""
    number = _whole("timestamp_ms", timestamp_ms, topic, "milliseconds since the epoch (an int), or None")
    if not 0 <= number < NO_TIMESTAMP_FROM:
        what = "is negative" if number < 0 else "does not fit into 64 bits"
        raise IllegalArgument(
            f"timestamp {number} {what} (timestamp_ms of a record for topic {topic!r}); "
            "it takes milliseconds since the epoch"
        )
    return number


def checked_timeout(timeout: Any) -> float | None:
    """A number of seconds, or None.  Raises IllegalArgument for anything else."""
    is_number = isinstance(timeout, int | float) and not isinstance(timeout, bool)
    if timeout is None or (is_number and timeout == timeout):  # not a number is unlike itself
        return timeout  # type: ignore[no-any-return]
    raise IllegalArgument(
        f"timeout={timeout!r}: takes a number of seconds, or None to wait as long as it takes"
    )


def refuse(argument: str, got: object, topic: object, because: str) -> NoReturn:
    """Raise IllegalArgument that names the argument, what it got and what it takes."""
    shown = repr(got)
    shown = shown if len(shown) <= 100 else shown[:97] + "..."
    raise IllegalArgument(f"{argument}={shown} of a record for topic {topic!r}: {because}")


def _whole(argument: str, got: Any, topic: object, takes: str) -> int:
    if not isinstance(got, bool):
        try:
            return index(got)
        except TypeError:
            pass
    refuse(argument, got, topic, f"takes {takes}")
