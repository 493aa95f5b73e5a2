"""Other people's clients log in at the bundled broker, by every mechanism, with TLS and without.

Each sends a record and reads it, is refused with a wrong password, and shows a certificate: confluent-kafka,
kafka-python, aiokafka, kcat, Java's, franz-go, and pykafka2.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pykafka2.errors import ConfigurationError
from pykafka2.testing import KafkaCluster, Listener

from .go_programs import go_program
from .secured_peers import TOPIC, Exchange, FranzGo, Java, aiokafka, confluent, kafka_python, kcat, ours

USERS = {"ann": "ann-secret"}
SASL = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
LISTENERS = ("SASL_PLAINTEXT", "SASL_SSL")
PEERS: dict[str, Exchange] = {one.__name__: one for one in (ours, confluent, kafka_python, aiokafka, kcat)}
NAMES = [
    *PEERS,
    pytest.param("java", marks=pytest.mark.real_kafka),
    pytest.param("franz-go", marks=pytest.mark.long),
]

ExchangeOf = Callable[[str], Exchange]


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


@pytest.fixture(scope="module")
def franz_go(tmp_path_factory: pytest.TempPathFactory) -> FranzGo:
    if shutil.which("go") is None:
        pytest.skip("!!! NOT CHECKED WITH FRANZ-GO: no go on PATH")
    return FranzGo(go_program("secured", tmp_path_factory.mktemp("go")))


@pytest.fixture
def exchange_of(request: pytest.FixtureRequest, tmp_path: Path) -> ExchangeOf:
    """A client by its name; Java's needs the jars, franz-go's is built first."""

    def exchange_of(name: str) -> Exchange:
        if name == "java":
            return Java(request.getfixturevalue("java"), tmp_path)
        if name == "franz-go":
            built: FranzGo = request.getfixturevalue("franz_go")
            return built
        return PEERS[name]

    return exchange_of


def value_of_this() -> bytes:
    return uuid.uuid4().bytes


@pytest.mark.slow
@pytest.mark.parametrize("listener", LISTENERS)
@pytest.mark.parametrize("mechanism", SASL)
@pytest.mark.parametrize("client", NAMES)
def test_a_client_logs_in_by_every_mechanism(
    cluster: KafkaCluster, exchange_of: ExchangeOf, client: str, mechanism: str, listener: str
) -> None:
    cluster.forget()
    options = dict(cluster.options_for("ann", mechanism=mechanism, listener=listener))
    value = value_of_this()
    assert exchange_of(client)(options, value) == value
    chosen = {request.mechanism for request in cluster.history.requests("SaslHandshake")}
    assert chosen == {mechanism}
    assert {one.principal for one in cluster.connections()} <= {"User:ann"}


@pytest.mark.slow
@pytest.mark.parametrize("client", NAMES)
def test_a_client_shows_its_certificate(cluster: KafkaCluster, exchange_of: ExchangeOf, client: str) -> None:
    options = dict(cluster.options_for(listener="SSL", certificate="ann"))
    value = value_of_this()
    assert exchange_of(client)(options, value) == value


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
@pytest.mark.parametrize("client", NAMES)
def test_a_client_with_a_wrong_password_is_refused(
    cluster: KafkaCluster, exchange_of: ExchangeOf, client: str, mechanism: str
) -> None:
    cluster.forget()
    options = dict(
        cluster.options_for("ann", mechanism=mechanism, password="wrong", listener="SASL_PLAINTEXT")
    )
    words = r"(?i)authentic|credential|connection|unable to bootstrap|timed?.?out"
    # Of a JVM's bridge it is an AssertionError.
    with pytest.raises(Exception, match=words):
        exchange_of(client)(options, b"never")
    assert cluster.events.events("refused")
    assert cluster.history.count("Produce") == 0


def test_options_name_a_listener_that_there_is(cluster: KafkaCluster) -> None:
    with pytest.raises(ConfigurationError, match="Unknown listener 'PLAINTEXT'"):
        cluster.options_for(listener="PLAINTEXT")
