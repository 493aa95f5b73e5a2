"""Delegation tokens: creation, renewal and expiry by the controller (Kafka's DelegationTokenControlManager).

Functions over the active controller, each one metadata change. They raise the error for the client.
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Sequence

import attrs

from pykafka2.broker.config.configs import BrokerConfig
from pykafka2.broker.controller.controller import Controller
from pykafka2.broker.controller.metadata.records import DelegationTokenRemoved, DelegationTokenSet
from pykafka2.broker.security.delegation_tokens import DelegationToken, TokenCredentials, hmac_of
from pykafka2.broker.security.principal import Principal
from pykafka2.broker.security.scram import KINDS, SALT_BYTES
from pykafka2.clock import Entropy
from pykafka2.errors import (
    DelegationTokenAuthDisabled,
    DelegationTokenExpired,
    DelegationTokenNotFound,
    DelegationTokenOwnerMismatch,
)


@attrs.define(frozen=True)
class TokenRequest:
    """A request for a token. A lifetime of 0 or less means the maximum."""

    owner: Principal
    requester: Principal
    renewers: Sequence[Principal]
    max_lifetime_ms: int


def secret_key(config: BrokerConfig) -> str:
    """Return delegation.token.secret.key. Raise `DelegationTokenAuthDisabled` if it is unset."""
    key = config.text("delegation.token.secret.key")
    if not key:
        raise DelegationTokenAuthDisabled
    return key


def create_token(
    controller: Controller, config: BrokerConfig, entropy: Entropy, wanted: TokenRequest, now_ms: int
) -> DelegationToken:
    """Create a token.

    Also removes tokens that expired more than delegation.token.expiry.check.interval.ms ago, which is how
    often Kafka checks for them.
    """
    key = secret_key(config)
    lifetime = config.int("delegation.token.max.lifetime.ms")
    if wanted.max_lifetime_ms > 0:
        lifetime = min(lifetime, wanted.max_lifetime_ms)
    token_id = base64.urlsafe_b64encode(entropy.token_bytes(16)).decode().rstrip("=")
    made = hmac_of(key, token_id)
    salts = {kind: entropy.token_bytes(SALT_BYTES) for kind in KINDS.values()}
    token = DelegationToken(
        token_id,
        wanted.owner,
        wanted.requester,
        tuple(wanted.renewers),
        now_ms,
        now_ms + lifetime,
        min(now_ms + lifetime, now_ms + config.int("delegation.token.expiry.time.ms")),
        made,
        TokenCredentials(made, salts),
    )
    gone_ms = now_ms - config.int("delegation.token.expiry.check.interval.ms")
    over = [known.id for known in controller.state.tokens.values() if known.is_over(gone_ms)]
    controller.write([*map(DelegationTokenRemoved, over), DelegationTokenSet(token)])
    return token


def renew_token(
    controller: Controller,
    config: BrokerConfig,
    token_hmac: bytes,
    requester: Principal,
    period_ms: int,
    now_ms: int,
) -> int:
    """Extend a token's lifetime. Return the new expiry time."""
    token = _known(controller, config, token_hmac, requester, now_ms)
    period = config.int("delegation.token.expiry.time.ms")
    if period_ms > 0:
        period = min(period, period_ms)
    return _end_at(controller, token, now_ms + period)


def expire_token(
    controller: Controller,
    config: BrokerConfig,
    token_hmac: bytes,
    requester: Principal,
    period_ms: int,
    now_ms: int,
) -> int:
    """Let a token expire after a period, or remove it if that is negative.

    Return the new expiry time, or the negative number.
    """
    token = _known(controller, config, token_hmac, requester, now_ms)
    if period_ms < 0:
        controller.write([DelegationTokenRemoved(token.id)])
        return period_ms
    return _end_at(controller, token, now_ms + period_ms)


def _known(
    controller: Controller, config: BrokerConfig, token_hmac: bytes, requester: Principal, now_ms: int
) -> DelegationToken:
    """Return the token with this HMAC. Raise unless the requester can change it."""
    secret_key(config)
    for token in controller.state.tokens.values():
        if hmac.compare_digest(token.hmac, token_hmac):
            break
    else:
        raise DelegationTokenNotFound
    if token.is_over(now_ms):
        raise DelegationTokenExpired
    if not token.belongs_to(requester):
        raise DelegationTokenOwnerMismatch
    return token


def _end_at(controller: Controller, token: DelegationToken, at_ms: int) -> int:
    expires_at_ms = min(token.max_at_ms, at_ms)
    controller.write([DelegationTokenSet(attrs.evolve(token, expires_at_ms=expires_at_ms))])
    return expires_at_ms
