"""A controller with its metadata log on disk, opened again and again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pykafka2.broker.config.configs import BrokerConfig
from pykafka2.broker.controller import Controller
from pykafka2.broker.controller.metadata.directory import DIRECTORY
from pykafka2.broker.controller.metadata.from_metadata import records_of
from pykafka2.broker.controller.metadata.log import MetadataLog
from pykafka2.broker.controller.metadata.recovery import MetadataPlace, open_metadata
from pykafka2.broker.controller.metadata.state import State
from pykafka2.broker.controller.metadata.storage import DiskMetadataStorage
from pykafka2.broker.log.disk.real_files import RealFiles
from pykafka2.broker.log.file_system import FileSystem
from pykafka2.clock import SeededEntropy
from tests.broker.controller.metadata.metadata_changes import CONFIG, DIRECTORIES, SECRET_KEY, Changes


class Cluster:
    """A controller whose metadata log is in a folder; `restart` opens it again."""

    def __init__(self, folder: Path, files: FileSystem | None = None) -> None:
        self.folder = folder
        self.files = files or RealFiles()
        self.time_ms = 1_000
        self.restart()

    def restart(self, config: BrokerConfig = CONFIG) -> None:
        new = State("cluster", BrokerConfig())
        self.state, self.storage = opened(self.folder, new, self.files, self.now_ms, config)
        self.log = MetadataLog(self.state, self.storage)
        self.controller = Controller(0, self.log, config, SeededEntropy(self.log.end_offset), lambda *_: None)
        self.changes = Changes(self.controller)

    def now_ms(self) -> int:
        self.time_ms += 1
        return self.time_ms

    def converted(self) -> State:
        """Return the state with everything that was converted, written or not."""
        state = State("cluster", BrokerConfig(), {})
        state.first_host = self.state.first_host
        state.replay(records_of(self.storage.image, SECRET_KEY, SeededEntropy(3)), 0)
        return state

    @property
    def path(self) -> Path:
        return self.folder / DIRECTORY

    def snapshots(self) -> list[str]:
        return sorted(path.name for path in self.path.glob("*.checkpoint"))


def opened(
    folder: Path,
    new: State | None = None,
    files: FileSystem | None = None,
    now_ms: Callable[[], int] = lambda: 0,
    config: BrokerConfig = CONFIG,
) -> tuple[State, DiskMetadataStorage]:
    place = MetadataPlace(files or RealFiles(), str(folder), 0, lambda broker: DIRECTORIES.get(broker, []))
    return open_metadata(place, new or State("cluster", BrokerConfig()), config, SeededEntropy(3), now_ms)
