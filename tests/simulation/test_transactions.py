"""Transactions under faults keep their promise, and the checker sees it when they do not."""

from __future__ import annotations

import pytest

from pykafka2.errors import KafkaError
from pykafka2.testing.simulation.problems import InvariantViolated
from tests.campaign.transaction_run import main
from tests.campaign.transactions import play
from tests.gate import rest_in_gate
from tests.simulation import transaction_client_mutants as client_mutants
from tests.simulation import transaction_mutants as mutants
from tests.simulation.test_trace import hash_in_a_fresh_interpreter
from tests.simulation.transactions_story import tell

SECONDS = 12.0


pytestmark = pytest.mark.usefixtures("quiet")


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.parametrize(("seed", "version"), rest_in_gate([(5, 2), (11, 1)]))
def test_transactions_are_all_or_nothing_under_faults(seed: int, version: int) -> None:
    story = play(seed, seconds=SECONDS, transaction_version=version)
    assert story.outcomes["committed"] >= 5
    assert story.outcomes["aborted"] >= 5
    assert story.fenced >= 3
    assert story.effective_faults >= 3


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.parametrize(("seed", "version"), rest_in_gate([(1, 2), (2, 1)]))
def test_transactions_of_the_client_library_are_all_or_nothing_under_faults(seed: int, version: int) -> None:
    story = play(seed, seconds=SECONDS, transaction_version=version, by_clients=True)
    assert story.outcomes["committed"] >= 5
    assert story.outcomes["aborted"] >= 5
    assert story.fenced >= 1
    assert story.effective_faults >= 3


@pytest.mark.gate
@pytest.mark.slow
def test_transactions_leave_the_same_trace_for_each_hash_seed() -> None:
    assert hash_in_a_fresh_interpreter("tests.simulation.transactions_story", 4, "77") == tell(4)


@pytest.mark.gate
@pytest.mark.slow
def test_many_seeds_are_played_from_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seeds", "2", "--versions", "2", "--virtual-seconds", "4"]) == 0
    assert "1 seeds" in capsys.readouterr().out


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.parametrize(
    ("mutant", "seed", "version"),
    [
        (mutants.aborted_list_is_empty, 0, 2),
        (mutants.a_commit_is_decided_as_an_abort_now_and_then, 5, 2),
        (mutants.a_new_coordinator_orders_no_markers, 4, 2),
    ],
)
def test_a_planted_bug_is_seen(
    mutant: mutants.Mutant, seed: int, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant(monkeypatch)
    with pytest.raises((InvariantViolated, KafkaError)):
        play(seed, seconds=SECONDS, transaction_version=version)


@pytest.mark.gate
@pytest.mark.slow
def test_records_visible_before_their_commit_are_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    mutants.last_stable_offset_is_the_high_watermark(monkeypatch)
    with pytest.raises(InvariantViolated, match="is read, and its transaction is open"):
        play(0, seconds=2.0, by_clients=True)


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.parametrize(
    ("mutant", "seed"),
    [(mutant, 2 if number == 0 else 0) for number, mutant in enumerate(client_mutants.MUTANTS)],
)
def test_a_planted_bug_of_the_client_is_seen(
    mutant: client_mutants.Mutant, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant(monkeypatch)
    with pytest.raises((InvariantViolated, KafkaError)):
        play(seed, seconds=SECONDS, by_clients=True)
