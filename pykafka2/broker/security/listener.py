"""Security settings of one listener, the same for all brokers of a cluster."""

from __future__ import annotations

import attrs

from pykafka2.broker.config.configs import BrokerConfig
from pykafka2.network.tls import TlsContext


@attrs.define(frozen=True)
class ListenerSecurity:
    """Security settings of one listener; its security protocol determines which of them apply."""

    tls: TlsContext | None = attrs.field(default=None, repr=False)
    """The TLS context, including the certificate; used with TLS only."""
    asks_for_certificate: bool = False
    """Whether a client's certificate determines its principal."""
    mechanisms: tuple[str, ...] | None = None
    """The enabled SASL mechanisms; None uses sasl.enabled.mechanisms."""
    max_reauth_ms: int | None = None
    """How long a session lasts; None uses connections.max.reauth.ms."""


def client_auth(config: BrokerConfig) -> str:
    """Return ssl.client.auth: whether TLS clients must present a certificate.

    A listener can override it.
    """
    mode: str = config.get("ssl.client.auth")
    return mode
