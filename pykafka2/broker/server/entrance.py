"""A listener of one broker, as its processors see it: what a connection that came by it has to prove.

Immutable; made with each start (parts.py).
"""

from __future__ import annotations

import attrs

from pykafka2.broker.security.authentication import Authentication
from pykafka2.broker.security.caller import ANONYMOUS, USER, Caller, Principal
from pykafka2.broker.security.mechanisms import SaslListener
from pykafka2.broker.security.principal_mapping import PrincipalMapping
from pykafka2.errors import TlsError
from pykafka2.network.tls_transport import TlsTransport
from pykafka2.network.transport import Transport


@attrs.define(frozen=True)
class Entrance:
    """One listener.  Without `sasl` every client is let in at once."""

    listener: str = "PLAINTEXT"
    acceptor: str = ""
    """By name."""
    sasl: SaslListener | None = None
    mapping: PrincipalMapping | None = None
    """What names the principal of a client that showed a certificate; None where none is asked for."""
    protocol: str = "PLAINTEXT"

    def stranger(self, host: str) -> Caller:
        """Somebody from this address of whom nothing else is known."""
        return Caller(host=host, listener=self.listener, protocol=self.protocol)

    def authentication(self, host: str) -> Authentication | None:
        """The SASL side of a new connection from this address; None on a listener without SASL."""
        if self.sasl is None:
            return None
        return Authentication(self.sasl, self.stranger(host), self.sasl.wall_ms)

    def caller(self, transport: Transport, host: str) -> Caller:
        """Who is at the other end once TLS, if there is any, is agreed on.

        Raises `TlsError` for a certificate that no rule of ssl.principal.mapping.rules fits.
        """
        principal = ANONYMOUS
        subject = transport.peer_subject() if isinstance(transport, TlsTransport) else None
        if self.mapping is not None and subject is not None:
            name = self.mapping.name_of(subject)
            if name is None:
                raise TlsError(
                    f"{transport.peer}: no rule of ssl.principal.mapping.rules fits its certificate"
                )
            principal = Principal(USER, name)
        return attrs.evolve(self.stranger(host), principal=principal)
