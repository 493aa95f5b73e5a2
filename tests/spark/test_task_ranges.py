"""How ranges become tasks: the rules of Spark's own KafkaOffsetRangeCalculator, repeated."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_connector.source.ranges import OffsetRange, tasks_of


def ranges(*bounds: tuple[int, int]) -> list[OffsetRange]:
    return [OffsetRange("t", number, start, end) for number, (start, end) in enumerate(bounds)]


def tasks(
    *bounds: tuple[int, int], least: int | None = None, most: int | None = None
) -> list[tuple[int, int, int]]:
    return [(one.partition, one.start, one.end) for one in tasks_of(ranges(*bounds), least, most)]


def test_one_task_for_each_range_and_none_for_an_empty_one() -> None:
    assert tasks((0, 5), (7, 7), (9, 3), (1, 2)) == [(0, 0, 5), (3, 1, 2)]


def test_fewer_than_there_are_changes_nothing() -> None:
    assert tasks((0, 5), (0, 5), least=1) == [(0, 0, 5), (1, 0, 5)]


def test_one_range_is_split_evenly() -> None:
    assert tasks((0, 10), least=4) == [(0, 0, 2), (0, 2, 5), (0, 5, 7), (0, 7, 10)]


def test_ranges_of_one_size_are_split_alike() -> None:
    assert [len(tasks((0, 100), (0, 100), (0, 100), least=count)) for count in (3, 6, 9)] == [3, 6, 9]


def test_a_skewed_range_gets_the_parts() -> None:
    assert [one[0] for one in tasks((0, 100), (0, 5000), least=10)] == [0, *[1] * 9]


def test_many_small_ranges_are_not_split() -> None:
    found = tasks(*[(0, 10)] * 8, (0, 1000), (0, 1000), least=16)
    assert [sum(one[0] == number for one in found) for number in range(10)] == [1] * 8 + [4, 4]


def test_no_task_is_empty() -> None:
    assert tasks((0, 1), least=5) == [(0, 0, 1)]


def test_the_largest_task_is_limited() -> None:
    assert tasks((0, 5), (0, 11), most=5) == [(0, 0, 5), (1, 0, 3), (1, 3, 7), (1, 7, 11)]


def test_least_tasks_and_most_records_both_hold() -> None:
    found = tasks((0, 100), (0, 10), least=8, most=50)
    assert len(found) >= 8
    assert max(end - start for _, start, end in found) <= 50


@given(
    st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 5000)), max_size=8),
    st.one_of(st.none(), st.integers(1, 40)),
    st.one_of(st.none(), st.integers(1, 500)),
)
def test_every_offset_is_read_once(
    bounds: list[tuple[int, int]], least: int | None, most: int | None
) -> None:
    whole_ranges = ranges(*[(start, start + size) for start, size in bounds])
    found = tasks_of(whole_ranges, least, most)
    assert found == sorted(found)
    assert all(one.size > 0 for one in found)
    assert most is None or all(one.size <= most for one in found)
    for whole in whole_ranges:
        at = whole.start
        for one in found:
            if one.partition == whole.partition:
                assert one.start == at
                at = one.end
        assert at == whole.end


@pytest.mark.parametrize("parts", [1, 3, 7])
def test_a_split_is_even(parts: int) -> None:
    sizes = {one.size for one in OffsetRange("t", 0, 10, 110).split(parts)}
    assert max(sizes) - min(sizes) <= 1
