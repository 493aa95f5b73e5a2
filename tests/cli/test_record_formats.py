"""Formats of consumed records, as bytes of columns."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from pykafka2.cli.records.record_formats import BadFormat, compile_format, json_lines, unescaped
from pykafka2.records.columns import GrowingColumns
from pykafka2.types import LOG_APPEND_TIME

TIME_MS = 1_700_000_000_123
Row = tuple[int, int, bytes | None, bytes | None, Any]
ROWS: list[Row] = [
    (7, TIME_MS, b"k", b"v\xff", [("a", b"1"), ("a", None), ("b", b"\xff")]),
    (9, -1, None, None, ()),
    (10, 0, b"", b'"\n', ()),
]


def columns(rows: list[Row], timestamp_type: int = 0) -> GrowingColumns:
    made = GrowingColumns()
    made.count_batch(rows[-1][0], 100, timestamp_type)
    made.extend(rows)
    return made


def shown(text: str, null: bytes = b"") -> list[bytes]:
    return compile_format(text + r"\n", null)(columns(ROWS), "orders", 3).split(b"\n")[:-1]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("%t-%p-%o", [b"orders-3-7", b"orders-3-9", b"orders-3-10"]),
        ("%k|%K", [b"k|1", b"N|-1", b"|0"]),
        ("%V %S", [b"2 2", b"-1 -1", b"2 2"]),
        ("%R", [b"\0\0\0\x02", b"\xff\xff\xff\xff", b"\0\0\0\x02"]),
        ("%k{hex}", [b"6b", b"N", b""]),
        ("%v{base64}", [b"dv8=", b"N", b"Igo="]),
        ("%v{json}", ['"v\ufffd"'.encode(), b"null", rb'"\"\n"']),
        ("%k{json}", [b'"k"', b"null", b'""']),
        ("%h", [b"a=1,a=N,b=\xff", b"", b""]),
        ("%h{hex} %H", [b"a=31,a=N,b=ff 3", b" 0", b" 0"]),
        ("%T %d", [b"1700000000123 1700000000123", b"-1 -1", b"0 0"]),
        ("%T{iso}", [b"2023-11-14T22:13:20.123Z", b"1969-12-31T23:59:59.999Z", b"1970-01-01T00:00:00.000Z"]),
        ("%i%%", [b"1%", b"2%", b"3%"]),
        (r"\x41\t\\", [b"A\t\\"] * 3),
    ],
)
def test_each_letter_prints_its_part_of_the_records(text: str, lines: list[bytes]) -> None:
    assert shown(text, b"N") == lines


def test_values_are_the_default_and_null_is_the_text_that_was_typed() -> None:
    render = compile_format(r"%v\n", b"NULL")
    assert render(columns(ROWS), "orders", 3) == b'v\xff\nNULL\n"\n\n'


def test_strftime_shows_the_local_time() -> None:
    local = datetime.fromtimestamp(TIME_MS / 1000, UTC).astimezone()
    assert shown("%T{strftime[%H:%M:%S %z]}")[0] == f"{local:%H:%M:%S %z}".encode()


@pytest.mark.parametrize(("time_zone", "hour"), [("UTC+5", b"17"), ("UTC-3", b"01")])
def test_strftime_follows_the_time_zone(time_zone: str, hour: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    monkeypatch.setenv("TZ", time_zone)
    time.tzset()
    try:
        assert shown("%T{strftime[%H]}")[0] == hour
    finally:
        monkeypatch.undo()
        time.tzset()


def test_number_of_the_record_continues_in_the_next_columns() -> None:
    render = compile_format("%i ")
    assert render(columns(ROWS), "t", 0) + render(columns(ROWS), "t", 1) == b"1 2 3 4 5 6 "


def test_json_line_has_every_field_and_type_of_timestamp() -> None:
    lines = json_lines()(columns(ROWS, LOG_APPEND_TIME), "orders", 3).splitlines()
    assert [json.loads(line) for line in lines] == [
        {
            "topic": "orders",
            "partition": 3,
            "offset": 7,
            "timestamp": TIME_MS,
            "timestamp_type": "log_append_time",
            "key": "k",
            "value_base64": "dv8=",
            "headers": [
                {"name": "a", "value": "1"},
                {"name": "a", "value": None},
                {"name": "b", "value_base64": "/w=="},
            ],
        },
        {
            "topic": "orders",
            "partition": 3,
            "offset": 9,
            "timestamp": None,
            "timestamp_type": "log_append_time",
            "key": None,
            "value": None,
            "headers": [],
        },
        {
            "topic": "orders",
            "partition": 3,
            "offset": 10,
            "timestamp": 0,
            "timestamp_type": "log_append_time",
            "key": "",
            "value": '"\n',
            "headers": [],
        },
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("%", "% at the end"),
        ("\\", "at the end"),
        ("%o{hex}", "%o has no modifiers"),
        ("%T{hex}", "iso, strf"),
    ],
)
def test_bad_format_is_named(text: str, message: str) -> None:
    with pytest.raises(BadFormat, match=message):
        compile_format(text)


def test_escapes_are_bytes() -> None:
    assert unescaped(r"\0\e\r\xfFé") == b"\0\x1b\r\xff\xc3\xa9"
    with pytest.raises(BadFormat, match="unknown"):
        unescaped(r"\q")
