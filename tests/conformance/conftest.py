"""Fixtures of the conformance stage: JVM bridges and a real Apache Kafka, each started once a session."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from . import secured_clusters
from .bridge import Bridge
from .brokers import Cluster
from .maven import CURRENT, OLDEST, KafkaJars, KafkaUnavailable, jars_or_skip, skip_or_fail
from .peers import Aiokafka, Confluent, Java, KafkaPython, Ours, Peer
from .real_kafka import QUICK_GROUPS, RealKafka
from .secured_clusters import Secured

BridgeOf = Callable[[str], Bridge]

KAFKA_PYTHON_AND_OURS = (pytest.param("kafka", marks=pytest.mark.long), "pykafka2")
"""Imports of a program; a run with kafka-python's shows that the program is right."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs Kafka's jars real_kafka, and controls of other clients long, before `-m` selects."""
    for item in items:
        if "jars" in getattr(item, "fixturenames", ()) or _needs_server(item):
            item.add_marker("real_kafka")
        if _is_between_others(item):
            item.add_marker("long")
        if item.path.name.startswith(("test_other_clients", "test_kafka_python")):
            # Some forget sockets, of a node that is gone for one: these tests are not to blame.
            item.add_marker(pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"))
            item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))


def _is_between_others(item: pytest.Item) -> bool:
    """Whether other clients use Apache Kafka with all their codecs, without our code: one codec is enough."""
    name, parameters = getattr(item, "originalname", ""), _parameters(item)
    is_theirs = name in ("test_others_produce", "test_others_consume") and parameters["cluster"] == "apache"
    return is_theirs and parameters["codec"] != "zstd"


def _parameters(item: pytest.Item) -> dict[str, object]:
    return item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}


def _needs_server(item: pytest.Item) -> bool:
    parameters = _parameters(item)
    is_chosen = parameters.get("cluster") == "apache" or parameters.get("kafka") == "4.4"
    return is_chosen or "real_kafka" in getattr(item, "fixturenames", ())


@pytest.fixture(scope="session")
def jars() -> KafkaJars:
    return jars_or_skip()


@pytest.fixture(scope="session")
def bridge_of(jars: KafkaJars, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BridgeOf]:
    """The bridge to one generation of kafka-clients, started on first use."""
    started: dict[str, Bridge] = {}

    def bridge_of(generation: str) -> Bridge:
        if generation not in started:
            log_file = tmp_path_factory.mktemp("bridge") / f"{generation}.log"
            started[generation] = Bridge(jars, log_file, generation)
        return started[generation]

    yield bridge_of
    for bridge in started.values():
        bridge.close()


@pytest.fixture(scope="session")
def java(bridge_of: BridgeOf) -> Bridge:
    """Kafka 4.4.0's classes."""
    return bridge_of(CURRENT)


@pytest.fixture(scope="session")
def oldest_java(bridge_of: BridgeOf) -> Bridge:
    """Kafka 3.9.1's classes."""
    return bridge_of(OLDEST)


@pytest.fixture(scope="session", autouse=True)
def _kafka_in_background(request: pytest.FixtureRequest) -> Iterator[RealKafka | None]:
    """Start Kafka before the first test where a collected test needs it: it boots while the others run."""
    if not any(_needs_server(item) for item in request.session.items):
        yield None
        return
    try:
        jars = request.getfixturevalue("jars")
    except (pytest.skip.Exception, pytest.fail.Exception):
        yield None  # the test that asks for it skips or fails, and says why
        return
    with RealKafka(jars, brokers=3, authorizes=True) as kafka:
        yield kafka.start()


@pytest.fixture(scope="session")
def real_kafka(_kafka_in_background: RealKafka | None, jars: KafkaJars) -> RealKafka:
    """The one Apache Kafka of this session, three brokers, up and serving."""
    assert _kafka_in_background is not None  # the fixture `jars` has skipped otherwise
    try:
        _kafka_in_background.bootstrap_servers  # noqa: B018  waits
    except KafkaUnavailable as problem:
        skip_or_fail(str(problem))
    return _kafka_in_background


@pytest.fixture(scope="session")
def bundled() -> Iterator[Cluster]:
    """Three of our brokers on real sockets."""
    from pykafka2.testing import KafkaCluster

    with KafkaCluster(brokers=3, config=QUICK_GROUPS) as cluster:
        yield Cluster("bundled", cluster.bootstrap_servers, replicas=3)


@pytest.fixture(scope="session")
def apache(real_kafka: RealKafka) -> Cluster:
    return Cluster("apache", real_kafka.bootstrap_servers, replicas=3)


@pytest.fixture(scope="session", params=["bundled", "apache"])
def cluster(request: pytest.FixtureRequest) -> Cluster:
    """The same test on the bundled broker and on Apache Kafka."""
    chosen: Cluster = request.getfixturevalue(request.param)
    return chosen


@pytest.fixture(scope="session")
def bundled_secured() -> Iterator[Secured]:
    with secured_clusters.bundled() as secured:
        yield secured


@pytest.fixture(scope="session")
def apache_secured(jars: KafkaJars, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """One node with all kinds of security, which the nodes that others share have not."""
    try:
        with secured_clusters.apache(jars, tmp_path_factory.mktemp("secured")) as secured:
            yield secured
    except KafkaUnavailable as problem:
        skip_or_fail(str(problem))


@pytest.fixture(scope="session", params=["bundled", pytest.param("apache", marks=pytest.mark.real_kafka)])
def secured(request: pytest.FixtureRequest) -> Secured:
    """The same test on both, set up alike."""
    chosen: Secured = request.getfixturevalue(f"{request.param}_secured")
    return chosen


@pytest.fixture
def peer_of(request: pytest.FixtureRequest) -> Callable[[str], Peer]:
    """A client library by name; java needs the jars."""

    def peer_of(name: str) -> Peer:
        if name == "java":
            return Java(request.getfixturevalue("java"))
        peers: dict[str, Peer] = {
            "ours": Ours(),
            "confluent": Confluent(),
            "kafka-python": KafkaPython(),
            "aiokafka": Aiokafka(),
        }
        return peers[name]

    return peer_of


@pytest.fixture(params=KAFKA_PYTHON_AND_OURS)
def library(request: pytest.FixtureRequest) -> Any:
    """Imports of programs, as kafka-python documents them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return importlib.import_module(request.param)


@pytest.fixture
def errors(library: Any) -> Any:
    """The library's module of errors."""
    return importlib.import_module(f"{library.__name__}.errors")
