"""Kills Spark with SIGKILL at every step of the sink's protocol, starts it again, and counts the rows.

    python -m tests.spark.kills [--rounds 4] [--random 6] [--delivery exactly_once] [--apache] [--only STEP]

Each line of the table is a query of three micro-batches that was killed (JVM, driver and Python workers at
once), perhaps killed again in its recovery, then run to its end in the start that the next one is killed in.
What a reader of another library sees with
read_committed is compared with what went in.  Ends with 1 if anything was lost, or repeated where it must
not be.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs

from pykafka2 import KafkaAdminClient, NewTopic
from tests.spark.committed import committed
from tests.spark.kills_program import CRASH_AT, TASKS, kill_session

ROOT = Path(__file__).parents[2]
BATCHES, ROWS = 3, 60
RUN_TIMEOUT = 900.0
PROGRAM = (sys.executable, "-m", "tests.spark.kills_program")
FEW = 3
"""So many queries are not worth an archive of classes."""
QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"
"""Each run is short: starting up is what counts."""
OF_TASKS = ("before-init", "after-append", "after-flush")
OF_DRIVER = ("before-decided", "after-decided", "between-ends", "before-done", "after-done")
IN_RECOVERY = ("in-recovery", "before-claim")
STEPS = {
    "exactly_once": (*OF_TASKS, *OF_DRIVER, *IN_RECOVERY),
    "exactly_once_per_task": (*OF_TASKS, "before-done", "after-done", "before-claim"),
    "at_least_once": (),
}


@attrs.define
class Outcome:
    delivery: str
    kills: list[str]
    lost: int
    repeated: int
    seconds: float
    note: str = ""

    @property
    def is_good(self) -> bool:
        return not self.lost and not self.note and (not self.repeated or self.delivery == "at_least_once")


@attrs.define
class Query:
    """One query that is killed, a start for each: `step:n`, or `N s` after its first batch began."""

    delivery: str
    kills: list[str]
    topic: str
    folder: Path
    began: float = attrs.field(factory=time.monotonic)
    notes: list[str] = attrs.Factory(list)

    @property
    def is_done(self) -> bool:
        return (self.folder / "done").exists()

    @property
    def has_batch(self) -> bool:
        return (self.folder / "checkpoint/offsets/0").exists()

    def log(self) -> str:
        return (self.folder / "log").read_text()[-1500:]


@attrs.define
class Campaign:
    """Kills queries that write to one cluster.

    Starting Spark is what takes the time, so the start that brings a query to its end goes on with the next
    one, which is killed in it.

    archive: of the JVM's classes, see `class_archive`.
    """

    servers: str
    folder: Path
    archive: Path | None = None
    _starts: int = 0

    def play(self, delivery: str, plans: Iterable[list[str]]) -> Iterator[Outcome]:
        """A query for each plan; what became of it is known when the next one has been started."""
        before: Query | None = None
        for kills in plans:
            query = self.new(delivery, kills)
            for kill in kills:
                self._start([one for one in (before, query) if one is not None], kill)
                if before is not None:
                    yield self._outcome(before)
                before = None
                if query.is_done and not kill.endswith(" s"):
                    query.notes.append(f"{kill} was not reached")
            before = query
        if before is not None:
            yield self._outcome(before)

    def new(self, delivery: str, kills: list[str]) -> Query:
        topic = f"kills-{uuid.uuid4().hex[:8]}"
        with KafkaAdminClient(bootstrap_servers=self.servers) as admin:
            admin.create_topics([NewTopic(topic, partitions=4)])
            admin.wait_for_topics([topic], timeout=30)
        query = Query(delivery, kills, topic, self.folder / topic)
        _write_input(query.folder / "in")
        return query

    def _outcome(self, query: Query) -> Outcome:
        if not query.is_done:
            self._start([query], "")
        if not query.is_done:
            query.notes.append(f"it did not come to its end: {query.log()}")
        expected = [f"{batch}/{row}" for batch in range(BATCHES) for row in range(ROWS)]
        found = committed(self.servers, query.topic)
        lost = sum(1 for value in expected if not found[value])
        repeated = found.total() - len(expected) + lost
        seconds = time.monotonic() - query.began
        return Outcome(query.delivery, query.kills, lost, repeated, seconds, "; ".join(query.notes))

    def _start(self, queries: list[Query], kill: str) -> None:
        """Spark plays the queries; it is killed in the last of them, or comes to its end."""
        self._starts += 1
        counted = self.folder / f"reached-{self._starts}"
        counted.mkdir()
        after = float(kill.removesuffix(" s")) if kill.endswith(" s") else None
        java = QUICK_JVM if self.archive is None else f"{QUICK_JVM} -XX:SharedArchiveFile={self.archive}"
        environment = {
            **_environment(java),
            "PYKAFKA2_SPARK_STEP_HOOK": "tests.spark.kills_program:on_step",
            "PYKAFKA2_TEST_CRASH_FOLDER": str(counted),
            CRASH_AT: "" if after is not None else kill,
        }
        last = queries[-1]
        command = [*PROGRAM, self.servers, last.delivery, *(str(one.folder) for one in queries)]
        with (last.folder / "log").open("ab") as log:
            process = subprocess.Popen(
                command, env=environment, stdout=log, stderr=log, cwd=self.folder, start_new_session=True
            )
            try:
                if after is not None:
                    deadline = time.monotonic() + RUN_TIMEOUT
                    while not last.has_batch and process.poll() is None and time.monotonic() < deadline:
                        time.sleep(0.05)
                process.wait(RUN_TIMEOUT if after is None else after)
            except subprocess.TimeoutExpired:
                if after is None:
                    last.notes.append(f"the start that was to be killed at {kill!r} hung")
            finally:
                kill_session(process.pid)  # a daemon of Python may be left over
                process.wait()


def _environment(java_options: str) -> dict[str, str]:
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_SUBMIT_ARGS": f"--driver-java-options '{java_options}' pyspark-shell",
    }
    # Each start has ten Python processes, which would all compile what they import.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    return environment


def class_archive(servers: str, folder: Path) -> Path:
    """An archive of the classes that Spark's JVM loads for such a query (`-XX:SharedArchiveFile`).

    A JVM that has it starts in less than half the processor time.  Making it takes one query that is not
    killed.
    """
    archive = folder / "classes.jsa"
    campaign = Campaign(servers, folder)
    query = campaign.new("exactly_once", [])
    command = [*PROGRAM, servers, "exactly_once", str(query.folder)]
    with (query.folder / "log").open("ab") as log:
        environment = _environment(f"{QUICK_JVM} -XX:ArchiveClassesAtExit={archive}")
        subprocess.run(command, env=environment, stdout=log, stderr=log, cwd=folder, timeout=RUN_TIMEOUT)
    deadline = time.monotonic() + RUN_TIMEOUT  # the JVM outlives the driver while it writes
    while not archive.exists() or _is_written(archive):
        if time.monotonic() > deadline:
            raise TimeoutError(f"no archive of classes: {query.log()}")
        time.sleep(0.5)
    return archive


def _is_written(file: Path) -> bool:
    """Whether a process has it open."""
    for one in Path("/proc").glob("[0-9]*/fd/*"):
        try:
            if one.resolve() == file:
                return True
        except OSError:
            continue
    return False


def _write_input(folder: Path) -> None:
    folder.mkdir(parents=True)
    for batch in range(BATCHES):
        lines = [json.dumps({"value": f"{batch}/{row}"}) for row in range(ROWS)]
        (folder / f"{batch:03}.json").write_text("\n".join(lines))


def plans(delivery: str, rounds: int, at_random: int, seed: int) -> Iterator[list[str]]:
    """What is to be killed: each step `rounds` times at other moments, then at moments of time."""
    chance = random.Random(seed)
    for step in STEPS[delivery]:
        for number in range(rounds):
            if step in IN_RECOVERY:
                first = f"{('after-decided', 'between-ends', 'before-done')[number % 3]}:{1 + number % 3}"
                yield [first if delivery == "exactly_once" else f"after-flush:{2 + number}", f"{step}:1"]
            elif step in OF_TASKS:
                yield [f"{step}:{chance.randint(1, TASKS * BATCHES)}"]
            else:
                yield [f"{step}:{1 + number % BATCHES}"]
    for _ in range(at_random):
        yield [f"{chance.uniform(0, 8):.1f} s" for _ in range(chance.randint(1, 2))]


@contextmanager
def cluster(apache: bool) -> Iterator[str]:
    if apache:
        from tests.conformance.maven import kafka_jars
        from tests.conformance.real_kafka import RealKafka

        with RealKafka(kafka_jars()).start() as kafka:
            yield kafka.bootstrap_servers
        return
    from pykafka2.testing import KafkaCluster

    with KafkaCluster(brokers=1, process=True) as bundled:
        yield bundled.bootstrap_servers


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=4, help="of each step (default: 4)")
    parser.add_argument("--random", type=int, default=6, help="kills at moments of time (default: 6)")
    parser.add_argument("--delivery", choices=sorted(STEPS), default="exactly_once")
    parser.add_argument("--apache", action="store_true", help="on Apache Kafka instead of the bundled broker")
    parser.add_argument("--only", default="", help="one step alone")
    parser.add_argument("--most", type=int, default=10_000, help="end after so many")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    outcomes = []
    print(f"{'delivery':22} {'kills':40} {'lost':>5} {'repeated':>8} {'s':>6}", flush=True)
    with cluster(given.apache) as servers, tempfile.TemporaryDirectory(prefix="kills-") as folder:
        wanted = [
            kills
            for kills in plans(given.delivery, given.rounds, given.random, given.seed)
            if not given.only or any(kill.startswith(given.only) for kill in kills)
        ][: given.most]
        archive = class_archive(servers, Path(folder)) if len(wanted) > FEW else None
        for one in Campaign(servers, Path(folder), archive).play(given.delivery, wanted):
            outcomes.append(one)
            print(
                f"{one.delivery:22} {', '.join(one.kills):40} {one.lost:5} {one.repeated:8} "
                f"{one.seconds:6.1f}{'' if one.is_good else ' WRONG '}{one.note}",
                flush=True,
            )
    bad = [one for one in outcomes if not one.is_good]
    print(
        f"{len(outcomes)} queries, {sum(len(one.kills) for one in outcomes)} kills: "
        f"{sum(one.lost for one in outcomes)} rows lost, {sum(one.repeated for one in outcomes)} repeated"
    )
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
