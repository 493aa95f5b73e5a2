"""Opens a metadata log on disk: replays its snapshot and its batches, or begins a new log.

Nothing in a directory that cannot be used is changed. The only repair is that of Kafka: a torn write at the
log's end, which was never acknowledged, is cut off.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence

import attrs

from pykafka2.broker.base.features import IMPLEMENTED, METADATA_VERSION
from pykafka2.broker.config.configs import BrokerConfig
from pykafka2.broker.controller.metadata.batches import MetadataBatch
from pykafka2.broker.controller.metadata.directory import (
    BOOTSTRAP,
    DIRECTORY,
    EPOCHS,
    PARTITION_METADATA,
    QUORUM_STATE,
    TOPIC_ID,
    LogContents,
    decode_quorum_state,
    read_log,
    read_snapshot,
    segment_name,
)
from pykafka2.broker.controller.metadata.image import MetadataImage
from pykafka2.broker.controller.metadata.storage import DiskMetadataStorage, Quorum, SnapshotRetention
from pykafka2.broker.log.disk.data_directory import logs_in, refused, refused_after
from pykafka2.broker.log.disk.text_files import decode_epochs, encode_topic_id
from pykafka2.broker.log.file_system import FileSystem
from pykafka2.broker.log.leader_epochs import LeaderEpochs
from pykafka2.errors import CorruptData, InvalidConfig
from pykafka2.protocol.messages.control_records import (
    KRaftVersionRecord,
    LeaderChangeMessage,
    VotersRecord,
)
from pykafka2.protocol.messages.metadata_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
)
from pykafka2.protocol.struct import Data, MetadataRecord

logger = logging.getLogger(__name__)

REMEDY = (
    "Nothing was changed. Restore this directory from a backup, open it with the release that wrote it, or "
    "choose an empty data directory"
)


@attrs.frozen
class MetadataPlace:
    """The data directory of a metadata log, and its voter."""

    files: FileSystem
    data_directory: str
    """The data directory (metadata.log.dir, or the first of log.dirs) of the voter."""
    voter_id: int
    """The broker that Apache Kafka must start as the controller."""

    @property
    def path(self) -> str:
        return f"{self.data_directory}/{DIRECTORY}"


@attrs.define
class Replay:
    """Applies batches of a log to an image; the records of a transaction apply with its end (KIP-868)."""

    image: MetadataImage
    epochs: LeaderEpochs = attrs.field(factory=LeaderEpochs)
    epoch: int = 0
    last_ms: int = 0
    kraft_version: int = 0
    voters_record: VotersRecord | None = None
    leader_change: LeaderChangeMessage | None = None
    _transaction: list[MetadataRecord] | None = None

    @property
    def has_open_transaction(self) -> bool:
        return self._transaction is not None

    def add(self, batches: Iterable[MetadataBatch], where: str) -> None:
        """Raise `CorruptData` with the offset of the batch that contradicts the metadata before it."""
        for batch in batches:
            try:
                for control in batch.controls:
                    self._control(control)
                for record, _ in batch.records:
                    self._record(record)
            except CorruptData as error:
                raise CorruptData(f"{where}, batch of offset {batch.base_offset}: {error}") from error
            self.epoch = max(self.epoch, batch.epoch)
            self.last_ms = max(self.last_ms, batch.timestamp_ms)

    def _control(self, control: Data) -> None:
        if isinstance(control, LeaderChangeMessage):
            self.leader_change = control
        elif isinstance(control, KRaftVersionRecord):
            self.kraft_version = control.k_raft_version
        elif isinstance(control, VotersRecord):
            self.voters_record = control

    def _record(self, record: MetadataRecord) -> None:
        if isinstance(record, BeginTransactionRecord):
            self._transaction = []
        elif isinstance(record, EndTransactionRecord):
            for one in self._transaction or ():
                self.image.apply(one)
            self._transaction = None
        elif isinstance(record, AbortTransactionRecord):
            self._transaction = None
        elif self._transaction is not None:
            self._transaction.append(record)
        else:
            self.image.apply(record)


def open_metadata(
    place: MetadataPlace, new: MetadataImage, config: BrokerConfig, now_ms: Callable[[], int]
) -> tuple[MetadataImage, DiskMetadataStorage]:
    """Open or begin a metadata log. Return the metadata at its end, and the storage that continues it.

    `new` is the metadata of a new cluster. Raise `ConfigurationError` with path, reason and remedy.
    """
    try:
        return _opened(place, new, config, now_ms)
    except CorruptData as error:
        raise refused(place.path, str(error), REMEDY) from error
    except OSError as error:
        raise refused_after(error, place.path) from error


def _opened(
    place: MetadataPlace, new: MetadataImage, config: BrokerConfig, now_ms: Callable[[], int]
) -> tuple[MetadataImage, DiskMetadataStorage]:
    files = place.files
    state = new.empty()
    replay = Replay(state)
    contents = read_log(files, place.path) if files.is_directory(place.path) else None
    if contents is not None:
        replay.add(contents.snapshot_batches, f"{place.path}, snapshot")
        replay.add(contents.batches, place.path)
    quorum = _quorum(place, replay)
    pending: Sequence[MetadataRecord] = ()
    # As in Kafka: a crash can have left the first controller's epoch without the first records.
    if contents is None or not contents.has_records:
        logs = [] if contents is None else logs_in(place.data_directory, files)
        logs = [name for name in logs if name != DIRECTORY]
        if logs:  # they would be set aside, because their topics are unknown
            raise CorruptData(f"it is empty, but the data directory has {len(logs)} logs, such as {logs[0]}")
        pending = _formatted(place, state)
        if not pending:
            state, pending = new, [*new.snapshot()]
    check_features(state)
    try:
        state.derive(0 if contents is None else contents.end_offset)
    except InvalidConfig as error:
        raise CorruptData(f"a configuration is unknown in this release: {error}") from error
    _prepare(place, contents)
    return state, DiskMetadataStorage(
        files,
        place.path,
        quorum,
        SnapshotRetention(config.int("metadata.max.retention.bytes")),
        now_ms,
        replay.epoch,
        0 if contents is None else contents.end_offset,
        0 if contents is None else contents.first_offset,
        _epochs(place, contents),
        state.metadata_version,
        replay.last_ms,
        pending,
        replay.has_open_transaction,
        0 if contents is None else contents.active_segment,
        0 if contents is None else contents.active_bytes,
    )


def check_features(state: MetadataImage) -> None:
    """Raise `CorruptData` for a level of a feature that this release does not implement."""
    for name, level in state.features.items():
        known = IMPLEMENTED[name]
        if not known.lowest <= level <= known.highest:
            what = "version" if name == METADATA_VERSION else "level"
            raise CorruptData(
                f"{name} is {level}, and this release supports {what}s {known.lowest} to {known.highest}"
            )


def _formatted(place: MetadataPlace, state: MetadataImage) -> list[MetadataRecord]:
    """Return and apply the first records that `kafka-storage format` has left, if any."""
    path = f"{place.data_directory}/{BOOTSTRAP}"
    if not place.files.exists(path):
        return []
    records = [record for batch in read_snapshot(place.files, path) for record, _ in batch.records]
    for record in records:
        state.apply(record)
    return records


def _quorum(place: MetadataPlace, replay: Replay) -> Quorum:
    """Return the quorum of the log, which must have this voter alone. Raise `CorruptData`."""
    path = f"{place.path}/{QUORUM_STATE}"
    change = replay.leader_change
    ids = set() if change is None else {voter.voter_id for voter in change.voters}
    if place.files.exists(path):
        known = decode_quorum_state(place.files.read(path), path)
        replay.epoch = max(replay.epoch, known.epoch)
        ids.update(known.voters)
    if replay.voters_record is not None:
        ids = {voter.voter_id for voter in replay.voters_record.voters}
    if ids - {place.voter_id}:
        raise CorruptData(
            f"its voters are the controllers {sorted(ids)}, and the only controller here is {place.voter_id}"
        )
    return Quorum(place.voter_id, replay.kraft_version, replay.voters_record)


def _epochs(place: MetadataPlace, contents: LogContents | None) -> LeaderEpochs:
    """Return the leader epochs: of the checkpoint, or of the batches if it is missing or damaged."""
    epochs = LeaderEpochs()
    if contents is None:
        return epochs
    path = f"{place.path}/{EPOCHS}"
    if place.files.exists(path):
        try:
            epochs.entries = decode_epochs(place.files.read(path).decode(), path)
        except (CorruptData, UnicodeDecodeError):
            logger.warning("metadata log %s: %s is damaged and is written again", place.path, EPOCHS)
    for batch in contents.batches:
        epochs.assign(batch.epoch, batch.base_offset)
    return epochs


def _prepare(place: MetadataPlace, contents: LogContents | None) -> None:
    """Make the directory, or cut off a torn write at the log's end."""
    files = place.files
    if contents is None:
        files.make_directory(place.path)
    if not files.exists(f"{place.path}/{PARTITION_METADATA}"):
        files.replace(f"{place.path}/{PARTITION_METADATA}", encode_topic_id(TOPIC_ID).encode())
    if contents is not None and contents.torn_bytes:
        path = f"{place.path}/{segment_name(contents.active_segment)}"
        logger.warning(
            "metadata log %s: %d bytes of a torn write are cut off at offset %d",
            path,
            contents.torn_bytes,
            contents.end_offset,
        )
        file = files.open(path)
        file.truncate(contents.active_bytes)
        file.flush()
        file.close()
