"""Describing and changing configurations over the wire: layers, operations, refusals (KIP-226, KIP-339).

Messages were taken down from Apache Kafka 4.3.1.
"""

from __future__ import annotations

import pytest

from pykafka2.errors import NONE, name_of
from pykafka2.protocol.messages.configs import (
    AlterConfigsRequest,
    AlterConfigsRequestAlterableConfig,
    AlterConfigsRequestAlterConfigsResource,
    ListConfigResourcesRequest,
)
from pykafka2.testing.cluster import Topic
from tests.broker.support.admin_requests import (
    APPEND,
    BROKER,
    DELETE,
    GROUP,
    LOGGER,
    METRICS,
    SET,
    SUBTRACT,
    TOPIC,
    alter,
    describe,
    value_of,
)
from tests.broker.support.batches import batch
from tests.broker.support.data_requests import produce
from tests.broker.support.raw_client import RawClient
from tests.connections import LiveCluster

DONE = (name_of(NONE), None)

FROM_TOPIC, FROM_BROKER, FROM_ALL_BROKERS, FROM_FILE, FROM_DEFAULT = range(1, 6)
FROM_METRICS, FROM_GROUP = 7, 8


@pytest.mark.kafka(brokers=2)
def test_broker_configs_contain_its_listener_address(live: LiveCluster) -> None:
    """The port that it was given with its start."""
    for broker in live.cluster.brokers:
        for option in ("listeners", "advertised.listeners"):
            value, _ = value_of(live.connect(broker.id), BROKER, str(broker.id), option)
            assert value == f"PLAINTEXT://{broker.address}"


@pytest.mark.kafka(brokers=3, topics={"t": 1}, config={"log.retention.hours": 2})
def test_topic_config_overrides_broker_and_default_configs(live: LiveCluster) -> None:
    wire, other = live.connect(), live.connect(1)
    assert value_of(wire, TOPIC, "t", "retention.ms") == ("7200000", FROM_DEFAULT)  # as Kafka says it
    assert alter(wire, BROKER, "", ("log.retention.ms", SET, "3000")) == DONE
    assert value_of(other, TOPIC, "t", "retention.ms") == ("3000", FROM_ALL_BROKERS)
    assert alter(wire, BROKER, "0", ("log.retention.ms", SET, "2000")) == DONE
    assert value_of(wire, TOPIC, "t", "retention.ms") == ("2000", FROM_BROKER)
    assert value_of(other, TOPIC, "t", "retention.ms") == ("3000", FROM_ALL_BROKERS)
    assert alter(wire, TOPIC, "t", ("retention.ms", SET, "1000")) == DONE
    described = describe(wire, TOPIC, "t")["retention.ms"]
    assert [(one.name, one.value, one.source) for one in described.synonyms] == [
        ("retention.ms", "1000", FROM_TOPIC),
        ("log.retention.ms", "2000", FROM_BROKER),
        ("log.retention.ms", "3000", FROM_ALL_BROKERS),
        ("log.retention.hours", "2", FROM_FILE),
        ("log.retention.hours", "168", FROM_DEFAULT),
    ]
    assert alter(wire, TOPIC, "t", ("retention.ms", DELETE, None)) == DONE
    assert alter(wire, BROKER, "0", ("log.retention.ms", DELETE, None)) == DONE
    assert value_of(wire, BROKER, "0", "log.retention.ms") == ("3000", FROM_ALL_BROKERS)
    assert list(describe(wire, BROKER, "")) == ["log.retention.ms", "min.insync.replicas"]


@pytest.mark.kafka(brokers=1, topics={"t": 1})
def test_values_of_a_list_option_are_appended_and_subtracted(wire: RawClient) -> None:
    for how, value, expected in (
        (APPEND, "compact", "delete,compact"),
        (APPEND, "compact", "delete,compact"),
        (SUBTRACT, "delete", "compact"),
        (SUBTRACT, "nothing", "compact"),
        (SUBTRACT, "compact", ""),
    ):
        assert alter(wire, TOPIC, "t", ("cleanup.policy", how, value)) == DONE
        assert value_of(wire, TOPIC, "t", "cleanup.policy") == (expected, FROM_TOPIC)


Change = tuple[str, int, str | None]

REFUSED: dict[str, list[tuple[int, str, Change, str | None]]] = {
    "INVALID_CONFIG": [
        (TOPIC, "t", ("nosuch", SET, "1"), "Unknown topic config name: nosuch"),
        (
            TOPIC,
            "t",
            ("retention.ms", SET, "abc"),
            "Invalid value abc for configuration retention.ms: Not a number of type LONG",
        ),
        (
            TOPIC,
            "t",
            ("retention.ms", APPEND, "1"),
            "Can't APPEND to key retention.ms because its type is not LIST.",
        ),
        (
            TOPIC,
            "t",
            ("remote.storage.enable", SET, "true"),
            "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with "
            "remote log storage.",
        ),
        (LOGGER, "0", ("nosuch", SET, "INFO"), "Logger nosuch does not exist!"),
        (
            GROUP,
            "g",
            ("consumer.session.timeout.ms", SET, "1"),
            "consumer.session.timeout.ms must be greater than or equal to "
            "group.consumer.min.session.timeout.ms",
        ),
        (GROUP, "g", ("nosuch", SET, "1"), "Unknown group config name: nosuch"),
        (
            GROUP,
            "g",
            ("streams.num.standby.replicas", SET, "3"),
            "streams.num.standby.replicas must be less than or equal to group.streams.max.standby.replicas",
        ),
        (
            GROUP,
            "g",
            ("share.auto.offset.reset", SET, "by_duration:-PT1H"),
            "Invalid value by_duration:-PT1H for configuration share.auto.offset.reset: Invalid "
            "value `by_duration:-PT1H` for configuration share.auto.offset.reset. The value must be "
            "either 'earliest', 'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'.",
        ),
        *(
            (METRICS, "m", ("match", SET, pattern), f"Illegal client matching pattern: {pattern}")
            for pattern in ("client_id=(", "client_id=a{99999999999}", "client_id=" + "(" * 2000)
        ),
    ],
    "INVALID_REQUEST": [
        (TOPIC, "t", ("nosuch", SET, None), "Null value not supported for : nosuch"),
        (TOPIC, "", ("retention.ms", SET, "1"), "Default topic resources are not allowed."),
        (BROKER, "1", ("message.max.bytes", SET, "1"), "Unexpected broker id, expected 0, but received 1"),
        (BROKER, "x", ("a", SET, "1"), "Node id must be an integer, but it is: x"),
        (
            BROKER,
            "0",
            ("num.partitions", SET, "3"),
            "Cannot update these configs dynamically: [num.partitions]",
        ),
        (
            BROKER,
            "",
            ("message.max.bytes", SET, "-1"),
            "Invalid value -1 for configuration message.max.bytes: Value must be at least 0",
        ),
        (
            BROKER,
            "",
            ("sasl.jaas.config", SET, "x"),
            "Cannot update these configs at default cluster level, broker id must be specified: "
            "[sasl.jaas.config]",
        ),
        (LOGGER, "1", ("root", SET, "INFO"), "Unexpected node id. Expected 0, but received 1"),
        (GROUP, "", ("nosuch", SET, "1"), "Default group resources are not allowed."),
        (
            METRICS,
            "m",
            ("interval.ms", SET, "1"),
            "Invalid value 1 for interval.ms, interval must be between 100 and 3600000 (1 hour)",
        ),
        (99, "m", ("a", SET, "1"), "Unknown resource type 99"),
    ],
    "UNKNOWN_SERVER_ERROR": [
        (TOPIC, "t", ("retention.ms", 7, "1"), None),
    ],
    "UNKNOWN_TOPIC_OR_PARTITION": [
        (TOPIC, "nosuch", ("retention.ms", SET, "1"), "The topic 'nosuch' does not exist."),
    ],
}


@pytest.mark.kafka(brokers=2, topics={"t": 1})
def test_invalid_alter_configs_requests_are_rejected_with_kafkas_messages(live: LiveCluster) -> None:
    wire = live.connect()
    version = live.cluster.controller.image.version
    for error, cases in REFUSED.items():
        for kind, name, change, words in cases:
            assert alter(wire, kind, name, change) == (error, words)
    twice = [("retention.ms", SET, "1"), ("retention.ms", SET, "2")]
    assert alter(wire, TOPIC, "t", *twice) == ("INVALID_REQUEST", "Error due to duplicate config keys")
    assert alter(wire, TOPIC, "t", ("retention.ms", SET, "1"), validate_only=True) == DONE
    assert live.cluster.controller.image.version == version


@pytest.mark.kafka(brokers=1, topics={"t": Topic(configs={"retention.ms": 5})})
def test_alter_configs_replaces_all_set_options(wire: RawClient) -> None:
    resource = AlterConfigsRequestAlterConfigsResource(
        resource_type=TOPIC,
        resource_name="t",
        configs=[AlterConfigsRequestAlterableConfig(name="segment.ms", value="7")],
    )
    for version in (0, 1, 2):
        request = AlterConfigsRequest(resources=[resource], validate_only=version == 0)
        (response,) = wire.call(request, version).responses
        assert (response.error_code, response.error_message) == (0, None)
        expected = "5" if version == 0 else "604800000"
        assert describe(wire, TOPIC, "t")["retention.ms"].value == expected
    assert value_of(wire, TOPIC, "t", "segment.ms") == ("7", FROM_TOPIC)


@pytest.mark.kafka(brokers=2, topics={"t": 1})
def test_resources_with_configurations_are_listed(live: LiveCluster) -> None:
    wire = live.connect()
    assert alter(wire, GROUP, "g", ("consumer.session.timeout.ms", SET, "50000")) == DONE
    assert alter(wire, METRICS, "m", ("interval.ms", SET, "5000")) == DONE
    assert value_of(wire, GROUP, "g", "consumer.session.timeout.ms") == ("50000", FROM_GROUP)
    assert value_of(wire, METRICS, "m", "interval.ms") == ("5000", FROM_METRICS)
    described = describe(wire, METRICS, "m")
    # kafka-configs prints the synonyms: only options that the subscription sets itself have one.
    assert [(one.value, one.source) for one in described["interval.ms"].synonyms] == [("5000", FROM_METRICS)]
    assert (described["metrics"].config_source, described["metrics"].synonyms) == (FROM_DEFAULT, [])
    listed = wire.call(ListConfigResourcesRequest(resource_types=[]), 1).config_resources
    assert [(one.resource_type, one.resource_name) for one in listed] == [
        (GROUP, "g"),
        (METRICS, "m"),
        (LOGGER, "0"),
        (LOGGER, "1"),
        (BROKER, "0"),
        (BROKER, "1"),
        (TOPIC, "t"),
    ]
    metrics_only = wire.call(ListConfigResourcesRequest(), 0).config_resources
    assert [one.resource_name for one in metrics_only] == ["m"]
    unknown = wire.call(ListConfigResourcesRequest(resource_types=[99]), 1)
    assert name_of(unknown.error_code) == "UNSUPPORTED_VERSION"


@pytest.mark.kafka(brokers=3)
def test_config_request_for_one_broker_must_reach_that_broker(live: LiveCluster) -> None:
    """The change itself is made by the controller, which may be another broker."""
    for node in range(3):
        wire, other = live.connect(node), (node + 1) % 3
        assert alter(wire, BROKER, str(node), ("max.connections", SET, "99")) == DONE
        assert alter(wire, LOGGER, str(node), ("root", SET, "DEBUG")) == DONE
        assert value_of(wire, BROKER, str(node), "max.connections") == ("99", FROM_BROKER)
        assert describe(wire, LOGGER, str(node))["root"].value == "DEBUG"
        refused = f"Unexpected broker id, expected {node}, but received {other}"
        assert alter(wire, BROKER, str(other), ("max.connections", SET, "9")) == ("INVALID_REQUEST", refused)
        refused = f"Unexpected node id. Expected {node}, but received {other}"
        assert alter(wire, LOGGER, str(other), ("root", SET, "INFO")) == ("INVALID_REQUEST", refused)


@pytest.mark.kafka(brokers=2, topics={"t": 1})
def test_a_brokers_own_limits_change_while_it_runs(live: LiveCluster) -> None:
    wire, other = live.connect(), live.connect(1)
    assert alter(wire, BROKER, "0", ("max.connections.per.ip", SET, "1")) == DONE
    assert live.connect().is_closed_by_broker()
    assert describe(live.connect(1), BROKER, "1")["max.connections.per.ip"].value == str(2**31 - 1)
    assert alter(wire, BROKER, "0", ("max.connections.per.ip", DELETE, None)) == DONE
    assert value_of(live.connect(), TOPIC, "t", "retention.ms") == ("604800000", FROM_DEFAULT)
    option = "transaction.partition.verification.enable"
    assert alter(other, BROKER, "", (option, SET, "false")) == DONE
    for broker in live.cluster.brokers:
        for replica in broker.replicas.replicas.values():
            assert not replica.log.verifications.required


@pytest.mark.kafka(brokers=1, topics={"t": 1})
def test_sensitive_configs_are_never_returned(wire: RawClient) -> None:
    assert (
        alter(wire, BROKER, "0", ("sasl.jaas.config", SET, "hidden"), ("plugin.key", SET, "hidden")) == DONE
    )
    described = describe(wire, BROKER, "0")
    for name in ("sasl.jaas.config", "plugin.key"):
        assert (described[name].value, described[name].is_sensitive) == (None, True)
        assert [one.value for one in described[name].synonyms] == [None]


@pytest.mark.kafka(brokers=2, topics={"t": Topic(replication_factor=2)})
def test_changes_act_on_live_partitions_at_once(live: LiveCluster) -> None:
    """Within one propagation, on every replica, without a restart."""
    leader = live.leader_id()
    wire = live.connect(leader)
    assert produce(wire, "t", 0, batch([b"x" * 500])).error_code == 0
    for kind, name, option, value, error in (
        (TOPIC, "t", "max.message.bytes", "100", "MESSAGE_TOO_LARGE"),
        (BROKER, "", "message.max.bytes", "100", "MESSAGE_TOO_LARGE"),
        (TOPIC, "t", "internal.segment.bytes", "200", "RECORD_LIST_TOO_LARGE"),
        (TOPIC, "t", "message.timestamp.before.max.ms", "1", "INVALID_TIMESTAMP"),
    ):
        assert alter(wire, kind, name, (option, SET, value)) == DONE
        assert name_of(produce(wire, "t", 0, batch([b"x" * 500])).error_code) == error
        for broker in live.cluster.brokers:
            config = broker.replicas.replicas["t", 0].config
            assert config.get(
                "max.message.bytes" if kind == BROKER else option.removeprefix("internal.")
            ) == int(value)
        assert alter(wire, kind, name, (option, DELETE, None)) == DONE
    own = str(leader)
    assert alter(wire, BROKER, own, ("message.max.bytes", SET, "100")) == DONE
    assert name_of(produce(wire, "t", 0, batch([b"x" * 500])).error_code) == "MESSAGE_TOO_LARGE"
    assert alter(wire, BROKER, own, ("message.max.bytes", DELETE, None)) == DONE
    assert produce(wire, "t", 0, batch([b"x" * 500])).error_code == 0
    assert alter(wire, TOPIC, "t", ("cleanup.policy", SET, "compact")) == DONE
    assert produce(wire, "t", 0, batch([b"no key"])).error_code != 0


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.kafka(brokers=2, topics={"t": Topic(replication_factor=2)})
def test_changed_compression_and_retention_act_at_once(live: LiveCluster) -> None:
    wire = live.connect(live.leader_id())
    for codec in ("gzip", "uncompressed"):
        assert alter(wire, TOPIC, "t", ("compression.type", SET, codec)) == DONE
        assert produce(wire, "t", 0, batch([b"x" * 500])).error_code == 0
    logs = [live.cluster.log("t", 0, broker=broker) for broker in range(2)]
    assert [[one.codec_id for one in log.batches()] for log in logs] == [[1, 0]] * 2

    def starts() -> list[int]:
        return [live.cluster.log("t", 0, broker=broker).log_start_offset for broker in range(2)]

    live.controls.roll_segments()
    assert alter(wire, TOPIC, "t", ("retention.ms", SET, "-1"), ("retention.bytes", SET, "-1")) == DONE
    live.controls.apply_retention()
    assert starts() == [0, 0]
    assert alter(wire, TOPIC, "t", ("retention.bytes", SET, "0")) == DONE
    live.controls.apply_retention()
    live.wait_for(lambda: starts() == [2, 2])
