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
    """One flush of all logs; `on_done` is called at its end."""

    def __init__(self, logs: Iterable[PartitionLog], on_done: Callable[[], object]) -> None:
        self._waiting = deque(logs)
        self._on_done = on_done
        self._running = 0
        self._is_cancelled = False

    @property
    def is_running(self) -> bool:
        return self._running > 0

    def start(self, threads: int) -> None:
        """Flushes the logs in the background, at most `threads` of them at a time."""
        self._running = count = min(threads, len(self._waiting))
        for _ in range(count):
            self._flush_next()

    def cancel(self) -> None:
        """Flushes no further log, and does not call `on_done`: the storage is closed."""
        self._is_cancelled = True
        self._running = 0

    def _flush_next(self) -> None:
        """Flushes the next log; each one that ends starts another one."""
        if self._is_cancelled:
            return
        while self._waiting:
            log = self._waiting.popleft()
            with suppress(KafkaStorageError):  # its directory is offline now
                if not log.is_offline and files_of(log).begin_close(log, self._flush_next):
                    return
        self._running -= 1
        if not self._running:
            self._on_done()
