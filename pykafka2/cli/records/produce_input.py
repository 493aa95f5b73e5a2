"""Reads the records of `produce` from files or stdin: lines with optional keys, JSON lines, or whole files.

A chunk has the lines that one read returned, so that a line that was typed is sent at once.
"""

from __future__ import annotations

import binascii
import errno
import json
import os
import stat
import sys
from base64 import b64decode
from collections.abc import Iterator, Sequence
from typing import Any, Self

import attrs

from pykafka2.cli.common.parsing import UsageError, nearest

READ_BYTES = 1 << 20
Header = tuple[str, bytes | None]


@attrs.define
class Rows:
    """Records of one call of `send_many`, in columns; None for a column that no record sets."""

    source: str
    lines: Sequence[int]
    """The number of each record in its source, from 1."""
    values: list[bytes | None]
    keys: list[bytes | None] | None = None
    headers: list[list[Header]] | None = None
    partitions: list[int | None] | None = None
    timestamps_ms: list[int | None] | None = None
    bad: list[tuple[int, str]] = attrs.Factory(list)
    """Lines that are no record, and why."""

    def __len__(self) -> int:
        return len(self.values)

    @property
    def has_mixed_keys(self) -> bool:
        """Whether some records have a key and others have none."""
        return self.keys is not None and None in self.keys and self.keys.count(None) < len(self.keys)

    def take(self, rows: Sequence[int]) -> Rows:
        """Return some of the rows, without the bad lines."""

        def column(values: Any) -> Any:
            return None if values is None else [values[row] for row in rows]

        return Rows(
            self.source,
            column(self.lines),
            column(self.values),
            column(self.keys),
            column(self.headers),
            column(self.partitions),
            column(self.timestamps_ms),
        )

    def place(self, row: int) -> str:
        """Return where a record was read, for messages."""
        return f"{self.source}:{self.lines[row]}"


class Input:
    """The bytes of one source: stdin for `-`, or a file, which is opened by the `with` statement."""

    def __init__(self, path: str) -> None:
        self.is_stdin = path == "-"
        self.name = "stdin" if self.is_stdin else path
        self.fd = 0
        if self.is_stdin and sys.stdin is None:
            raise UsageError(f"argument FILE: -: {os.strerror(errno.EBADF)}")
        try:
            status = os.fstat(0) if self.is_stdin else os.stat(path)
            if stat.S_ISDIR(status.st_mode):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            if not self.is_stdin and not os.access(path, os.R_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        except OSError as error:
            raise UsageError(f"argument FILE: {path}: {error.strerror}") from None
        self.size = status.st_size if stat.S_ISREG(status.st_mode) else None

    def __enter__(self) -> Self:
        if not self.is_stdin:
            self.fd = os.open(self.name, os.O_RDONLY)
        return self

    def __exit__(self, *_: object) -> None:
        if self.fd:
            os.close(self.fd)

    def chunks(self, delimiter: bytes) -> Iterator[list[bytes]]:
        """Iterate over the lines of each read; the last one needs no delimiter."""
        rest: list[bytes] = []
        while data := os.read(self.fd, READ_BYTES):
            if len(delimiter) > 1:  # it can lie across two reads, and overlap with itself
                *lines, tail = b"".join([*rest, data]).split(delimiter)
                rest = [tail]
                if lines:
                    yield lines
                continue
            head, found, tail = data.rpartition(delimiter)
            if not found:
                rest.append(tail)
                continue
            yield (b"".join(rest) + head).split(delimiter)
            rest = [tail]
        last = b"".join(rest)
        if last:
            yield [last]

    def whole(self) -> bytes:
        """Return all bytes."""
        return b"".join(iter(lambda: os.read(self.fd, READ_BYTES), b""))


@attrs.define
class LineReader:
    """Makes rows of lines: a key before the separator, if one is set, and the value after it."""

    separator: bytes | None = None
    key: bytes | None = None
    null_is_empty: bool = False

    def rows(self, source: str, first: int, lines: list[bytes]) -> Rows:
        values: list[bytes | None] = list(lines)
        keys: list[bytes | None] | None = None if self.key is None else [self.key] * len(lines)
        if self.separator is not None:
            split = [line.partition(self.separator) for line in lines]
            keys = [key if found else self.key for key, found, _ in split]
            values = [value if found else key for key, found, value in split]
        if self.null_is_empty:
            values = [value or None for value in values]
            keys = None if keys is None else [key or None for key in keys]
        return Rows(source, range(first, first + len(lines)), values, keys)


FIELDS = ("value", "value_base64", "key", "key_base64", "headers", "partition", "timestamp")
FIELDS_OF_HEADER = ("name", "value", "value_base64")
OF_CONSUME = ("topic", "offset", "timestamp_type")
"""Fields that `consume --json` prints and `produce` does not use."""


class BadRecord(ValueError):
    """A line of JSON is no record; the message has the reason, and no value."""


@attrs.define
class JsonReader:
    """Makes rows of JSON lines, as `consume --json` prints them."""

    key: bytes | None = None

    def rows(self, source: str, first: int, lines: list[bytes]) -> Rows:
        made = Rows(source, [], [], [], [], [], [])
        assert made.keys is not None  # noqa: S101 (for mypy)
        for number, line in enumerate(lines, first):
            if not line.strip():
                continue
            try:
                self._add(made, number, line)
            except BadRecord as error:
                made.bad.append((number, str(error)))
        for name in ("keys", "headers", "partitions", "timestamps_ms"):
            if not any(value is not None and value != [] for value in getattr(made, name)):
                setattr(made, name, None)
        return made

    def _add(self, made: Rows, number: int, line: bytes) -> None:
        try:
            fields = json.loads(line, parse_constant=_not_json, parse_float=_finite)
        except BadRecord:
            raise
        except (ValueError, RecursionError) as error:
            raise BadRecord(f"not JSON: {getattr(error, 'msg', type(error).__name__)}") from None
        if not isinstance(fields, dict):
            raise BadRecord(f"a record must be a JSON object, not {_kind(fields)}")
        unknown = fields.keys() - {*FIELDS, *OF_CONSUME}
        if unknown:
            name = min(unknown)
            close = nearest([name], FIELDS)
            more = f"; did you mean {close[0]!r}?" if close else f"; use {', '.join(FIELDS)}"
            raise BadRecord(f"field {name!r} is unknown{more}")
        if not {"value", "value_base64"} & fields.keys():
            raise BadRecord("field 'value' is missing; null is a tombstone")
        value, key = _bytes(fields, "value"), _bytes(fields, "key")
        headers, partition = _headers(fields.get("headers")), _number(fields, "partition")
        timestamp = _number(fields, "timestamp")
        made.lines.append(number)  # type: ignore[attr-defined]
        made.values.append(value)
        for column, one in (
            (made.keys, self.key if key is None else key),
            (made.headers, headers),
            (made.partitions, partition),
            (made.timestamps_ms, timestamp),
        ):
            column.append(one)  # type: ignore[union-attr, arg-type]


def _bytes(fields: dict[str, Any], name: str) -> bytes | None:
    """Return the bytes of a string or of base64; other values are sent as their JSON."""
    encoded = fields.get(f"{name}_base64")
    if encoded is not None:
        if fields.get(name) is not None:
            raise BadRecord(f"fields {name!r} and '{name}_base64' are both set")
        try:
            return b64decode(encoded, validate=True)
        except (binascii.Error, ValueError, TypeError):
            raise BadRecord(f"field '{name}_base64' is not base64") from None
    value = fields.get(name)
    if value is None:
        return None
    if not isinstance(value, str):
        value = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    try:
        return value.encode()
    except UnicodeEncodeError:
        raise BadRecord(f"field {name!r} has an unpaired surrogate; use '{name}_base64'") from None


def _headers(found: Any) -> list[Header]:
    if found is None:
        return []
    if isinstance(found, dict):
        found = [{"name": name, "value": value} for name, value in found.items()]
    if not isinstance(found, list) or not all(
        isinstance(one, dict) and isinstance(one.get("name"), str) for one in found
    ):
        raise BadRecord("field 'headers' must be a list of objects with name and value, or an object")
    unknown = {name for one in found for name in one} - set(FIELDS_OF_HEADER)
    if unknown:
        raise BadRecord(f"field {min(unknown)!r} of a header is unknown; use {', '.join(FIELDS_OF_HEADER)}")
    return [(one["name"], _bytes(one, "value")) for one in found]


def _number(fields: dict[str, Any], name: str) -> int | None:
    number = fields.get(name)
    if number is None:
        return None
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise BadRecord(f"field {name!r} must be a whole number, at least 0, not {_kind(number)}")
    return number


def _not_json(name: str) -> float:
    raise BadRecord(f"not JSON: {name}")


def _finite(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise BadRecord("a number is too large; send it as a string")
    return number


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a string", bool: "true or false", type(None): "null"}
    return names.get(type(value), "another number" if isinstance(value, int | float) else "this")
