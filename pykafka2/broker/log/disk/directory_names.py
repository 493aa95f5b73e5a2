"""The names of the directories of logs: `orders-0`, and `orders-0.UUID-delete` of a renamed one.

The unique name makes room for a new log of the same name. Kafka's LocalLog.

Access requires the cluster's lock.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NamedTuple
from uuid import UUID

import attrs

from pykafka2.broker.log.disk.log_directory import files_of
from pykafka2.broker.log.disk.volume import Volume
from pykafka2.broker.log.partition_log import PartitionLog
from pykafka2.errors import KafkaStorageError

METADATA_LOG: Final = "__cluster_metadata-0"
DELETE: Final = "-delete"
STRAY: Final = "-stray"
FUTURE: Final = "-future"
MAX_NAME: Final = 255
LOG_NAME: Final = re.compile(r"([a-zA-Z0-9._-]+)-([0-9]+)")
DELETED_NAME: Final = re.compile(r".+-[0-9]+\.[0-9a-f]{32}-delete")
FUTURE_NAME: Final = re.compile(r"([a-zA-Z0-9._-]+)-([0-9]+)\.[0-9a-f]{32}-future")
UNIQUE_BYTES: Final = 33
"""The length of ".UUID" in the name of a renamed directory."""


class LogName(NamedTuple):
    """The topic and partition of a log; its text is the name of the directory."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@attrs.frozen
class LogDirectoryName:
    """The name of a directory with a log, or with the copy of a log that moves."""

    log: LogName
    is_copy: bool


def parse_directory_name(name: str) -> LogDirectoryName | None:
    """Return the log that the name of a directory belongs to.

    None for the metadata log, and for any name that is not that of a log in use.
    """
    future = FUTURE_NAME.fullmatch(name)
    match = future or LOG_NAME.fullmatch(name)
    if match is None or name == METADATA_LOG:
        return None
    return LogDirectoryName(LogName(match[1], int(match[2])), is_copy=future is not None)


def is_deleted(name: str) -> bool:
    """Return whether a directory of this name has a deleted log."""
    return DELETED_NAME.fullmatch(name) is not None


def unique_name(name: str, unique: UUID, ending: str) -> str:
    """Return Kafka's name of a renamed directory, orders-0.UUID-delete, of at most 255 bytes.

    A long topic name is cut.
    """
    topic, _, partition = name.rpartition("-")
    ending = f"-{partition}.{unique.hex}{ending}"
    return topic[: MAX_NAME - len(ending)] + ending


def is_too_long_for_a_copy(name: LogName) -> bool:
    """Return whether the name of the copy's directory would be cut, so that its log would be unknown."""
    return len(str(name)) + UNIQUE_BYTES + len(FUTURE) > MAX_NAME


logger = logging.getLogger(__name__)


class LogRenamer:
    """Renames the directories of a broker's logs. `new_id` is for unique names."""

    def __init__(self, new_id: Callable[[], UUID]) -> None:
        self._new_id = new_id

    def path_of_copy(self, volume: Volume, name: LogName) -> str:
        """Return a unique path for the copy of a log."""
        return self._unique_path(volume, str(name), FUTURE)

    def _unique_path(self, volume: Volume, name: str, ending: str) -> str:
        return volume.directory.path_of(unique_name(name, self._new_id(), ending))

    def mark_deleted(self, log: PartitionLog) -> None:
        """Give a log's directory the ending -delete; it is removed later. Raise `KafkaStorageError`."""
        files = files_of(log)
        directory = self._unique_path(files.volume, _name_of(log), DELETE)
        files.rename(log, directory)
        files.volume.remove_later(directory)

    def delete(self, log: PartitionLog) -> None:
        """Delete a log like `mark_deleted`; a failure takes the data directory offline."""
        with suppress(KafkaStorageError):  # the volume has logged it
            self.mark_deleted(log)

    def set_aside(self, log: PartitionLog) -> None:
        """Give the log of an unknown topic the ending -stray; a failure takes the data directory offline."""
        files = files_of(log)
        directory = self._unique_path(files.volume, _name_of(log), STRAY)
        with suppress(KafkaStorageError):  # the volume has logged it
            files.rename(log, directory)
            logger.warning("Renamed the log of a topic that does not exist any more to %s", directory)

    def make_way(self, volume: Volume, directory: str) -> None:
        """Give a directory of another topic, if there is one, the ending -stray. Raise `OSError`."""
        if not volume.files.exists(directory):
            return
        path = self._unique_path(volume, directory.rpartition("/")[2], STRAY)
        volume.files.rename(directory, path)
        logger.warning(
            "Renamed %s, which belongs to another topic, to %s", directory, path.rpartition("/")[2]
        )

    def make_current(self, copy: PartitionLog) -> None:
        """Give the directory of a copy the name of the log. Raise `KafkaStorageError`."""
        files = files_of(copy)
        volume = files.volume
        directory = volume.directory.path_of(_name_of(copy))
        try:
            self.make_way(volume, directory)
            files.rename(copy, directory)
            volume.files.flush_directory(volume.path)
        except OSError as error:
            raise volume.fail(error, f"renaming {files.directory}") from error


def _name_of(log: PartitionLog) -> str:
    return f"{log.topic}-{log.partition}"
