"""kafka-python's own tests of its producer's public API, run with our producer: only the import is changed.

    python -m tests.conformance.kafka_python_ours [--version V | --all] [-- pytest's arguments]

takes the source distributions that kafka_python_suite.py pins, changes `from kafka import KafkaProducer` (and
the like) into ours in the tests of SELECTED and in what makes clients for them, and runs these against one
bundled broker.  Admin clients stay kafka-python's, and its plain values are handed to our producer.  Prints
the counts, the failures, and whether each is one that is expected; exit status 1 if not.

What looks into kafka-python's inside (its accumulator, sender, metrics, protocol) is not selected.  Half a
minute for each version; the newest is part of `nox -s conformance`, not of `.ci/run`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from .kafka_python_suite import CONFIG, NEWEST, SHOWN_VERSION, VERSIONS, complete
from .suites import Distribution, Serving, failed_tests, pytest_command, run, verdict

ROOT = Path(__file__).parents[2]
SUITE_TIMEOUT = 200.0

SELECTED = {
    "3.0.12": ["test/test_serializer.py", "test/integration/test_producer_integration.py"],
    "2.3.3": [
        "test/test_producer.py::test_kafka_producer_thread_close",
        "test/integration/test_producer_integration.py",
    ],
    "2.2.21": [
        "test/test_producer.py::test_kafka_producer_thread_close",
        "test/integration/test_producer_integration.py",
    ],
    "2.0.6": ["test/test_producer.py", "--deselect=test/test_producer.py::test_buffer_pool"],
}
"""The tests that use what is documented of the producer."""

CHANGES = {
    "from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer": (
        "from kafka import KafkaAdminClient\nfrom pykafka2 import KafkaConsumer, KafkaProducer"
    ),
    "from kafka import KafkaConsumer, KafkaProducer, TopicPartition": (
        "from kafka import TopicPartition\nfrom pykafka2 import KafkaConsumer, KafkaProducer"
    ),
    "from kafka import KafkaProducer": "from pykafka2 import KafkaProducer",
    "from kafka.serializer import": "from pykafka2.serializers import",
    # Its fixture gives it to consumers without a group, too, where ours says that it does nothing.
    "            'heartbeat_interval_ms': 500,": "",
}
"""Line by line."""

_INSIDE = (
    "asks the producer for the message format's version, and its metadata for a checksum and header size"
)
_ASKS = "test_kafka_producer_proper_record_metadata"


def _failures(version: str) -> dict[str, str]:
    """Tests that fail, and why; docs/guides/migration.md says so to users."""
    file = "test_producer.py" if version == "2.0.6" else "test_producer_integration.py"
    failures = {f"{file}::{_ASKS}[{codec}]": _INSIDE for codec in (None, "gzip", "snappy", "lz4", "zstd")}
    if version == NEWEST:
        failures["test_serializer.py::test_default_serializer_rejects_non_bytes_str"] = (
            "wants an AttributeError; ours is a SerializationError"
        )
    return failures


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--version", choices=list(VERSIONS), default=NEWEST)
    parser.add_argument("--all", action="store_true", help="every version, one after another")
    parser.add_argument("rest", nargs="*", help="arguments for pytest")
    options = parser.parse_args(arguments)
    versions = list(VERSIONS) if options.all else [options.version]
    as_expected = [_is_as_expected(version, options.rest) for version in versions]
    return 0 if all(as_expected) else 1


def _is_as_expected(version: str, rest: list[str]) -> bool:
    with (
        tempfile.TemporaryDirectory(prefix="kafka-python-") as folder,
        Serving(CONFIG).started(real=False) as address,
    ):
        tests = Distribution("kafka-python", version, VERSIONS[version]).unpacked(Path(folder))
        complete(tests, version)
        _change_imports(tests)
        environment = {
            "KAFKA_VERSION": SHOWN_VERSION[version],
            "KAFKA_URI": f"kafka://{address}",
            "PYTHONPATH": f"{tests}:{ROOT}",  # its own package, not an installed one; and ours
            "KAFKA_ROOT": str(tests),  # must be there; nothing is started from it
        }
        command = pytest_command("--rootdir=.", "-W", "ignore", *SELECTED[version], *rest)
        output = run(command, tests, environment, SUITE_TIMEOUT)
    print(f"kafka-python {version}'s tests with our producer\n{output}")
    return bool(rest) or verdict(failed_tests(output), _failures(version))


def _change_imports(tests: Path) -> None:
    for path in (tests / "test").rglob("*.py"):
        text = path.read_text()
        changed = "\n".join(_changed(line) for line in text.split("\n"))
        if changed != text:
            path.write_text(changed)


def _changed(line: str) -> str:
    for theirs, ours in CHANGES.items():
        if line.startswith(theirs):
            return ours + line[len(theirs) :]
    return line


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
