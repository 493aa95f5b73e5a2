"""Renames the directories of logs that are deleted, set aside, or complete after a move.

Access requires the cluster's lock.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from uuid import UUID

from pykafka2.broker.log.disk.directory_names import DELETE, FUTURE, STRAY, LogName, unique_name
from pykafka2.broker.log.disk.log_directory import files_of
from pykafka2.broker.log.disk.volume import Volume
from pykafka2.broker.log.partition_log import PartitionLog
from pykafka2.errors import KafkaStorageError

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
