"""The metadata as Kafka's records: replayed, built for changes, and written in every version."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from random import Random
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pykafka2.broker.base.features import LATEST, SUPPORTED
from pykafka2.broker.base.image import (
    BROKER_RESOURCE,
    FIRST_WITH_ELR,
    TOPIC_RESOURCE,
    UNASSIGNED,
    BrokerImage,
    Endpoint,
    PartitionImage,
    TopicImage,
)
from pykafka2.broker.config.configs import BrokerConfig
from pykafka2.broker.controller import Controller, NewTopic, partition_changes
from pykafka2.broker.controller.control.brokers import Registration, process_heartbeat, register
from pykafka2.broker.controller.control.configs import replaced
from pykafka2.broker.controller.control.delegation_tokens import TokenRequest, create_token, renew_token
from pykafka2.broker.controller.metadata.batches import (
    decode_metadata_record,
    encode_metadata_record,
    versioned,
)
from pykafka2.broker.controller.metadata.image import MetadataImage
from pykafka2.broker.controller.metadata.log import MetadataLog
from pykafka2.broker.controller.metadata.records import (
    acl_record,
    broker_of,
    partition_change,
    quota_record,
    registration_changes,
    registration_of,
    scram_records,
)
from pykafka2.broker.controller.metadata.recovery import check_features
from pykafka2.broker.security.acls import Acl
from pykafka2.broker.security.principal import Principal
from pykafka2.broker.security.scram import KINDS, ScramCredential
from pykafka2.clock import SeededEntropy
from pykafka2.errors import CorruptData
from pykafka2.protocol.messages import metadata_records
from pykafka2.protocol.messages.metadata_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ClientQuotaRecord,
    ConfigRecord,
    EndTransactionRecord,
    EntityData,
    FeatureLevelRecord,
    FenceBrokerRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RemoveAccessControlEntryRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
    UnregisterControllerRecord,
)
from pykafka2.protocol.struct import MetadataRecord
from tests.broker.controller.metadata.metadata_changes import CONFIG, Change, Changes, new_state, shown
from tests.gate import examples

SMALL = st.integers(0, 1000)
CHANGES = st.lists(st.tuples(st.integers(0, 21), SMALL, SMALL), max_size=60)
START = [(operation, broker, broker) for operation in (0, 1) for broker in range(3)]
"""Three brokers register and send heartbeats, so that most changes after that succeed."""
TOPIC_ID, OTHER_ID = bytes(range(16)), bytes(range(1, 17))
ONE, TWO, THREE = (bytes([number] * 16) for number in (1, 2, 3))


class RecordingLog(MetadataLog):
    """A log in memory that keeps what is appended."""

    def __init__(self, state: MetadataImage) -> None:
        super().__init__(state)
        self.written: list[MetadataRecord] = [*state.snapshot()]

    def append(self, records: Sequence[MetadataRecord], epoch: int) -> Mapping[str, TopicImage | None]:
        self.written += records
        return super().append(records, epoch)


def controller_of(log: MetadataLog, number: int = 0) -> Controller:
    return Controller(number, log, CONFIG, SeededEntropy(1), lambda image, changed: None)


def made(changes: list[Change]) -> tuple[Controller, RecordingLog]:
    log = RecordingLog(new_state())
    controller = controller_of(log)
    Changes(controller).make([*START, *changes])
    return controller, log


def through_bytes(record: MetadataRecord, level: int) -> MetadataRecord:
    return decode_metadata_record(encode_metadata_record(*versioned(record, level)), "test")[0]


def replayed(records: Iterable[MetadataRecord], level: int = 30) -> MetadataImage:
    state = new_state(CONFIG, {})
    state.replay([through_bytes(record, level) for record in records], 0)
    return state


def check_restored(changes: list[Change]) -> None:
    controller, log = made(changes)
    from_records = replayed(log.written)
    # Options are in the order of their changes, or of the first one since the last image.
    assert sorted(map(repr, from_records.snapshot())) == sorted(map(repr, controller.state.snapshot()))
    assert shown(from_records) == shown(controller.state)
    assert shown(replayed(from_records.snapshot())) == shown(controller.state)


@settings(max_examples=examples(60), deadline=None)
@given(changes=CHANGES)
def test_metadata_is_restored_from_its_records_and_from_their_snapshot(changes: list[Change]) -> None:
    check_restored(changes)


@pytest.mark.parametrize("seed", range(8))
def test_metadata_is_restored_after_a_hundred_changes(seed: int) -> None:
    random = Random(seed)
    check_restored(
        [(random.randrange(22), random.randrange(1000), random.randrange(1000)) for _ in range(100)]
    )


@settings(max_examples=examples(20), deadline=None)
@given(changes=CHANGES, level=st.integers(7, 33))
def test_metadata_is_restored_from_records_of_every_metadata_version(
    changes: list[Change], level: int
) -> None:
    controller, log = made(changes)
    # Log directories are in the records since 3.7-IV2; brokers register them again. Eligible leader replicas
    # are in them since 4.0-IV1.
    missing = () if level >= FIRST_WITH_ELR else ("elr", "last_known_elr")
    missing += () if level >= 17 else ("directories",)
    found = shown_without(missing, replayed(log.written, level))
    assert found == shown_without(missing, controller.state)


def shown_without(fields: Iterable[str], state: MetadataImage) -> dict[str, Any]:
    """Return what `shown` does, without these fields of partitions and brokers."""
    found = shown(state)
    blank: dict[str, Any] = dict.fromkeys(fields, ())
    if "directories" in blank:
        found["brokers"] = {
            one: attrs.evolve(broker, directories=()) for one, broker in found["brokers"].items()
        }
    found["topics"] = {
        name: (topic_id, tuple(attrs.evolve(one, **blank) for one in partitions), *rest)
        for name, (topic_id, partitions, *rest) in found["topics"].items()
    }
    return found


@settings(max_examples=examples(30), deadline=None)
@given(changes=CHANGES)
def test_images_of_before_are_not_changed_by_later_records(changes: list[Change]) -> None:
    log = MetadataLog(new_state())
    controller = controller_of(log)
    maker = Changes(controller)
    images = []
    for change in [*START, *changes]:
        images.append((log.state.image, attrs.astuple(log.state.image, recurse=False), repr(log.state.image)))
        maker.make_one(change)
    for image, fields, text in images:
        assert attrs.astuple(image, recurse=False) == fields
        assert repr(image) == text


# ---------------------------------------------------------------------- brokers


def registered(broker_id: int, *, epoch: int = 5, **fields: object) -> BrokerImage:
    endpoints = (Endpoint("PLAINTEXT", "host", 9092), Endpoint("SSL", "host", 9093, 1))
    image = BrokerImage(broker_id, "host", 9092, None, epoch, is_fenced=False, endpoints=endpoints)
    return attrs.evolve(image, incarnation_id=ONE, **fields)


@pytest.mark.parametrize(
    "fields",
    [
        {"is_fenced": True},
        {"is_shutting_down": True, "rack": "a", "directories": (ONE, TWO)},
    ],
    ids=["fenced", "shutting down"],
)
def test_registration_has_every_field_of_its_broker(fields: dict[str, Any]) -> None:
    broker = registered(3, **fields)
    record = registration_of(broker)
    assert broker_of(record) == broker
    levels = {one.name: (one.min_supported_version, one.max_supported_version) for one in record.features}
    assert levels == {name: (one.lowest, one.highest) for name, one in SUPPORTED.items()}
    assert "metadata.version" in levels


def test_broker_without_endpoints_registers_its_address_as_plaintext() -> None:
    broker = broker_of(registration_of(registered(3, endpoints=())))
    assert (broker.host, broker.port) == ("host", 9092)
    assert broker.endpoints == (Endpoint("PLAINTEXT", "host", 9092),)


def test_fencing_leaves_the_record_of_the_registration_unchanged() -> None:
    state = new_state()
    records = [registration_of(registered(number)) for number in (1, 2)]
    state.replay([*records, FenceBrokerRecord(id=1, epoch=5)], 0)
    assert [one.fenced for one in records] == [False, False]
    assert {number: one.is_fenced for number, one in state.image.brokers.items()} == {1: True, 2: False}


def test_controlled_shutdown_is_ended_by_a_whole_registration() -> None:
    state = new_state()
    for broker_id in (0, 1):
        state.replay(registration_changes(registered(broker_id), None), 0)
        leaving = registered(broker_id, is_shutting_down=True)
        [begins] = registration_changes(leaving, state.registrations[broker_id])
        state.replay([begins], 0)
        assert begins == BrokerRegistrationChangeRecord(
            broker_id=broker_id, broker_epoch=5, in_controlled_shutdown=1
        )
    assert [state.brokers[one].is_shutting_down for one in (0, 1)] == [True, True]
    [ends] = registration_changes(registered(0), state.registrations[0])
    assert isinstance(ends, RegisterBrokerRecord)
    state.replay([ends], 1)
    assert [state.image.brokers[one].is_shutting_down for one in (0, 1)] == [False, True]


def test_changed_broker_keeps_fields_of_apache_kafka_until_it_registers_again() -> None:
    state = new_state()
    for broker_id in (0, 1):
        [record] = registration_changes(registered(broker_id, directories=(ONE, TWO)), None)
        assert isinstance(record, RegisterBrokerRecord)
        record.cordoned_log_dirs, record.is_migrating_zk_broker = [ONE], True
        state.replay([record], 0)
    fenced = registered(0, directories=(TWO,), is_fenced=True)
    state.replay(registration_changes(fenced, state.registrations[0]), 1)
    again = registered(1, epoch=6, directories=(ONE, TWO))
    state.replay(registration_changes(again, state.registrations[1]), 2)
    assert state.image.brokers == {0: fenced, 1: again}
    assert state.registrations[0].cordoned_log_dirs == [ONE]
    assert state.registrations[0].is_migrating_zk_broker
    assert state.registrations[1].cordoned_log_dirs is None
    assert not state.registrations[1].is_migrating_zk_broker


def test_changes_of_registrations_by_apache_kafka_are_replayed() -> None:
    state = new_state()
    for broker_id in (0, 1):
        broker = registered(broker_id, rack=f"rack-{broker_id}", directories=(ONE, TWO))
        state.replay(registration_changes(broker, None), 0)
    before = dict(state.image.brokers)
    assert [broker.rack for broker in before.values()] == ["rack-0", "rack-1"]

    def after(**fields: Any) -> BrokerImage:
        state.replay([BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=5, **fields)], 1)
        assert state.image.brokers[0] == before[0]
        return state.image.brokers[1]

    assert after(fenced=1) == attrs.evolve(before[1], is_fenced=True)
    assert after() == attrs.evolve(before[1], is_fenced=True)
    assert after(fenced=-1) == before[1]
    assert after(log_dirs=[TWO]) == attrs.evolve(before[1], directories=(TWO,))
    after(cordoned_log_dirs=[TWO])
    assert (state.registrations[0].cordoned_log_dirs, state.registrations[1].cordoned_log_dirs) == (
        None,
        [TWO],
    )
    after(cordoned_log_dirs=[])
    assert state.registrations[1].cordoned_log_dirs == []
    state.replay([FenceBrokerRecord(id=0, epoch=5)], 2)
    assert [broker.is_fenced for broker in state.image.brokers.values()] == [True, False]
    state.replay([UnfenceBrokerRecord(id=0, epoch=5)], 3)
    assert state.image.brokers[0] == before[0]


def test_registration_that_changes_nothing_has_no_record() -> None:
    [record] = registration_changes(registered(0), None)
    assert isinstance(record, RegisterBrokerRecord)
    assert registration_changes(registered(0), record) == []


def test_registered_controllers_stay_in_snapshots_until_they_are_unregistered() -> None:
    state = new_state()
    controllers = [
        RegisterControllerRecord(
            controller_id=number,
            incarnation_id=ONE,
            zk_migration_ready=False,
            end_points=[],
            features=[],
        )
        for number in (3000, 3001)
    ]
    state.replay(controllers, 0)
    assert [
        record for record in state.snapshot() if isinstance(record, RegisterControllerRecord)
    ] == controllers
    state.replay([UnregisterControllerRecord(controller_id=number) for number in (3000, 3002)], 1)
    assert [*state.controllers] == [3001]


# ---------------------------------------------------------------------- topics and partitions


def partition(number: int = 0, **fields: object) -> PartitionRecord:
    values: dict[str, object] = {
        "partition_id": number,
        "topic_id": TOPIC_ID,
        "replicas": [0, 1],
        "isr": [0, 1],
        "removing_replicas": [],
        "adding_replicas": [],
        "leader": 0,
        "leader_epoch": 4,
        "partition_epoch": 7,
        "directories": [ONE, TWO],
    }
    return PartitionRecord(**{**values, **fields})  # type: ignore[arg-type]


def with_partitions(*partitions: PartitionRecord) -> MetadataImage:
    state = new_state()
    state.replay([TopicRecord(name="t", topic_id=TOPIC_ID), *partitions], 0)
    return state


def changed(state: MetadataImage, number: int, **fields: object) -> MetadataRecord:
    """Return the record of a change, and replays it; its image must be the wanted one."""
    before = state.topics["t"].partitions[number]
    after = attrs.evolve(before, **fields)
    record = partition_change(TOPIC_ID, number, before, after, state.extras.get((TOPIC_ID, number), {}))
    state.replay([through_bytes(record, 30)], 0)
    assert state.image.topics["t"].partitions[number] == after
    return record


def test_shrunk_isr_is_a_change_record_with_the_isr_alone() -> None:
    state = with_partitions(partition(0), partition(1))
    assert changed(state, 1, isr=(0,), partition_epoch=8) == PartitionChangeRecord(
        partition_id=1, topic_id=TOPIC_ID, isr=[0]
    )
    assert state.topics["t"].partitions[0].isr == (0, 1)


@pytest.mark.parametrize("leader", [0, 1, -1])
def test_change_with_a_new_leader_epoch_names_the_leader_even_if_it_stays(leader: int) -> None:
    state = with_partitions(partition(0), partition(1))
    record = changed(state, 1, leader=leader, leader_epoch=5, partition_epoch=8)
    assert record == PartitionChangeRecord(partition_id=1, topic_id=TOPIC_ID, leader=leader)
    assert state.topics["t"].partitions[0].leader_epoch == 4


@pytest.mark.parametrize(
    "epochs",
    [(6, 9), (5, 9), (4, 9), (6, 8), (5, 7), (4, 6), (3, 8)],
)
@pytest.mark.parametrize("leader", [0, 1])
def test_partition_with_other_epochs_than_a_change_makes_is_written_whole(
    epochs: tuple[int, int], leader: int
) -> None:
    state = with_partitions(partition(0), partition(1))
    record = changed(state, 0, leader=leader, leader_epoch=epochs[0], partition_epoch=epochs[1])
    assert isinstance(record, PartitionRecord)
    assert (record.leader, record.leader_epoch, record.partition_epoch) == (leader, *epochs)
    assert (
        state.topics["t"].partitions[1].leader_epoch,
        state.topics["t"].partitions[1].partition_epoch,
    ) == (4, 7)


def test_leader_without_a_new_leader_epoch_is_written_whole() -> None:
    assert isinstance(changed(with_partitions(partition()), 0, leader=1, partition_epoch=8), PartitionRecord)


def test_reassignment_is_a_change_record() -> None:
    state = with_partitions(partition(0), partition(1))
    record = changed(
        state,
        0,
        replicas=(2, 0, 1),
        adding=(2,),
        removing=(0,),
        directories=(UNASSIGNED, ONE, TWO),
        partition_epoch=8,
    )
    assert record == PartitionChangeRecord(
        partition_id=0, topic_id=TOPIC_ID, replicas=[2, 0, 1], adding_replicas=[2], removing_replicas=[0]
    )
    record = changed(
        state,
        0,
        replicas=(2, 1),
        isr=(1, 2),
        adding=(),
        removing=(),
        leader=1,
        leader_epoch=5,
        directories=(THREE, TWO),
        partition_epoch=9,
    )
    assert isinstance(record, PartitionChangeRecord)
    assert record.directories == [THREE, TWO]


def test_directories_follow_their_replicas() -> None:
    state = with_partitions(partition(0), partition(1, directories=[UNASSIGNED, TWO]))
    first, second = state.topics["t"].partitions
    assert (first.directories_of((1, 2, 0)), second.directories_of((1, 2, 0))) == (
        (TWO, UNASSIGNED, ONE),
        (TWO, UNASSIGNED, UNASSIGNED),
    )
    change = PartitionChangeRecord(partition_id=1, topic_id=TOPIC_ID, replicas=[1, 2, 0])
    state.replay([change], 1)
    assert [one.directories for one in state.topics["t"].partitions] == [
        (ONE, TWO),
        (TWO, UNASSIGNED, UNASSIGNED),
    ]
    # An empty list counts as none, as in Kafka.
    state.replay([PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, directories=[])], 2)
    assert state.topics["t"].partitions[0].directories == (ONE, TWO)
    record = changed(state, 1, directories=(TWO, THREE, UNASSIGNED), partition_epoch=9)
    assert isinstance(record, PartitionChangeRecord)
    assert record.directories == [TWO, THREE, UNASSIGNED]
    written = [one.directories for one in state.snapshot() if isinstance(one, PartitionRecord)]
    assert written == [[ONE, TWO], [TWO, THREE, UNASSIGNED]]


def test_eligible_leader_replicas_are_kept_in_snapshots_and_changed_with_the_isr() -> None:
    records = [
        partition(number, isr=[0], eligible_leader_replicas=[1], last_known_elr=[1], leader_recovery_state=1)
        for number in (0, 1)
    ]
    state = with_partitions(*records)
    assert [one for one in state.snapshot() if isinstance(one, PartitionRecord)] == records
    assert [(one.elr, one.last_known_elr) for one in state.topics["t"].partitions] == [((1,), (1,))] * 2
    kept = changed(state, 0, isr=(0, 1), partition_epoch=8)
    assert kept == PartitionChangeRecord(
        partition_id=0, topic_id=TOPIC_ID, isr=[0, 1], leader_recovery_state=0
    )
    record = changed(state, 1, isr=(0, 1), elr=(), last_known_elr=(), partition_epoch=8)
    assert record == PartitionChangeRecord(
        partition_id=1,
        topic_id=TOPIC_ID,
        isr=[0, 1],
        leader_recovery_state=0,
        eligible_leader_replicas=[],
        last_known_elr=[],
    )
    assert [one.elr for one in state.topics["t"].partitions] == [(1,), ()]


def test_changes_of_apache_kafka_set_and_clear_eligible_leader_replicas() -> None:
    state = with_partitions(partition(0), partition(1))

    def eligible() -> list[tuple[int, ...]]:
        return [one.elr for one in state.image.topics["t"].partitions]

    sets = [
        PartitionChangeRecord(partition_id=number, topic_id=TOPIC_ID, isr=[0], eligible_leader_replicas=[1])
        for number in (0, 1)
    ]
    state.replay(sets, 1)
    assert eligible() == [(1,), (1,)]
    state.replay([PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, eligible_leader_replicas=[])], 2)
    assert eligible() == [(), (1,)]
    state.replay([ClearElrRecord(topic_name="other")], 3)
    assert eligible() == [(), (1,)]
    state.replay([ClearElrRecord(topic_name="t")], 4)
    assert eligible() == [(), ()]
    state.replay([*sets, ClearElrRecord(topic_name="")], 5)
    assert eligible() == [(), ()]


def test_directories_from_before_they_were_written_stay_empty_until_the_next_change() -> None:
    old = [partition(0, directories=[]), partition(1, directories=[])]
    state = with_partitions(*old)
    state.replay(registration_changes(registered(1, directories=(TWO,)), None), 1)
    assert [one for one in state.snapshot() if isinstance(one, PartitionRecord)] == old
    topic = state.topics["t"]
    shrunk = attrs.evolve(topic.partitions[0], isr=(0,), partition_epoch=8)
    record = partition_changes.changed(state, topic, 0, shrunk)
    assert isinstance(record, PartitionChangeRecord)
    assert record.directories == [UNASSIGNED, TWO]
    state.replay([record], 2)
    assert [one.directories for one in state.image.topics["t"].partitions] == [(UNASSIGNED, TWO), ()]


def test_internal_topics_are_known_by_their_names() -> None:
    state = new_state()
    names = ["__consumer_offsets", "t", "__transaction_state", "__other"]
    records = [TopicRecord(name=name, topic_id=bytes([number] * 16)) for number, name in enumerate(names, 1)]
    state.replay(records, 0)
    assert {name: topic.is_internal for name, topic in state.image.topics.items()} == {
        "__consumer_offsets": True,
        "t": False,
        "__transaction_state": True,
        "__other": False,
    }


def test_deleted_topic_leaves_nothing_to_a_topic_of_its_name() -> None:
    state = with_partitions(partition(0, eligible_leader_replicas=[1]), partition(1))
    again = partition(0, topic_id=OTHER_ID)
    records = [RemoveTopicRecord(topic_id=TOPIC_ID), TopicRecord(name="t", topic_id=OTHER_ID), again]
    state.replay(records, 1)
    assert (state.extras, state.next_host) == ({}, 1)
    assert state.replay([RemoveTopicRecord(topic_id=OTHER_ID)], 2) == {"t": None}
    state.replay([TopicRecord(name="t", topic_id=OTHER_ID), again], 3)
    assert [one for one in state.snapshot() if isinstance(one, PartitionRecord)] == [again]


def test_records_of_the_log_itself_are_corrupt_data_in_the_metadata() -> None:
    """The replay of the log handles those of transactions; no other type is left out."""
    state = new_state()
    every = [
        one
        for one in vars(metadata_records).values()
        if isinstance(one, type) and one.__base__ is MetadataRecord
    ]
    unknown = {one for one in every if one not in state._appliers}
    assert unknown == {BeginTransactionRecord, EndTransactionRecord, AbortTransactionRecord}
    for record in (EndTransactionRecord(), AbortTransactionRecord(reason=None)):
        with pytest.raises(CorruptData, match=f"{record.NAME} is not expected here"):
            state.apply(record)


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
        new_state().apply(record)


@pytest.mark.parametrize(("name", "topic_id"), [("t", OTHER_ID), ("other", TOPIC_ID)])
def test_second_topic_of_a_name_or_an_id_is_corrupt_data(name: str, topic_id: bytes) -> None:
    with pytest.raises(CorruptData, match=f"topic '{name}' with id .* is created twice"):
        with_partitions(partition(0)).apply(TopicRecord(name=name, topic_id=topic_id))


def test_option_of_a_deleted_topic_is_left_out() -> None:
    state = with_partitions(partition(0))
    records = [RemoveTopicRecord(topic_id=TOPIC_ID), topic_option("t", "retention.ms", "1")]
    state.replay([*records, topic_option("never", "retention.ms", "1")], 1)
    assert [one for one in state.snapshot() if isinstance(one, ConfigRecord)] == []


def test_missing_partition_is_corrupt_data() -> None:
    with pytest.raises(CorruptData, match=r"topic 't' has the partitions \[1\]"):
        with_partitions(partition(1))


def test_negative_partition_is_corrupt_data() -> None:
    with pytest.raises(CorruptData, match=r"topic 't' has the partitions \[-1, 0\]"):
        with_partitions(partition(0), partition(-1))


def test_other_number_of_directories_than_replicas_is_corrupt_data() -> None:
    """Kafka's PartitionRegistration rejects it as well."""
    with pytest.raises(CorruptData, match="partition t-1 has another number of directories than of replicas"):
        with_partitions(partition(0), partition(1, directories=[ONE]))
    state = with_partitions(partition(0), partition(1))
    with pytest.raises(CorruptData, match="partition t-1 has another number of directories"):
        state.apply(
            PartitionChangeRecord(
                partition_id=1, topic_id=TOPIC_ID, replicas=[0], isr=[0], directories=[ONE, TWO]
            )
        )


@pytest.mark.parametrize("number", [-1, 2])
def test_change_of_a_missing_partition_is_corrupt_data(number: int) -> None:
    with pytest.raises(CorruptData, match=f"partition t-{number} changes, but does not exist"):
        with_partitions(partition(0), partition(1)).apply(
            PartitionChangeRecord(partition_id=number, topic_id=TOPIC_ID)
        )


# ---------------------------------------------------------------------- options


@pytest.mark.parametrize("is_reversed", [False, True])
def test_quota_of_an_entity_is_found_in_any_order_of_its_parts(is_reversed: bool) -> None:
    user, client = (EntityData(entity_type=kind, entity_name="a") for kind in ("user", "client-id"))
    records = [
        ClientQuotaRecord(entity=entity, key=key, value=1.0, remove=remove)
        for entity, key, remove in (
            ([user, client], "producer_byte_rate", False),
            ([user, client], "consumer_byte_rate", False),
            ([client, user], "producer_byte_rate", True),
        )
    ]
    for record in records:
        record.entity = record.entity[::-1] if is_reversed else record.entity
    state = new_state()
    state.replay(records, 0)
    assert [*state.image.quotas.values()] == [{"consumer_byte_rate": 1.0}]


def topic_option(topic: str, name: str, value: str | None) -> ConfigRecord:
    return ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name=topic, name=name, value=value)


def all_brokers(name: str, value: str | None) -> ConfigRecord:
    return ConfigRecord(resource_type=BROKER_RESOURCE, resource_name="", name=name, value=value)


def test_options_of_all_brokers_are_the_defaults_of_topics_from_before_and_after() -> None:
    config = BrokerConfig(None, made={})
    state = new_state(config)
    state.replay([TopicRecord(name="before", topic_id=ONE), topic_option("before", "retention.ms", "7")], 0)
    for number, value in enumerate(("1000", "2000", None), 1):
        records: list[MetadataRecord] = [
            all_brokers(name, value) for name in ("log.retention.ms", "log.flush.interval.ms")
        ]
        after = f"after-{number}"
        state.replay([*records, TopicRecord(name=after, topic_id=bytes([number] * 15 + [9]))], number)
        found = {
            name: (topic.config.get("retention.ms"), topic.config.get("flush.ms"))
            for name, topic in state.image.topics.items()
        }
        defaults = tuple(config.get(name) for name in ("log.retention.ms", "log.flush.interval.ms"))
        assert found["before"] == (7, defaults[1])
        assert found[after] == defaults
        assert defaults == (
            (int(value),) * 2
            if value
            else tuple(
                BrokerConfig(None, made={}).get(name)
                for name in ("log.retention.ms", "log.flush.interval.ms")
            )
        )


def test_metadata_before_the_first_record_has_the_cluster_and_its_first_host() -> None:
    state = with_partitions(partition(0), partition(1))
    state.first_host = 2
    assert state.next_host == 4
    empty = state.empty()
    assert (empty.next_host, empty.image.cluster_id, [*empty.snapshot()]) == (2, state.image.cluster_id, [])


def test_removed_options_of_topics_and_brokers_have_records_without_a_value() -> None:
    log = MetadataLog(new_state())
    controller = controller_of(log)
    controller.register_broker(0, "host", 9092, None)
    for name in ("a", "b"):
        controller.create_topic(NewTopic(name, 1, 1, {"retention.ms": "1", "flush.ms": "2"}))
    for name in ("0", "1"):
        controller.write(replaced(controller, BROKER_RESOURCE, name, {"background.threads": "3"}))
    kept = {"flush.ms": "2", "max.message.bytes": "4"}
    records = replaced(controller, TOPIC_RESOURCE, "a", kept)
    records += replaced(controller, BROKER_RESOURCE, "0", {})
    assert [(one.resource_name, one.name, one.value) for one in records if isinstance(one, ConfigRecord)] == [
        ("a", "max.message.bytes", "4"),
        ("a", "retention.ms", None),
        ("0", "background.threads", None),
    ]
    controller.write(records)
    assert {name: topic.config.overrides for name, topic in controller.image.topics.items()} == {
        "a": kept,
        "b": {"retention.ms": "1", "flush.ms": "2"},
    }
    assert controller.image.configs == {(BROKER_RESOURCE, "1"): {"background.threads": "3"}}


# ---------------------------------------------------------------------- features


def test_features_of_other_releases_stay_in_the_log_but_not_in_the_image() -> None:
    state = new_state(CONFIG, {})
    state.replay(
        [
            FeatureLevelRecord(name="streams.version", feature_level=1),
            FeatureLevelRecord(name="metadata.version", feature_level=29),
        ],
        0,
    )
    assert state.image.features == {"metadata.version": 29}
    assert [record.name for record in state.snapshot() if isinstance(record, FeatureLevelRecord)] == [
        "metadata.version",
        "streams.version",
    ]


def test_newer_metadata_version_is_corrupt_data_with_the_supported_versions() -> None:
    state = new_state(CONFIG, {})
    state.replay([FeatureLevelRecord(name="metadata.version", feature_level=34)], 0)
    with pytest.raises(
        CorruptData, match=r"metadata.version is 34, and this release supports versions 7 to 33"
    ):
        check_features(state)


# ---------------------------------------------------------------------- tokens


def test_tokens_keep_their_hmac_and_salts_under_later_controllers() -> None:
    log = MetadataLog(new_state())
    controller = controller_of(log)
    entropy = SeededEntropy("tokens")
    owner = Principal("User", "ann")
    tokens = [
        create_token(controller, CONFIG, entropy, TokenRequest(owner, owner, [], 0), 1_000) for _ in range(2)
    ]
    credentials = [[token.credentials.of(kind) for kind in KINDS.values()] for token in tokens]
    assert tokens[0].hmac != tokens[1].hmac
    assert credentials[0][0].salt != credentials[1][0].salt
    later = controller_of(log, 1)
    renew_token(later, CONFIG, tokens[0].hmac, owner, 5_000, 2_000)
    last = controller_of(log, 2)
    for token, made_before in zip(tokens, credentials, strict=True):
        found = last.image.tokens[token.id]
        assert found.hmac == token.hmac
        assert [found.credentials.of(kind) for kind in KINDS.values()] == made_before
    assert last.image.tokens[tokens[0].id].expires_at_ms == 7_000


def test_tokens_without_a_secret_key_are_not_usable_but_stay_in_snapshots() -> None:
    log = RecordingLog(new_state())
    controller = controller_of(log)
    owner = Principal("User", "ann")
    entropy = SeededEntropy("tokens")
    for _ in range(2):
        create_token(controller, CONFIG, entropy, TokenRequest(owner, owner, [], 0), 1_000)
    state = new_state(BrokerConfig(), {})
    state.replay(log.written, 0)
    assert state.image.tokens == {}
    assert [*state.snapshot()] == [*controller.state.snapshot()]


# ---------------------------------------------------------------------- removals


def test_removal_records_remove_one_of_two() -> None:
    state = new_state()
    users = {name: (("user", name),) for name in ("ann", "bob")}
    acls = {name: Acl(2, name, 3, "User:x", "*", 3, 2) for name in users}
    ids = {"ann": ONE, "bob": TWO}
    sha256, sha512 = KINDS.values()
    credential = ScramCredential(b"salt", b"stored", b"server", 4096)
    for name, entity in users.items():
        state.replay(
            [quota_record(entity, key, 5.0) for key in ("producer_byte_rate", "consumer_byte_rate")], 0
        )
        state.replay([acl_record(ids[name], acls[name])], 0)
        state.replay(scram_records(name, {sha256: credential, sha512: credential}), 0)
    for number in (0, 1):
        state.replay(registration_changes(registered(number), None), 0)
    state.replay(
        [
            quota_record(users["ann"], "producer_byte_rate", None),
            RemoveAccessControlEntryRecord(id=ONE),
            RemoveUserScramCredentialRecord(name="ann", mechanism=int(sha256)),
            UnregisterBrokerRecord(broker_id=0, broker_epoch=5),
            FeatureLevelRecord(name="transaction.version", feature_level=0),
        ],
        1,
    )
    image = state.image
    both = {"producer_byte_rate": 5.0, "consumer_byte_rate": 5.0}
    assert image.quotas == {users["ann"]: {"consumer_byte_rate": 5.0}, users["bob"]: both}
    assert image.acls == {acls["bob"]: TWO}
    assert {name: [*kinds] for name, kinds in image.scram_users.items()} == {
        "ann": [sha512],
        "bob": [sha256, sha512],
    }
    assert ([*image.brokers], [*state.registrations]) == ([1], [1])
    assert image.features == {name: level for name, level in LATEST.items() if name != "transaction.version"}
    state.replay(
        [
            quota_record(users["ann"], "consumer_byte_rate", None),
            RemoveUserScramCredentialRecord(name="ann", mechanism=int(sha512)),
        ],
        2,
    )
    assert ([*state.image.quotas], [*state.image.scram_users]) == ([users["bob"]], ["bob"])


# ---------------------------------------------------------------------- writes


def test_change_that_changes_nothing_is_not_written() -> None:
    log = MetadataLog(new_state())
    controller = controller_of(log)
    for number in (0, 1):
        endpoints = (Endpoint("PLAINTEXT", "host", 9092 + number),)
        epoch = register(controller, Registration(number, endpoints, None, bytes([number + 1] * 16)))
        process_heartbeat(controller, number, epoch, log.end_offset, want_fence=False, want_shut_down=False)
    controller.create_topic(NewTopic("t", 2, 2))
    image = controller.image
    for broker in [*image.brokers.values()]:
        controller.set_broker(broker)
    assert controller.image is image


def test_partition_is_created_with_its_brokers_only_directory() -> None:
    log = MetadataLog(new_state())
    controller = controller_of(log)
    directories = {0: (ONE,), 1: (TWO, THREE)}
    for number, known in directories.items():
        endpoints = (Endpoint("PLAINTEXT", "host", 9092 + number),)
        epoch = register(controller, Registration(number, endpoints, None, bytes([number + 1] * 16), known))
        process_heartbeat(controller, number, epoch, log.end_offset, want_fence=False, want_shut_down=False)
    controller.create_topic(NewTopic("t", 2, 2))
    for created in controller.image.topics["t"].partitions:
        assert isinstance(created, PartitionImage)
        assert [created.directory_of(broker) for broker in (0, 1)] == [ONE, UNASSIGNED]
