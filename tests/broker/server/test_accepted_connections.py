"""Accepted connections: their addresses, and their end if the broker stops before a processor has them."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka2.broker.config.configs import BrokerConfig
from pykafka2.broker.server.connection_quotas import ConnectionQuotas, address_of
from pykafka2.broker.server.processor import Processor


class AcceptedTransport:
    peer = "127.0.0.1:1"

    def __init__(self) -> None:
        self.closed_with_reset: list[bool] = []

    def close(self, *, reset: bool = False) -> None:
        self.closed_with_reset.append(reset)


class QuietProcessor(Processor):
    def signal(self) -> None:
        """Do nothing, as no loop runs this processor."""


def test_connection_accepted_but_not_adopted_is_closed_with_the_others() -> None:
    nothing: Any = None
    config = BrokerConfig({})
    quotas = ConnectionQuotas(config)
    callbacks = (nothing, nothing, nothing)
    processor = QuietProcessor("processor", nothing, config, nothing, *callbacks, quotas, nothing)
    transport: Any = AcceptedTransport()
    quotas.take(transport.peer, 0.0)
    processor.adopt(transport)
    processor.close_all(reset=True)
    assert transport.closed_with_reset == [True]
    assert len(quotas) == 0


@pytest.mark.parametrize(
    ("peer", "address"),
    [
        ("127.0.0.1:9092", "127.0.0.1"),
        ("[::1]:9092", "::1"),
        ("[::ffff:10.1.2.3]:9092", "10.1.2.3"),
        ("[fe80::ffff:1]:9092", "fe80::ffff:1"),
        ("host.example:9092", "host.example"),
    ],
)
def test_address_of_a_peer_has_no_port_and_no_ipv6_mapping(peer: str, address: str) -> None:
    """A listener at "::" accepts IPv4, too, and shows it as IPv6, which rules do not match."""
    assert address_of(peer) == address
