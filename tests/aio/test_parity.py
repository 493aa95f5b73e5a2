"""The asyncio clients have the calls of the sync ones, with their arguments, defaults and first sentences."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest

import pykafka2
from pykafka2 import aio

CLIENTS = ("KafkaProducer", "KafkaConsumer", "KafkaAdminClient")

OF_THE_SYNC_CLIENT = {
    "KafkaConsumer": {"commit_sync": "Java's name for a commit that blocks; `commit` is awaited"},
}
"""Calls that the asyncio client lacks on purpose, each with the reason."""

OF_THE_ASYNCIO_CLIENT = {
    "KafkaProducer": {
        "start": "of aiokafka; connects, which a constructor cannot await",
        "stop": "of aiokafka: `close`",
        "send_and_wait": "of aiokafka: `send(...).result()` of the sync client",
        "create_batch": "of aiokafka: `send_many` has the same effect",
        "send_batch": "of aiokafka: `send_many` has the same effect",
    },
    "KafkaConsumer": {
        "start": "of aiokafka; connects, which a constructor cannot await",
        "stop": "of aiokafka: `close`",
        "getone": "of aiokafka: `next(consumer)` of the sync client",
        "getmany": "of aiokafka: `poll`, for some partitions",
    },
    "KafkaAdminClient": {
        "start": "of aiokafka; connects, which a constructor cannot await",
        "stop": "of aiokafka: `close`",
    },
}
"""Calls that the sync client lacks on purpose, each with the reason."""

OF_KAFKA_PYTHON = {
    ("KafkaProducer", "metrics"): {"raw"},
    ("KafkaConsumer", "metrics"): {"raw"},
    ("KafkaConsumer", "close"): {"timeout_ms"},
}
"""Arguments of the sync client for kafka-python's programs, which have no asyncio client."""

OTHER_SENTENCES: dict[tuple[str, str], str] = {
    ("KafkaProducer", "begin_transaction"): "tasks send where threads do",
}
"""Calls whose first sentences differ on purpose, each with the reason."""


def calls_of(client: type) -> dict[str, Any]:
    members = inspect.getmembers(client, inspect.isroutine)
    return {name: member for name, member in members if not name.startswith("_")}


def both(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    return calls_of(getattr(pykafka2, name)), calls_of(getattr(aio, name))


def arguments_of(call: Any, left_out: set[str]) -> list[tuple[str, object, object]]:
    parameters = inspect.signature(call).parameters.values()
    return [(one.name, one.kind, one.default) for one in parameters if one.name not in left_out]


def first_sentence(call: Any) -> str:
    paragraph = " ".join((inspect.getdoc(call) or "").partition("\n\n")[0].split())
    return re.split(r"(?<=\.)\s", paragraph)[0]


@pytest.mark.parametrize("name", CLIENTS)
def test_each_client_has_the_calls_of_the_other(name: str) -> None:
    sync, ours = both(name)
    assert sync.keys() - ours.keys() == OF_THE_SYNC_CLIENT.get(name, {}).keys()
    assert ours.keys() - sync.keys() == OF_THE_ASYNCIO_CLIENT[name].keys()


@pytest.mark.parametrize("name", CLIENTS)
def test_arguments_and_defaults_are_those_of_the_sync_client(name: str) -> None:
    sync, ours = both(name)
    for call in sync.keys() & ours.keys():
        left_out = OF_KAFKA_PYTHON.get((name, call), set())
        assert arguments_of(ours[call], set()) == arguments_of(sync[call], left_out), call


@pytest.mark.parametrize("name", CLIENTS)
def test_first_sentences_are_those_of_the_sync_client(name: str) -> None:
    sync, ours = both(name)
    different = {
        call for call in sync.keys() & ours.keys() if first_sentence(sync[call]) != first_sentence(ours[call])
    }
    expected = {call for client, call in OTHER_SENTENCES if client == name}
    assert {
        call: (first_sentence(sync[call]), first_sentence(ours[call])) for call in different - expected
    } == {}
    assert expected <= different, "remove the calls whose sentences are equal by now"


@pytest.mark.parametrize("name", CLIENTS)
def test_options_are_annotated_as_those_of_the_sync_client(name: str) -> None:
    sync = inspect.signature(getattr(pykafka2, name).__init__).parameters["options"]
    ours = inspect.signature(getattr(aio, name).__init__).parameters["options"]
    assert ours.annotation == sync.annotation
