"""A data directory while logs use it: its failure, its settings, and the files that wait for removal.

An error of the disk takes the whole directory offline, as in Kafka: nothing that was written since can be
trusted. Access requires the cluster's lock.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from heapq import heappop, heappush

from pykafka2.broker.log.disk.data_directory import DataDirectory
from pykafka2.broker.log.file_system import FileSystem
from pykafka2.broker.log.log_files import DiskSettings
from pykafka2.errors import KafkaStorageError

logger = logging.getLogger(__name__)

DELETED = ".deleted"


class Volume:
    """One data directory of a running broker. `failure` is set once it is offline."""

    def __init__(
        self,
        directory: DataDirectory,
        settings: DiskSettings,
        on_failure: Callable[[], object] = lambda: None,
    ) -> None:
        self.directory = directory
        self.path = directory.path
        self.files: FileSystem = directory.files
        self.settings = settings
        self.failure: KafkaStorageError | None = None
        self.reason = ""
        """The failed operation and its error."""
        self._on_failure = on_failure
        self._removals: list[tuple[float, str]] = []  # a heap
        self._unplanned: list[tuple[float, str]] = []

    def __repr__(self) -> str:
        return f"<volume {self.path}{', offline' if self.failure else ''}>"

    @property
    def id(self) -> bytes:
        """The id of the directory in `meta.properties`."""
        return self.directory.directory_id.bytes

    def check(self) -> None:
        """Raise `KafkaStorageError` if the directory is offline."""
        if self.failure is not None:
            raise KafkaStorageError(str(self.failure))

    def fail(self, error: OSError, what: str) -> KafkaStorageError:
        """Take the directory offline. Return the error to raise."""
        if self.failure is None:
            cause = error.strerror or str(error)
            if isinstance(error.filename, str) and error.filename not in what:
                cause = f"{cause}: {error.filename}"
            self.reason = f"{what} failed ({cause})"
            self.failure = KafkaStorageError(f"{self.reason}, so {self.path} is offline")
            logger.error("Data directory is offline: %s: %s: %s", self.path, what, error)
            self._on_failure()
        return KafkaStorageError(str(self.failure))

    # ------------------------------------------------------------------ removal

    def remove_later(self, path: str, delay: float | None = None) -> None:
        """Remove a renamed file or directory after a delay in seconds, by default that of the broker."""
        self._unplanned.append((self.settings.delete_delay if delay is None else delay, path))

    def remove_due(self, now: float) -> float | None:
        """Remove what is due. Return the time of the next removal, or None."""
        for delay, path in self._unplanned:
            heappush(self._removals, (now + delay, path))
        self._unplanned.clear()
        while self._removals and self._removals[0][0] <= now:
            self._remove(heappop(self._removals)[1])
        return self._removals[0][0] if self._removals else None

    def remove_all(self) -> None:
        """Remove at once whatever waits for it."""
        paths = [path for _, path in (*self._removals, *self._unplanned)]
        self._removals.clear()
        self._unplanned.clear()
        for path in paths:
            self._remove(path)

    def _remove(self, path: str) -> None:
        with suppress(OSError):  # it is removed at the next start
            if self.files.is_directory(path):
                self.files.remove_tree(path)
            else:
                self.files.remove(path)
