"""Segments in files with the index in memory, for tests of what is sent from files."""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from pathlib import Path

import pytest

from pykafka2.broker.log import log_dir
from pykafka2.broker.log.disk.file_system import FileRegion
from pykafka2.broker.log.disk.real_files import RealFiles
from pykafka2.broker.log.log_files import LogState, MemoryLogFiles
from pykafka2.broker.log.segment import MemorySegment
from pykafka2.records.batch import RecordBatch


class FileSegment(MemorySegment):
    """A segment in memory with a copy in a file, from which fetches are answered."""

    def __init__(self, base_offset: int, files: RealFiles, path: Path) -> None:
        super().__init__(base_offset)
        self._files = files
        self._ends: list[int] = []
        self.path = path
        self.file = files.open(str(path), creates=True)

    def append(self, batch: RecordBatch) -> None:
        self.file.write(self.size_bytes, batch.buffer)
        super().append(batch)
        self._ends.append(self.size_bytes)

    def region(self, offset: int, upper_offset: int, max_bytes: int, min_one: bool) -> FileRegion | None:  # type: ignore[override]
        first = self._index_of(offset)
        if first == len(self._batches) or self._base_offsets[first] >= upper_offset:
            return None
        position = self._ends[first] - len(self._batches[first].buffer)
        last = min(
            bisect_right(self._ends, position + max_bytes), bisect_left(self._base_offsets, upper_offset)
        )
        if last <= first:
            if not min_one:
                return None
            last = first + 1
        return FileRegion(
            self.file, position, self._ends[last - 1] - position, self._batches[last - 1].next_offset
        )

    def truncate_to(self, end_offset: int) -> None:
        super().truncate_to(end_offset)
        del self._ends[len(self._batches) :]
        self.file.truncate(self.size_bytes)

    def delete(self) -> None:
        super().delete()
        self.file.close()
        self._files.remove(str(self.path))


class FileSegments:
    """Creates the segments of all logs in files of one directory; `all` has them in order of creation."""

    def __init__(self, directory: Path) -> None:
        self.all: list[FileSegment] = []
        self._directory = directory
        self._files = RealFiles()
        self._numbers = itertools.count()

    def __call__(self, base_offset: int) -> FileSegment:
        path = self._directory / f"{next(self._numbers)}-{base_offset}.log"
        self.all.append(FileSegment(base_offset, self._files, path))
        return self.all[-1]

    def install(self, patch: pytest.MonkeyPatch) -> None:
        """Lets clusters that are created from now on keep their logs here."""
        new_segment = self

        class FileLogFiles(MemoryLogFiles):
            def load(self) -> LogState:
                return LogState([new_segment(0)])

            def new_segment(self, base_offset: int) -> FileSegment:
                return new_segment(base_offset)

            new_cleaned_segment = new_segment

        patch.setattr(log_dir, "MemoryLogFiles", FileLogFiles)

    def close(self) -> None:
        for segment in self.all:
            segment.file.close()
