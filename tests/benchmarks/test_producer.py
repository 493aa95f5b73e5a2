"""The benchmark of producers still runs, and its tables have a row for each client."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from benchmarks.producer.__main__ import main, parse, plan_of
from benchmarks.producer.clients import CLIENTS
from benchmarks.producer.inputs import CHUNK, inputs_of
from benchmarks.producer.kept import Kept
from benchmarks.producer.report import targets
from benchmarks.producer.runner import play_all
from benchmarks.producer.runs import Cell, Run, one_axis_at_a_time
from benchmarks.producer.waiting import WAITING
from benchmarks.side_by_side.measured import Measured
from tests.benchmarks.commands import some_and_all, table_of
from tests.campaign.results import UnlikeParts

SOME = [
    "pykafka2 send",
    "pykafka2 send_many, Arrow",
    "pykafka2[c] send",
    "confluent-kafka",
    "pykafka2, one at a time",
]


def test_every_target_ratio_is_played() -> None:
    plan = plan_of(parse([]))
    played = {(run.cell, run.client) for cell in plan.cells for run in plan.runs_of(cell)}
    for target in targets("apache"):
        assert (target.cell, target.one) in played
        assert (target.cell, target.other) in played


def test_one_axis_is_varied_at_a_time() -> None:
    base = Cell("bundled")
    for cell in one_axis_at_a_time(["bundled"], ["equal"]):
        names = ("size", "keys", "codec", "partitions", "lengths", "batch_bytes")
        assert sum(getattr(cell, name) != getattr(base, name) for name in names) <= 1
    chosen = plan_of(parse(["--size", "100", "--keys", "unique", "--mode", "equal", "--broker", "apache"]))
    assert {(cell.size, cell.keys, cell.mode) for cell in chosen.cells} == {(100, "unique", "equal")}


def test_every_batch_size_from_16_kib_to_4_mib_is_played_by_send_and_send_many() -> None:
    for arguments in ([], ["--mode", "equal", "--size", "100"]):
        plan = plan_of(parse(["--broker", "bundled", *arguments]))
        for client in ("pykafka2 send", "pykafka2 send_many", "pykafka2 send_many, Arrow"):
            sizes = {
                run.cell.batch_bytes
                for cell in plan.cells
                for run in plan.runs_of(cell)
                if run.client == client
            }
            assert sizes == {16 << 10, 256 << 10, 1 << 20, 4 << 20}


def test_inputs_have_the_lengths_of_the_cell() -> None:
    values, keys = inputs_of(Cell(keys="unique")).chunk()
    assert len(values) == CHUNK
    assert {len(value) for value in values} == {100}
    assert keys is not None
    assert {len(key) for key in keys} == {36}
    lengths = {len(value) for value in inputs_of(Cell(lengths="varying")).values}
    assert min(lengths) >= 50
    assert max(lengths) <= 150
    assert len(lengths) > 50


def test_help_teaches(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(["--help"])
    shown = capsys.readouterr().out
    assert "python -m benchmarks.producer --quick" in shown
    assert "equal" in shown
    assert "defaults" in shown


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.parametrize("clients", some_and_all(SOME, [*CLIENTS, *WAITING]))
def test_the_command_writes_a_table_and_a_plot(tmp_path: Path, clients: list[str]) -> None:
    out = tmp_path / "speed.txt"
    cell = ["--broker", "bundled", "--mode", "equal", "--size", "100", "--keys", "none", "--codec", "none"]
    few = ["--partitions", "6", "--batch-bytes", "16384", "--rounds", "1", "--share", "0.001"]
    table = table_of("producer", *cell, *few, out=out, clients=clients)
    for client in clients:
        assert f"\n  {client} " in table
    assert "\ntargets\n" in table
    if find_spec("matplotlib") is not None:  # it comes with the extra `bench`, which the gate does without
        assert out.with_suffix(".svg").stat().st_size > 1000
    assert main(["--list", "--quick"]) == 0


@pytest.mark.gate
@pytest.mark.slow
def test_runs_that_are_kept_are_not_played_again(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    played: list[Run] = []

    def play(run: Run) -> Measured:
        played.append(run)
        return Measured(float(len(played)), 1.0, 2.0, p50=0.5)

    one, other = Run("pykafka2 send", Cell(), 1000), Run("confluent-kafka", Cell(), 1000)
    first = Kept(path)
    assert [first.play(run, play).records_per_second for run in (one, other, one)] == [1, 2, 3]
    with path.open("a") as file:
        file.write('{"run": {"client": "half a li')
    again = Kept(path)
    assert again.has(one, 2)
    assert not again.has(one, 3)
    assert not again.has(other, 2)
    assert [again.play(run, play).records_per_second for run in (one, other, one, other)] == [1, 2, 3, 4]
    assert again.play(one, play).p50 == 0.5
    assert played == [one, other, one, other, one]
    assert len(path.read_text().splitlines()) == 6
    lines = path.read_text().splitlines()
    path.write_text(lines[0].replace('"code": "', '"code": "0') + "\n")
    with pytest.raises(UnlikeParts, match="cannot be added"):
        Kept(path)


@pytest.mark.gate
@pytest.mark.slow
def test_plan_with_all_runs_kept_starts_no_broker(tmp_path: Path) -> None:
    plan = plan_of(parse(["--broker", "apache", "--mode", "equal", "--size", "100", "--client", "aiokafka"]))
    kept = Kept(tmp_path / "runs.jsonl")
    for cell in plan.cells:
        for run in plan.runs_of(cell) * plan.rounds:
            kept.play(run, lambda run: Measured(1.0, 1.0, 1.0))
    results = play_all(plan, lambda run: None, Kept(tmp_path / "runs.jsonl"))
    assert not results.problems
    assert {len(rounds) for clients in results.rounds.values() for rounds in clients.values()} == {3}
