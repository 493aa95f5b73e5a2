"""Programs as kafka-python documents them for its consumer, run with it and with ours but for the import.

The examples of its README and of the documentation of `KafkaConsumer`, rewritten; docs/guides/migration.md
lists the remaining differences. test_kafka_python_programs.py does the same for the producer.
"""

from __future__ import annotations

import importlib
import json
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any
from uuid import uuid4

import pytest

from .brokers import Cluster
from .peers import TIMEOUT

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

ConsumerOf = Callable[..., Any]


@pytest.fixture
def consumer_of(library: Any, cluster: Cluster) -> Iterator[ConsumerOf]:
    """Make consumers of the library, from the first record on; they are closed at the end."""
    made = []

    def consumer_of(*topics: str, **options: Any) -> Any:
        options = {"auto_offset_reset": "earliest", "consumer_timeout_ms": TIMEOUT * 1000, **options}
        made.append(library.KafkaConsumer(*topics, bootstrap_servers=cluster.bootstrap_servers, **options))
        return made[-1]

    yield consumer_of
    for consumer in made:
        with suppress(Exception):
            consumer.close()


@pytest.fixture
def group() -> str:
    return f"group-{uuid4().hex[:8]}"


def topic_with(library: Any, cluster: Cluster, count: int, partitions: int = 1, **more: Any) -> str:
    """A topic with so many numbered records in each partition."""
    topic = cluster.new_topic(partitions=partitions)
    producer = library.KafkaProducer(bootstrap_servers=cluster.bootstrap_servers)
    for number in range(count):
        for partition in range(partitions):
            producer.send(topic, b"%d" % number, partition=partition, **more)
    producer.flush()
    producer.close(timeout=TIMEOUT)
    return topic


def polled(consumer: Any, count: int, **arguments: Any) -> list[Any]:
    """So many records, over as many polls as it takes."""
    found: list[Any] = []
    deadline = time.monotonic() + TIMEOUT
    while len(found) < count and time.monotonic() < deadline:
        for records in consumer.poll(timeout_ms=500, **arguments).values():
            found += records
    return found


def test_messages_are_iterated(library: Any, cluster: Cluster, consumer_of: ConsumerOf) -> None:
    topic = topic_with(library, cluster, 3, key=b"k", headers=[("name", b"value")], timestamp_ms=1000)
    consumer = consumer_of(topic, consumer_timeout_ms=1000)
    messages: list[Any] = []
    deadline = time.monotonic() + TIMEOUT
    while len(messages) < 3 and time.monotonic() < deadline:
        messages += consumer  # ends when nothing comes for so long
    assert [message.offset for message in messages] == [0, 1, 2]
    message = messages[1]
    assert (message.topic, message.partition, message.timestamp, message.timestamp_type) == (
        topic,
        0,
        1000,
        0,
    )
    assert (message.key, message.value) == (b"k", b"1")
    assert [tuple(header) for header in message.headers] == [("name", b"value")]
    assert (message.serialized_key_size, message.serialized_value_size) == (1, 1)
    assert consumer.subscription() == {topic}


@pytest.mark.parametrize("by", ["functions", "objects"])
def test_deserializers(library: Any, cluster: Cluster, consumer_of: ConsumerOf, by: str) -> None:
    topic = cluster.new_topic()
    producer = library.KafkaProducer(bootstrap_servers=cluster.bootstrap_servers)
    producer.send(topic, json.dumps({"a": 1}).encode(), key=b"name")
    producer.send(topic, b"[]", key=b"two")
    producer.close(timeout=TIMEOUT)
    value = json.loads if by == "functions" else library.JsonSerializer()
    if by == "objects" and not hasattr(value, "deserialize"):
        pytest.skip("its serializers do not read")
    consumer = consumer_of(topic, key_deserializer=bytes.decode, value_deserializer=value)
    first, second = next(consumer), next(consumer)
    assert (first.key, first.value) == ("name", {"a": 1})
    assert (second.key, second.value) == ("two", [])


def test_partitions_are_assigned_by_hand(library: Any, cluster: Cluster, consumer_of: ConsumerOf) -> None:
    topic = topic_with(library, cluster, 5, partitions=3)
    consumer, place = consumer_of(), library.TopicPartition(topic, 2)
    consumer.assign([place])
    assert next(consumer).partition == 2
    assert consumer.assignment() == {place}
    consumer.seek(place, 3)
    assert consumer.position(place) == 3
    assert next(consumer).offset == 3
    assert consumer.position(place) == 4
    consumer.seek_to_beginning(place)
    assert next(consumer).offset == 0
    consumer.seek_to_end()
    assert consumer.position(place) == 5


def test_polls_return_records_by_partition(library: Any, cluster: Cluster, consumer_of: ConsumerOf) -> None:
    topic = topic_with(library, cluster, 10, partitions=2)
    consumer = consumer_of(topic)
    places = {library.TopicPartition(topic, number) for number in range(2)}
    found = polled(consumer, 20, max_records=4)
    assert len(found) == 20
    for place in places:
        assert [one.offset for one in found if one.partition == place.partition] == list(range(10))
    assert consumer.poll() == {}
    assert consumer.assignment() == places


def test_poll_without_position_updates_keeps_the_position(
    library: Any, cluster: Cluster, consumer_of: ConsumerOf
) -> None:
    topic = topic_with(library, cluster, 4)
    consumer, place = consumer_of(), library.TopicPartition(topic, 0)
    consumer.assign([place])
    seen = polled(consumer, 4, update_offsets=False)
    assert consumer.position(place) == 0
    assert [one.offset for one in seen[:4]] == [0, 1, 2, 3]


def test_group_continues_at_its_committed_offset(
    library: Any, cluster: Cluster, consumer_of: ConsumerOf, group: str
) -> None:
    topic = topic_with(library, cluster, 10)
    place = library.TopicPartition(topic, 0)
    first = consumer_of(topic, group_id=group, enable_auto_commit=False, max_poll_records=4)
    assert [one.offset for one in polled(first, 4)][:4] == [0, 1, 2, 3]
    first.commit()
    first.close()
    second = consumer_of(topic, group_id=group, enable_auto_commit=False)
    assert next(second).offset == 4
    assert second.committed(place) == 4
    second.commit({place: library.OffsetAndMetadata(7, "note", -1)})
    found = second.committed(place, metadata=True)
    assert (found.offset, found.metadata) == (7, "note")
    second.close(autocommit=False)


@pytest.mark.parametrize("arguments", [((False,), {}), ((), {"autocommit": False}), ((True,), {}), ((), {})])
def test_closing_commits_or_does_not(
    library: Any,
    cluster: Cluster,
    consumer_of: ConsumerOf,
    group: str,
    arguments: tuple[tuple[bool, ...], dict[str, bool]],
) -> None:
    """Its first argument is `autocommit`."""
    topic = topic_with(library, cluster, 5)
    consumer = consumer_of(topic, group_id=group, auto_commit_interval_ms=60_000)
    assert len(polled(consumer, 5)) == 5
    by_place, by_name = arguments
    consumer.close(*by_place, **by_name)
    reader = consumer_of(group_id=group)
    is_committed = False not in by_place and by_name.get("autocommit", True)
    assert reader.committed(library.TopicPartition(topic, 0)) == (5 if is_committed else None)


def test_commit_async_calls_its_callback(
    library: Any, cluster: Cluster, consumer_of: ConsumerOf, group: str
) -> None:
    topic = topic_with(library, cluster, 3)
    place = library.TopicPartition(topic, 0)
    consumer = consumer_of(topic, group_id=group, enable_auto_commit=False)
    assert len(polled(consumer, 3)) == 3
    calls: list[tuple[Any, Any]] = []
    consumer.commit_async(callback=lambda offsets, outcome: calls.append((offsets, outcome)))
    deadline = time.monotonic() + TIMEOUT
    while not calls and time.monotonic() < deadline:
        consumer.poll(timeout_ms=50)
    [(offsets, outcome)] = calls
    assert offsets[place].offset == 3
    assert not isinstance(outcome, Exception)


def test_a_pattern_and_a_listener(
    library: Any, cluster: Cluster, consumer_of: ConsumerOf, group: str
) -> None:
    topic = topic_with(library, cluster, 3, partitions=2)
    calls: list[tuple[str, Any]] = []

    class Listener(library.ConsumerRebalanceListener):  # type: ignore[misc, name-defined]
        def on_partitions_revoked(self, revoked: Any) -> None:
            calls.append(("revoked", set(revoked)))

        def on_partitions_assigned(self, assigned: Any) -> None:
            calls.append(("assigned", set(assigned)))

    consumer = consumer_of(group_id=group)
    consumer.subscribe(pattern=f"^{topic}$", listener=Listener())
    assert len(polled(consumer, 6)) == 6
    both = {library.TopicPartition(topic, number) for number in range(2)}
    assert [one for one in calls if one[1]] == [("assigned", both)]
    assert consumer.assignment() == both
    consumer.unsubscribe()
    assert consumer.assignment() == set()


def test_partitions_are_paused(library: Any, cluster: Cluster, consumer_of: ConsumerOf) -> None:
    topic = topic_with(library, cluster, 5, partitions=2)
    places = [library.TopicPartition(topic, number) for number in range(2)]
    consumer = consumer_of()
    consumer.assign(places)
    consumer.pause(places[0])
    assert consumer.paused() == {places[0]}
    assert {one.partition for one in polled(consumer, 5)} == {1}
    assert consumer.poll(timeout_ms=300) == {}
    consumer.resume(places[0])
    assert {one.partition for one in polled(consumer, 5)} == {0}
    assert consumer.paused() == set()


def test_inspection_calls_return_offsets_and_positions(
    library: Any, cluster: Cluster, consumer_of: ConsumerOf
) -> None:
    before = int(time.time() * 1000)
    topic = topic_with(library, cluster, 5, partitions=2)
    places = [library.TopicPartition(topic, number) for number in range(2)]
    consumer = consumer_of()
    assert consumer.partitions_for_topic(topic) == {0, 1}
    assert topic in consumer.topics()
    assert consumer.beginning_offsets(places) == dict.fromkeys(places, 0)
    assert consumer.end_offsets(places) == dict.fromkeys(places, 5)
    found = consumer.offsets_for_times({places[0]: before, places[1]: before + 3_600_000})
    assert (found[places[0]].offset, found[places[1]]) == (0, None)
    assert found[places[0]].timestamp >= before
    consumer.assign(places)
    assert len(polled(consumer, 10)) == 10
    assert consumer.highwater(places[0]) == 5
    assert isinstance(consumer.bootstrap_connected(), bool)
    assert len(consumer.metrics())


def test_wrong_calls_raise_the_documented_errors(
    library: Any, cluster: Cluster, consumer_of: ConsumerOf, errors: Any
) -> None:
    topic = cluster.new_topic()
    place = library.TopicPartition(topic, 0)
    consumer = consumer_of(topic)
    with pytest.raises(errors.IllegalStateError):
        consumer.assign([place])
    with pytest.raises(errors.KafkaConfigurationError):
        library.KafkaConsumer(bootstrap_servers=cluster.bootstrap_servers, no_such_option=1)
    alone = consumer_of()
    for call in (alone.commit, alone.commit_async):
        with pytest.raises((AssertionError, errors.IllegalStateError)):
            call()  # there is no group
    strict = consumer_of(auto_offset_reset="none")
    strict.assign([place])
    with pytest.raises(errors.NoOffsetForPartitionError):
        strict.poll(timeout_ms=60_000)


def test_a_position_that_is_not_in_the_log(
    library: Any, cluster: Cluster, consumer_of: ConsumerOf, errors: Any
) -> None:
    topic = topic_with(library, cluster, 2)
    place = library.TopicPartition(topic, 0)
    consumer = consumer_of(auto_offset_reset="none")
    consumer.assign([place])
    consumer.seek(place, 100)
    with pytest.raises(errors.OffsetOutOfRangeError):
        polled(consumer, 1)


def test_every_documented_option_is_known(library: Any, cluster: Cluster) -> None:
    """kafka-python's defaults, given by name; of the assignors ours takes names, and what means nothing to it
    it says."""
    kafka = importlib.import_module("kafka")
    defaults = dict(kafka.KafkaConsumer.DEFAULT_CONFIG)
    defaults.update(bootstrap_servers=cluster.bootstrap_servers, group_id="of-options")
    if library.__name__ != "kafka":
        defaults["partition_assignment_strategy"] = ["range", "roundrobin"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        library.KafkaConsumer(**defaults).close()
