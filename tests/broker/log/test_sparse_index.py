"""Searches in the sparse index: the same entries as a search in a list, with few reads."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from pykafka2.broker.log.disk.real_files import RealFile, RealFiles
from pykafka2.broker.log.disk.sparse_index import BLOCK_ENTRIES, OFFSET_ENTRY, SparseIndex
from pykafka2.testing.simulation.files import SimFiles

STEPS = st.integers(0, 3 * BLOCK_ENTRIES)


class CountingFile(RealFile):
    """A file that counts its reads."""

    reads = 0

    def read(self, position: int, size: int) -> bytes:
        self.reads += 1
        return super().read(position, size)


def index_of(path: Path, entries: int) -> tuple[SparseIndex, CountingFile]:
    """Returns an index whose entry N has offset 10 N + 5 and position 100 N + 50."""
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
            entries = [entry for entry in entries if entry[0] < 10 * number]
            index.truncate_below(10 * number, field=0)
        for field in (0, 1):
            value = (10 if field == 0 else 100) * number
            expected = [entry for entry in entries if entry[field] <= value]
            assert index.floor(value, field) == (expected[-1] if expected else None)
        assert index.count == len(entries)
        assert index.last == (entries[-1] if entries else None)


def test_searches_that_continue_read_each_block_once(tmp_path: Path) -> None:
    blocks = 16
    index, file = index_of(tmp_path / "index", blocks * BLOCK_ENTRIES)
    before = file.reads
    for number in range(blocks * BLOCK_ENTRIES - 1):
        assert index.floor(10 * number + 7) == (10 * number + 5, 100 * number + 50)
    probes = 4  # of a search among 16 blocks
    # The last entry of a block is not known to be the right one without the next block.
    assert file.reads - before <= 2 * blocks * (probes + 1)
