"""The benchmark of Spark's sinks and sources still runs, and its tables have a row for each client."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest

from benchmarks.side_by_side.turns import Results
from benchmarks.spark.__main__ import parse, plan_of
from benchmarks.spark.report import reached, tables, targets
from benchmarks.spark.runner import WARM_UP_ROUNDS, warm_up
from benchmarks.spark.runs import CLIENTS, CONFLUENT, JVM, ONCE, OURS, Cell, Played, cells_of
from spark_connector.testing import why_no_spark
from tests.benchmarks.commands import table_of


def test_every_target_ratio_is_played() -> None:
    plan = plan_of(parse([]))
    played = {(run.cell, run.client) for cell in plan.cells for run in plan.runs_of(cell)}
    for broker in ("apache", "bundled"):
        for target in targets(broker):
            assert (target.cell, target.one) in played
            assert (target.cell, target.other) in played


def test_a_smoke_run_needs_neither_maven_nor_another_pyspark() -> None:
    plan = plan_of(parse(["--smoke"]))
    assert not plan.has_jvm
    assert {cell.broker for cell in plan.cells} == {"bundled"}
    assert {cell.kind for cell in plan.cells} == set(CLIENTS)
    assert JVM not in {run.client for cell in plan.cells for run in plan.runs_of(cell)}


def test_tables_have_a_row_for_each_client_and_mark_missed_targets() -> None:
    results: Results[Cell] = Results()
    plan = plan_of(parse(["--broker", "bundled"]))
    for cell in cells_of("bundled"):
        for run in plan.runs_of(cell):
            slower = 0.5 if run.client == ONCE else 1.0
            results.add(run, Played(1e6 * slower, 1.0, 1.0, p50=0.1, p99=0.2, batch_seconds=[0.1, 0.2]))
    text = "\n".join(tables(results))
    for names in CLIENTS.values():
        assert all(name in text for name in names if name != OURS)
    lines, missed = reached(results)
    assert missed == len(lines)
    assert any("exactly once" in line and "0.50 x" in line and "MISSED" in line for line in lines)
    assert any("empty micro-batch" in line and "100.0 ms" in line for line in lines)


def test_clients_warm_up_until_two_rounds_in_a_row_are_alike() -> None:
    plan = plan_of(parse(["--broker", "apache", "--kind", "source", "--columns", "value"]))
    (cell,) = plan.cells
    costs = {OURS: [1.0, 1.0], CONFLUENT: [2.0, 3.0, 3.1], JVM: [5.6, 3.0, 1.5, 1.04, 1.0, 1.0]}
    left = {name: list(rounds) for name, rounds in costs.items()}
    results: Results[Cell] = Results()
    warm_up(plan, cell, lambda run: Played(1e6, left[run.client].pop(0), 1.0), results)
    assert left == {OURS: [], CONFLUENT: [], JVM: [1.0]}
    assert {name: played.cpu_us for name, played in results.cold[cell].items()} == {
        name: rounds[0] for name, rounds in costs.items()
    }
    assert results.notes == []


def test_a_client_that_never_settles_is_named_above_the_tables() -> None:
    plan = plan_of(parse(["--broker", "apache", "--kind", "pipeline", "--client", JVM]))
    (cell,) = plan.cells
    growing = count(1.0)
    results: Results[Cell] = Results()
    warm_up(plan, cell, lambda run: Played(1e6, next(growing), 1.0), results)
    assert next(growing) == WARM_UP_ROUNDS + 1
    assert [JVM in note and "had not settled" in note for note in tables(results)] == [True]


def test_help_teaches(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(["--help"])
    shown = capsys.readouterr().out
    assert "python -m benchmarks.spark --smoke" in shown
    assert "--no-jvm" in shown


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.slow
def test_the_command_writes_a_table(tmp_path: Path) -> None:
    reason = why_no_spark()
    if reason is not None:
        pytest.skip(reason)
    table = table_of("spark", "--smoke", out=tmp_path / "speed.txt", seconds=400)
    assert "exactly once over at least once" in table
    assert "our part of an empty micro-batch" in table
