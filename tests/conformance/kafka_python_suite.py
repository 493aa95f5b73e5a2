"""kafka-python's own integration tests against the bundled broker, or Apache Kafka.

    python -m tests.conformance.kafka_python_suite [--version V | --all] [--real] [-- pytest's arguments]

fetches kafka-python's source distribution from PyPI through pip (pinned by its SHA-256), starts one broker,
and runs the distribution's integration tests with that broker as its external Kafka.  Prints the counts, the
failures, and whether each failure is one that FAILURES expects; exit status 1 if not.  Its SASL and TLS tests
start servers of their own kind from Kafka's shell scripts and are left out.

About a minute for each version; the newest is part of `nox -s conformance` and `nox -s long`, not of
`.ci/run`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from .suites import Distribution, Serving, failed_tests, pytest_command, run, verdict

VERSIONS = {
    "3.0.12": "4ccda3616b9aa5c353d74a97f2770d6cd1b950890d77ab0e8890e09a48eeed65",
    "2.3.3": "c566a326161595d18e6a65069fb5cee8e389528529932b224ce57641ce49de1d",
    "2.2.21": "626fdaa737515d3a9dc89f972e4b22757522c818c40bfe3767ae278be27ffdb7",
    "2.0.6": "3ac47e7c41a67a1c23f1856c1953594440bb3d9cd532ad70e353982724e5d52d",
}
"""The newest of each line, with the SHA-256 of its distribution."""

NEWEST = "3.0.12"
SHOWN_VERSION = {"3.0.12": "4.3", "2.3.3": "4.0", "2.2.21": "4.0", "2.0.6": "2.6"}
"""The newest release that each version knows: its tests expect that version of a newer broker, too."""

CONFIG: dict[str, object] = {
    # As test/integration's template of kafka.properties sets Apache Kafka.
    "num.partitions": 4,
    "default.replication.factor": 1,
    "offsets.topic.replication.factor": 1,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "auto.create.topics.enable": True,
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 1000,  # test_group asks for less than Kafka's default of 6 s
}

SUITE_TIMEOUT = 400.0

SERVICE = """
class ExternalService:
    def __init__(self, host, port):
        self.host, self.port = host, port

    def open(self):
        pass

class SpawnedService:
    def __init__(self, *arguments):
        raise RuntimeError("this run starts no servers of its own")
"""
"""A setting that the distribution leaves out of `test`: the name of a server that is running already."""

FIXTURES_OF_2_0 = """
import os
import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from test.testutil import random_string

ADDRESS = os.environ["KAFKA_URI"].removeprefix("kafka://")


class Broker:
    host, _, port = ADDRESS.partition(":")
    port = int(port)

    def get_bootstrap_servers(self):
        return ADDRESS

    bootstrap_server = get_bootstrap_servers

    def create_topics(self, names):
        # As in the tests' own fixtures: a request for a topic creates it.
        producer = KafkaProducer(bootstrap_servers=ADDRESS)
        for name in names:
            assert producer.partitions_for(name)
        producer.close()


@pytest.fixture(scope="module")
def kafka_broker():
    return Broker()


@pytest.fixture
def topic(kafka_broker, request):
    name = "%s_%s" % (request.node.name, random_string(10))
    kafka_broker.create_topics([name])
    return name


def factory_of(make, defaults):
    made = []

    def factory(*arguments, **options):
        made.append(make(*arguments, **{**defaults, **options, "bootstrap_servers": ADDRESS}))
        return made[-1]

    return made, factory


@pytest.fixture
def kafka_consumer_factory(topic):
    defaults = {"auto_offset_reset": "earliest", "heartbeat_interval_ms": 500, "client_id": "consumer"}
    made, factory = factory_of(KafkaConsumer, defaults)
    yield lambda topics=(topic,), **options: factory(*topics, **options)
    for client in made:
        client.close()


@pytest.fixture
def kafka_consumer(kafka_consumer_factory):
    return kafka_consumer_factory()


@pytest.fixture
def kafka_producer_factory():
    made, factory = factory_of(KafkaProducer, {"client_id": "producer"})
    yield factory
    for client in made:
        client.close()


@pytest.fixture
def kafka_producer(kafka_producer_factory):
    return kafka_producer_factory()


@pytest.fixture
def kafka_admin_client():
    made, factory = factory_of(KafkaAdminClient, {"client_id": "admin"})
    yield factory()
    for client in made:
        client.close()


@pytest.fixture
def send_messages(topic, kafka_producer, request):
    def send(numbers, partition=0, topic=topic, producer=kafka_producer, request=request):
        values = [("%s-%s-%s" % (n, request.node.name, random_string(8))).encode() for n in numbers]
        futures = [producer.send(topic, value=value, partition=partition) for value in values]
        producer.flush()
        assert all(future.succeeded() for future in futures)
        return values

    return send
"""
"""The distributions of 2.0 leave their fixtures out, too; these are ours."""

TESTS_OF_2_0 = ("test_admin_integration", "test_consumer_integration", "test_producer", "test_consumer_group")

FAILURES: dict[str, str] = {}
"""Tests of every version that fail on the bundled broker, and why; docs/fidelity.md has a row for each."""

FAILURES_OF_2_0 = {
    "test_admin_integration.py::test_describe_consumer_group_does_not_exist": (
        "wants the first FindCoordinator refused; ours names the coordinator at once"
    ),
}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--version", choices=list(VERSIONS), default=NEWEST)
    parser.add_argument("--all", action="store_true", help="every version, one after another")
    parser.add_argument("--real", action="store_true", help="run against Apache Kafka, to compare")
    parser.add_argument("rest", nargs="*", help="arguments for pytest")
    options = parser.parse_args(arguments)
    versions = list(VERSIONS) if options.all else [options.version]
    as_expected = [_is_as_expected(version, options.real, options.rest) for version in versions]
    return 0 if all(as_expected) else 1


def _is_as_expected(version: str, real: bool, rest: list[str]) -> bool:
    with (
        tempfile.TemporaryDirectory(prefix="kafka-python-") as folder,
        Serving(CONFIG).started(real) as address,
    ):
        tests = Distribution("kafka-python", version, VERSIONS[version]).unpacked(Path(folder))
        complete(tests, version)
        environment = {
            "KAFKA_VERSION": SHOWN_VERSION[version],
            "KAFKA_URI": f"kafka://{address}",
            "PYTHONPATH": str(tests),  # its own package, not an installed one
            "KAFKA_ROOT": str(tests),  # must be there; nothing is started from it
        }
        command = pytest_command("--rootdir=.", *_selection(version), *rest)
        output = run(command, tests, environment, SUITE_TIMEOUT)
    print(f"kafka-python {version} on {'Apache Kafka' if real else 'the bundled broker'}\n{output}")
    return bool(real or rest) or verdict(failed_tests(output), _failures_of(version))


def _failures_of(version: str) -> dict[str, str]:
    return FAILURES | FAILURES_OF_2_0 if version.startswith("2.0") else FAILURES


def complete(tests: Path, version: str) -> None:
    """Add what the distribution leaves out of its tests."""
    # Without it, `test` would be the standard library's package of that name.
    (tests / "test" / "__init__.py").touch()
    (tests / "test" / "service.py").write_text(SERVICE)
    if version.startswith("2.0"):
        (tests / "test" / "conftest.py").write_text(FIXTURES_OF_2_0)
        (tests / "mock.py").write_text("from unittest.mock import *\n")  # a package of its own in Python 2


def _selection(version: str) -> list[str]:
    if version.startswith("2.0"):
        return [f"test/{name}.py" for name in TESTS_OF_2_0]
    left_out = [f"--ignore=test/integration/test_{name}_integration.py" for name in ("sasl", "ssl")]
    return ["test/integration", *left_out]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
