"""Tokens from an OpenID Connect authority by the client-credentials grant of OAuth 2 (RFC 6749, KIP-768).

One POST with the standard library. Blocks, so a `TokenCache` calls it off the IO thread. One deadline limits
the whole request, also if the authority sends byte by byte (http_in_time.py).
"""

from __future__ import annotations

import base64
import errno
import http.client
import json
import math
import socket
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from pykafka2.errors import ConfigurationError, SaslAuthenticationFailed, TokenEndpointUnavailable
from pykafka2.network.sasl.http_in_time import Deadline, handlers
from pykafka2.network.sasl.oauth_token import Token, expiry_of
from pykafka2.option_fields import hidden
from pykafka2.text import shown

MAX_RESPONSE_BYTES = 1 << 20
CHECK = "check client id, client secret and scope"
PASSING = (408, 425, 429)
"""HTTP errors below 500 after which the same request can succeed."""
NETWORK_DOWN = (errno.EHOSTUNREACH, errno.EHOSTDOWN, errno.ENETUNREACH, errno.ENETDOWN)
LONGEST_LIFE = 1e9
"""Longest lifetime in seconds that is accepted; larger values could overflow a clock."""
LONGEST_SHOWN = 200
"""Characters of a malformed HTTP response that an error shows."""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follows no redirect, which would send the credentials to any host that the response names."""

    def redirect_request(self, *arguments: Any, **named: Any) -> None:
        """Return None, which makes a redirect an error."""


@attrs.define(frozen=True)
class ClientCredentials:
    """A client of an authority. `timeout` is in seconds, for the whole request."""

    url: str
    client_id: str
    client_secret: str = attrs.field(repr=hidden)
    wall_seconds: Callable[[], float] = attrs.field(repr=False)
    monotonic: Callable[[], float] = attrs.field(repr=False)
    scope: str | None = None
    extensions: Mapping[str, str] = attrs.field(factory=dict)
    ca_file: str | None = None
    timeout: float = 10.0

    def __call__(self) -> Token:
        """Request a token. Raise SaslAuthenticationFailed with the address and its error.

        TokenEndpointUnavailable, which is retriable, if the same request can succeed soon.
        """
        response = self._post()
        value = response.get("access_token")
        if not isinstance(value, str):
            raise SaslAuthenticationFailed(f"{self.url} sent a response without an access_token")
        lifetime = response.get("expires_in")
        expires_at = expiry_of(value)
        if not isinstance(lifetime, int | float) or isinstance(lifetime, bool):
            lifetime = math.nan
        if lifetime > -LONGEST_LIFE:  # not if it is NaN, which JSON can have, too
            expires_at = self.wall_seconds() + min(lifetime, LONGEST_LIFE)
        return Token(value, expires_at, "", self.extensions)

    def _post(self) -> dict[str, Any]:
        form = {"grant_type": "client_credentials"} | ({"scope": self.scope} if self.scope else {})
        credentials = base64.b64encode(f"{self.client_id}:{self.client_secret}".encode()).decode()
        request = urllib.request.Request(  # noqa: S310 (the scheme was checked with the options)
            self.url,
            urllib.parse.urlencode(form).encode(),
            {"Authorization": f"Basic {credentials}", "Accept": "application/json"},
        )
        try:
            with self._opener().open(request, timeout=self.timeout) as reply:
                text = reply.read(MAX_RESPONSE_BYTES + 1)
                if reply.length and len(text) <= MAX_RESPONSE_BYTES:
                    raise http.client.IncompleteRead(text, reply.length)
        except urllib.error.HTTPError as error:
            with error:
                if error.code >= 500 or error.code in PASSING:
                    raise TokenEndpointUnavailable(f"{self.url} is unavailable (HTTP {error.code})") from None
                is_redirect = 300 <= error.code < 400
                advice = "set the URL to which it redirects" if is_redirect else CHECK
                raise SaslAuthenticationFailed(
                    f"{self.url} rejected the token request (HTTP {error.code}{_why(error)}); {advice}"
                ) from None
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", None) or shown(str(error), LONGEST_SHOWN)
            is_passing = _is_passing(error) or _is_passing(reason)
            kind = TokenEndpointUnavailable if is_passing else SaslAuthenticationFailed
            raise kind(f"{self.url} returned no token: {reason}") from None
        try:
            response = json.loads(text) if len(text) <= MAX_RESPONSE_BYTES else None
        except (ValueError, RecursionError):
            response = None
        if not isinstance(response, dict):
            raise SaslAuthenticationFailed(f"{self.url} did not respond like a token endpoint; check the URL")
        return response

    def _opener(self) -> urllib.request.OpenerDirector:
        in_time = Deadline(self.monotonic, self.monotonic() + self.timeout)
        return urllib.request.build_opener(_NoRedirect, *handlers(in_time, self._tls()))

    def _tls(self) -> Any:
        if urllib.parse.urlsplit(self.url).scheme != "https":
            return None
        import ssl

        try:
            return ssl.create_default_context(cafile=self.ca_file)
        except (OSError, ValueError) as error:
            raise ConfigurationError(f"https_ca_location={self.ca_file!r} cannot be used: {error}") from error


def _is_passing(error: object) -> bool:
    """Return True if the endpoint can be reached again soon, unlike one with a wrong name or certificate."""
    import ssl

    if isinstance(error, ConnectionError | TimeoutError | http.client.IncompleteRead | ssl.SSLEOFError):
        return True
    if isinstance(error, socket.gaierror):
        return error.errno == socket.EAI_AGAIN
    return isinstance(error, OSError) and error.errno in NETWORK_DOWN


def _why(error: urllib.error.HTTPError) -> str:
    """Return the error's name in the authority's JSON (RFC 6749), and nothing else of the response."""
    try:
        name = json.loads(error.read(MAX_RESPONSE_BYTES))["error"]
    except (ValueError, KeyError, TypeError, OSError, RecursionError, http.client.HTTPException):
        return ""
    is_name = isinstance(name, str) and name.replace("_", "").isalnum() and len(name) < 60
    return f", {name}" if is_name else ""
