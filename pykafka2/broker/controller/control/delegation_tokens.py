"""Delegation tokens: creation, renewal and expiry by the controller (Kafka's DelegationTokenControlManager).

Functions over the active controller, each one metadata change. They raise the error for the client.
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Sequence
from copy import copy

import attrs

from pykafka2.broker.config.configs import BrokerConfig
from pykafka2.broker.controller.controller import Controller
from pykafka2.broker.security.delegation_tokens import DelegationToken
from pykafka2.broker.security.principal import Principal
from pykafka2.clock import Entropy
from pykafka2.errors import (
    DelegationTokenAuthDisabled,
    DelegationTokenExpired,
    DelegationTokenNotFound,
    DelegationTokenOwnerMismatch,
)
from pykafka2.protocol.messages.metadata_records import DelegationTokenRecord, RemoveDelegationTokenRecord


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
    secret_key(config)
    lifetime = config.int("delegation.token.max.lifetime.ms")
    if wanted.max_lifetime_ms > 0:
        lifetime = min(lifetime, wanted.max_lifetime_ms)
    token_id = base64.urlsafe_b64encode(entropy.token_bytes(16)).decode().rstrip("=")
    token = DelegationTokenRecord(
        owner=str(wanted.owner),
        requester=str(wanted.requester),
        renewers=[str(renewer) for renewer in wanted.renewers],
        issue_timestamp=now_ms,
        max_timestamp=now_ms + lifetime,
        expiration_timestamp=min(now_ms + lifetime, now_ms + config.int("delegation.token.expiry.time.ms")),
        token_id=token_id,
    )
    gone_ms = now_ms - config.int("delegation.token.expiry.check.interval.ms")
    over = [known.id for known in controller.state.tokens.values() if known.is_over(gone_ms)]
    controller.write([*(RemoveDelegationTokenRecord(token_id=known) for known in over), token])
    return controller.state.tokens[token_id]


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
        controller.write([RemoveDelegationTokenRecord(token_id=token.id)])
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
    record = copy(controller.state.token_records[token.id])
    record.expiration_timestamp = expires_at_ms
    controller.write([record])
    return expires_at_ms
