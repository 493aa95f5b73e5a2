"""Sessions to run by hand: `nox -s tests`, `nox -s lint`, `nox -s long`.

`long` runs everything that takes too long for `.ci/run`; its figures belong in docs/benchmarks.md and
docs/reliability.md, with command, commit and date.
"""

from __future__ import annotations

import os
from pathlib import Path
from shutil import which

import nox

nox.options.sessions = ["lint", "tests"]
nox.options.reuse_existing_virtualenvs = True

PYTHONS = ["3.11", "3.12", "3.13", "3.14"]
SPARKS = ["4.1.1", "4.2.0", "4.3.0"]


@nox.session
def lint(session: nox.Session) -> None:
    """Check format, lint rules, types and layers, and build the documentation."""
    session.install(".[test,docs]")
    session.run("ruff", "format", "--check", ".")
    session.run("ruff", "check", ".")
    session.run("mypy")
    session.run("lint-imports")
    session.run("mkdocs", "build", "--strict", env={"NO_MKDOCS_2_WARNING": "1"})


@nox.session(python=PYTHONS)
def tests(session: nox.Session) -> None:
    """Run the main suite, including the tests that a plain `pytest` skips."""
    session.install(".[test,docs]")
    session.run("pytest", "-m", "", *session.posargs)


@nox.session(python=PYTHONS)
def packages(session: nox.Session) -> None:
    """Install wheel and source distribution as a user would and try them; `--dist FOLDER` has built ones."""
    session.install("attrs", "hatchling>=1.28", "uv>=0.9")
    session.run("python", "-m", "tests.packages.as_a_user", *session.posargs)


@nox.session
def wheels(session: nox.Session) -> None:
    """Check that each required package has a wheel for each Python and platform: no compiler needed."""
    session.install("attrs", "pip>=25.3", "uv>=0.9")
    session.run("python", "-m", "tests.packages.wheels", *session.posargs)


@nox.session
def native(session: nox.Session) -> None:
    """Build the wheel of pykafka2-c, and test it: suites, random batches, sanitizers, other Pythons."""
    session.install(".[test]", "abi3audit>=0.0.20", "setuptools>=77")
    session.run("pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", "build/native", "./native")
    [wheel] = Path("build/native").glob("pykafka2_c-*-cp311-abi3-*.whl")
    session.install("--force-reinstall", str(wheel))
    session.run("abi3audit", "--strict", str(wheel))
    compiled = {"PYKAFKA2_IMPLEMENTATION": "c", "PYKAFKA2_REQUIRE_NATIVE": "1"}
    folders = ("records", "producer", "consumer", "aio", "native", "fuzz")
    selected = ("-m", "not pure and not long and not spark")
    session.run("pytest", "-q", *selected, *(f"tests/{name}" for name in folders), env=compiled)
    session.run("python", "-m", "tests.fuzz.run", "--frames", "100000", "--target", "records", env=compiled)
    session.run("python", "-m", "tests.fuzz.run", "--frames", "100000", "--target", "fetched", env=compiled)
    session.run("python", "-m", "tests.native.differential", "--batches", "80000", *session.posargs)
    session.run("python", "-m", "tests.native.counts", "--records", "1000000")
    session.run("python", "-m", "tests.native.sanitized")
    session.run("python", "-m", "tests.packages.pythons", "--native", *PYTHONS[1:])


@nox.session
def conformance(session: nox.Session) -> None:
    """Compare with Apache Kafka's schemas, bytes and brokers, and run other clients and their tests."""
    session.install(".[test]")
    session.run(
        "pytest",
        "tests/conformance",
        "-n",
        "0",  # one Apache Kafka for all
        "-p",
        "no:randomly",
        *session.posargs,
        env={"PYKAFKA2_CONFORMANCE": "1"},
    )
    # The tests of kafka-python and librdkafka, and programs with other Python clients; too long for the gate.
    session.run("python", "-m", "tests.conformance.kafka_python_suite")
    session.run("python", "-m", "tests.conformance.kafka_python_ours")
    session.run("python", "-m", "tests.conformance.python_clients")
    if which("node"):
        session.run("python", "-m", "tests.conformance.recipe_programs")
    # The tests of three Go clients.
    if which("go"):
        session.run("python", "-m", "tests.conformance.go_suites")
        session.run("python", "-m", "tests.conformance.go_kadm")
    session.run("python", "-m", "tests.conformance.librdkafka_suite", "--quick")


@nox.session
@nox.parametrize("version", SPARKS)
def spark(session: nox.Session, version: str) -> None:
    """Run the tests with a Spark session on one version of Spark and Spark Connect; needs Java 17."""
    session.install(".[test]", f"pyspark[connect]=={version}")
    session.run(
        "pytest",
        "tests/spark",
        "-n",
        "0",
        "-m",
        "spark",
        *session.posargs,
        env={"PYKAFKA2_REQUIRE_SPARK": "1"},
    )
    if version != SPARKS[0]:  # its streaming sources cannot limit a batch
        session.run("python", "-m", "examples.pipeline")  # the gate runs it within the tests' Spark session


@nox.session
def long(session: nox.Session) -> None:
    """Run everything that takes too long for the gate.

    That is 10,000 seeds of each simulated scenario, fuzzed frames, the suite three times, older releases of
    Apache Kafka, Streams and Connect, kills of Spark, all of librdkafka's tests, franz-go's of share groups,
    pyright on the public signatures, and every benchmark.

    Results are kept in files named after the commit, so an interrupted session resumes.
    `python -m tests.campaign.run --scenario producers --summary FILE` prints the summary of a file again. The
    benchmarks' figures are kept, too; a missed target fails the session at its end.
    """
    session.install(".[test,bench,spark-test]")
    commit = session.run("git", "rev-parse", "--short", "HEAD", external=True, silent=True)
    jobs = ("--jobs", str(os.cpu_count() or 1))
    for scenario in ("producers", "consumers", "copies", "aio", "queues", "system"):
        seeds = ("--corpus", "0-9999", "--resume", f"seeds-{scenario}-{str(commit).strip()}.jsonl")
        session.run("python", "-m", "tests.campaign.run", "--scenario", scenario, *seeds, *jobs)
    session.run("python", "-m", "tests.campaign.transaction_run", "--seeds", "0-499", *jobs)
    session.install("basedpyright==1.40.2")
    session.run("python", "-m", "tests.typing.with_pyright")
    # Each commit fuzzes other frames; a failure is printed with the command that repeats it.
    seed = str(int(str(commit).strip(), 16))
    session.run("python", "-m", "tests.fuzz.run", "--frames", "100000", "--seed", seed, *jobs)
    for _ in range(3):
        # All in one process, whose memory must not grow beyond the limit.
        session.run("pytest", "-q", "-n", "0", "-m", "", "--max-memory-mb", "450")
    # Apache Kafka 4.3.1, 3.9.1 and 2.8.2, and tests that wait for long; the gate has 4.4.0 alone.
    conformance = {"PYKAFKA2_CONFORMANCE": "1"}
    session.run("pytest", "tests/conformance", "-n", "0", "-p", "no:randomly", "-m", "long", env=conformance)
    # Streams, Connect, MirrorMaker and all tools, on the bundled broker and on Apache Kafka.
    session.run("python", "-m", "tests.conformance.java_world")
    # Kill Spark at every step of the sink's protocol, on the bundled broker and on Apache Kafka.
    kept = ("--resume", f"kills-{str(commit).strip()}.jsonl")
    session.run("python", "-m", "tests.spark.kills", *kept)
    for protocol in ("classic", "consumer"):
        session.run("python", "-m", "tests.conformance.librdkafka_suite", "--protocol", protocol)
    # The tests of share groups of franz-go and of its fake broker.
    if which("go"):
        session.run("python", "-m", "tests.conformance.go_suites", "--share")
    # The recipes for FastAPI and Node, which the gate's environment does not have.
    if which("node"):
        session.run("python", "-m", "tests.conformance.recipe_programs")
    else:
        session.run("python", "-m", "tests.conformance.recipe_programs", "fastapi")
    # Takes hours. A missed ratio is in the tables; it does not end the session here.
    kept = ("--resume", f"runs-producer-{str(commit).strip()}.jsonl")
    session.run("python", "-m", "benchmarks.producer", *kept, success_codes=[0, 1])
    session.run("python", "-m", "benchmarks.consumer", success_codes=[0, 1])
    session.run("python", "-m", "benchmarks.aio", success_codes=[0, 1])
    session.run("python", "-m", "benchmarks.share", success_codes=[0, 1])
    for version in SPARKS:
        session.notify(f"spark(version='{version}')")
    session.run("python", "-m", "benchmarks.spark", "--write", success_codes=[0, 1])
    # Run all benchmarks even if one misses its target; then the session fails at its end.
    benchmarks = (
        "imports",
        "micro",
        "io_under_load",
        "cluster",
        "command_line",
        "broker_acks",
        "broker_speed",
        "compaction",
        "hostile_readers",
        "security",
    )
    figures = ("--figures", f"figures-{str(commit).strip()}.log")
    session.run("python", "-m", "benchmarks.every", *figures, *benchmarks)
