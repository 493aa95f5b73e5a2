"""The handshake script, driven by hand with `send`."""

from __future__ import annotations

from typing import Any

import pytest

import pykafka2
from pykafka2.errors import (
    IllegalSaslState,
    KafkaError,
    MisroutedConnection,
    RebootstrapRequired,
    SaslAuthenticationFailed,
    UnknownErrorCode,
    UnknownServerError,
    UnsupportedSaslMechanism,
    UnsupportedVersion,
)
from pykafka2.network.api_versions import ApiVersions
from pykafka2.network.handshake import ExpectedBroker, authenticate, handshake
from pykafka2.network.sasl.mechanism import Exchange
from pykafka2.network.script import Call, Script
from pykafka2.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from pykafka2.protocol.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from tests.network.wire import api_versions_response


class ThreeTokens:
    """A mechanism of three tokens that checks the challenges."""

    name = "THREE-TOKENS"
    to_check = "check the secret"

    def exchange(self) -> Exchange:
        for token, expected in ((b"one", b"one?"), (b"two", b"two?"), (b"three", b"fine")):
            if (yield token) != expected:
                raise SaslAuthenticationFailed("the broker does not know the secret")


def advance(script: Script[Any], response: Any) -> Call:
    step = script.send(response)
    assert isinstance(step, Call)
    return step


def finish(script: Script[Any], response: Any) -> Any:
    with pytest.raises(StopIteration) as done:
        script.send(response)
    return done.value.value


def test_api_versions_request_has_our_name_and_version() -> None:
    step = advance(handshake("node 1"), None)
    expected = ApiVersionsRequest(
        client_software_name="pykafka2", client_software_version=pykafka2.__version__
    )
    assert step.request == expected


def test_without_sasl_api_versions_is_all() -> None:
    script = handshake("node 1")
    step = advance(script, None)
    assert isinstance(step.request, ApiVersionsRequest)
    agreement = finish(script, api_versions_response({0: (3, 9)}))
    assert agreement.versions.ranges[0] == (3, 9)
    assert agreement.session_lifetime_ms == 0


def test_sasl_tokens_follow_api_versions_one_by_one() -> None:
    script = handshake("node 1", ThreeTokens())
    advance(script, None)
    step = advance(script, api_versions_response())
    assert step == Call(SaslHandshakeRequest(mechanism="THREE-TOKENS"), 1)
    step = advance(script, SaslHandshakeResponse(mechanisms=["THREE-TOKENS"]))
    assert step == Call(SaslAuthenticateRequest(auth_bytes=b"one"), 2)
    step = advance(script, SaslAuthenticateResponse(auth_bytes=b"one?"))
    assert step.request == SaslAuthenticateRequest(auth_bytes=b"two")
    step = advance(script, SaslAuthenticateResponse(auth_bytes=b"two?"))
    assert step.request == SaslAuthenticateRequest(auth_bytes=b"three")
    agreement = finish(script, SaslAuthenticateResponse(auth_bytes=b"fine"))
    assert isinstance(agreement.versions, ApiVersions)


def test_a_mechanism_that_the_broker_lacks_is_named_with_those_it_has() -> None:
    script = handshake("node 1", ThreeTokens())
    advance(script, None)
    advance(script, api_versions_response())
    with pytest.raises(UnsupportedSaslMechanism, match=r"THREE-TOKENS; it offers PLAIN, SCRAM-SHA-256"):
        script.send(SaslHandshakeResponse(error_code=33, mechanisms=["PLAIN", "SCRAM-SHA-256"]))


@pytest.mark.parametrize(
    ("offered", "cause"),
    [
        (["PLAIN", "THREE-TOKENS"], "rejected sasl_mechanism=THREE-TOKENS although it offers it"),
        (["THREE-TOKENS"], r"listener\.name\.LISTENER\.three-tokens\.sasl\.jaas\.config"),
        (["three-tokens"], "offers 'three-tokens', which is not THREE-TOKENS"),
        (["PLAIN", "THREE-TOKENS "], "offers 'THREE-TOKENS ', which is not THREE-TOKENS"),
    ],
)
def test_rejected_mechanism_that_the_broker_offers_is_not_reported_as_missing(
    offered: list[str], cause: str
) -> None:
    script = handshake("node 1", ThreeTokens())
    advance(script, None)
    advance(script, api_versions_response())
    with pytest.raises(UnsupportedSaslMechanism, match=cause) as caught:
        script.send(SaslHandshakeResponse(error_code=33, mechanisms=offered))
    assert "does not offer" not in str(caught.value)


@pytest.mark.parametrize(
    ("code", "expected"), [(34, IllegalSaslState), (-1, UnknownServerError), (12_345, UnknownErrorCode)]
)
def test_other_handshake_errors_do_not_name_the_mechanism(code: int, expected: type[KafkaError]) -> None:
    """Brokers return error 34 to a client that renews its session twice a second."""
    script = handshake("node 1", ThreeTokens())
    advance(script, None)
    advance(script, api_versions_response())
    with pytest.raises(expected, match="node 1 rejected sasl_mechanism=THREE-TOKENS") as refused:
        script.send(SaslHandshakeResponse(error_code=code, mechanisms=["THREE-TOKENS"]))
    assert "offer" not in str(refused.value)


def test_refused_credentials_are_an_authentication_error_with_the_brokers_words() -> None:
    script = handshake("node 1", ThreeTokens())
    advance(script, None)
    advance(script, api_versions_response())
    advance(script, SaslHandshakeResponse(mechanisms=["THREE-TOKENS"]))
    with pytest.raises(
        SaslAuthenticationFailed,
        match=r"node 1: .*THREE-TOKENS.* rejected .*: wrong password; check the secret",
    ):
        script.send(SaslAuthenticateResponse(error_code=58, error_message="wrong password", auth_bytes=b""))


def test_a_broker_that_does_not_prove_itself_is_refused() -> None:
    script = handshake("node 1", ThreeTokens())
    advance(script, None)
    advance(script, api_versions_response())
    advance(script, SaslHandshakeResponse(mechanisms=["THREE-TOKENS"]))
    with pytest.raises(SaslAuthenticationFailed, match="does not know the secret"):
        script.send(SaslAuthenticateResponse(auth_bytes=b"nonsense"))


def test_the_lifetime_of_the_session_is_the_result_of_authentication() -> None:
    versions = ApiVersions.of("node 1", api_versions_response())
    script = authenticate("node 1", versions, ThreeTokens())
    advance(script, None)
    advance(script, SaslHandshakeResponse(mechanisms=["THREE-TOKENS"]))
    advance(script, SaslAuthenticateResponse(auth_bytes=b"one?"))
    advance(script, SaslAuthenticateResponse(auth_bytes=b"two?"))
    assert finish(script, SaslAuthenticateResponse(auth_bytes=b"fine", session_lifetime_ms=60_000)) == 60_000


def test_a_broker_without_sasl_is_named() -> None:
    versions = ApiVersions("node 1", {18: (0, 3)})
    with pytest.raises(UnsupportedVersion, match="node 1 does not support SaslHandshake"):
        authenticate("node 1", versions, ThreeTokens()).send(None)


EXPECTED = ExpectedBroker("cluster-a", 7)


def test_expected_broker_is_sent_in_api_versions_5() -> None:
    script = handshake("node 7", expected=EXPECTED)
    step = advance(script, None)
    assert step.version == 5
    assert (step.request.cluster_id, step.request.node_id) == ("cluster-a", 7)
    finish(script, api_versions_response({18: (0, 5)}))


def test_broker_without_api_versions_5_checks_nothing() -> None:
    script = handshake("node 7", expected=EXPECTED)
    advance(script, None)
    rejection = api_versions_response({18: (0, 4)})
    rejection.error_code = 35
    assert advance(script, rejection).version == 4
    assert finish(script, api_versions_response({18: (0, 4)})).versions.ranges[18] == (0, 4)


@pytest.mark.parametrize(("highest", "chosen"), [(9, 4), (5, 4), (3, 3), (0, 0), (-1, 0)])
def test_version_after_a_rejection_is_below_the_rejected_one(highest: int, chosen: int) -> None:
    script = handshake("node 7", expected=EXPECTED)
    assert advance(script, None).version == 5
    rejection = api_versions_response({18: (0, highest)})
    rejection.error_code = 35
    assert advance(script, rejection).version == chosen


def test_broker_that_is_another_one_ends_the_handshake_as_misrouted() -> None:
    script = handshake("node 7 (b:9092)", expected=EXPECTED)
    advance(script, None)
    with pytest.raises(MisroutedConnection, match=r"another broker .*, not to node 7 of cluster cluster-a"):
        script.send(ApiVersionsResponse(error_code=129, api_keys=[]))


def test_rebootstrap_code_without_an_expected_broker_keeps_its_class() -> None:
    script = handshake("bootstrap broker b:9092")
    advance(script, None)
    with pytest.raises(RebootstrapRequired):
        script.send(ApiVersionsResponse(error_code=129, api_keys=[]))


@pytest.mark.parametrize("highest", [4, 5])
def test_expected_broker_is_sent_after_sasl_if_the_broker_supports_it(highest: int) -> None:
    """A broker does not check it before authentication."""
    script = handshake("node 7", ThreeTokens(), expected=EXPECTED)
    step = advance(script, None)
    assert (step.version, step.request.cluster_id) == (4, None)
    versions = api_versions_response({17: (0, 1), 36: (0, 2), 18: (0, highest)})
    advance(script, versions)
    for response in (
        SaslHandshakeResponse(mechanisms=["THREE-TOKENS"]),
        SaslAuthenticateResponse(auth_bytes=b"one?"),
        SaslAuthenticateResponse(auth_bytes=b"two?"),
    ):
        step = advance(script, response)
    done = SaslAuthenticateResponse(auth_bytes=b"fine", session_lifetime_ms=60_000)
    if highest < 5:
        assert finish(script, done).session_lifetime_ms == 60_000
        return
    step = advance(script, done)
    assert (step.version, step.request.cluster_id, step.request.node_id) == (5, "cluster-a", 7)
    assert finish(script, versions).session_lifetime_ms == 60_000
