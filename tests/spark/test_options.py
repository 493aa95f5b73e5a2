"""Options of the source: what is known, what is refused, in which words."""

from __future__ import annotations

import re
import traceback

import pytest

from pykafka2 import TopicPartition
from pykafka2.consumer.options import CONSUMER_OPTIONS
from pykafka2.errors import ConfigurationError, KafkaError, UnknownOption
from pykafka2.producer.options import PRODUCER_OPTIONS
from spark_connector import connections
from spark_connector.options.kafka_options import for_sink, redacted
from spark_connector.options.reading import table_of
from spark_connector.options.source_options import SourceOptions, source_options
from spark_connector.sink.clients import shared_options

SERVERS = {"kafka.bootstrap.servers": "localhost:9092"}
LEAST = {**SERVERS, "subscribe": "orders"}
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def read(streaming: bool | None = True, /, **settings: str) -> SourceOptions:
    return source_options({**LEAST, **settings}, streaming=streaming)


def test_defaults_are_those_of_sparks_own_connector() -> None:
    options = read()
    assert options.starting_offsets is None
    assert options.ending_offsets == "latest"
    assert options.fail_on_data_loss
    assert options.starting_offsets_by_timestamp_strategy == "error"
    assert (options.fetch_offset_retries, options.fetch_offset_retry_interval_ms) == (3, 1000)
    assert options.max_trigger_delay_ms == 15 * 60_000
    assert options.task_timeout_ms == "120000"
    assert options.isolation_level == "read_uncommitted"
    assert options.column_names == (
        "key", "value", "topic", "partition", "offset", "timestamp", "timestampType"
    )  # fmt: skip


@pytest.mark.parametrize("written", ["startingoffsets", "startingOffsets", "STARTINGOFFSETS"])
def test_case_means_nothing(written: str) -> None:
    assert read(**{written: "Earliest"}).starting_offsets == "earliest"


@pytest.mark.parametrize(
    ("settings", "field", "value"),
    [
        ({"startingOffsets": '{"t": {"0": 23, "1": -2}}'}, "starting_offsets", {T0: 23, T1: -2}),
        ({"startingTimestamp": "1700000000000"}, "starting_timestamp", 1_700_000_000_000),
        ({"startingOffsetsByTimestamp": '{"t": {"0": 5}}'}, "starting_offsets_by_timestamp", {T0: 5}),
        ({"failOnDataLoss": "FALSE"}, "fail_on_data_loss", False),
        ({"maxTriggerDelay": "2h"}, "max_trigger_delay_ms", 7_200_000),
        ({"maxTriggerDelay": "90"}, "max_trigger_delay_ms", 90),
        ({"maxBytesPerTrigger": "64m"}, "max_bytes_per_trigger", 64 << 20),
        ({"maxBytesPerTrigger": "10kb"}, "max_bytes_per_trigger", 10 << 10),
        ({"columns": "VALUE, timestamptype"}, "columns", ("value", "timestampType")),
        ({"fetchOffset.numRetries": "0"}, "fetch_offset_retries", 0),
        ({"kafkaConsumer.pollTimeoutMs": "512"}, "poll_timeout_ms", 512),
        ({"subscribe": "a, b,,a"}, "subscribe", ("a", "b")),
    ],
)
def test_values_are_read(settings: dict[str, str], field: str, value: object) -> None:
    assert getattr(read(**settings), field) == value


def test_assign_names_partitions() -> None:
    assert source_options({**SERVERS, "assign": '{"t": [1, 0, 1]}'}).assign == (T0, T1)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"startingOffsets": "newest"}, "startingOffsets='newest' is illegal"),
        ({"startingOffsets": '{"t": {"0": -3}}'}, "'t' has '0': -3"),
        ({"startingOffsets": '{"t": {"0": 1'}, "it is not JSON"),
        ({"startingOffsets": '{"t": ' * 100_000}, "it is nested too deeply"),
        ({"startingOffsets": "{}"}, "not a JSON object, or it is empty"),
        ({"startingTimestamp": "-1"}, "startingTimestamp='-1' is illegal. Set it to milliseconds"),
        (
            {"maxOffsetsPerTrigger": "0"},
            "maxOffsetsPerTrigger='0' is illegal. Set it to a whole number of at least 1",
        ),
        ({"maxTriggerDelay": "soon"}, "maxTriggerDelay='soon' is illegal. Set it to a time such as '15m'"),
        ({"minPartitions": "-1"}, "minPartitions='-1'"),
        ({"maxRecordsPerPartition": "0"}, "maxRecordsPerPartition='0'"),
        ({"failOnDataLoss": "perhaps"}, "failOnDataLoss='perhaps' is illegal. Set it to 'true' or 'false'"),
        ({"startingOffsetsByTimestampStrategy": "earliest"}, "Set it to 'error' or 'latest'"),
        ({"isolation": "committed"}, "isolation='committed'"),
        ({"columns": "value,headres"}, "there is no column 'headres'"),
        ({"subscribe": " , "}, "subscribe=' , ' is illegal. Set it to topics separated by commas"),
        (
            {"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"},
            "minOffsetsPerTrigger=9 is above max",
        ),
        (
            {"endingOffsets": "latest"},
            "endingOffsets is an option of batch queries and has no meaning for a stream query",
        ),
        ({"endingTimestamp": "1"}, "endingTimestamp is an option of batch queries"),
        (
            {"endingOffsetsByTimestamp": '{"t":{"0":1}}'},
            "endingOffsetsByTimestamp is an option of batch queries",
        ),
        ({"isolation": "read_committed", "kafka.isolation.level": "read_uncommitted"}, "Set only one"),
        ({"includeHeaders": "true", "columns": "value"}, "columns does not name headers"),
        ({"assign": '{"t": [0]}'}, "subscribe and assign are set"),
        ({"subscribePattern": "a.*"}, "subscribe and subscribePattern are set"),
        ({"topic": "totals"}, "topic is an option of the sink, not of the source. Set subscribe"),
        (
            {"kafka.auto.offset.reset": "earliest"},
            "kafka.auto.offset.reset cannot be set: startingOffsets sets",
        ),
        ({"kafka.key.deserializer": "x"}, "kafka.key.deserializer cannot be set"),
        ({"kafka.value.deserializer": "x"}, "kafka.value.deserializer cannot be set"),
        (
            {"kafka.enable.auto.commit": "true"},
            "kafka.enable.auto.commit cannot be set: the source commits no",
        ),
        ({"kafka.interceptor.classes": "x"}, "kafka.interceptor.classes cannot be set"),
        ({"kafka.bootstrap.servers": " "}, "kafka.bootstrap.servers is missing"),
    ],
    ids=lambda one: "+".join(one) if isinstance(one, dict) else "",
)
def test_invalid_option_raises_with_the_reason(settings: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read(**settings)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"startingOffsets": "latest"}, "where a batch query cannot begin"),
        ({"startingOffsets": '{"t": {"0": -1}}'}, "where a batch query cannot begin"),
        ({"endingOffsets": "earliest"}, "a query cannot end before it begins"),
        ({"endingOffsets": '{"t": {"0": -2}}'}, "-2 is earliest, where a query cannot end"),
    ],
)
def test_invalid_batch_option_raises_with_the_reason(settings: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        read(False, **settings)


def test_missing_topic_selection_raises() -> None:
    with pytest.raises(
        ConfigurationError, match=r"Set exactly one of subscribe, subscribePattern and assign; none is"
    ):
        source_options(SERVERS)


@pytest.mark.parametrize(
    ("written", "nearest"),
    [
        ("startingOfsets", "startingOffsets"),
        ("maxOffsetPerTrigger", "maxOffsetsPerTrigger"),
        ("bootstrap.servers", "kafka.bootstrap.servers"),
        ("security.protocol", "kafka.security.protocol"),
        ("sasl_mechanism", "kafka.sasl.mechanism"),
        ("fetchOffset.numRetry", "fetchOffset.numRetries"),
    ],
)
def test_an_unknown_option_names_the_nearest(written: str, nearest: str) -> None:
    with pytest.raises(UnknownOption, match=f"Unknown option '{written}'. Did you mean '{nearest}'"):
        read(**{written: "1"})


@pytest.mark.parametrize(
    ("streaming", "name", "value", "kinds"),
    [
        (False, "maxOffsetsPerTrigger", "5", "option of stream queries and has no meaning for a batch query"),
        (False, "maxTriggerDelay", "5s", "option of stream queries and has no meaning for a batch query"),
        (True, "endingTimestamp", "5", "option of batch queries and has no meaning for a stream query"),
        (True, "pushDownFilters", "true", "option of batch queries and has no meaning for a stream query"),
    ],
)
def test_option_of_the_other_kind_of_query_is_refused(
    streaming: bool, name: str, value: str, kinds: str
) -> None:
    with pytest.raises(ConfigurationError, match=f"{name} is an {kinds}. Leave it out"):
        read(streaming, **{name: value})


@pytest.mark.parametrize(
    ("settings", "task_timeout_ms"),
    [
        ({"kafka.default.api.timeout.ms": "1500"}, "1500"),
        ({"kafkaConsumer.pollTimeoutMs": "700"}, "700"),
        ({"kafka.default.api.timeout.ms": "1500", "kafkaConsumer.pollTimeoutMs": "7000"}, "7000"),
    ],
    ids=["client", "task", "both"],
)
def test_poll_timeout_wins_over_the_clients_timeout_in_tasks(
    settings: dict[str, str], task_timeout_ms: str
) -> None:
    assert read(**settings).task_timeout_ms == task_timeout_ms


def test_options_added_by_spark_are_accepted() -> None:
    read(checkpointLocation="/tmp/x", queryName="q")


def test_options_of_groups_mean_nothing() -> None:
    assert read(**{"kafka.group.id": "g", "groupIdPrefix": "p"}).kafka == {
        "bootstrap.servers": "localhost:9092"
    }


@pytest.mark.parametrize(
    ("settings", "translated"),
    [
        (
            {"ssl.truststore.type": "PEM", "ssl.truststore.location": "/ca.pem"},
            {"ssl.cafile": "/ca.pem"},
        ),
        (
            {"ssl.keystore.type": "pem", "ssl.keystore.location": "/me.pem"},
            {"ssl.certfile": "/me.pem", "ssl.keyfile": "/me.pem"},
        ),
        ({"ssl.endpoint.identification.algorithm": ""}, {"ssl.check.hostname": "false"}),
    ],
    ids=lambda one: next(iter(one)),
)
def test_java_clients_options_are_translated(settings: dict[str, str], translated: dict[str, str]) -> None:
    options = read(**{f"kafka.{name}": value for name, value in settings.items()})
    assert options.kafka == {"bootstrap.servers": "localhost:9092", **translated}


def test_a_jaas_line_is_for_the_clients_to_read_and_is_not_shown() -> None:
    line = 'a.PlainLoginModule required username="me" password="hush";'
    used = {"kafka.security.protocol": "SASL_SSL", "kafka.sasl.mechanism": "PLAIN"}
    options = read(**{"kafka.sasl.jaas.config": line, **used})
    client = CONSUMER_OPTIONS.parse(options.kafka, {})
    assert (client.sasl_username, client.sasl_password) == ("me", "hush")
    assert "hush" not in repr(options)
    options = read(**{"kafka.sasl.jaas.config": 'Krb5LoginModule required secret="hush";'})
    with pytest.raises(ConfigurationError, match="module Krb5LoginModule is unknown") as caught:
        CONSUMER_OPTIONS.parse(options.kafka, {})
    assert "hush" not in str(caught.value)


def test_a_jaas_line_of_amazon_msk_leads_to_a_token_provider() -> None:
    options = read(**{"kafka.sasl.jaas.config": "software.amazon.msk.auth.iam.IAMLoginModule required;"})
    with pytest.raises(ConfigurationError, match="'OAUTHBEARER' and a token provider that signs for MSK"):
        CONSUMER_OPTIONS.parse(options.kafka, {})


def test_secrets_are_in_no_repr() -> None:
    options = read(**{"kafka.ssl.key.password": "hush", "kafka.sasl.plain.password": "hush"})
    assert "hush" not in repr(options)
    assert "localhost:9092" in repr(options)


def test_unknown_options_of_clients_are_named_as_they_were_written() -> None:
    options = read(**{"kafka.fetch.max.byte": "1"})
    with pytest.raises(UnknownOption, match=r"kafka\.\*.*'fetch\.max\.byte'.*nearest is 'fetch\.max\.bytes"):
        connections.new_consumer(options.kafka)


def test_options_of_java_alone_are_refused_with_the_reason() -> None:
    with pytest.raises(ConfigurationError, match=r"kafka\.\*.*Java key stores are not supported"):
        connections.new_consumer(read(**{"kafka.ssl.truststore.location": "/ca.jks"}).kafka)


def test_every_option_has_a_documentation() -> None:
    for field, declared in table_of(SourceOptions).values():
        assert declared.doc.endswith("."), field
        assert declared.legal, field
        assert declared.default, field


def test_json_in_the_text_of_an_option_is_a_legal_value_of_it() -> None:
    shown = {
        name: re.search(r"{.*}", declared.legal)
        for name, (_, declared) in table_of(SourceOptions).items()
        if "JSON" in declared.legal
    }
    assert len(shown) >= 5
    for name, json in shown.items():
        assert json is not None, name
        declared = table_of(SourceOptions)[name][1]
        declared.read(json.group())


def test_names_of_kafkas_options_may_be_written_with_underscores() -> None:
    """Values as the clients accept them; they mean the same for reads and for the options shown."""
    options = read(**{"kafka.isolation_level": "read_committed", "kafka.ssl_keystore_key": "PRIVATE"})
    assert options.isolation_level == "read_committed"
    assert "PRIVATE" not in repr(options)
    with pytest.raises(ConfigurationError, match=r"kafka\.enable\.auto\.commit cannot be set"):
        read(**{"kafka.enable_auto_commit": "true"})
    with pytest.raises(ConfigurationError, match=r"kafka\.isolation\.level is set twice"):
        read(**{"kafka.isolation_level": "read_committed", "kafka.isolation.level": "read_uncommitted"})


CANARY = "canary-in-the-coal-mine"
SECRETS = sorted(
    {
        name
        for table in (CONSUMER_OPTIONS, PRODUCER_OPTIONS)
        for option in table.options.values()
        if option.secret
        for spelling in (option.name, *option.aliases)
        for name in (spelling, spelling.replace("_", "."))
    }
)


@pytest.mark.parametrize("name", SECRETS)
def test_every_secret_of_the_clients_is_hidden_here_too(name: str) -> None:
    """By whichever of its names it was given: in the repr of the options, in errors of others beside it."""
    settings = {f"kafka.{name}": CANARY}
    assert CANARY not in repr(read(**settings))
    assert CANARY not in repr(redacted({name: CANARY}))
    for wrong in ({"startingoffsets": "nowhere"}, {"kafka.auto.offset.reset": "latest"}, {"no": "1"}):
        with pytest.raises(KafkaError) as caught:
            read(**settings, **wrong)
        assert CANARY not in "".join(traceback.format_exception(caught.value))


def test_admin_client_of_a_source_gets_every_option_that_it_shares_with_the_consumer() -> None:
    security = {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "OAUTHBEARER",
        "kafka.oauth_cb": "tests.token_providers:with_config",
        "kafka.https.ca.location": "ca.pem",
        "kafka.isolation.level": "read_committed",
        "kafka.fetch.max.bytes": "1000",
    }
    options = read(**security)
    for client in (connections.new_admin(options.kafka), connections.new_consumer(options.kafka)):
        client.close()


def test_every_client_of_a_sink_gets_its_options_of_oauthbearer() -> None:
    """Also those that look up offsets and end transactions."""
    security = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauth.token.provider": "tests.token_providers:opaque",
        "sasl.oauthbearer.config": "abc",
        "https.ca.location": "ca.pem",
    }
    shared = shared_options(for_sink({"bootstrap.servers": "localhost:1", "linger.ms": "5", **security}))
    assert {name: shared[name] for name in security} == security
    assert "linger.ms" not in shared
