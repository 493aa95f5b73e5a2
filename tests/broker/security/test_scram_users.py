"""SCRAM users over the protocol: DescribeUserScramCredentials and AlterUserScramCredentials (KIP-554)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

import pytest
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from confluent_kafka.admin import ScramMechanism as TheirMechanism

from pykafka2.errors import (
    DuplicateResource,
    ResourceNotFound,
    SaslAuthenticationFailed,
    UnacceptableCredential,
    UnsupportedSaslMechanism,
)
from pykafka2.protocol.messages.users import (
    AlterUserScramCredentialsRequest,
    DescribeUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
    UserName,
)
from pykafka2.testing import KafkaCluster
from tests.broker.support.raw_client import RawClient
from tests.broker.support.sasl import USERS, address_of, log_in

SHA256, SHA512 = 1, 2


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    config = {"connection.failed.authentication.delay.ms": 1}
    listeners = ["PLAINTEXT", "SASL_PLAINTEXT"]
    with KafkaCluster(2, listeners=listeners, users=USERS, config=config) as cluster:
        yield cluster


@pytest.fixture
def admin(cluster: KafkaCluster) -> Iterator[RawClient]:
    """A connection to the broker that is not the controller."""
    with RawClient(cluster.broker(1 - cluster.controller.id).address) as wire:
        yield wire


def upsertion(
    user: str, password: str = "secret", mechanism: int = SHA256, iterations: int = 4096
) -> ScramCredentialUpsertion:
    name = "sha512" if mechanism == SHA512 else "sha256"
    salted = hashlib.pbkdf2_hmac(name, password.encode(), b"salt", iterations) if iterations > 0 else b"x"
    return ScramCredentialUpsertion(
        name=user, mechanism=mechanism, iterations=iterations, salt=b"salt", salted_password=salted
    )


def deletion(user: str, mechanism: int = SHA256) -> ScramCredentialDeletion:
    return ScramCredentialDeletion(name=user, mechanism=mechanism)


def alter(
    wire: RawClient,
    upsertions: Sequence[ScramCredentialUpsertion] = (),
    deletions: Sequence[ScramCredentialDeletion] = (),
) -> dict[str, tuple[int, str | None]]:
    request = AlterUserScramCredentialsRequest(deletions=list(deletions), upsertions=list(upsertions))
    return {one.user: (one.error_code, one.error_message) for one in wire.call(request, 0).results}


def describe(wire: RawClient, *users: str) -> dict[str, object]:
    names = [UserName(name=user) for user in users] if users else None
    response = wire.call(DescribeUserScramCredentialsRequest(users=names), 0)
    assert (response.error_code, response.error_message) == (0, "")
    return {
        one.user: {info.mechanism: info.iterations for info in one.credential_infos} or one.error_code
        for one in response.results
    }


def can_log_in(cluster: KafkaCluster, user: str, password: str, mechanism: str = "SCRAM-SHA-256") -> bool:
    codes = set()
    for broker in range(len(cluster.brokers)):
        with RawClient(address_of(cluster, "SASL_PLAINTEXT", broker)) as wire:
            codes.add(log_in(wire, user, mechanism, password=password).error_code)
    assert len(codes) == 1
    return codes != {SaslAuthenticationFailed.code}


@pytest.mark.gate
def test_scram_users_are_created_changed_and_deleted(cluster: KafkaCluster, admin: RawClient) -> None:
    assert alter(admin, [upsertion("carl"), upsertion("dora", mechanism=SHA512, iterations=8192)]) == {
        "carl": (0, None),
        "dora": (0, None),
    }
    assert describe(admin, "carl", "dora") == {"carl": {SHA256: 4096}, "dora": {SHA512: 8192}}
    assert can_log_in(cluster, "carl", "secret")
    assert can_log_in(cluster, "dora", "secret", "SCRAM-SHA-512")
    assert not can_log_in(cluster, "dora", "secret")
    alter(admin, [upsertion("carl", "another")])
    assert can_log_in(cluster, "carl", "another")
    assert not can_log_in(cluster, "carl", "secret")
    alter(admin, [upsertion("carl", mechanism=SHA512)])
    assert describe(admin, "carl") == {"carl": {SHA256: 4096, SHA512: 4096}}
    assert alter(admin, deletions=[deletion("carl")]) == {"carl": (0, None)}
    assert not can_log_in(cluster, "carl", "another")
    assert can_log_in(cluster, "carl", "secret", "SCRAM-SHA-512")
    alter(admin, deletions=[deletion("carl", SHA512), deletion("dora", SHA512)])
    assert describe(admin, "carl") == {"carl": ResourceNotFound.code}


def test_describe_without_names_returns_all_scram_users(admin: RawClient) -> None:
    assert describe(admin) == {user: {SHA256: 4096, SHA512: 4096} for user in USERS}
    response = admin.call(DescribeUserScramCredentialsRequest(users=[]), 0)
    assert {one.user for one in response.results} == set(USERS)


def test_duplicate_and_unknown_scram_users_get_their_errors(admin: RawClient) -> None:
    names = [UserName(name=user) for user in ("ann", "eve", "ann")]
    results = admin.call(DescribeUserScramCredentialsRequest(users=names), 0).results
    assert {one.user: (one.error_code, one.error_message) for one in results} == {
        "ann": (
            DuplicateResource.code,
            "Cannot describe SCRAM credentials for the same user twice in a single request: ann",
        ),
        "eve": (ResourceNotFound.code, "Attempt to describe a user credential that does not exist: eve"),
    }


TWICE = (DuplicateResource.code, "A user credential cannot be altered twice in the same request")
NOBODY = (ResourceNotFound.code, "Attempt to delete a user credential that does not exist")
NAMELESS = (UnacceptableCredential.code, "Username must not be empty")
UNKNOWN_MECHANISM = (UnsupportedSaslMechanism.code, "Unknown SCRAM mechanism")
TOO_FEW, TOO_MANY = ((UnacceptableCredential.code, f"Too {word} iterations") for word in ("few", "many"))


@pytest.mark.parametrize(
    ("upsertions", "deletions", "expected"),
    [
        ([upsertion("")], [], {"": NAMELESS}),
        *(([upsertion("x", mechanism=one)], [], {"x": UNKNOWN_MECHANISM}) for one in (0, 3, -1)),
        ([upsertion("x", iterations=4095)], [], {"x": TOO_FEW}),
        ([upsertion("x", iterations=-1)], [], {"x": TOO_FEW}),
        ([upsertion("x", iterations=16385)], [], {"x": TOO_MANY}),
        ([upsertion("x"), upsertion("x", mechanism=SHA512)], [], {"x": TWICE}),
        ([upsertion("ann")], [deletion("ann")], {"ann": TWICE}),
        ([upsertion("x")], [deletion("x")], {"x": NOBODY}),
        ([], [deletion("eve")], {"eve": NOBODY}),
        ([], [deletion("ann", 0)], {"ann": UNKNOWN_MECHANISM}),
        ([], [deletion("ann"), deletion("ann", SHA512)], {"ann": TWICE}),
        ([], [deletion("")], {"": NAMELESS}),
    ],
)
def test_invalid_scram_change_changes_nothing(
    admin: RawClient,
    upsertions: list[ScramCredentialUpsertion],
    deletions: list[ScramCredentialDeletion],
    expected: dict[str, tuple[int, str]],
) -> None:
    assert alter(admin, upsertions, deletions) == expected
    assert describe(admin) == {user: {SHA256: 4096, SHA512: 4096} for user in USERS}


def test_valid_scram_changes_of_a_mixed_request_are_applied(cluster: KafkaCluster, admin: RawClient) -> None:
    outcome = alter(admin, [upsertion("good"), upsertion("bad", iterations=1)], [deletion("unknown")])
    assert {user: code for user, (code, _) in outcome.items()} == {
        "good": 0,
        "bad": UnacceptableCredential.code,
        "unknown": ResourceNotFound.code,
    }
    assert can_log_in(cluster, "good", "secret")
    alter(admin, deletions=[deletion("good")])


def test_scram_users_survive_a_controller_change_and_a_restart(
    cluster: KafkaCluster, admin: RawClient
) -> None:
    alter(admin, [upsertion("kept")])
    first = cluster.controller.id
    cluster.controls.move_controller(1 - first)
    cluster.controls.restart_broker(first)
    assert can_log_in(cluster, "kept", "secret")
    with RawClient(cluster.broker(first).address) as wire:
        alter(wire, deletions=[deletion("kept")])


def test_history_has_no_scram_credential(cluster: KafkaCluster, admin: RawClient) -> None:
    alter(admin, [upsertion("x", "canary")])
    salted = hashlib.pbkdf2_hmac("sha256", b"canary", b"salt", 4096)
    (*_, entry) = cluster.history.entries("AlterUserScramCredentials")
    assert repr(salted)[2:12] not in repr(entry) + cluster.timeline().text()
    alter(admin, deletions=[deletion("x")])


@pytest.mark.slow
def test_librdkafkas_admin_client_creates_and_deletes_scram_users(cluster: KafkaCluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    info = ScramCredentialInfo(TheirMechanism.SCRAM_SHA_512, 5000)
    made = UserScramCredentialUpsertion("theirs", info, b"their-secret")
    for future in admin.alter_user_scram_credentials([made]).values():
        future.result(10)
    assert can_log_in(cluster, "theirs", "their-secret", "SCRAM-SHA-512")
    described = admin.describe_user_scram_credentials(["theirs"])["theirs"].result(10)
    assert described.scram_credential_infos[0].iterations == 5000
    gone = UserScramCredentialDeletion("theirs", TheirMechanism.SCRAM_SHA_512)
    for future in admin.alter_user_scram_credentials([gone]).values():
        future.result(10)
    assert not can_log_in(cluster, "theirs", "their-secret", "SCRAM-SHA-512")
