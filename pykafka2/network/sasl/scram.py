"""SASL SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, KIP-84): each side proves that it has the password.

The password is never sent. It is hashed off the IO thread and once per salt: the keys are kept for the next
connection, as all brokers of a cluster have the same salt for a user.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from functools import partial

import attrs

from pykafka2.network.sasl import scram_messages as messages
from pykafka2.network.sasl.mechanism import TO_CHECK, Exchange
from pykafka2.network.script import Offload
from pykafka2.option_fields import hidden

NONCE_BYTES = 24
DELEGATION = "tokenauth=true"
"""The extension for a delegation token, whose id and HMAC are name and password (KIP-48)."""


@attrs.define(eq=False)
class Scram:
    """SCRAM with one user's credentials; `token_bytes(count)` returns random bytes for nonces."""

    name: str
    username: str
    password: str = attrs.field(repr=hidden)
    token_bytes: Callable[[int], bytes] = attrs.field(repr=False)
    is_delegation_token: bool = False
    _salted: tuple[bytes, int] | None = attrs.field(default=None, init=False, repr=False)
    _keys: messages.Keys | None = attrs.field(default=None, init=False, repr=False)

    @property
    def to_check(self) -> str:
        if self.is_delegation_token:
            return "check that the delegation token has not expired, and its id and HMAC as name and password"
        return f"{TO_CHECK}, and that the user has credentials for {self.name}"

    def exchange(self) -> Exchange:
        """Exchange two tokens in each direction."""
        nonce = base64.b64encode(self.token_bytes(NONCE_BYTES)).decode()
        bare = messages.client_first_bare(
            self.username, nonce, DELEGATION if self.is_delegation_token else ""
        )
        response = yield messages.NO_CHANNEL_BINDING + bare.encode()
        first = messages.parse_server_first(bytes(response), nonce)
        salted = (first.salt, first.iterations)
        keys = self._keys
        if keys is None or salted != self._salted:
            keys = yield Offload(partial(messages.derive_keys, self.name, self.password, *salted))
            self._salted, self._keys = salted, keys
        final = messages.client_final_without_proof(first.nonce)
        auth_message = f"{bare},{first.text},{final}"
        proof = base64.b64encode(messages.client_proof(self.name, keys, auth_message))
        response = yield final.encode() + b",p=" + proof
        messages.verify_server_final(
            bytes(response), messages.server_signature(self.name, keys, auth_message)
        )
