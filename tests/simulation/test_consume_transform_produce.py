"""A live group that reads, and writes what it read in transactions, under faults: exactly once (KIP-447)."""

from __future__ import annotations

import pytest

from tests.campaign.copy_story import CopyShape, run_seed
from tests.gate import rest_in_gate
from tests.simulation import copy_mutants as mutants
from tests.simulation.planting import assert_caught

ONCE = {"EverythingIsCopiedOnce", "CopyingComesToItsEnd"}

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("quiet")]


@pytest.mark.parametrize("seed", rest_in_gate([9, 3, 5, 8]))
def test_records_copied_under_faults_are_written_once(seed: int) -> None:
    report = run_seed(seed)
    assert report.error is None, f"{report.error!r}\n{report.timeline[-6000:]}"
    assert report.counts, report


# Members that are slow amid a transaction, and are out of the group when they come to its end.
SLOW = CopyShape(
    consumers=2, stalls=0.3, kinds=[], options={"max_poll_interval_ms": 1500, "session_timeout_ms": 1500}
)


@pytest.mark.gate
def test_copies_of_expelled_members_do_not_count() -> None:
    report = run_seed(0, SLOW)
    assert report.error is None, f"{report.error!r}\n{report.timeline[-6000:]}"
    assert report.outcomes["failures"], "no member was removed during a transaction"


@pytest.mark.gate
@pytest.mark.parametrize(
    ("mutant", "shape"),
    [
        (mutants.offsets_are_committed_beside_the_transaction, None),
        (mutants.nothing_is_read_again_after_an_abort, None),
        (mutants.transactions_know_nothing_of_the_member, SLOW),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_a_planted_bug_of_copying_is_caught(
    mutant: mutants.Mutant, shape: CopyShape | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert_caught(mutant, ONCE, lambda seed, sabotage: run_seed(seed, shape, sabotage=sabotage), monkeypatch)
