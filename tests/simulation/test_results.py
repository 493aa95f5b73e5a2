"""Seeds are played in parts, several at a time, and the parts are added up."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from pykafka2.testing.simulation.faults import Tally
from tests.campaign.results import Played, ResultFile, UnlikeParts, add_parts, read, total
from tests.campaign.run import main
from tests.campaign.seed import Report
from tests.campaign.seed_pool import play_all

SHAPE = {"seconds": 60.0, "brokers": 3}
PLAYED = Played("abc", SHAPE)


def report(seed: int, **known: object) -> Report:
    values = {"seconds": 61.0, "operations": 400, "effective_faults": 7, "trace_hash": f"trace of {seed}"}
    made = Report(seed, tallies={"crash": Tally(3, 2, {"a leader fell": 2, "no effect": 1})})
    return attrs.evolve(made, **{**values, **known})


def test_run_continues_at_the_seed_where_it_was_stopped(tmp_path: Path) -> None:
    path = tmp_path / "seeds.jsonl"
    first = ResultFile(path, PLAYED)
    first.add(report(1))
    first.add(report(2, failure="InvariantViolated: a record is gone"))
    again = ResultFile(path, PLAYED)
    assert again.reports == first.reports
    again.add(report(3))
    assert [one.seed for one in read(path)[1]] == [1, 2, 3]


def test_half_a_line_that_a_crash_left_is_played_again(tmp_path: Path) -> None:
    path = tmp_path / "seeds.jsonl"
    ResultFile(path, PLAYED).add(report(1))
    path.write_text(path.read_text() + '{"seed": 2, "sec')
    again = ResultFile(path, PLAYED)
    assert [one.seed for one in again.reports] == [1]
    again.add(report(2))
    assert [one.seed for one in read(path)[1]] == [1, 2]


@pytest.mark.parametrize("other", [Played("abd", SHAPE), Played("abc", {**SHAPE, "brokers": 5})])
def test_seeds_of_other_code_or_another_scenario_are_not_added(tmp_path: Path, other: Played) -> None:
    mine, theirs = tmp_path / "mine", tmp_path / "theirs"
    ResultFile(mine, PLAYED).add(report(1))
    ResultFile(theirs, other).add(report(2))
    with pytest.raises(UnlikeParts, match="cannot be added"):
        add_parts([mine, theirs])
    with pytest.raises(UnlikeParts, match="cannot be added"):
        ResultFile(theirs, PLAYED)


def test_parts_are_added_and_a_seed_counts_once(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    parts = ResultFile(one, PLAYED), ResultFile(two, PLAYED)
    parts[0].add(report(1))
    parts[0].add(report(2))
    parts[1].add(report(2))
    parts[1].add(report(3))
    played, reports, problems = add_parts([one, two])
    assert (played, problems) == (PLAYED, [])
    assert [one.seed for one in reports] == [1, 2, 3]
    assert total(reports)["crash"] == Tally(9, 6, {"a leader fell": 6, "no effect": 3})


def test_a_seed_that_left_two_traces_is_a_problem(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    ResultFile(one, PLAYED).add(report(1))
    ResultFile(two, PLAYED).add(report(1, trace_hash="another"))
    assert "seed 1 left trace trace of 1" in add_parts([one, two])[2][0]


def test_summary_lists_failed_seeds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "seeds.jsonl"
    ResultFile(path, PLAYED).add(report(5, failure="InvariantViolated: a record is gone\n"))
    assert main(["--summary", str(path)]) == 1
    # Loggers of this process work as before.
    assert logging.root.manager.disable == logging.NOTSET
    printed = capsys.readouterr().out
    assert "failed seeds: 5" in printed
    assert "a record is gone" in printed
    assert "--seed 5" in printed


def test_items_are_taken_only_when_there_is_room() -> None:
    taken: list[int] = []

    def items() -> Iterator[int]:
        for number in range(3):
            taken.append(number)
            yield number

    playing = play_all(str, items())
    assert next(playing) == "0"
    assert taken == [0]
    assert list(playing) == ["1", "2"]


@pytest.mark.gate
@pytest.mark.slow
def test_several_are_played_at_a_time_in_processes_of_their_own() -> None:
    assert sorted(play_all(str, range(5), jobs=2)) == ["0", "1", "2", "3", "4"]
