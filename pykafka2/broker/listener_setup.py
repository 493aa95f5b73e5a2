"""Security of each listener of a broker, from its options.

Created with each start. SCRAM users are looked up in the broker's current metadata.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping

from pykafka2.broker.base.image import ListenerAddress
from pykafka2.broker.node import Node
from pykafka2.broker.security.authentication import Credentials, SaslListener
from pykafka2.broker.security.listeners import ListenerEndpoint, ListenerSecurity
from pykafka2.broker.security.principal_mapping import PrincipalMapping
from pykafka2.broker.security.scram import ScramMechanism, ScramUser
from pykafka2.clock import Entropy

NONCE_BYTES = 24
NO_SECURITY = ListenerSecurity()


class ListenerEndpoints:
    """Creates the `ListenerEndpoint` of each listener. User lookups need the cluster's lock."""

    def __init__(
        self,
        node: Node,
        listeners: Mapping[str, ListenerSecurity],
        credentials: Credentials,
        entropy: Entropy,
    ) -> None:
        self._node = node
        self._listeners = listeners
        self._credentials = credentials
        self._entropy = entropy

    def of(self, address: ListenerAddress) -> ListenerEndpoint:
        """Return the endpoint of a listener."""
        node = self._node
        security = self._listeners.get(address.name, NO_SECURITY)
        is_first = address is node.listeners[0]
        mapping = None
        if address.protocol == "SSL" and security.asks_for_certificate:
            mapping = PrincipalMapping(node.config.get("ssl.principal.mapping.rules"))
        return ListenerEndpoint(
            address.name,
            f"acceptor-{node.id}" if is_first else f"acceptor-{node.id}-{address.name}",
            self._sasl(security) if address.protocol.startswith("SASL_") else None,
            mapping,
            address.protocol,
        )

    def _sasl(self, security: ListenerSecurity) -> SaslListener:
        config = self._node.config
        mechanisms, max_reauth_ms = security.mechanisms, security.max_reauth_ms
        return SaslListener(
            self._credentials,
            tuple(config.get("sasl.enabled.mechanisms")) if mechanisms is None else mechanisms,
            self._scram_user,
            lambda: base64.b64encode(self._entropy.token_bytes(NONCE_BYTES)).decode(),
            self._node.clock.wall_ms,
            config.int("connections.max.reauth.ms") if max_reauth_ms is None else max_reauth_ms,
            config.int("sasl.server.max.receive.size"),
        )

    def _scram_user(self, kind: ScramMechanism, name: str, is_token: bool) -> ScramUser | None:
        if is_token:
            token = self._node.image.tokens.get(name)
            return None if token is None else token.scram_user(kind, self._node.clock.wall_ms())
        credential = self._node.image.scram_users.get(name, {}).get(kind)
        return None if credential is None else ScramUser(name, credential)
