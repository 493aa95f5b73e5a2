"""A share consumer against the bundled broker: poll, acknowledge, commit, close."""

from __future__ import annotations

import pickle
import threading
from contextlib import suppress
from typing import Any

import pytest

from pykafka2 import AcknowledgeType, BadRecord, KafkaShareConsumer, Reject, ShareRecord, TopicPartition
from pykafka2.errors import (
    ClientClosed,
    ConcurrentUse,
    ConfigurationError,
    IllegalArgument,
    IllegalState,
    InvalidRecordState,
    KafkaError,
    SerializationError,
    UnsupportedVersion,
)
from pykafka2.share.options import SHARE_CONSUMER_OPTIONS, ShareConsumerConfig
from pykafka2.testing import KafkaCluster
from tests.share.world import QUICK, TOPICS, configure, consumer, fill, identity, take, wait_for_fetches

quick = pytest.mark.kafka(brokers=2, topics=TOPICS, config=QUICK)


def states(cluster: KafkaCluster, topic: str) -> dict[str, int]:
    """Return how many records of a topic are in each state."""
    found: dict[str, int] = {}
    for place, view in cluster.share_group("g").partitions.items():
        if place.topic == topic:
            for record in view.records.values():
                found[record.state] = found.get(record.state, 0) + 1
    return found


@pytest.mark.gate
@quick
def test_two_members_share_two_topics_and_each_record_arrives_once(kafka_cluster: KafkaCluster) -> None:
    configure(kafka_cluster)
    sent = fill(kafka_cluster, 30)
    with consumer(kafka_cluster) as one, consumer(kafka_cluster, max_poll_records=7) as two:
        found: list[ShareRecord[Any, Any]] = []
        while len(found) < len(sent):
            for member in (one, two):
                found += [record for records in member.poll(50).values() for record in records]
        assert identity(found) == sent
        assert {record.delivery_count for record in found} == {1}
        for member in (one, two):
            assert set(member.commit().values()) <= {None}
        assert {one.lock_timeout_ms, two.lock_timeout_ms} - {None} == {15000}  # one can have taken them all
        assert one.subscription() == {"t", "u"}


@pytest.mark.gate
@pytest.mark.kafka(brokers=1, topics={"t": 1, "u": 1}, config=QUICK)
def test_max_records_limits_the_locks_of_a_poll_with_record_limit(kafka_cluster: KafkaCluster) -> None:
    configure(kafka_cluster)
    fill(kafka_cluster, 5, ["t"])
    with consumer(
        kafka_cluster, share_acknowledgement_mode="explicit", share_acquire_mode="record_limit"
    ) as one:
        for count in (2, 1):
            assert len(take(one, count)) == count
        assert states(kafka_cluster, "t")["ACQUIRED"] == 3


@pytest.mark.gate
@quick
def test_close_releases_open_locks_at_once(kafka_cluster: KafkaCluster) -> None:
    configure(kafka_cluster)
    sent = fill(kafka_cluster, 4)
    with consumer(kafka_cluster, share_acknowledgement_mode="explicit") as one:
        assert identity(take(one, 8)) == sent
    with consumer(kafka_cluster) as two:
        again = take(two, 8)
        assert identity(again) == sent
        assert {record.delivery_count for record in again} == {2}


@pytest.mark.gate
@quick
def test_explicit_mode_sends_each_type_and_reports_to_the_callback(kafka_cluster: KafkaCluster) -> None:
    configure(kafka_cluster)
    fill(kafka_cluster, 4)
    results: list[tuple[TopicPartition, set[int], KafkaError | None]] = []
    explicit = {"share_acknowledgement_mode": "explicit"}
    with consumer(kafka_cluster, **explicit) as one:
        one.set_acknowledgement_commit_callback(
            lambda offsets, error: results.extend((*item, error) for item in offsets.items())
        )
        records = take(one, 8)
        by_value = {(record.topic, record.value): record for record in records}
        for topic in TOPICS:
            one.acknowledge(by_value[topic, b"0"])
            one.acknowledge(by_value[topic, b"1"], AcknowledgeType.ACCEPT)
            one.acknowledge(by_value[topic, b"1"], AcknowledgeType.RELEASE)  # can be changed until it is sent
            record = by_value[topic, b"2"]
            one.acknowledge(
                topic=topic, partition=record.partition, offset=record.offset, type=AcknowledgeType.REJECT
            )
        assert set(one.commit().values()) == {None}
        assert sum(len(offsets) for _, offsets, _ in results) == 6
        assert {error for *_, error in results} == {None}
        with pytest.raises(IllegalState, match="acknowledged already"):
            one.acknowledge(by_value["t", b"0"])
        again = take(one, 2)
        assert identity(again) == {("t", b"1"), ("u", b"1")}
        assert {record.delivery_count for record in again} == {2}
        for record in again:
            one.acknowledge(record)
        assert set(one.commit().values()) == {None}
        renewed = by_value["t", b"3"]
        one.acknowledge(renewed, AcknowledgeType.RENEW)
        assert one.commit() == {TopicPartition("t", renewed.partition): None}
        one.acknowledge(renewed)  # it stays locked, and needs another acknowledgement
        one.acknowledge(by_value["u", b"3"])
        assert set(one.commit().values()) == {None}
        assert not one.poll(200)


@pytest.mark.slow
@quick
def test_with_block_accepts_releases_or_rejects_on_any_thread(kafka_cluster: KafkaCluster) -> None:
    configure(kafka_cluster)
    sent = fill(kafka_cluster, 3)
    seen: list[tuple[str, bytes]] = []

    def handle(member: KafkaShareConsumer[bytes, bytes]) -> None:
        for record in member:
            with record:
                seen.append((record.topic, record.value or b""))
                if record.value == b"1" and record.delivery_count == 1:
                    raise ValueError("try again")
                if record.value == b"2":
                    raise Reject("never")

    members = [consumer(kafka_cluster, consumer_timeout_ms=200) for _ in range(2)]
    with members[0], members[1]:

        def run(member: KafkaShareConsumer[bytes, bytes]) -> None:
            while len(seen) < 8:
                with suppress(ValueError):
                    handle(member)

        threads = [threading.Thread(target=run, args=[member]) for member in members]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        for member in members:
            assert set(member.commit().values()) <= {None}
    assert set(seen) == sent
    assert sorted(seen) == sorted([*sent, ("t", b"1"), ("u", b"1")])


@pytest.mark.gate
@quick
def test_iteration_in_implicit_mode_accepts_a_record_when_the_next_is_requested(
    kafka_cluster: KafkaCluster,
) -> None:
    configure(kafka_cluster)
    sent = fill(kafka_cluster, 3)
    with consumer(kafka_cluster) as one:
        iterator = iter(one)
        first = [next(iterator) for _ in range(4)]
    with consumer(kafka_cluster) as two:  # the fourth record, and those behind it, are not done
        rest = take(two, 3)
        assert identity(first[:3]) | identity(rest) == sent
        assert first[3].offset in {record.offset for record in rest}


@pytest.mark.gate
@quick
def test_acknowledgements_of_lost_locks_fail_and_lost_records_cannot_begin(
    kafka_cluster: KafkaCluster,
) -> None:
    configure(kafka_cluster)
    fill(kafka_cluster, 2)
    with consumer(kafka_cluster, share_acknowledgement_mode="explicit") as one:
        held = take(one, 4)
        wait_for_fetches(one)
        assert kafka_cluster.controls.expire_locks("g") == 4
        for record in held:
            one.acknowledge(record)
        results = one.commit()
        assert {type(error) for error in results.values()} == {InvalidRecordState}
        with pytest.raises(InvalidRecordState), held[0]:
            pass
        taken = take(one, 4)
        assert {record.delivery_count for record in taken} == {2}
        for record in taken:
            with record:
                pass
        assert set(one.commit().values()) <= {None}


@pytest.mark.gate
@quick
def test_deserializer_error_releases_the_record_and_skip_rejects_it(kafka_cluster: KafkaCluster) -> None:
    configure(kafka_cluster)
    fill(kafka_cluster, 3)

    def number(data: bytes) -> int:
        if data == b"1":
            raise ValueError("one is bad")
        return int(data)

    with consumer(kafka_cluster, value_deserializer=number) as one:
        good: list[ShareRecord[Any, Any]] = []
        errors = 0
        while errors < 2 or len(good) < 4:
            try:
                good += [record for records in one.poll(100).values() for record in records]
            except SerializationError:
                errors += 1
        assert {record.value for record in good} == {0, 2}
    skipped: list[BadRecord] = []
    with consumer(kafka_cluster, value_deserializer=number, on_bad_record=skipped.append) as two:
        while len(skipped) < 2:
            two.poll(100)
        assert set(two.commit().values()) <= {None}
        assert {bad.value for bad in skipped} == {b"1"}


@pytest.mark.gate
@quick
def test_calls_after_close_and_from_a_second_thread_are_refused(kafka_cluster: KafkaCluster) -> None:
    configure(kafka_cluster)
    one = consumer(kafka_cluster)
    raised: list[BaseException] = []

    def poll() -> None:
        try:
            while True:
                one.poll(60_000)
        except BaseException as error:
            raised.append(error)

    with one._core.lock:
        thread = threading.Thread(target=poll)
        thread.start()
        thread.join()
    assert isinstance(raised[0], ConcurrentUse)
    one.wakeup()
    assert one.poll(60_000) == {}
    one.close()
    one.close()
    with pytest.raises(ClientClosed):
        one.poll()


def test_records_can_be_pickled_but_copies_cannot_acknowledge() -> None:
    record = ShareRecord("t", 0, 1, 2, 0, b"k", b"v", [("h", b"x")], delivery_count=3)
    copy = pickle.loads(pickle.dumps(record))
    assert copy == record
    with pytest.raises(IllegalState, match="copy"), copy:
        pass


REFUSED = [
    "auto_offset_reset",
    "enable_auto_commit",
    "group_instance_id",
    "isolation_level",
    "partition_assignment_strategy",
    "session_timeout_ms",
    "heartbeat_interval_ms",
    "group_protocol",
    "group_remote_assignor",
    "share_auto_offset_reset",
    "share.isolation.level",
]


@pytest.mark.parametrize("name", REFUSED)
def test_options_that_share_groups_do_not_allow_are_refused_with_the_reason(name: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{name} is not supported: .*(share groups|group|offsets)"):
        SHARE_CONSUMER_OPTIONS.parse(None, {"group_id": "g", name: "1"})


@pytest.mark.gate
@pytest.mark.parametrize("topics", [5, None, b"t", {"t": 1}, [5], []])
def test_subscriptions_that_are_no_topics_are_refused(topics: Any) -> None:
    with KafkaShareConsumer(group_id="g", bootstrap_servers="localhost:1") as one:
        with pytest.raises(IllegalArgument, match="topic"):
            one.subscribe(topics)
        with pytest.raises(TypeError, match="not callable"):
            one.set_acknowledgement_commit_callback(topics or 5)


@pytest.mark.gate
@pytest.mark.parametrize("version", ["3.9", "4.1"])
def test_brokers_without_share_groups_are_named_by_poll_and_explain(version: str) -> None:
    with (
        KafkaCluster(brokers=1, topics={"t": 1}, as_version=version) as cluster,
        KafkaShareConsumer("t", group_id="g", **cluster.client_options) as one,
    ):
        with pytest.raises(
            UnsupportedVersion, match=r"do not serve share groups, which need Apache Kafka 4\.2"
        ):
            one.poll(60_000)
        assert "the next poll() joins it; the last error: " in one.explain()


def test_a_group_id_is_required() -> None:
    with pytest.raises(ConfigurationError, match="group_id"):
        SHARE_CONSUMER_OPTIONS.parse(None, {})


def test_typed_dict_names_equal_the_option_table() -> None:
    names = {name for option in SHARE_CONSUMER_OPTIONS.options.values() for name in option.names}
    assert set(ShareConsumerConfig.__annotations__) == names
