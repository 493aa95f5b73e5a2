"""The metadata log on a disk with faults: what was acknowledged survives, and nothing applies in part."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykafka2.broker.controller.metadata import storage as metadata_storage
from pykafka2.broker.controller.metadata.directory import DIRECTORY
from pykafka2.errors import KafkaStorageError
from pykafka2.testing.simulation.files import SimFiles
from tests.broker.controller.metadata.metadata_changes import Change, allocated, shown
from tests.broker.controller.metadata.metadata_clusters import Cluster, opened
from tests.gate import examples

SMALL = st.integers(0, 1000)
CHANGES = st.lists(st.tuples(st.integers(0, 21), SMALL, SMALL), min_size=1, max_size=25)
FOLDER = Path("/data")


class FailingFiles(SimFiles):
    """Files on which a write or flush fails, counted from `fail_in`."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.left: int | None = None

    def check(self, path: str, *, writes: bool = False) -> None:
        super().check(path, writes=writes)
        if writes and self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise OSError(errno.EIO, os.strerror(errno.EIO), path)


@pytest.mark.gate
@settings(max_examples=examples(120), deadline=None)
@given(
    seed=st.integers(0, 2**32),
    before=CHANGES,
    after=CHANGES,
    fail_in=st.integers(0, 12),
    snapshots=st.booleans(),
)
def test_state_after_a_crash_is_that_before_or_after_the_failed_change(
    seed: int, before: list[Change], after: list[Change], fail_in: int, snapshots: bool
) -> None:
    files = FailingFiles(seed)
    cluster = Cluster(FOLDER, files)
    cluster.changes.make(before)
    files.left = fail_in
    acknowledged = shown(cluster.controller.state)
    possible = [acknowledged]
    for number, change in enumerate(after):
        try:
            cluster.changes.make_one(change)
            if snapshots and number % 5 == 2:
                cluster.log.write_snapshot()
        except KafkaStorageError:
            # The write that failed can be in the file as a whole.
            possible = [shown(cluster.controller.state), shown(cluster.attempted())]
            break
        possible = [shown(cluster.controller.state)]
    files.left = None
    files.crash(str(FOLDER), keeps_metadata=False)
    cluster.restart()
    assert shown(cluster.controller.state) in possible
    cluster.controller.allocate_producer_ids()  # the log continues


@settings(max_examples=examples(40), deadline=None)
@given(seed=st.integers(0, 2**32), before=CHANGES, after=CHANGES)
def test_full_disk_rejects_changes_and_keeps_the_acknowledged_ones(
    seed: int, before: list[Change], after: list[Change]
) -> None:
    files = SimFiles(seed)
    cluster = Cluster(FOLDER, files)
    cluster.changes.make(before)
    files.full.add(str(FOLDER))
    acknowledged = shown(cluster.controller.state)
    with pytest.raises(KafkaStorageError, match=f"{DIRECTORY} cannot be written: .*No space left on device"):
        cluster.controller.allocate_producer_ids()
    for change in after:
        with suppress(KafkaStorageError):  # some change nothing
            cluster.changes.make_one(change)
    assert shown(cluster.controller.state) == acknowledged
    files.full.clear()
    cluster.restart()
    assert shown(cluster.controller.state) == acknowledged


@pytest.mark.gate
def test_crash_within_a_write_of_several_batches_applies_none_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata_storage, "MAX_RECORDS_PER_BATCH", 400)
    for fail_in in range(14):
        files = FailingFiles(fail_in)
        cluster = Cluster(FOLDER, files)
        files.left = fail_in
        try:
            cluster.controller.write([allocated(number + 1) for number in range(1500)])
            expected = {1500}
        except KafkaStorageError:
            expected = {0, 1500}
        files.left = None
        files.crash(str(FOLDER), keeps_metadata=False)
        cluster.restart()
        assert cluster.controller.state.next_producer_id in expected


def test_crash_in_the_middle_of_a_snapshot_leaves_the_log_before_it() -> None:
    files = FailingFiles(1)
    cluster = Cluster(FOLDER, files)
    cluster.changes.make([(0, 0, 0), (1, 0, 0), (4, 0, 0), (12, 1, 1)])
    before = shown(cluster.controller.state)
    for fail_in in range(4):
        files.left = fail_in
        try:
            cluster.log.write_snapshot()
        except KafkaStorageError:
            pass
        files.left = None
        files.crash(str(FOLDER), keeps_metadata=False)
        cluster.restart()
        assert shown(cluster.controller.state) == before


def test_names_of_new_segments_and_the_cut_of_a_torn_write_are_flushed() -> None:
    files = WatchedFiles(1)
    cluster = Cluster(FOLDER, files)
    folder = f"{FOLDER}/{DIRECTORY}"
    for _ in range(2):
        files.flushed.clear()
        cluster.controller.allocate_producer_ids()
        assert (folder in files.flushed) == (cluster.storage.segment > 0)
        cluster.log.write_snapshot()
    cluster.controller.allocate_producer_ids()
    path = f"{folder}/{cluster.storage.segment:020d}.log"
    files.content(path).data.extend(b"torn")
    files.content(path).flush()
    whole = files.size(path) - 4
    state, _ = opened(FOLDER, files=files)
    assert len(files.content(path).data) == len(files.content(path).flushed) == whole
    assert state.next_producer_id == 3000


class WatchedFiles(SimFiles):
    """Files that remember which directories were flushed."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.flushed: list[str] = []

    def flush_directory(self, path: str) -> None:
        super().flush_directory(path)
        self.flushed.append(path)
