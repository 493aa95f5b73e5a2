"""The pytest plugin: fixtures for clusters and the simulation, marker `kafka`, timelines of failed tests.

pytest loads it when pykafka2 is installed.

    @pytest.mark.kafka(brokers=1, topics={"orders": 6}, config={"num.partitions": 3})
    def test_something(kafka_cluster): ...

Imports only pytest until a fixture is requested, and checks for leaks only in tests that use its fixtures.
With pytest-xdist each worker has its own clusters, on free ports.
"""

from __future__ import annotations

import os
import sys
from argparse import ArgumentTypeError
from collections.abc import Iterator
from functools import partial
from importlib.machinery import ModuleSpec, PathFinder
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence
    from types import ModuleType

    from pykafka2.testing.cluster import KafkaCluster
    from pykafka2.testing.fixtures.clusters import ClusterPool, TlsKafkaCluster
    from pykafka2.testing.fixtures.watchdog import Watchdog
    from pykafka2.testing.simulation import Simulation

MARKER = (
    "kafka(brokers=3, topics=None, config=None, process=False, ..., allow=()): what the fixtures "
    "kafka_cluster, fresh_kafka_cluster and kafka_tls_cluster start, by any argument of "
    "pykafka2.testing.KafkaCluster, such as topics={'orders': 6} or ['orders'], config={'message.max.bytes': "
    "2000}; allow= names what the test may leave behind: 'clients', 'sockets', 'threads', 'transactions'"
)

FAILED = pytest.StashKey[bool]()
"""Whether a test failed or was interrupted (Ctrl-C), for the teardown of its fixtures."""


WATCHDOG: pytest.StashKey[Watchdog] = pytest.StashKey()


class AsInstalled:
    """A finder for `sys.meta_path` that loads pykafka2's modules as Python does, from bytecode.

    pytest compiles all modules of a package with a plugin again to rewrite its asserts.  Without bytecode
    files (PYTHONDONTWRITEBYTECODE) this takes seconds in each process, for a package without tests.
    """

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return PathFinder.find_spec(name, path, target) if name.startswith("pykafka2.") else None


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Install the finder before a conftest.py imports pykafka2, and after pytest's own finder."""
    finder = AsInstalled()
    sys.meta_path.insert(0, finder)
    early_config.add_cleanup(lambda: sys.meta_path.remove(finder))


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("pykafka2")
    group.addoption(
        "--simulation-seed", type=int, default=1, help="seed of the fixture `simulation` (default: 1)"
    )
    group.addoption(
        "--kafka-as-version",
        type=_release,
        default=None,
        metavar="RELEASE",
        help="the clusters of all fixtures respond like this release of Apache Kafka, from 2.8 to 4.4 "
        "(default: 4.4); as_version in @pytest.mark.kafka takes precedence",
    )
    group.addoption(
        "--kafka-watchdog",
        type=_seconds,
        default=None,
        metavar="SECONDS",
        help="show the timelines of a test's clusters if it runs this long, even if it hangs in a C client",
    )


def _release(text: str) -> str:
    from pykafka2.broker.base.features import RELEASES, unknown_release

    if text not in RELEASES:
        raise ArgumentTypeError(unknown_release(text))
    return text


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 < seconds < float("inf"):
        raise ValueError
    return seconds


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", MARKER)
    seconds = config.getoption("--kafka-watchdog")
    if seconds is not None:
        from pykafka2.testing.fixtures.watchdog import Watchdog

        # The present target of standard error, wherever pytest redirects it during tests.
        config.stash[WATCHDOG] = Watchdog(seconds, os.dup(2))


def pytest_unconfigure(config: pytest.Config) -> None:
    watchdog = config.stash.get(WATCHDOG, None)
    if watchdog is not None:
        watchdog.close()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, None]:
    """Watch a test's fixtures."""
    watchdog = item.config.stash.get(WATCHDOG, None)
    if watchdog is not None:
        watchdog.begin(item.nodeid, lambda: getattr(item, "funcargs", None) or {})
    yield
    if watchdog is not None:
        watchdog.end()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, None]:
    """Attach timelines to the reports of failed tests with a cluster."""
    outcome = yield
    report: pytest.TestReport = outcome.get_result()
    if report.when == "teardown":
        return
    item.stash[FAILED] = report.failed or report.when == "setup"
    # Without the module no cluster exists.
    if report.failed and "pykafka2.testing.cluster" in sys.modules:
        from pykafka2.testing.fixtures.clusters import add_timelines

        add_timelines(report, call, getattr(item, "funcargs", {}))


def pytest_keyboard_interrupt(excinfo: pytest.ExceptionInfo[BaseException]) -> None:
    """After Ctrl-C on a test that hangs, shows the timelines of its clusters."""
    if "pykafka2.testing.cluster" in sys.modules:
        from pykafka2.testing.fixtures.clusters import TIMELINE_ITEMS, clusters_of

        for name, cluster in clusters_of(excinfo.value, {}).items():
            print(f"\ntimeline of {name}\n{cluster.timeline(TIMELINE_ITEMS)}", file=sys.stderr)


def _has_failed(request: pytest.FixtureRequest) -> bool:
    return bool(request.node.stash.get(FAILED, False))


@pytest.fixture(scope="session")
def _kafka_cluster_pool() -> Iterator[ClusterPool]:
    """The clusters that tests share."""
    from pykafka2.testing.fixtures.clusters import ClusterPool

    pool = ClusterPool()
    yield pool
    pool.close()


@pytest.fixture
def kafka_cluster(request: pytest.FixtureRequest, _kafka_cluster_pool: ClusterPool) -> Iterator[KafkaCluster]:
    """A Kafka cluster of three brokers (or with the arguments of `@pytest.mark.kafka(...)`), in its initial
    state.

    Clients connect to `kafka_cluster.bootstrap_servers`; tests mostly use `.create_topic("orders",
    partitions=6)`, `.controls` and `.history` (docs/guides/testing.md).  The cluster is kept for the session
    and emptied between tests; it is replaced after a test that crashes brokers, changes configurations or
    uses groups or transactions.  Fail a test that leaves clients (of any library), threads, sockets or open
    transactions behind.
    """
    yield from _kafka_cluster_pool.shared(request, partial(_has_failed, request))


@pytest.fixture
def fresh_kafka_cluster(request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
    """A cluster like `kafka_cluster`, but started for this test and closed after it."""
    from pykafka2.testing.fixtures.clusters import fresh

    yield from fresh(request, partial(_has_failed, request))


@pytest.fixture
def kafka_tls_cluster(request: pytest.FixtureRequest) -> Iterator[TlsKafkaCluster]:
    """A new cluster with TLS and a throw-away authority (needs trustme); `client_options` are the options of
    a client.
    """
    from pykafka2.testing.fixtures.clusters import with_tls

    yield from with_tls(request, partial(_has_failed, request))


@pytest.fixture
def simulation(request: pytest.FixtureRequest) -> Iterator[Simulation]:
    """Brokers and clients in virtual time, from the seed of --simulation-seed (see `Simulation`)."""
    from pykafka2.testing.simulation.fixtures import simulated

    yield from simulated(request)
