"""Secrets of a client's options are in nothing that it shows, whatever fails and however much is logged."""

from __future__ import annotations

import base64
import logging
import pickle
import re
import traceback
from typing import Any

import pytest

from pykafka2 import KafkaAdminClient, KafkaConsumer, KafkaProducer
from pykafka2.admin.options import ADMIN_OPTIONS
from pykafka2.consumer.options import CONSUMER_OPTIONS
from pykafka2.errors import KafkaError
from pykafka2.producer.options import PRODUCER_OPTIONS
from pykafka2.testing import Simulation

CANARY = "canary-in-the-coal-mine"
FORMS = (CANARY, base64.b64encode(CANARY.encode()).decode()[:-4], CANARY.encode().hex())
SERVER = {"bootstrap_servers": "127.0.0.1:1"}
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SECRETS: dict[str, dict[str, Any]] = {
    "ssl_key_pem": {"security_protocol": "SSL", "ssl_certificate_pem": "x", "ssl_key_pem": CANARY},
    "ssl_password": {"security_protocol": "SSL", "ssl_password": CANARY, "ssl_certfile": "no.pem"},
    "sasl_password": {"sasl_mechanism": "PLAIN", "sasl_username": "ann", "sasl_password": CANARY},
    "sasl_jaas_config": {
        "sasl_mechanism": "PLAIN",
        "sasl_jaas_config": f'{PLAIN} required username="ann" password="{CANARY}";',
    },
    "sasl_oauthbearer_client_secret": {
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauthbearer_token_endpoint_url": "https://127.0.0.1:1/token",
        "sasl_oauthbearer_client_id": "ann",
        "sasl_oauthbearer_client_secret": CANARY,
    },
}
CLIENTS = [
    (KafkaProducer, PRODUCER_OPTIONS),
    (KafkaConsumer, CONSUMER_OPTIONS),
    (KafkaAdminClient, ADMIN_OPTIONS),
]


def shown_by(client: Any) -> list[str]:
    """All that a client says of itself."""
    calls = [getattr(client, name, None) for name in ("health", "explain", "metrics")]
    shown = [repr(client), str(client), *(repr(call()) for call in calls if call is not None)]
    try:
        pickle.dumps(client)
    except Exception as error:
        shown.append(repr(error))
    return shown


def texts_of(error: BaseException) -> list[str]:
    return [repr(error), str(error), *traceback.format_exception(error)]


def test_every_secret_option_has_a_case() -> None:
    for _, table in CLIENTS:
        secret = {name for name, option in table.options.items() if option.secret}
        assert secret == set(SECRETS)


@pytest.mark.parametrize(("kind", "table"), CLIENTS, ids=["producer", "consumer", "admin"])
@pytest.mark.parametrize("option", SECRETS)
def test_a_secret_is_not_shown(
    simulation: Simulation, caplog: pytest.LogCaptureFixture, kind: Any, table: Any, option: str
) -> None:
    caplog.set_level(logging.DEBUG)
    settings = {**SERVER, **SECRETS[option]}
    if "sasl_mechanism" in settings:
        settings = {"security_protocol": "SASL_PLAINTEXT", **settings}
    seen: list[str] = []
    for options in (
        settings,
        {**settings, "no_such_option": 1},
        {**settings, "client_id": 7, "retries": "x"},
    ):
        try:
            seen.append(repr(table.parse(None, dict(options))))
        except KafkaError as error:
            seen += texts_of(error)
        try:
            with kind(runtime=simulation.runtime.at("app"), **options) as client:
                seen += shown_by(client)
                seen += texts_of(failing(client))
                seen += shown_by(client)
        except KafkaError as error:
            seen += texts_of(error)
    seen.append(caplog.text)
    assert [form for form in FORMS for text in seen if form in text] == []


def failing(client: Any) -> BaseException:
    """The error of a call that no broker answers."""
    calls = {
        KafkaProducer: lambda: client.send("orders", b"v").result(1),
        KafkaConsumer: lambda: client.list_topics(timeout_ms=500) if hasattr(client, "list_topics") else None,
        KafkaAdminClient: lambda: client.list_topics(timeout=0.5),
    }
    try:
        calls[type(client)]()
    except (KafkaError, TypeError) as error:
        return error
    return KafkaError("none")


def test_wrong_password_is_not_shown(simulation: Simulation, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    cluster = simulation.cluster(1, {"orders": 1}, listeners=["SASL_PLAINTEXT"], users={"ann": "right"})
    for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"):
        producer = simulation.producer(
            cluster,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism=mechanism,
            sasl_username="ann",
            sasl_password=CANARY,
        )
        with pytest.raises(KafkaError) as caught:
            producer.send("orders", b"v").result(10)
        seen = [*texts_of(caught.value), *shown_by(producer), caplog.text, simulation.timeline()]
        seen += [repr(cluster.history), repr(cluster.events.events()), cluster.timeline().text()]
        assert [form for form in FORMS for text in seen if form in text] == []


PEM = f"-----BEGIN PRIVATE KEY-----\n{CANARY}\n-----END PRIVATE KEY-----"
WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "user in an address": ({"bootstrap_servers": f"ann:{CANARY}@kafka-1:9093"}, "set sasl_username"),
    "user in one address": ({"bootstrap_servers": ["a:1", f"SSL://ann:{CANARY}@b:1"]}, "set sasl_username"),
    "password with a slash": ({"bootstrap_servers": f"ann:a/{CANARY}/b@kafka-1:9093"}, "set sasl_username"),
    "password with a comma": ({"bootstrap_servers": f"ann:a,{CANARY},b@kafka-1:9093"}, "set sasl_username"),
    "password with a space": (
        {"bootstrap_servers": ["a:1", f"SSL://ann:a {CANARY} b@kafka-1:9093"]},
        "set sasl_username",
    ),
    "user in a URL": ({"bootstrap_servers": f"kafka://ann:{CANARY}@kafka-1"}, "set sasl_username"),
    "key as a file": ({"security_protocol": "SSL", "ssl_keyfile": PEM}, "or set ssl_key_pem"),
    "key as a certificate": ({"security_protocol": "SSL", "ssl_certfile": PEM}, "or set ssl_certificate_pem"),
    "key as bytes": ({"security_protocol": "SSL", "ssl_certificate_pem": PEM.encode()}, "use a string"),
    "user in an import path": (
        {"sasl_oauth_token_provider": f"https://ann:{CANARY}@tokens.example/oauth"},
        "write an import path as module:function",
    ),
    "line of a key": ({f"MIIEvQIBADANBgkqhkiG9w0BAQEF+{CANARY}": ""}, "not shown"),
    "alphanumeric line of a key": (
        {"MIIEvQIBADANBgkqhkiG9w0BAQEF" + CANARY.replace("-", ""): ""},
        "not shown",
    ),
}


@pytest.mark.parametrize("case", WRONG)
@pytest.mark.parametrize("kind", [KafkaProducer, KafkaConsumer])
def test_secret_in_a_wrong_place_is_not_shown(case: str, kind: Any) -> None:
    options, advice = WRONG[case]
    with pytest.raises(KafkaError) as caught:
        kind({**SERVER, **options})
    seen = texts_of(caught.value)
    assert advice in seen[1]
    assert [form for form in (*FORMS, CANARY.replace("-", "")) for text in seen if form in text] == []


def test_address_with_a_password_in_place_of_a_mapping_is_not_shown() -> None:
    with pytest.raises(KafkaError, match="must be a mapping of options") as caught:
        KafkaProducer(f"ann:{CANARY}@kafka-1:9093")  # type: ignore[arg-type]
    assert [form for form in FORMS for text in texts_of(caught.value) if form in text] == []


def test_file_of_options_in_place_of_a_mapping_is_not_shown() -> None:
    with pytest.raises(KafkaError, match="must be a mapping of options, not a str") as caught:
        KafkaProducer(f"sasl.password={CANARY}")  # type: ignore[arg-type]
    assert CANARY not in str(caught.value)


def test_misspelt_options_are_still_shown_by_name() -> None:
    for name in ("bootstrap.server", "bootstrapservers", "enable-idempotence", "Acks", "x" * 24):
        with pytest.raises(KafkaError, match=re.escape(repr(name))):
            KafkaProducer({name: "1"})
