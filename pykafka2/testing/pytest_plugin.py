"""The pytest plugin: fixtures of clusters and of the simulation, marker `kafka`, timelines of failed tests.

Found by pytest itself when pykafka2 is installed.

    @pytest.mark.kafka(brokers=1, topics={"orders": 6}, config={"num.partitions": 3})
    def test_something(kafka_cluster): ...

Imports nothing but pytest until a fixture is asked for, and looks for leaks only where its fixtures were
used.  With pytest-xdist each worker has clusters of its own, on free ports.
"""

from __future__ import annotations

import os
import sys
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
"""Whether a test failed or was not let finish (Ctrl-C); for the end of its fixtures."""


WATCHDOG: pytest.StashKey[Watchdog] = pytest.StashKey()


class AsInstalled:
    """A finder of `sys.meta_path`: pykafka2's modules are loaded as Python does it, bytecode and all.

    pytest compiles every module anew of who brings it a plugin, in order to rewrite its asserts: seconds in
    each process where no bytecode is written (PYTHONDONTWRITEBYTECODE), for a package that has no tests.
    """

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return PathFinder.find_spec(name, path, target) if name.startswith("pykafka2.") else None


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Before a conftest.py imports pykafka2, and after pytest has put its own finder first."""
    finder = AsInstalled()
    sys.meta_path.insert(0, finder)
    early_config.add_cleanup(lambda: sys.meta_path.remove(finder))


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("pykafka2")
    group.addoption(
        "--simulation-seed", type=int, default=1, help="seed of the fixture `simulation` (default: 1)"
    )
    group.addoption(
        "--kafka-watchdog",
        type=_seconds,
        default=None,
        metavar="SECONDS",
        help="show what a test's clusters are doing if it runs that long, also where it hangs in a C client",
    )


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

        # Where standard error goes now, wherever pytest sends it while tests run.
        config.stash[WATCHDOG] = Watchdog(seconds, os.dup(2))


def pytest_unconfigure(config: pytest.Config) -> None:
    watchdog = config.stash.get(WATCHDOG, None)
    if watchdog is not None:
        watchdog.close()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, None]:
    """A test's fixtures are watched with it."""
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
    """Attach timelines to the reports of tests that failed with a cluster."""
    outcome = yield
    report: pytest.TestReport = outcome.get_result()
    if report.when == "teardown":
        return
    item.stash[FAILED] = report.failed or report.when == "setup"
    # Without the module there is no cluster.
    if report.failed and "pykafka2.testing.cluster" in sys.modules:
        from pykafka2.testing.fixtures.clusters import add_timelines

        add_timelines(report, call, getattr(item, "funcargs", {}))


def pytest_keyboard_interrupt(excinfo: pytest.ExceptionInfo[BaseException]) -> None:
    """Ctrl-C on a test that hangs: show what its clusters were doing."""
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
    """A Kafka cluster of three brokers (or what `@pytest.mark.kafka(...)` says), as good as new.

    Clients connect to `kafka_cluster.bootstrap_servers`; `.create_topic("orders", partitions=6)`, `.controls`
    and `.history` are what tests use most (docs/guides/testing.md).  Kept for the session and emptied between
    tests; a test that crashes brokers, changes configurations or uses groups or transactions has it to
    itself.  Fails the test if it leaves clients (of any library), threads, sockets or open transactions
    behind.
    """
    yield from _kafka_cluster_pool.shared(request, partial(_has_failed, request))


@pytest.fixture
def fresh_kafka_cluster(request: pytest.FixtureRequest) -> Iterator[KafkaCluster]:
    """As `kafka_cluster`, but started for this test and closed after it."""
    from pykafka2.testing.fixtures.clusters import fresh

    yield from fresh(request, partial(_has_failed, request))


@pytest.fixture
def kafka_tls_cluster(request: pytest.FixtureRequest) -> Iterator[TlsKafkaCluster]:
    """A fresh cluster that listens with TLS, with a throw-away authority (needs trustme): `client_options`
    are what a client needs.
    """
    from pykafka2.testing.fixtures.clusters import with_tls

    yield from with_tls(request, partial(_has_failed, request))


@pytest.fixture
def simulation(request: pytest.FixtureRequest) -> Iterator[Simulation]:
    """Brokers and clients in virtual time, from the seed of --simulation-seed (see `Simulation`)."""
    from pykafka2.testing.simulation.fixtures import simulated

    yield from simulated(request)
