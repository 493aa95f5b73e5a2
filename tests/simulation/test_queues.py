"""Share groups under faults: each record ends once, and each promise's checker sees its planted bug."""

from __future__ import annotations

import pytest

from tests.campaign.queue_story import run_seed
from tests.simulation import queue_mutants as mutants
from tests.simulation.planting import assert_caught

pytestmark = [pytest.mark.slow, pytest.mark.gate, pytest.mark.usefixtures("quiet")]

ENDS = {"EndedStaysEnded", "NothingComesAfterTheEnd"}

MUTANTS = [
    (mutants.new_leaders_forget_what_was_accepted, ENDS),
    (mutants.snapshots_lose_the_states, ENDS),
    (mutants.delivery_counts_are_not_stored, {"CountsGrowByOne"}),
    (mutants.locks_do_not_end, {"LocksExpire"}),
    (mutants.two_members_hold_a_record, {"RecordHasOneHolder"}),
    (mutants.archived_one_delivery_early, {"EveryRecordEnds"}),
    (mutants.archived_one_delivery_late, {"CountsGrowByOne"}),
    (mutants.close_loses_acknowledgements, {*ENDS, "ConfirmedMeansApplied"}),
    (mutants.dead_letters_are_lost, {"DeadLettersAreComplete"}),
]

MORE_MUTANTS = [
    (mutants.close_drops_decisions, {"CloseSendsDecisions"}),
    (mutants.failed_writes_count_as_stored, {*ENDS, "CountsGrowByOne"}),
    (mutants.former_leaders_are_not_fenced, ENDS),
    (mutants.anybody_acknowledges, {"OnlyHoldersAcknowledge"}),
    (mutants.renewed_locks_end_as_before, {"RecordHasOneHolder"}),
    (mutants.rejected_records_are_delivered_again, ENDS),
    (mutants.one_type_counts_for_a_range, {"ConfirmedMeansApplied", "ClientsKeepTheirWord"}),
    (mutants.dead_letters_end_with_their_leader, {"EveryRecordEnds", "DeadLettersAreComplete"}),
    (mutants.close_accepts_everything, {"ClientsKeepTheirWord"}),
    (mutants.errors_are_reported_as_confirmations, {"ClientsKeepTheirWord"}),
]

# What few seeds meet is soon met from here on.
FIRST_SEED = {mutants.former_leaders_are_not_fenced: 12, mutants.anybody_acknowledges: 12}


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long)])
def test_records_of_queues_end_once_under_faults(seed: int) -> None:
    report = run_seed(seed)
    assert report.error is None, f"{report.error!r}\n{report.timeline[-6000:]}"
    assert report.counts, report


@pytest.mark.parametrize(
    ("mutant", "caught_by"),
    [*MUTANTS, *(pytest.param(*more, marks=pytest.mark.long) for more in MORE_MUTANTS)],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_a_planted_bug_of_queues_is_caught(
    mutant: mutants.Mutant, caught_by: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = FIRST_SEED.get(mutant, 0)
    assert_caught(
        mutant, caught_by, lambda seed, sabotage: run_seed(seed, sabotage=sabotage), monkeypatch, first
    )
