"""Listeners of a broker: name, protocol, and how connections are authenticated.

Immutable; created with each start (parts.py).
"""

from __future__ import annotations

import attrs

from pykafka2.broker.config.configs import BrokerConfig
from pykafka2.broker.security.authentication import Authentication, SaslListener
from pykafka2.broker.security.principal import ANONYMOUS, USER, Caller, Principal
from pykafka2.broker.security.principal_mapping import PrincipalMapping
from pykafka2.errors import TlsError
from pykafka2.network.tls import TlsContext
from pykafka2.network.tls_transport import TlsTransport
from pykafka2.network.transport import Transport


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


@attrs.define(frozen=True)
class ListenerEndpoint:
    """One listener. Without `sasl` connections need no SASL authentication."""

    listener: str = "PLAINTEXT"
    acceptor: str = ""
    """The acceptor's name."""
    sasl: SaslListener | None = None
    mapping: PrincipalMapping | None = None
    """Maps a client certificate to a principal; None if no certificate is requested."""
    protocol: str = "PLAINTEXT"

    def anonymous(self, host: str) -> Caller:
        """Return an unauthenticated caller with this address."""
        return Caller(host=host, listener=self.listener, protocol=self.protocol)

    def authentication(self, host: str) -> Authentication | None:
        """Return the SASL state of a new connection from this address; None on a listener without SASL."""
        if self.sasl is None:
            return None
        return Authentication(self.sasl, self.anonymous(host), self.sasl.wall_ms)

    def caller(self, transport: Transport, host: str) -> Caller:
        """Return the caller after the TLS handshake, if there is one.

        Raise `TlsError` for a certificate that no rule of ssl.principal.mapping.rules matches.
        """
        principal = ANONYMOUS
        subject = transport.peer_subject() if isinstance(transport, TlsTransport) else None
        if self.mapping is not None and subject is not None:
            name = self.mapping.name_of(subject)
            if name is None:
                raise TlsError(
                    f"{transport.peer}: no rule of ssl.principal.mapping.rules matches its certificate"
                )
            principal = Principal(USER, name)
        return attrs.evolve(self.anonymous(host), principal=principal)
