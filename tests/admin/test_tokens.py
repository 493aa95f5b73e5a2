"""Delegation tokens by the admin client: made, renewed, ended, described; one lets its owner log in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pykafka2 import AclBinding, DelegationToken, KafkaAdminClient, KafkaProducer, errors
from pykafka2.testing import STANDARD_AUTHORIZER, KafkaCluster, Simulation

HOUR_MS = 3_600_000
USERS = {"ann": "ann-secret", "bob": "bob-secret"}
Admin = Callable[[str], KafkaAdminClient]


@pytest.fixture
def cluster(simulation: Simulation) -> KafkaCluster:
    config = {
        "delegation.token.secret.key": "key",
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": "User:bob",
    }
    cluster = simulation.cluster(
        brokers=3, topics=["orders"], listeners=["SASL_PLAINTEXT", "PLAINTEXT"], users=USERS, config=config
    )
    cluster.acls.allow("User:ann", "WRITE", topic="orders")
    return cluster


@pytest.fixture
def admin_of(simulation: Simulation, cluster: KafkaCluster) -> Iterator[Admin]:
    """The admin client of a user; of "" one that has not authenticated."""
    made: list[KafkaAdminClient] = []

    def admin_of(user: str) -> KafkaAdminClient:
        options: Any = (
            cluster.options_for(user)
            if user
            else {"bootstrap_servers": cluster.bootstrap_servers_of("PLAINTEXT")}
        )
        made.append(KafkaAdminClient(**options, runtime=simulation.runtime.at(f"admin-{len(made)}")))
        return made[-1]

    yield admin_of
    for admin in made:
        admin.close()


def test_delegation_token_authenticates_its_owner_until_it_expires(
    simulation: Simulation, cluster: KafkaCluster, admin_of: Admin
) -> None:
    ann = admin_of("ann")
    token = ann.create_delegation_token(renewers=["User:bob"], max_lifetime=3600)
    assert (token.owner, token.requester, token.renewers) == ("User:ann", "User:ann", ("User:bob",))
    assert token.expiry_time_ms == token.max_time_ms == token.issue_time_ms + HOUR_MS
    options: dict[str, Any] = dict(cluster.options_for("ann", mechanism="SCRAM-SHA-512"))
    options |= {"sasl_username": token.token_id, "sasl_password": token.password}
    with KafkaProducer(
        **options, sasl_delegation_token=True, runtime=simulation.runtime.at("by-token")
    ) as producer:
        producer.send("orders", b"v").result(10)
    assert ann.describe_delegation_tokens() == [token]
    assert ann.expire_delegation_token(token.hmac) is None
    assert ann.describe_delegation_tokens() == []
    with (
        KafkaProducer(
            **options, sasl_delegation_token=True, runtime=simulation.runtime.at("too-late")
        ) as producer,
        pytest.raises(errors.SaslAuthenticationFailed),
    ):
        producer.send("orders", b"v").result(10)


def test_token_expiry_is_changed_only_by_its_owner_and_renewers(admin_of: Admin) -> None:
    ann, bob = admin_of("ann"), admin_of("bob")
    token = ann.create_delegation_token(renewers=["User:bob"])
    soon = bob.expire_delegation_token(token.hmac, after=60)
    assert soon is not None
    assert token.issue_time_ms + 60_000 <= soon < token.expiry_time_ms
    later = bob.renew_delegation_token(token.hmac, period=7200)
    assert later > soon
    assert ann.renew_delegation_token(token.hmac) > later
    own = ann.create_delegation_token()
    with pytest.raises(errors.DelegationTokenOwnerMismatch):
        bob.renew_delegation_token(own.hmac)
    with pytest.raises(errors.DelegationTokenNotFound):
        ann.renew_delegation_token(b"of none")


def test_for_another_it_takes_a_right(admin_of: Admin) -> None:
    ann, bob = admin_of("ann"), admin_of("bob")
    token = bob.create_delegation_token(owner="User:ann")
    assert (token.owner, token.requester) == ("User:ann", "User:bob")
    with pytest.raises(errors.DelegationTokenAuthorizationFailed):
        ann.create_delegation_token(owner="User:bob")
    own = bob.create_delegation_token()
    assert ann.describe_delegation_tokens() == [token]
    assert {one.token_id for one in bob.describe_delegation_tokens()} == {token.token_id, own.token_id}
    assert set(bob.describe_delegation_tokens(["User:bob"])) == {token, own}
    assert bob.describe_delegation_tokens(["User:ann"]) == [token]
    assert bob.describe_delegation_tokens([]) == []


def test_requester_of_a_token_sees_it_but_may_not_renew_it(admin_of: Admin) -> None:
    """KIP-373: in Kafka's TokenInformation the requester may see the token, but has no other rights."""
    ann, bob = admin_of("ann"), admin_of("bob")
    bob.create_acls([AclBinding("USER", "User:bob", "LITERAL", "User:ann", "*", "CREATE_TOKENS", "ALLOW")])
    token = ann.create_delegation_token(owner="User:bob")
    assert ann.describe_delegation_tokens() == [token]
    assert ann.describe_delegation_tokens(["User:ann"]) == [token]
    with pytest.raises(errors.DelegationTokenOwnerMismatch):
        ann.renew_delegation_token(token.hmac)


def test_unauthenticated_user_cannot_use_delegation_tokens(simulation: Simulation, admin_of: Admin) -> None:
    nobody = admin_of("")
    calls: list[Callable[[], object]] = [
        nobody.create_delegation_token,
        nobody.describe_delegation_tokens,
        lambda: nobody.renew_delegation_token(b"h"),
        lambda: nobody.expire_delegation_token(b"h"),
    ]
    for call in calls:
        with pytest.raises(errors.DelegationTokenRequestNotAllowed):
            call()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda admin: admin.create_delegation_token(owner="ann"),
            "owner: 'ann' is not a principal; write it as",
        ),
        (
            lambda admin: admin.create_delegation_token(renewers=["User:"]),
            "renewers: 'User:' is not a principal",
        ),
        (
            lambda admin: admin.create_delegation_token(renewers="User:ann"),
            "renewers='User:ann' must be a list",
        ),
        (lambda admin: admin.create_delegation_token(max_lifetime=0), "max_lifetime=0 must be a positive"),
        (lambda admin: admin.renew_delegation_token("abc"), "hmac must be the bytes of .* not a str"),
        (lambda admin: admin.renew_delegation_token(b"h", period=float("nan")), "period=nan must be a posit"),
        (lambda admin: admin.expire_delegation_token(b"h", after=-1), "after=-1 must be a positive"),
        (lambda admin: admin.describe_delegation_tokens([1]), "owners must contain strings, not 1"),
    ],
)
def test_wrong_arguments_are_named_before_anything_is_sent(
    cluster: KafkaCluster, admin_of: Admin, call: Callable[[Any], object], words: str
) -> None:
    with pytest.raises(errors.IllegalArgument, match=words):
        call(admin_of("ann"))
    assert not cluster.history.requests()


def test_token_secret_is_in_no_text(admin_of: Admin, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    token = admin_of("ann").create_delegation_token()
    assert isinstance(token, DelegationToken)
    assert "hmac='[hidden]'" in repr(token)
    for secret in (token.password, repr(token.hmac), token.hmac.hex()):
        assert secret not in repr(token) + caplog.text


def test_every_renewer_of_every_token_is_described(admin_of: Admin) -> None:
    ann, bob = admin_of("ann"), admin_of("bob")
    renewers = ["User:bob", "User:eve"]
    tokens = [ann.create_delegation_token(renewers=renewers) for _ in range(2)]
    tokens.append(bob.create_delegation_token())
    for token in tokens[:2]:
        assert token.renewers == tuple(renewers)
    described = bob.describe_delegation_tokens()
    assert {one.token_id: set(one.renewers) for one in described} == {
        tokens[0].token_id: set(renewers),
        tokens[1].token_id: set(renewers),
        tokens[2].token_id: set(),
    }
    owned = bob.describe_delegation_tokens(["User:nobody", "User:ann"])
    assert {one.token_id for one in owned} >= {one.token_id for one in tokens[:2]}
