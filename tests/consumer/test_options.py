"""The consumer's options: Kafka's names and defaults, kafka-python's names, and the types for checkers."""

from __future__ import annotations

import inspect
import typing
from datetime import timedelta

import attrs
import pytest

from pykafka2.consumer.assignors.registry import BUILT_IN
from pykafka2.consumer.options import (
    CONSUMER_OPTIONS,
    AssignorName,
    AutoOffsetReset,
    ConsumerConfig,
    ConsumerOptions,
    GroupProtocol,
)
from pykafka2.consumer.reset_policy import reset_timestamp
from pykafka2.errors import ConfigurationError
from pykafka2.options import IgnoredOption


def test_typed_dict_names_equal_the_option_table() -> None:
    names = {name for option in CONSUMER_OPTIONS.options.values() for name in option.names}
    assert set(ConsumerConfig.__annotations__) == names


def test_literal_types_name_the_values_that_the_consumer_accepts() -> None:
    assert set(typing.get_args(AssignorName)) == set(BUILT_IN)
    for name, type_ in (("auto_offset_reset", AutoOffsetReset), ("group_protocol", GroupProtocol)):
        for value in typing.get_args(type_):
            assert CONSUMER_OPTIONS.options[name].read(value) == value


def test_auto_offset_reset_takes_a_timedelta_as_by_duration() -> None:
    def policy(value: object) -> str:
        return CONSUMER_OPTIONS.parse(None, {"auto_offset_reset": value}).auto_offset_reset

    for value, seconds in ((timedelta(hours=1), 3_600), (timedelta(days=2, milliseconds=5), 172_800.005)):
        assert reset_timestamp(policy(value), 10**12) == 10**12 - int(seconds * 1000)
        assert reset_timestamp(policy(value), 10**12) == reset_timestamp(
            policy(f"by_duration:PT{seconds}S"), 10**12
        )
    with pytest.raises(ConfigurationError, match="a timedelta is how far back to read"):
        policy(timedelta(seconds=-1))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("auto_offset_reset", "latest"),
        ("fetch_min_bytes", 1),
        ("fetch_max_wait", 0.5),
        ("fetch_max_bytes", 52_428_800),
        ("max_partition_fetch_bytes", 1_048_576),
        ("max_poll_records", 500),
        ("isolation_level", "read_uncommitted"),
        ("check_crcs", True),
        ("default_api_timeout", 60.0),
        ("session_timeout", 45.0),
        ("request_timeout", 30.0),
    ],
)
def test_defaults_are_those_of_the_java_client(name: str, value: object) -> None:
    assert getattr(CONSUMER_OPTIONS.parse(None, {}), name) == value


def test_kafka_pythons_documented_options_are_accepted() -> None:
    kafka = pytest.importorskip("kafka")
    for name, default in kafka.KafkaConsumer.DEFAULT_CONFIG.items():
        known = name in CONSUMER_OPTIONS.fields
        assert known or name in CONSUMER_OPTIONS.ignored or name in CONSUMER_OPTIONS.refused, name
        if name in CONSUMER_OPTIONS.refused and default is not None:
            CONSUMER_OPTIONS.parse(None, {name: default})


def test_methods_accept_the_arguments_of_kafka_python() -> None:
    kafka = pytest.importorskip("kafka")
    from pykafka2 import KafkaConsumer

    methods = [name for name, _ in inspect.getmembers(kafka.KafkaConsumer, inspect.isfunction)]
    for name in [name for name in methods if not name.startswith("_")]:
        theirs = set(inspect.signature(getattr(kafka.KafkaConsumer, name)).parameters)
        ours = set(inspect.signature(getattr(KafkaConsumer, name)).parameters)
        assert theirs <= ours, name


def test_option_without_effect_warns() -> None:
    with pytest.warns(IgnoredOption, match="max_in_flight_requests_per_connection"):
        CONSUMER_OPTIONS.parse(None, {"max_in_flight_requests_per_connection": 5})


BY_COORDINATOR: dict[str, object] = {"group_id": "g", "group_protocol": "consumer"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"auto_offset_reset": "by_duration"}, "by_duration"),
        ({"isolation_level": "serializable"}, "read_committed"),
        ({"max_poll_records": 0}, "from 1"),
        ({"group_id": ""}, "name"),
        ({"enable_auto_commit": True}, "group_id"),
        ({"enable_auto_offset_store": False}, "group_id"),
        ({"group_instance_id": "i"}, "group"),
        ({"session_timeout_ms": 10_000}, "group_id"),
        ({"heartbeat_interval_ms": 100}, "group_id"),
        ({"max_poll_interval_ms": 100}, "group_id"),
        ({"partition_assignment_strategy": "range"}, "group_id"),
        ({"group_id": "g", "group_instance_id": ""}, "not empty"),
        ({"group_id": "g", "session_timeout_ms": 3000}, "heartbeat_interval_ms=3000 is not less"),
        ({"group_protocol": "consumer"}, "set one, or leave the option out"),
        ({"group_remote_assignor": "uniform"}, "give a group_id|group_protocol='consumer'"),
        ({"interceptors": [print]}, "has none of the methods on_poll_start, on_consume"),
        ({"default_offset_commit_callback": 5}, "default_offset_commit_callback=5 is not valid; use a call"),
        ({"group_id": "g", "group_protocol": "streams"}, "'classic' or 'consumer'"),
        ({"group_id": "g", "group_remote_assignor": "uniform"}, "partition_assignment_strategy"),
        ({**BY_COORDINATOR, "group_remote_assignor": ""}, "not empty"),
        ({**BY_COORDINATOR, "partition_assignment_strategy": "range"}, "group_remote_assignor"),
        ({**BY_COORDINATOR, "session_timeout_ms": 45_000}, "group.consumer.session.timeout.ms"),
        ({**BY_COORDINATOR, "heartbeat_interval_ms": 3000}, "group.consumer.heartbeat.interval.ms"),
    ],
)
def test_illegal_values_are_refused_with_words(options: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        CONSUMER_OPTIONS.parse(None, options)


def test_the_options_are_immutable() -> None:
    options = CONSUMER_OPTIONS.parse(None, {})
    assert isinstance(options, ConsumerOptions)
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        options.max_poll_records = 7  # type: ignore[misc]


@pytest.mark.parametrize(
    "name", ["fetch_max_wait_ms", "request_timeout_ms", "session_timeout_ms", "max_poll_interval_ms"]
)
def test_times_that_no_request_can_carry_are_refused_by_name(name: str) -> None:
    CONSUMER_OPTIONS.parse(None, {"group_id": "g", name: 2**31 - 1})
    for value in (2**31, 10**12, 10**400):
        with pytest.raises(ConfigurationError, match=f"{name}=.*at most 2147483647"):
            CONSUMER_OPTIONS.parse(None, {"group_id": "g", name: value})
