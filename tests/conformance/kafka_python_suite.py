"""kafka-python's own integration tests against the bundled broker, or Apache Kafka.

    python -m tests.conformance.kafka_python_suite [--real] [-- pytest's arguments]

fetches kafka-python's source distribution from PyPI through pip (pinned by its SHA-256), starts one broker,
and runs the distribution's `test/integration` with that broker as its external Kafka.  Prints the counts, the
failures, and whether each failure is one that FAILURES expects; exit status 1 if not.  Its SASL and TLS tests
start servers of their own kind from Kafka's shell scripts and are left out.

About a minute; part of `nox -s conformance` and `nox -s long`, not of `.ci/run`.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .maven import cache_folder, kafka_jars
from .real_kafka import RealKafka

VERSION = "3.0.12"
SHA256 = "4ccda3616b9aa5c353d74a97f2770d6cd1b950890d77ab0e8890e09a48eeed65"
SHOWN_VERSION = "4.3"
"""What the tests take the broker for; kafka-python negotiates no further than it knows."""

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

DOWNLOAD_TIMEOUT = 180.0
SUITE_TIMEOUT = 400.0

SERVICE = """
class ExternalService:
    def __init__(self, host, port):
        self.host, self.port = host, port

class SpawnedService:
    def __init__(self, *arguments):
        raise RuntimeError("this run starts no servers of its own")
"""
"""What the distribution leaves out of `test`: how a server that runs already is named."""

AUTHORIZER = """\
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
allow.everyone.if.no.acl.found=true
"""
"""Apache Kafka's alone: ACLs come to the bundled broker with a later step."""

FAILURES: dict[str, str] = {
    "test_admin_integration.py::test_create_describe_delete_acls": "ACLs come with a later step",
}
"""Tests that fail on the bundled broker, and why; docs/fidelity.md has a row for each."""


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--real", action="store_true", help="run against Apache Kafka, to compare")
    parser.add_argument("rest", nargs="*", help="arguments for pytest")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="kafka-python-") as folder, server(options.real) as address:
        tests = unpacked(Path(folder))
        output = run(tests, address, options.rest)
    print(output)
    failed = set(re.findall(r"^(?:FAILED|ERROR) \S*?(\w+\.py::\S+)", output, re.MULTILINE))
    for name in sorted(failed):
        print(f"{'as expected' if name in FAILURES else 'UNEXPECTED':12} {name}  {FAILURES.get(name, '')}")
    for name in sorted(FAILURES.keys() - failed):
        print(f"{'MENDED':12} {name}")
    return 1 if not options.real and not options.rest and failed != FAILURES.keys() else 0


@contextmanager
def server(real: bool) -> Iterator[str]:
    """One broker; its address."""
    if real:
        extra = AUTHORIZER + "\n".join(f"{name}={str(value).lower()}" for name, value in CONFIG.items())
        with RealKafka(kafka_jars(), extra=extra) as kafka:
            yield kafka.bootstrap_servers
        return
    from pykafka2.testing import KafkaCluster

    with KafkaCluster(brokers=1, config=CONFIG) as cluster:
        yield cluster.bootstrap_servers


def unpacked(folder: Path) -> Path:
    """The distribution's folder; raises SystemExit where it is not the one that is pinned."""
    cache = cache_folder()
    archive = cache / f"kafka_python-{VERSION}.tar.gz"
    if not archive.exists():
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:"]
        command += ["--dest", str(cache), f"kafka-python=={VERSION}"]
        subprocess.run(command, check=True, timeout=DOWNLOAD_TIMEOUT)
    found = hashlib.sha256(archive.read_bytes()).hexdigest()
    if found != SHA256:
        raise SystemExit(f"{archive.name} has SHA-256 {found}, pinned is {SHA256}")
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    tests = folder / f"kafka_python-{VERSION}"
    # Without it, `test` would be the standard library's package of that name.
    (tests / "test" / "__init__.py").touch()
    (tests / "test" / "service.py").write_text(SERVICE)
    return tests


def run(tests: Path, address: str, rest: list[str]) -> str:
    """pytest's output."""
    environment = {**os.environ, "KAFKA_VERSION": SHOWN_VERSION, "KAFKA_URI": f"kafka://{address}"}
    environment["PYTHONPATH"] = str(tests)  # its own package, not an installed one
    environment["KAFKA_ROOT"] = str(tests)  # must be there; nothing is started from it
    command = [sys.executable, "-m", "pytest", "test/integration", "-q", "-rfE", "--tb=short"]
    command += ["-o", "addopts=", "--rootdir=.", "--durations=8"]
    command += ["-p", "no:randomly", "-p", "no:cacheprovider", "-p", "no:pykafka2", "--color=no"]
    command += ["--ignore=test/integration/test_sasl_integration.py"]
    command += ["--ignore=test/integration/test_ssl_integration.py", *rest]
    done = subprocess.run(
        command,
        cwd=tests,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
        timeout=SUITE_TIMEOUT,
    )
    return done.stdout.decode(errors="replace")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
