"""The benchmark of consumers still runs, and its tables have a row for each client."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from benchmarks.consumer.__main__ import main, parse, plan_of
from benchmarks.consumer.clients import CLIENTS
from benchmarks.consumer.report import targets
from benchmarks.consumer.runs import Cell, one_axis_at_a_time
from benchmarks.consumer.waiting import WAITING
from tests.benchmarks.commands import quick_to_start, table_of


def test_every_target_ratio_is_played() -> None:
    plan = plan_of(parse([]))
    played = {(run.cell, run.client) for cell in plan.cells for run in plan.runs_of(cell)}
    for target in targets("apache"):
        assert (target.cell, target.one) in played
        assert (target.cell, target.other) in played


def test_one_axis_is_varied_at_a_time() -> None:
    base = Cell("bundled")
    for cell in one_axis_at_a_time(["bundled"]):
        assert (
            sum(getattr(cell, name) != getattr(base, name) for name in ("size", "codec", "lengths", "parts"))
            <= 1
        )
    assert [str(cell) for cell in plan_of(parse(["--smoke"])).cells] == [str(base)]
    chosen = plan_of(parse(["--smoke", "--parts", "headers"])).cells
    assert [str(cell) for cell in chosen] == ["bundled, 6 partitions, 100 B, with headers, codec none"]


def test_list_prints_the_planned_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list", "--quick"]) == 0
    shown = capsys.readouterr().out
    assert "pykafka2 poll" in shown
    assert "11 runs" in shown


@pytest.mark.gate
@pytest.mark.slow
def test_the_command_writes_a_table_and_a_plot(tmp_path: Path) -> None:
    out = tmp_path / "speed.txt"
    clients = quick_to_start([*CLIENTS, *WAITING])
    table = table_of("consumer", "--smoke", out=out, clients=clients, seconds=300)
    for client in clients:
        assert client in table
    assert "\ntargets\n" in table
    if find_spec("matplotlib") is not None:
        assert out.with_suffix(".svg").read_text().startswith("<?xml")
