"""Rows of `produce`: lines across reads, keys, nulls and JSON, with the line numbers for messages."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pykafka2.cli.records import produce_input
from pykafka2.cli.records.produce_input import Input, JsonReader, LineReader, Rows


@pytest.mark.parametrize("size", [1, 2, 3, 4, 7, 100])
@pytest.mark.parametrize("delimiter", [b"\n", b"::"])
def test_lines_do_not_depend_on_the_size_of_reads(
    size: int, delimiter: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(produce_input, "READ_BYTES", size)
    lines = [b"one", b"", b"a:b", b"three", b"", b"end"]
    for text, expected in [(delimiter.join(lines), lines), (delimiter.join([*lines, b""]), lines)]:
        path = tmp_path / "lines"
        path.write_bytes(text)
        with Input(str(path)) as source:
            assert [line for chunk in source.chunks(delimiter) for line in chunk] == expected


def test_typed_line_is_returned_before_the_next_read() -> None:
    @contextmanager
    def pipe() -> Iterator[tuple[Input, int]]:
        reading, writing = os.pipe()
        source = Input("/dev/null")
        source.fd = reading
        try:
            yield source, writing
        finally:
            os.close(reading)

    with pipe() as (source, writing):
        chunks = source.chunks(b"\n")
        for line in (b"one", b"two"):
            os.write(writing, line + b"\n")
            assert next(chunks) == [line]
        os.close(writing)
        assert list(chunks) == []


@pytest.mark.parametrize(
    ("reader", "values", "keys"),
    [
        (LineReader(), [b"k:v:w", b"v", b"k:", b":v", b""], None),
        (LineReader(b":"), [b"v:w", b"v", b"", b"v", b""], [b"k", None, b"k", b"", None]),
        (LineReader(b":", b"d"), [b"v:w", b"v", b"", b"v", b""], [b"k", b"d", b"k", b"", b"d"]),
        (
            LineReader(b":", None, null_is_empty=True),
            [b"v:w", b"v", None, b"v", None],
            [b"k", None, b"k", None, None],
        ),
        (LineReader(None, b"d", null_is_empty=True), [b"k:v:w", b"v", b"k:", b":v", None], [b"d"] * 5),
    ],
)
def test_key_is_before_the_separator(
    reader: LineReader, values: list[bytes | None], keys: list[bytes | None] | None
) -> None:
    rows = reader.rows("stdin", 11, [b"k:v:w", b"v", b"k:", b":v", b""])
    assert (rows.values, rows.keys) == (values, keys)
    assert rows.place(4) == "stdin:15"


def json_rows(*lines: bytes, key: bytes | None = None) -> Rows:
    return JsonReader(key).rows("file", 1, list(lines))


def test_json_distinguishes_null_and_empty() -> None:
    rows = json_rows(
        b'{"value": "", "key": ""}',
        b'{"value": null, "key": null}',
        b'{"value_base64": "", "headers": [{"name": "h", "value": null}, {"name": "h", "value": ""}]}',
    )
    assert rows.values == [b"", None, b""]
    assert rows.keys == [b"", None, None]
    assert rows.headers == [[], [], [("h", None), ("h", b"")]]


def test_key_of_the_command_line_is_for_json_without_one() -> None:
    rows = json_rows(
        b'{"value": "a"}', b'{"value": "b", "key": "own"}', b'{"value": "c", "key": ""}', key=b"d"
    )
    assert rows.keys == [b"d", b"own", b""]


def test_partition_and_time_0_are_kept() -> None:
    rows = json_rows(b'{"value": 1, "partition": 0}', b'{"value": 2, "timestamp": 0}', b'{"value": 3}')
    assert rows.partitions == [0, None, None]
    assert rows.timestamps_ms == [None, 0, None]
    assert rows.values == [b"1", b"2", b"3"]


def test_bad_line_of_json_keeps_the_numbers_of_the_others() -> None:
    rows = json_rows(b'{"value": "a"}', b"", b"{", b'{"value": "d", "key": true}')
    assert [rows.place(row) for row in range(len(rows))] == ["file:1", "file:4"]
    assert [number for number, _ in rows.bad] == [3]
    assert rows.take([1]).place(0) == "file:4"
    assert rows.take([1]).keys == [b"true"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"value": "a", "value_base64": "YQ=="}', "both set"),
        (rb'{"value": "\ud800"}', "unpaired surrogate"),
        (rb'{"value": "a", "headers": {"h": "\ud800"}}', "unpaired surrogate"),
        (b'{"value": "a", "key_base64": 5}', "not base64"),
        (b'{"value": "a", "partition": -1}', "at least 0"),
        (b'{"value": "a", "partition": true}', "at least 0"),
        (b"[" * 100_000, "not JSON"),
        (b"\xff", "not JSON"),
        (b"null", "not null"),
    ],
)
def test_line_without_a_record_has_a_reason(line: bytes, message: str) -> None:
    rows = json_rows(line)
    assert len(rows) == 0
    ((number, reason),) = rows.bad
    assert number == 1
    assert message in reason
