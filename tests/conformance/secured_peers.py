"""Clients that log in: each sends a value with the options that it is given, and reads it back.

Options are pykafka2's; each peer translates them into its own. A rejected peer raises.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
import shutil
import ssl
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest

from .bridge import Bridge, b64, unb64
from .peers import _kafka_python

TIMEOUT = 20.0
DELIVERY_MS = 15_000
"""For one record, of which librdkafka takes two seconds to begin where tokens come by a callback."""
TOPIC = "t"

Exchange = Callable[[dict[str, Any], bytes], bytes]
"""Send the value to TOPIC with these options, and read it back."""


def ours(options: dict[str, Any], value: bytes) -> bytes:
    from pykafka2 import KafkaConsumer, KafkaProducer

    with KafkaProducer(**options) as producer:
        sent = producer.send(TOPIC, value).result(TIMEOUT)
    with KafkaConsumer(TOPIC, auto_offset_reset="earliest", group_id=None, **options) as consumer:
        return bytes(next(record.value for record in consumer if record.offset == sent.offset))


def confluent(options: dict[str, Any], value: bytes) -> bytes:
    from confluent_kafka import Consumer, Producer, TopicPartition

    config = librdkafka(options) | {"socket.timeout.ms": 5000}
    if "sasl_oauth_token_provider" in options:
        config["oauth_cb"] = lambda _: (options["sasl_oauth_token_provider"](), 4e9)
    errors: list[Any] = []
    offsets: list[int] = []
    producer = Producer({**config, "error_cb": errors.append, "message.timeout.ms": DELIVERY_MS})

    def on_delivery(error: Any, message: Any) -> None:
        if error is not None:
            errors.append(error)
        else:
            offsets.append(message.offset())

    producer.produce(TOPIC, value, on_delivery=on_delivery)
    deadline = time.monotonic() + TIMEOUT
    while not offsets and not errors and time.monotonic() < deadline:
        # With a callback for tokens, librdkafka calls it first in here.
        producer.poll(0.1)
    if not offsets:
        raise RuntimeError(str(errors))
    consumer = Consumer({**config, "group.id": "g", "error_cb": errors.append})
    try:
        consumer.assign([TopicPartition(TOPIC, 0, offsets[0])])
        message = consumer.poll(TIMEOUT)
        if message is None or message.error():
            raise RuntimeError(str(errors))
        return bytes(message.value())
    finally:
        consumer.close()


def kafka_python(options: dict[str, Any], value: bytes) -> bytes:
    kafka = _kafka_python()
    config = {key: one for key, one in options.items() if key.startswith(("bootstrap", "security", "ssl"))}
    if "ssl_certfile" in options:
        config["ssl_keyfile"] = options["ssl_certfile"]
    if "sasl_mechanism" in options:
        config["sasl_mechanism"] = options["sasl_mechanism"]
    if "sasl_username" in options:
        config["sasl_plain_username"] = options["sasl_username"]
        config["sasl_plain_password"] = options["sasl_password"]
    if "sasl_oauth_token_provider" in options:
        config["sasl_oauth_token_provider"] = _kafka_python_provider(options["sasl_oauth_token_provider"])
    producer = kafka.KafkaProducer(**config, max_block_ms=8000, bootstrap_timeout_ms=3000)
    try:
        sent = producer.send(TOPIC, value).get(TIMEOUT)
    finally:
        producer.close(1)
    consumer = kafka.KafkaConsumer(**config, consumer_timeout_ms=int(TIMEOUT * 1000))
    try:
        partition = kafka.TopicPartition(TOPIC, 0)
        consumer.assign([partition])
        consumer.seek(partition, sent.offset)
        return bytes(next(consumer).value)
    finally:
        consumer.close()


def _kafka_python_provider(source: Callable[[], str]) -> Any:
    from kafka.net.sasl.oauth import AbstractTokenProvider

    class Provider(AbstractTokenProvider):  # type: ignore[misc]
        def token(self) -> str:
            return source()

    return Provider()


def aiokafka(options: dict[str, Any], value: bytes) -> bytes:
    return asyncio.run(_aiokafka(options, value))


async def _aiokafka(options: dict[str, Any], value: bytes) -> bytes:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
    from aiokafka.abc import AbstractTokenProvider

    config = {key: options[key] for key in ("bootstrap_servers", "security_protocol")}
    config["request_timeout_ms"] = 8000
    if "ssl_cafile" in options:
        context = ssl.create_default_context(cafile=options["ssl_cafile"])
        if "ssl_certfile" in options:
            context.load_cert_chain(options["ssl_certfile"])
        config["ssl_context"] = context
    if "sasl_mechanism" in options:
        config["sasl_mechanism"] = options["sasl_mechanism"]
    if "sasl_username" in options:
        config["sasl_plain_username"] = options["sasl_username"]
        config["sasl_plain_password"] = options["sasl_password"]
    if "sasl_oauth_token_provider" in options:

        class Provider(AbstractTokenProvider):  # type: ignore[misc]
            async def token(self) -> str:
                token: str = options["sasl_oauth_token_provider"]()
                return token

        config["sasl_oauth_token_provider"] = Provider()
    producer = AIOKafkaProducer(**config)
    try:
        await producer.start()
        sent = await producer.send_and_wait(TOPIC, value, partition=0)
    finally:
        await producer.stop()
    consumer = AIOKafkaConsumer(**config)
    try:
        await consumer.start()
        partition = TopicPartition(TOPIC, 0)
        consumer.assign([partition])
        consumer.seek(partition, sent.offset)
        record = await asyncio.wait_for(consumer.getone(), TIMEOUT)
        return bytes(record.value)
    finally:
        await consumer.stop()


LIBRDKAFKA = {
    "security_protocol": "security.protocol",
    "ssl_cafile": "ssl.ca.location",
    "sasl_mechanism": "sasl.mechanisms",
    "sasl_username": "sasl.username",
    "sasl_password": "sasl.password",
}
"""Its names of pykafka2's options."""


def librdkafka(options: Mapping[str, Any]) -> dict[str, Any]:
    """The same options as librdkafka has them, but for tokens."""
    found = {theirs: options[ours] for ours, theirs in LIBRDKAFKA.items() if ours in options}
    found["bootstrap.servers"] = options["bootstrap_servers"]
    if "ssl_certfile" in options:
        found["ssl.certificate.location"] = found["ssl.key.location"] = options["ssl_certfile"]
    return found


KCAT, REQUIRE_KCAT = "kcat", "PYKAFKA2_REQUIRE_KCAT"


def kcat(options: dict[str, Any], value: bytes) -> bytes:
    program = shutil.which(KCAT)
    if program is None:
        if os.environ.get(REQUIRE_KCAT) == "1":
            pytest.fail(f"no kcat on PATH ({REQUIRE_KCAT}=1, so this is a failure)", pytrace=False)
        pytest.skip("!!! NOT CHECKED WITH KCAT: no kcat on PATH (apt-get install kcat)")
    if options.get("sasl_mechanism", "").startswith("SCRAM") and _librdkafka_of(program) < (2, 6, 1):
        pytest.skip("kcat's librdkafka says its nonce twice, which Apache Kafka refuses, too (2.6.1)")
    config = librdkafka(options) | {"message.timeout.ms": DELIVERY_MS}
    if "sasl_oauth_token_provider" in options:
        # On a command line there are only tokens that librdkafka makes itself, which are not signed.
        config |= {"enable.sasl.oauthbearer.unsecure.jwt": "true", "sasl.oauthbearer.config": "principal=ann"}
    settings = [text for name, one in config.items() for text in ("-X", f"{name}={one}")]
    text = base64.b64encode(value)
    _run([program, *settings, "-P", "-t", TOPIC, "-p", "0"], text)
    read = _run([program, *settings, "-C", "-t", TOPIC, "-p", "0", "-o", "-1", "-c", "1", "-q"], b"")
    return base64.b64decode(read)


def _librdkafka_of(program: str) -> tuple[int, ...]:
    found = re.search(r"librdkafka ([\d.]+)", _run([program, "-V"], b"").decode())
    assert found is not None
    return tuple(int(part) for part in found[1].split("."))


def _run(command: list[str], stdin: bytes) -> bytes:
    done = subprocess.run(command, input=stdin, capture_output=True, timeout=TIMEOUT, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.decode(errors="replace"))
    return done.stdout


# ---------------------------------------------------------------------- Go


@attrs.frozen
class FranzGo:
    """franz-go 1.22.0, by the program of go/secured."""

    program: Path

    def __call__(self, options: dict[str, Any], value: bytes) -> bytes:
        way = {
            "mechanism": options.get("sasl_mechanism", ""),
            "user": options.get("sasl_username", ""),
            "password": options.get("sasl_password", ""),
            "ca": options.get("ssl_cafile", ""),
            "certificate": options.get("ssl_certfile", ""),
        }
        if "sasl_oauth_token_provider" in options:
            way["token"] = options["sasl_oauth_token_provider"]()
        command = [str(self.program), options["bootstrap_servers"], TOPIC, value.hex()]
        return bytes.fromhex(_run(command, json.dumps(way).encode()).decode())


# ---------------------------------------------------------------------- Java

MODULES = "org.apache.kafka.common.security"
LOGIN_MODULES = {
    "PLAIN": f"{MODULES}.plain.PlainLoginModule",
    "SCRAM-SHA-256": f"{MODULES}.scram.ScramLoginModule",
    "SCRAM-SHA-512": f"{MODULES}.scram.ScramLoginModule",
    "OAUTHBEARER": f"{MODULES}.oauthbearer.OAuthBearerLoginModule",
}


@attrs.frozen
class Java:
    """kafka-clients 4.4.0.  Its certificates lie in `folder`, as it reads other keys than Python does."""

    bridge: Bridge
    folder: Path

    def __call__(self, options: dict[str, Any], value: bytes) -> bytes:
        config = {"security.protocol": options["security_protocol"], "delivery.timeout.ms": "8000"}
        config |= {"request.timeout.ms": "4000", "linger.ms": "0", "max.block.ms": "8000"}
        if "ssl_cafile" in options:
            config |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": options["ssl_cafile"]}
        if "ssl_certfile" in options:
            file = certificate_for_java(Path(options["ssl_certfile"]), self.folder)
            config |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(file)}
        if "sasl_mechanism" in options:
            config |= {"sasl.mechanism": options["sasl_mechanism"], "sasl.jaas.config": _jaas(options)}
        where = {"bootstrap_servers": options["bootstrap_servers"], "topic": TOPIC, "config": config}
        (offsets,) = self.bridge("produce", [{**where, "records": [{"key": None, "value": b64(value)}]}])
        (records,) = self.bridge("consume", [{**where, "offset": offsets[0], "count": 1}])
        read = unb64(records[0]["value"])
        assert read is not None
        return read


def _jaas(options: Mapping[str, Any]) -> str:
    module = LOGIN_MODULES[options["sasl_mechanism"]]
    if "sasl_username" not in options:
        return f'{module} required unsecuredLoginStringClaim_sub="ann";'
    return f'{module} required username="{options["sasl_username"]}" password="{options["sasl_password"]}";'


def certificate_for_java(file: Path, folder: Path) -> Path:
    """The same key and certificates in the one form that Java reads (PKCS 8)."""
    from cryptography.hazmat.primitives import serialization

    certificate = file.read_bytes()
    key = serialization.load_pem_private_key(certificate, None)
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    made = folder / f"{file.stem}-pkcs8.pem"
    made.write_bytes(pem + certificate[certificate.index(b"-----BEGIN CERTIFICATE-----") :])
    return made
