"""The sink's options and schemas: what is taken, and what is refused before any task starts."""

from __future__ import annotations

import re
from typing import Any

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from pykafka2 import KafkaAdminClient, KafkaConsumer, KafkaProducer
from pykafka2.admin.options import ADMIN_OPTIONS
from pykafka2.consumer.options import CONSUMER_OPTIONS
from pykafka2.errors import ConfigurationError, UnknownOption
from pykafka2.options import OptionTable
from pykafka2.producer.options import PRODUCER_OPTIONS
from spark_connector import WrongSchema, connections, exactly_once_batches
from spark_connector.options.kafka_options import NOT_OF_ADMINS, OF_CONSUMERS, OF_PRODUCERS
from spark_connector.options.sink_options import TRANSACTION_MS
from spark_connector.options.source_options import source_options
from spark_connector.sink.clients import kept_admin, new_producer, shared_options
from spark_connector.sink.exactly_once.runner import Cluster
from spark_connector.sink.preflight import check_schema, sink_options

SERVERS = {"kafka.bootstrap.servers": "localhost:1"}
HEADERS = "headers array<struct<key:string,value:binary>>"


TYPES: dict[str, DataType] = {
    "string": StringType(),
    "binary": BinaryType(),
    "int": IntegerType(),
    "bigint": LongType(),
    "double": DoubleType(),
    "timestamp": TimestampType(),
    "timestamp_ntz": TimestampNTZType(),
    "array<string>": ArrayType(StringType()),
    "array<int>": ArrayType(IntegerType()),
    "struct<a:int>": StructType([StructField("a", IntegerType())]),
    "map<string,string>": MapType(StringType(), StringType()),
    "array<struct<key:string,value:binary>>": ArrayType(
        StructType([StructField("key", StringType()), StructField("value", BinaryType())])
    ),
}


def schema(text: str) -> StructType:
    """A schema like that of `StructType.fromDDL`, which needs a session."""
    columns = (column.split(" ", 1) for column in text.split(", "))
    return StructType([StructField(name, TYPES[kind]) for name, kind in columns])


@pytest.mark.parametrize(
    "columns",
    [
        "value string",
        "value binary, key string",
        f"value string, key binary, {HEADERS}, topic string, partition int, timestamp timestamp",
        "VALUE string, timestamp bigint",
        "value string, timestamp timestamp_ntz",
        "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, "
        "timestampType int",
    ],
)
def test_schemas_that_are_written(columns: str) -> None:
    check_schema(schema(columns), "orders")


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ("key string", "The column 'value' is missing; columns are: key"),
        ("value int", "'value' is int, but must be string or binary. Cast it"),
        (
            "value struct<a:int>",
            "'value' is struct<a:int>, but must be string or binary. Convert it with to_json(value)",
        ),
        (
            "key array<int>, value string",
            "'key' is array<int>, but must be string or binary. Convert it with to_json(key)",
        ),
        (
            "id bigint, cents int",
            "or combine several with to_json(struct('*'))",
        ),
        ("value string, key array<string>", "'key' is array<string>"),
        ("value string, topic int", "'topic' is int"),
        ("value string, partition bigint", "'partition' is bigint, but must be int"),
        ("value string, timestamp string", "'timestamp' is string"),
        ("value string, headers map<string,string>", "'headers' is map<string,string>"),
        ("value string, amount double", "cannot write the column 'amount'"),
        ("value string, VALUE binary", "column 'VALUE' appears twice"),
    ],
)
def test_schemas_that_are_refused(columns: str, words: str) -> None:
    with pytest.raises(WrongSchema, match=re.escape(words)):
        check_schema(schema(columns), "orders")


def test_a_topic_is_needed_as_option_or_column() -> None:
    check_schema(schema("value string, topic string"), None)
    with pytest.raises(WrongSchema, match="The topic is missing"):
        check_schema(schema("value string"), None)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"delivery": "at_most_once"},
            "delivery='at_most_once' is illegal. Set it to 'at_least_once', 'exactly_once'",
        ),
        (
            {"delivery": "exactly_once", "kafka.transaction.timeout.ms": "9999"},
            "is too short for a micro-batch",
        ),
        (
            {"delivery": "exactly_once", "kafka.transaction.timeout.ms": "long"},
            "is too short for a micro-batch",
        ),
        ({"kafka.transaction.timeout.ms": "60000"}, "has no transactions"),
        ({"kafka.transactional.id": "mine"}, "names the transactions itself"),
        ({"kafka.enable.idempotence": "false"}, "kafka.enable.idempotence must be true"),
        ({"kafka.key.serializer": "x"}, "as they are in their column"),
        ({"kafka.partitioner.class": "x"}, "column named partition"),
        ({"subscribe": "orders"}, "option of the source"),
        ({"epoch.sink": "a"}, "only exactly_once_batches"),
        ({"ledgerTopic": "a b"}, "ledgerTopic"),
        ({"topic": " "}, "topic"),
    ],
)
def test_options_that_are_refused(options: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        sink_options({**SERVERS, **options}, streaming=True)


def test_unknown_option_names_the_nearest() -> None:
    with pytest.raises(UnknownOption, match="delivery"):
        sink_options({**SERVERS, "delivry": "exactly_once"}, streaming=True)


def test_a_missing_server_is_named() -> None:
    with pytest.raises(ConfigurationError, match=r"kafka\.bootstrap\.servers is missing"):
        sink_options({"topic": "orders"}, streaming=True)


def test_transactions_may_take_as_long_as_brokers_allow_by_default() -> None:
    options = sink_options({**SERVERS, "delivery": "exactly_once"}, streaming=True)
    assert options.kafka["transaction.timeout.ms"] == str(TRANSACTION_MS)
    assert "transaction.timeout.ms" not in sink_options(SERVERS, streaming=True).kafka


def test_tasks_of_a_batch_write_do_not_commit_themselves() -> None:
    with pytest.raises(ConfigurationError, match="written completely or not at all"):
        sink_options({**SERVERS, "delivery": "exactly_once_per_task"}, streaming=False)


def test_no_secret_is_shown() -> None:
    options = sink_options({**SERVERS, "kafka.sasl.plain.password": "hunter2"}, streaming=True)
    assert "hunter2" not in repr(options)


def test_enable_idempotence_true_of_a_java_sink_is_accepted() -> None:
    options = sink_options({**SERVERS, "kafka.enable.idempotence": "TRUE"}, streaming=True)
    new_producer(options.kafka).close()


@pytest.mark.parametrize("here", ["source", "sink"])
def test_options_that_only_the_other_client_has_are_ignored_with_a_debug_line(
    here: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", "spark_connector")
    others = {f"kafka.{name}": "x" for name in (OF_PRODUCERS if here == "source" else OF_CONSUMERS)}
    secret = {"kafka.ssl.password": "canary", "kafka.client.id": "mine"}
    if here == "source":
        found = source_options({**SERVERS, **others, **secret, "subscribe": "t"}, streaming=True).kafka
        connections.new_consumer(found).close()
    else:
        found = sink_options({**SERVERS, **others, **secret, "topic": "t"}, streaming=True).kafka
        new_producer(found).close()
        kept_admin(found)
        connections.close_all()
    assert {*found} == {"bootstrap.servers", "ssl.password", "client.id"}
    (line,) = [record.getMessage() for record in caplog.records if record.name.startswith("spark_connector")]
    assert all(name.removeprefix("kafka.") in line for name in others)
    assert "canary" not in line


def test_option_that_no_client_has_is_refused_by_source_and_sink() -> None:
    with pytest.raises(UnknownOption, match=r"kafka\.\*: there is no option 'acsk'"):
        new_producer(sink_options({**SERVERS, "kafka.acsk": "1"}, streaming=True).kafka)
    options = source_options({**SERVERS, "kafka.fetch.mxa.bytes": "1", "subscribe": "t"}, streaming=True)
    with pytest.raises(UnknownOption, match=r"kafka\.\*: there is no option 'fetch.mxa.bytes'"):
        connections.new_consumer(options.kafka)


def test_lists_of_the_other_clients_options_are_complete() -> None:
    def names(table: OptionTable[Any]) -> set[str]:
        return {name.replace("_", ".") for name in (*table.fields, *table.refused, *table.ignored)}

    consumers, producers, admins = map(names, (CONSUMER_OPTIONS, PRODUCER_OPTIONS, ADMIN_OPTIONS))
    assert consumers - producers - admins == OF_CONSUMERS
    assert producers - consumers - admins == OF_PRODUCERS - {
        "max.in.flight.requests.per.connection",  # a consumer ignores it, too
        "retries",  # an admin client has it
    }
    refused = {"interceptors", "interceptor.classes"}
    assert (consumers & producers) - admins - OF_PRODUCERS - refused == NOT_OF_ADMINS


def test_shared_client_options_are_accepted_by_every_client() -> None:
    options = {
        **dict.fromkeys(OF_PRODUCERS, "1"),
        "bootstrap.servers": "localhost:1",
        "security.protocol": "PLAINTEXT",
        "request.timeout.ms": "20000",
        "retry.backoff.ms": "50",
        "client.id": "mine",
        "client.rack": "a",
    }
    shared = shared_options(options)
    assert set(shared) == set(options) - OF_PRODUCERS - NOT_OF_ADMINS
    connections.new_admin({"bootstrap.servers": "localhost:1", "client.rack": "a"}).close()
    for client in (KafkaAdminClient, KafkaConsumer, KafkaProducer):
        client(shared).close()  # type: ignore[attr-defined]


def test_batches_helper_rejects_unsupported_options() -> None:
    with pytest.raises(ConfigurationError, match="at_least_once"):
        exactly_once_batches("totals", topic="t", delivery="at_least_once", **SERVERS)
    with pytest.raises(ConfigurationError, match=r"epoch\.sink"):
        exactly_once_batches("a/b", topic="t", **SERVERS)
    assert "totals" in repr(exactly_once_batches("totals", topic="t", **SERVERS))


def test_a_ledger_shows_no_secret() -> None:
    options = {"kafka.bootstrap.servers": "b:1", "topic": "t", "kafka.sasl.password": "canary"}
    ledger = Cluster(sink_options({**options, "delivery": "exactly_once"}, streaming=True), "q").ledger
    assert "canary" not in repr(ledger)
    assert "b:1" in repr(ledger)
