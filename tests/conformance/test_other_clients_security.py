"""confluent-kafka, kafka-python, aiokafka and pykafka2 log in at the bundled broker, by every mechanism.

With TLS and without; each sends a record and reads it, is refused with a wrong password, and shows a
certificate.
"""

from __future__ import annotations

import asyncio
import ssl
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pykafka2.errors import ConfigurationError
from pykafka2.testing import KafkaCluster, Listener

from .peers import _kafka_python

TIMEOUT = 20.0
USERS = {"ann": "ann-secret"}
TOPIC = "t"
SASL = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
LISTENERS = ("SASL_PLAINTEXT", "SASL_SSL")


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    listeners = {
        "SASL_PLAINTEXT": None,
        "SASL_SSL": None,
        "SSL": Listener(client_auth="required"),
    }
    config = {"ssl.principal.mapping.rules": "RULE:^CN=(.*?),.*$/$1/"}
    with KafkaCluster(1, {TOPIC: 1}, listeners=listeners, users=USERS, config=config) as cluster:
        yield cluster


Exchange = Callable[[KafkaCluster, dict[str, Any], bytes], bytes]
"""Send the value with these options (pykafka2's), and read it back."""


def ours(cluster: KafkaCluster, options: dict[str, Any], value: bytes) -> bytes:
    from pykafka2 import KafkaConsumer, KafkaProducer

    with KafkaProducer(**options) as producer:
        sent = producer.send(TOPIC, value).result(TIMEOUT)
    with KafkaConsumer(TOPIC, auto_offset_reset="earliest", group_id=None, **options) as consumer:
        return bytes(next(record.value for record in consumer if record.offset == sent.offset))


def confluent(cluster: KafkaCluster, options: dict[str, Any], value: bytes) -> bytes:
    from confluent_kafka import Consumer, Producer, TopicPartition

    config: dict[str, Any] = {
        "bootstrap.servers": options["bootstrap_servers"],
        "security.protocol": options["security_protocol"],
        "socket.timeout.ms": 5000,
    }
    names = {"ssl_cafile": "ssl.ca.location", "sasl_mechanism": "sasl.mechanisms"}
    names |= {"sasl_username": "sasl.username", "sasl_password": "sasl.password"}
    config |= {theirs: options[mine] for mine, theirs in names.items() if mine in options}
    if "ssl_certfile" in options:
        config["ssl.certificate.location"] = config["ssl.key.location"] = options["ssl_certfile"]
    if "sasl_oauth_token_provider" in options:
        config["oauth_cb"] = lambda _: (options["sasl_oauth_token_provider"](), 4e9)
    errors: list[Any] = []
    offsets: list[int] = []
    producer = Producer({**config, "error_cb": errors.append, "message.timeout.ms": 4000})

    def told(error: Any, message: Any) -> None:
        if error is not None:
            errors.append(error)
        else:
            offsets.append(message.offset())

    producer.produce(TOPIC, value, on_delivery=told)
    # With a callback for tokens the first one is asked for in here.
    producer.flush(TIMEOUT)
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


def kafka_python(cluster: KafkaCluster, options: dict[str, Any], value: bytes) -> bytes:
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


def aiokafka(cluster: KafkaCluster, options: dict[str, Any], value: bytes) -> bytes:
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


CLIENTS: tuple[Exchange, ...] = (ours, confluent, kafka_python, aiokafka)


def value_of_this() -> bytes:
    return uuid.uuid4().bytes


@pytest.mark.slow
@pytest.mark.parametrize("listener", LISTENERS)
@pytest.mark.parametrize("mechanism", SASL)
@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.__name__)
def test_a_client_logs_in_by_every_mechanism(
    cluster: KafkaCluster, client: Exchange, mechanism: str, listener: str
) -> None:
    cluster.forget()
    options = dict(cluster.options_for("ann", mechanism=mechanism, listener=listener))
    value = value_of_this()
    assert client(cluster, options, value) == value
    chosen = {request.mechanism for request in cluster.history.requests("SaslHandshake")}
    assert chosen == {mechanism}


@pytest.mark.slow
@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.__name__)
def test_a_client_shows_its_certificate(cluster: KafkaCluster, client: Exchange) -> None:
    options = dict(cluster.options_for(listener="SSL", certificate="ann"))
    value = value_of_this()
    assert client(cluster, options, value) == value


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.__name__)
def test_a_client_with_a_wrong_password_is_refused(
    cluster: KafkaCluster, client: Exchange, mechanism: str
) -> None:
    cluster.forget()
    options = dict(
        cluster.options_for("ann", mechanism=mechanism, password="wrong", listener="SASL_PLAINTEXT")
    )
    words = r"(?i)authentic|credential|connection|unable to bootstrap|timed?.?out"
    with pytest.raises(Exception, match=words):
        client(cluster, options, b"never")
    assert cluster.events.events("refused")
    assert cluster.history.count("Produce") == 0


def test_options_name_a_listener_that_there_is(cluster: KafkaCluster) -> None:
    with pytest.raises(ConfigurationError, match="there is no listener 'PLAINTEXT'"):
        cluster.options_for(listener="PLAINTEXT")
