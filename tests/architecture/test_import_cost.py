"""Importing pykafka2 is cheap: what is heavy loads at first use.

The times are rows of `benchmarks/imports.py` (10 ms and 100 ms beyond bare Python). A test asserts three
times as much, and more on a machine that is slower than that of the benchmark.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest

HEAVY = [
    "numpy",
    "pyarrow",
    "ssl",
    "asyncio",
    "zstandard",
    "backports.zstd",
    "cramjam",
    "importlib.metadata",
    "lz4",
    "snappy",
    "crc32c",
    "tqdm",
]
PARTS = [
    "cluster.client",
    "consumer.assignors",
    "consumer.fetch",
    "consumer.group.classic",
    "consumer.group.kip848",
    "consumer.options",
    "consumer.poll",
    "network",
    "options",
    "producer.bulk",
    "producer.options",
    "producer.sending",
    "producer.transactions.manager",
]
"""Modules of the clients that their constructors or first calls import."""

YARDSTICK = "import attrs"
YARDSTICK_SECONDS = 0.030
"""Processor time of the yardstick on the machine of the benchmark."""

CLIENTS = "from pykafka2 import KafkaProducer, KafkaConsumer"


def _python(code: str) -> str:
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.parametrize("statement", ["import pykafka2", CLIENTS])
def test_import_loads_no_heavy_module(statement: str) -> None:
    # A site-packages .pth file may load importlib.* by itself, so what bare Python has does not count.
    new = f"(set(sys.modules) - before) & {set(HEAVY)!r}"
    code = f"import sys; before = set(sys.modules); {statement}; print(sorted({new}))"
    assert _python(code) == "[]"


def test_importing_the_clients_imports_none_of_their_parts() -> None:
    parts = {f"pykafka2.{name}" for name in PARTS}
    assert _python(f"import sys; {CLIENTS}; print(sorted({parts!r} & sys.modules.keys()))") == "[]"


def test_parts_that_are_not_imported_exist() -> None:
    assert [name for name in PARTS if importlib.util.find_spec(f"pykafka2.{name}") is None] == []


@pytest.mark.gate
@pytest.mark.slow
@pytest.mark.parametrize(("statement", "limit"), [("import pykafka2", 0.010), (CLIENTS, 0.100)])
def test_the_import_is_quick(statement: str, limit: float) -> None:
    taken, yardstick = float("inf"), float("inf")
    for _ in range(5):  # in turn, as the load of the machine changes
        taken = min(taken, _processor_seconds(statement))
        yardstick = min(yardstick, _processor_seconds(YARDSTICK))
    assert taken < 3 * limit * max(1.0, yardstick / YARDSTICK_SECONDS)


def _processor_seconds(statement: str) -> float:
    # Processor time, as other processes may have the cores.
    return float(
        _python(f"import time; t = time.process_time(); {statement}; print(time.process_time() - t)")
    )


WITH_A_GROUP = """
import sys
from pykafka2 import KafkaConsumer
from pykafka2.testing import KafkaCluster
with KafkaCluster(brokers=1, topics={"t": 1}) as cluster:
    with KafkaConsumer("t", bootstrap_servers=cluster.bootstrap_servers, group_id="g") as consumer:
        while not consumer.assignment():
            consumer.poll(timeout_ms=500)
    print(*sorted(sys.modules))
"""


@pytest.mark.gate
@pytest.mark.slow
def test_a_group_of_consumers_imports_no_share_group() -> None:
    imported = _python(WITH_A_GROUP).split()
    assert "pykafka2.broker.coordinators.groups.service" in imported
    parts = ("broker.share", "broker.coordinators.share", "broker.coordinators.groups.share")
    assert [name for name in imported if name.startswith(tuple(f"pykafka2.{part}." for part in parts))] == []


FIRST_START = """
import sys
from pykafka2.testing import KafkaCluster
with KafkaCluster(brokers=1):
    print(*sorted(sys.modules))
"""


@pytest.mark.gate
@pytest.mark.slow
def test_the_first_start_of_a_cluster_imports_no_coordinator() -> None:
    """They come with the first group or transaction, although all handlers are imported."""
    imported = _python(FIRST_START).split()
    coordinators = "pykafka2.broker.coordinators"
    assert "pykafka2.broker.handlers.groups" in imported
    services = {f"{coordinators}.{kind}.service" for kind in ("groups", "transactions", "share")}
    assert not {*services, f"{coordinators}.groups.share.group", "pykafka2.broker.share.persister"} & {
        *imported
    }
    assert f"{coordinators}.transactions.verifier" not in imported
