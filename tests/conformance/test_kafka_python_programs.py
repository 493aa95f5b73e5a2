"""Programs as kafka-python documents them for its producer, run with it and with ours but for the import.

The examples of its README and of the documentation of `KafkaProducer`, rewritten; docs/guides/migration.md
lists the remaining differences.
"""

from __future__ import annotations

import importlib
import json
import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from .brokers import Cluster
from .peers import TIMEOUT

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture
def producer_of(library: Any, cluster: Cluster) -> Iterator[Callable[..., Any]]:
    """Make producers of the library; they are closed at the end."""
    made = []

    def producer_of(**options: Any) -> Any:
        made.append(library.KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, **options))
        return made[-1]

    yield producer_of
    for producer in made:
        with suppress(Exception):
            producer.close(timeout=TIMEOUT)


def read(library: Any, cluster: Cluster, topic: str, count: int, **options: Any) -> list[Any]:
    """The first records of a topic with one partition."""
    place = library.TopicPartition(topic, 0)
    consumer = library.KafkaConsumer(
        bootstrap_servers=cluster.bootstrap_servers,
        auto_offset_reset="earliest",
        consumer_timeout_ms=TIMEOUT * 1000,
        enable_auto_commit=False,
        **options,
    )
    try:
        consumer.assign([place])
        return [next(consumer) for _ in range(count)]
    finally:
        consumer.close()


def test_fire_and_forget(library: Any, cluster: Cluster, producer_of: Callable[..., Any]) -> None:
    topic = cluster.new_topic()
    producer = producer_of()
    for _ in range(100):
        producer.send(topic, b"some_message_bytes")
    producer.flush()
    assert [record.value for record in read(library, cluster, topic, 100)] == [b"some_message_bytes"] * 100


def test_one_message_is_waited_for(library: Any, cluster: Cluster, producer_of: Callable[..., Any]) -> None:
    topic = cluster.new_topic()
    producer = producer_of()
    future = producer.send(topic, b"another_message")
    metadata = future.get(timeout=60)
    assert (metadata.topic, metadata.partition, metadata.offset) == (topic, 0, 0)
    assert metadata.topic_partition == library.TopicPartition(topic, 0)
    assert metadata.timestamp > 0
    assert (metadata.serialized_key_size, metadata.serialized_value_size) == (-1, len(b"another_message"))
    assert future.is_done
    assert future.succeeded()
    assert not future.failed()


def test_a_failure_is_caught_by_its_root(
    cluster: Cluster, producer_of: Callable[..., Any], errors: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """A message that the topic does not take, though the producer would."""
    topic = cluster.new_topic(max_message_bytes="1000")
    producer = producer_of()
    future = producer.send(topic, b"x" * 10_000)
    with pytest.raises(errors.KafkaError) as caught:
        future.get(timeout=30)
    assert isinstance(caught.value, errors.MessageSizeTooLargeError)
    assert future.failed()
    with pytest.raises(errors.MessageSizeTooLargeError):
        future.get(timeout=30)


def test_keys_decide_the_partition_alike(cluster: Cluster, producer_of: Callable[..., Any]) -> None:
    topic = cluster.new_topic(partitions=7)
    producer = producer_of()
    keys = [b"foo", b"bar", b"\xff\x00", b"", b"a much longer key than the others"]
    placed = [producer.send(topic, key=key, value=b"v").get(timeout=30).partition for key in keys]
    assert placed == [1, 0, 5, 2, 5]


def test_partitions_are_numbers(cluster: Cluster, producer_of: Callable[..., Any]) -> None:
    topic = cluster.new_topic(partitions=3)
    producer = producer_of()
    assert producer.partitions_for(topic) == {0, 1, 2}
    for partition in producer.partitions_for(topic):
        assert producer.send(topic, b"v", partition=partition).get(timeout=30).partition == partition


def test_json_messages(library: Any, cluster: Cluster, producer_of: Callable[..., Any]) -> None:
    topic = cluster.new_topic()
    by_function = producer_of(value_serializer=lambda value: json.dumps(value).encode("utf-8"))
    by_function.send(topic, {"foo": "bar"}).get(timeout=30)
    by_object = producer_of(value_serializer=library.JsonSerializer())
    by_object.send(topic, {"foo": ["bar", 1]}).get(timeout=30)
    records = read(library, cluster, topic, 2, value_deserializer=library.JsonSerializer())
    assert [record.value for record in records] == [{"foo": "bar"}, {"foo": ["bar", 1]}]


@pytest.mark.parametrize("by", ["function", "object"])
def test_keys_of_text(library: Any, cluster: Cluster, producer_of: Callable[..., Any], by: str) -> None:
    topic = cluster.new_topic()
    serializer = str.encode if by == "function" else library.DefaultSerializer()
    producer = producer_of(key_serializer=serializer)
    producer.send(topic, key="ping", value=b"1234").get(timeout=30)
    [record] = read(library, cluster, topic, 1)
    assert (record.key, record.value) == (b"ping", b"1234")


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
def test_messages_are_compressed(
    library: Any, cluster: Cluster, producer_of: Callable[..., Any], codec: str | None
) -> None:
    topic = cluster.new_topic()
    producer = producer_of(compression_type=codec)
    for number in range(1000):
        producer.send(topic, b"msg %d" % number)
    producer.flush(timeout=TIMEOUT)
    values = [record.value for record in read(library, cluster, topic, 1000)]
    assert values == [b"msg %d" % number for number in range(1000)]


def test_a_transaction_is_seen_or_is_not(
    library: Any, cluster: Cluster, producer_of: Callable[..., Any]
) -> None:
    topic = cluster.new_topic()
    producer = producer_of(transactional_id=f"fizzbuzz-{library.__name__}-{topic}")
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(topic, value=b"yes").get()
    producer.commit_transaction()
    producer.begin_transaction()
    producer.send(topic, value=b"no").get()
    producer.abort_transaction()
    producer.begin_transaction()
    producer.send(topic, value=b"yes, too").get()
    producer.send_offsets_to_transaction(
        {library.TopicPartition(topic, 0): library.OffsetAndMetadata(1, "", -1)}, f"group-{topic}"
    )
    producer.commit_transaction()
    records = read(library, cluster, topic, 2, isolation_level="read_committed")
    assert [record.value for record in records] == [b"yes", b"yes, too"]


def test_headers_and_timestamps(library: Any, cluster: Cluster, producer_of: Callable[..., Any]) -> None:
    topic = cluster.new_topic()
    producer = producer_of()
    producer.send(
        topic,
        value=b"c29tZSB2YWx1ZQ==",
        headers=[("content-encoding", b"base64")],
        timestamp_ms=1_700_000_000_123,
    ).get(timeout=30)
    [record] = read(library, cluster, topic, 1)
    assert [*record.headers] == [("content-encoding", b"base64")]
    assert record.timestamp == 1_700_000_000_123


def test_callbacks_are_called_with_their_arguments(cluster: Cluster, producer_of: Callable[..., Any]) -> None:
    topic = cluster.new_topic(max_message_bytes="1000")
    calls: list[Any] = []
    producer = producer_of(retries=5)

    def on_send_success(metadata: Any) -> None:
        calls.append(("success", metadata.topic, metadata.partition, metadata.offset))

    def on_send_error(error: BaseException) -> None:
        logging.getLogger(__name__).info("an errback", exc_info=error)
        calls.append(("error", type(error).__name__.removesuffix("Error")))

    producer.send(topic, b"raw_bytes").add_callback(on_send_success).add_errback(on_send_error)
    producer.flush()
    producer.send(topic, b"v").add_callback(
        lambda *arguments, **named: calls.append((arguments[0], named)), 1, two=2
    )
    producer.flush()
    # The last one: kafka-python's idempotent producer can send nothing after it.
    producer.send(topic, b"x" * 10_000).add_callback(on_send_success).add_errback(on_send_error)
    producer.flush()
    assert calls[:2] == [("success", topic, 0, 0), (1, {"two": 2})]
    assert calls[2] in (("error", "MessageSizeTooLarge"), ("error", "MessageTooLarge"))


def test_a_partitioner_is_an_object(library: Any, cluster: Cluster, producer_of: Callable[..., Any]) -> None:
    topic = cluster.new_topic(partitions=4)
    home = importlib.import_module("kafka.partitioner") if library.__name__ == "kafka" else library
    base: Any = home.Partitioner

    class Last(base):  # type: ignore[misc]
        def partition(
            self, topic: str, key: Any, serialized_key: Any, value: Any, serialized_value: Any, cluster: Any
        ) -> int:
            assert topic in cluster.topics()
            assert cluster.available_partitions_for_topic(topic) == cluster.partitions_for_topic(topic)
            return max(cluster.partitions_for_topic(topic))

    producer = producer_of(partitioner=Last())
    assert producer.send(topic, key=b"foo", value=b"v").get(timeout=30).partition == 3


def test_every_documented_option_is_known(library: Any, cluster: Cluster) -> None:
    """kafka-python's own defaults, each by its name: its partitioner and its selector among them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import kafka

        defaults = {**kafka.KafkaProducer.DEFAULT_CONFIG, "bootstrap_servers": cluster.bootstrap_servers}
        producer = library.KafkaProducer(**defaults)
    topic = cluster.new_topic()
    assert producer.send(topic, b"v", key=b"k").get(timeout=30).offset == 0
    producer.close()


def test_metrics_are_a_mapping(cluster: Cluster, producer_of: Callable[..., Any]) -> None:
    producer = producer_of()
    producer.send(cluster.new_topic(), b"v").get(timeout=30)
    assert isinstance(producer.bootstrap_connected(), bool)
    assert producer.metrics()
    assert producer.metrics(raw=False).keys() == producer.metrics().keys()


def test_wrong_calls_raise_the_documented_errors(
    library: Any, cluster: Cluster, producer_of: Callable[..., Any], errors: Any
) -> None:
    topic = cluster.new_topic()
    producer = producer_of(max_block_ms=1000)
    for arguments in ({"topic": None}, {"value": "text"}, {"key": 5}, {"headers": [("a", "text")]}):
        with pytest.raises(TypeError):
            producer.send(**{"topic": topic, "value": b"v", **arguments})
    with pytest.raises(errors.IllegalStateError):
        producer.begin_transaction()
    with pytest.raises(ValueError, match="no_such_option"):
        library.KafkaProducer(no_such_option=1)
    with pytest.raises(errors.KafkaConfigurationError):
        producer_of(transactional_id="t", enable_idempotence=False)
    producer.close(timeout=TIMEOUT)
    producer.close()
    with pytest.raises(errors.IllegalStateError):
        producer.send(topic, b"v")


def test_modules_of_names_are_imported_alike(
    library: Any, cluster: Cluster, producer_of: Callable[..., Any]
) -> None:
    structs = importlib.import_module(f"{library.__name__}.structs")
    partitioner = importlib.import_module(f"{library.__name__}.partitioner")
    topic = cluster.new_topic(partitions=7)
    keys = [b"foo", b"bar", b"\xff\x00"]
    placed = [partitioner.murmur2(key) % 2**31 % 7 for key in keys]
    for instance in (partitioner.DefaultPartitioner(), partitioner.StickyPartitioner()):
        producer = producer_of(partitioner=instance)
        sent = [producer.send(topic, key=key, value=b"v") for key in keys]
        assert [one.get(timeout=30).partition for one in sent] == placed
    consumer = library.KafkaConsumer(bootstrap_servers=cluster.bootstrap_servers)
    places = [structs.TopicPartition(topic, number) for number in range(7)]
    assert sum(consumer.end_offsets(places).values()) == 2 * len(keys)
    consumer.close()


def test_records_unpack_as_tuples(library: Any, cluster: Cluster, producer_of: Callable[..., Any]) -> None:
    topic = cluster.new_topic()
    producer = producer_of()
    for number in range(2):
        producer.send(topic, b"value", key=b"%d" % number, headers=[("name", b"12")])
    producer.flush()
    for number, record in enumerate(read(library, cluster, topic, 2)):
        assert len(record) == 13
        where = record[:2]
        assert where == (topic, 0)
        _, _, _, offset, _, _, key, value, headers, _, key_size, value_size, header_size = record
        assert (offset, key, value, headers) == (number, b"%d" % number, b"value", [("name", b"12")])
        assert (key_size, value_size, header_size) == (1, 5, 6)


def test_only_committed_records_are_read(
    library: Any, cluster: Cluster, producer_of: Callable[..., Any]
) -> None:
    topic = cluster.new_topic()
    producer = producer_of(transactional_id=f"levels-{library.__name__}-{topic}")
    producer.init_transactions()
    for value, ends in ((b"no", producer.abort_transaction), (b"yes", producer.commit_transaction)):
        producer.begin_transaction()
        producer.send(topic, value).get(timeout=30)
        ends()
    level = library.IsolationLevel
    committed = read(library, cluster, topic, 1, isolation_level=level.READ_COMMITTED)
    assert [record.value for record in committed] == [b"yes"]
    every = read(library, cluster, topic, 2, isolation_level=level.READ_UNCOMMITTED)
    assert [record.value for record in every] == [b"no", b"yes"]


def test_failures_are_handled_by_their_kind(
    library: Any, cluster: Cluster, producer_of: Callable[..., Any], errors: Any
) -> None:
    """Transient errors are retried; an errback logs a rejection by the broker with its traceback."""
    too_large = cluster.new_topic(max_message_bytes="1000")
    failures: list[Any] = []

    def on_failure(error: Exception) -> None:
        logging.getLogger("program").error("I am an errback", exc_info=error)
        failures.append(error)

    producer = producer_of()
    producer.send(too_large, b"x" * 10_000).add_callback(print).add_errback(on_failure)
    with suppress(errors.KafkaError):
        producer.flush()
    (error,) = failures
    assert isinstance(error, errors.BrokerResponseError)
    assert not isinstance(error, errors.RetriableError)
    assert not isinstance(error, errors.NodeNotReadyError)
    assert errors.for_code(6) is errors.NotLeaderForPartitionError
    assert issubclass(errors.NotLeaderForPartitionError, errors.RetriableError)
