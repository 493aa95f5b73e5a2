"""The tables of options: those with an effect, those accepted without one, and those rejected."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import pykafka2.broker
from pykafka2.broker.config.configs import BrokerConfig, TopicConfig
from pykafka2.broker.config.kafka_table import FALLBACKS, TOPIC_SYNONYMS
from pykafka2.broker.config.keys import (
    BROKER_KEYS,
    DYNAMIC_ONLY_KEYS,
    GROUP_KEYS,
    METRICS_KEYS,
    TOPIC_KEYS,
    parser_of,
    why_refused,
)
from pykafka2.broker.config.table import DEPARTURES, REFUSED
from pykafka2.errors import ConfigurationError, InvalidConfig, UnknownOption
from tests.broker.config.acted_on import ACTED_ON


def test_every_default_is_a_valid_value() -> None:
    for keys in (TOPIC_KEYS, BROKER_KEYS, DYNAMIC_ONLY_KEYS, GROUP_KEYS, METRICS_KEYS):
        for key in keys.values():
            if key.default is not None:
                key.parse(key.default)


def test_defaults_are_those_of_kafka() -> None:
    """A sample; `DEPARTURES` lists the others, with reasons."""
    config = BrokerConfig()
    for name, value in {
        "message.max.bytes": 1048588,
        "num.replica.fetchers": 1,
        "queued.max.requests": 500,
        "replica.fetch.wait.max.ms": 500,
        "replica.fetch.min.bytes": 1,
        "replica.lag.time.max.ms": 30000,
        "offsets.topic.num.partitions": 50,
        "group.initial.rebalance.delay.ms": 3000,
    }.items():
        assert config.get(name) == value
    assert {"num.network.threads", "num.io.threads"} <= set(DEPARTURES)


def test_tables_name_existing_options() -> None:
    for name, synonym in TOPIC_SYNONYMS.items():
        assert TOPIC_KEYS[name].type_name == BROKER_KEYS[synonym].type_name
    for name, others in FALLBACKS.items():
        assert {name, *(other for other, _ in others)} <= set(BROKER_KEYS)
    for key in GROUP_KEYS.values():
        assert key.synonym is None or key.synonym in BROKER_KEYS
    assert set(DEPARTURES) | ACTED_ON <= set(BROKER_KEYS)
    for beginning in REFUSED:
        assert any(name.startswith(beginning) for name in BROKER_KEYS), beginning
    assert not {name for name in ACTED_ON if why_refused(name)}


def test_every_acted_on_config_is_read_in_the_broker() -> None:
    folder = Path(pykafka2.broker.__file__).parent
    named: set[str] = set()
    for path in folder.rglob("*.py"):
        if path not in (
            folder / "config/kafka_table.py",
            folder / "config/table.py",
            folder / "config/configs.py",
        ):
            named.update(re.findall(r'"([a-z]+(?:\.[a-z]+)+)"', path.read_text()))
    read = (named & set(BROKER_KEYS)) | {
        synonym for name, synonym in TOPIC_SYNONYMS.items() if name in named & set(TOPIC_KEYS)
    }
    # Their names are composed: of an internal topic, of a codec.
    parts = ("offsets.topic.", "transaction.state.log.", "compression.")
    assert {name for name in ACTED_ON - read if not name.startswith(parts)} == set()


@pytest.mark.parametrize("name", ["sasl.jaas.config", "principal.builder.class", "listeners", "node.id"])
def test_unsupported_config_is_rejected_with_the_reason(name: str) -> None:
    with pytest.raises(ConfigurationError, match=r"cannot be set: .+"):
        BrokerConfig({name: "x"})


def test_config_without_effect_is_accepted_if_valid() -> None:
    assert BrokerConfig({"log.cleaner.threads": 3}).int("log.cleaner.threads") == 3
    with pytest.raises(ConfigurationError, match="Value must be at least 0"):
        BrokerConfig({"log.cleaner.threads": -1})
    with pytest.raises(UnknownOption, match=r"log\.cleaner\.threads"):
        BrokerConfig({"log.cleaner.thread": 1})
    with pytest.raises(InvalidConfig, match=r"did you mean .retention\.ms."):
        TopicConfig({"retention.mss": 1}, BrokerConfig())


@pytest.mark.parametrize(
    ("type_name", "valid", "text", "value"),
    [
        ("INT", "", " 5 ", 5),
        ("INT", "[1,...,9] or -1", "-1", -1),
        ("BOOLEAN", "", "TRUE", True),
        ("LIST", "[compact, delete]", "compact, delete", ("compact", "delete")),
        ("LIST", "[compact, delete]", "", ()),
        ("STRING", "(case insensitive) [DISABLED, UPGRADE]", "Upgrade", "upgrade"),
        ("DOUBLE", "[0,...,1]", "0.5", 0.5),
        ("LIST", "[partitionId]:[brokerId],[partitionId]:[brokerId],...", "0:1,2:3", ("0:1", "2:3")),
        ("LIST", "[partitionId]:[brokerId],[partitionId]:[brokerId],...", "*", ("*",)),
    ],
)
def test_values_are_read_as_java_reads_them(type_name: str, valid: str, text: str, value: object) -> None:
    assert parser_of(type_name, valid)(text) == value


@pytest.mark.parametrize(
    ("type_name", "valid", "text"),
    [
        ("INT", "", "2147483648"),
        ("INT", "", "1_0"),
        ("SHORT", "", "32768"),
        ("LONG", "", "9223372036854775808"),
        ("INT", "[1,...,9] or -1", "0"),
        ("BOOLEAN", "", "yes"),
        ("LIST", "[compact, delete]", "compact,x"),
        ("DOUBLE", "[0,...,1]", "1.1"),
        ("LIST", "[partitionId]:[brokerId],[partitionId]:[brokerId],...", "x"),
    ],
)
def test_values_that_java_rejects_are_rejected(type_name: str, valid: str, text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        parser_of(type_name, valid)(text)


def test_newest_layer_of_settings_counts_and_older_topic_settings_are_refreshed() -> None:
    broker = BrokerConfig({"log.retention.minutes": 1})
    topic = TopicConfig({}, broker)
    assert topic.get("retention.ms") == 60_000
    broker.set_dynamic({}, {"log.retention.ms": "5"})
    assert topic.over(broker).get("retention.ms") == broker.get("log.retention.ms") == 5
    broker.set_dynamic({"log.retention.ms": "7"}, {"log.retention.ms": "5"})
    assert topic.over(broker).get("retention.ms") == 7
    assert topic.over(broker) == TopicConfig({}, broker) != topic
    version = broker.version
    broker.set_dynamic({"log.retention.ms": "7"}, {"log.retention.ms": "5"})
    assert broker.version == version
