"""Which of a broker's log directories (log.dirs) each log is in.

Without a data directory they are mere names. As in LogManager of Kafka a new log goes to the directory
with the fewest logs, or to the one that AlterReplicaLogDirs has named before the replica existed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from pykafka2.broker.config.configs import BrokerConfig


def log_dirs_of(config: BrokerConfig) -> list[str]:
    """Return the directories in log.dirs, or else in log.dir."""
    text = config.text("log.dirs") or config.text("log.dir") or ""
    return [path.strip() for path in text.split(",")]


Ident = tuple[bytes, int]
"""Topic id and partition of a log."""


class LogPlaces:
    """The log directories of one broker. Access requires the cluster's lock."""

    def __init__(self, paths: Iterable[str]) -> None:
        self.paths = tuple(dict.fromkeys(paths))
        self._places: dict[Ident, str] = {}
        self._preferred: dict[tuple[str, int], str] = {}

    def of(self, topic_id: bytes, partition: int) -> str:
        """Return the directory of a log."""
        return self._places[topic_id, partition]

    def add(self, topic: str, topic_id: bytes, partition: int, paths: Sequence[str] = ()) -> None:
        """Choose a directory for a new log, among `paths` if there are any."""
        preferred = self._preferred.pop((topic, partition), None)
        if preferred is None:
            counts = Counter(self._places.values())
            preferred = min(paths or self.paths, key=lambda path: counts[path])
        self._places[topic_id, partition] = preferred

    def prefer(self, topic: str, partition: int, path: str) -> None:
        """Set the directory of a log that does not exist yet."""
        self._preferred[topic, partition] = path

    def move(self, topic_id: bytes, partition: int, path: str) -> None:
        """Move a log, which takes no time in memory."""
        self._places[topic_id, partition] = path

    def remove(self, topic_id: bytes, partition: int) -> None:
        self._places.pop((topic_id, partition), None)

    def clear(self) -> None:
        """Forget all logs."""
        self._places.clear()
        self._preferred.clear()
