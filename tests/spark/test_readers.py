"""Objects for Spark, without a session: schemas, readers that can be pickled, offsets as text."""

from __future__ import annotations

import datetime
import json
import pickle
from collections.abc import Iterator

import pytest
from pyspark.sql.datasource import (
    DataSourceReader,
    DataSourceStreamReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable, SupportsTriggerAvailableNow
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

import pyspark_pykafka2
from pykafka2 import AclBinding, KafkaAdminClient, KafkaConsumer, TopicPartition
from pykafka2.cli.main import main
from pykafka2.errors import (
    ConfigurationError,
    KafkaError,
    KafkaTimeoutError,
    NoBrokersAvailable,
    TopicAuthorizationFailed,
)
from pykafka2.testing import STANDARD_AUTHORIZER, KafkaCluster, Listener
from spark_connector import KafkaDataSource, connections
from spark_connector.errors import DataLoss, WrongSchema
from spark_connector.options.fields import INT64_MAX
from spark_connector.options.source_options import COLUMNS, source_options
from spark_connector.source.arrow import arrow_schema
from spark_connector.source.choice import UnlimitedStreamReader
from spark_connector.source.filters import Limits
from spark_connector.source.limited_stream import LimitedStreamReader
from spark_connector.source.ranges import OffsetRange
from spark_connector.source.schema import spark_schema
from spark_connector.source.topics import Topics
from tests.spark.kafka_data import send

OPTIONS = {"kafka.bootstrap.servers": "localhost:1", "subscribe": "t"}


def test_spark_finds_the_source_by_its_module() -> None:
    assert pyspark_pykafka2.DefaultSource is KafkaDataSource
    assert KafkaDataSource.name() == "pykafka2"


def test_arrow_schema_equals_the_conversion_by_spark() -> None:
    assert to_arrow_schema(spark_schema(COLUMNS), timezone="UTC").equals(arrow_schema(COLUMNS))


@pytest.mark.parametrize(
    ("settings", "columns"),
    [
        ({}, COLUMNS[:-1]),
        ({"includeheaders": "true"}, COLUMNS),
        ({"columns": "offset,VALUE"}, ("offset", "value")),
    ],
    ids=str,
)
def test_the_schema_follows_the_options(
    kafka_cluster: KafkaCluster, settings: dict[str, str], columns: tuple[str, ...]
) -> None:
    servers = {"kafka.bootstrap.servers": kafka_cluster.bootstrap_servers}
    assert KafkaDataSource({**OPTIONS, **servers, **settings}).schema() == spark_schema(columns)


def test_a_schema_of_the_users_is_a_choice_of_columns() -> None:
    chosen = spark_schema(("offset", "key"))
    assert KafkaDataSource(OPTIONS).reader(chosen)._task._columns == ("offset", "key")


@pytest.mark.parametrize(
    ("field", "words"),
    [
        (StructField("value", StringType()), "column value must be binary"),
        (StructField("id", StringType()), "unknown column 'id'"),
        (StructField("value", BinaryType(), nullable=False), "column value is NOT NULL"),
        (None, "has no column. Choose from key, value"),
    ],
    ids=["type", "name", "not null", "nothing"],
)
def test_another_schema_is_refused(field: StructField | None, words: str) -> None:
    """Spark counts no rows where there is no column, and believes that nulls cannot be."""
    with pytest.raises(WrongSchema, match=words):
        KafkaDataSource(OPTIONS).reader(StructType([field] if field is not None else []))


@pytest.mark.parametrize("method", ["reader", "streamReader"])
def test_invalid_options_raise_before_any_task(method: str) -> None:
    source = KafkaDataSource({**OPTIONS, "assign": '{"t": [0]}'})
    with pytest.raises(ConfigurationError, match="subscribe and assign are set"):
        getattr(source, method)(spark_schema(COLUMNS[:-1]))
    with pytest.raises(ConfigurationError, match="subscribe and assign are set"):
        source.schema()


@pytest.fixture
def reader(kafka_cluster: KafkaCluster) -> Iterator[DataSourceStreamReader]:
    kafka_cluster.create_topic("t", partitions=12)
    options = {
        "kafka.bootstrap.servers": kafka_cluster.bootstrap_servers,
        "subscribe": "t",
        "startingoffsets": "earliest",
        "minpartitions": "20",
    }
    yield KafkaDataSource(options).streamReader(spark_schema(COLUMNS[:-1]))
    connections.close_all()


@pytest.mark.kafka(brokers=1)
def test_equal_offsets_are_equal_text(reader: DataSourceStreamReader, kafka_cluster: KafkaCluster) -> None:
    first = reader.initialOffset()
    send(kafka_cluster, "t", [1] * 12)
    assert json.dumps(reader.latestOffset(first, ReadAllAvailable())) == json.dumps(
        {"t": {str(number): 1 for number in range(12)}}
    )
    again = json.loads(json.dumps(reader.latestOffset(first, reader.getDefaultReadLimit())))
    assert json.dumps(reader.latestOffset(again, reader.getDefaultReadLimit())) == json.dumps(again)
    assert json.dumps(reader.reportLatestOffset()) == json.dumps(again)


@pytest.mark.kafka(brokers=1)
def test_tasks_are_the_same_each_time_and_travel(reader: DataSourceStreamReader) -> None:
    start = {"t": {"0": 5, "1": 0}}
    end = {"t": {"0": 500, "1": 3, "2": 40}}
    tasks = reader.partitions(start, end)
    assert len(tasks) >= 20
    offsets = {number: set[int]() for number in range(3)}
    for one in tasks:
        offsets[one.value.partition] |= set(range(one.value.start, one.value.end))
    # A partition that is new begins at 0.
    assert offsets == {0: set(range(5, 500)), 1: {0, 1, 2}, 2: set(range(40))}
    assert [one.value for one in reader.partitions(start, end)] == [one.value for one in tasks]
    assert [one.value for one in pickle.loads(pickle.dumps(tasks))] == [one.value for one in tasks]


@pytest.mark.kafka(brokers=1)
def test_a_reader_travels(reader: DataSourceStreamReader, kafka_cluster: KafkaCluster) -> None:
    send(kafka_cluster, "t", [3])
    copy = pickle.loads(pickle.dumps(KafkaDataSource(
        {"kafka.bootstrap.servers": kafka_cluster.bootstrap_servers, "subscribe": "t"}
    ).streamReader(spark_schema(("offset",)))))  # fmt: skip
    (task,) = reader.partitions({"t": {"0": 2}}, {"t": {"0": 3}})
    assert [batch.to_pylist() for batch in copy.read(task)] == [[{"offset": 2}]]


def test_stream_reader_supports_trigger_available_now() -> None:
    reader = KafkaDataSource(OPTIONS).streamReader(spark_schema(COLUMNS[:-1]))
    assert isinstance(reader, SupportsTriggerAvailableNow)


# ---------------------------------------------------------------------------------------- conditions

T = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
OFFSET, PARTITION, TOPIC, TIME = ("offset",), ("partition",), ("topic",), ("timestamp",)


@pytest.mark.parametrize(
    ("condition", "is_taken", "first", "end"),
    [
        (EqualTo(OFFSET, 7), True, 7, 8),
        (GreaterThan(OFFSET, 7), True, 8, None),
        (GreaterThanOrEqual(OFFSET, 7), True, 7, None),
        (LessThan(OFFSET, 7), True, 0, 7),
        (LessThanOrEqual(OFFSET, 7), True, 0, 8),
        (In(OFFSET, (9, 3)), False, 3, 10),
        (Not(EqualTo(OFFSET, 7)), False, 0, None),
        (IsNotNull(OFFSET), True, 0, None),
        (IsNotNull(("value",)), False, 0, None),
        (EqualTo(("value",), b"x"), False, 0, None),
        (EqualTo(("headers", "key"), "x"), False, 0, None),
    ],
    ids=str,
)
def test_conditions_on_offsets(condition: Filter, is_taken: bool, first: int, end: int | None) -> None:
    limits = Limits()
    assert limits.take([condition]) == ([] if is_taken else [condition])
    assert (limits.first_offset, limits.end_offset) == (first, INT64_MAX if end is None else end)


@pytest.mark.parametrize(
    ("condition", "selected"),
    [
        (EqualTo(TOPIC, "a"), [0, 1]),
        (In(TOPIC, ("b", "c")), [2]),
        (GreaterThan(TOPIC, "a"), [2]),
        (EqualTo(PARTITION, 0), [0, 2]),
        (GreaterThanOrEqual(PARTITION, 1), [1]),
        (LessThan(PARTITION, 1), [0, 2]),
        (In(PARTITION, (1, 5)), [1]),
        (StringStartsWith(TOPIC, "b"), [0, 1, 2]),
    ],
    ids=str,
)
def test_conditions_on_topics_and_partitions(condition: Filter, selected: list[int]) -> None:
    there = [TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)]
    limits = Limits()
    assert bool(limits.take([condition])) == isinstance(condition, StringStartsWith)
    assert [number for number, one in enumerate(there) if limits.selects(one)] == selected


def test_a_null_among_the_values_of_a_condition_is_no_offset() -> None:
    limits = Limits()
    conditions: list[Filter] = [In(OFFSET, (3, None, 5)), In(OFFSET, (None,))]
    assert limits.take(conditions) == conditions
    assert (limits.first_offset, limits.end_offset) == (3, 6)


def test_a_time_before_1970_leaves_no_record_out() -> None:
    """Not even those without a time, which have -1."""
    limits = Limits()
    limits.take([GreaterThan(TIME, datetime.datetime(1960, 1, 1, tzinfo=datetime.UTC))])
    assert limits.first_ms is None


def test_conditions_on_time_make_a_beginning_and_stay_sparks() -> None:
    limits = Limits()
    conditions = [GreaterThan(TIME, T), GreaterThanOrEqual(TIME, T + datetime.timedelta(seconds=1))]
    conditions += [LessThan(TIME, T), GreaterThan(TIME, T)]
    assert limits.take(conditions) == conditions
    assert limits.first_ms == 1_767_225_601_000


@pytest.mark.kafka(brokers=1, topics={"t": 3})
def test_filters_limit_the_read_ranges(kafka_cluster: KafkaCluster) -> None:
    send(kafka_cluster, "t", [10, 10, 10], first_ms=1_767_225_600_000)
    options = {
        "kafka.bootstrap.servers": kafka_cluster.bootstrap_servers,
        "subscribe": "t",
        "pushdownfilters": "true",
    }
    reader = KafkaDataSource(options).reader(spark_schema(COLUMNS[:-1]))
    time = GreaterThanOrEqual(TIME, T + datetime.timedelta(seconds=4))
    assert reader.pushFilters([In(PARTITION, (0, 2)), LessThan(OFFSET, 8), time]) == [time]
    ranges = [one.value for one in reader.partitions()]
    assert ranges == [OffsetRange("t", 0, 4, 8), OffsetRange("t", 2, 4, 8)]
    pickle.loads(pickle.dumps(reader))


def test_reader_without_pushdownfilters_has_no_push_filters() -> None:
    reader = KafkaDataSource(OPTIONS).reader(spark_schema(COLUMNS[:-1]))
    assert type(reader).pushFilters is DataSourceReader.pushFilters


@pytest.mark.kafka(brokers=1, topics={"t": 1})
def test_a_first_batch_that_is_played_again_is_followed_by_records(kafka_cluster: KafkaCluster) -> None:
    """Spark has its end in the checkpoint then, and asks for no beginning before it plans it."""
    send(kafka_cluster, "t", [3])
    servers = {"kafka.bootstrap.servers": kafka_cluster.bootstrap_servers}
    settings = {**OPTIONS, **servers, "startingOffsets": "earliest"}
    reader = LimitedStreamReader(source_options(settings, streaming=True), ("value",))
    try:
        first = reader.initialOffset()
        assert list(reader.partitions(first, first)) == []
        assert reader.latestOffset(first, reader.getDefaultReadLimit()) == {"t": {"0": 3}}
    finally:
        reader.stop()


@pytest.mark.parametrize("lenient", [False, True], ids=["fails", "goes on"])
def test_reader_without_batch_starts_reports_losses_when_planning_tasks(lenient: bool) -> None:
    """Spark 4.1: only there is it known where a batch begins."""
    options = source_options({**OPTIONS, "failOnDataLoss": str(not lenient)}, streaming=True)
    reader = UnlimitedStreamReader(options, ("value",))
    try:
        start, end = {"t": {"0": 5, "1": 2, "2": 0}}, {"t": {"0": 1, "2": 4}}
        if lenient:
            assert [one.value for one in reader.partitions(start, end)] == [OffsetRange("t", 2, 0, 4)]
            return
        with pytest.raises(DataLoss, match="t-1 no longer exists"):
            reader.partitions(start, end)
        with pytest.raises(DataLoss, match="t-0 was truncated from offset 5 to 1"):
            reader.partitions({"t": {"0": 5}}, end)
    finally:
        reader.stop()


@pytest.mark.parametrize(
    "selection",
    [{"subscribe": "t,u,v"}, {"assign": '{"t": [0], "u": [0], "v": [0]}'}],
    ids=["subscribe", "assign"],
)
def test_topic_authorization_error_names_the_topics(selection: dict[str, str]) -> None:
    config = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:admin"}
    listeners = {"SASL_PLAINTEXT": Listener(mechanisms=["PLAIN"])}
    users = {"admin": "secret", "ann": "secret"}
    with KafkaCluster(
        1, {"t": 1, "u": 1, "v": 1}, listeners=listeners, users=users, config=config
    ) as cluster:
        login = {
            "kafka.bootstrap.servers": cluster.bootstrap_servers,
            "kafka.security.protocol": "SASL_PLAINTEXT",
            "kafka.sasl.mechanism": "PLAIN",
            "kafka.sasl.username": "ann",
            "kafka.sasl.password": "secret",
        }
        with KafkaAdminClient(**cluster.options_for("admin")) as admin:
            admin.create_acls([AclBinding("TOPIC", "t", "LITERAL", "User:ann", "*", "DESCRIBE", "ALLOW")])
        options = source_options({**login, **selection}, streaming=True)
        with (
            connections.new_consumer(options.kafka) as consumer,
            connections.new_admin(options.kafka) as client,
            pytest.raises(TopicAuthorizationFailed, match=r"topic 'u', 'v': .*It needs an ACL"),
        ):
            Topics(options, consumer, client).partitions()


@pytest.fixture
def committing(kafka_cluster: KafkaCluster) -> Iterator[LimitedStreamReader]:
    settings = {"kafka.bootstrap.servers": kafka_cluster.bootstrap_servers, "commitToGroup": "reports"}
    yield LimitedStreamReader(source_options({**OPTIONS, **settings}, streaming=True), COLUMNS)
    connections.close_all()


def lag(cluster: KafkaCluster, capsys: pytest.CaptureFixture[str]) -> int:
    words = ["groups", "describe", "reports", "--json", "-b", cluster.bootstrap_servers]
    assert main(words) == 0
    found: int = json.loads(capsys.readouterr().out)["lag"]
    return found


@pytest.mark.kafka(brokers=1, topics={"t": 2, "u": 1})
def test_commit_to_group_shows_the_lag_to_the_command_line(
    kafka_cluster: KafkaCluster, committing: LimitedStreamReader, capsys: pytest.CaptureFixture[str]
) -> None:
    send(kafka_cluster, "t", [5, 3])
    send(kafka_cluster, "u", [4])
    committing.commit({"t": {"0": 1, "1": 0}, "u": {"0": 0}})
    assert lag(kafka_cluster, capsys) == 11
    committing.commit({"t": {"0": 5, "1": 3}, "u": {"0": 2}})
    assert lag(kafka_cluster, capsys) == 2
    committing.commit({})


@pytest.mark.kafka(brokers=1, topics={"t": 2})
def test_next_micro_batch_commits_where_the_last_one_ended(
    kafka_cluster: KafkaCluster, committing: LimitedStreamReader
) -> None:
    """Spark 4.2 calls commit() only when a later batch begins, so not for the last one of a run."""
    send(kafka_cluster, "t", [5, 3])
    committing.latestOffset({"t": {"0": 1, "1": 2}}, committing.getDefaultReadLimit())
    with KafkaAdminClient(bootstrap_servers=kafka_cluster.bootstrap_servers) as admin:
        found = admin.list_group_offsets("reports")
    assert {place.partition: committed.offset for place, committed in found.items()} == {0: 1, 1: 2}


def test_each_end_is_committed_once_and_delays_the_next_batch_by_seconds_at_most(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    commits: list[tuple[object, float]] = []

    class Admin:
        def alter_group_offsets(self, group: str, offsets: object, timeout: float = 60) -> None:
            commits.append((offsets, timeout))

    monkeypatch.setattr(connections, "admin", lambda kafka: Admin())
    reader = LimitedStreamReader(source_options({**OPTIONS, "commitToGroup": "g"}, streaming=True), COLUMNS)
    for end in (1, 1, 2, 2):
        reader.commit({"t": {"0": end}})
    reader.commit({})
    assert [offsets for offsets, _ in commits] == [{TopicPartition("t", 0): end} for end in (1, 2)]
    assert max(timeout for _, timeout in commits) <= 5


@pytest.mark.kafka(brokers=1, topics={"t": 2})
def test_failed_commit_to_group_is_only_logged(
    kafka_cluster: KafkaCluster, committing: LimitedStreamReader, caplog: pytest.LogCaptureFixture
) -> None:
    with KafkaConsumer("t", bootstrap_servers=kafka_cluster.bootstrap_servers, group_id="reports") as member:
        member.poll(timeout_ms=0)
        kafka_cluster.wait_until(lambda: len(kafka_cluster.group("reports").members) == 1, 60)
        committing.commit({"t": {"0": 1, "1": 0}})
    assert "The offsets were not committed to commitToGroup=reports: " in caplog.text


@pytest.mark.parametrize("error", [KafkaTimeoutError("slow"), NoBrokersAvailable("none")], ids=repr)
def test_commit_to_group_without_a_broker_is_only_logged(
    error: KafkaError, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Admin:
        def alter_group_offsets(self, *arguments: object, **named: object) -> None:
            raise error

    def no_client(kafka: object) -> None:
        raise error

    reader = LimitedStreamReader(source_options({**OPTIONS, "commitToGroup": "g"}, streaming=True), COLUMNS)
    for number, admin in enumerate((lambda kafka: Admin(), no_client)):
        monkeypatch.setattr(connections, "admin", admin)
        reader.commit({"t": {"0": number}})
    assert caplog.text.count("The offsets were not committed to commitToGroup=g: ") == 2


@pytest.mark.kafka(brokers=1, topics={"t": 2})
def test_without_commit_to_group_nothing_is_committed(kafka_cluster: KafkaCluster) -> None:
    servers = {"kafka.bootstrap.servers": kafka_cluster.bootstrap_servers}
    LimitedStreamReader(source_options({**OPTIONS, **servers}, streaming=True), COLUMNS).commit(
        {"t": {"0": 1}}
    )
    with KafkaAdminClient(bootstrap_servers=kafka_cluster.bootstrap_servers) as admin:
        assert list(admin.list_groups()) == []
    with pytest.raises(ConfigurationError, match="commitToGroup is an option of stream queries"):
        source_options({**OPTIONS, "commitToGroup": "g"}, streaming=False)
