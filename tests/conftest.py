"""Settings of the main suite: conformance has a stage of its own."""

from __future__ import annotations

import os
import signal
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

from tests.compiling import SharedCompiling, keep_bytecode
from tests.failures import FailuresAtOnce
from tests.gate import GATE_PROFILE, PLAIN_RUN, GateReport, LongestFirst, OneCase
from tests.hypothesis_start import leave_out_our_constants, make_unicode_tables
from tests.memory import MemoryReport, MemorySaver

# The suite tests the Python code, also in processes that it starts; `nox -s native` tests the extension.
os.environ.setdefault("PYKAFKA2_IMPLEMENTATION", "python")

# Shared, noisy machines: a slow example is not a failure, and a failing one must print how to repeat it.
settings.register_profile(
    "pykafka2",
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
# For a plain run, without the tests of the gate.
settings.register_profile("quick", parent=settings.get_profile("pykafka2"), max_examples=25)
# For the gate: `nox -s tests` and `nox -s long` try twice as many, in another order each time.
settings.register_profile(GATE_PROFILE, parent=settings.get_profile("pykafka2"), max_examples=50)
settings.load_profile("pykafka2")

collect_ignore = [] if os.environ.get("PYKAFKA2_CONFORMANCE") == "1" else ["conformance"]

if TYPE_CHECKING:
    from pykafka2.testing import KafkaCluster


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--max-memory-mb", type=int, help="fail the run if a process of it took more memory at its peak"
    )


def pytest_configure(config: pytest.Config) -> None:
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # In the background of a shell; the commands that tests start would ignore Ctrl-C, too.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if config.getoption("markexpr") == PLAIN_RUN:
        settings.load_profile("quick")
        leave_out_our_constants()
    elif config.getoption("--hypothesis-profile") == GATE_PROFILE:
        leave_out_our_constants()
    keep_bytecode()
    worker: dict[str, Any] | None = getattr(config, "workerinput", None)
    report = GateReport(config)
    one_case = OneCase(config, report)
    if worker is None:  # the workers of pytest-xdist come after this
        make_unicode_tables()
    else:
        number = int(worker["workerid"].removeprefix("gw"))
        config.pluginmanager.register(
            SharedCompiling(number, worker["workercount"], collect_ignore, one_case.leaves_out)
        )
    config.pluginmanager.register(one_case)
    config.pluginmanager.register(report)
    config.pluginmanager.register(LongestFirst())
    config.pluginmanager.register(MemorySaver())
    if FailuresAtOnce.is_wanted(config):
        config.pluginmanager.register(FailuresAtOnce(config))
    config.pluginmanager.register(MemoryReport(config))


@pytest.hookimpl(wrapper=True, optionalhook=True)
def pytest_xdist_auto_num_workers() -> Generator[None, int, int]:
    """One process more than there are cores, because each waits for a quarter of its time."""
    return (yield) + 1


@pytest.fixture
def kafka_cluster(fresh_kafka_cluster: KafkaCluster) -> KafkaCluster:
    """Our own tests look inside their clusters and change what others must not see."""
    return fresh_kafka_cluster
