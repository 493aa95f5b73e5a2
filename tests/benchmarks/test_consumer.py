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
from tests.benchmarks.commands import some_and_all, table_of

SOME = [
    "pykafka2 poll",
    "pykafka2 to_arrow",
    "pykafka2[c] poll_columns",
    "confluent-kafka consume",
    "pykafka2, send to poll",
]


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
    assert any(f"{runs} runs" in shown for runs in (11, 14))  # three more with the compiled code


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.parametrize("clients", some_and_all(SOME, [*CLIENTS, *WAITING]))
def test_the_command_writes_a_table_and_a_plot(tmp_path: Path, clients: list[str]) -> None:
    out = tmp_path / "speed.txt"
    table = table_of("consumer", "--smoke", out=out, clients=clients, seconds=300)
    for client in clients:
        assert client in table
    assert "\ntargets\n" in table
    if find_spec("matplotlib") is not None:
        assert out.with_suffix(".svg").read_text().startswith("<?xml")
