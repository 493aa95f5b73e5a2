"""The interface of a SASL mechanism: a name, and an exchange of tokens.

An exchange is a generator.  It yields a token, which is sent to the broker, and receives the broker's; or it
yields `Offload`, and receives what that work came to: hashing a password a million times, or asking an
authority for a token, must not hold up the other connections of the IO thread.  An error that the broker
answers is thrown in.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Protocol

from pykafka2.network.script import Offload

TO_CHECK = "check sasl_username and sasl_password"

Exchange = Generator[bytes | Offload, Any, None]
"""Ends when the broker has proved itself; raises `SaslAuthenticationFailed` if it has not."""


class SaslMechanism(Protocol):
    """A mechanism with its credentials; serves any number of connections, one after the other or at once."""

    @property
    def name(self) -> str:
        """The name as in sasl_mechanism."""
        ...

    @property
    def to_check(self) -> str:
        """The options that a rejected user must check, as the end of a sentence."""
        ...

    def exchange(self) -> Exchange:
        """One authentication, from the first token on."""
        ...
