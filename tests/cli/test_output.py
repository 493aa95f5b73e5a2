"""Tables and JSON of the command line."""

from __future__ import annotations

import io
import json
import sys

import pytest

from pykafka2.cli.common.output import Output, Time, time_or_none

COLUMNS = ("topic", "partition_count", "is_internal", "replicas")
ROWS: list[tuple[object, ...]] = [("orders", 12, False, [1, 2]), ("a\x1b[31m[b]", None, True, [])]


def test_table_in_a_pipe_is_plain_and_aligned(capsys: pytest.CaptureFixture[str]) -> None:
    Output("x").table(COLUMNS, ROWS)
    assert capsys.readouterr().out.splitlines() == [
        "TOPIC         PARTITION COUNT  IS INTERNAL  REPLICAS",
        "orders                     12  no           1,2",
        "a\\x1b[31m[b]                -  yes          -",
    ]


def test_time_is_iso_8601_in_a_table_and_milliseconds_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [[Time(1_796_026_500_000)], [time_or_none(-1)], [Time(10**15)]]
    Output("x").table(["start_time"], rows)
    assert capsys.readouterr().out.splitlines() == [
        "START TIME",
        "2026-11-30T08:15:00.000Z",
        "-",
        "1000000000000000",
    ]
    Output("x", is_json=True).table(["start_time"], rows[:2])
    assert capsys.readouterr().out == '{"start_time":1796026500000}\n{"start_time":null}\n'


def test_table_without_rows_has_its_header(capsys: pytest.CaptureFixture[str]) -> None:
    Output("x").table(["a", "b_c"], [])
    assert capsys.readouterr().out == "A  B C\n"


def test_json_has_one_object_per_row_with_the_column_names(capsys: pytest.CaptureFixture[str]) -> None:
    output = Output("x", is_json=True)
    output.table(COLUMNS, ROWS)
    output.item({"a": None})
    output.line("for people")
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines == [*(dict(zip(COLUMNS, row, strict=True)) for row in ROWS), {"a": None}]


def test_rich_table_shows_names_in_full_and_no_markup(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("rich")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("NO_COLOR", "1")
    Output("x").table(["topic"], [["[bold]" + "x" * 100]])
    out = capsys.readouterr().out
    assert "[bold]" in out
    assert out.count("x") == 100


def test_table_is_plain_in_a_dumb_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "dumb")
    Output("x").table(["a"], [[1]])
    assert capsys.readouterr().out == "A\n1\n"


def test_item_escapes_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    Output("x").item({"a_b": "\x1b[2J", "c": None})
    assert capsys.readouterr().out == "a b  \\x1b[2J\nc    -\n"


def test_table_is_plain_without_rich(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setitem(sys.modules, "rich.box", None)
    Output("x").table(["a"], [[1]])
    assert capsys.readouterr().out == "A\n1\n"


def test_progress_is_hidden_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with Output("x").progress(10, "reading") as bar:
        bar.update(5)
    assert capsys.readouterr().err == ""


def test_messages_and_lines_show_no_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    output = Output("groups")
    output.error("\x1b[31mred: not found")
    output.note("a\x07b")
    output.line("first\n\x1b]0;title\x07")
    shown = capsys.readouterr()
    assert shown.err == "pykafka2 groups: \\x1b[31mred: not found\na\\x07b\n"
    assert shown.out == "first\n\\x1b]0;title\\x07\n"


def test_json_is_ascii_if_stdout_cannot_encode_all_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    stdout = io.TextIOWrapper(io.BytesIO(), encoding="iso-8859-1", errors="backslashreplace")
    monkeypatch.setattr("sys.stdout", stdout)
    Output("groups", is_json=True).json({"group": "café"})
    stdout.flush()
    assert json.loads(stdout.buffer.getvalue()) == {"group": "café"}  # type: ignore[attr-defined]
