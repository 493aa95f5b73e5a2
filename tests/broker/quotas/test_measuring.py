"""Requests that count for the quotas of their client, and their throttle times; without sockets."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from pykafka2.broker.config.configs import BrokerConfig
from pykafka2.broker.handlers.throttling import mutation_quota, throttle
from pykafka2.broker.quotas.client_quotas import ClientQuotas
from pykafka2.broker.quotas.entities import entity_of
from pykafka2.broker.server.processor import ThrottledConnections
from pykafka2.protocol.messages.metadata import MetadataResponse
from pykafka2.protocol.messages.produce import ProduceResponse
from pykafka2.protocol.messages.topics import (
    CreatePartitionsResponse,
    CreateTopicsResponse,
    DeleteTopicsResponse,
)
from pykafka2.protocol.registry import ApiKey


class Muted:
    """A connection by identity."""

    def __init__(self, channel: Any) -> None:
        self.channel = channel


APP = entity_of({"client-id": "app"})


def throttled(
    api_key: ApiKey, response: Any, *, is_authenticated: bool | None = None, **limits: float
) -> Any:
    """Answers a request of 100,000 bytes that took a second. Returns its throttle time in seconds."""
    quotas = ClientQuotas(BrokerConfig({}))
    quotas.apply({APP: limits})
    context: Any = SimpleNamespace(
        api_key=api_key,
        authentication=None if is_authenticated is None else SimpleNamespace(is_complete=is_authenticated),
        principal=SimpleNamespace(name="ann"),
        client_id="app",
        received=SimpleNamespace(size_bytes=100_000),
        progress=SimpleNamespace(taken_at=5.0, handled_at=6.0),
        delivery=SimpleNamespace(throttle=0.0),
    )
    throttle(quotas, context, response, 9.0)
    throttle_s: float = context.delivery.throttle
    if response is not None:
        assert response.throttle_time_ms == round(throttle_s * 1000)
    return throttle_s


def test_time_of_a_handler_counts_for_the_request_quota() -> None:
    # A whole second within ten seconds is 10 %.
    assert throttled(
        ApiKey.METADATA, MetadataResponse(brokers=[], topics=[]), request_percentage=9.5
    ) == pytest.approx(0.526)
    assert throttled(ApiKey.METADATA, MetadataResponse(brokers=[], topics=[]), request_percentage=10.0) == 0.0
    assert (
        throttled(ApiKey.METADATA, MetadataResponse(brokers=[], topics=[]), request_percentage=0.001) == 1.0
    )


def test_produce_is_throttled_for_the_longer_time_of_both_quotas() -> None:
    bytes_alone = throttled(ApiKey.PRODUCE, ProduceResponse(responses=[]), producer_byte_rate=5000)
    assert bytes_alone == 10.0
    both = {"producer_byte_rate": 5000, "request_percentage": 0.001}
    assert throttled(ApiKey.PRODUCE, ProduceResponse(responses=[]), **both) == 10.0
    both = {"producer_byte_rate": 9999, "request_percentage": 0.001}
    assert throttled(ApiKey.PRODUCE, ProduceResponse(responses=[]), **both) == 1.0


def test_produce_without_acknowledgement_counts_its_bytes_and_not_its_time() -> None:
    assert throttled(ApiKey.PRODUCE, None, request_percentage=0.001) == 0.0
    assert throttled(ApiKey.PRODUCE, None, producer_byte_rate=5000) == 10.0


@pytest.mark.parametrize("api_key", [ApiKey.FETCH, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE])
def test_fetches_and_sasl_requests_are_not_measured_here(api_key: ApiKey) -> None:
    assert throttled(api_key, None, is_authenticated=True, request_percentage=0.001) == 0.0


def test_requests_count_once_their_connection_is_authenticated() -> None:
    for is_authenticated, throttle_s in ((False, 0.0), (True, 1.0), (None, 1.0)):
        response = MetadataResponse(brokers=[], topics=[])
        found = throttled(
            ApiKey.METADATA, response, is_authenticated=is_authenticated, request_percentage=0.001
        )
        assert found == throttle_s


@pytest.mark.parametrize(
    ("api_key", "response"),
    [
        (ApiKey.CREATE_TOPICS, CreateTopicsResponse(throttle_time_ms=7000, topics=[])),
        (ApiKey.DELETE_TOPICS, DeleteTopicsResponse(throttle_time_ms=7000, responses=[])),
        (ApiKey.CREATE_PARTITIONS, CreatePartitionsResponse(throttle_time_ms=7000, results=[])),
    ],
)
def test_throttle_time_of_the_controller_mutes_the_connection(api_key: ApiKey, response: Any) -> None:
    assert throttled(api_key, response, controller_mutation_rate=1) == 7.0


def test_changes_of_topics_count_for_the_quota_of_their_user() -> None:
    quotas = ClientQuotas(BrokerConfig({}))
    quotas.apply({entity_of({"user": "ann"}): {"controller_mutation_rate": 1.0}})

    def throttle_ms(user: str) -> int:
        context: Any = SimpleNamespace(principal=SimpleNamespace(name=user), client_id="app", version=1)
        quota = mutation_quota(cast("Any", SimpleNamespace(quotas=quotas)), context, 2, 0.0)
        quota.record(15)
        return quota.throttle_ms

    assert (throttle_ms("ann"), throttle_ms("bob")) == (4000, 0)


def test_connection_that_is_muted_twice_is_unmuted_at_the_later_time() -> None:
    events: list[str] = []
    channel = SimpleNamespace(
        throttle=lambda: events.append("muted"), end_throttle=lambda: events.append("read")
    )
    connection: Any = Muted(channel)
    muted = ThrottledConnections()
    for until in (5.0, 9.0, 7.0):
        muted.add(connection, until)
    assert (muted.next_at, muted.due(8.9), events) == (9.0, [], ["muted"])
    assert (muted.due(9.0), bool(muted), events) == ([connection], False, ["muted", "read"])
    muted.add(connection, 12.0)
    muted.forget(connection)
    assert not muted
    assert muted.due(20.0) == []
