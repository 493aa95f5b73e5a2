"""The listeners and credentials of a cluster: what `options_for` returns client options from.

Held only in the test's process, wherever the brokers run.  Immutable.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypedDict

import attrs

from pykafka2.broker.config.keys import nearest
from pykafka2.broker.security.authentication import MECHANISMS
from pykafka2.broker.security.oauthbearer import make_token
from pykafka2.clock import Clock, SystemClock
from pykafka2.errors import ConfigurationError
from pykafka2.testing.arguments import ClusterArguments
from pykafka2.testing.listeners import Listener, check_mechanisms

DEFAULT_MECHANISM = "SCRAM-SHA-256"


class ConnectionOptions(TypedDict, total=False):
    """Options with which pykafka2's clients connect and authenticate to a cluster."""

    bootstrap_servers: str
    security_protocol: str
    ssl_cafile: str
    ssl_certfile: str
    sasl_mechanism: str
    sasl_username: str
    sasl_password: str
    sasl_oauth_token_provider: Callable[[], str]


@attrs.define(frozen=True)
class Access:
    """A cluster's listeners, its users and the key for its tokens."""

    listeners: Mapping[str, Listener]
    users: Mapping[str, str] = attrs.field(repr=False)
    token_key: str | Mapping[str, Any] | None = attrs.field(repr=False)
    clock: Clock

    @classmethod
    def of(cls, arguments: ClusterArguments) -> Access:
        """Return the access of a cluster with these arguments."""
        clock = SystemClock() if arguments.runtime is None else arguments.runtime.clock
        users = dict(arguments.users or {})
        return cls(arguments.described_listeners(), users, arguments.token_key, clock)

    def check_listener(self, name: str) -> Listener:
        """Return the listener with this name.  Raise `ConfigurationError` that names the nearest."""
        listener = self.listeners.get(name)
        if listener is None:
            known = ", ".join(self.listeners)
            raise ConfigurationError(
                f"Unknown listener {name!r}; listeners are {known}{nearest(name, self.listeners)}"
            )
        return listener

    def chosen(self, name: str | None, user: str | None) -> tuple[str, Listener]:
        """Return the named listener, or the first one where a user can log in or that needs no login."""
        if name is not None:
            listener = self.check_listener(name)
            if user is not None and not listener.uses_sasl:
                raise ConfigurationError(
                    f"Listener {name} has no SASL, so no user can log in. Choose another listener."
                )
            return name, listener
        if user is None:
            return next(iter(self.listeners.items()))
        for one, listener in self.listeners.items():
            if listener.uses_sasl:
                return one, listener
        raise ConfigurationError(
            f"No user can log in at {', '.join(self.listeners)}. Set listeners=['SASL_PLAINTEXT']."
        )

    def credentials(
        self, user: str, password: str | None, mechanism: str | None, listener: Listener
    ) -> ConnectionOptions:
        """Return the credentials of this user, for a mechanism of the listener."""
        offered = listener.mechanisms or MECHANISMS
        if mechanism is None:
            mechanism = DEFAULT_MECHANISM if DEFAULT_MECHANISM in offered else offered[0]
        check_mechanisms("mechanism", [mechanism])
        if mechanism == "OAUTHBEARER":
            return {
                "sasl_mechanism": mechanism,
                "sasl_oauth_token_provider": lambda: self.token(user),
            }
        password = password or self.users.get(user)
        if password is None:
            raise ConfigurationError(
                f"The password of {user!r} is unknown; set password=...{nearest(user, self.users)}"
            )
        return {"sasl_mechanism": mechanism, "sasl_username": user, "sasl_password": password}

    def token(self, user: str, lifetime: float = 3600.0, **claims: object) -> str:
        """Return an OAUTHBEARER token for this user that the cluster accepts for `lifetime` seconds."""
        if isinstance(self.token_key, Mapping):
            raise ConfigurationError(
                "token_key is a JWKS of public keys, so the cluster cannot sign tokens. Sign them "
                "with your private key."
            )
        return make_token(user, self.clock.wall_ms() / 1000, key=self.token_key, lifetime=lifetime, **claims)
