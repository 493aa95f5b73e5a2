"""The metadata log on disk: written, opened again, snapshots, and directories that are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykafka2.broker.config.configs import BrokerConfig
from pykafka2.broker.controller import Controller, NewTopic
from pykafka2.broker.controller.metadata import storage as metadata_storage
from pykafka2.broker.controller.metadata.batches import (
    MetadataBatch,
    decode_batches,
    encode_controls,
    encode_records,
    valid_bytes,
)
from pykafka2.broker.controller.metadata.directory import (
    DIRECTORY,
    QuorumState,
    SnapshotId,
    decode_quorum_state,
    encode_quorum_state,
    encode_snapshot,
    read_snapshot,
    snapshot_name,
)
from pykafka2.broker.controller.metadata.storage import MAX_RECORDS_PER_BATCH
from pykafka2.broker.log.disk.real_files import RealFiles
from pykafka2.clock import SeededEntropy
from pykafka2.errors import ConfigurationError, CorruptData, KafkaStorageError
from pykafka2.protocol.messages.control_records import (
    KRaftVersionFeature,
    KRaftVersionRecord,
    LeaderChangeMessage,
    LeaderVoter,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    Voter,
    VotersRecord,
)
from pykafka2.protocol.messages.metadata_records import (
    BeginTransactionRecord,
    ConfigRecord,
    FeatureLevelRecord,
    NoOpRecord,
    TopicRecord,
)
from pykafka2.records.encoder import BatchBuilder
from tests.broker.controller.metadata.metadata_changes import CONFIG, Change, allocated, shown
from tests.broker.controller.metadata.metadata_clusters import Cluster, opened
from tests.gate import examples

SMALL = st.integers(0, 1000)
CHANGES = st.lists(st.tuples(st.integers(0, 21), SMALL, SMALL), max_size=25)
SEGMENT = f"{0:020d}.log"


def segments_of(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.log"))


def batches_of(cluster: Cluster) -> list[MetadataBatch]:
    """Return the batches of the only segment."""
    [segment] = segments_of(cluster.path)
    return [*decode_batches(segment.read_bytes(), "log", 0)]


def only_snapshot(cluster: Cluster) -> Path:
    [name] = cluster.snapshots()
    return cluster.path / name


def write_at_end(cluster: Cluster, data: bytes) -> None:
    with (cluster.path / SEGMENT).open("ab") as file:
        file.write(data)


def format_directory(folder: Path) -> None:
    """Write what kafka-storage does, with an older metadata version."""
    records = [(FeatureLevelRecord(name="metadata.version", feature_level=25), 0)]
    (folder / "bootstrap.checkpoint").write_bytes(encode_snapshot(iter(records), [], 0, 0, 0))


@pytest.mark.gate
@settings(max_examples=examples(30), deadline=None)
@given(rounds=st.lists(st.tuples(CHANGES, st.booleans()), min_size=1, max_size=4))
def test_state_survives_restarts_with_and_without_snapshots(
    rounds: list[tuple[list[Change], bool]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    cluster = Cluster(tmp_path_factory.mktemp("metadata"))
    epoch = cluster.controller.epoch
    for changes, has_snapshot in rounds:
        cluster.changes.make(changes)
        if has_snapshot:
            cluster.log.write_snapshot()
            cluster.controller.allocate_producer_ids()
        before, end = shown(cluster.controller.state), cluster.log.end_offset
        cluster.restart()
        assert shown(cluster.controller.state) == before
        # The new epoch is the first record after the restart.
        assert cluster.log.end_offset == end + 1
        assert cluster.controller.image.version == end + 1
        assert cluster.controller.epoch == epoch + 1
        epoch += 1


def test_new_controller_of_the_same_cluster_replays_from_memory(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    cluster.controller.register_broker(0, "host", 9092, None)
    cluster.controller.create_topic(NewTopic("t", 1, 1))
    other = Controller(1, cluster.log, CONFIG, SeededEntropy(5), lambda *_: None)
    assert shown(other.state) == shown(cluster.controller.state)
    assert other.epoch == cluster.controller.epoch + 1


@pytest.mark.gate
def test_snapshot_is_written_after_many_records_and_read_at_the_next_start(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    for block in range(3):
        cluster.controller.write([allocated(block * 6000 + number) for number in range(6000)])
    [name] = cluster.snapshots()
    before = shown(cluster.controller.state)
    cluster.restart()
    assert cluster.storage.snapshot_offset == int(name[:20])
    assert cluster.log.length < 10_000
    assert shown(cluster.controller.state) == before
    # What is before the snapshot is not read again.
    segments_of(cluster.path)[0].write_bytes(b"damaged")
    cluster.restart()
    assert shown(cluster.controller.state) == before


def test_oldest_snapshots_and_segments_are_deleted_beyond_the_retention(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    cluster.restart(BrokerConfig({"metadata.max.retention.bytes": "6000"}))
    for number in range(8):
        cluster.controller.write([allocated(number * 50 + one) for one in range(50)])
        cluster.log.write_snapshot()
    names = cluster.snapshots()
    assert 1 <= len(names) < 8
    total = sum(path.stat().st_size for path in [*cluster.path.glob("*.log"), *cluster.path.glob("*.check*")])
    assert total <= 6000
    assert segments_of(cluster.path)[0].name <= f"{names[0][:20]}.log"
    before = shown(cluster.controller.state)
    cluster.restart()
    assert shown(cluster.controller.state) == before


@pytest.mark.gate
def test_write_of_more_records_than_a_batch_is_a_transaction(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    count = 2 * MAX_RECORDS_PER_BATCH + 1
    before = cluster.log.end_offset
    cluster.controller.write([allocated(number + 1) for number in range(count)])
    assert cluster.log.end_offset == before + count + 2
    assert [len(batch.records) for batch in batches_of(cluster)[-5:]] == [1, 10_000, 10_000, 1, 1]
    cluster.restart()
    assert cluster.controller.state.next_producer_id == count


def test_open_transaction_of_a_failed_controller_is_aborted(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    end = cluster.log.end_offset
    topic = TopicRecord(name="half", topic_id=bytes([7] * 16))
    write_at_end(cluster, encode_records([(BeginTransactionRecord(), 0), (topic, 0)], end, 1, 5))
    cluster.restart()
    assert cluster.controller.state.topics == {}
    cluster.controller.allocate_producer_ids()
    cluster.restart()
    assert cluster.controller.state.topics == {}
    assert cluster.controller.state.next_producer_id == 1000


@pytest.mark.gate
def test_torn_write_at_the_end_is_cut_off_at_every_byte(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    segment = cluster.path / SEGMENT
    whole = segment.stat().st_size
    cluster.controller.allocate_producer_ids()
    data = segment.read_bytes()
    for size in range(whole, len(data)):
        segment.write_bytes(data[:size])
        state, storage = opened(tmp_path)
        assert state.next_producer_id == 0
        assert segment.stat().st_size == storage.segment_bytes == whole
    # Pages can reach the disk in any order, so the last batch can be damaged within.
    segment.write_bytes(data[:-20] + bytes(20))
    assert opened(tmp_path)[0].next_producer_id == 0


def test_cluster_continues_after_a_torn_write(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    write_at_end(cluster, bytes(100))
    cluster.restart()
    cluster.controller.allocate_producer_ids()
    cluster.restart()
    assert cluster.controller.state.next_producer_id == 1000


def with_topics(folder: Path) -> Cluster:
    cluster = Cluster(folder)
    cluster.controller.register_broker(0, "host", 9092, None)
    for name in ("a", "b", "c"):
        cluster.controller.create_topic(NewTopic(name, 1, 1))
    return cluster


def refusal_of(folder: Path) -> str:
    """Return the error of a directory that cannot be opened, and checks that nothing in it changes."""
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with pytest.raises(ConfigurationError) as caught:
        opened(folder)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    text = str(caught.value)
    assert text.startswith(f"Data directory {folder / DIRECTORY} cannot be used: ")
    assert "Nothing was changed. Restore this directory from a backup" in text
    return text


def test_damaged_batch_before_valid_ones_is_refused_with_its_position(tmp_path: Path) -> None:
    cluster = with_topics(tmp_path)
    segment = cluster.path / SEGMENT
    data = bytearray(segment.read_bytes())
    data[len(data) // 2] ^= 1
    segment.write_bytes(data)
    assert f"{segment}: the batch at byte " in refusal_of(tmp_path)


def test_missing_segment_is_refused(tmp_path: Path) -> None:
    cluster = with_topics(tmp_path)
    for _ in range(2):
        cluster.log.write_snapshot()
        cluster.controller.allocate_producer_ids()
    for name in cluster.snapshots():
        (cluster.path / name).unlink()
    segments_of(cluster.path)[1].unlink()
    assert "is missing before it" in refusal_of(tmp_path)


def test_missing_snapshot_is_refused(tmp_path: Path) -> None:
    cluster = with_topics(tmp_path)
    cluster.log.write_snapshot()
    cluster.controller.allocate_producer_ids()
    [name] = cluster.snapshots()
    (cluster.path / name).unlink()
    segments_of(cluster.path)[0].unlink()
    assert (
        f"the log begins at offset {int(name[:20])}, but no snapshot has the metadata before it"
        in refusal_of(tmp_path)
    )


def test_snapshot_without_its_end_is_refused(tmp_path: Path) -> None:
    cluster = with_topics(tmp_path)
    cluster.log.write_snapshot()
    snapshot = only_snapshot(cluster)
    footer = encode_controls([SnapshotFooterRecord(version=0)], 0, 0, 0)
    data = snapshot.read_bytes()
    snapshot.write_bytes(data[: -len(footer)])
    assert f"{snapshot}: the snapshot is incomplete, because it has no footer" in refusal_of(tmp_path)
    snapshot.write_bytes(data[:-1])
    assert f"{snapshot}: the batch of offset " in refusal_of(tmp_path)


def test_log_that_ends_before_its_snapshot_is_refused(tmp_path: Path) -> None:
    cluster = with_topics(tmp_path)
    data = encode_snapshot(iter([(NoOpRecord(), 0)]), [], 1, 0, 0)
    (cluster.path / snapshot_name(SnapshotId(1000, 1))).write_bytes(data)
    assert "before its snapshot of 1000" in refusal_of(tmp_path)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"\x01\x63\x00\x00", "there is no metadata record with API key 99"),
        (b"\x01\x02\x09\x00", "TopicRecord has no version 9"),
        (b"\x02\x02\x00\x00", "frame version 2 is not 1"),
    ],
)
def test_record_of_a_later_release_is_refused(tmp_path: Path, value: bytes, reason: str) -> None:
    cluster = with_topics(tmp_path)
    builder = BatchBuilder()
    builder.append(0, None, value)
    write_at_end(cluster, builder.build(base_offset=cluster.log.end_offset, partition_leader_epoch=1))
    assert reason in refusal_of(tmp_path)


def appended(cluster: Cluster, *records: Any) -> None:
    write_at_end(cluster, encode_records([(record, 0) for record in records], cluster.log.end_offset, 1, 5))


def test_newer_metadata_version_is_refused(tmp_path: Path) -> None:
    cluster = with_topics(tmp_path)
    appended(cluster, FeatureLevelRecord(name="metadata.version", feature_level=34))
    assert "metadata.version is 34, and this release supports versions 7 to 33" in refusal_of(tmp_path)


def test_contradictory_record_is_refused_with_its_offset(tmp_path: Path) -> None:
    cluster = with_topics(tmp_path)
    end = cluster.log.end_offset
    appended(cluster, TopicRecord(name="a", topic_id=bytes([9] * 16)))
    text = refusal_of(tmp_path)
    assert f"batch of offset {end}: topic 'a' with id CQkJCQkJCQkJCQkJCQkJCQ is created twice" in text


def test_gap_between_offsets_is_refused(tmp_path: Path) -> None:
    cluster = with_topics(tmp_path)
    write_at_end(cluster, encode_records([(NoOpRecord(), 0)], cluster.log.end_offset + 3, 1, 5))
    assert f"offset {cluster.log.end_offset + 3} follows where" in refusal_of(tmp_path)


def test_log_of_several_controllers_is_refused(tmp_path: Path) -> None:
    cluster = with_topics(tmp_path)
    voters = [LeaderVoter(voter_id=number, voter_directory_id=bytes(16)) for number in (0, 1, 2)]
    change = LeaderChangeMessage(version=0, leader_id=1, voters=voters, granting_voters=voters)
    write_at_end(cluster, encode_controls([change], cluster.log.end_offset, 2, 5))
    assert "its voters are the controllers [0, 1, 2], and the only controller here is 0" in refusal_of(
        tmp_path
    )


def test_damaged_quorum_state_is_refused(tmp_path: Path) -> None:
    cluster = with_topics(tmp_path)
    (cluster.path / "quorum-state").write_text("{")
    assert f"{cluster.path / 'quorum-state'}: not a quorum state" in refusal_of(tmp_path)


def test_log_accepts_nothing_after_a_failed_write(tmp_path: Path) -> None:
    cluster = with_topics(tmp_path)
    before = cluster.log.end_offset

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    file: Any = cluster.storage._file
    cluster.storage._file = type("Full", (), {"write": fail, "close": file.close})()  # type: ignore[assignment]
    for _ in range(2):
        with pytest.raises(KafkaStorageError, match="No space left on device"):
            cluster.controller.create_topic(NewTopic("d", 1, 1))
    assert cluster.log.end_offset == before
    assert "d" not in cluster.controller.state.topics
    cluster.restart()
    assert sorted(cluster.controller.state.topics) == ["a", "b", "c"]


def test_directory_that_kafka_storage_has_formatted_begins_with_its_records(tmp_path: Path) -> None:
    format_directory(tmp_path)
    cluster = Cluster(tmp_path)
    assert cluster.controller.state.features == {"metadata.version": 25}
    cluster.restart()
    assert cluster.controller.state.features == {"metadata.version": 25}


def test_new_log_has_the_features_of_its_cluster(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    before = cluster.controller.state.features
    assert before["metadata.version"] == 33
    cluster.controller.write([FeatureLevelRecord(name="transaction.version", feature_level=1)])
    cluster.restart()
    assert cluster.controller.state.features == {**before, "transaction.version": 1}


@pytest.mark.parametrize("is_formatted", [True, False])
def test_crash_between_the_first_epoch_and_the_first_records_loses_neither_features_nor_users(
    tmp_path: Path, is_formatted: bool
) -> None:
    if is_formatted:
        format_directory(tmp_path)
    cluster = Cluster(tmp_path)
    segment = cluster.path / SEGMENT
    before, whole = cluster.controller.state.features, segment.read_bytes()
    first, *_ = decode_batches(whole, str(segment), 0)
    segment.write_bytes(encode_controls(first.controls, 0, first.epoch, first.timestamp_ms))
    cluster.restart()
    assert cluster.controller.state.features == before
    assert cluster.controller.epoch == first.epoch + 1
    cluster.restart()
    assert cluster.controller.state.features == before


@pytest.mark.parametrize("kraft_version", [0, 1])
def test_quorum_state_is_read_as_written(kraft_version: int) -> None:
    state = QuorumState(0, 7, [] if kraft_version else [0])
    assert decode_quorum_state(encode_quorum_state(state, kraft_version), "quorum-state") == state


def test_quorum_state_has_kafkas_bytes() -> None:
    assert encode_quorum_state(QuorumState(0, 1, [0]), 0) == (
        b'{"clusterId":"","leaderId":0,"leaderEpoch":1,"votedId":-1,"appliedOffset":0,'
        b'"currentVoters":[{"voterId":0}],"data_version":0}'
    )


def test_valid_bytes_end_before_zeros_that_a_crash_leaves() -> None:
    batch = encode_records([(NoOpRecord(), 0)], 0, 1, 5)
    assert valid_bytes(batch + bytes(200), "log") == len(batch)
    with pytest.raises(CorruptData, match=f"log: the batch at byte {len(batch)} is damaged, but the one at"):
        valid_bytes(batch + bytes(7) + batch, "log")


def test_topic_option_of_a_later_release_is_refused(tmp_path: Path) -> None:
    cluster = with_topics(tmp_path)
    appended(cluster, ConfigRecord(resource_type=2, resource_name="a", name="new.option", value="1"))
    assert "a configuration is unknown in this release: Unknown topic config name: new.option" in refusal_of(
        tmp_path
    )


def test_unknown_option_of_a_broker_is_kept_as_in_kafka(tmp_path: Path) -> None:
    cluster = with_topics(tmp_path)
    # A plugin's option, whose name only the plugin knows.
    appended(cluster, ConfigRecord(resource_type=4, resource_name="", name="plugin.option", value="7"))
    cluster.restart()
    assert cluster.controller.image.configs_of(4, "") == {"plugin.option": "7"}


# ---------------------------------------------------------------------- the small files, for Apache Kafka


def test_quorum_state_epochs_and_topic_id_are_those_of_the_log(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    starts = [(1, 0)]
    for _ in range(3):
        starts.append((cluster.controller.epoch + 1, cluster.log.end_offset))
        cluster.restart()
    assert decode_quorum_state((cluster.path / "quorum-state").read_bytes(), "") == QuorumState(0, 4, [0])
    lines = "".join(f"{epoch} {offset}\n" for epoch, offset in starts)
    assert (cluster.path / "leader-epoch-checkpoint").read_text() == f"0\n4\n{lines}"
    topic_id = (cluster.path / "partition.metadata").read_text()
    assert topic_id == "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ"


def test_epochs_before_the_snapshot_are_those_of_the_checkpoint(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    cluster.restart()
    cluster.log.write_snapshot()
    cluster.restart()
    before = list(cluster.storage.epochs.entries)
    assert [epoch for epoch, _ in before] == [1, 2, 3]
    for segment in segments_of(cluster.path)[:-1]:
        segment.unlink()
    cluster.restart()
    assert cluster.storage.epochs.entries[:3] == before


def test_next_epoch_is_above_that_of_quorum_state(tmp_path: Path) -> None:
    # It is written before the epoch's first record, which a crash can lose.
    cluster = Cluster(tmp_path)
    (cluster.path / "quorum-state").write_bytes(encode_quorum_state(QuorumState(0, 8, [0]), 0))
    cluster.restart()
    assert cluster.controller.epoch == 9


def test_voters_of_quorum_state_are_refused_like_those_of_the_log(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    (cluster.path / "quorum-state").write_bytes(encode_quorum_state(QuorumState(1, 8, [0, 1]), 0))
    assert "its voters are the controllers [0, 1], and the only controller here is 0" in refusal_of(tmp_path)


def test_quorum_state_of_a_later_version_is_refused(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    text = (cluster.path / "quorum-state").read_text()
    (cluster.path / "quorum-state").write_text(text.replace('"data_version":0', '"data_version":2'))
    assert "version 2 is not 0 or 1" in refusal_of(tmp_path)


def test_timestamps_do_not_run_back_after_a_restart_with_an_earlier_clock(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    cluster.time_ms = 50_000
    cluster.controller.allocate_producer_ids()
    cluster.time_ms = 0
    cluster.controller.allocate_producer_ids()
    cluster.restart()
    times = [batch.timestamp_ms for batch in batches_of(cluster)]
    assert times == sorted(times)
    assert times[-1] > 50_000


def test_snapshot_keeps_the_quorum_of_kraft_version_1(tmp_path: Path) -> None:
    cluster = with_topics(tmp_path)
    controls = [KRaftVersionRecord(version=0, k_raft_version=1), VotersRecord(version=0, voters=[])]
    write_at_end(cluster, encode_controls(controls, cluster.log.end_offset, 1, 5))
    cluster.restart()
    cluster.log.write_snapshot()
    first, *rest = read_snapshot(cluster.files, str(only_snapshot(cluster)))
    assert [type(control) for control in first.controls] == [
        SnapshotHeaderRecord,
        KRaftVersionRecord,
        VotersRecord,
    ]
    assert {batch.epoch for batch in (first, *rest)} == {cluster.controller.epoch}
    cluster.restart()
    assert cluster.storage.quorum.kraft_version == 1
    assert b'"data_version":1' in (cluster.path / "quorum-state").read_bytes()


def test_metadata_larger_than_the_limit_of_small_files_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = with_topics(tmp_path)
    monkeypatch.setattr(RealFiles.read, "__defaults__", (200,))
    assert (cluster.path / SEGMENT).stat().st_size > 200
    cluster.restart()
    cluster.log.write_snapshot()
    assert only_snapshot(cluster).stat().st_size > 200
    cluster.restart()


def test_snapshot_has_all_records_in_batches_of_a_thousand(tmp_path: Path) -> None:
    path = tmp_path / "snapshot"
    path.write_bytes(encode_snapshot(iter([(NoOpRecord(), 0)] * 2500), [], 1, 0, 0))
    batches = read_snapshot(RealFiles(), str(path))
    assert [len(batch.records) for batch in batches] == [0, 1000, 1000, 500, 0]


def test_write_before_metadata_version_13_is_one_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Kafka has had transactions of metadata since 3.6.
    monkeypatch.setattr(metadata_storage, "MAX_RECORDS_PER_BATCH", 10)
    cluster = Cluster(tmp_path)
    for level, sizes in ((12, [25]), (13, [1, 10, 10, 5, 1])):
        cluster.controller.write([FeatureLevelRecord(name="metadata.version", feature_level=level)])
        cluster.controller.write([allocated(number) for number in range(25)])
        assert [len(batch.records) for batch in batches_of(cluster)[-len(sizes) :]] == sizes


def test_last_snapshot_stays_even_if_it_is_larger_than_the_retention(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    cluster.restart(BrokerConfig({"metadata.max.retention.bytes": "1"}))
    for _ in range(2):
        cluster.controller.allocate_producer_ids()
        cluster.log.write_snapshot()
    assert len(cluster.snapshots()) == 1
    cluster.controller.allocate_producer_ids()
    cluster.restart()
    assert cluster.controller.state.next_producer_id == 3000


def test_snapshots_leave_one_file_open(tmp_path: Path) -> None:
    files = RealFiles()
    cluster = Cluster(tmp_path, files)
    for _ in range(3):
        cluster.controller.allocate_producer_ids()
        cluster.log.write_snapshot()
    cluster.controller.allocate_producer_ids()
    assert [file.path for file in files._open] == [str(segments_of(cluster.path)[-1])]


def test_snapshot_within_a_batch_is_refused(tmp_path: Path) -> None:
    cluster = with_topics(tmp_path)
    data = encode_snapshot(iter([(NoOpRecord(), 0)]), [], 1, 0, 0)
    offset = next(one.base_offset + 1 for one in batches_of(cluster) if one.next_offset > one.base_offset + 1)
    (cluster.path / snapshot_name(SnapshotId(offset, 1))).write_bytes(data)
    assert f"offset {offset} of the snapshot is within a batch" in refusal_of(tmp_path)


def test_lower_epoch_is_refused(tmp_path: Path) -> None:
    cluster = with_topics(tmp_path)
    write_at_end(cluster, encode_records([(NoOpRecord(), 0)], cluster.log.end_offset, 0, 5))
    assert "has epoch 0 after 1" in refusal_of(tmp_path)


def test_damage_at_the_end_of_a_segment_before_others_is_refused(tmp_path: Path) -> None:
    cluster = with_topics(tmp_path)
    cluster.log.write_snapshot()
    cluster.controller.allocate_producer_ids()
    for name in cluster.snapshots():
        (cluster.path / name).unlink()
    first = segments_of(cluster.path)[0]
    first.write_bytes(first.read_bytes()[:-1])
    assert "is damaged, but other segments follow" in refusal_of(tmp_path)


def test_snapshot_without_its_header_is_refused(tmp_path: Path) -> None:
    cluster = with_topics(tmp_path)
    data = encode_controls([SnapshotFooterRecord(version=0)], 0, 1, 0)
    (cluster.path / snapshot_name(SnapshotId(2, 1))).write_bytes(data)
    assert "does not begin with its header" in refusal_of(tmp_path)


def test_snapshot_that_ends_after_its_header_is_refused(tmp_path: Path) -> None:
    cluster = with_topics(tmp_path)
    data = encode_controls([SnapshotHeaderRecord(version=0, last_contained_log_timestamp=5)], 0, 1, 0)
    (cluster.path / snapshot_name(SnapshotId(2, 1))).write_bytes(data)
    assert "it has no footer" in refusal_of(tmp_path)


def test_latest_of_several_snapshots_is_read(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    for _ in range(3):
        cluster.controller.allocate_producer_ids()
        cluster.log.write_snapshot()
    segments_of(cluster.path)[1].write_bytes(b"between two snapshots")
    cluster.restart()
    assert cluster.controller.state.next_producer_id == 3000


def test_first_start_that_was_killed_before_the_first_write_is_repeated(tmp_path: Path) -> None:
    opened(tmp_path)  # makes the directory, and a kill follows
    assert segments_of(tmp_path / DIRECTORY) == []
    cluster = Cluster(tmp_path)
    assert cluster.controller.epoch == 1
    cluster.controller.allocate_producer_ids()
    cluster.restart()
    assert cluster.controller.state.next_producer_id == 1000


def test_snapshot_without_a_segment_is_refused(tmp_path: Path) -> None:
    cluster = with_topics(tmp_path)
    cluster.log.write_snapshot()
    for segment in segments_of(cluster.path):
        segment.unlink()
    text = refusal_of(tmp_path)
    assert f"the segments after the snapshot of offset {cluster.storage.snapshot_offset} are missing" in text


def test_directory_formatted_for_a_dynamic_quorum_begins_with_its_voter(tmp_path: Path) -> None:
    # kafka-storage format --standalone: a snapshot of offset 0 without a segment (KIP-853).
    feature = KRaftVersionFeature(min_supported_version=0, max_supported_version=1)
    voter = Voter(
        voter_id=0, voter_directory_id=bytes(range(16)), endpoints=[], k_raft_version_feature=feature
    )
    controls = [KRaftVersionRecord(version=0, k_raft_version=1), VotersRecord(version=0, voters=[voter])]
    (tmp_path / DIRECTORY).mkdir()
    name = snapshot_name(SnapshotId(0, 0))
    (tmp_path / DIRECTORY / name).write_bytes(encode_snapshot(iter(()), controls, 0, 0, 0))
    cluster = Cluster(tmp_path)
    before = cluster.controller.state.features
    assert cluster.storage.quorum.kraft_version == 1
    cluster.controller.allocate_producer_ids()
    cluster.restart()
    assert cluster.storage.quorum.voters_record == controls[1]
    assert cluster.controller.state.features == before
    assert cluster.controller.state.next_producer_id == 1000
