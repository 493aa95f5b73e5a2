"""SASL PLAIN (RFC 4616): user name and password in clear text, so it needs TLS to protect them."""

from __future__ import annotations

import attrs

from pykafka2.network.sasl.mechanism import TO_CHECK, Exchange
from pykafka2.option_fields import hidden


@attrs.define(frozen=True)
class Plain:
    """The mechanism PLAIN with one user's credentials."""

    username: str
    password: str = attrs.field(repr=hidden)
    name: str = attrs.field(default="PLAIN", init=False)

    @property
    def to_check(self) -> str:
        return TO_CHECK

    def exchange(self) -> Exchange:
        """Send one token; the broker's token is empty."""
        yield b"\0" + self.username.encode() + b"\0" + self.password.encode()
