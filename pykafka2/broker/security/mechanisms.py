"""SASL mechanisms of a listener, and the credentials that they check.

One `Credentials` serves all brokers of a cluster with passwords and token rules, which a test sets. SCRAM
credentials and delegation tokens come from each broker's metadata. Access requires the cluster's lock.
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
"""All implemented mechanisms."""


def token_rules(config: BrokerConfig, key: str | WebKeys | None) -> TokenRules:
    """Return the OAUTHBEARER rules from the broker options; a key accepts only tokens signed with it."""
    return TokenRules(
        key,
        tuple(config.get("sasl.oauthbearer.expected.audience")),
        config.get("sasl.oauthbearer.expected.issuer"),
        config.get("sasl.oauthbearer.sub.claim.name"),
        # As in Kafka: its validator for tests allows no clock skew, the one for signed tokens 30 seconds.
        0.0 if key is None else float(config.int("sasl.oauthbearer.clock.skew.seconds")),
    )


@attrs.define(eq=False)
class Credentials:
    """Credentials outside the metadata, and the mechanisms that a test disabled."""

    passwords: Passwords = attrs.field(factory=Passwords)
    tokens: TokenRules = attrs.field(factory=TokenRules)
    refused_mechanisms: set[str] = attrs.field(factory=set)
    """Mechanisms that no listener offers now, although they are enabled."""
    is_touched: bool = False
    """Whether a test has changed the initial credentials."""


@attrs.define(eq=False)
class SaslListener:
    """SASL settings of one listener of a broker."""

    credentials: Credentials
    enabled: tuple[str, ...]
    scram_user: Callable[[ScramMechanism, str, bool], ScramUser | None]
    new_nonce: Callable[[], str]
    wall_ms: Callable[[], int]
    max_reauth_ms: int = 0
    """connections.max.reauth.ms; 0: a session expires only with its credential."""
    max_frame_bytes: int = 524_288
    """sasl.server.max.receive.size: the limit of a frame before authentication."""

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """The mechanisms that are offered now."""
        refused = self.credentials.refused_mechanisms
        return tuple(name for name in self.enabled if name not in refused)

    def exchange(self, mechanism: str) -> Exchange:
        """Start the broker's side of one authentication by an offered mechanism."""
        if mechanism == "PLAIN":
            return plain(self.credentials.passwords)
        if mechanism == "OAUTHBEARER":
            return oauthbearer(self.credentials.tokens, lambda: self.wall_ms() / 1000)
        kind = KINDS[mechanism]
        return scram(mechanism, lambda name, is_token: self.scram_user(kind, name, is_token), self.new_nonce)
