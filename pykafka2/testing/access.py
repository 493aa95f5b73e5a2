"""By which ways clients may come to a cluster, and what they have to show: what `options_for` is made of.

Known to the test's process alone, wherever the brokers run.  Immutable.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypedDict

import attrs

from pykafka2.broker.config.keys import nearest
from pykafka2.broker.security.mechanisms import MECHANISMS
from pykafka2.broker.security.oauthbearer import make_token
from pykafka2.clock import Clock, SystemClock
from pykafka2.errors import ConfigurationError
from pykafka2.testing.arguments import ClusterArguments
from pykafka2.testing.listeners import Listener, check_mechanisms

DEFAULT_MECHANISM = "SCRAM-SHA-256"


class ConnectionOptions(TypedDict, total=False):
    """Options of pykafka2's clients by which they find a cluster, and are let in."""

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
    """The listeners of a cluster, its users and how tokens are made for them."""

    listeners: Mapping[str, Listener]
    users: Mapping[str, str] = attrs.field(repr=False)
    token_key: str | Mapping[str, Any] | None = attrs.field(repr=False)
    clock: Clock

    @classmethod
    def of(cls, arguments: ClusterArguments) -> Access:
        """As a cluster with these arguments has it."""
        clock = SystemClock() if arguments.runtime is None else arguments.runtime.clock
        users = dict(arguments.users or {})
        return cls(arguments.described_listeners(), users, arguments.token_key, clock)

    def check_listener(self, name: str) -> Listener:
        """The listener of this name.  Raises `ConfigurationError` naming the nearest."""
        listener = self.listeners.get(name)
        if listener is None:
            known = ", ".join(self.listeners)
            raise ConfigurationError(
                f"there is no listener {name!r}{nearest(name, self.listeners)}; there are {known}"
            )
        return listener

    def chosen(self, name: str | None, user: str | None) -> tuple[str, Listener]:
        """The listener asked for; else the first that a user can log in at, or nobody has to."""
        if name is not None:
            listener = self.check_listener(name)
            if user is not None and not listener.uses_sasl:
                raise ConfigurationError(f"listener {name} has no SASL: no user can log in there")
            return name, listener
        if user is None:
            return next(iter(self.listeners.items()))
        for one, listener in self.listeners.items():
            if listener.uses_sasl:
                return one, listener
        raise ConfigurationError(
            f"no user can log in at {', '.join(self.listeners)}; say listeners=['SASL_PLAINTEXT']"
        )

    def credentials(
        self, user: str, password: str | None, mechanism: str | None, listener: Listener
    ) -> ConnectionOptions:
        """What this user shows, by a mechanism that the listener offers."""
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
                f"the password of {user!r} is not known here{nearest(user, self.users)}; say password=..."
            )
        return {"sasl_mechanism": mechanism, "sasl_username": user, "sasl_password": password}

    def token(self, user: str, lifetime: float = 3600.0, **claims: object) -> str:
        """An OAUTHBEARER token for this user that the cluster takes for `lifetime` seconds."""
        if isinstance(self.token_key, Mapping):
            raise ConfigurationError(
                "token_key is a JWKS, of public keys: tokens are made by who has the private ones"
            )
        return make_token(user, self.clock.wall_ms() / 1000, key=self.token_key, lifetime=lifetime, **claims)
