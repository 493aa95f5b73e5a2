"""Every raw answer to who authenticates, on Apache Kafka and on the bundled broker: the same, by field."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import pytest

from pykafka2.protocol.messages.users import AlterUserScramCredentialsRequest, ScramCredentialUpsertion
from pykafka2.testing import KafkaCluster, Listener
from tests.testing.wire import Wire

from .real_kafka import MAX_REAUTH_MS, SASL_PASSWORD, SASL_USER, RealKafka
from .sasl_scenarios import SCENARIOS, Talk

KNOWN = {
    "bearer_tokens": {"another scheme": "Kafka fails over it and hangs up; here it is refused in words"},
    "scram_last_messages": {"another hash": "Kafka fails over a proof of another length, as over the scheme"},
    "scram_first_messages": {
        "an extension that must be known": "Kafka overlooks it; RFC 5802 has it refused, which loses nobody"
    },
}
"""What is answered otherwise on purpose, and why."""


@pytest.fixture(scope="module")
def ours() -> Iterator[KafkaCluster]:
    listeners = {"PLAINTEXT": None, "SASL_PLAINTEXT": Listener(max_reauth_ms=MAX_REAUTH_MS)}
    with KafkaCluster(1, listeners=listeners, users={SASL_USER: SASL_PASSWORD}) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def theirs(real_kafka: RealKafka) -> RealKafka:
    """With the user's SCRAM credentials."""
    upsertions = []
    with Wire(real_kafka.addresses[0]) as wire:
        for mechanism, algorithm in ((1, "sha256"), (2, "sha512")):
            salted = hashlib.pbkdf2_hmac(algorithm, SASL_PASSWORD.encode(), b"salt", 4096)
            upsertions = [
                ScramCredentialUpsertion(
                    name=SASL_USER, mechanism=mechanism, iterations=4096, salt=b"salt", salted_password=salted
                )
            ]
            answer = wire.call(AlterUserScramCredentialsRequest(deletions=[], upsertions=upsertions), 0)
            assert [one.error_code for one in answer.results] == [0]
    return real_kafka


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("name", SCENARIOS)
def test_who_authenticates_is_answered_as_by_apache(theirs: RealKafka, ours: KafkaCluster, name: str) -> None:
    notes = []
    for sasl, plaintext in (
        (theirs.sasl_addresses[0], theirs.addresses[0]),
        (ours.bootstrap_servers_of("SASL_PLAINTEXT"), ours.bootstrap_servers),
    ):
        talk = Talk(sasl, plaintext)
        SCENARIOS[name](talk)
        talk.hang_up()
        notes.append(talk.notes)
    labels = [label for label, _ in notes[0]]
    assert [label for label, _ in notes[1]] == labels
    differing = [(theirs, ours) for theirs, ours in zip(*notes, strict=True) if theirs != ours]
    shown = "\n".join(f"Apache: {theirs}\nours:   {ours}" for theirs, ours in differing)
    assert {one[0][0] for one in differing} == KNOWN.get(name, {}).keys(), shown
