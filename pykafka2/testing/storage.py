"""The data directories of a cluster on disk, and the metadata log in the first broker's one.

`DATA_DIR/broker-0` is what Apache Kafka has as log.dirs of node 0. The first broker is the only voter of the
metadata log. Opened before the brokers are made, closed after they have stopped.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable
from uuid import UUID

import attrs

from pykafka2.broker.config.configs import BrokerConfig
from pykafka2.broker.controller.metadata.image import MetadataImage
from pykafka2.broker.controller.metadata.records import registration_changes
from pykafka2.broker.controller.metadata.recovery import MetadataPlace, open_metadata
from pykafka2.broker.controller.metadata.storage import DiskMetadataStorage
from pykafka2.broker.log.disk.data_directory import (
    DataDirectory,
    Identity,
    logs_in,
    open_directories,
    read_identity,
    refused,
)
from pykafka2.broker.log.file_system import FileSystem
from pykafka2.clock import Entropy, SeededEntropy
from pykafka2.errors import ConfigurationError, KafkaStorageError
from pykafka2.protocol.primitives import uuid_to_text


@runtime_checkable
class HasFiles(Protocol):
    """A runtime with a file system of its own, such as the simulation's."""

    files: FileSystem


@attrs.define
class ClusterStorage:
    """The open directories of all brokers, the metadata log, and the state that it restores."""

    directories: Mapping[int, Sequence[DataDirectory]]
    metadata: DiskMetadataStorage
    state: MetadataImage

    def log_dirs_of(self, broker_id: int) -> str:
        """Return log.dirs of a broker."""
        return ",".join(directory.path for directory in self.directories[broker_id])

    def close(self, *, is_clean: bool) -> None:
        """Close all files and release the locks. Can be called repeatedly."""
        self.metadata.close()
        for directories in self.directories.values():
            for directory in directories:
                directory.close(is_clean=is_clean)
                directory.files.close()

    def check(self) -> None:
        """Raise `ConfigurationError` if the metadata log could not be written, such as on a full disk."""
        try:
            self.metadata.check()
        except KafkaStorageError as error:
            raise ConfigurationError(str(error)) from error


def open_storage(
    root: str | Path,
    broker_ids: Sequence[int],
    config: BrokerConfig,
    files: FileSystem,
    entropy: Entropy,
    now_ms: Callable[[], int],
    new_id: Callable[[], str],
    new_state: Callable[[str], MetadataImage],
) -> ClusterStorage:
    """Open or format the data directories; a new cluster gets `new_id`, and its state by `new_state`.

    Raise `ConfigurationError` with path, reason and remedy; then no directory is locked.
    """
    places = {number: log_dirs_under(Path(root).absolute(), number, config) for number in broker_ids}
    voter = broker_ids[0]
    known = read_identity(places[voter][0], files)
    cluster_id = new_id() if known is None else known.cluster_id
    opened: dict[int, list[DataDirectory]] = {}
    try:
        for number, paths in places.items():
            identity = Identity(cluster_id, number)
            opened[number] = open_directories(paths, files, identity, lambda: _uuid(entropy))
        place = MetadataPlace(files, places[voter][0], voter)
        if not files.is_directory(place.path):
            _check_new(places[voter], files)
        state, metadata = open_metadata(place, new_state(cluster_id), config, now_ms)
        _check_complete(state, opened)
        for directories in opened.values():
            for directory in directories:
                directory.write_properties()
        _fence_all(state, metadata)
    except BaseException:
        for directories in opened.values():
            for directory in directories:
                directory.close(is_clean=directory.was_clean)
        raise
    return ClusterStorage(opened, metadata, state)


def _fence_all(state: MetadataImage, metadata: DiskMetadataStorage) -> None:
    """Fence the brokers of before, because none is alive. Their partitions keep their leaders meanwhile.

    Otherwise each broker that starts would move its leaderships to brokers that have not started yet.
    """
    fenced = [
        record
        for broker in state.brokers.values()
        for record in registration_changes(
            attrs.evolve(broker, is_fenced=True), state.registrations[broker.id]
        )
    ]
    state.replay(fenced, state.image.version)
    metadata.pending = [*metadata.pending, *fenced]


def _check_new(paths: Sequence[str], files: FileSystem) -> None:
    """Raise `ConfigurationError` if the voter's directories have logs: their topics would be unknown."""
    for path in paths:
        logs = logs_in(path, files)
        if logs:
            raise refused(
                path,
                f"it has {len(logs)} logs, such as {logs[0]}, but no metadata log",
                "Start with the first broker of before, whose directory has it, or choose an empty directory",
            )


def _check_complete(state: MetadataImage, opened: Mapping[int, Sequence[DataDirectory]]) -> None:
    """Raise `ConfigurationError` if the directory of a replica is missing.

    An empty replica could become the leader, and the others would truncate their logs.
    """
    used = {
        pair
        for topic in state.topics.values()
        for partition in topic.partitions
        for pair in zip(partition.replicas, partition.directories, strict=False)
    }
    for number, directories in opened.items():
        registered = state.brokers.get(number)
        present = {directory.directory_id.bytes for directory in directories}
        for directory in () if registered is None else registered.directories:
            if directory not in present and (number, directory) in used:
                name = uuid_to_text(directory)
                raise refused(
                    directories[0].path,
                    f"broker {number} has replicas in the directory with id {name}, which is missing",
                    "Mount its disk again, or restore the directory from a backup",
                )


def log_dirs_under(root: Path, broker_id: int, config: BrokerConfig) -> list[str]:
    """Return the data directories of a broker: `root`/broker-N, or those in log.dirs.

    A relative path in log.dirs is inside `root`/broker-N; in an absolute one, "{id}" is the broker's id.
    """
    own = root / f"broker-{broker_id}"
    names = config.text("log.dirs")
    if not names:
        return [str(own)]
    paths = (name.strip().replace("{id}", str(broker_id)) for name in names.split(","))
    return list(dict.fromkeys(str(own / path) for path in paths))


def _uuid(entropy: Entropy) -> UUID:
    return UUID(bytes=entropy.token_bytes(16), version=4)


def new_cluster_id(seed: int | str, identity: str) -> str:
    """Return the id of a new cluster in Kafka's form: a UUID as 22 characters of base64.

    Clusters with the same seed differ by their identity.
    """
    entropy = SeededEntropy(f"cluster-id-{seed}-{identity}")
    return base64.urlsafe_b64encode(_uuid(entropy).bytes).decode().rstrip("=")
