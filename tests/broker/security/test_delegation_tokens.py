"""Delegation tokens (KIP-48): permissions to create, describe, renew and expire them; logins with them."""

from __future__ import annotations

import base64
import hashlib
import time
from collections.abc import Iterator
from typing import Any

import pytest

from pykafka2 import KafkaProducer
from pykafka2.errors import (
    DelegationTokenAuthDisabled,
    DelegationTokenAuthorizationFailed,
    DelegationTokenNotFound,
    DelegationTokenOwnerMismatch,
    DelegationTokenRequestNotAllowed,
    InvalidPrincipalType,
    SaslAuthenticationFailed,
)
from pykafka2.network.sasl.scram import Scram
from pykafka2.network.script import Offload
from pykafka2.protocol.messages.metadata import MetadataRequest
from pykafka2.protocol.messages.sasl import SaslHandshakeRequest
from pykafka2.protocol.messages.tokens import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)
from pykafka2.testing import STANDARD_AUTHORIZER, KafkaCluster
from tests.broker.support.raw_client import RawClient
from tests.broker.support.sasl import USERS, address_of, authenticate, log_in

DAY_MS = 86_400_000
CONFIG = {"delegation.token.secret.key": "canary", "connection.failed.authentication.delay.ms": 1}


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    """All operations on topics are allowed, but not on the tokens of others."""
    listeners = ["SASL_PLAINTEXT", "PLAINTEXT"]
    config = {**CONFIG, "authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:bob"}
    with KafkaCluster(2, {"t": 1}, listeners=listeners, users=USERS, config=config) as cluster:
        cluster.acls.allow("User:*", "ALL", topic="*")
        yield cluster


@pytest.fixture
def ann(cluster: KafkaCluster) -> Iterator[RawClient]:
    with RawClient(address_of(cluster, "SASL_PLAINTEXT")) as wire:
        assert log_in(wire, "ann").error_code == 0
        yield wire


@pytest.fixture
def bob(cluster: KafkaCluster) -> Iterator[RawClient]:
    """A super user, connected to the other broker."""
    with RawClient(address_of(cluster, "SASL_PLAINTEXT", 1)) as wire:
        assert log_in(wire, "bob").error_code == 0
        yield wire


def create(
    wire: RawClient, lifetime_ms: int = -1, *, owner: str = "", renewers: tuple[tuple[str, str], ...] = ()
) -> CreateDelegationTokenResponse:
    return wire.call(
        CreateDelegationTokenRequest(
            owner_principal_type="User" if owner else "",
            owner_principal_name=owner,
            renewers=[CreatableRenewers(principal_type=kind, principal_name=name) for kind, name in renewers],
            max_lifetime_ms=lifetime_ms,
        ),
        3,
    )


def described(wire: RawClient, *owners: str) -> dict[str, Any]:
    names = [DescribeDelegationTokenOwner(principal_type="User", principal_name=one) for one in owners]
    response = wire.call(DescribeDelegationTokenRequest(owners=names if owners else None), 3)
    assert response.error_code == 0
    return {token.token_id: token for token in response.tokens}


def renew(wire: RawClient, token: CreateDelegationTokenResponse, period_ms: int) -> tuple[int, int]:
    response = wire.call(RenewDelegationTokenRequest(hmac=bytes(token.hmac), renew_period_ms=period_ms), 2)
    return response.error_code, response.expiry_timestamp_ms


def expire(wire: RawClient, token: CreateDelegationTokenResponse, period_ms: int) -> tuple[int, int]:
    request = ExpireDelegationTokenRequest(hmac=bytes(token.hmac), expiry_time_period_ms=period_ms)
    response = wire.call(request, 2)
    return response.error_code, response.expiry_timestamp_ms


def password_of(token: CreateDelegationTokenResponse) -> str:
    return base64.b64encode(bytes(token.hmac)).decode()


def test_delegation_token_has_the_configured_lifetimes(ann: RawClient) -> None:
    token = create(ann)
    assert (token.error_code, token.principal_name, token.token_requester_principal_name) == (0, "ann", "ann")
    assert token.max_timestamp_ms - token.issue_timestamp_ms == 7 * DAY_MS
    assert token.expiry_timestamp_ms - token.issue_timestamp_ms == DAY_MS
    assert len(bytes(token.hmac)) == 64
    short = create(ann, 1000)
    assert short.max_timestamp_ms - short.issue_timestamp_ms == 1000
    assert short.expiry_timestamp_ms == short.max_timestamp_ms


def test_owner_logs_in_with_its_delegation_token_on_every_broker(
    cluster: KafkaCluster, ann: RawClient
) -> None:
    token = create(ann)
    options = dict(cluster.options_for("ann", listener="SASL_PLAINTEXT", mechanism="SCRAM-SHA-512"))
    options |= {"sasl_username": token.token_id, "sasl_password": password_of(token)}
    with KafkaProducer(**options, sasl_delegation_token=True, client_id="by-token") as producer:
        producer.send("t", b"x").result(10)
        assert {one.principal for one in cluster.connections("by-token")} == {"User:ann"}
    with (
        KafkaProducer(**{**options, "sasl_password": "wrong"}, sasl_delegation_token=True) as producer,
        pytest.raises(SaslAuthenticationFailed),
    ):
        producer.send("t", b"x")


def log_in_with(wire: RawClient, token: CreateDelegationTokenResponse) -> int:
    """Log in and return the error code."""
    wire.call(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 1)
    steps = Scram("SCRAM-SHA-256", token.token_id, password_of(token), bytes, True).exchange()
    step = next(steps)
    while True:
        while isinstance(step, Offload):
            step = steps.send(step.work())
        response = authenticate(wire, step)
        if response.error_code:
            return response.error_code
        try:
            step = steps.send(bytes(response.auth_bytes))
        except StopIteration:
            return 0


def test_delegation_token_is_hashed_only_at_the_first_login(
    cluster: KafkaCluster, ann: RawClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Creation runs under the cluster's lock, and every authenticated user can request it."""
    hashed: list[str] = []
    hash_it = hashlib.pbkdf2_hmac

    def counted(name: str, *rest: Any) -> bytes:
        hashed.append(name)
        return hash_it(name, *rest)

    monkeypatch.setattr(hashlib, "pbkdf2_hmac", counted)
    token = create(ann)
    assert hashed == []
    for _ in range(2):
        with RawClient(address_of(cluster, "SASL_PLAINTEXT")) as wire:
            assert log_in_with(wire, token) == 0
    assert hashed == ["sha256"] * 3, "once by the broker, once by each client"


def test_session_of_a_delegation_token_ends_with_it_and_cannot_create_another(
    cluster: KafkaCluster, ann: RawClient
) -> None:
    token = create(ann, 60_000)
    with RawClient(address_of(cluster, "SASL_PLAINTEXT")) as wire:
        assert log_in_with(wire, token) == 0
        assert wire.call(MetadataRequest(topics=[]), 12).brokers
        assert create(wire).error_code == DelegationTokenRequestNotAllowed.code
        (entry,) = cluster.history.entries("SaslAuthenticate")[-1:]
        assert 0 < entry.response.session_lifetime_ms <= 60_000


def test_expired_delegation_token_is_rejected(cluster: KafkaCluster, ann: RawClient) -> None:
    token = create(ann, 1)
    time.sleep(0.005)
    with RawClient(address_of(cluster, "SASL_PLAINTEXT")) as wire:
        assert log_in_with(wire, token) == SaslAuthenticationFailed.code


def test_delegation_token_requests_over_plaintext_are_rejected(cluster: KafkaCluster) -> None:
    with RawClient(address_of(cluster, "PLAINTEXT")) as wire:
        token = create(wire)
        refused = DelegationTokenRequestNotAllowed.code
        assert (token.error_code, token.issue_timestamp_ms, token.token_id) == (refused, -1, "")
        assert renew(wire, token, 1) == (refused, -1)
        assert expire(wire, token, 1) == (refused, -1)
        response = wire.call(DescribeDelegationTokenRequest(owners=None), 3)
        assert (response.error_code, response.tokens) == (refused, [])


def test_owners_and_renewers_describe_and_renew_a_delegation_token(
    ann: RawClient, bob: RawClient, cluster: KafkaCluster
) -> None:
    mine = create(ann, renewers=(("User", "bob"),))
    theirs = create(bob)
    assert mine.token_id in described(ann)
    assert theirs.token_id not in described(ann)
    assert {mine.token_id, theirs.token_id} <= described(bob).keys()
    assert theirs.token_id not in described(bob, "ann")
    assert mine.token_id in described(bob, "bob"), "also for a renewer"
    code, at = renew(bob, mine, 5000)
    assert code == 0
    cluster.wait_until(lambda: described(ann)[mine.token_id].expiry_timestamp == at)
    assert renew(ann, mine, -1)[1] > at
    assert renew(ann, theirs, 1)[0] == DelegationTokenOwnerMismatch.code
    assert expire(ann, theirs, -1)[0] == DelegationTokenOwnerMismatch.code


def test_expired_token_is_removed(cluster: KafkaCluster, ann: RawClient) -> None:
    token = create(ann)
    assert expire(ann, token, -1) == (0, -1)
    cluster.wait_until(lambda: token.token_id not in described(ann))
    assert renew(ann, token, 1)[0] == DelegationTokenNotFound.code
    with RawClient(address_of(cluster, "SASL_PLAINTEXT")) as wire:
        assert log_in_with(wire, token) == SaslAuthenticationFailed.code


def test_expired_tokens_release_their_memory() -> None:
    """Otherwise a user could fill the metadata with tokens."""
    config = {**CONFIG, "delegation.token.expiry.check.interval.ms": 20}
    with (
        KafkaCluster(1, listeners=["SASL_PLAINTEXT"], users=USERS, config=config) as cluster,
        RawClient(address_of(cluster, "SASL_PLAINTEXT")) as wire,
    ):
        assert log_in(wire, "ann").error_code == 0
        lasting = create(wire)
        short = create(wire, 1)
        assert short.token_id in described(wire)
        time.sleep(0.05)
        newest = create(wire)
        cluster.wait_until(lambda: newest.token_id in described(wire))
        assert set(described(wire)) == {lasting.token_id, newest.token_id}


def test_delegation_token_for_another_owner_requires_a_super_user(ann: RawClient, bob: RawClient) -> None:
    assert create(ann, owner="bob").error_code == DelegationTokenAuthorizationFailed.code
    token = create(bob, owner="ann")
    assert (token.error_code, token.principal_name, token.token_requester_principal_name) == (0, "ann", "bob")


def test_renewer_that_is_not_a_user_is_rejected(ann: RawClient) -> None:
    assert create(ann, renewers=(("Group", "x"),)).error_code == InvalidPrincipalType.code


@pytest.mark.parametrize("version", [1, 2, 3])
def test_every_version_of_the_delegation_token_requests_succeeds(ann: RawClient, version: int) -> None:
    owner = {"owner_principal_type": "", "owner_principal_name": ""} if version == 3 else {}
    token = ann.call(CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=-1, **owner), version)
    assert token.error_code == 0
    response = ann.call(DescribeDelegationTokenRequest(owners=None), version)
    assert token.token_id in {one.token_id for one in response.tokens}


def test_delegation_tokens_are_disabled_without_a_secret_key() -> None:
    with (
        KafkaCluster(1, listeners=["SASL_PLAINTEXT"], users=USERS) as cluster,
        RawClient(address_of(cluster, "SASL_PLAINTEXT")) as wire,
    ):
        log_in(wire)
        assert create(wire).error_code == DelegationTokenAuthDisabled.code
        response = wire.call(DescribeDelegationTokenRequest(owners=None), 3)
        assert response.error_code == DelegationTokenAuthDisabled.code


def test_history_timeline_and_metadata_show_no_hmac_of_a_delegation_token(
    cluster: KafkaCluster, ann: RawClient
) -> None:
    token = create(ann)
    (entry,) = cluster.history.entries("CreateDelegationToken")[-1:]
    shown = f"{entry!r} {cluster.timeline()} {cluster.broker(0).image.tokens}"
    assert repr(bytes(token.hmac))[2:20] not in shown
    assert "canary" not in shown
