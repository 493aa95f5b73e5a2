"""Sessions that people run by hand: `nox -s tests`, `nox -s lint`, `nox -s long`.

`long` is everything that is too long for `.ci/run`; its figures belong in docs/benchmarks.md and
docs/reliability.md, with command, commit and date.
"""

from __future__ import annotations

import os
from shutil import which

import nox

nox.options.sessions = ["lint", "tests"]
nox.options.reuse_existing_virtualenvs = True

PYTHONS = ["3.11", "3.12", "3.13", "3.14"]
SPARKS = ["4.1.1", "4.2.0", "4.3.0"]


@nox.session
def lint(session: nox.Session) -> None:
    """Format, lint, types, layers, the documentation's site."""
    session.install(".[test,docs]")
    session.run("ruff", "format", "--check", ".")
    session.run("ruff", "check", ".")
    session.run("mypy")
    session.run("lint-imports")
    session.run("mkdocs", "build", "--strict", env={"NO_MKDOCS_2_WARNING": "1"})


@nox.session(python=PYTHONS)
def tests(session: nox.Session) -> None:
    """The main suite, also what a plain `pytest` leaves out."""
    session.install(".[test]")
    session.run("pytest", "-m", "", *session.posargs)


@nox.session(python=PYTHONS)
def packages(session: nox.Session) -> None:
    """Install wheel and source distribution as a user and try them; `--dist FOLDER` takes built ones."""
    session.install("attrs", "hatchling>=1.28", "uv>=0.9")
    session.run("python", "-m", "tests.packages.as_a_user", *session.posargs)


@nox.session
def wheels(session: nox.Session) -> None:
    """Every required package has a wheel for each Python and platform, so that nothing needs a compiler."""
    session.install("attrs", "pip>=25.3", "uv>=0.9")
    session.run("python", "-m", "tests.packages.wheels", *session.posargs)


@nox.session
def conformance(session: nox.Session) -> None:
    """Apache Kafka's schemas, bytes and brokers, and other people's clients."""
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
    # kafka-python's and librdkafka's own tests, exercises of other Python clients; too long for the gate.
    session.run("python", "-m", "tests.conformance.kafka_python_suite")
    session.run("python", "-m", "tests.conformance.kafka_python_ours")
    session.run("python", "-m", "tests.conformance.python_clients")
    if which("node"):
        session.run("python", "-m", "tests.conformance.recipe_programs")
    # The same of three Go clients, side by side.
    if which("go"):
        session.run("python", "-m", "tests.conformance.go_suites")
        session.run("python", "-m", "tests.conformance.go_kadm")
    # Streams, Connect, MirrorMaker and all tools, here and on Apache Kafka; too long as well.
    session.run("python", "-m", "tests.conformance.java_world")
    session.run("python", "-m", "tests.conformance.librdkafka_suite", "--quick")


@nox.session
@nox.parametrize("version", SPARKS)
def spark(session: nox.Session, version: str) -> None:
    """The tests with a Spark session, over Spark's versions, and through Spark Connect; needs Java 17."""
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
    if version != SPARKS[0]:  # whose sources cannot be limited
        session.run("python", "-m", "examples.pipeline")  # the gate has it in the session of its tests


@nox.session
def long(session: nox.Session) -> None:
    """10,000 seeds of each simulated scenario, a million damaged frames, the suite three times over, kills
    of Spark, all of librdkafka's tests, the signatures as pyright sees them, every benchmark.

    Seeds and runs of producers are kept in files of the commit's name: a session that was stopped goes on
    where it was; `python -m tests.campaign.run --scenario producers --summary FILE` says again what they
    came to.  The benchmarks' figures are kept, too; missed targets fail the session at its end.
    """
    session.install(".[test,bench,spark-test]")
    commit = session.run("git", "rev-parse", "--short", "HEAD", external=True, silent=True)
    jobs = ("--jobs", str(os.cpu_count() or 1))
    for scenario in ("producers", "consumers", "copies", "system"):
        seeds = ("--corpus", "0-9999", "--resume", f"seeds-{scenario}-{str(commit).strip()}.jsonl")
        session.run("python", "-m", "tests.campaign.run", "--scenario", scenario, *seeds, *jobs)
    session.run("python", "-m", "tests.campaign.transaction_run", "--seeds", "0-499", *jobs)
    session.install("basedpyright==1.40.2")
    session.run("python", "-m", "tests.typing.with_pyright")
    # Other frames for each commit; what is found is told with how to read it again.
    seed = str(int(str(commit).strip(), 16))
    session.run("python", "-m", "tests.fuzz.run", "--frames", "100000", "--seed", seed, *jobs)
    for _ in range(3):
        # All in one process, which must not take more for that.
        session.run("pytest", "-q", "-n", "0", "-m", "", "--max-memory-mb", "450")
    # Spark is killed at every step of its sink's protocol: here, and on Apache Kafka.
    kept = ("--resume", f"kills-{str(commit).strip()}.jsonl")
    session.run("python", "-m", "tests.spark.kills", *kept)
    for protocol in ("classic", "consumer"):
        session.run("python", "-m", "tests.conformance.librdkafka_suite", "--protocol", protocol)
    # The recipes for FastAPI and Node, which the gate's environment does not have.
    if which("node"):
        session.run("python", "-m", "tests.conformance.recipe_programs")
    else:
        session.run("python", "-m", "tests.conformance.recipe_programs", "fastapi")
    # Hours; a missed ratio is told in the tables, and is no reason to end here.
    kept = ("--resume", f"runs-producer-{str(commit).strip()}.jsonl")
    session.run("python", "-m", "benchmarks.producer", *kept, success_codes=[0, 1])
    session.run("python", "-m", "benchmarks.consumer", success_codes=[0, 1])
    session.run("python", "-m", "benchmarks.aio", success_codes=[0, 1])
    for version in SPARKS:
        session.notify(f"spark(version='{version}')")
    session.run("python", "-m", "benchmarks.spark", "--write", success_codes=[0, 1])
    # All of them, whichever miss their targets; the session fails at its end then.
    benchmarks = (
        "imports",
        "micro",
        "io_under_load",
        "cluster",
        "broker_acks",
        "broker_speed",
        "compaction",
        "hostile_readers",
        "security",
    )
    figures = ("--figures", f"figures-{str(commit).strip()}.log")
    session.run("python", "-m", "benchmarks.every", *figures, *benchmarks)
