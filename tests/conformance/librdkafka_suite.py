"""librdkafka's own integration tests against the bundled broker, or Apache Kafka.

    python -m tests.conformance.librdkafka_suite [--real] [--quick] [--idempotent] [--protocol consumer]
                                                 [NUMBER ...]

builds librdkafka with its tests (librdkafka_source.py), starts three brokers set up as its scripts set up
Apache Kafka, and runs its broker tests, four at a time.  Prints a table with the seconds each took, the first
complaint of each failure, and whether FAILURES expects it; exit status 1 if not.  Numbers run those tests
only.  Each test's output goes to the folder given by --logs.

Some call Kafka's shell scripts; where there is Java they get some, elsewhere they fail.  Some want the
headers of RapidJSON when they are built, and skip themselves without.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Container, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs

from pykafka2.errors import IllegalState

from .librdkafka_source import (
    LONG,
    NO_AUTO_CREATE,
    PARTS,
    PARTS_BY_TOKEN,
    SASL,
    broker_tests,
    built,
    kafka_path,
)
from .maven import CURRENT, KafkaUnavailable, kafka_jars
from .real_kafka import RealKafka
from .suites import AUTHORIZER

BROKERS = 3
WORKERS = 4
TEST_TIMEOUT = 1200.0
SLOWNESS = 2
"""A factor for the tests' own time limits: they run side by side, on machines of any kind."""

CONFIG: dict[str, object] = {
    # As librdkafka's scripts and scenarios/default.json set Apache Kafka up.
    "num.partitions": 4,
    "default.replication.factor": 3,
    "offsets.topic.replication.factor": 3,
    "auto.create.topics.enable": True,
    "delete.topic.enable": True,
    "log.retention.bytes": 1000000000,
    # Kafka's defaults, said because real_kafka.py makes them shorter.
    "group.initial.rebalance.delay.ms": 3000,
    "group.consumer.min.heartbeat.interval.ms": 5000,
    "group.consumer.heartbeat.interval.ms": 5000,
    "group.share.min.record.lock.duration.ms": 1000,
    "offsets.topic.num.partitions": 50,
    "transaction.state.log.num.partitions": 50,
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    **AUTHORIZER,
}
SASL_USER, SASL_PASSWORD = "admin", "admin-secret"
SESSION_MS = 20_000
"""Clients renew a session when nine tenths are over, so a busy machine has two seconds to hear of it."""
SCENARIOS: dict[str, dict[str, str]] = {
    "default": {},
    "noautocreate": {},
    "sasl": {
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": SASL_USER,
        "sasl.password": SASL_PASSWORD,
    },
    "token": {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.config": "principal=admin scope=requiredScope",
        "enable.sasl.oauthbearer.unsecure.jwt": "true",
    },
}
"""The environment of the tests, and how their clients log in; the first two are librdkafka's."""
RACKS = [f"RACK{number}" for number in range(1, BROKERS + 1)]
REAL_EXTRA = "broker.rack=RACK{node}\n"

FAILURES: dict[str, str] = {
    "0115_producer_auth": "its produce is to return before a refusal comes, and ours comes within 3 ms",
}
"""Tests that fail on the bundled broker, and why; docs/fidelity.md says more."""

RACING = frozenset({"0115_producer_auth"})
"""Those that pass all the same where the broker is slow enough."""

EAGER = "fails on Apache Kafka alike: written for rebalances that revoke everything"
FAILURES_OF_CONSUMER_PROTOCOL = {
    "0045_resubscribe_with_regex": "fails on Apache Kafka alike: one answer brings all ten partitions",
    "0045_subscribe_many_updates": "fails on Apache Kafka alike: librdkafka waits for its heartbeat",
    "0045_subscribe_update_topic_remove": EAGER,
    "0045_subscribe_update_non_exist_and_partchange": EAGER,
}

RUNNING = re.compile(r"=== Running test (\w+) ===")
ENDED = re.compile(r"=== Test (\w+) (PASSED|SKIPPED|FAILED) ===")
TIME = re.compile(r"^\[(\w+) */ *([\d.]+)s\]", re.MULTILINE)
COMPLAINT = re.compile(r'^### Test "(\w+).*\n.*', re.MULTILINE)

COLOURS = re.compile(r"\x1b\[[\d;]*m")


@attrs.frozen
class Outcome:
    """The result of a test."""

    name: str
    state: str
    seconds: float
    complaint: str = ""
    tries: int = 1


@attrs.frozen
class Run:
    """How tests are run: where, with what environment, and where their output goes."""

    sources: Path
    logs: Path
    environment: dict[str, str]
    scenario: str
    flags: list[str]

    def outcomes_of(self, job: tuple[str, str]) -> list[Outcome]:
        """Run one number's tests, or a part of them."""
        number, part = job
        command = ["./test-runner", "-p1", "-L", *self.flags]
        environment = {**os.environ, **self.environment, "TESTS": number, "TEST_SCENARIO": "default"}
        if self.scenario == "noautocreate":
            environment["TEST_SCENARIO"] = self.scenario
        if part:
            environment["SUBTESTS"] = part
        label = part.strip(":")
        log = self.logs / f"{number}-{label or self.scenario}.log"
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
        return [attrs.evolve(one, name=f"{one.name} {label}".strip()) for one in outcomes_in(text)]


def outcomes_in(text: str) -> list[Outcome]:
    """The results in the output of a run; its summary is missing if a test has left threads behind."""
    ended, last_seen = dict(ENDED.findall(text)), dict(TIME.findall(text))
    complaints = {found[1]: " ".join(found[0].split()) for found in reversed([*COMPLAINT.finditer(text)])}
    return [
        Outcome(
            name,
            ended.get(name, "FAILED"),
            float(last_seen.get(name, 0)),
            complaints.get(name, "" if name in ended else "it did not end: " + text[-200:]),
        )
        for name in RUNNING.findall(text)
    ]


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--real", action="store_true", help="run against Apache Kafka, to compare")
    parser.add_argument("--quick", action="store_true", help="the tests' own quick mode")
    parser.add_argument("--idempotent", action="store_true", help="all producers are idempotent")
    parser.add_argument("--protocol", choices=("classic", "consumer"), default="classic", help="of groups")
    parser.add_argument("--workers", type=int, default=WORKERS, help="tests at a time (%(default)s)")
    parser.add_argument("--logs", type=Path, help="where each test's output goes (a temporary folder)")
    parser.add_argument("numbers", nargs="*", metavar="NUMBER", help="run these only")
    options = parser.parse_args(arguments)
    sources = built()
    expected = {**FAILURES, **(FAILURES_OF_CONSUMER_PROTOCOL if options.protocol == "consumer" else {})}
    if options.real:
        expected = {}
    flags = ["-Q"] * options.quick + ["-P"] * options.idempotent
    wanted = options.numbers or broker_tests(sources)
    with tempfile.TemporaryDirectory(prefix="librdkafka-") as scratch:
        logs = options.logs or Path(scratch) / "logs"
        logs.mkdir(parents=True, exist_ok=True)
        outcomes: list[Outcome] = []
        for scenario in SCENARIOS:
            numbers = [one for one in wanted if is_of(one, scenario)]
            if numbers and not (options.real and SCENARIOS[scenario]):
                try:
                    with server(options.real, scenario) as addresses:
                        environment = _environment(Path(scratch) / scenario, addresses, options.protocol)
                        run = Run(sources, logs, environment, scenario, flags)
                        outcomes += _outcomes_of_all(run, numbers, options.workers, expected)
                except IllegalState as problems:  # of the brokers themselves, said when they are closed
                    outcomes.append(Outcome("the brokers", "FAILED", 0.0, str(problems)))
    return _report(outcomes, expected)


def is_of(number: str, scenario: str) -> bool:
    """Whether a test is run in this scenario."""
    numbers = {"noautocreate": NO_AUTO_CREATE, "sasl": SASL, "token": PARTS_BY_TOKEN}
    return number not in SASL if scenario == "default" else number in numbers[scenario]


def _outcomes_of_all(run: Run, numbers: list[str], workers: int, expected: Container[str]) -> list[Outcome]:
    ordered = sorted(numbers, key=lambda number: LONG.index(number) if number in LONG else len(LONG))
    parts = {"noautocreate": {}, "token": PARTS_BY_TOKEN}.get(run.scenario, PARTS)
    jobs = [(number, part) for number in ordered for part in parts.get(number, [""])]
    results: dict[str, Outcome] = {}
    again: list[tuple[str, str]] = []
    with ThreadPoolExecutor(workers) as pool:
        for job, outcomes in zip(jobs, pool.map(run.outcomes_of, jobs), strict=True):
            _show(outcomes, results)
            if any(one.state == "FAILED" and one.name not in expected for one in outcomes):
                again.append(job)
    # Some measure milliseconds, or sleep just long enough: they get another try, alone.
    for job in again:
        _show([attrs.evolve(one, tries=2) for one in run.outcomes_of(job)], results)
    for statistics in (run.sources / "tests").glob("stats_*.json"):
        statistics.unlink()
    return list(results.values())


def _show(outcomes: list[Outcome], results: dict[str, Outcome]) -> None:
    for one in outcomes:
        results[one.name] = one
        again = "  second try" if one.tries > 1 else ""
        print(f"{one.name:62} {one.state:8} {one.seconds:7.1f} s{again}", flush=True)


@contextmanager
def server(real: bool, scenario: str) -> Iterator[list[str]]:
    """Three brokers; where the scenario's clients come in."""
    config: dict[str, Any] = {**CONFIG, "auto.create.topics.enable": scenario != "noautocreate"}
    if SCENARIOS[scenario]:
        config["connections.max.reauth.ms"] = SESSION_MS
    if real:
        lines = [
            f"{name}={str(value).lower() if value is True or value is False else value}"
            for name, value in config.items()
        ]
        with RealKafka(kafka_jars(), brokers=BROKERS, extra=REAL_EXTRA + "\n".join(lines) + "\n") as kafka:
            yield kafka.bootstrap_servers.split(",")
        return
    from pykafka2.testing import KafkaCluster

    listeners = ["SASL_PLAINTEXT"] if SCENARIOS[scenario] else None
    users = {SASL_USER: SASL_PASSWORD} if listeners else None
    with KafkaCluster(
        BROKERS, config=config, racks=RACKS, listeners=listeners, users=users, process=True
    ) as cluster:
        yield cluster.bootstrap_servers.split(",")


def _environment(folder: Path, addresses: list[str], protocol: str) -> dict[str, str]:
    folder.mkdir()
    servers = ",".join(addresses)
    login = SCENARIOS[folder.name]
    if login:
        login = {"security.protocol": "SASL_PLAINTEXT", **login}
    configuration = folder / "test.conf"
    configuration.write_text(
        f"bootstrap.servers={servers}\nbroker.address.family=v4\n"
        f"test.topic.random=true\ntest.timeout.multiplier={SLOWNESS}\n"
        + "".join(f"{name}={value}\n" for name, value in login.items())
    )
    environment = {
        "RDKAFKA_TEST_CONF": str(configuration),
        "LD_LIBRARY_PATH": "../src:../src-cpp",
        "TEST_KAFKA_VERSION": CURRENT,
        "TEST_CONSUMER_GROUP_PROTOCOL": protocol,
        "BROKERS": servers,
    }
    try:
        environment["KAFKA_PATH"] = str(kafka_path(folder / "kafka", kafka_jars()))
    except KafkaUnavailable as problem:
        print(f"tests that call Kafka's shell scripts will fail: {problem}")
    return environment


def _report(outcomes: list[Outcome], expected: dict[str, str]) -> int:
    states = {state: [one for one in outcomes if one.state == state] for state in ("PASSED", "SKIPPED")}
    failed = [one for one in outcomes if one.state not in states]
    seconds = sum(one.seconds for one in outcomes)
    passed, skipped = len(states["PASSED"]), len(states["SKIPPED"])
    again = sum(one.tries > 1 for one in states["PASSED"])
    print(f"\n{passed} passed ({again} of them at the second try), {len(failed)} failed,", end=" ")
    print(f"{skipped} skipped themselves, {seconds:.0f} s of tests")
    for one in failed:
        known = expected.get(one.name)
        print(f"{'as expected' if known else 'UNEXPECTED':12} {one.name}  {known or one.complaint[:600]}")
    mended = [one.name for one in states["PASSED"] if one.name in expected and one.name not in RACING]
    for name in mended:
        print(f"{'MENDED':12} {name}")
    return 1 if mended or not {one.name for one in failed} <= expected.keys() else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
