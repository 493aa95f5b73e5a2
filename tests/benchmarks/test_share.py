"""The benchmark of share consumers still runs, and its tables have a row for each client."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.share.__main__ import Cell, main, parse, plan_of, targets
from benchmarks.share.clients import CONFLUENT, JAVA, PYTHON_CLIENTS
from tests.benchmarks.commands import table_of


def test_every_target_of_share_consumers_is_played() -> None:
    plan = plan_of(parse([]))
    played = {(run.cell, run.client) for cell in plan.cells for run in plan.runs_of(cell)}
    for target in targets("apache"):
        assert {(target.cell, target.one), (target.cell, target.other)} <= played
    assert (Cell("apache"), JAVA) in played


def test_list_prints_the_planned_runs_of_share_consumers(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list", "--rounds", "2", "--client", CONFLUENT, "--client", JAVA]) == 0
    shown = capsys.readouterr().out
    assert f"{CONFLUENT}; {JAVA}" in shown
    assert "4 runs" in shown


@pytest.mark.gate
@pytest.mark.slow
def test_the_command_writes_a_table_of_share_consumers(tmp_path: Path) -> None:
    table = table_of("share", "--smoke", out=tmp_path / "share.txt", clients=PYTHON_CLIENTS)
    for client in PYTHON_CLIENTS:
        assert client in table
    assert "over confluent-kafka" in table
