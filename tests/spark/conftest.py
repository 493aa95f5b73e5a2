"""Fixtures of the Spark stage: one session for a run, the bundled broker in a process of its own.

Tests that ask for `spark` are marked so. A plain `python -m pytest` runs those marked `smoke` alone,
through test_smoke.py; `-m spark` runs all of them.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Generator, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pykafka2.testing import ClusterApi
from spark_connector.testing import local_session, spark_kafka, why_no_spark
from tests.spark import quick_java
from tests.spark.warm_pythons import warm_pythons

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.spark.killed_meanwhile import Killed

__all__ = ["spark_kafka"]  # the fixture that users have

NEED_LIMITS = ["test_readers.py"]
"""Files that need pyspark 4.2 or newer, though no session."""
NEED_AVAILABLE_NOW = [
    "test_remote_executors.py",
    "test_apache_kafka.py",
    "test_pipeline.py",
    "test_own_sink.py",
    "test_rolled_back_checkpoint.py",
    "test_split_batches.py",
    "test_torn_checkpoint.py",
    "test_token_providers.py",
    "test_stream_source.py",
    "test_write_and_read_back.py",
]
"""Files whose queries end by Trigger.AvailableNow, which sources in Python have since 4.2; before, Spark ends
after one micro-batch.  test_plain_stream.py is for all."""
NEED_PYSPARK = [
    "test_batch_identity.py",
    "test_batch_ranges.py",
    "test_contention.py",
    "test_crashes.py",
    "test_exactly_once.py",
    "test_fencing.py",
    "test_foreach_batch.py",
    "test_kills.py",
    "test_ledger_topic.py",
    "test_load.py",
    "test_many_tasks.py",
    "test_per_task.py",
    "test_progress.py",
    "test_replayed_batches.py",
    "test_sink_options.py",
    "test_sink_rows.py",
    "test_sink_sending.py",
    "test_stream_source.py",
    "test_multiple_runs_and_transactions.py",
    "test_own_sink.py",
    *NEED_LIMITS,
]
"""Files that need pyspark, though no session."""
_PYSPARK = find_spec("pyspark")
_LIMITS = _PYSPARK and Path(str(_PYSPARK.origin)).with_name("sql") / "streaming" / "datasource.py"
collect_ignore = (
    NEED_PYSPARK if not _LIMITS else [] if _LIMITS.exists() else [*NEED_LIMITS, *NEED_AVAILABLE_NOW]
)


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Generator[None]:
    """Mark what needs a session, before `-m` selects; put the smoke set first, as it takes longest."""
    items.sort(key=lambda item: "killed" in getattr(item, "fixturenames", ()))  # last: it goes on meanwhile
    for item in items:
        if "tests/spark/" not in item.path.as_posix():
            continue
        if item.path.name in NEED_PYSPARK or "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)
            # pyspark forgets sockets, and pandas warns of what is to come.
            item.add_marker(pytest.mark.filterwarnings("default"))
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.session)
    yield
    items.sort(key=lambda item: item.name != "test_smoke_set_passes")


@pytest.fixture(scope="session", autouse=True)
def _quick_java() -> None:
    os.environ.setdefault(quick_java.OPTIONS, quick_java.QUICK)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """`local[2]`, one for the run."""
    reason = why_no_spark()
    if reason is not None:
        if os.environ.get("PYKAFKA2_REQUIRE_SPARK"):
            pytest.fail(reason)
        pytest.skip(reason)
    with warm_pythons(tmp_path_factory.mktemp("python")) as python, pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_DRIVER_PYTHON", str(python))
        session = local_session(
            spark_sql_warehouse_dir=str(tmp_path_factory.mktemp("warehouse")),
            # Most plans are run once: to compile each takes longer than to interpret it.
            spark_sql_codegen_wholeStage="false",
            spark_sql_codegen_factoryMode="NO_CODEGEN",
        )
        yield session
        session.stop()


@pytest.fixture(scope="session")
def killed(spark_kafka: ClusterApi, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Killed]:
    """Two queries of another start of Spark's, which is killed while other tests run."""
    from tests.spark.killed_meanwhile import Killed  # with pyspark

    with Killed(spark_kafka.bootstrap_servers, tmp_path_factory.mktemp("killed")) as found:
        yield found


@pytest.fixture(scope="session", autouse=True)
def _begin_to_kill(request: pytest.FixtureRequest) -> None:
    """Before the first test, if any wants it: starting Spark takes long.  Of several processes the one that
    comes to the test does it then."""
    if hasattr(request.config, "workerinput"):
        return
    if any("killed" in getattr(item, "fixturenames", ()) for item in request.session.items):
        request.getfixturevalue("killed")


@pytest.fixture
def topic(spark_kafka: ClusterApi) -> str:
    """A new topic of two partitions."""
    name = f"t{uuid.uuid4().hex[:8]}"
    spark_kafka.create_topic(name, partitions=2, configs={"retention.ms": "-1"})
    return name


@pytest.fixture
def options(spark_kafka: ClusterApi, topic: str) -> dict[str, Any]:
    """Options for a source of that topic."""
    return {"kafka.bootstrap.servers": spark_kafka.bootstrap_servers, "subscribe": topic}
