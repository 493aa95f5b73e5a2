"""The test suites of three Go clients against the bundled broker: franz-go, segmentio's kafka-go, sarama.

`--share` runs the suites of SHARE instead: franz-go's tests of share groups with one replica and with three,
with and without its chaos mode, which ends connections after a second; and those of kfake, its own fake
broker, in a copy whose clusters are ours (go_clusters.py).

    python -m tests.conformance.go_suites [--share] [--suite NAME ...] [--real] [--records N]
                                          [--output FOLDER]

fetches each module through the Go proxy (pinned by version and by Go's own hash), builds its tests, starts
the cluster that its compose file asks for, and runs them.  Prints a table, and for each test that fails or
is left out the reason that EXPECTED or LEFT_OUT has; exit status 1 where there is none, or where an expected
failure passes.  `--real` asks Apache Kafka instead (franz-go and kafka-go), and judges nothing.

The suites sleep most of their time, so they run side by side, each in a network of its own where the kernel
lets us make one: kafka-go wants port 9092, sarama 29091 to 29095.  About six minutes after the first
download; part of `nox -s conformance`, with `--share` of `nox -s long`, not of `.ci/run`.  The clusters are
go_servers.py's.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import attrs

from .go_clusters import prepare_kfake
from .go_servers import SERVERS
from .maven import CURRENT

DOWNLOAD_TIMEOUT = 300.0
BUILD_TIMEOUT = 600.0
SUITE_TIMEOUT = 560.0
CHILD_TIMEOUT = SUITE_TIMEOUT + 60.0

RECORDS = 20_000
"""Records that each of franz-go's twelve chains moves through three groups; its own default is 500,000."""


@attrs.frozen
class Suite:
    """A module, pinned, and how its tests are built and run.

    `files`: the tests are those of these files.  `tests`: those that match this regular expression.
    `prepare` changes the files before they are built.  `parallel`: tests at a time, Go's default if 0.
    """

    module: str
    version: str
    hash: str
    package: str = "."
    tags: str = ""
    files: str = ""
    tests: str = ""
    prepare: Callable[[Path], None] | None = None
    parallel: int = 0
    environment: dict[str, str] = attrs.field(factory=dict)


FRANZ_GO = Suite(
    "github.com/twmb/franz-go",
    "v1.22.2",
    "h1:EdwIHGzD/4mgCpl/sNS0C74JYn6cL/r2KYS+8UC96Ww=",
    package="./pkg/kgo",
    # As its own CI has it against Apache Kafka.
    environment={"KGO_TEST_STABLE_FETCH": "true", "KGO_LOG_LEVEL": "none"},
)


def share_tests(**environment: str) -> Suite:
    """franz-go's tests of share groups with more environment."""
    return attrs.evolve(
        FRANZ_GO, tests="^TestShareGroup", environment={**FRANZ_GO.environment, **environment}
    )


SUITES = {
    "franz-go": FRANZ_GO,
    "franz-go-share-1": share_tests(KGO_TEST_RF="1"),
    "franz-go-share-1-chaos": share_tests(KGO_TEST_RF="1", KGO_TEST_CHAOS="1"),
    "franz-go-share-3": share_tests(KGO_TEST_RF="3"),
    "franz-go-share-3-chaos": share_tests(KGO_TEST_RF="3", KGO_TEST_CHAOS="1"),
    "kfake": Suite(
        "github.com/twmb/franz-go/pkg/kfake",
        "v0.0.0-20260804154521-adb3a18abe14",
        "h1:jomii5kh1cmGaglyoAEZGud71xQU57qqDyCmsYeH8uY=",
        tests="Share",
        prepare=prepare_kfake,
        parallel=4,
    ),
    "kafka-go": Suite(
        "github.com/segmentio/kafka-go",
        "v0.4.51",
        "h1:JgDPPG75tC1rWIS2Me6MwcvXJ6f49UQ4HjAOef71Hno=",
        environment={"KAFKA_VERSION": "4.0.0"},
    ),
    "kafka-go-sasl": Suite(
        "github.com/segmentio/kafka-go",
        "v0.4.51",
        "h1:JgDPPG75tC1rWIS2Me6MwcvXJ6f49UQ4HjAOef71Hno=",
        package="./sasl",
        environment={"KAFKA_VERSION": "4.0.0"},
    ),
    "sarama": Suite(
        "github.com/IBM/sarama",
        "v1.61.1",
        "h1:I59MWPHQUWqJNdRpsDUcbeCriog8SxjQaPfHNWxidEg=",
        tags="functional",
        files="functional_*_test.go",
        environment={"KAFKA_VERSION": CURRENT},
    ),
}

SHARE = [name for name in SUITES if name == "kfake" or "-share-" in name]
"""The suites of share groups alone."""

TOXIPROXY = Suite(
    "github.com/Shopify/toxiproxy/v2", "v2.5.0", "h1:i4LPT+qrSlKNtQf5QliVjdP08GyAH8+BUIc9gT0eahc="
)

NIL = "calls a nil function of its own, which ends the run, with Apache Kafka, too"
TWELVE = "two readers share partitions of 8, 8 and 8 messages, each is to read 12: fails on Apache Kafka, too"

START = "wants a start offset that the coordinator has only with the next write: fails on Apache Kafka, too"
SESSION = "wants the records of a silent member before their locks expire: fails on Apache Kafka, too"

EXPECTED: dict[str, dict[str, str]] = {
    "kfake": {"TestDescribeShareGroupOffsets": START, "TestShareGroupSessionTimeout": SESSION},
    "kafka-go": {
        "TestClientElectLeaders": "asks with a timeout of 0 ms: too late on Apache Kafka, too",
        "TestReaderConsumerGroup/consumer_group_rebalance": TWELVE,
        "TestReaderReadCompactedMessage": "segment.bytes=200: refused by Apache Kafka, too",
    },
    "sarama": {
        "TestFuncAdminDescribeConfig": "wants the prose that documents options, which is Kafka's",
    },
}
"""Tests that fail on the bundled broker, and why; docs/fidelity.md says so, too."""

LEFT_OUT: dict[str, dict[str, str]] = {
    "kafka-go": {
        "TestReaderConsumerGroup/verify_offset_committed": NIL,
        "TestReaderConsumerGroup/verify_offset_committed_when_using_interval_committer": NIL,
        "TestReaderConsumerGroup/consumer_group_commits_on_close": NIL,
    },
}
"""Tests that are not run, and why."""

OUTCOME = re.compile(r"^\s*--- (PASS|FAIL|SKIP): (\S+) \(([\d.]+)s\)", re.MULTILINE)
TEST = re.compile(r"^func (Test\w+)\(\w+ \*testing\.T\)", re.MULTILINE)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--suite", action="append", choices=SUITES, help="this one only; may be repeated")
    parser.add_argument("--share", action="store_true", help="run the suites of share groups")
    parser.add_argument("--real", action="store_true", help="run against Apache Kafka, to compare")
    parser.add_argument("--records", type=int, default=RECORDS, help=f"of franz-go's chains ({RECORDS})")
    parser.add_argument("--run", default="", metavar="REGEX", help="only these tests; judges nothing")
    parser.add_argument("--output", type=Path, metavar="FOLDER", help="keep what the tests printed here")
    parser.add_argument("--built", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    names: list[str] = options.suite or [name for name in SUITES if (name in SHARE) == options.share]
    if options.built is not None:
        return run(names[-1], options)  # the one that `side_by_side` has added
    if shutil.which("go") is None:
        raise SystemExit("the Go suites need the Go toolchain on PATH")
    with tempfile.TemporaryDirectory(prefix="go-suites-") as folder:
        build(names, Path(folder))
        return side_by_side(names, Path(folder), arguments)


def side_by_side(names: Sequence[str], folder: Path, arguments: list[str]) -> int:
    """Run each suite in a process of its own; 0 if all went as expected."""
    children = []
    for name in names:
        command = [sys.executable, "-m", __spec__.name, *arguments, "--suite", name, "--built", str(folder)]
        children.append(subprocess.Popen([*own_network(), *command], stdout=subprocess.PIPE))
    worst = 0
    for name, child in zip(names, children, strict=True):
        try:
            output, _ = child.communicate(timeout=CHILD_TIMEOUT)
        finally:
            child.kill()
        print(output.decode(errors="replace"), end="", flush=True)
        if child.returncode:
            worst = 1
            print(f"{name}: NOT as expected")
    return worst


def own_network() -> list[str]:
    """A prefix for a command so that it finds all ports free; empty if that is impossible."""
    inside = ["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
    if shutil.which("unshare") is None or shutil.which("ip") is None:
        return []
    return (
        inside if subprocess.run([*inside, "true"], capture_output=True, check=False).returncode == 0 else []
    )


# ---------------------------------------------------------------------- before the run


def build(names: Sequence[str], folder: Path) -> None:
    """Build the tests of these suites, and what they need, into the folder."""
    for name in names:
        suite = SUITES[name]
        source = fetched(suite, folder / f"{name}.source")
        if suite.prepare is not None:
            suite.prepare(source)
        command = ["go", "test", "-mod=mod", "-trimpath", "-c", "-tags", suite.tags, "-o", str(folder / name)]
        compiled([*command, suite.package], source)
    if "sarama" in names:
        source = fetched(TOXIPROXY, folder / "toxiproxy.source")
        compiled(
            ["go", "build", "-mod=mod", "-trimpath", "-o", str(folder / "toxiproxy"), "./cmd/server"], source
        )


def fetched(suite: Suite, target: Path) -> Path:
    """The module's files, in a folder that may be written.  Raises SystemExit for other files than pinned."""
    done = subprocess.run(
        ["go", "mod", "download", "-json", f"{suite.module}@{suite.version}"],
        cwd=target.parent,
        stdout=subprocess.PIPE,
        check=True,
        timeout=DOWNLOAD_TIMEOUT,
    )
    results = json.loads(done.stdout)
    if results["Sum"] != suite.hash:
        raise SystemExit(f"{suite.module} {suite.version} is {results['Sum']}, pinned is {suite.hash}")
    shutil.copytree(results["Dir"], target)
    for path in (target, *target.rglob("*")):
        path.chmod(path.stat().st_mode | 0o200)
    return target


def compiled(command: list[str], source: Path) -> None:
    done = subprocess.run(
        command,
        cwd=source,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
        timeout=BUILD_TIMEOUT,
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stdout.decode(errors='replace')}")


# ---------------------------------------------------------------------- the run of one


def run(name: str, options: argparse.Namespace) -> int:
    suite, folder = SUITES[name], options.built
    source = folder / f"{name}.source" / suite.package
    wanted = options.run or suite.tests
    if suite.files and not wanted:
        files = sorted(source.glob(suite.files))
        found = [test for file in files for test in TEST.findall(file.read_text())]
        wanted = f"^({'|'.join(found)})$"
    command = [str(folder / name), "-test.v", f"-test.timeout={SUITE_TIMEOUT:.0f}s", "-test.run", wanted]
    left_out = LEFT_OUT.get(name, {})
    if left_out:
        command += ["-test.skip", "|".join(f"{test}$" for test in left_out)]
    if suite.parallel:
        command += ["-test.parallel", str(suite.parallel)]
    with SERVERS[name](folder, options.real) as environment:
        done = subprocess.run(
            command,
            cwd=source,
            env={
                **os.environ,
                "KGO_TEST_RECORDS": str(options.records),
                **suite.environment,
                **environment,
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
            timeout=SUITE_TIMEOUT + 30,
        )
    output = done.stdout.decode(errors="replace")
    if options.output is not None:
        (options.output / f"{name}.log").write_text(output)
    as_expected = report(name, output)
    return 0 if as_expected or options.real or options.run else 1


def report(name: str, output: str) -> bool:
    """Print what came of the tests; whether each failure is an expected one, and the run went to its end."""
    suite, outcomes, expected = SUITES[name], OUTCOME.findall(output), EXPECTED.get(name, {})
    top = [outcome for outcome, test, _ in outcomes if "/" not in test]
    took = sum(float(seconds) for _, test, seconds in outcomes if "/" not in test)
    print(
        f"{name} {suite.version}: {len(top)} tests, {top.count('PASS')} passed, {top.count('FAIL')} failed, "
        f"{top.count('SKIP')} skipped; {took:.0f} s"
    )
    failed = {test for outcome, test, _ in outcomes if outcome == "FAIL"}
    leaves = {test for test in failed if not any(other.startswith(f"{test}/") for other in failed)}
    for test in sorted(leaves):
        reason = expected.get(test)
        print(f"  {'as expected' if reason else 'UNEXPECTED':12} {test}  {reason or ''}")
    for test in sorted(expected.keys() - leaves):
        print(f"  {'MENDED':12} {test}")
    for test, reason in LEFT_OUT.get(name, {}).items():
        print(f"  {'left out':12} {test}  {reason}")
    ended = re.search(r"^(PASS|FAIL)$", output, re.MULTILINE) is not None
    if not ended:
        print(f"  the run broke off:\n{output[-3000:]}")
    return ended and leaves == expected.keys()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
