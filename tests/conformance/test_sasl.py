"""Authentication against Apache Kafka: every mechanism, wrong credentials, sessions that are renewed."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import pytest

from pykafka2 import KafkaConsumer, KafkaProducer
from pykafka2.errors import IllegalSaslState, SaslAuthenticationFailed, UnsupportedSaslMechanism
from pykafka2.protocol.messages.users import DescribeUserScramCredentialsRequest, UserName
from tests.broker.support.raw_client import RawClient
from tests.web_tokens import unsigned

from .brokers import eventually
from .real_kafka import MAX_REAUTH_MS, SASL_PASSWORD, SASL_USER, RealKafka

TOPIC = "behind-sasl"


def unsecured_token(lifetime: float = 60.0) -> str:
    """A token that Kafka's validator for tests accepts: an unsigned web token."""
    now = time.time()
    return unsigned(sub=SASL_USER, iat=now, exp=now + lifetime)


PASSWORD = {"sasl_username": SASL_USER, "sasl_password": SASL_PASSWORD}
MODULES = "org.apache.kafka.common.security"
WAYS: dict[str, dict[str, Any]] = {
    "plain": {"sasl_mechanism": "PLAIN", **PASSWORD},
    "scram-sha-256": {"sasl_mechanism": "SCRAM-SHA-256", **PASSWORD},
    "scram-sha-512": {"sasl_mechanism": "SCRAM-SHA-512", **PASSWORD},
    "as Java writes it": {
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": f'{MODULES}.scram.ScramLoginModule required username="{SASL_USER}" '
        f'password="{SASL_PASSWORD}";',
    },
    "as kafka-python writes it": {
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": SASL_USER,
        "sasl_plain_password": SASL_PASSWORD,
    },
    "a token": {"sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": unsecured_token},
    "a token as confluent-kafka has it": {
        "sasl.mechanisms": "OAUTHBEARER",
        "oauth_cb": lambda config: (unsecured_token(), time.time() + 60),
    },
}


@pytest.fixture(scope="module")
def secured(real_kafka: RealKafka) -> dict[str, Any]:
    """The options of a client but for its credentials; the user's SCRAM credentials and the topic exist."""
    from confluent_kafka.admin import (
        AdminClient,
        NewTopic,
        ScramCredentialInfo,
        ScramMechanism,
        UserScramCredentialUpsertion,
    )

    admin = AdminClient({"bootstrap.servers": real_kafka.addresses[0]})
    for future in admin.create_topics([NewTopic(TOPIC, 1, 1)]).values():
        future.result()
    for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        how = ScramCredentialInfo(mechanism, 4096)
        added = UserScramCredentialUpsertion(SASL_USER, how, SASL_PASSWORD.encode())
        for future in admin.alter_user_scram_credentials([added]).values():
            future.result()
    requested = DescribeUserScramCredentialsRequest(users=[UserName(name=SASL_USER)])
    for address in real_kafka.addresses:
        with RawClient(address) as wire:
            eventually(partial(_has_both, wire, requested))
    return {"bootstrap_servers": real_kafka.sasl_addresses, "security_protocol": "SASL_PLAINTEXT"}


def _has_both(wire: RawClient, requested: DescribeUserScramCredentialsRequest) -> bool:
    """Whether this broker knows the user's credentials of both mechanisms."""
    return len(wire.call(requested, 0).results[0].credential_infos) == 2


@pytest.mark.parametrize("way", list(WAYS))
def test_records_of_an_authenticated_producer_are_read_by_a_consumer(
    secured: dict[str, Any], way: str
) -> None:
    config = {**secured, **WAYS[way]}
    with KafkaProducer(config) as producer:
        sent = producer.send(TOPIC, way.encode()).result(20)
    with KafkaConsumer(config, auto_offset_reset="earliest", group_id=f"group-{way}") as consumer:
        consumer.subscribe([TOPIC])
        seen = next(record for record in consumer if record.offset == sent.offset)
    assert seen.value == way.encode()


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "plain": ({**WAYS["plain"], "sasl_password": "wrong-one"}, "Invalid username or password"),
    "scram": ({**WAYS["scram-sha-256"], "sasl_password": "wrong-one"}, "invalid credentials"),
    "an unknown user": ({**WAYS["scram-sha-512"], "sasl_username": "eve"}, "invalid credentials"),
    "a token of another kind": (
        {"sasl_mechanism": "OAUTHBEARER", "sasl_oauth_token_provider": lambda: "opaque"},
        "invalid_token",
    ),
}


@pytest.mark.parametrize("case", list(WRONG))
def test_wrong_credentials_raise_at_once_with_the_mechanism_and_without_secrets(
    secured: dict[str, Any], case: str
) -> None:
    options, words = WRONG[case]
    with KafkaProducer({**secured, **options}) as producer:
        began = time.monotonic()
        with pytest.raises(SaslAuthenticationFailed, match=words) as refused:
            producer.send(TOPIC, b"x")
        assert time.monotonic() - began < 10
        assert f"sasl_mechanism={options['sasl_mechanism']}" in str(refused.value)
        assert "wrong-one" not in f"{refused.value} {producer.explain()}"


def test_disabled_mechanism_raises_with_the_enabled_ones(real_kafka: RealKafka) -> None:
    """The plaintext listener has none: the handshake is out of place there."""
    config = {"bootstrap_servers": real_kafka.addresses, "security_protocol": "SASL_PLAINTEXT"}
    with (
        KafkaProducer({**config, **WAYS["plain"]}) as producer,
        pytest.raises((UnsupportedSaslMechanism, IllegalSaslState)),
    ):
        producer.send(TOPIC, b"x")


@pytest.mark.slow
@pytest.mark.long
def test_a_session_is_renewed_on_the_same_connection(secured: dict[str, Any]) -> None:
    """KIP-368: the broker ends a connection that goes on beyond its session."""
    with KafkaProducer({**secured, **WAYS["scram-sha-256"]}) as producer:
        producer.send(TOPIC, b"first").result(20)
        until = time.monotonic() + 2.4 * MAX_REAUTH_MS / 1000
        while time.monotonic() < until:
            producer.send(TOPIC, b"again").result(5)
        assert producer._core.client.nodes.failures == 0, producer.explain()
