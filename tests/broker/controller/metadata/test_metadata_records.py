"""Conversion between the controller's state and Kafka's metadata records."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykafka2.broker.base.image import PartitionImage
from pykafka2.broker.config.configs import BrokerConfig
from pykafka2.broker.controller import Controller
from pykafka2.broker.controller.metadata.batches import decode_metadata_record, encode_metadata_record
from pykafka2.broker.controller.metadata.from_metadata import records_of
from pykafka2.broker.controller.metadata.image import MetadataImage
from pykafka2.broker.controller.metadata.log import MetadataLog
from pykafka2.broker.controller.metadata.partitions import versioned
from pykafka2.broker.controller.metadata.records import FeatureSet, PartitionSet, Record, TopicCreated
from pykafka2.broker.controller.metadata.state import State
from pykafka2.broker.controller.metadata.to_metadata import Converter
from pykafka2.clock import SeededEntropy
from pykafka2.errors import CorruptData
from pykafka2.protocol.messages.metadata_records import (
    FeatureLevelRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from pykafka2.protocol.struct import MetadataRecord
from tests.broker.controller.metadata.metadata_changes import (
    CONFIG,
    DIRECTORIES,
    SECRET_KEY,
    Change,
    Changes,
    shown,
)
from tests.gate import examples

SMALL = st.integers(0, 1000)
CHANGES = st.lists(st.tuples(st.integers(0, 21), SMALL, SMALL), max_size=60)
TOPIC_ID = bytes(range(16))


class RecordingLog(MetadataLog):
    """A log in memory that converts what is appended."""

    def __init__(self, state: State) -> None:
        super().__init__(state)
        self.converter = Converter(MetadataImage(), DIRECTORIES.__getitem__)
        self.written: list[MetadataRecord] = self.converter.convert(
            FeatureSet(name, level) for name, level in state.features.items()
        )

    def append(self, records: list[Record], epoch: int) -> int:  # type: ignore[override]
        self.written += self.converter.convert(records)
        return super().append(records, epoch)


def made(changes: list[Change]) -> tuple[Controller, RecordingLog]:
    log = RecordingLog(State("cluster", BrokerConfig()))
    controller = Controller(0, log, CONFIG, SeededEntropy(1), lambda image, changed: None)
    Changes(controller).make(changes)
    return controller, log


def through_bytes(record: MetadataRecord, level: int) -> MetadataRecord:
    return decode_metadata_record(encode_metadata_record(*versioned(record, level)), "test")[0]


def restored(image: MetadataImage) -> State:
    state = State("cluster", BrokerConfig(), {})
    state.replay(records_of(image, SECRET_KEY, SeededEntropy(2)), 0)
    return state


@settings(max_examples=examples(60), deadline=None)
@given(changes=CHANGES)
def test_state_is_restored_from_records_and_from_their_snapshot(changes: list[Change]) -> None:
    controller, log = made(changes)
    replayed = MetadataImage()
    for record in log.written:
        replayed.replay(through_bytes(record, 30))
    assert [*replayed.snapshot()] == [*log.converter.image.snapshot()]
    assert shown(restored(replayed)) == shown(controller.state)

    from_snapshot = MetadataImage()
    for record in replayed.snapshot():
        from_snapshot.replay(through_bytes(record, 30))
    assert shown(restored(from_snapshot)) == shown(controller.state)


@settings(max_examples=examples(20), deadline=None)
@given(changes=CHANGES, level=st.integers(7, 30))
def test_state_is_restored_from_records_of_every_metadata_version(changes: list[Change], level: int) -> None:
    controller, log = made(changes)
    image = MetadataImage()
    for record in log.written:
        image.replay(through_bytes(record, level))
    # Log directories are in the records since 3.7-IV2; brokers register them again.
    show = shown if level >= 17 else shown_without_directories
    assert show(restored(image)) == show(controller.state)


def shown_without_directories(state: State) -> dict[str, Any]:
    found = shown(state)
    found["brokers"] = {one: attrs.evolve(broker, directories=()) for one, broker in found["brokers"].items()}
    found["topics"] = {
        name: (topic_id, tuple(attrs.evolve(one, directories=()) for one in partitions), *rest)
        for name, (topic_id, partitions, *rest) in found["topics"].items()
    }
    return found


def with_partition(partition: PartitionRecord) -> Converter:
    image = MetadataImage()
    image.replay(TopicRecord(name="t", topic_id=TOPIC_ID))
    image.replay(partition)
    return Converter(image, lambda broker_id: [bytes([broker_id + 1] * 16)])


def partition(**fields: object) -> PartitionRecord:
    values: dict[str, object] = {
        "partition_id": 0,
        "topic_id": TOPIC_ID,
        "replicas": [0, 1],
        "isr": [0, 1],
        "removing_replicas": [],
        "adding_replicas": [],
        "leader": 0,
        "leader_epoch": 4,
        "partition_epoch": 7,
        "directories": [bytes([1] * 16), bytes([2] * 16)],
    }
    return PartitionRecord(**{**values, **fields})  # type: ignore[arg-type]


def test_shrunk_isr_is_a_change_record_with_the_isr_alone() -> None:
    converter = with_partition(partition())
    [change] = converter.convert([PartitionSet("t", 0, PartitionImage((0, 1), (0,), 0, 4, 8))])
    assert change == PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, isr=[0])


def test_partition_that_moves_by_two_epochs_is_written_whole() -> None:
    converter = with_partition(partition())
    [record] = converter.convert([PartitionSet("t", 0, PartitionImage((0, 1), (1,), 1, 6, 9))])
    assert isinstance(record, PartitionRecord)
    assert (record.leader, record.leader_epoch, record.partition_epoch) == (1, 6, 9)


def test_eligible_leader_replicas_are_cleared_with_the_next_change() -> None:
    converter = with_partition(partition(eligible_leader_replicas=[1], isr=[0]))
    [change] = converter.convert([PartitionSet("t", 0, PartitionImage((0, 1), (0, 1), 0, 4, 8))])
    assert isinstance(change, PartitionChangeRecord)
    assert change.eligible_leader_replicas == []
    assert converter.image.partitions[TOPIC_ID][0].eligible_leader_replicas is None


def test_directory_of_a_kept_replica_stays_and_a_new_one_gets_its_brokers_directory() -> None:
    converter = with_partition(partition())
    converter.convert([PartitionSet("t", 0, PartitionImage((1, 2), (1,), 1, 5, 8))])
    assert converter.image.partitions[TOPIC_ID][0].directories == [bytes([2] * 16), bytes([3] * 16)]


def test_write_that_changes_nothing_is_a_noop_record() -> None:
    assert Converter(MetadataImage()).convert([]) == [NoOpRecord()]


def test_features_of_other_releases_stay_in_the_log_but_not_in_the_state() -> None:
    image = MetadataImage()
    image.replay(FeatureLevelRecord(name="streams.version", feature_level=1))
    image.replay(FeatureLevelRecord(name="metadata.version", feature_level=29))
    assert restored(image).features == {"metadata.version": 29}
    assert [record.name for record in image.snapshot() if isinstance(record, FeatureLevelRecord)] == [
        "metadata.version",
        "streams.version",
    ]


def test_newer_metadata_version_is_corrupt_data_with_the_supported_versions() -> None:
    image = MetadataImage()
    image.replay(FeatureLevelRecord(name="metadata.version", feature_level=34))
    with pytest.raises(
        CorruptData, match=r"metadata.version is 34, and this release supports versions 7 to 33"
    ):
        restored(image)


@pytest.mark.parametrize(
    "record",
    [
        RemoveTopicRecord(topic_id=TOPIC_ID),
        partition(),
        PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID),
    ],
    ids=lambda record: type(record).__name__,
)
def test_record_of_an_unknown_topic_is_corrupt_data(record: MetadataRecord) -> None:
    with pytest.raises(CorruptData, match="there is no topic with id"):
        MetadataImage().replay(record)


def test_missing_partition_is_corrupt_data() -> None:
    converter = Converter(MetadataImage())
    converter.convert([TopicCreated("t", TOPIC_ID, {}), PartitionSet("t", 1, PartitionImage((0,), (0,), 0))])
    with pytest.raises(CorruptData, match=r"topic 't' has the partitions \[1\]"):
        restored(converter.image)
