"""Error responses: derived from the declarations of messages, for each API as recorded before."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any, Final

import pytest

from pykafka2.broker.handlers.api import APIS, load
from pykafka2.broker.server.responses import Refusal, lists_of_entries
from pykafka2.errors import (
    BrokerError,
    FetchSessionIdNotFound,
    GroupIdNotFound,
    IllegalState,
    InvalidRequest,
    NotController,
    RequestTimedOut,
    ThrottlingQuotaExceeded,
    UnknownServerError,
    UnknownTopicOrPartition,
    error_of,
)
from pykafka2.protocol.declared import resolved_fields
from pykafka2.protocol.fields import Field
from pykafka2.protocol.messages.group_admin import DeletableGroupResult, DeleteGroupsRequest
from pykafka2.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from pykafka2.protocol.messages.topics import CreatePartitionsRequest, CreatePartitionsTopic
from pykafka2.protocol.messages.transaction import EndTxnRequest
from pykafka2.protocol.registry import ApiKey, name_of, request_class
from pykafka2.protocol.struct import Struct

load()
RECORDED: Final[dict[str, dict[str, str]]] = json.loads(
    Path(__file__).with_name("refusals.json").read_text(encoding="ascii")
)
"""The bytes of refusals with REQUEST_TIMED_OUT by API and version, as written by hand before; see `sample`.

A new API needs none: the tests of each declaration cover it.
"""
API_VERSIONS = [
    (key, version)
    for key, api in sorted(APIS.items())
    for version in range(
        api.min_version if api.oldest_version is None else api.oldest_version, api.max_version + 1
    )
]
IDS = [f"{name_of(key)}-{version}" for key, version in API_VERSIONS]
CODE_FIELDS = ("error_code", "partition_error_code")


def sample(cls: type[Struct], version: int, path: str = "", *, nulls: bool = False) -> Any:
    """A request with two entries in each list; `nulls` for null in all fields that can be."""
    return cls(
        **{
            field.name: _value(field, version, f"{path}.{field.name}", nulls)
            for field in resolved_fields(cls)
            if version in field.versions or field.required
        }
    )


def _value(field: Field, version: int, path: str, nulls: bool) -> Any:
    if version not in field.versions:
        return field.absent_value()
    if nulls and version in field.nullable:
        return None
    if field.array:
        return [_single(field, version, f"{path}{number}", nulls) for number in range(2)]
    return _single(field, version, path, nulls)


def _single(field: Field, version: int, path: str, nulls: bool) -> Any:
    if field.struct is not None:
        return sample(field.struct, version, path, nulls=nulls)
    number = sum(map(ord, path)) % 100 + 1
    values = {"string": path, "bool": bool(number % 2), "uuid": bytes([number]) * 16, "bytes": path.encode()}
    return values.get(field.kind, b"" if field.kind == "records" else number)


def refused(key: int, version: int, code: int, *, nulls: bool = False) -> Any:
    return APIS[key].refusal(sample(request_class(key), version, nulls=nulls), version, code)


def structs(part: Struct) -> Iterator[Struct]:
    yield part
    for field in resolved_fields(type(part)):
        value = getattr(part, field.name)
        for inner in value if isinstance(value, list) else [value]:
            if isinstance(inner, Struct):
                yield from structs(inner)


@pytest.mark.parametrize(("key", "version"), API_VERSIONS, ids=IDS)
def test_refusal_equals_the_recorded_one(key: int, version: int) -> None:
    if str(version) not in RECORDED.get(name_of(key), {}):
        return  # a new API or version
    recorded = bytes.fromhex(RECORDED[name_of(key)][str(version)])
    response = refused(key, version, RequestTimedOut.code)
    assert response.encode(version) == recorded, type(response).decode(recorded, version)


NOWHERE = [(ApiKey.DESCRIBE_LOG_DIRS, version) for version in range(3)]
"""Versions without an error code for the request; the entries are of the broker's directories."""


def codes_of(part: Struct, version: int) -> list[int]:
    return [
        getattr(part, field.name)
        for field in resolved_fields(type(part))
        if field.name in CODE_FIELDS and version in field.versions
    ]


@pytest.mark.parametrize(("key", "version"), API_VERSIONS, ids=IDS)
def test_error_is_in_the_response_itself_or_in_an_entry_for_each_one_of_the_request(
    key: int, version: int
) -> None:
    response = refused(key, version, NotController.code)
    top = codes_of(response, version)
    entries = [code for part in structs(response) if part is not response for code in codes_of(part, version)]
    assert set(entries) <= {NotController.code}
    if (key, version) in NOWHERE:
        assert response.encode(version) == refused(key, version, 0).encode(version)
    elif top != [NotController.code]:
        assert len(entries) >= 2
    for part in structs(response):
        lists = [getattr(part, field.name) for field in resolved_fields(type(part)) if field.array]
        for entry, other in (pair for listed in lists for pair in combinations(listed or (), 2)):
            assert entry != other or key in (ApiKey.CREATE_ACLS, ApiKey.DELETE_ACLS)  # without names


@pytest.mark.parametrize(("key", "version"), API_VERSIONS, ids=IDS)
def test_request_with_nulls_is_refused(key: int, version: int) -> None:
    response = refused(key, version, NotController.code, nulls=True)
    assert type(response).decode(response.encode(version), version).encode(version) == response.encode(
        version
    )


ERRORS: list[type[BrokerError]] = [
    NotController,
    ThrottlingQuotaExceeded,
    UnknownServerError,
    UnknownTopicOrPartition,
]


def messages_of(response: Struct) -> set[str | None]:
    parts = [part for part in structs(response) if hasattr(part, "error_message")]
    return {part.error_message for part in parts}


@pytest.mark.parametrize(
    ("key", "silent"),
    [
        (ApiKey.CREATE_TOPICS, [ThrottlingQuotaExceeded]),
        (ApiKey.CREATE_PARTITIONS, [ThrottlingQuotaExceeded, UnknownTopicOrPartition]),
        (ApiKey.ALTER_CONFIGS, [UnknownServerError]),
        (ApiKey.INCREMENTAL_ALTER_CONFIGS, [UnknownServerError]),
        (ApiKey.CREATE_ACLS, [UnknownServerError]),
        (ApiKey.SASL_AUTHENTICATE, ERRORS),
        (ApiKey.DELETE_TOPICS, []),
    ],
)
def test_some_errors_have_no_message_as_in_kafka(key: int, silent: list[type[BrokerError]]) -> None:
    for error in ERRORS:
        response = refused(key, APIS[key].max_version, error.code or 0)
        assert messages_of(response) == {None if error in silent else str(error())}


def test_session_error_of_a_fetch_is_in_the_response_itself() -> None:
    for version in (7, 17):
        session, other = (
            refused(ApiKey.FETCH, version, code) for code in (FetchSessionIdNotFound.code, NotController.code)
        )
        assert (session.error_code, session.responses) == (FetchSessionIdNotFound.code, [])
        assert (other.error_code, len(other.responses)) == (0, 2)


# ---------------------------------------------------------------------- the options of Refusal


TOPICS = MetadataRequest(topics=[MetadataRequestTopic(name="a"), MetadataRequestTopic(name="b")])
NEWEST = 13


def test_error_is_outermost_by_default() -> None:
    response = Refusal()(TOPICS, NEWEST, NotController.code)
    assert (response.error_code, response.topics) == (NotController.code, [])


def test_entries_can_have_the_error_too_or_alone() -> None:
    both = Refusal(entries=True)(TOPICS, NEWEST, NotController.code)
    alone = Refusal(top=False)(TOPICS, NEWEST, NotController.code)
    assert (both.error_code, alone.error_code) == (NotController.code, 0)
    for response in (both, alone):
        assert [(one.name, one.error_code) for one in response.topics] == [
            ("a", NotController.code),
            ("b", NotController.code),
        ]


def test_blank_replaces_null_and_zero() -> None:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=None), MetadataRequestTopic(name="b")])
    response = Refusal(top=False, blank={"name": "", "controller_id": 7})(request, NEWEST, 41)
    assert ([topic.name for topic in response.topics], response.controller_id) == (["", "b"], 7)


def test_response_itself_repeats_no_field_without_the_option() -> None:
    request = EndTxnRequest(transactional_id="t", producer_id=5, producer_epoch=6, committed=True)
    refusals = Refusal(), Refusal(repeats=("producer_id", "producer_epoch"))
    responses = [refusal(request, 5, NotController.code) for refusal in refusals]
    assert [(one.producer_id, one.producer_epoch) for one in responses] == [(-1, -1), (5, 6)]


def test_message_is_that_of_the_error_and_code_0_has_none() -> None:
    request = CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name=name, count=2, assignments=None) for name in ("a", "b")],
        timeout_ms=1,
        validate_only=False,
    )
    refusal = Refusal(silent=NotController)
    errors: list[tuple[int | BrokerError, int, str | None]] = [
        (InvalidRequest("too few"), InvalidRequest.code, "too few"),
        (InvalidRequest.code, InvalidRequest.code, str(error_of(InvalidRequest.code))),
        (NotController("moved"), NotController.code, None),
        (0, 0, None),
    ]
    for error, code, message in errors:
        results = refusal(request, 3, error).results
        assert [(one.name, one.error_code, one.error_message) for one in results] == [
            ("a", code, message),
            ("b", code, message),
        ]


def test_entry_of_a_response_is_derived_alone() -> None:
    refusal = Refusal()
    for name in ("a", "b"):
        result = refusal.entry(DeletableGroupResult, name, 2, GroupIdNotFound.code)
        assert result == DeletableGroupResult(group_id=name, error_code=GroupIdNotFound.code)


def test_each_version_is_derived_once() -> None:
    refusal = Refusal()
    derived = []
    for version in (12, 13, 12, 13):
        refusal(TOPICS, version, NotController.code)
        refusal(DeleteGroupsRequest(groups_names=["a"]), 2, NotController.code)
        derived.append(dict(refusal._derived))
    assert derived[1] == derived[2] == derived[3]
    assert len(derived[1]) == 3


@pytest.mark.parametrize(
    ("key", "requested", "responded"),
    [
        (ApiKey.PRODUCE, "topic_data", "responses"),
        (ApiKey.LIST_OFFSETS, "topics", "topics"),
        (ApiKey.DELETE_GROUPS, "groups_names", "results"),
        (ApiKey.CONSUMER_GROUP_DESCRIBE, "group_ids", "groups"),
        (ApiKey.DESCRIBE_TRANSACTIONS, "transactional_ids", "transaction_states"),
        (ApiKey.INCREMENTAL_ALTER_CONFIGS, "resources", "responses"),
        (ApiKey.CREATE_PARTITIONS, "topics", "results"),
    ],
)
def test_lists_with_the_same_entries_are_found(key: int, requested: str, responded: str) -> None:
    for version in range(APIS[key].min_version, APIS[key].max_version + 1):
        assert lists_of_entries(key, version) == (requested, responded)


def test_api_without_errors_of_single_entries_has_no_such_lists() -> None:
    for key in (ApiKey.HEARTBEAT, ApiKey.DESCRIBE_LOG_DIRS):
        with pytest.raises(IllegalState, match="has no errors of single entries"):
            lists_of_entries(key, 1)


def test_every_recorded_refusal_is_compared() -> None:
    compared = {(name_of(key), str(version)) for key, version in API_VERSIONS}
    assert {(name, version) for name, versions in RECORDED.items() for version in versions} <= compared
