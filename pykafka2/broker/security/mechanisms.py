"""The SASL mechanisms of a listener, and what they know users by.

One `Credentials` serves all brokers of a cluster: passwords and rules for tokens, which a test sets; SCRAM
credentials and delegation tokens come from the metadata that each broker has.  Under the cluster's lock.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs

from pykafka2.broker.config.configs import BrokerConfig
from pykafka2.broker.security.mechanism import Exchange
from pykafka2.broker.security.oauthbearer import TokenRules, oauthbearer
from pykafka2.broker.security.plain import Passwords, plain
from pykafka2.broker.security.scram import KINDS, ScramMechanism, ScramUser, scram
from pykafka2.broker.security.web_keys import WebKeys

MECHANISMS = ("PLAIN", *KINDS, "OAUTHBEARER")
"""All that are built."""


def token_rules(config: BrokerConfig, key: str | WebKeys | None) -> TokenRules:
    """Which OAUTHBEARER tokens are good, by the brokers' options; with a key only those signed with it."""
    return TokenRules(
        key,
        tuple(config.get("sasl.oauthbearer.expected.audience")),
        config.get("sasl.oauthbearer.expected.issuer"),
        config.get("sasl.oauthbearer.sub.claim.name"),
        # As Kafka: its validator for tests allows for none, the one of signed tokens for half a minute.
        0.0 if key is None else float(config.int("sasl.oauthbearer.clock.skew.seconds")),
    )


@attrs.define(eq=False)
class Credentials:
    """What users prove themselves by, but for what is in the metadata; and what is refused for a while."""

    passwords: Passwords = attrs.field(factory=Passwords)
    tokens: TokenRules = attrs.field(factory=TokenRules)
    refused_mechanisms: set[str] = attrs.field(factory=set)
    """Those that no listener offers now, although it is configured to."""
    is_touched: bool = False
    """Whether a test has changed what it began with."""


@attrs.define(eq=False)
class SaslListener:
    """What a listener of one broker asks of those who authenticate."""

    credentials: Credentials
    enabled: tuple[str, ...]
    scram_user: Callable[[ScramMechanism, str, bool], ScramUser | None]
    new_nonce: Callable[[], str]
    wall_ms: Callable[[], int]
    max_reauth_ms: int = 0
    """connections.max.reauth.ms; 0: a session ends only with its credential."""
    max_frame_bytes: int = 524_288
    """sasl.server.max.receive.size: of a frame from somebody who has not authenticated."""

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """What it offers now."""
        refused = self.credentials.refused_mechanisms
        return tuple(name for name in self.enabled if name not in refused)

    def exchange(self, mechanism: str) -> Exchange:
        """The broker's side of one authentication by a mechanism that is offered."""
        if mechanism == "PLAIN":
            return plain(self.credentials.passwords)
        if mechanism == "OAUTHBEARER":
            return oauthbearer(self.credentials.tokens, lambda: self.wall_ms() / 1000)
        kind = KINDS[mechanism]
        return scram(mechanism, lambda name, is_token: self.scram_user(kind, name, is_token), self.new_nonce)
