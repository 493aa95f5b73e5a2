"""Principal and address of the client in each handler, also of forwarded requests."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from pykafka2.broker.handlers.api import APIS, Handle, load
from pykafka2.broker.handlers.services import Services
from pykafka2.broker.security.principal import (
    ANONYMOUS,
    BROKER,
    Principal,
    host_bytes,
    host_from_bytes,
    principal_bytes,
    principal_from_bytes,
    principal_of,
)
from pykafka2.broker.server.request_context import RequestContext
from pykafka2.errors import ConfigurationError, CorruptData
from pykafka2.protocol.messages.metadata import MetadataRequest
from pykafka2.protocol.messages.topics import CreateTopicsRequest
from pykafka2.protocol.registry import ApiKey
from pykafka2.testing import KafkaCluster
from tests.broker.support.raw_client import RawClient
from tests.broker.support.sasl import USERS, log_in

ELSEWHERE = "127.0.0.2"
"""An address of this machine other than the default for an unknown one."""


def test_principal_is_written_as_in_kafka() -> None:
    assert str(Principal("User", "CN=a,O=b")) == "User:CN=a,O=b"
    assert principal_of("User:a:b") == Principal("User", "a:b")
    for bad in ("alice", ":alice", "User:", ""):
        with pytest.raises(ConfigurationError, match="User:alice"):
            principal_of(bad)


def test_principal_equals_that_of_its_token() -> None:
    assert Principal("User", "a", is_from_token=True) == Principal("User", "a")


@pytest.mark.parametrize("principal", [ANONYMOUS, Principal("User", "Zoë", is_from_token=True)], ids=str)
def test_principal_survives_the_bytes_of_an_envelope(principal: Principal) -> None:
    read = principal_from_bytes(principal_bytes(principal))
    assert (read, read.is_from_token) == (principal, principal.is_from_token)


@pytest.mark.parametrize("data", [b"", b"\0", b"\0\x01\x02a", b"\0\0\x05User"], ids=bytes.hex)
def test_malformed_principal_is_corrupt_data(data: bytes) -> None:
    with pytest.raises(CorruptData):
        principal_from_bytes(data)


def test_client_address_survives_the_bytes_of_an_envelope() -> None:
    for host in ("10.1.2.3", "::1"):
        assert host_from_bytes(host_bytes(host)) == host
    assert host_from_bytes(host_bytes("a-name-in-the-simulation")) == "127.0.0.1"
    with pytest.raises(CorruptData, match="3 bytes"):
        host_from_bytes(b"abc")


def test_handlers_receive_the_principal_of_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    """Broker 1 handles one request of its client, and forwards another to the controller on broker 0."""
    load()
    seen: dict[int, RequestContext] = {}

    def watched(handle: Handle) -> Handle:
        def watching(services: Services, context: RequestContext, request: Any, now: float) -> Any:
            seen[context.api_key] = context
            return handle(services, context, request, now)

        return watching

    for key in (ApiKey.METADATA, ApiKey.CREATE_TOPICS, ApiKey.BROKER_REGISTRATION):
        monkeypatch.setitem(APIS, key, attrs.evolve(APIS[key], handle=watched(APIS[key].handle)))
    with (
        KafkaCluster(2, controller=0, listeners=["SASL_PLAINTEXT"], users=USERS) as cluster,
        RawClient(cluster.broker(1).address, source=ELSEWHERE) as wire,
    ):
        assert log_in(wire, "ann").error_code == 0
        wire.call(MetadataRequest(topics=[]), 12)
        wire.call(CreateTopicsRequest(topics=[]), 5)
    for key in (ApiKey.METADATA, ApiKey.CREATE_TOPICS):
        context = seen[key]
        assert (context.principal, context.client_host) == (Principal("User", "ann"), ELSEWHERE)
        assert not context.caller.is_broker
    assert seen[ApiKey.CREATE_TOPICS].is_from_broker  # forwarded, on behalf of the client
    assert seen[ApiKey.BROKER_REGISTRATION].caller == BROKER
