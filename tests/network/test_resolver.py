"""Names and their endpoints."""

from __future__ import annotations

import socket

import pytest

from pykafka2.errors import NoBrokersAvailable
from pykafka2.network.endpoint import Endpoint
from pykafka2.network.resolver import resolve


def test_an_ip_address_resolves_to_itself() -> None:
    assert resolve("127.0.0.1", 9092) == [Endpoint("127.0.0.1", 9092)]
    assert resolve("::1", 9092) == [Endpoint("::1", 9092, is_ipv6=True)]


def test_a_canonical_name_is_the_one_its_address_is_registered_under() -> None:
    (endpoint,) = resolve("127.0.0.1", 9092, canonical=True)
    assert endpoint == Endpoint("127.0.0.1", 9092, name=socket.getnameinfo(("127.0.0.1", 9092), 0)[0])


@pytest.mark.parametrize("host", ["no-such-host.invalid", "a" * 70, "bad..name"])
def test_a_name_that_cannot_be_resolved_is_named(host: str) -> None:
    with pytest.raises(NoBrokersAvailable, match=host):
        resolve(host, 9092)
