"""A cluster with authentication, an unauthenticated connection, and a user that is always served."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pykafka2.protocol.messages.metadata import MetadataRequest
from pykafka2.testing import KafkaCluster, Listener
from tests.broker.support.raw_client import RawClient
from tests.broker.support.sasl import USERS, address_of, log_in


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    listeners = {
        "SASL_PLAINTEXT": None,
        "SHORT": Listener("SASL_PLAINTEXT", max_reauth_ms=600_000),
        "ONE": Listener("SASL_PLAINTEXT", mechanisms=["PLAIN"]),
    }
    config = {"connection.failed.authentication.delay.ms": 5}
    with KafkaCluster(1, {"t": 1}, listeners=listeners, users=USERS, config=config) as cluster:
        yield cluster


@pytest.fixture
def wire(cluster: KafkaCluster) -> Iterator[RawClient]:
    """A connection without a request."""
    cluster.forget()
    with RawClient(address_of(cluster, "SASL_PLAINTEXT")) as wire:
        yield wire


@pytest.fixture
def user(cluster: KafkaCluster) -> Iterator[RawClient]:
    """A connection of an authenticated user, which the broker must still serve in the end."""
    with RawClient(address_of(cluster, "SASL_PLAINTEXT"), "well-behaved") as wire:
        assert log_in(wire).error_code == 0
        yield wire
        assert wire.call(MetadataRequest(topics=[]), 12).brokers
