"""Creates the SASL mechanism of a client from its options."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pykafka2.network.sasl.mechanism import SaslMechanism
from pykafka2.network.sasl.oauth_token import Token, TokenCache, Wait, token_of
from pykafka2.network.sasl.oauthbearer import OAuthBearer
from pykafka2.network.sasl.plain import Plain
from pykafka2.network.sasl.scram import Scram

if TYPE_CHECKING:
    from pykafka2.clock import Clock, Entropy
    from pykafka2.security_options import SecurityOptions


def sasl_mechanism(
    options: SecurityOptions, client_id: str, clock: Clock, entropy: Entropy, wait: Wait | None = None
) -> SaslMechanism | None:
    """Returns the mechanism of the options, shared by a client's connections; None without SASL.

    `wait` blocks in the time of the client's runtime.
    """
    if not options.uses_sasl:
        return None
    username, password = options.sasl_username or "", options.sasl_password or ""
    if options.sasl_mechanism == "PLAIN":
        return Plain(username, password)
    if options.sasl_mechanism != "OAUTHBEARER":
        name = options.sasl_mechanism or ""
        return Scram(name, username, password, entropy.token_bytes, options.sasl_delegation_token)

    def wall_seconds() -> float:
        return clock.wall_ns() / 1e9

    return OAuthBearer(
        TokenCache(
            _source(options, wall_seconds, clock.monotonic),
            wall_seconds,
            client_id,
            options.sasl_login_timeout,
            _source_name(options),
            wait,
        )
    )


def _source_name(options: SecurityOptions) -> str:
    """Returns the name of the token source in error messages."""
    if options.sasl_oauthbearer_token_endpoint_url is not None:
        return f"the token endpoint {options.sasl_oauthbearer_token_endpoint_url}"
    return f"the token provider {'sasl_oauth_token_provider' if options.oauth_cb is None else 'oauth_cb'}"


def _source(
    options: SecurityOptions, wall_seconds: Callable[[], float], monotonic: Callable[[], float]
) -> Callable[[], Token]:
    extensions = options.sasl_oauthbearer_extensions or {}
    if options.sasl_oauthbearer_token_endpoint_url is not None:
        # urllib takes 50 ms to import, so it is imported only for a token endpoint.
        from pykafka2.network.sasl.client_credentials import ClientCredentials

        return ClientCredentials(
            options.sasl_oauthbearer_token_endpoint_url,
            options.sasl_oauthbearer_client_id or "",
            options.sasl_oauthbearer_client_secret or "",
            wall_seconds,
            monotonic,
            options.sasl_oauthbearer_scope,
            extensions,
            options.https_ca_location,
            options.sasl_login_timeout,
        )
    oauth_cb = options.oauth_cb
    if oauth_cb is not None:
        return lambda: token_of(oauth_cb(options.sasl_oauthbearer_config), extensions)
    return lambda: token_of(*_call_provider(options.sasl_oauth_token_provider, extensions))


def _call_provider(provider: Any, extensions: dict[str, str]) -> tuple[Any, dict[str, str]]:
    """Returns the provider's token and the extensions; its own extensions win (as in kafka-python)."""
    method = getattr(provider, "token", None)
    token = method() if callable(method) else provider()
    own = getattr(provider, "extensions", None)
    return token, {**extensions, **(own() if callable(own) else {})}
