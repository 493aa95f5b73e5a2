"""How a limited micro-batch is shared out among partitions."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pykafka2 import TopicPartition
from spark_connector.offsets import Offsets
from spark_connector.source.limits import shared_out, waiting


def offsets(*of: int) -> Offsets:
    return {TopicPartition("t", number): offset for number, offset in enumerate(of)}


def test_offsets_below_the_limit_are_all_taken() -> None:
    assert shared_out(10, offsets(0, 0), offsets(4, 6)) == offsets(4, 6)


def test_limit_is_shared_in_proportion_to_waiting_records() -> None:
    assert shared_out(10, offsets(0, 0, 100), offsets(10, 90, 100)) == offsets(1, 9, 100)


def test_small_partitions_do_not_starve() -> None:
    assert shared_out(10, offsets(5, 0), offsets(6, 10_000)) == offsets(6, 9)


def test_a_partition_that_went_back_stays_where_it_is() -> None:
    assert shared_out(10, offsets(50, 0), offsets(20, 100)) == offsets(20, 10)


def test_waiting_records_are_counted_for_nonempty_ranges_only() -> None:
    assert waiting(offsets(0, 5, 9), offsets(3, 5, 2)) == offsets(3)


sizes = st.lists(st.integers(0, 100_000), min_size=1, max_size=12)


@given(sizes, st.integers(1, 10_000))
def test_the_limit_holds_but_for_one_offset_each(of: list[int], limit: int) -> None:
    begins, ends = offsets(*[7] * len(of)), offsets(*[7 + one for one in of])
    found = shared_out(limit, begins, ends)
    taken = sum(waiting(begins, found).values())
    assert taken <= limit + len(of)
    assert taken >= min(limit, sum(of)) - len(of)
    assert all(begins[one] <= found[one] <= ends[one] for one in ends)
    assert all(found[one] > begins[one] for one in ends if ends[one] > begins[one])
