"""The state of one connection's authentication: admitted requests, sessions and their renewal."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka2.broker.security.authentication import (
    Authentication,
    Credentials,
    NotAdmitted,
    SaslListener,
    SaslState,
)
from pykafka2.broker.security.oauthbearer import make_token
from pykafka2.broker.security.principal import ANONYMOUS, Caller, Principal
from pykafka2.errors import IllegalSaslState, SaslAuthenticationFailed, UnsupportedSaslMechanism
from pykafka2.protocol.registry import API_KEYS, ApiKey

WALL_MS = 1_800_000_000_000
NO_STATE = IllegalSaslState.code
REFUSED = SaslAuthenticationFailed.code


def authentication(max_reauth_ms: int = 0, **options: Any) -> Authentication:
    credentials = Credentials()
    for user in ("ann", "bob"):
        credentials.passwords.set(user, f"{user}-secret")
    listener = SaslListener(
        credentials,
        options.get("enabled", ("PLAIN", "OAUTHBEARER")),
        lambda kind, name, is_token: None,
        lambda: "nonce",
        lambda: WALL_MS,
        max_reauth_ms,
    )
    return Authentication(listener, Caller(host="10.0.0.1", listener="SASL_PLAINTEXT"), lambda: WALL_MS)


def logged_in(one: Authentication, now: float = 0.0, user: str = "ann") -> Authentication:
    one.admit(ApiKey.SASL_HANDSHAKE, now)
    assert one.handshake("PLAIN", 1).error_code == 0
    one.admit(ApiKey.SASL_AUTHENTICATE, now)
    assert one.authenticate(f"\0{user}\0{user}-secret".encode(), now).error_code == 0
    return one


def test_principal_is_set_after_authentication() -> None:
    one = authentication()
    assert one.caller.principal == ANONYMOUS
    assert one.max_frame_bytes == 524_288
    one = logged_in(one)
    assert one.caller == Caller(Principal("User", "ann"), "10.0.0.1", "SASL_PLAINTEXT")
    assert one.is_complete
    assert one.max_frame_bytes is None
    one.admit(ApiKey.PRODUCE, 1e9)


def test_only_api_versions_and_handshake_are_admitted_before_authentication() -> None:
    """All possible API keys are checked."""
    admitted = set()
    one = authentication()
    for key in range(-(1 << 15), 1 << 15):
        try:
            one.admit(key, 0.0)
        except NotAdmitted:
            continue
        admitted.add(key)
    assert admitted == {ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE}


def test_api_versions_is_allowed_once_before_the_handshake() -> None:
    one = authentication()
    one.versions_sent()
    with pytest.raises(NotAdmitted, match="ApiVersions before authentication"):
        one.admit(ApiKey.API_VERSIONS, 0.0)
    one.admit(ApiKey.SASL_HANDSHAKE, 0.0)
    one.handshake("PLAIN", 1)
    for key in (ApiKey.API_VERSIONS, ApiKey.METADATA):
        with pytest.raises(NotAdmitted):
            one.admit(key, 0.0)
    one.authenticate(b"\0ann\0ann-secret", 0.0)
    one.versions_sent()
    assert one.is_complete


def test_second_handshake_before_authentication_fails() -> None:
    one = authentication()
    one.handshake("PLAIN", 1)
    one.admit(ApiKey.SASL_HANDSHAKE, 0.0)
    response = one.handshake("PLAIN", 1)
    assert (response.error_code, response.mechanisms) == (NO_STATE, ())
    assert one.has_failed


def test_renewal_with_an_unknown_mechanism_gets_no_response() -> None:
    one = logged_in(authentication(max_reauth_ms=10_000))
    one.admit(ApiKey.SASL_HANDSHAKE, 5.0)
    assert not one.handshake("GSSAPI", 1).is_sent


def test_handshake_with_a_disabled_mechanism_fails() -> None:
    one = authentication(enabled=("PLAIN",))
    response = one.handshake("OAUTHBEARER", 1)
    assert (response.error_code, response.mechanisms) == (UnsupportedSaslMechanism.code, ("PLAIN",))
    assert one.has_failed
    for key in (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE, ApiKey.API_VERSIONS):
        with pytest.raises(NotAdmitted):
            one.admit(key, 0.0)


def test_failed_authentication_ends_the_exchange() -> None:
    one = authentication()
    one.handshake("PLAIN", 1)
    response = one.authenticate(b"\0ann\0wrong", 0.0)
    assert (response.error_code, response.message) == (
        REFUSED,
        "Authentication failed: Invalid username or password",
    )
    assert one.has_failed
    assert one.caller.principal == ANONYMOUS
    assert one.authenticate(b"\0ann\0ann-secret", 0.0).error_code == NO_STATE


def test_detailed_reasons_of_failed_logins_are_not_sent() -> None:
    one = authentication()
    one.handshake("PLAIN", 1)
    assert one.authenticate(b"\0\xff\0", 0.0).message == (
        "Authentication failed during authentication due to invalid credentials with SASL mechanism PLAIN"
    )


def test_handshake_version_0_is_followed_by_raw_tokens() -> None:
    one = authentication()
    one.handshake("PLAIN", 0)
    assert one.takes_raw_token
    assert one.authenticate(b"\0ann\0ann-secret", 0.0).error_code == 0
    assert not one.takes_raw_token


def test_handshake_in_a_session_without_an_end_is_an_illegal_state() -> None:
    one = logged_in(authentication())
    one.admit(ApiKey.SASL_HANDSHAKE, 5.0)
    assert one.handshake("PLAIN", 1).error_code == NO_STATE
    assert one.authenticate(b"\0bob\0bob-secret", 5.0).error_code == NO_STATE
    assert one.is_complete
    assert one.caller.principal.name == "ann"


def test_session_expires_after_max_reauth_ms_and_can_be_renewed() -> None:
    one = authentication(max_reauth_ms=10_000)
    one.admit(ApiKey.SASL_HANDSHAKE, 100.0)
    one.handshake("PLAIN", 1)
    assert one.authenticate(b"\0ann\0ann-secret", 100.0).session_lifetime_ms == 10_000
    one.admit(ApiKey.PRODUCE, 110.0)
    logged_in(one, 109.0)
    one.admit(ApiKey.PRODUCE, 119.0)
    with pytest.raises(NotAdmitted, match="the session of User:ann has expired"):
        one.admit(ApiKey.PRODUCE, 119.001)
    logged_in(one, 130.0)  # late, but a handshake is always admitted
    one.admit(ApiKey.PRODUCE, 140.0)


def test_session_expires_with_its_oauth_token() -> None:
    one = authentication(max_reauth_ms=3_600_000)
    one.handshake("OAUTHBEARER", 1)
    token = make_token("ann", WALL_MS / 1000, lifetime=30)
    response = one.authenticate(f"n,,\x01auth=Bearer {token}\x01\x01".encode(), 50.0)
    assert (response.error_code, response.session_lifetime_ms, one.session_ends_at) == (0, 30_000, 80.0)


def test_renewal_as_another_principal_is_rejected() -> None:
    one = logged_in(authentication(max_reauth_ms=10_000))
    one.admit(ApiKey.SASL_HANDSHAKE, 5.0)
    one.handshake("PLAIN", 1)
    response = one.authenticate(b"\0bob\0bob-secret", 5.0)
    assert response.error_code == REFUSED
    assert response.message == "Cannot change principals during re-authentication from User.ann: User.bob"
    assert one.has_failed


def test_renewal_by_another_mechanism_is_rejected() -> None:
    one = logged_in(authentication(max_reauth_ms=10_000))
    one.admit(ApiKey.SASL_HANDSHAKE, 5.0)
    assert one.handshake("OAUTHBEARER", 1).error_code == 0
    assert one.state is SaslState.OTHER_MECHANISM
    for key in (ApiKey.SASL_AUTHENTICATE, ApiKey.PRODUCE, ApiKey.SASL_HANDSHAKE):
        with pytest.raises(NotAdmitted):
            one.admit(key, 5.0)


def test_wrong_password_at_renewal_names_re_authentication() -> None:
    one = logged_in(authentication(max_reauth_ms=10_000))
    one.admit(ApiKey.SASL_HANDSHAKE, 5.0)
    one.handshake("PLAIN", 1)
    assert "during re-authentication" in (one.authenticate(b"\0\xff\0", 5.0).message or "")


def test_session_can_be_renewed_at_most_once_a_second() -> None:
    one = logged_in(authentication(max_reauth_ms=10_000))
    logged_in(one, 5.0)
    one.admit(ApiKey.SASL_HANDSHAKE, 5.9)
    assert one.handshake("PLAIN", 1).error_code == NO_STATE
    logged_in(one, 6.0)


def test_session_expired_by_a_control_can_be_renewed() -> None:
    one = logged_in(authentication())
    one.expire(5.0)
    with pytest.raises(NotAdmitted):
        one.admit(ApiKey.PRODUCE, 5.1)
    logged_in(one, 5.2)
    one.admit(ApiKey.PRODUCE, 1e9)  # without an end again


def test_repr_of_authentication_has_no_token() -> None:
    one = authentication()
    one.handshake("PLAIN", 1)
    response = one.authenticate(b"\0ann\0ann-secret", 0.0)
    assert "secret" not in f"{one!r} {response!r}"


@pytest.mark.parametrize("begun", [0, 1, 2], ids=["at first", "with a mechanism", "logged in"])
def test_login_refused_by_a_rule_admits_no_request(begun: int) -> None:
    one = authentication()
    if begun == 1:
        one.handshake("PLAIN", 1)
    elif begun == 2:
        one = logged_in(one)
    one.refuse()
    one.refuse()
    for key in API_KEYS:
        with pytest.raises(NotAdmitted):
            one.admit(key, 0.0)
    assert one.authenticate(b"\0ann\0ann-secret", 0.0).error_code == NO_STATE
