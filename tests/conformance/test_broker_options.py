"""The options of brokers, topics and groups are Kafka's, and so are their values."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka2.broker.base.features import DEFAULT
from pykafka2.broker.config.keys import (
    BROKER_KEYS,
    GROUP_KEYS,
    INTERNAL_TOPIC_KEYS,
    TOPIC_KEYS,
    Key,
    why_refused,
)
from pykafka2.broker.config.table import DEPARTURES, OWN_TABLE

from .bridge import Bridge

OURS: dict[str, dict[str, Key]] = {
    "broker": BROKER_KEYS,
    "topic": {**TOPIC_KEYS, **INTERNAL_TOPIC_KEYS},
    "group": GROUP_KEYS,
}
UNSAID = {
    "group.coordinator.rebalance.protocols",
    "group.share.assignors",
    "group.streams.assignors",
    "log.dir",
    "log.dirs",
}
"""Lists that Kafka wants filled, although their validators do not say so; without effect here."""

FEATURES_LEFT_OUT = {"streams.version"}

OWN = {line.split(" ")[0] for line in OWN_TABLE.splitlines()}


def test_features_and_their_levels_are_kafkas(java: Bridge) -> None:
    (kafka,) = java("features", [{}])
    ours = {name: [one.lowest, one.highest] for name, one in DEFAULT.supported.items()}
    assert kafka.keys() - ours.keys() == FEATURES_LEFT_OUT
    assert {name: levels for name, levels in kafka.items() if name in ours} == ours


@pytest.mark.parametrize("kind", OURS)
def test_the_options_are_kafkas(java: Bridge, kind: str) -> None:
    """Neither one too few nor one too many."""
    kafka = {option["name"]: option for option in kafka_options(java, kind)}
    # What Kafka calls internal is undocumented; this one is taken all the same, for small segments in tests.
    internal = {name for name, option in kafka.items() if option["internal"]}
    assert kafka.keys() - OURS[kind].keys() - internal == set()
    assert OURS[kind].keys() - kafka.keys() - OWN == set()


@pytest.mark.parametrize("kind", OURS)
def test_types_defaults_and_valid_values_are_kafkas(java: Bridge, kind: str) -> None:
    differences = []
    for option in kafka_options(java, kind):
        key = OURS[kind].get(option["name"])
        if key is None or option["internal"] or option["name"] in DEPARTURES:
            continue
        ours = (key.type_name, key.default, key.valid)
        theirs = (option["type"], option["default"], option["valid"] or "")
        if ours != theirs:
            differences.append(f"{option['name']}: ours {ours}, Kafka's {theirs}")
    assert not differences, "\n".join(differences)


def test_every_departure_departs(java: Bridge) -> None:
    kafka = {option["name"]: option for option in kafka_options(java, "broker")}
    for name, (default, valid, reason) in DEPARTURES.items():
        assert reason
        assert (default, valid) != (kafka[name]["default"], kafka[name]["valid"] or ""), name


def test_behind_a_groups_option_stands_the_same_of_the_brokers(java: Bridge) -> None:
    options = [option for option in kafka_options(java, "group") if not option["internal"]]
    kafka = {option["name"]: option["synonym"] for option in options}
    assert {name: key.synonym for name, key in GROUP_KEYS.items()} == kafka


@pytest.mark.parametrize("kind", OURS)
def test_values_allowed_by_kafka_are_allowed(java: Bridge, kind: str) -> None:
    """Not only what the tables say: the readers agree with Kafka's on the bounds and the words."""
    differences = []
    for option in kafka_options(java, kind):
        key = OURS[kind].get(option["name"])
        if key is None or option["name"] in DEPARTURES or option["type"] in ("CLASS", "PASSWORD"):
            continue
        if option["internal"] or (kind == "broker" and why_refused(option["name"]) is not None):
            continue
        if option["default"] is not None and not allows(key, option["default"]):
            differences.append(f"{option['name']}: the default {option['default']!r} is refused")
        question = {"kind": kind, "name": option["name"], "values": TRIED}
        (answers,) = java("broker_option_values", [question])
        for value, answer in zip(TRIED, answers, strict=True):
            if allows(key, value) != answer and not (value == "" and option["name"] in UNSAID):
                differences.append(
                    f"{option['name']}={value!r}: Kafka {'allows' if answer else 'refuses'} it"
                )
    assert not differences, "\n".join(differences)


TRIED = [
    "", "-3", "-2", "-1", "0", "1", "2", "9", "13", "14", "17", "23", "100", "0.3", "1.5", "32768",
    "1048575", "2147483648", "9223372036854775808", "true", "false", "TRUE", "yes", "delete", "compact",
    "compact,delete", "gzip", "brotli", "CreateTime", "LogAppendTime", "producer", "word", "0:1", " 5 ",
    "latest", "earliest", "LATEST", "by_duration:PT1H", "by_duration:-PT1H", "by_duration:PT-1H",
    "by_duration:P1D", "by_duration:", "by_duration:P", "by_duration:PT", "by_duration:P1DT",
    "by_duration:pt1h", "BY_DURATION:PT1H", "by_duration: PT1H", "by_duration:PT1H30M5.5S",
    "by_duration:PT1.S",
    "by_duration:P1W", "by_duration:PT.5S", "by_duration:P-1DT25H", "by_duration:PT1S1H",
    "by_duration:PT1H:", "read_committed",
]  # fmt: skip


def allows(key: Key, value: str) -> bool:
    try:
        key.parse(value)
    except ValueError:
        return False
    return True


def kafka_options(java: Bridge, kind: str) -> list[dict[str, Any]]:
    (options,) = java("broker_options", [kind])
    return list(options)
