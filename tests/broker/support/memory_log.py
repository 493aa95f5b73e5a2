"""The log of a coordinator's shard in memory."""

from __future__ import annotations

from collections.abc import Sequence

from pykafka2.broker.coordinators.replay import Producer, Record
from pykafka2.broker.coordinators.runtime import Entry, Marker
from pykafka2.errors import BrokerError


class MemoryLog:
    """It can be loaded again, and commits at once by default."""

    def __init__(self) -> None:
        self.entries: list[Entry | Marker] = []
        self.high_watermark = self.log_start_offset = 0
        self.commits_at_once = True
        self.fails_with: BrokerError | None = None
        self.batches = 0

    def append(self, records: Sequence[Record], producer: Producer | None, now: float) -> int:
        if self.fails_with is not None:
            raise self.fails_with
        self.entries += [Entry(record.key, record.value, producer) for record in records]
        self.batches += 1
        return self._appended()

    def append_marker(self, producer: Producer, committed: bool) -> int:
        self.entries.append(Marker(producer, committed))
        return self._appended()

    def _appended(self) -> int:
        if self.commits_at_once:
            self.high_watermark = len(self.entries)
        return len(self.entries)

    def delete_before(self, offset: int) -> None:
        self.log_start_offset = offset

    def commit_all(self) -> None:
        self.high_watermark = len(self.entries)
