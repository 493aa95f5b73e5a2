"""Asyncio applications in one or several loops, under faults and cancellations."""

from __future__ import annotations

import pytest

from tests.campaign.aio_story import AioShape, run_seed
from tests.gate import rest_in_gate
from tests.simulation import aio_mutants as mutants
from tests.simulation.planting import assert_caught

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("quiet")]


@pytest.mark.gate
@pytest.mark.parametrize("seed", rest_in_gate([0, 1, 2, 4]))  # seed 3 ends before enough faults took effect
def test_cancelled_applications_lose_and_repeat_nothing_under_faults(seed: int) -> None:
    report = run_seed(seed)
    assert report.error is None, f"{report.error!r}\n{report.timeline[-6000:]}"
    assert report.counts, report


@pytest.mark.gate
def test_same_seed_plays_the_same_applications() -> None:
    assert run_seed(5).trace_hash == run_seed(5).trace_hash


CANCELLED = AioShape(cancels=0.4)


@pytest.mark.gate
@pytest.mark.parametrize(
    ("mutant", "caught_by"),
    [
        (mutants.a_cancelled_send_is_sent, {"RecordsAreWrittenOnce"}),
        (mutants.a_cancelled_read_has_taken_records, {"CallsKeepTheirWord", "CopyingComesToItsEnd"}),
        (mutants.a_cancelled_block_commits, {"EverythingIsCopiedOnce"}),
        (mutants.a_listener_is_not_awaited, {"CallsKeepTheirWord"}),
        (mutants.a_cancelled_read_leaves_a_task, {"NoTaskIsLeft"}),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_a_planted_bug_of_the_asyncio_clients_is_caught(
    mutant: mutants.Mutant, caught_by: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert_caught(
        mutant, caught_by, lambda seed, sabotage: run_seed(seed, CANCELLED, sabotage=sabotage), monkeypatch
    )
