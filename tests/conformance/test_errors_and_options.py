"""Error codes and client options agree with Kafka's enum Errors and its ConfigDefs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest

from pykafka2 import errors
from pykafka2.admin.options import ADMIN_OPTIONS
from pykafka2.consumer.assignors.registry import read_assignors
from pykafka2.consumer.options import CONSUMER_OPTIONS
from pykafka2.option_fields import Option
from pykafka2.options import OptionTable
from pykafka2.producer.options import PRODUCER_OPTIONS
from tests.docs.option_subjects import ADMIN, CONSUMER, PRODUCER, Subject

from .bridge import Bridge

TABLES: dict[str, OptionTable[Any]] = {
    "producer": PRODUCER_OPTIONS,
    "consumer": CONSUMER_OPTIONS,
    "admin": ADMIN_OPTIONS,
}

SUBJECTS: dict[str, Mapping[str, Subject]] = {"producer": PRODUCER, "consumer": CONSUMER, "admin": ADMIN}

DEPARTURES: dict[str, str] = {
    "bootstrap_servers": "required in Java; kafka-python's localhost:9092 here",
    "client_id": "Java makes one of the client's kind and a counter",
    "send_buffer_bytes": "-1 lets the kernel tune the buffer",
    "receive_buffer_bytes": "-1 lets the kernel tune the buffer",
    "sasl_login_read_timeout_ms": "Java waits for an authority forever by default",
    "sasl_mechanism": "Java's is Kerberos, which is not offered",
    "ssl_protocol": "Java's limits the versions upwards, and ssl.enabled.protocols overrides it",
    "ssl_enabled_protocols": "Java's order says which is preferred; OpenSSL takes the highest",
}
"""Options whose default or values differ from Java's on purpose."""


REFRESHING_HERE = {"NOT_CONTROLLER": "brokers with ZooKeeper do not forward requests to the controller"}
"""Errors that make our clients request metadata, and Java's not."""


def test_error_codes_names_and_traits_are_kafkas(java: Bridge) -> None:
    (kafka,) = java("errors", [{}])
    assert len(kafka) > 130
    for error in kafka:
        code = error["code"]
        assert errors.name_of(code) == error["name"]
        if code == errors.NONE:
            continue
        ours = errors.for_code(code)
        assert ours is not errors.UnknownErrorCode, error
        assert ours.code == code
        assert ours.retriable == error["retriable"], error
        assert ours.abortable == error["abortable"], error
        assert ours.application_recoverable == error["application_recoverable"], error
        assert ours.refresh_metadata == (error["refresh_metadata"] or error["name"] in REFRESHING_HERE), error


def test_error_codes_are_exactly_those_of_kafka(java: Bridge) -> None:
    (kafka,) = java("errors", [{}])
    codes = {code for code in range(-1, 1000) if code != errors.NONE}
    known = {code for code in codes if errors.for_code(code) is not errors.UnknownErrorCode}
    assert known == {error["code"] for error in kafka} - {errors.NONE}


@pytest.mark.parametrize("client", TABLES)
def test_every_option_of_java_is_offered_refused_or_ignored(java: Bridge, client: str) -> None:
    table = TABLES[client]
    known = {*table.fields, *table.refused, *table.ignored}
    missing = [option["name"] for option in java_options(java, client) if underscored(option) not in known]
    assert not missing


@pytest.mark.parametrize("client", TABLES)
def test_defaults_are_javas(java: Bridge, client: str) -> None:
    table = TABLES[client]
    differences = []
    for option in java_options(java, client):
        name = underscored(option)
        if name not in table.fields or name in DEPARTURES or option["type"] == "CLASS":
            continue
        ours = table.options[table.fields[name]]
        if name == "partition_assignment_strategy":  # Java names classes, which are known here, too
            classes = option["default"].replace("class ", "").split(",")
            if [one.name for one in read_assignors(classes)] == list(ours.default):
                continue
        if as_text(ours.default) != without_case(option["default"]):
            differences.append(f"{name}: {ours.default!r}, in Java {option['default']!r}")
    assert not differences


@pytest.mark.parametrize("client", TABLES)
def test_values_allowed_by_java_are_allowed(java: Bridge, client: str) -> None:
    table = TABLES[client]
    differences = []
    for option in java_options(java, client):
        name = underscored(option)
        if name in table.fields and name not in DEPARTURES and option["valid"]:
            ours = table.options[table.fields[name]]
            differences += [f"{name}: {one}" for one in disagreements(ours, option["valid"])]
    assert not differences


@pytest.mark.parametrize("client", TABLES)
def test_importance_and_names_in_the_reference_are_javas(java: Bridge, client: str) -> None:
    importance = {option["name"]: option["importance"].lower() for option in java_options(java, client)}
    advice = {name: one for subject in SUBJECTS[client].values() for name, one in subject.items()}
    ours = {one.java or name.replace("_", "."): one for name, one in advice.items()}
    assert {name for name, one in ours.items() if not one.origin} == {*ours} & {*importance}
    assert [name for name in ours if name in importance and ours[name].importance != importance[name]] == []


def disagreements(ours: Option, valid: str) -> list[str]:
    """Names on whose values our reader and Java's validator, as it describes itself, differ."""
    bounds = re.fullmatch(r"\[(-?\d+),\.\.\.(?:,(-?\d+))?\]", valid)
    if bounds is None:
        words = valid[1:-1].split(", ") if re.fullmatch(r"\[[\w.\-]+(, [\w.\-]+)*\]", valid) else []
        return [f"{word!r} is refused, Java allows it" for word in words if not allows(ours, word)]
    low, high = bounds.groups()
    found = []
    if not allows(ours, int(low)):
        found.append(f"{low} is refused, in Java it is the lowest")
    if allows(ours, int(low) - 1):
        found.append(f"{int(low) - 1} is allowed, below Java's lowest {low}")
    if high is not None and not allows(ours, int(high)):
        found.append(f"{high} is refused, in Java it is the highest")
    if high is not None and allows(ours, int(high) + 1):
        found.append(f"{int(high) + 1} is allowed, above Java's highest {high}")
    return found


def allows(option: Option, value: object) -> bool:
    try:
        option.read(value)
    except (ValueError, TypeError):
        return False
    return True


def java_options(java: Bridge, client: str) -> list[dict[str, Any]]:
    (options,) = java("options", [client])
    # Kafka's own internal ones are undocumented: "internal.leave.group.on.close" and the like.
    return [
        option
        for option in options
        if not option["internal"] and not option["name"].startswith(("internal.", "__"))
    ]


def underscored(option: dict[str, Any]) -> str:
    return str(option["name"]).replace(".", "_")


def as_text(default: object) -> str | None:
    """Our default as Java prints one."""
    if default is None:
        return None
    if isinstance(default, tuple | list):
        return ",".join(str(one).lower() for one in default)
    return f"{default:g}" if isinstance(default, float) else str(default).lower()


def without_case(text: str | None) -> str | None:
    return None if text is None else text.lower()
