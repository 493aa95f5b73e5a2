"""Kills queries of Spark's, several at a time, starts them again, and compares what was written.

Neighbours: kill_plans.py says which; kills_program.py is what is started and killed; kills.py the command.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import attrs

from pykafka2 import KafkaAdminClient, NewTopic
from tests.spark import quick_java
from tests.spark.committed import committed
from tests.spark.kill_clusters import Brokers
from tests.spark.kill_damages import damage, in_order
from tests.spark.kill_plans import BATCHES, REFUSED_WITH, REGROUPED, REORDERED, Outcome, Plan, is_moment
from tests.spark.kills_program import PLAN, kill_session

ROOT = Path(__file__).parents[2]
ROWS = 60
START_TIMEOUT = 600.0
MOST_STARTS = 8
"""A query that has not come to its end by then is given up."""
FEW_STARTS = 3
AT_ONCE = 8
"""So many queries are killed in one start: starting Spark is what takes the time."""
LOOK_EVERY = 0.05


@attrs.define
class Query:
    """One that is played: where it writes to and what is known of it."""

    plan: Plan
    topic: str
    folder: Path
    starts: int = 0
    kills_played: int = 0
    failures: int = 0
    """Starts that it ended with an error: what takes a busy machine more than ten seconds Spark gives up."""
    is_damaged: bool = False
    """Whether its damage was done."""
    began: float = attrs.field(factory=time.monotonic)
    notes: list[str] = attrs.Factory(list)

    @property
    def next_kill(self) -> str:
        """Empty if it is to come to its end."""
        kills = self.plan.kills
        return kills[self.kills_played] if self.kills_played < len(kills) else ""

    @property
    def is_done(self) -> bool:
        return (self.folder / "done").exists()

    @property
    def has_failed(self) -> bool:
        return (self.folder / "failed").exists()

    @property
    def refusal(self) -> str:
        """The error's name if the query ended with the one that names the condition violated by its plan."""
        if not (self.is_damaged and self.has_failed):
            return ""
        name = REFUSED_WITH[self.plan.damage]
        return name if f"{name}:" in (self.folder / "failed").read_text() else ""

    @property
    def is_over(self) -> bool:
        return self.is_done or bool(self.refusal)

    @property
    def ledger(self) -> str:
        return f"ledger-of-{self.topic}"

    @property
    def is_frozen(self) -> bool:
        """Whether it stands at the step where it is to be killed."""
        return (self.folder / "frozen").exists()

    @property
    def has_batch(self) -> bool:
        return (self.folder / "checkpoint/offsets/0").exists()


@attrs.define
class Campaign:
    """Plays plans on one cluster, in starts of Spark with several queries each.

    At the step where it is to be killed a query stands still, in the process that got there.  When each has
    come to its own, all processes are killed at once.  Those of the last start run to their ends beside.

    folder: for input, checkpoints and logs.  archive: of the JVM's classes, see `class_archive`.
    """

    brokers: Brokers
    folder: Path
    archive: Path | None = None
    at_once: int = AT_ONCE
    _starts: int = 0

    def play(self, plans: Iterable[Plan], is_over: Callable[[], bool] = lambda: False) -> Iterator[Outcome]:
        """The result of each query, as soon as it is known; no new one once `is_over`."""
        waiting, active = deque(plans), list[Query]()
        while True:
            self._fill(active, waiting, is_over())
            if not active:
                return
            self._start(active)
            ended = [one for one in active if one.is_over or one.starts >= MOST_STARTS]
            active = [one for one in active if one not in ended]
            yield from map(self.outcome, ended)

    def begin(self, plans: Iterable[Plan]) -> list[Query]:
        """Kill each query once, in one start of Spark, or where the machine is busy in another one."""
        queries = [self._new(one) for one in plans]
        for _ in range(FEW_STARTS):
            left = [one for one in queries if not one.kills_played]
            if left:
                self._start(left)
        return queries

    def end(self, queries: Iterable[Query], play: Callable[[list[dict[str, str]]], None]) -> list[Outcome]:
        """Results of queries that `play` continues, in a session that it has."""
        queries = list(queries)
        for _ in range(FEW_STARTS):
            left = [one for one in queries if not one.is_over]
            for one in left:
                self._damage(one)
                one.starts += 1
                one.failures += one.has_failed
                (one.folder / "failed").unlink(missing_ok=True)
            if left:
                play([outcome(one, self.brokers) for one in left])
        return [self.outcome(one) for one in queries]

    def outcome(self, query: Query) -> Outcome:
        """The result of a query that is not started again."""
        refusal = query.refusal
        if not query.is_done and not refusal:
            query.notes.append("it did not come to its end")
        expected = [f"{batch}/{row}" for batch in range(BATCHES) for row in range(ROWS)]
        # Transactions that a refused query left open end by their time-out, which is longer than any wait
        # here.
        found = committed(self.brokers.servers, query.topic, waits=not refusal)
        lost = sum(1 for value in expected if not found[value])
        repeated = found.total() - len(expected) + lost
        seconds = time.monotonic() - query.began
        notes, load = "; ".join(query.notes), os.getloadavg()[0]
        return Outcome(query.plan, lost, repeated, seconds, notes, load, query.failures, refusal)

    # ------------------------------------------------------------------ inside

    def _fill(self, active: list[Query], waiting: deque[Plan], is_over: bool) -> None:
        """A start is killed at moments or at steps, not at both: a query that waits at a step takes long."""
        kinds = {is_moment(one.next_kill) for one in active if one.next_kill}
        while waiting and not is_over and sum(bool(one.next_kill) for one in active) < self.at_once:
            if kinds and waiting[0].is_timed not in kinds:
                return
            kinds.add(waiting[0].is_timed)
            active.append(self._new(waiting.popleft()))

    def _new(self, plan: Plan) -> Query:
        topic = f"kills-{uuid.uuid4().hex[:8]}"
        with KafkaAdminClient(bootstrap_servers=self.brokers.servers) as admin:
            admin.create_topics([NewTopic(topic, partitions=4)])
            admin.wait_for_topics([topic], timeout=30)
        query = Query(plan, topic, self.folder / topic)
        _write_input(query.folder / "in")
        return query

    def _start(self, queries: Sequence[Query]) -> None:
        """Spark plays the queries until all are where they are to be killed, or at their ends."""
        self._starts += 1
        for one in queries:
            self._damage(one)
            one.starts += 1
            for name in ("frozen", "failed"):
                (one.folder / name).unlink(missing_ok=True)
        plan = self.folder / f"start-{self._starts}.json"
        plan.write_text(json.dumps([outcome(one, self.brokers) for one in queries]))
        with plan.with_suffix(".log").open("wb") as log:
            process = start_program(plan, self.folder, self._java(), log.fileno())
            try:
                _wait(queries, process)
            finally:
                kill_session(process.pid)  # a daemon of Python may be left over
                process.wait()
        for one in queries:
            if one.is_done and one.next_kill and not is_moment(one.next_kill):
                one.notes.append(f"{one.next_kill} was not reached")
            one.failures += one.has_failed
            if is_moment(one.next_kill) or one.is_frozen or one.is_done:
                one.kills_played += 1

    def _damage(self, query: Query) -> None:
        """Do what the plan says, once, after the last kill."""
        what = query.plan.damage
        if what and not query.next_kill and not query.is_damaged:
            damage(what, query.folder / "checkpoint", self.brokers.servers, query.ledger)
            if query.plan.changed == REORDERED:
                in_order(query.folder / "in", reverse=True)
            query.is_damaged = True

    def _java(self) -> str:
        return (
            quick_java.QUICK
            if self.archive is None
            else f"{quick_java.QUICK} -XX:SharedArchiveFile={self.archive}"
        )


def _wait(queries: Sequence[Query], process: subprocess.Popen[bytes]) -> None:
    """Until it is time to kill the program, it has ended, or it has taken too long."""
    killed = [one for one in queries if one.next_kill]
    moments = [float(one.next_kill.removesuffix(" s")) for one in killed if is_moment(one.next_kill)]
    deadline = time.monotonic() + START_TIMEOUT
    while time.monotonic() < deadline and process.poll() is None:
        if moments:
            if all(one.has_batch or one.has_failed for one in killed):
                time.sleep(min(moments))
                return
        elif killed and all(one.is_done or one.has_failed or one.is_frozen for one in queries):
            return
        time.sleep(LOOK_EVERY)


def outcome(query: Query, brokers: Brokers) -> dict[str, str]:
    """The program's input for a query."""
    kill = query.next_kill
    return {
        "kafka": json.dumps(brokers.kafka_options()),
        "topic": query.topic,
        "ledger": query.ledger,
        "delivery": query.plan.delivery,
        "folder": str(query.folder),
        "files": "2" if query.is_damaged and query.plan.changed == REGROUPED else "1",
        "kill": "" if is_moment(kill) else kill,
    }


def start_program(plan: Path, folder: Path, java: str, log: int) -> subprocess.Popen[bytes]:
    """kills_program.py in a session of processes of its own."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))),
        "PYSPARK_SUBMIT_ARGS": f"--driver-java-options '{java}' pyspark-shell",
        "PYKAFKA2_SPARK_STEP_HOOK": "tests.spark.kills_program:on_step",
        PLAN: str(plan),
    }
    # All those processes of Python would compile what they import.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-m", "tests.spark.kills_program"]
    return subprocess.Popen(
        command, env=environment, stdout=log, stderr=log, cwd=folder, start_new_session=True
    )


def class_archive(brokers: Brokers, folder: Path) -> Path:
    """An archive of the classes that Spark's JVM loads for such a query (`-XX:SharedArchiveFile`).

    A JVM that has it starts in less than half the processor time.  Making it takes one query that is not
    killed.
    """
    archive = folder / "classes.jsa"
    campaign = Campaign(brokers, folder)
    query = campaign._new(Plan("exactly_once", ()))
    plan = folder / "archive.json"
    plan.write_text(json.dumps([outcome(query, brokers)]))
    java = f"{quick_java.QUICK} -XX:ArchiveClassesAtExit={archive}"
    log = plan.with_suffix(".log")
    with log.open("wb") as file:
        start_program(plan, folder, java, file.fileno()).wait(START_TIMEOUT)
    deadline = time.monotonic() + START_TIMEOUT  # the JVM outlives the driver while it writes
    while not archive.exists() or _is_written(archive):
        if time.monotonic() > deadline:
            raise TimeoutError(f"no archive of classes: {log.read_text()[-1500:]}")
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
    in_order(folder)
