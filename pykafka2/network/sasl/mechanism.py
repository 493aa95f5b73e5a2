"""The interface of a SASL mechanism: a name, and an exchange of tokens.

An exchange is a generator. It yields a token, which is sent to the broker, and receives the broker's token;
or it yields `Offload` and receives the result of that work. Hashing a password a million times, or requesting
a token from an authority, must not block the other connections of the IO thread. An error response of the
broker is thrown in.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Protocol

from pykafka2.network.script import Offload

TO_CHECK = "check sasl_username and sasl_password"

Exchange = Generator[bytes | Offload, Any, None]
"""Ends when the broker has authenticated itself; raises SaslAuthenticationFailed if it has not."""


class SaslMechanism(Protocol):
    """A mechanism with its credentials, shared by all connections of a client."""

    @property
    def name(self) -> str:
        """The name as in sasl_mechanism."""
        ...

    @property
    def to_check(self) -> str:
        """The options to check after a rejection, as the end of a sentence."""
        ...

    def exchange(self) -> Exchange:
        """Return a new exchange for one authentication."""
        ...
