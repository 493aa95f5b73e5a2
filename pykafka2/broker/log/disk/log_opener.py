"""Opens logs: loads one from its directory, or creates the directory of a new one.

Access requires the cluster's lock.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from uuid import UUID

from pykafka2.broker.log.disk.checkpoint_writer import CheckpointWriter
from pykafka2.broker.log.disk.directory_names import LogName
from pykafka2.broker.log.disk.log_directory import PARTITION_METADATA, Background, DiskLogFiles
from pykafka2.broker.log.disk.log_loading import Checkpoints, LogLoader
from pykafka2.broker.log.disk.log_renaming import LogRenamer
from pykafka2.broker.log.disk.text_files import decode_topic_id, encode_topic_id
from pykafka2.broker.log.disk.volume import Volume
from pykafka2.broker.log.log_files import Disk
from pykafka2.broker.log.partition_log import PartitionLog


class LogOpener:
    """Opens the logs of one broker. `background` flushes rolled segments; `find` returns an open log."""

    def __init__(
        self,
        disk: Disk,
        background: Background,
        checkpoints: CheckpointWriter,
        renamer: LogRenamer,
        find: Callable[[bytes, int], PartitionLog | None],
    ) -> None:
        self._disk = disk
        self._background = background
        self._checkpoints = checkpoints
        self._renamer = renamer
        self._find = find

    def create(self, volume: Volume, path: str, name: LogName, topic_id: bytes) -> PartitionLog:
        """Create an empty log in a new directory. Raise `KafkaStorageError`."""
        try:
            self._renamer.make_way(volume, path)
            self._checkpoints.forget(volume, *name)
            volume.files.make_directory(path)
            text = encode_topic_id(UUID(bytes=topic_id))
            # Flushed in the background: a topic of many partitions would wait for a flush of each.
            volume.files.replace(f"{path}/{PARTITION_METADATA}", text.encode(), flushes=False)
            return self.load(volume, path, name, topic_id, Checkpoints(), was_clean=True)
        except OSError as error:
            raise volume.fail(error, f"creating {path}") from error

    def load(
        self,
        volume: Volume,
        path: str,
        name: LogName,
        topic_id: bytes,
        checkpoints: Checkpoints,
        *,
        was_clean: bool,
    ) -> PartitionLog:
        """Load the log in a directory; it is recovered unless the data directory was closed cleanly.

        Raise `OSError` or `KafkaStorageError`.
        """
        loader = LogLoader(volume, path, checkpoints, was_clean)
        state = loader.load()
        files = DiskLogFiles(
            volume,
            path,
            self._disk,
            state,
            loader.snapshots,
            self._background,
            self._checkpoints.write_clean_offsets,
            partial(self._lower_recovery_point, topic_id, name.partition),
        )
        log = PartitionLog(name.topic, name.partition, topic_id, files)
        if not was_clean:
            files.epochs_changed(log.epochs.entries)
        return log

    def _lower_recovery_point(self, topic_id: bytes, partition: int) -> None:
        log = self._find(topic_id, partition)
        if log is not None:
            self._checkpoints.lower_recovery_point(log)


def read_topic_id(volume: Volume, directory: str) -> bytes:
    """Return the topic id in the directory of a log. Raise `CorruptData` or `OSError`."""
    path = f"{directory}/{PARTITION_METADATA}"
    return decode_topic_id(volume.files.read(path).decode("utf-8", "replace"), path).bytes
