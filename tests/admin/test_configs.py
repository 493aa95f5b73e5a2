"""Settings of two topics, two brokers and a group, in virtual time."""

from __future__ import annotations

import pytest

from pykafka2.admin.config_values import (
    AlterConfigOp,
    ConfigEntry,
    ConfigResource,
    ConfigResourceType,
    ConfigSynonym,
)
from pykafka2.admin.outcomes import ItemsFailed
from pykafka2.errors import IllegalArgument, InvalidConfig, UnknownTopicOrPartition
from pykafka2.protocol.messages.configs import DescribeConfigsRequest, IncrementalAlterConfigsRequest
from tests.admin.worlds import World

TOPIC, BROKER = ConfigResourceType.TOPIC, ConfigResourceType.BROKER
ORDERS, PAYMENTS = ConfigResource(TOPIC, "orders"), ConfigResource("topic", "payments")
BROKERS = [ConfigResource(BROKER, "0"), ConfigResource(BROKER, "1")]
ALL_BROKERS = ConfigResource(BROKER, "")


def value_of(world: World, resource: ConfigResource, name: str) -> tuple[str | None, str]:
    entry = world.admin.describe_configs([resource])[resource][name]
    return entry.value, entry.source


def test_settings_of_topics_and_brokers_are_described(world: World) -> None:
    world.cluster.history.clear()
    described = world.admin.describe_configs([ORDERS, *BROKERS, PAYMENTS])
    assert list(described) == [ORDERS, *BROKERS, PAYMENTS]
    assert described[ORDERS]["retention.ms"] == ConfigEntry(
        "retention.ms", "604800000", "DEFAULT_CONFIG", type="LONG"
    )
    assert described[ORDERS]["retention.ms"].is_default
    assert described[BROKERS[0]]["broker.id"].value == "0"
    assert described[BROKERS[1]]["broker.id"].value == "1"
    assert described[BROKERS[1]]["broker.id"].is_read_only
    assert list(described[ORDERS]) == sorted(described[ORDERS])
    assert world.cluster.history.count(DescribeConfigsRequest) == 3, "both brokers, and any for the topics"


def test_settings_are_selected_by_name_with_synonyms_and_documentation(world: World) -> None:
    world.admin.alter_configs({ORDERS: {"retention.ms": 5000}, ALL_BROKERS: {"log.retention.ms": "7000"}})
    chosen = ConfigResource(TOPIC, "orders", configs=["retention.ms"])
    described = world.admin.describe_configs([chosen], include_synonyms=True, include_documentation=True)
    assert list(described[ORDERS]) == ["retention.ms"]
    entry = described[ORDERS]["retention.ms"]
    assert (entry.value, entry.source) == ("5000", "DYNAMIC_TOPIC_CONFIG")
    assert entry.synonyms[:2] == (
        ConfigSynonym("retention.ms", "5000", "DYNAMIC_TOPIC_CONFIG"),
        ConfigSynonym("log.retention.ms", "7000", "DYNAMIC_DEFAULT_BROKER_CONFIG"),
    )


def test_settings_are_altered_and_others_stay(world: World) -> None:
    admin = world.admin
    admin.alter_configs({ORDERS: {"retention.ms": "5000", "cleanup.policy": "compact"}})
    world.cluster.history.clear()
    done = admin.alter_configs(
        {
            ORDERS: {"retention.ms": None, "cleanup.policy": (AlterConfigOp.APPEND, "delete")},
            PAYMENTS: {"unclean.leader.election.enable": True, "min.insync.replicas": 2},
            BROKERS[1]: {"log.cleaner.threads": 2},
        }
    )
    assert list(done) == [ORDERS, PAYMENTS, BROKERS[1]]
    assert world.cluster.history.count(IncrementalAlterConfigsRequest, client_id="pykafka2") == 2
    assert value_of(world, ORDERS, "retention.ms") == ("604800000", "DEFAULT_CONFIG")
    assert value_of(world, ORDERS, "cleanup.policy") == ("compact,delete", "DYNAMIC_TOPIC_CONFIG")
    assert value_of(world, PAYMENTS, "unclean.leader.election.enable")[0] == "true"
    assert value_of(world, PAYMENTS, "min.insync.replicas")[0] == "2"
    assert value_of(world, BROKERS[1], "log.cleaner.threads") == ("2", "DYNAMIC_BROKER_CONFIG")
    assert value_of(world, BROKERS[0], "log.cleaner.threads")[0] == "1"
    admin.alter_configs({ORDERS: {"cleanup.policy": ("subtract", "compact")}})
    assert value_of(world, ORDERS, "cleanup.policy")[0] == "delete"


def test_rejected_settings_have_their_own_errors(world: World) -> None:
    none = ConfigResource(TOPIC, "none")
    outcomes = world.admin.alter_configs(
        {
            ORDERS: {"retention.ms": "soon"},
            PAYMENTS: {"retention.ms": "1"},
            none: {"retention.ms": "1"},
        },
        raise_errors=False,
    )
    assert isinstance(outcomes.errors[ORDERS], InvalidConfig)
    assert isinstance(outcomes.errors[none], UnknownTopicOrPartition)
    assert outcomes[PAYMENTS] is None
    with pytest.raises(ItemsFailed, match="none"):
        world.admin.describe_configs([none])


def test_validated_settings_are_not_altered(world: World) -> None:
    world.admin.alter_configs({ORDERS: {"retention.ms": "5000"}}, validate_only=True)
    assert value_of(world, ORDERS, "retention.ms")[1] == "DEFAULT_CONFIG"
    with pytest.raises(ItemsFailed, match="InvalidConfig"):
        world.admin.alter_configs({ORDERS: {"retention.ms": "soon"}}, validate_only=True)


def test_settings_are_reset(world: World) -> None:
    admin = world.admin
    admin.alter_configs(
        {
            ORDERS: {"retention.ms": "5000", "max.message.bytes": "2000"},
            PAYMENTS: {"retention.ms": "5000", "segment.ms": "6000"},
            ALL_BROKERS: {"log.retention.ms": "7000"},
        }
    )
    done = admin.reset_configs({ORDERS: ["retention.ms"], PAYMENTS: None, ALL_BROKERS: None})
    assert dict(done) == {
        ORDERS: ("retention.ms",),
        PAYMENTS: ("retention.ms", "segment.ms"),
        ALL_BROKERS: ("log.retention.ms",),
    }
    assert value_of(world, ORDERS, "retention.ms")[1] == "DEFAULT_CONFIG"
    assert value_of(world, ORDERS, "max.message.bytes") == ("2000", "DYNAMIC_TOPIC_CONFIG")
    assert value_of(world, PAYMENTS, "segment.ms")[1] == "DEFAULT_CONFIG"
    assert dict(admin.reset_configs([ORDERS])) == {ORDERS: ("max.message.bytes",)}
    assert dict(admin.reset_configs([ORDERS])) == {ORDERS: ()}
    outcomes = admin.reset_configs([ConfigResource(TOPIC, "none"), ORDERS], raise_errors=False)
    assert isinstance(outcomes.errors[ConfigResource(TOPIC, "none")], UnknownTopicOrPartition)


def test_resources_with_settings_are_listed(world: World) -> None:
    group, metrics = ConfigResource("GROUP", "g"), ConfigResource("CLIENT_METRICS", "m")
    world.admin.alter_configs(
        {group: {"consumer.session.timeout.ms": 50_000}, metrics: {"interval.ms": 60_000}}
    )
    admin = world.admin
    assert {
        resource for resource in admin.list_config_resources() if resource.type.name != "BROKER_LOGGER"
    } == {
        ORDERS,
        PAYMENTS,
        *BROKERS,
        group,
        metrics,
    }
    assert admin.list_config_resources(["topic"]) == [ORDERS, PAYMENTS]
    assert admin.list_config_resources([ConfigResourceType.GROUP, "CLIENT_METRICS"]) == [metrics, group]
    assert admin.list_client_metrics_resources() == ["m"]


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ([ORDERS], "changes must be a dict"),
        ({"orders": {"retention.ms": "1"}}, "ConfigResource"),
        ({ORDERS: ["retention.ms"]}, "dict"),
        ({ORDERS: {"retention.ms": (9, "1")}}, "SUBTRACT"),
        ({ORDERS: {"retention.ms": (AlterConfigOp.SET,)}}, "operation"),
        ({ORDERS: {"retention.ms": ["1"]}}, "number"),
        ({ORDERS: {"retention.ms": (AlterConfigOp.SET, None)}}, "retention.ms"),
    ],
)
def test_invalid_changes_are_refused(world: World, changes: object, named: str) -> None:
    with pytest.raises(IllegalArgument, match=named):
        world.admin.alter_configs(changes)  # type: ignore[arg-type]


def test_invalid_resources_are_refused(world: World) -> None:
    with pytest.raises(IllegalArgument, match="CLIENT_METRICS"):
        ConfigResource("queue", "a")
    with pytest.raises(IllegalArgument, match="list"):
        world.admin.describe_configs(ORDERS)  # type: ignore[arg-type]
    with pytest.raises(IllegalArgument, match="list of names"):
        ConfigResource(TOPIC, "a", configs="retention.ms")
