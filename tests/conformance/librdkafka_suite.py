"""librdkafka's own integration tests against the bundled broker, or Apache Kafka.

    python -m tests.conformance.librdkafka_suite [--real] [--quick] [--protocol consumer] [NUMBER ...]

builds librdkafka with its tests (librdkafka_source.py), starts three brokers set up as its scripts set up
Apache Kafka, and runs its broker tests number by number, two at a time.  Prints a table with the seconds each
took, the first complaint of each failure, and whether FAILURES expects it; exit status 1 if not.  Numbers run
those tests only.  Output of each test goes to the folder given by --logs.

Some call Kafka's shell scripts; where there is Java they get some, elsewhere they fail.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs

from .librdkafka_source import built, kafka_path, numbers_of_broker_tests
from .maven import KafkaUnavailable, kafka_jars
from .real_kafka import RealKafka

BROKERS = 3
WORKERS = 2
SHOWN_VERSION = "4.3.1"
TEST_TIMEOUT = 900.0
SLOWNESS = 2
"""What the tests' own time limits are multiplied by: they run two at a time, on machines of any kind."""

CONFIG: dict[str, object] = {
    # As librdkafka's scripts and scenarios/default.json set Apache Kafka up.
    "num.partitions": 4,
    "default.replication.factor": 3,
    "offsets.topic.replication.factor": 3,
    "auto.create.topics.enable": True,
    "delete.topic.enable": True,
    "log.retention.bytes": 1000000000,
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
}
RACKS = [f"RACK{number}" for number in range(1, BROKERS + 1)]
NO_AUTO_CREATE = ["0045", "0107", "0111"]
"""They have tests of a scenario of their own, on brokers that create no topics."""

REAL_EXTRA = """\
broker.rack=RACK{node}
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
allow.everyone.if.no.acl.found=true
super.users=User:ANONYMOUS
"""

LEFT_OUT: dict[str, str] = {
    "0097": "TLS and its certificates",
    "0126": "SASL",
    "0135": "SASL",
    "0139": "runs on librdkafka's mock broker",
    "0142": "SASL",
    "0150": "runs on librdkafka's mock broker",
    **dict.fromkeys([f"01{number}" for number in range(70, 91)], "share groups"),
}

FAILURES: dict[str, str] = {}
"""Tests that fail on the bundled broker, and why; docs/fidelity.md says more."""

SUMMARY = re.compile(r"^\|\s*(\d{4}_\w+)\s*\|\s*(\w+)\s*\|\s*([\d.]+)s \|(.*)$", re.MULTILINE)
NOT_OURS = ("", "Filtered due to negative test flags")
"""Reasons why tests in the summary were skipped: of another scenario, or without a broker."""

PARTS: dict[str, list[str]] = {
    "0081": [
        f"do_test_{name}:"
        for name in (
            "unclean_destroy",
            "CreateTopics",
            "DeleteTopics",
            "CreatePartitions",
            "CreateAcls",
            "DescribeAcls",
            "DeleteAcls",
            "AlterConfigs",
            "IncrementalAlterConfigs",
            "DescribeConfigs",
            "DescribeConfigs_groups",
            "DeleteRecords",
            "ListConsumerGroups",
            "DescribeConsumerGroups",
            "DescribeTopics",
            "DescribeCluster",
            "DescribeConsumerGroups_with_authorized_ops",
            "DeleteGroups",
            "DeleteConsumerGroupOffsets",
            "ListOffsets",
            "AlterConsumerGroupOffsets",
            "ListConsumerGroupOffsets",
            "UserScramCredentials",
        )
    ],
}
"""A test ends at its first failure; these are run part by part."""

COLOURS = re.compile(r"\x1b\[[\d;]*m")


@attrs.frozen
class Outcome:
    """What became of a test."""

    name: str
    state: str
    seconds: float
    complaint: str = ""


@attrs.frozen
class Run:
    """How tests are run: where, with what environment, and where their output goes."""

    sources: Path
    logs: Path
    environment: dict[str, str]
    scenario: str
    quick: bool

    def outcomes_of(self, number: str) -> list[Outcome]:
        """Run one number's tests."""
        if number in PARTS and self.scenario == "default":
            return [one for part in PARTS[number] for one in self._outcomes_of(number, part)]
        return self._outcomes_of(number)

    def _outcomes_of(self, number: str, part: str = "") -> list[Outcome]:
        command = ["./test-runner", "-p1", "-L", *(["-Q"] if self.quick else [])]
        environment = {**os.environ, **self.environment, "TESTS": number, "TEST_SCENARIO": self.scenario}
        if part:
            environment["SUBTESTS"] = part
        label = part.strip(":")
        log = self.logs / f"{number}-{label or self.scenario}.log"
        started = time.monotonic()
        with log.open("wb") as output:
            try:
                subprocess.run(
                    command,
                    cwd=self.sources / "tests",
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    timeout=TEST_TIMEOUT,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                output.write(b"\nno end\n")
        text = COLOURS.sub("", log.read_text(errors="replace"))
        outcomes = [
            Outcome(f"{name} {label}".strip(), state, float(seconds), _complaint(text))
            for name, state, seconds, reason in SUMMARY.findall(text)
            if not (state == "SKIPPED" and reason.strip() in NOT_OURS)
        ]
        if not outcomes and "Running test" in text:  # it crashed: there is no summary
            seconds = time.monotonic() - started
            name = re.findall(r"Running test (\w+)", text)[-1]
            outcomes = [
                Outcome(f"{name} {label}".strip(), "FAILED", seconds, _complaint(text) or text[-200:])
            ]
        return outcomes


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--real", action="store_true", help="run against Apache Kafka, to compare")
    parser.add_argument("--quick", action="store_true", help="the tests' own quick mode")
    parser.add_argument("--protocol", choices=("classic", "consumer"), default="classic", help="of groups")
    parser.add_argument("--workers", type=int, default=WORKERS, help="tests at a time (%(default)s)")
    parser.add_argument("--logs", type=Path, help="where each test's output goes (a temporary folder)")
    parser.add_argument("numbers", nargs="*", metavar="NUMBER", help="run these only")
    options = parser.parse_args(arguments)
    sources = built()
    wanted = options.numbers or [
        number for number in numbers_of_broker_tests(sources) if number not in LEFT_OUT
    ]
    with tempfile.TemporaryDirectory(prefix="librdkafka-") as scratch:
        logs = options.logs or Path(scratch) / "logs"
        logs.mkdir(parents=True, exist_ok=True)
        outcomes: list[Outcome] = []
        for scenario in ("default", "noautocreate"):
            numbers = [one for one in wanted if scenario == "default" or one in NO_AUTO_CREATE]
            if numbers:
                with server(options.real, auto_create=scenario == "default") as addresses:
                    environment = _environment(Path(scratch) / scenario, addresses, options.protocol)
                    run = Run(sources, logs, environment, scenario, options.quick)
                    outcomes += _outcomes_of_all(run, numbers, options.workers)
    return _report(outcomes, complete=not (options.real or options.numbers))


def _outcomes_of_all(run: Run, numbers: list[str], workers: int) -> list[Outcome]:
    results: list[Outcome] = []
    with ThreadPoolExecutor(workers) as pool:
        for outcomes in pool.map(run.outcomes_of, numbers):
            results += outcomes
            for one in outcomes:
                print(f"{one.name:50} {one.state:8} {one.seconds:7.1f} s", flush=True)
    return results


@contextmanager
def server(real: bool, *, auto_create: bool) -> Iterator[list[str]]:
    """Three brokers; their addresses."""
    config: dict[str, Any] = {**CONFIG, "auto.create.topics.enable": auto_create}
    if real:
        lines = [
            f"{name}={str(value).lower() if value is True or value is False else value}"
            for name, value in config.items()
        ]
        with RealKafka(kafka_jars(), brokers=BROKERS, extra=REAL_EXTRA + "\n".join(lines) + "\n") as kafka:
            yield kafka.bootstrap_servers.split(",")
        return
    from pykafka2.testing import KafkaCluster

    with KafkaCluster(BROKERS, config=config, racks=RACKS, process=True) as cluster:
        yield cluster.bootstrap_servers.split(",")


def _environment(folder: Path, addresses: list[str], protocol: str) -> dict[str, str]:
    folder.mkdir()
    servers = ",".join(addresses)
    configuration = folder / "test.conf"
    configuration.write_text(
        f"bootstrap.servers={servers}\nbroker.address.family=v4\n"
        f"test.topic.random=true\ntest.timeout.multiplier={SLOWNESS}\n"
    )
    environment = {
        "RDKAFKA_TEST_CONF": str(configuration),
        "LD_LIBRARY_PATH": "../src:../src-cpp",
        "TEST_KAFKA_VERSION": SHOWN_VERSION,
        "TEST_CONSUMER_GROUP_PROTOCOL": protocol,
        "BROKERS": servers,
    }
    try:
        environment["KAFKA_PATH"] = str(kafka_path(folder / "kafka", kafka_jars()))
    except KafkaUnavailable as problem:
        print(f"tests that call Kafka's shell scripts will fail: {problem}")
    return environment


def _complaint(text: str) -> str:
    """The first thing a test complained about."""
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if line.startswith('### Test "'):
            return " ".join(lines[number : number + 2])[:400]
    return ""


def _report(outcomes: list[Outcome], *, complete: bool) -> int:
    states = {state: [one for one in outcomes if one.state == state] for state in ("PASSED", "SKIPPED")}
    failed = [one for one in outcomes if one.state not in states]
    seconds = sum(one.seconds for one in outcomes)
    passed, skipped = len(states["PASSED"]), len(states["SKIPPED"])
    print(f"\n{passed} passed, {len(failed)} failed, {skipped} skipped themselves, {seconds:.0f} s of tests")
    for one in failed:
        known = FAILURES.get(one.name)
        print(f"{'as expected' if known else 'UNEXPECTED':12} {one.name}  {known or one.complaint}")
    names = {one.name for one in failed}
    mended = sorted(FAILURES.keys() - names) if complete else []
    for name in mended:
        print(f"{'MENDED':12} {name}")
    return 1 if mended or not names <= FAILURES.keys() else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
