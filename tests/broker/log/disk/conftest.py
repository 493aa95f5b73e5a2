"""A storage on disk with one log, and the stop of all storages after a test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pykafka2.broker.log.partition_log import PartitionLog
from tests.broker.log.disk.on_disk import StorageOnDisk


@pytest.fixture(autouse=True)
def _stop_storages() -> Iterator[None]:
    yield
    for disk in [*StorageOnDisk.started]:
        disk.stop()


@pytest.fixture
def disk(tmp_path: Path) -> StorageOnDisk:
    return StorageOnDisk(tmp_path)


@pytest.fixture
def log(disk: StorageOnDisk) -> PartitionLog:
    return disk.log()
