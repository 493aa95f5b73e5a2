"""SCRAM users by the admin client: set, described, taken away, refused; what is set lets its user log in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pykafka2 import (
    KafkaAdminClient,
    KafkaProducer,
    ScramCredentialInfo,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
    errors,
)
from pykafka2.admin.outcomes import ItemsFailed
from pykafka2.protocol.messages.users import AlterUserScramCredentialsRequest
from pykafka2.testing import STANDARD_AUTHORIZER, KafkaCluster, Listener, Simulation

CANARY = "canary-of-a-password"
ANN = UserScramCredentialUpsertion("ann", CANARY, "SCRAM-SHA-256", 4096)
BOB = UserScramCredentialUpsertion("bob", CANARY, iterations=4097)
LISTENERS = {"PLAINTEXT": None, "SASL_PLAINTEXT": Listener(mechanisms=["SCRAM-SHA-256", "SCRAM-SHA-512"])}


@pytest.fixture
def cluster(simulation: Simulation) -> KafkaCluster:
    return simulation.cluster(brokers=3, topics=["orders"], listeners=LISTENERS)


@pytest.fixture
def admin(simulation: Simulation, cluster: KafkaCluster) -> Iterator[KafkaAdminClient]:
    servers = cluster.bootstrap_servers
    with KafkaAdminClient(bootstrap_servers=servers, runtime=simulation.runtime.at("admin")) as admin:
        yield admin


def log_in(simulation: Simulation, cluster: KafkaCluster, user: str, password: str, mechanism: str) -> None:
    options: dict[str, Any] = {
        "bootstrap_servers": cluster.bootstrap_servers_of("SASL_PLAINTEXT"),
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_username": user,
        "sasl_password": password,
    }
    with KafkaProducer(**options, runtime=simulation.runtime.at(user)) as producer:
        producer.send("orders", b"v").result(10)


def test_users_are_set_described_and_taken_away(admin: KafkaAdminClient, cluster: KafkaCluster) -> None:
    assert admin.describe_scram_users() == {}
    assert list(admin.alter_user_scram_credentials([ANN, BOB])) == ["ann", "bob"]
    admin.upsert_scram_user("ann", "another", mechanism="SCRAM-SHA-512", iterations=5000)
    described = admin.describe_user_scram_credentials()
    assert dict(described) == {
        "ann": (ScramCredentialInfo("SCRAM-SHA-256", 4096), ScramCredentialInfo("SCRAM-SHA-512", 5000)),
        "bob": (ScramCredentialInfo("SCRAM-SHA-512", 4097),),
    }
    assert list(admin.describe_user_scram_credentials(["bob", "bob"])) == ["bob"]
    admin.alter_user_scram_credentials([UserScramCredentialDeletion("ann", "SCRAM-SHA-256"), BOB])
    admin.delete_scram_user("bob")
    assert admin.describe_scram_users(["ann", "bob"]) == {"ann": {"SCRAM-SHA-512": 5000}, "bob": {}}
    before = cluster.history.count("AlterUserScramCredentials")
    assert (
        dict(admin.alter_user_scram_credentials([])) == dict(admin.describe_user_scram_credentials([])) == {}
    )
    assert cluster.history.count("AlterUserScramCredentials") == before


@pytest.mark.gate
def test_user_logs_in_with_the_newest_password_only(
    simulation: Simulation, admin: KafkaAdminClient, cluster: KafkaCluster
) -> None:
    admin.alter_user_scram_credentials([ANN, BOB])
    log_in(simulation, cluster, "ann", CANARY, "SCRAM-SHA-256")
    log_in(simulation, cluster, "bob", CANARY, "SCRAM-SHA-512")
    with pytest.raises(errors.SaslAuthenticationFailed):
        log_in(simulation, cluster, "ann", CANARY, "SCRAM-SHA-512")
    admin.upsert_scram_user("ann", "new,=\N{SNOWMAN}", mechanism="SCRAM-SHA-256", iterations=4096)
    with pytest.raises(errors.SaslAuthenticationFailed):
        log_in(simulation, cluster, "ann", CANARY, "SCRAM-SHA-256")
    log_in(simulation, cluster, "ann", "new,=\N{SNOWMAN}", "SCRAM-SHA-256")
    admin.delete_scram_user("ann", mechanism="SCRAM-SHA-256")
    with pytest.raises(errors.SaslAuthenticationFailed):
        log_in(simulation, cluster, "ann", "new,=\N{SNOWMAN}", "SCRAM-SHA-256")


def test_a_salt_of_ones_own_is_kept_and_others_are_random(
    admin: KafkaAdminClient, cluster: KafkaCluster
) -> None:
    own = UserScramCredentialUpsertion("own", "x", "SCRAM-SHA-256", 4096, salt=b"0123456789")
    admin.alter_user_scram_credentials([own, ANN, BOB])
    (request,) = cluster.history.requests("AlterUserScramCredentials")
    salts = {one.name: bytes(one.salt) for one in request.upsertions}
    assert salts["own"] == b"0123456789"
    assert len(salts["ann"]) == len(salts["bob"]) == 24
    assert salts["ann"] != salts["bob"]


def test_rejected_users_are_named_and_the_others_altered(admin: KafkaAdminClient) -> None:
    many = UserScramCredentialUpsertion("many", CANARY, "SCRAM-SHA-256", 16_385)
    nobody = UserScramCredentialDeletion("nobody")
    with pytest.raises(ItemsFailed, match="Too many iterations") as failed:
        admin.alter_user_scram_credentials([ANN, many, nobody])
    outcomes = failed.value.outcomes
    assert isinstance(outcomes.errors["many"], errors.UnacceptableCredential)
    assert isinstance(outcomes.errors["nobody"], errors.ResourceNotFound)
    assert list(admin.describe_user_scram_credentials()) == ["ann"]
    with pytest.raises(errors.ResourceNotFound):
        admin.delete_scram_user("nobody")
    with pytest.raises(errors.UnacceptableCredential):
        admin.upsert_scram_user("many", CANARY, iterations=20_000)
    with pytest.raises(ItemsFailed, match="nobody"):
        admin.describe_user_scram_credentials(["ann", "nobody"])
    outcomes = admin.describe_user_scram_credentials(["nobody"], raise_errors=False)
    assert isinstance(outcomes.errors["nobody"], errors.ResourceNotFound)


@pytest.mark.parametrize("error", [errors.NotController, errors.RequestTimedOut])
def test_scram_change_is_repeated_if_the_controller_did_not_make_it(
    admin: KafkaAdminClient, cluster: KafkaCluster, error: type[errors.BrokerError]
) -> None:
    """Brokers with ZooKeeper, or without a controller, reject all users of a request."""
    result = {"user": "ann", "error_code": error.code}
    cluster.controls.rule(
        api="AlterUserScramCredentials", then="replace_reply", times=1, reply={"results": [result]}
    )
    assert list(admin.alter_user_scram_credentials([ANN])) == ["ann"]
    assert cluster.history.count(AlterUserScramCredentialsRequest) == 2


@pytest.mark.parametrize(
    ("alterations", "words"),
    [
        ([ANN, UserScramCredentialDeletion("ann")], "user='ann' occurs twice"),
        ([UserScramCredentialDeletion("")], "user='' must be a str that is not empty"),
        (
            [UserScramCredentialDeletion("ann", "PLAIN")],
            "mechanism='PLAIN' is not valid; use one of SCRAM-SHA-256, SCR",
        ),
        ([UserScramCredentialUpsertion("ann", "")], "password of user 'ann' must be a str"),
        ([UserScramCredentialUpsertion("ann", b"x")], "password of user 'ann' must be a str"),  # type: ignore[arg-type]
        ([UserScramCredentialUpsertion("ann", "hush\udc80")], "password of user 'ann' must be valid Unicode"),
        ([UserScramCredentialUpsertion("ann", "x", salt="hush")], "salt of user 'ann' must be bytes"),  # type: ignore[arg-type]
        ([UserScramCredentialUpsertion("ann", "x", salt=b"")], "salt of user 'ann' must be bytes"),
        ([UserScramCredentialUpsertion("ann", "x", iterations=4095)], "iterations=4095 must be .* 4096 to"),
        ([UserScramCredentialUpsertion("ann", "x", iterations=10**9)], "iterations=1000000000"),
        (["ann"], "alterations must contain .*not str"),
    ],
)
def test_invalid_scram_change_is_rejected_before_any_request(
    admin: KafkaAdminClient, cluster: KafkaCluster, alterations: list[Any], words: str
) -> None:
    with pytest.raises(errors.IllegalArgument, match=words) as refused:
        admin.alter_user_scram_credentials(alterations)
    assert "hush" not in repr(refused.value)
    with pytest.raises(errors.IllegalArgument, match="users='ann' must be a list"):
        admin.describe_user_scram_credentials("ann")
    cluster.history.never("AlterUserScramCredentials")
    cluster.history.never("DescribeUserScramCredentials")


def test_unauthorized_scram_requests_raise_cluster_authorization_failed(simulation: Simulation) -> None:
    cluster = simulation.cluster(brokers=1, config={"authorizer.class.name": STANDARD_AUTHORIZER})
    servers = cluster.bootstrap_servers
    with KafkaAdminClient(bootstrap_servers=servers, runtime=simulation.runtime.at("admin")) as admin:
        with pytest.raises(errors.ClusterAuthorizationFailed):
            admin.describe_user_scram_credentials()
        with pytest.raises(errors.ClusterAuthorizationFailed):
            admin.describe_scram_users(["ann"])
        outcomes = admin.alter_user_scram_credentials([ANN], raise_errors=False)
        assert isinstance(outcomes.errors["ann"], errors.ClusterAuthorizationFailed)


def test_passwords_and_salts_are_in_no_text(
    admin: KafkaAdminClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    salted = UserScramCredentialUpsertion("ann", CANARY, iterations=20_000, salt=CANARY.encode())
    with pytest.raises(ItemsFailed) as failed:
        admin.alter_user_scram_credentials([salted])
    for text in (repr(salted), repr(ANN), str(failed.value), repr(failed.value.outcomes), caplog.text):
        assert CANARY not in text
    assert "[hidden]" in repr(salted)


def test_every_mechanism_of_every_user_is_described(admin: KafkaAdminClient) -> None:
    both = {"SCRAM-SHA-256": 4096, "SCRAM-SHA-512": 5000}
    for mechanism, iterations in both.items():
        for user in ("ann", "bob"):
            admin.upsert_scram_user(user, CANARY, mechanism=mechanism, iterations=iterations)
    nobody = ["nobody-1", "nobody-2"]
    assert admin.describe_scram_users() == {"ann": both, "bob": both}
    assert admin.describe_scram_users(["ann", *nobody, "bob"]) == {
        "ann": both,
        "bob": both,
        "nobody-1": {},
        "nobody-2": {},
    }


def test_an_argument_that_follows_a_deletion_is_checked_too(admin: KafkaAdminClient) -> None:
    admin.alter_user_scram_credentials([ANN])
    wrong = UserScramCredentialUpsertion("bob", "", "SCRAM-SHA-256", 4096)
    with pytest.raises(errors.IllegalArgument, match="password of user 'bob'"):
        admin.alter_user_scram_credentials([UserScramCredentialDeletion("ann", "SCRAM-SHA-256"), wrong])
    assert list(admin.describe_scram_users()) == ["ann"]
