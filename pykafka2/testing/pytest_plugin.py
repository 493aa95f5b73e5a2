"""The pytest plugin: fixtures `kafka_cluster` and `simulation`, marker `kafka`.

Found by pytest itself when pykafka2 is installed.

    @pytest.mark.kafka(brokers=1, topics={"orders": 6}, config={"num.partitions": 3})
    def test_something(kafka_cluster): ...

Imports nothing but pytest until a fixture is asked for, and looks for leaks only where its fixtures were
used.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pykafka2.testing.cluster import KafkaCluster
    from pykafka2.testing.simulation import Simulation

MARKER = (
    "kafka(brokers=3, topics=None, config=None, seed=0): "
    "what the fixture kafka_cluster starts (arguments of KafkaCluster)"
)
MARKER_ARGUMENTS = frozenset({"brokers", "topics", "config", "seed", "tls", "host", "ports"})
# Threads and sockets of clients that were closed just before may need a moment to go.
LEAK_GRACE = 1.0


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("pykafka2").addoption(
        "--simulation-seed", type=int, default=1, help="seed of the fixture `simulation` (default: 1)"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", MARKER)


@pytest.fixture
def kafka_cluster(request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
    """A fresh Kafka cluster of three brokers (or what `@pytest.mark.kafka(...)` says), closed after the test.

    Fails the test if it leaves threads or sockets behind: an unclosed client, mostly.
    """
    from pykafka2.testing.cluster import KafkaCluster
    from pykafka2.testing.leaks import LeakCheck

    leaks = LeakCheck()
    with KafkaCluster(**_arguments(request)) as cluster:
        yield cluster
    found = leaks.wait_for_none(LEAK_GRACE)
    if found:
        pytest.fail("the test left behind: " + "; ".join(found) + "; close every client", pytrace=False)


@pytest.fixture
def simulation(request: pytest.FixtureRequest) -> Iterator[Simulation]:
    """Brokers and clients in virtual time, from the seed of --simulation-seed (see `Simulation`)."""
    from pykafka2.testing.simulation.fixtures import simulated

    yield from simulated(request)


def _arguments(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Of the closest marker; a misspelt argument fails the test by name."""
    marker = request.node.get_closest_marker("kafka")
    if marker is None:
        return {}
    if marker.args:
        pytest.fail("pytest.mark.kafka takes named arguments, such as brokers=1", pytrace=False)
    unknown = sorted(set(marker.kwargs) - MARKER_ARGUMENTS)
    if unknown:
        known = ", ".join(sorted(MARKER_ARGUMENTS))
        pytest.fail(f"pytest.mark.kafka has no argument {unknown[0]!r}; it has {known}", pytrace=False)
    return dict(marker.kwargs)
