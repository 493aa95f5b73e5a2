"""The asyncio clients have the calls of the sync ones, with the same arguments, defaults and options."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

import pykafka2
from pykafka2 import aio

MISSING: dict[str, dict[str, str]] = {
    "KafkaProducer": {},
    "KafkaConsumer": {
        "bootstrap": "start",
        "commit_sync": "commit",
        "read_range": "it blocks; assign and poll",
    },
}
"""Calls that the asyncio client lacks, each with its replacement."""

ARGUMENTS_NOT_TAKEN = {"metrics": {"raw"}, "close": {"timeout_ms"}, "send_and_wait": {"on_delivery"}}
"""Arguments that exist for kafka-python's programs, or contradict the await."""


def calls_of(client: Any) -> dict[str, inspect.Signature]:
    return {
        name: inspect.signature(member)
        for name, member in inspect.getmembers(client, inspect.isroutine)
        if not name.startswith("_")
    }


@pytest.mark.parametrize("name", MISSING)
def test_calls_of_the_sync_client_are_there(name: str) -> None:
    sync, ours = calls_of(getattr(pykafka2, name)), calls_of(getattr(aio, name))
    assert sync.keys() - ours.keys() == MISSING[name].keys()


@pytest.mark.parametrize("name", MISSING)
def test_arguments_are_those_of_the_sync_client(name: str) -> None:
    sync, ours = calls_of(getattr(pykafka2, name)), calls_of(getattr(aio, name))
    for call in sync.keys() & ours.keys():
        left_out = ARGUMENTS_NOT_TAKEN.get(call, set())
        expected = {
            parameter.name: parameter.default if call != "enforce_rebalance" else None
            for parameter in sync[call].parameters.values()
            if parameter.name not in left_out
        }
        found = {
            parameter.name: parameter.default if call != "enforce_rebalance" else None
            for parameter in ours[call].parameters.values()
        }
        assert found == expected, call


@pytest.mark.parametrize("name", ["KafkaProducer", "KafkaConsumer", "KafkaAdminClient"])
def test_options_are_annotated_as_those_of_the_sync_client(name: str) -> None:
    sync = inspect.signature(getattr(pykafka2, name).__init__).parameters["options"]
    ours = inspect.signature(getattr(aio, name).__init__).parameters["options"]
    assert ours.annotation == sync.annotation
