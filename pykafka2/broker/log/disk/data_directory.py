"""One data directory of a broker: its lock, its `meta.properties`, and whether it was closed cleanly.

Opening refuses what would damage data: the directory of another cluster or node, one that is in use, one of a
newer format, and one whose `meta.properties` is missing. Nothing is changed in a refused directory. Kafka's
MetaPropertiesEnsemble, LogManager and CleanShutdownFileHandler.
"""

from __future__ import annotations

import errno
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final
from uuid import UUID

import attrs

from pykafka2.broker.log.disk.text_files import (
    PROPERTIES_VERSION,
    decode_properties,
    decode_uuid,
    encode_properties,
    encode_uuid,
)
from pykafka2.broker.log.file_system import FileLock, FileSystem
from pykafka2.errors import ConfigurationError, CorruptData

LOCK: Final = ".lock"
META_PROPERTIES: Final = "meta.properties"
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"
NO_EPOCH: Final = -1


@attrs.frozen
class Identity:
    """The cluster and node that a data directory belongs to."""

    cluster_id: str
    node_id: int


class DataDirectory:
    """An open data directory, locked until `close`. Created by `open_directories`."""

    def __init__(
        self,
        path: str,
        files: FileSystem,
        identity: Identity,
        directory_id: UUID,
        lock: FileLock,
        new_properties: bytes = b"",
    ) -> None:
        """`new_properties` are written by `write_properties`, unless they are empty."""
        self.path = path
        self.files = files
        self.identity = identity
        self.directory_id = directory_id
        self._lock: FileLock | None = lock
        self._new_properties = new_properties
        self._is_in_use = False
        self.clean_epoch = NO_EPOCH
        """The broker epoch in which the last user closed the logs cleanly, once they are in use."""

    def __repr__(self) -> str:
        return f"<data directory {self.path}>"

    def path_of(self, name: str) -> str:
        """Return the path of a file or directory in it."""
        return f"{self.path}/{name}"

    @property
    def was_clean(self) -> bool:
        """Whether the last user has left the mark of a clean shutdown."""
        return self.files.exists(self.path_of(CLEAN_SHUTDOWN))

    def begin(self) -> bool:
        """Start to use the logs. Return whether they were closed cleanly; a crash from now on is unclean.

        Raise `OSError`.
        """
        was_clean = self.was_clean
        self._is_in_use = True
        self.clean_epoch = self._marked_epoch() if was_clean else NO_EPOCH
        if was_clean:
            # Forced to the disk: after a crash of the machine the mark would hide torn records.
            self.files.remove(self.path_of(CLEAN_SHUTDOWN))
            self.files.flush_directory(self.path)
        return was_clean

    def _marked_epoch(self) -> int:
        try:
            epoch = json.loads(self.files.read(self.path_of(CLEAN_SHUTDOWN)))["brokerEpoch"]
        except (ValueError, TypeError, KeyError):
            return NO_EPOCH  # of a release that left the file empty
        return epoch if isinstance(epoch, int) else NO_EPOCH

    def write_properties(self) -> None:
        """Write `meta.properties` if it had no directory id, once the directory is known to be usable.

        Raise `ConfigurationError`.
        """
        data, self._new_properties = self._new_properties, b""
        if data:
            try:
                self.files.replace(self.path_of(META_PROPERTIES), data)
            except OSError as error:
                raise refused_after(error, self.path) from error

    def mark_clean(self, broker_epoch: int = NO_EPOCH) -> None:
        """Leave the mark that all logs are flushed. Raise `OSError`."""
        mark = json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":"))
        self.files.replace(self.path_of(CLEAN_SHUTDOWN), mark.encode())
        self._is_in_use = False

    def close(self, *, is_clean: bool = False) -> None:
        """Release the lock. Can be called repeatedly.

        With `is_clean`, a directory without logs is marked as clean. One whose logs were not used keeps its
        state: a crash before can have left torn records.
        """
        lock, self._lock = self._lock, None
        if lock is None:
            return
        try:
            with suppress(OSError):  # without the mark, the next start recovers the logs
                if is_clean and not (self._is_in_use or self.was_clean or logs_in(self.path, self.files)):
                    self.mark_clean()
        finally:
            lock.release()


def open_directories(
    paths: Sequence[str], files: FileSystem, identity: Identity, new_id: Callable[[], UUID]
) -> list[DataDirectory]:
    """Open and lock the data directories of one broker; empty ones are formatted with new ids.

    Raise `ConfigurationError` with path, reason and remedy; then none is open.
    """
    formatted = [path for path in paths if files.exists(f"{path}/{META_PROPERTIES}")]
    opened: list[DataDirectory] = []
    try:
        for path in paths:
            if formatted and not files.exists(path):
                raise refused(
                    path,
                    f"it does not exist, but {formatted[0]} has data of this broker",
                    "Mount the disk again, or make an empty directory to start with a new one",
                )
            opened.append(_open(path, files, identity, new_id))
    except BaseException:
        for directory in opened:
            directory.close()
        raise
    return opened


def read_identity(path: str, files: FileSystem) -> Identity | None:
    """Return the cluster and node of a data directory without opening it, or None if it is new.

    Raise `ConfigurationError` for a file that cannot be read.
    """
    properties = _read_properties(path, files)
    return None if properties is None else _identity(path, properties)


def refused(path: str, reason: str, remedy: str) -> ConfigurationError:
    """Return the error for a data directory that cannot be used."""
    return ConfigurationError(f"Data directory {path} cannot be used: {reason}. {remedy}.")


def refused_after(error: OSError, path: str) -> ConfigurationError:
    """Return the error for a data directory that the system does not let the broker use."""
    reason = f"{error.strerror or error}"
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return refused(path, f"it is read-only ({reason})", "Make it writable for this user")
    if isinstance(error.filename, str) and error.filename != path:
        reason = f"{error.filename}: {reason}"
    return refused(path, reason, "Repair the disk or the file, or choose another directory")


def _open(path: str, files: FileSystem, identity: Identity, new_id: Callable[[], UUID]) -> DataDirectory:
    try:
        files.make_directory(path)
        lock = files.lock(f"{path}/{LOCK}")
    except BlockingIOError as error:
        raise refused(
            path,
            "another broker has locked its file .lock",
            "Stop that broker, or choose another directory",
        ) from error
    except OSError as error:
        raise refused_after(error, path) from error
    try:
        return _checked(path, files, identity, new_id, lock)
    except BaseException:
        lock.release()
        raise


def _checked(
    path: str, files: FileSystem, identity: Identity, new_id: Callable[[], UUID], lock: FileLock
) -> DataDirectory:
    properties = _read_properties(path, files)
    if properties is None:
        logs = logs_in(path, files)
        if logs:
            raise refused(
                path,
                f"it has {len(logs)} logs, such as {logs[0]}, but no {META_PROPERTIES}",
                f"Restore {META_PROPERTIES} from a backup, or move the logs elsewhere",
            )
        properties = {}
    else:
        found = _identity(path, properties)
        if found.cluster_id != identity.cluster_id:
            raise refused(
                path,
                f"it belongs to cluster {found.cluster_id}, and this is cluster {identity.cluster_id}",
                "Choose the directory of this cluster, or an empty one",
            )
        if found.node_id != identity.node_id:
            raise refused(
                path,
                f"it belongs to node {found.node_id}, and this is node {identity.node_id}",
                "Choose the directory of this node, or an empty one",
            )
    text = properties.get("directory.id")
    if text is not None:
        try:
            return DataDirectory(path, files, identity, decode_uuid(text, "directory.id"), lock)
        except CorruptData as error:
            raise refused(path, f"{META_PROPERTIES}: {error}", "Restore the file from a backup") from error
    directory_id = new_id()  # Kafka before 3.7 wrote none
    known = {
        **properties,
        "cluster.id": identity.cluster_id,
        "node.id": str(identity.node_id),
        "directory.id": encode_uuid(directory_id),
    }
    directory = DataDirectory(path, files, identity, directory_id, lock, encode_properties(known).encode())
    if not properties:
        directory.write_properties()  # before anything else is in a new directory
    return directory


def logs_in(path: str, files: FileSystem) -> list[str]:
    """Return the names of the logs in a data directory."""
    return [name for name in files.names(path) if _is_log(f"{path}/{name}", files)]


def _is_log(path: str, files: FileSystem) -> bool:
    """Return whether this is a directory of a log: its name ends in a partition's number."""
    return path.rpartition("-")[2].isdigit() and files.is_directory(path)


def _read_properties(path: str, files: FileSystem) -> dict[str, str] | None:
    where = f"{path}/{META_PROPERTIES}"
    if not files.exists(where):
        return None
    try:
        text = files.read(where).decode("utf-8", "replace")
    except OSError as error:
        raise refused_after(error, path) from error
    try:
        return decode_properties(text, META_PROPERTIES)
    except CorruptData as error:
        raise _corrupt(path, str(error)) from error


def _corrupt(path: str, reason: str) -> ConfigurationError:
    return refused(
        path,
        reason,
        f"This release reads version {PROPERTIES_VERSION}: use the release that wrote it, or choose another "
        f"directory",
    )


def _identity(path: str, properties: dict[str, str]) -> Identity:
    try:
        return Identity(properties["cluster.id"], int(properties["node.id"]))
    except (KeyError, ValueError) as error:
        raise _corrupt(path, f"{META_PROPERTIES} has no cluster.id and node.id") from error
