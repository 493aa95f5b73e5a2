"""Merging of state batches: compared with a table of single offsets."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from pykafka2.broker.coordinators.share.state import ShareState, StateBatch, combined
from pykafka2.protocol.messages.share_state_records import ShareUpdateValue

batches = st.builds(
    lambda first, length, state, count: StateBatch(first, first + length, state, count),
    st.integers(0, 30),
    st.integers(0, 12),
    st.sampled_from([0, 2, 4]),
    st.integers(1, 3),
)


def as_table(known: list[StateBatch]) -> dict[int, tuple[int, int]]:
    """Return the winner of each offset: delivery count and delivery state."""
    table: dict[int, tuple[int, int]] = {}
    for one in known:
        for offset in range(one.first_offset, one.last_offset + 1):
            table[offset] = max(table.get(offset, (0, 0)), (one.delivery_count, one.delivery_state))
    return table


@given(st.lists(st.lists(batches, max_size=4), max_size=6), st.lists(st.integers(-1, 40), max_size=6))
def test_merged_batches_have_the_state_of_each_offset(
    writes: list[list[StateBatch]], starts: list[int]
) -> None:
    known: tuple[StateBatch, ...] = ()
    table: dict[int, tuple[int, int]] = {}
    start = -1
    for number, written in enumerate(writes):
        start = max(start, starts[number] if number < len(starts) else -1)
        known = combined(known, written, start)
        for offset, winner in as_table(written).items():
            table[offset] = max(table.get(offset, (0, 0)), winner)
        table = {offset: winner for offset, winner in table.items() if offset >= start}
        assert as_table(list(known)) == table
        for one, following in pairwise(known):
            assert one.last_offset < following.first_offset
            assert one.last_offset + 1 < following.first_offset or (
                one.delivery_state,
                one.delivery_count,
            ) != (following.delivery_state, following.delivery_count)


def test_batches_before_the_start_offset_are_dropped_and_cut() -> None:
    known = (StateBatch(0, 4, 2, 1), StateBatch(8, 12, 4, 5))
    assert combined(known, (), 10) == (StateBatch(10, 12, 4, 5),)
    assert combined(known, (), 20) == ()
    assert combined(known, [StateBatch(5, 7, 0, 1)], 3) == (
        StateBatch(3, 4, 2, 1),
        StateBatch(5, 7, 0, 1),
        StateBatch(8, 12, 4, 5),
    )


def test_update_without_start_offset_and_leader_epoch_keeps_both() -> None:
    update = ShareUpdateValue(
        snapshot_epoch=0, leader_epoch=-1, start_offset=-1, delivery_complete_count=2, state_batches=[]
    )
    state = ShareState(start_offset=5, leader_epoch=3, batches=(StateBatch(5, 6, 2, 1),)).replayed(update)
    assert state == ShareState(
        start_offset=5, leader_epoch=3, delivery_complete_count=2, batches=(StateBatch(5, 6, 2, 1),)
    )
