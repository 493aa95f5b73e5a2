"""Searches in the sparse index: the same entries as a search in a list, with few reads."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykafka2.broker.log.disk.index_files import BLOCK_ENTRIES, OFFSET_ENTRY, SparseIndex
from pykafka2.broker.log.disk.real_files import RealFile, RealFiles
from pykafka2.testing.simulation.files import SimFiles

STEPS = st.integers(0, 3 * BLOCK_ENTRIES)


class CountingFile(RealFile):
    """A file that counts its reads."""

    reads = 0

    def read(self, position: int, size: int) -> bytes:
        self.reads += 1
        return super().read(position, size)


def index_of(path: Path, entries: int) -> tuple[SparseIndex, CountingFile]:
    """Return an index whose entry N has offset 10 N + 5 and position 100 N + 50."""
    path.write_bytes(b"".join(OFFSET_ENTRY.pack(10 * one + 5, 100 * one + 50) for one in range(entries)))
    file = CountingFile(str(path), RealFiles())
    return SparseIndex(file, OFFSET_ENTRY, entries * OFFSET_ENTRY.size), file


@given(STEPS, st.lists(st.tuples(st.sampled_from(["floor", "append", "truncate"]), STEPS), max_size=20))
def test_search_returns_the_last_entry_up_to_the_value(count: int, steps: list[tuple[str, int]]) -> None:
    index = SparseIndex(SimFiles(0).open("/index", creates=True), OFFSET_ENTRY)
    entries = [(10 * number + 5, 100 * number + 50) for number in range(count)]
    for entry in entries:
        index.append(*entry)
    for step, number in steps:
        if step == "append":
            last = entries[-1][0] if entries else 0
            entries.append((last + number + 1, 10 * (last + number + 1)))
            index.append(*entries[-1])
        elif step == "truncate":
            below = 5 * number  # of odd numbers it is the offset of an entry
            entries = [entry for entry in entries if entry[0] < below]
            index.truncate_below(below, field=0)
        for field, value in (
            (0, 10 * number),
            (0, 10 * number + 5),
            (1, 100 * number),
            (1, 100 * number + 50),
        ):
            expected = [entry for entry in entries if entry[field] <= value]
            assert index.floor(value, field) == (expected[-1] if expected else None)
        assert index.count == len(entries)
        assert index.last == (entries[-1] if entries else None)


@pytest.mark.parametrize(
    "number", [0, 1, BLOCK_ENTRIES - 1, BLOCK_ENTRIES, 2 * BLOCK_ENTRIES, 3 * BLOCK_ENTRIES]
)
def test_search_for_the_value_of_an_entry_returns_it(tmp_path: Path, number: int) -> None:
    """Also from the block of another search, and if it is the first or the last entry of a block."""
    entries = 3 * BLOCK_ENTRIES + 2
    for before in range(0, entries, BLOCK_ENTRIES // 2):
        index, _ = index_of(tmp_path / "index", entries)
        index.floor(10 * before + 5)
        for found in (number, number + 1):
            assert index.floor(10 * found + 5) == (10 * found + 5, 100 * found + 50)
        index.truncate_below(10 * number + 5, field=0)
        assert index.count == number


def test_first_entry_of_a_block_is_found_after_a_search_in_the_block_before() -> None:
    index = SparseIndex(SimFiles(0).open("/index", creates=True), OFFSET_ENTRY)
    for number in range(BLOCK_ENTRIES + 2):
        index.append(number, number)
    assert index.floor(1) == (1, 1)
    assert index.floor(BLOCK_ENTRIES) == (BLOCK_ENTRIES, BLOCK_ENTRIES)


def test_entries_that_were_held_are_written_behind_the_others(tmp_path: Path) -> None:
    index, file = index_of(tmp_path / "index", 2)
    index.hold()
    for number in (2, 3):
        index.append(10 * number + 5, 100 * number + 50)
    index.write_held()
    assert (tmp_path / "index").stat().st_size == 4 * OFFSET_ENTRY.size
    again = SparseIndex(file, OFFSET_ENTRY, 4 * OFFSET_ENTRY.size)
    assert [again.entry(number)[0] for number in range(4)] == [5, 15, 25, 35]


def test_searches_that_continue_read_each_block_once(tmp_path: Path) -> None:
    blocks = 16
    index, file = index_of(tmp_path / "index", blocks * BLOCK_ENTRIES)
    before = file.reads
    for number in range(blocks * BLOCK_ENTRIES - 1):
        assert index.floor(10 * number + 7) == (10 * number + 5, 100 * number + 50)
    probes = 4  # of a search among 16 blocks
    # The last entry of a block is not known to be the right one without the next block.
    assert file.reads - before <= 2 * blocks * (probes + 1)
