"""Creates the SASL mechanism of a client from its options."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any

from pykafka2.clock import SystemClock
from pykafka2.errors import TokenEndpointTimedOut, TokenProviderTimedOut
from pykafka2.network.sasl.mechanism import SaslMechanism
from pykafka2.network.sasl.oauth_token import Token, TokenCache, Wait, shared_cache, token_of
from pykafka2.network.sasl.oauthbearer import OAuthBearer
from pykafka2.network.sasl.plain import Plain
from pykafka2.network.sasl.scram import Scram
from pykafka2.option_fields import Imported, target_of

if TYPE_CHECKING:
    from pykafka2.clock import Clock, Entropy
    from pykafka2.security_options import SecurityOptions

GRACE = 1.0
"""Seconds by which the limit of a token request exceeds the login timeout, at which the cache gives the
request up. Of equal limits either could be first, and their errors differ.
"""


def sasl_mechanism(
    options: SecurityOptions, client_id: str, clock: Clock, entropy: Entropy, wait: Wait | None = None
) -> SaslMechanism | None:
    """Return the mechanism of the options, shared by a client's connections; None without SASL.

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

    def new_cache(name: str, wait: Wait | None = None) -> TokenCache:
        is_endpoint = options.sasl_oauthbearer_token_endpoint_url is not None
        return TokenCache(
            _source(options, wall_seconds, clock.monotonic),
            wall_seconds,
            name,
            options.sasl_login_timeout,
            _source_name(options),
            wait,
            TokenEndpointTimedOut if is_endpoint else TokenProviderTimedOut,
        )

    settings = _shared_settings(options)
    if settings is None or not isinstance(clock, SystemClock):  # a simulation has a time of its own
        return OAuthBearer(new_cache(client_id, wait))
    return OAuthBearer(shared_cache(settings, lambda: new_cache("shared")))


def _shared_settings(options: SecurityOptions) -> Hashable | None:
    """Return what clients that can share tokens have in common; None for a caller's own callable."""
    callables = (options.oauth_cb, options.sasl_oauth_token_provider)
    if any(one is not None and not isinstance(one, Imported) for one in callables):
        return None
    return (
        options.sasl_oauthbearer_token_endpoint_url,
        options.sasl_oauthbearer_client_id,
        options.sasl_oauthbearer_client_secret,
        options.sasl_oauthbearer_scope,
        tuple(sorted((options.sasl_oauthbearer_extensions or {}).items())),
        options.https_ca_location,
        options.sasl_login_timeout,
        options.sasl_oauthbearer_config,
        callables,
    )


def _source_name(options: SecurityOptions) -> str:
    """Return the name of the token source in error messages."""
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
            options.sasl_login_timeout + GRACE,
        )
    oauth_cb = target_of(options.oauth_cb)
    if oauth_cb is not None:
        return lambda: token_of(oauth_cb(options.sasl_oauthbearer_config), extensions)
    return lambda: token_of(*_call_provider(target_of(options.sasl_oauth_token_provider), extensions))


def _call_provider(provider: Any, extensions: dict[str, str]) -> tuple[Any, dict[str, str]]:
    """Return the provider's token and the extensions; its own extensions win (as in kafka-python)."""
    method = getattr(provider, "token", None)
    token = method() if callable(method) else provider()
    own = getattr(provider, "extensions", None)
    return token, {**extensions, **(own() if callable(own) else {})}
