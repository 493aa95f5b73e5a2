"""Tables and JSON of the command line."""

from __future__ import annotations

import io
import json
import logging
import sys
from collections.abc import Callable
from typing import Any

import pytest

from pykafka2.cli.common import tables
from pykafka2.cli.common.output import Change, Output, Time, positive_is_warning, time_or_none, true_is_bad
from pykafka2.cli.common.tables import Column, layout
from pykafka2.text import counted

COLUMNS = ("topic", "partition_count", "is_internal", "replicas")
ROWS: list[tuple[object, ...]] = [("orders", 12, False, [1, 2]), ("a\x1b[31m[b]", None, True, [])]


def test_table_in_a_pipe_is_plain_and_aligned(capsys: pytest.CaptureFixture[str]) -> None:
    Output("x").table(COLUMNS, ROWS)
    assert capsys.readouterr().out.splitlines() == [
        "TOPIC         PARTITIONS  IS INTERNAL  REPLICAS",
        "orders                12  no           1,2",
        "a\\x1b[31m[b]           -  yes          -",
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


def test_progress_is_hidden_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with Output("x").progress(10, "reading") as bar:
        bar.update(5)
    assert capsys.readouterr().err == ""


class FakeTerminal(io.StringIO):
    def isatty(self) -> bool:
        return True

    def lines(self) -> list[str]:
        """Return what a terminal shows: a carriage return lets later text overwrite the line."""
        shown = []
        for line in self.getvalue().split("\n"):
            cells: list[str] = []
            for text in line.split("\r"):
                cells[: len(text)] = text
            shown.append("".join(cells).rstrip())
        return shown


@pytest.mark.parametrize("leave", [False, True])
def test_warnings_stand_on_lines_of_their_own_above_a_progress_bar(
    leave: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = FakeTerminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with Output("x").progress(10, "reading", leave=leave) as bar:
        bar.update(5)
        sys.stderr.write("WARNING pykafka2: broker 1 is lost\n")  # as the log handler of last resort does
        Output("x").note("a remark")
        bar.update(5)
    assert sys.stderr is terminal
    lines = terminal.lines()
    assert lines.index("a remark") == lines.index("WARNING pykafka2: broker 1 is lost") + 1
    assert any("reading: 100%" in line for line in lines) == leave


def test_log_lines_of_verbose_stand_above_a_progress_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = FakeTerminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    handler = logging.StreamHandler()  # with the stream of this moment, as basicConfig creates it
    handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
    monkeypatch.setattr(logging.getLogger(), "handlers", [handler])
    with Output("x").progress(10, "reading") as bar:
        bar.update(5)
        logging.getLogger("pykafka2.tests").warning("broker 1 is lost")
        bar.update(5)
    assert "WARNING pykafka2.tests: broker 1 is lost" in terminal.lines()


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


# ---------------------------------------------------------------------------------------------------
# Terminals
# ---------------------------------------------------------------------------------------------------

AUTHORISED = "prod.eu-west-1.orders.payment-authorised.v2"
CAPTURED = "prod.eu-west-1.orders.payment-captured.v1"
LAG_COLUMNS = ("topic", "partition", "committed", "latest", "lag", "client_id", "host")
LAGS: list[tuple[object, ...]] = [
    (AUTHORISED, 0, 1201, 1250, 49, "settlement-7f9c", "/10.0.0.7"),
    (AUTHORISED, 1, 1199, 1199, 0, "settlement-3b21", "/10.0.0.8"),
    (CAPTURED, 0, None, 12, 12, "settlement-7f9c", "/10.0.0.7"),
]


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., list[str]]:
    """A function that prints a table in a terminal of this width, without colors; returns the lines."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")

    def shown(width: int, *arguments: Any, **options: Any) -> list[str]:
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
        monkeypatch.setenv("COLUMNS", str(width))
        Output("x").table(*arguments, **options)
        return capsys.readouterr().out.splitlines()

    return shown


def test_table_that_fits_a_terminal_looks_as_in_a_pipe(
    terminal: Callable[..., list[str]], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = terminal(120, LAG_COLUMNS, LAGS)
    assert shown[0].split()[:3] == ["TOPIC", "PARTITION", "COMMITTED"]
    assert [line.split()[0] for line in shown[1:]] == [AUTHORISED, AUTHORISED, CAPTURED]
    monkeypatch.setattr(sys.stdout, "isatty", lambda: False)
    Output("x").table(LAG_COLUMNS, LAGS)
    assert capsys.readouterr().out.splitlines() == shown


def test_head_of_an_empty_table_is_hidden_if_the_terminal_is_too_narrow(
    terminal: Callable[..., list[str]],
) -> None:
    assert terminal(14, ["topic", "offsets"], []) == ["TOPIC  OFFSETS"]
    assert terminal(13, ["topic", "offsets"], []) == []


def test_topics_become_headings_in_a_terminal_of_80_columns(terminal: Callable[..., list[str]]) -> None:
    assert terminal(80, LAG_COLUMNS, LAGS) == [
        "  PARTITION  COMMITTED  LATEST  LAG  CLIENT ID        HOST",
        AUTHORISED,
        "          0       1201    1250   49  settlement-7f9c  /10.0.0.7",
        "          1       1199    1199    0  settlement-3b21  /10.0.0.8",
        CAPTURED,
        "          0          -      12   12  settlement-7f9c  /10.0.0.7",
    ]


def test_topics_with_one_partition_each_become_headings_if_the_rest_then_fits(
    terminal: Callable[..., list[str]],
) -> None:
    columns = [*LAG_COLUMNS[:5], "change"]
    rows = [[AUTHORISED, 0, 1201, 1250, 49, Change(4)], [CAPTURED, 0, None, 12, 12, Change(0)]]
    assert terminal(80, columns, rows) == [
        "  PARTITION  COMMITTED  LATEST  LAG  CHANGE",
        AUTHORISED,
        "          0       1201    1250   49      +4",
        CAPTURED,
        "          0          -      12   12       0",
    ]


def test_column_with_one_text_in_all_rows_goes_above_a_table_that_is_too_wide(
    terminal: Callable[..., list[str]],
) -> None:
    assert terminal(80, LAG_COLUMNS, LAGS[:2]) == [
        f"topic  {AUTHORISED}",
        "PARTITION  COMMITTED  LATEST  LAG  CLIENT ID        HOST",
        "        0       1201    1250   49  settlement-7f9c  /10.0.0.7",
        "        1       1199    1199    0  settlement-3b21  /10.0.0.8",
    ]


def test_single_row_that_is_too_wide_is_printed_by_field(terminal: Callable[..., list[str]]) -> None:
    shown = terminal(60, LAG_COLUMNS, LAGS[2:])
    assert shown[:3] == [f"topic      {CAPTURED}", "partition  0", "committed  -"]
    assert len(shown) == len(LAG_COLUMNS)


def test_names_that_are_too_wide_go_beyond_the_edge_in_full(terminal: Callable[..., list[str]]) -> None:
    names = [f"{AUTHORISED}.{number}" * 2 for number in range(3)]
    shown = terminal(60, ["transactional_id", "producer_id"], [[name, 1] for name in names])
    assert [line.split()[0] for line in shown[1:]] == names


def test_only_columns_that_can_be_cut_are_shortened(terminal: Callable[..., list[str]]) -> None:
    rows = [[AUTHORISED, "x" * 100, 1], [CAPTURED, "y", 2]]
    shown = terminal(80, ["setting", "value", "number"], rows, can_be_cut=("value",))
    assert [len(line) for line in shown] == [80, 80, 80]
    assert shown[1] == f"{AUTHORISED}  {'x' * 24}...       1"
    assert shown[2].split() == [CAPTURED, "y", "2"]


def test_columns_are_aligned_if_characters_fill_two_columns_or_none(
    terminal: Callable[..., list[str]],
) -> None:
    rows = [["受注-集計", 1], ["cafe\u0301", 2], ["🚀", 3], ["orders", 4]]
    assert terminal(80, ["group", "lag"], rows) == [
        "GROUP      LAG",
        "受注-集計    1",
        "cafe\u0301         2",
        "🚀           3",
        "orders       4",
    ]


def test_wide_text_is_shortened_to_the_width_of_the_terminal(terminal: Callable[..., list[str]]) -> None:
    rows = [["a", "配" * 20], ["b", "x"]]
    assert terminal(22, ["setting", "value"], rows, can_be_cut=("value",)) == [
        "SETTING  VALUE",
        "a        配配配配配...",
        "b        x",
    ]


def test_layout_of_many_rows_measures_each_cell_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[str] = []
    monkeypatch.setattr(tables, "columns_of", lambda text: measured.append(text) or len(text))
    cells = [f"topic-{number}" for number in range(300)]
    columns = [Column("TOPIC", cells, [""] * 300), Column("VALUE", cells, [""] * 300, can_be_cut=True)]
    assert len(layout(columns, 15, lambda text, _: text)) == 301
    assert len(measured) < 20 * 600


def test_widest_column_is_cut_first_and_never_below_its_head_or_12_columns(
    terminal: Callable[..., list[str]],
) -> None:
    columns, both = ["name", "first", "longest_value"], ("first", "longest_value")
    rows = [["a", "x" * 20, "y" * 60], ["b", "x" * 20, "z" * 60]]
    shown = terminal(
        60, columns, [[name, f"{first}{name}", value] for name, first, value in rows], can_be_cut=both
    )
    assert shown[1] == f"a     {'x' * 20}a  {'y' * 28}..."
    shown = terminal(
        20, columns, [[name, f"{first}{name}", value] for name, first, value in rows], can_be_cut=both
    )
    assert shown[0] == "NAME  FIRST         LONGEST VALUE"
    assert shown[1] == f"a     {'x' * 9}...  {'y' * 10}..."


def test_table_below_headings_is_cut_to_the_width_behind_its_indent(
    terminal: Callable[..., list[str]],
) -> None:
    rows = [[AUTHORISED, number, "x" * 50 + str(number)] for number in (1, 2)] + [[CAPTURED, 1, "y"]]
    shown = terminal(40, ["topic", "partition", "value"], rows, can_be_cut=("value",))
    assert shown[1] == AUTHORISED
    assert shown[2] == f"          1  {'x' * 24}..."
    assert len(shown[2]) == 40


def test_numbers_become_no_headings(terminal: Callable[..., list[str]]) -> None:
    rows = [[1, AUTHORISED], [1, CAPTURED]]
    assert terminal(20, ["broker", "topic"], rows)[0] == "BROKER  TOPIC"


def test_equal_rows_that_are_too_wide_are_printed(terminal: Callable[..., list[str]]) -> None:
    rows = [[AUTHORISED, "a"], [AUTHORISED, "a"], [CAPTURED, "a"]]
    assert terminal(20, ["topic", "state"], rows) == ["state  a", "TOPIC", AUTHORISED, AUTHORISED, CAPTURED]


def test_lists_and_columns_of_json_only_have_the_form_of_tables(capsys: pytest.CaptureFixture[str]) -> None:
    Output("x").table(["a", "b", "c"], [[[True, None], {"k": False}, 1]], json_only=("c",))
    assert capsys.readouterr().out.splitlines() == ["A      B", "yes,-  k=no"]
    Output("x", is_json=True).table(["a", "c"], [[1, 2]], json_only=("c",))
    assert capsys.readouterr().out == '{"a":1,"c":2}\n'


def test_problems_are_red() -> None:
    assert [true_is_bad(value) for value in ("error", [1], None, [], "")] == ["bad", "bad", "", "", ""]


def test_quiet_columns_are_left_out_unless_a_row_has_something(capsys: pytest.CaptureFixture[str]) -> None:
    output = Output("x")
    columns, options = ["topic", "internal", "rack"], {"quiet": ("internal", "rack")}
    output.table(columns, [["a", False, None], ["b", False, None]], **options)  # type: ignore[arg-type]
    output.table(columns, [["a", False, None], ["b", True, None]], **options)  # type: ignore[arg-type]
    output.table(columns, [], **options)  # type: ignore[arg-type]
    shown = capsys.readouterr().out.splitlines()
    assert shown == ["TOPIC", "a", "b", "TOPIC  INTERNAL", "a      no", "b      yes", "TOPIC  INTERNAL  RACK"]


def test_markup_of_a_name_is_printed_as_it_is(terminal: Callable[..., list[str]]) -> None:
    assert terminal(80, ["topic"], [["[bold]x"]]) == ["TOPIC", "[bold]x"]


def test_colors_are_for_terminals_unless_no_color_is_set(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def shown() -> tuple[str, str]:
        output = Output("groups")
        output.table(["partition", "lag"], [[0, 5], [1, 0]], styles={"lag": positive_is_warning})
        output.item({"state": "Stable"}, {"state": lambda _: "good"})
        output.line("failed", "bad")
        output.error("no such group")
        found = capsys.readouterr()
        return found.out, found.err

    plain = shown()
    assert "\x1b" not in plain[0] + plain[1]
    for stream in (sys.stdout, sys.stderr):
        monkeypatch.setattr(stream, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    out, errors = shown()
    assert out.splitlines() == [
        "\x1b[1mPARTITION\x1b[0m  \x1b[1mLAG\x1b[0m",
        "        0    \x1b[33m5\x1b[0m",
        "        1    0",
        "state  \x1b[32mStable\x1b[0m",
        "\x1b[31mfailed\x1b[0m",
    ]
    assert errors == "\x1b[31mpykafka2 groups: no such group\x1b[0m\n"
    monkeypatch.setenv("NO_COLOR", "1")
    assert shown() == plain


def test_change_has_its_sign_in_a_table_and_is_a_number_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [[Change(5)], [Change(-3)], [Change(0)]]
    Output("x").table(["change"], rows)
    assert capsys.readouterr().out.split() == ["CHANGE", "+5", "-3", "0"]
    Output("x", is_json=True).table(["change"], rows[:1])
    assert capsys.readouterr().out == '{"change":5}\n'


def test_numbers_have_singular_and_plural() -> None:
    assert (counted(1, "record"), counted(2500, "record"), counted([], "topic")) == (
        "1 record",
        "2,500 records",
        "0 topics",
    )
    assert (counted([1], "address", "addresses"), counted([1, 2], "address", "addresses")) == (
        "1 address",
        "2 addresses",
    )
