"""A controller with its metadata log on disk, opened again and again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from pykafka2.broker.base.image import TopicImage
from pykafka2.broker.config.configs import BrokerConfig
from pykafka2.broker.controller import Controller
from pykafka2.broker.controller.metadata.directory import DIRECTORY
from pykafka2.broker.controller.metadata.image import MetadataImage
from pykafka2.broker.controller.metadata.log import MetadataLog
from pykafka2.broker.controller.metadata.recovery import MetadataPlace, open_metadata
from pykafka2.broker.controller.metadata.storage import DiskMetadataStorage
from pykafka2.broker.log.disk.real_files import RealFiles
from pykafka2.broker.log.file_system import FileSystem
from pykafka2.clock import SeededEntropy
from pykafka2.protocol.struct import MetadataRecord
from tests.broker.controller.metadata.metadata_changes import CONFIG, Changes, new_state


class RecordingLog(MetadataLog):
    """A metadata log; `attempted` are the records of a write that failed."""

    attempted: Sequence[MetadataRecord] = ()

    def append(self, records: Sequence[MetadataRecord], epoch: int) -> Mapping[str, TopicImage | None]:
        self.attempted = records
        changed = super().append(records, epoch)
        self.attempted = ()
        return changed


class Cluster:
    """A controller whose metadata log is in a folder; `restart` opens it again."""

    def __init__(self, folder: Path, files: FileSystem | None = None) -> None:
        self.folder = folder
        self.files = files or RealFiles()
        self.time_ms = 1_000
        self.restart()

    def restart(self, config: BrokerConfig = CONFIG) -> None:
        self.state, self.storage = opened(self.folder, new_state(config), self.files, self.now_ms, config)
        self.log = RecordingLog(self.state, self.storage)
        self.controller = Controller(0, self.log, config, SeededEntropy(self.log.end_offset), lambda *_: None)
        self.changes = Changes(self.controller)

    def now_ms(self) -> int:
        self.time_ms += 1
        return self.time_ms

    def attempted(self) -> MetadataImage:
        """Return the metadata with the records of the write that failed."""
        state = self.state.empty()
        state.replay([*self.state.snapshot(), *self.log.attempted], 0)
        return state

    @property
    def path(self) -> Path:
        return self.folder / DIRECTORY

    def snapshots(self) -> list[str]:
        return sorted(path.name for path in self.path.glob("*.checkpoint"))


def opened(
    folder: Path,
    new: MetadataImage | None = None,
    files: FileSystem | None = None,
    now_ms: Callable[[], int] = lambda: 0,
    config: BrokerConfig = CONFIG,
) -> tuple[MetadataImage, DiskMetadataStorage]:
    place = MetadataPlace(files or RealFiles(), str(folder), 0)
    return open_metadata(place, new or new_state(config), config, now_ms)
