"""The guide to pipelined acks has the broker's states and moves, and its benchmark runs as printed."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import pytest

from benchmarks import acks_plot, broker_acks
from benchmarks.acks_clients import Measured
from benchmarks.acks_runs import MODES, Flow, Result, Runner, Setting
from benchmarks.broker_acks import ARTICLE_MS, BEGIN, END, PARTS, is_busy, main, parse, replace_figures
from pykafka2.broker.server.channel import (
    PIPELINED_MOVES,
    READABLE_STATES,
    SERIAL_MOVES,
    ChannelEvent,
    ChannelState,
    Table,
)

GUIDES = Path(__file__).parents[2] / "docs" / "guides"
TEXT = (GUIDES / "pipelined-acks.md").read_text(encoding="utf-8")
MACHINE = TEXT.partition("## The state machine\n")[2].partition("\n## ")[0]
SERIAL, _, MORE = MACHINE.partition("A pipelined connection adds")


def moves_of(text: str) -> Table:
    """Return the moves of the nested lists: `STATE`, and below it `EVENT` → `STATE`."""
    moves: Table = {}
    state = None
    for line in text.splitlines():
        if of := re.fullmatch(r"- `(\w+)`", line):
            state = ChannelState[of[1]]
        elif move := re.fullmatch(r"    - `(\w+)` → `(\w+)`", line):
            assert state is not None
            moves[state, ChannelEvent[move[1]]] = ChannelState[move[2]]
    return moves


def test_guide_lists_the_moves_of_both_modes() -> None:
    assert moves_of(SERIAL) == SERIAL_MOVES
    assert moves_of(MORE) == {key: after for key, after in PIPELINED_MOVES.items() if key not in SERIAL_MOVES}


def test_guide_describes_every_state_and_event() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| (yes|no) \|", MACHINE, re.MULTILINE))
    assert rows.keys() == ChannelState.__members__.keys()
    assert {ChannelState[name] for name, is_read in rows.items() if is_read == "yes"} == READABLE_STATES
    events = MACHINE.partition("| event | when |")[2].partition("\n\n")[0]
    cells = [line.split("|")[1] for line in events.splitlines() if line.startswith("| `")]
    assert {name for cell in cells for name in re.findall(r"`(\w+)`", cell)} == set(ChannelEvent.__members__)


def test_a_move_that_is_missing_from_the_guide_is_found() -> None:
    without = SERIAL.replace("    - `THROTTLE_ENDED` → `MUTED`\n", "")
    assert moves_of(without) != SERIAL_MOVES


@pytest.fixture(scope="module")
def diagram() -> dict[str, Any]:
    return runpy.run_path(str(GUIDES / "channel_states.py"))


def test_diagram_shows_all_moves_without_throttling(diagram: dict[str, Any]) -> None:
    drawn = {
        (ChannelState[before], ChannelEvent[event]): ChannelState[after]
        for before, event, after, *_ in diagram["ARROWS"]
    }
    assert drawn == {
        (before, event): after
        for (before, event), after in PIPELINED_MOVES.items()
        if "THROTTLE" not in before.name + event.name
    }
    read = {ChannelState[name] for name, (*_, is_read) in diagram["STATES"].items() if is_read}
    assert read == READABLE_STATES


def test_diagram_is_as_its_script_draws_it_and_has_dark_colors(diagram: dict[str, Any]) -> None:
    drawn = diagram["TARGET"].read_text(encoding="utf-8")
    assert drawn == diagram["drawing"]()
    assert "prefers-color-scheme:dark" in drawn


def test_guide_names_the_article_with_title_author_and_date() -> None:
    assert "Kafka同步复制吞吐优化" in TEXT
    assert "2025-06-23" in TEXT


def test_guide_has_the_milliseconds_of_the_article() -> None:
    rows = re.findall(r"^\| (-?[01]) +\|[^|]+\|[^|]+\| ([\d.–]+) +\|$", TEXT, re.MULTILINE)
    assert {(int(acks), ms) for acks, ms in rows} == set(ARTICLE_MS.items())


# ------------------------------------------------------------------ the benchmark


def test_help_and_guide_describe_every_part_of_the_benchmark(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(["--help"])
    shown = capsys.readouterr().out
    assert [name for name in PARTS if not re.search(rf"^ +{name} ", shown, re.MULTILINE)] == []
    assert [name for name in PARTS if f"`{name}`" not in TEXT] == []


@pytest.fixture
def instant_runs(monkeypatch: pytest.MonkeyPatch) -> list[Setting]:
    """Replace runs by made-up results; return the settings that were run."""
    ran: list[Setting] = []

    def run_once(self: Runner, setting: Setting) -> Result:
        ran.append(setting)
        rate = 50.0 if setting.mode == "pipelined" else 5.0 * setting.producers
        full = {-1: 0.93, 1: 0.05}[setting.acks]
        client = Measured(rate, in_flight_max=setting.in_flight, window_full=full, zero_windows=17)
        return Result(client, {"in_flight_max": 1})

    def flow(self: Runner, setting: Setting) -> Flow:
        seen = self.flows[setting] = Flow(
            [0.0, 0.1, 0.2], [0, 6_000_000, 12_000_000], [0, 5_000_000, 10_000_000]
        )
        return seen

    monkeypatch.setattr(broker_acks, "find_spec", lambda name: True)  # both clients
    monkeypatch.setattr(Runner, "_run_once", run_once)
    monkeypatch.setattr(Runner, "flow", flow)
    return ran


QUICK_PARTS = [word for name in PARTS if name not in ("times", "latency") for word in ("--part", name)]
"""Those whose runs are all the runner's."""


def test_short_form_covers_the_articles_figures(
    instant_runs: list[Setting], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--short", *QUICK_PARTS]) == 0
    shown = capsys.readouterr().out
    assert {one.in_flight for one in instant_runs} == {5, 200, 2000}
    assert {one.replicas for one in instant_runs} == {1, 2, 3}
    assert {one.partitions for one in instant_runs} == {1, 4}
    assert {one.producers for one in instant_runs} == {1, 2, 4, 8}
    assert {one.rtt for one in instant_runs} == {0.001}
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in shown.splitlines()]
    assert ["200", "pipelined", *["50.0 (200, 1)"] * 3, "140, 110, 115"] in rows, "the article's column"
    assert ["2,000", "serial", "93%", "17", "5%", "17"] in rows, "the TCP window"
    assert ["1", "serial", "60.0", "50.0", "83%"] in rows, "replicated bytes"
    assert ["8 serial, acks=-1", "40.0", "8.00 ×", "8.00 ×"] in rows


def test_best_round_counts_and_every_other_round_is_backwards(monkeypatch: pytest.MonkeyPatch) -> None:
    rates, ran = iter([1.0, 10.0, 3.0, 30.0, 2.0, 20.0, *[1.0] * 4]), []

    def run_once(self: Runner, setting: Setting) -> Result:
        ran.append(setting.mode)
        return Result(Measured(next(rates)), {})

    monkeypatch.setattr(Runner, "_run_once", run_once)
    runner = Runner(0.1, rounds=3)
    serial, pipelined = (Setting("pykafka2", mode) for mode in MODES)
    assert (runner.run(serial).rate, runner.run(pipelined).rate) == (3.0, 30.0)
    assert ran == [*MODES] * 3
    ran.clear()
    runner.side_by_side([serial, pipelined], 2)
    assert ran == ["serial", "pipelined", "pipelined", "serial"]


def test_missed_target_is_the_exit_status(
    instant_runs: list[Setting], capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["--part", "targets", "--pairs", "1", "--driver", "pykafka2"]
    assert main(argv) == 0
    wanted = re.findall(r"≥ [\d.]+ ×", capsys.readouterr().out)
    assert wanted == [f"≥ {one} ×" for one in ("2.5", "0.9", "0.9", "6.0", "0.9", "0.9", "1.0")]
    assert main(["--short", "--part", "targets", "--driver", "pykafka2"]) == 0
    assert "Targets" not in capsys.readouterr().out
    run_once = Runner._run_once

    def slower(self: Runner, setting: Setting) -> Result:
        result = run_once(self, setting)
        return result if setting.mode == "serial" else Result(Measured(6.0), result.broker)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Runner, "_run_once", slower)
        assert main(argv) == 1
    assert "**missed**" in capsys.readouterr().out


def test_plot_has_a_panel_for_each_figure(instant_runs: list[Setting], tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    target = tmp_path / "acks.svg"
    assert main(["--short", *QUICK_PARTS, "--driver", "pykafka2", "--plot", str(target)]) == 0
    drawn = target.read_text(encoding="utf-8")
    for part in ("requests in flight", "serial clients on one partition", "seconds, acks=1", "replicated"):
        assert f"<!-- {part}" in drawn


def test_figures_of_the_guide_can_be_replaced(
    instant_runs: list[Setting], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker_acks, "why_no_plot", lambda: None)
    monkeypatch.setattr(acks_plot, "plot", lambda runner, drivers, path, note: path.write_text(note))
    page = tmp_path / "pipelined-acks.md"
    page.write_text(TEXT, encoding="utf-8")
    parts = ["--part", "shapes", "--part", "targets", "--pairs", "1"]
    argv = ["--short", *parts, "--driver", "pykafka2", "--into", str(page)]
    for _ in range(2):
        assert main(argv) == 0
        text = page.read_text(encoding="utf-8")
        assert text.count("| 1          | 1       | 3        | no         | 5.0 (5, 1)") == 1
        assert "**Targets" not in text, "their ratios are in docs/benchmarks.md alone"
    assert page.with_suffix(".svg").exists()
    assert text.partition(BEGIN)[0] == TEXT.partition(BEGIN)[0]
    assert text.partition(END)[2] == TEXT.partition(END)[2]


@pytest.mark.parametrize(
    ("before", "after", "shown"), [(0.3, 2.4, False), (29.8, 2.1, True), (0.3, 9.0, True)]
)
def test_figures_from_a_busy_machine_are_preliminary(before: float, after: float, shown: bool) -> None:
    assert is_busy(before, after) is shown


def test_page_warns_of_a_busy_machine_before_the_figures(
    instant_runs: list[Setting], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.setattr("benchmarks.broker_acks.is_busy", lambda before, after: True)
    page = tmp_path / "pipelined-acks.md"
    page.write_text(f"{BEGIN}\n{END}", encoding="utf-8")
    assert main(["--short", "--part", "shapes", "--driver", "pykafka2", "--into", str(page)]) == 0
    assert "**Preliminary:**" in page.read_text(encoding="utf-8").partition("**Shapes")[0]


def test_page_without_marks_for_figures_is_refused(tmp_path: Path) -> None:
    page = tmp_path / "other.md"
    page.write_text("no marks", encoding="utf-8")
    with pytest.raises(ValueError, match="<!-- figures -->"):
        replace_figures(page, ["figures"])
    assert page.read_text(encoding="utf-8") == "no marks"


@pytest.mark.parametrize("name", ["other.md", "no-such-page.md"])
def test_unusable_page_is_refused_before_the_runs(
    name: str, instant_runs: list[Setting], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "other.md").write_text("no marks", encoding="utf-8")
    with pytest.raises(SystemExit):
        main(["--part", "shapes", "--into", str(tmp_path / name)])
    assert "--into: " in capsys.readouterr().err
    assert instant_runs == []


def test_missing_client_is_refused_before_the_runs(
    instant_runs: list[Setting], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(broker_acks, "find_spec", lambda name: None)
    with pytest.raises(SystemExit):
        main(["--short", "--part", "shapes"])
    assert "use --driver pykafka2" in capsys.readouterr().err
    assert instant_runs == []
    assert main(["--short", "--part", "shapes", "--driver", "pykafka2"]) == 0
