"""The benchmark of asyncio clients covers every target, and its smoke run works."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.aio.__main__ import main, parse, plan_of, targets
from benchmarks.aio.clients import CLIENTS
from benchmarks.side_by_side.turns import installed
from tests.benchmarks.commands import table_of


def test_every_target_ratio_is_played() -> None:
    plan = plan_of(parse([]))
    played = {(run.cell, run.client) for cell in plan.cells for run in plan.runs_of(cell)}
    for broker in ("apache", "bundled"):
        for target in targets(broker):
            assert (target.cell, target.one) in played
            assert target.other is None or (target.cell, target.other) in played


def test_list_prints_the_planned_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list", "--quick"]) == 0
    shown = capsys.readouterr().out
    assert f"{sum(len(installed(names)) for names in CLIENTS.values())} runs" in shown
    assert main(["--list", "--what", "async for", "--broker", "bundled", "--client", "aiokafka"]) == 0
    assert "3 runs" in capsys.readouterr().out


@pytest.mark.gate
@pytest.mark.slow
def test_the_command_writes_a_table(tmp_path: Path) -> None:
    table = table_of("aio", "--smoke", out=tmp_path / "aio.txt", clients=["pykafka2.aio"])
    for what in CLIENTS:
        assert f"{what}, bundled" in table
