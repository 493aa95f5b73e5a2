"""Raw responses to authenticating clients, field by field: Apache Kafka and the bundled broker agree."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from pykafka2 import KafkaAdminClient
from pykafka2.protocol.messages.users import AlterUserScramCredentialsRequest, ScramCredentialUpsertion
from pykafka2.testing import KafkaCluster, Listener
from tests.broker.support.raw_client import RawClient

from .real_kafka import MAX_REAUTH_MS, SASL_PASSWORD, SASL_USER, RealKafka
from .sasl_scenarios import SCENARIOS, Talk

KNOWN = {
    "bearer_tokens": {"another scheme": "Kafka fails over it and hangs up; here it is refused in words"},
    "scram_last_messages": {"another hash": "Kafka fails over a proof of another length, as over the scheme"},
    "scram_first_messages": {
        "an extension that must be known": "Kafka overlooks it; RFC 5802 requires the refusal"
    },
}
"""Responses that differ on purpose, and why."""

TOKEN_SECONDS = 3
LOGIN = {
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_mechanism": "PLAIN",
    "sasl_username": SASL_USER,
    "sasl_password": SASL_PASSWORD,
}


@pytest.fixture(scope="module")
def ours() -> Iterator[KafkaCluster]:
    listeners = {"PLAINTEXT": None, "SASL_PLAINTEXT": Listener(max_reauth_ms=MAX_REAUTH_MS)}
    with KafkaCluster(1, listeners=listeners, users={SASL_USER: SASL_PASSWORD}) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def theirs(real_kafka: RealKafka) -> RealKafka:
    """With the user's SCRAM credentials."""
    upsertions = []
    with RawClient(real_kafka.addresses[0]) as wire:
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
def test_authentication_responses_equal_those_of_apache(
    theirs: RealKafka, ours: KafkaCluster, name: str
) -> None:
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


@pytest.mark.slow
@pytest.mark.long
def test_tokens_renewed_within_a_second_are_refused_as_by_apache_and_nothing_is_lost(
    theirs: RealKafka, ours: KafkaCluster
) -> None:
    """librdkafka's 0142 with sessions of 6 s and tokens of 3 s: a broker authenticates again at most
    once a second (KIP-368), and librdkafka comes earlier with what is left of a token."""
    addresses = {"theirs": theirs.sasl_addresses[0], "ours": ours.bootstrap_servers_of("SASL_PLAINTEXT")}
    played: dict[tuple[str, int], Played] = {}
    threads = []
    for name, address in addresses.items():
        with KafkaAdminClient(bootstrap_servers=address, **LOGIN) as admin:
            admin.create_topics(["renewed"])
        for number in range(2):
            played[name, number] = one = Played()
            threads.append(threading.Thread(target=one.play, args=(address, TOKEN_SECONDS)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for one in played.values():
        assert one.delivered == one.sent > 0
        assert any("not valid in current SASL state" in error for error in one.errors), one.errors


class Played:
    """The outcome of a librdkafka producer whose tokens last for this many seconds."""

    def __init__(self) -> None:
        self.sent = self.delivered = 0
        self.errors: list[str] = []

    def play(self, address: str, seconds: int) -> None:
        producer = Producer(
            {
                "bootstrap.servers": address,
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "OAUTHBEARER",
                "enable.sasl.oauthbearer.unsecure.jwt": "true",
                "sasl.oauthbearer.config": f"principal={SASL_USER} lifeSeconds={seconds}",
                "error_cb": lambda error: self.errors.append(str(error)),
            }
        )
        ends_at = time.monotonic() + 2.5 * seconds
        while time.monotonic() < ends_at:
            producer.produce("renewed", b"x", on_delivery=self.on_delivery)
            self.sent += 1
            producer.poll(0.01)
        producer.flush(30)

    def on_delivery(self, error: object, message: object) -> None:
        self.delivered += error is None
