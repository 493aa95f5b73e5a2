"""How one listener of a cluster's brokers secures itself: the same for all brokers, given from outside."""

from __future__ import annotations

import attrs

from pykafka2.broker.config.configs import BrokerConfig
from pykafka2.network.tls import TlsContext


@attrs.define(frozen=True)
class ListenerSecurity:
    """Of one listener; its security protocol says which of it counts."""

    tls: TlsContext | None = attrs.field(default=None, repr=False)
    """What it shows to clients; with TLS only."""
    asks_for_certificate: bool = False
    """Whether clients are named by the certificates that they show."""
    mechanisms: tuple[str, ...] | None = None
    """Those of SASL that it offers; None: sasl.enabled.mechanisms."""
    max_reauth_ms: int | None = None
    """How long a session lasts; None: connections.max.reauth.ms."""


def client_auth(config: BrokerConfig) -> str:
    """Whether clients of listeners with TLS must show a certificate, where nothing else is said of one."""
    asked: str = config.get("ssl.client.auth")
    return asked
