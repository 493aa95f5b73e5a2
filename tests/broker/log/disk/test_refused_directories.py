"""Data directories that cannot be used at the start: refused with path and reason, and left as they are."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from threading import current_thread, main_thread

import pytest

from pykafka2 import KafkaConsumer, KafkaProducer
from pykafka2.broker.log.disk.data_directory import CLEAN_SHUTDOWN, META_PROPERTIES
from pykafka2.broker.log.disk.real_files import RealFile
from pykafka2.errors import ConfigurationError
from pykafka2.testing import KafkaCluster
from tests.gate import rest_in_long

SEGMENT = "00000000000000000000.log"
SMALL = ["recovery-point-offset-checkpoint", "replication-offset-checkpoint", "cleaner-offset-checkpoint"]


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory with records, a committed offset and a transaction, closed cleanly."""
    root = tmp_path_factory.mktemp("original")
    with KafkaCluster(1, {"t": 1}, data_dir=root) as cluster:
        with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, transactional_id="x") as producer:
            producer.init_transactions()
            with producer.transaction():
                producer.send("t", b"one")
        with KafkaConsumer(bootstrap_servers=cluster.bootstrap_servers, group_id="g") as consumer:
            consumer.assign([("t", 0)])
            consumer.commit({("t", 0): 1})
    return root


@pytest.fixture
def root(original: Path, tmp_path: Path) -> Path:
    shutil.copytree(original, tmp_path / "root")
    return tmp_path / "root"


def used(root: Path, topic: str) -> Path:
    """Return the log of a partition with records of an internal topic."""
    logs = sorted(root.glob(f"broker-0/{topic}-*/{SEGMENT}"))
    return next(log.parent for log in logs if log.stat().st_size)


def replace_by_directory(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.mkdir()


def replace_by_link(path: Path) -> None:
    target = path.parent.parent.parent / "target"
    path.rename(target)
    path.symlink_to(target)


def replace_by_pipe(path: Path) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def state_of(root: Path) -> dict[str, object]:
    """Return the bytes of all files, the targets of links, and None for anything else."""
    found: dict[str, object] = {}
    for path in root.rglob("*"):
        name = str(path.relative_to(root))
        found[name] = (
            os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else None
        )
    return found


def refused(root: Path, path: Path, reason: str) -> None:
    before = state_of(root)
    with pytest.raises(ConfigurationError) as raised:
        KafkaCluster(1, data_dir=root).start()
    assert str(path) in str(raised.value)
    assert reason in str(raised.value)
    assert state_of(root) == before


FILES: dict[str, Callable[[Path], Path]] = {
    "a group coordinator's log": lambda root: used(root, "__consumer_offsets") / SEGMENT,
    "a transaction coordinator's log": lambda root: used(root, "__transaction_state") / SEGMENT,
    "a topic's log": lambda root: root / "broker-0/t-0" / SEGMENT,
    "leader epochs": lambda root: root / "broker-0/t-0/leader-epoch-checkpoint",
    "topic id": lambda root: root / "broker-0/t-0/partition.metadata",
    "offset index": lambda root: (root / "broker-0/t-0" / SEGMENT).with_suffix(".index"),
    "time index": lambda root: (root / "broker-0/t-0" / SEGMENT).with_suffix(".timeindex"),
    "transaction index": lambda root: (root / "broker-0/t-0" / SEGMENT).with_suffix(".txnindex"),
    "producer snapshot": lambda root: next((root / "broker-0/t-0").glob("*.snapshot")),
    "meta.properties": lambda root: root / "broker-0" / META_PROPERTIES,
    "metadata log": lambda root: root / "broker-0/__cluster_metadata-0" / SEGMENT,
    "quorum state": lambda root: root / "broker-0/__cluster_metadata-0/quorum-state",
    **{name: lambda root, name=name: root / "broker-0" / name for name in SMALL},
}


def refused_as(root: Path, what: str, is_clean: bool, replace: Callable[[Path], None], reason: str) -> None:
    """Assert that a file of another kind is refused, after a clean stop or a crash."""
    path = FILES[what](root)
    if not path.exists():
        path.write_text("0\n0\n")
    replace(path)
    if not is_clean:
        (root / "broker-0" / CLEAN_SHUTDOWN).unlink()
    refused(root, path, reason)


def each_file(first: bool) -> pytest.MarkDecorator:
    """Each file after a clean stop or after a crash, in turns; the other one of each is marked `long`."""
    cases = [(what, (number % 2 == 0) is first) for number, what in enumerate(FILES)]
    others = [(what, not is_clean) for what, is_clean in cases]
    return pytest.mark.parametrize(("what", "is_clean"), rest_in_long([*cases, *others], in_gate=len(cases)))


@pytest.mark.gate
@each_file(first=True)
def test_directory_instead_of_a_file_is_refused_and_nothing_changes(
    root: Path, what: str, is_clean: bool
) -> None:
    refused_as(root, what, is_clean, replace_by_directory, "")


@pytest.mark.gate
@each_file(first=False)
def test_link_is_not_followed(root: Path, what: str, is_clean: bool) -> None:
    refused_as(root, what, is_clean, replace_by_link, "it is a symbolic link")


@pytest.mark.gate
@each_file(first=True)
def test_pipe_is_refused_without_waiting(root: Path, what: str, is_clean: bool) -> None:
    refused_as(root, what, is_clean, replace_by_pipe, "it is not a regular file")


@pytest.mark.parametrize("what", [what for what in FILES if not what.endswith(("log", "index"))])
def test_small_file_of_gigabytes_is_not_read(root: Path, what: str) -> None:
    path = FILES[what](root)
    with path.open("ab") as file:
        file.truncate(8 << 30)  # sparse
    with pytest.raises(ConfigurationError, match="it has more than 64 MB") as raised:
        KafkaCluster(1, data_dir=root).start()
    assert str(path) in str(raised.value)
    assert (root / "broker-0" / CLEAN_SHUTDOWN).exists()


@pytest.mark.gate
def test_huge_metadata_log_is_refused_before_it_is_read(root: Path) -> None:
    """Reading 2 GB of it would take ten seconds."""
    path = root / "broker-0/__cluster_metadata-0" / SEGMENT
    os.truncate(path, 8 << 30)  # sparse
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ConfigurationError, match="it has more than 2047 MB") as raised:
        KafkaCluster(1, data_dir=root).start()
    assert str(path) in str(raised.value)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 512 << 10


@pytest.mark.gate
@pytest.mark.parametrize("kind", ["delete", "future"])
def test_refused_directory_keeps_the_logs_that_a_start_removes(root: Path, kind: str) -> None:
    """Deleted logs, and copies without a topic id."""
    log = root / "broker-0/t-0"
    removed = root / f"broker-0/a-0.{'0' * 32}-{kind}"
    removed.mkdir()
    (removed / SEGMENT).touch()
    kept = (log / SEGMENT).rename(root / "kept")
    (log / SEGMENT).mkdir()
    refused(root, log / SEGMENT, "")
    (log / SEGMENT).rmdir()
    kept.rename(log / SEGMENT)
    with KafkaCluster(1, data_dir=root):
        assert not removed.exists()


@pytest.mark.gate
def test_lock_file_that_is_a_link_is_refused(root: Path, tmp_path: Path) -> None:
    lock = root / "broker-0/.lock"
    lock.unlink()
    lock.symlink_to(tmp_path / "elsewhere")
    refused(root, lock.parent, "it is a symbolic link")
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.gate
def test_temporary_file_that_is_a_link_is_not_written_through(root: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("precious")
    for name in SMALL:
        (root / "broker-0" / f"{name}.tmp").symlink_to(target)
    with KafkaCluster(1, data_dir=root):
        pass
    assert target.read_text() == "precious"


@pytest.mark.gate
@pytest.mark.parametrize("line", ["", "directory.i=AAAAAAAAAAAAAAAAAAAAAA", "directory.id=!AAAA"])
def test_damaged_directory_id_is_refused_and_not_rewritten(root: Path, line: str) -> None:
    path = root / "broker-0" / META_PROPERTIES
    lines = [one for one in path.read_text().splitlines() if not one.startswith("directory.id")]
    path.write_text("\n".join([*lines, line, ""]))
    refused(root, root / "broker-0", "")


def test_directory_without_an_id_gets_one_at_the_start(tmp_path: Path) -> None:
    """Kafka before 3.7 created directories without an id; the metadata does not list it."""
    with KafkaCluster(1, {"t": 1}, data_dir=tmp_path, config={"log.dirs": "a"}):
        pass
    properties = (tmp_path / "broker-0/a" / META_PROPERTIES).read_text().splitlines()
    path = tmp_path / "broker-0/b" / META_PROPERTIES
    path.parent.mkdir()
    path.write_text("\n".join([*(one for one in properties if not one.startswith("directory.id")), ""]))
    found: list[str] = []
    for _ in range(2):
        with KafkaCluster(1, data_dir=tmp_path, config={"log.dirs": "a,b"}):
            found += [one for one in path.read_text().splitlines() if one.startswith("directory.id=")]
    assert len(found) == 2
    assert len(set(found)) == 1


@pytest.mark.gate
def test_directory_id_with_other_characters_in_it_is_refused(root: Path) -> None:
    """A decoder that skips them would accept the rest as an id."""
    path = root / "broker-0" / META_PROPERTIES
    path.write_text(path.read_text().replace("directory.id=", "directory.id=!"))
    refused(root, root / "broker-0", "is not an id of 16 bytes in base64")


@pytest.mark.gate
def test_broker_starts_with_the_directory_that_works(tmp_path: Path) -> None:
    """A broker ends only if all of its directories have failed, as in Apache Kafka."""
    config = {"log.dirs": "a,b"}
    with (
        KafkaCluster(1, {"t": 4}, data_dir=tmp_path, config=config) as cluster,
        KafkaConsumer(bootstrap_servers=cluster.bootstrap_servers, group_id="g") as consumer,
    ):
        consumer.commit({("t", 0): 1})
    # The metadata log is in the first directory.
    path = next(iter(sorted(tmp_path.glob(f"broker-0/b/__consumer_offsets-*/{SEGMENT}"))))
    replace_by_directory(path)
    with KafkaCluster(1, data_dir=tmp_path, config=config) as cluster:
        with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            assert producer.send("a-new-topic", b"v").result(10).offset == 0
        cluster.check()


def fails_for(path: Path) -> Callable[[RealFile, int, int], bytes]:
    """Return `RealFile.read` that fails for one file, unless the main thread reads it."""
    read = RealFile.read

    def fail(file: RealFile, position: int, size: int) -> bytes:
        if file.path == str(path) and current_thread() is not main_thread():
            raise OSError(errno.EIO, "Input/output error", file.path)
        return read(file, position, size)

    return fail


@pytest.mark.gate
def test_error_while_a_coordinator_reads_its_log_ends_the_start(
    root: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The broker's own thread reads it after the logs are loaded."""
    path = used(root, "__consumer_offsets") / SEGMENT
    monkeypatch.setattr(RealFile, "read", fails_for(path))
    monkeypatch.setattr("pykafka2.broker.broker.START_TIMEOUT", 120.0)
    began = time.monotonic()
    cluster = KafkaCluster(1, data_dir=root)
    with pytest.raises(ConfigurationError, match=rf"reading {path} failed \(Input/output error\)"):
        cluster.start()
    assert time.monotonic() - began < 60
    assert f"broker 0 cannot load {path.parent.name}: " in caplog.text
    cluster.close()  # raises if there was a bug


@pytest.mark.gate
def test_broker_after_a_refused_restart_is_stopped_and_can_start_again(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail = fails_for(used(root, "__consumer_offsets") / SEGMENT)
    with KafkaCluster(1, data_dir=root) as cluster:
        cluster.controls.stop_broker(0)
        with monkeypatch.context() as patch:
            patch.setattr(RealFile, "read", fail)
            with pytest.raises(ConfigurationError, match="Input/output error"):
                cluster.controls.restart_broker(0)
        assert not cluster.brokers[0].is_running
        cluster.controls.restart_broker(0)
        assert cluster.log("t", 0).values() == [b"one"]


def test_broker_is_refused_if_all_its_directories_failed(tmp_path: Path) -> None:
    config = {"log.dirs": "a,b"}
    with KafkaCluster(1, {"t": 4}, data_dir=tmp_path, config=config):
        pass
    paths = sorted(tmp_path.glob(f"broker-0/?/t-*/{SEGMENT}"))
    for name in "ab":
        replace_by_directory(next(path for path in paths if path.parent.parent.name == name))
    with pytest.raises(
        ConfigurationError, match=r"broker-0/a, .*broker-0/b cannot be used: reading .*; reading"
    ):
        KafkaCluster(1, data_dir=tmp_path, config=config).start()
