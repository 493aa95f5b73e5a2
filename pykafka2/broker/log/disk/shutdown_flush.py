"""Flushes the logs of a broker before its clean shutdown, several at a time.

The broker still serves requests meanwhile, and has little left to flush once it stops. Access requires the
cluster's lock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress

from pykafka2.broker.log.disk.log_directory import files_of
from pykafka2.broker.log.partition_log import PartitionLog
from pykafka2.errors import KafkaStorageError


class ShutdownFlush:
    """One flush of all logs; `on_progress` is called after each log."""

    def __init__(self, logs: Iterable[PartitionLog], on_progress: Callable[[], object]) -> None:
        self._waiting = deque(logs)
        self._on_progress = on_progress
        self._running = 0
        self._is_cancelled = False

    @property
    def remaining(self) -> int:
        """The number of logs that are being flushed or wait for it."""
        return len(self._waiting) + self._running

    def start(self, threads: int) -> None:
        """Flush the logs in the background, at most `threads` of them at a time."""
        for _ in range(min(threads, len(self._waiting))):
            self._flush_next()

    def cancel(self) -> None:
        """Flush no further log, and do not call `on_progress`: the storage is closed."""
        self._is_cancelled = True
        self._waiting.clear()
        self._running = 0

    def _flush_next(self) -> None:
        while self._waiting:
            log = self._waiting.popleft()
            self._running += 1
            with suppress(KafkaStorageError):  # its directory is offline now
                if not log.is_offline and files_of(log).begin_close(log, self._end_one):
                    return
            self._running -= 1

    def _end_one(self) -> None:
        """Each log that ends starts another one."""
        if not self._is_cancelled:
            self._running -= 1
            self._flush_next()
            self._on_progress()
