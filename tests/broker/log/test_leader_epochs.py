"""The leader-epoch cache."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykafka2.broker.log.leader_epochs import NO_EPOCH_END, EpochEnd, EpochEntry, LeaderEpochs


def epochs(*entries: tuple[int, int]) -> LeaderEpochs:
    cache = LeaderEpochs()
    for epoch, start in entries:
        cache.assign(epoch, start)
    return cache


@pytest.mark.parametrize(
    ("requested", "expected"),
    [
        (-1, NO_EPOCH_END),
        (0, EpochEnd(0, 10)),
        (2, EpochEnd(2, 20)),
        (3, EpochEnd(2, 20)),  # the largest epoch below it, as 3 does not exist
        (5, EpochEnd(5, 35)),  # the current one ends at the log's end
        (6, NO_EPOCH_END),
    ],
)
def test_end_offset_belongs_to_the_largest_epoch_up_to_the_requested_one(
    requested: int, expected: EpochEnd
) -> None:
    assert epochs((2, 10), (5, 20)).end_of(requested, 35) == expected


def test_epoch_without_records_is_dropped() -> None:
    cache = epochs((1, 0), (2, 7), (3, 7))
    assert cache.entries == [EpochEntry(1, 0), EpochEntry(3, 7)]


def test_older_epoch_is_not_assigned() -> None:
    cache = epochs((4, 0))
    cache.assign(3, 10)
    assert cache.entries == [EpochEntry(4, 0)]


def test_truncation_removes_epochs_from_the_end_offset_on() -> None:
    cache = epochs((1, 0), (2, 10), (3, 20))
    cache.truncate_to(10)
    assert cache.entries == [EpochEntry(1, 0)]


def test_new_log_start_keeps_the_epoch_of_its_offset() -> None:
    cache = epochs((1, 0), (2, 10), (3, 20))
    cache.drop_before(15)
    assert cache.entries == [EpochEntry(2, 15), EpochEntry(3, 20)]
    assert cache.epoch_at(15) == 2


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 50)), max_size=12))
def test_epochs_and_offsets_only_grow(assigned: list[tuple[int, int]]) -> None:
    cache = epochs(*assigned)
    starts = [entry.start_offset for entry in cache.entries]
    numbers = [entry.epoch for entry in cache.entries]
    assert starts == sorted(set(starts))
    assert numbers == sorted(set(numbers))
