"""Checks of load(): unreachable brokers, options of the clients, packages; no session."""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from pyspark.sql.types import BinaryType, StructField, StructType

from pykafka2.errors import NoBrokersAvailable, UnknownOption
from pykafka2.testing import KafkaCluster
from spark_connector import KafkaDataSource
from spark_connector.sink import preflight as checks
from spark_connector.sink.preflight import sink_options
from spark_connector.source.schema import spark_schema

VALUE = StructType([StructField("value", BinaryType())])
SHORT = {"kafka.default.api.timeout.ms": "1500"}
LONGEST = 20.0
"""Seconds on a busy machine, far below the default of 60."""


@pytest.fixture(params=["refused", "silent"])
def nowhere(request: pytest.FixtureRequest) -> Iterator[str]:
    """Two addresses where no broker responds: closed ports, or ports that accept and stay silent."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(2)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
            if request.param == "silent":
                one.listen(50)
        yield ",".join(f"127.0.0.1:{one.getsockname()[1]}" for one in sockets)


def test_load_fails_within_the_api_timeout_if_no_broker_responds(nowhere: str) -> None:
    source = KafkaDataSource({"kafka.bootstrap.servers": nowhere, "subscribe": "t", **SHORT})
    began = time.monotonic()
    with pytest.raises(NoBrokersAvailable, match=r"within 1\.5 s") as caught:
        source.schema()
    assert time.monotonic() - began < LONGEST
    assert all(address in str(caught.value) for address in nowhere.split(","))


def test_write_fails_within_the_api_timeout_if_no_broker_responds(nowhere: str) -> None:
    options = sink_options({"kafka.bootstrap.servers": nowhere, "topic": "t", **SHORT}, streaming=True)
    with pytest.raises(NoBrokersAvailable, match=r"within 1\.5 s"):
        checks.check_before_tasks(options, VALUE)


@pytest.mark.parametrize("delivery", ["at_least_once", "exactly_once"])
@pytest.mark.kafka(brokers=1, topics={"t": 1})
def test_sink_accepts_the_api_timeout_that_sources_take(kafka_cluster: KafkaCluster, delivery: str) -> None:
    options = {"kafka.bootstrap.servers": kafka_cluster.bootstrap_servers, "topic": "t", "delivery": delivery}
    options["kafka.default.api.timeout.ms"] = "30000"
    checks.check_before_tasks(sink_options(options, streaming=True), VALUE)


@pytest.mark.kafka(brokers=2, topics={"t": 1})
def test_load_gives_the_columns_of_a_topic_that_does_not_exist_yet(kafka_cluster: KafkaCluster) -> None:
    options = {"kafka.bootstrap.servers": kafka_cluster.bootstrap_servers, "subscribe": "later"}
    assert KafkaDataSource({**options, "columns": "value"}).schema() == VALUE


def test_load_refuses_an_unknown_option_of_the_clients_before_it_connects() -> None:
    options = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t", "kafka.fetch.max.byte": "1"}
    with pytest.raises(UnknownOption, match=r"nearest is 'fetch\.max\.bytes'"):
        KafkaDataSource(options).schema()


@pytest.mark.parametrize("package", ["numpy", "pyarrow"])
@pytest.mark.parametrize("method", ["schema", "reader", "streamReader", "writer", "streamWriter"])
def test_missing_package_is_named_on_the_driver(
    monkeypatch: pytest.MonkeyPatch, package: str, method: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    source = KafkaDataSource({"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t"})
    arguments = {
        "schema": (),
        "reader": (spark_schema(["value"]),),
        "streamReader": (spark_schema(["value"]),),
    }
    words = rf"needs {package} on the driver and on every worker. Run: pip install 'pykafka2\[spark\]'"
    with pytest.raises(ModuleNotFoundError, match=words):
        getattr(source, method)(*arguments.get(method, (VALUE, False)))
