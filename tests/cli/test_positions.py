"""Types of arguments: partition numbers, times and positions."""

from __future__ import annotations

import argparse
import time
from datetime import datetime

import pytest

from pykafka2.cli.common.parsing import partition_numbers, time_ms
from pykafka2.cli.common.partitions import selection
from pykafka2.cli.common.positions import Position, offset


def test_partition_numbers_are_a_sorted_list_without_repetitions() -> None:
    assert partition_numbers("7, 2-4,3,0") == [0, 2, 3, 4, 7]
    assert partition_numbers("5-5") == [5]
    assert selection("orders:1-2").numbers == (1, 2)


@pytest.mark.parametrize("text", ["5-2", "0-9999999999", "0,", "-1", "1-", "one", ""])
def test_partition_numbers_that_name_no_partition_are_rejected(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="use partition numbers") as raised:
        partition_numbers(text)
    assert repr(text) in str(raised.value)


def test_digits_are_milliseconds_and_eight_of_them_a_date() -> None:
    assert time_ms("1700000000123") == 1_700_000_000_123
    assert time_ms("20261130") == datetime(2026, 11, 30).astimezone().timestamp() * 1000
    assert time_ms("2026-11-30T08:15:00Z") == 1_796_026_500_000
    assert time_ms("2026-11-30T08:15:00.001+01:00") == 1_796_026_500_001 - 3_600_000


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("-500ms", 0.5),
        ("-90s", 90),
        ("-1.5m", 90),
        ("-2h", 7200),
        ("-7d", 604_800),
        ("-1w", 604_800),
    ],
)
def test_relative_time_is_before_now(text: str, seconds: float) -> None:
    before = time.time() * 1000
    found = time_ms(text)
    assert before - 1 <= found + seconds * 1000 <= time.time() * 1000 + 1


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("earliest", Position("earliest", text="earliest")),
        ("beginning", Position("earliest", text="beginning")),
        ("end", Position("latest", text="end")),
        ("0", Position("offset", 0, "0")),
        ("+3", Position("after_start", 3, "+3")),
        ("-3", Position("before_end", 3, "-3")),
        ("@1006", Position("time", 1006, "@1006")),
    ],
)
def test_position_has_its_kind_and_number(text: str, position: Position) -> None:
    assert offset(text) == position
