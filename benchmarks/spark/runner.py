"""Plays the runs of `benchmarks.spark`: a broker and one Spark session; the clients take turns."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import attrs

from benchmarks.producer.brokers import Broker, running
from benchmarks.side_by_side.turns import Results, play_rounds
from benchmarks.spark.runs import (
    BULK,
    CLIENTS,
    CONFLUENT,
    JVM,
    OURS,
    PARTITIONS,
    Cell,
    Played,
    Run,
    records_of,
)
from tests.spark import jvm_connector

SETTLED = 0.05
"""A client is warm when two rounds in a row differ by less than this share."""
WARM_UP_ROUNDS = 12
SMOKE_SHARE = 0.02
"""Plan of a run that only shows that the benchmark works: one round of warm-up."""
WAKING_RECORDS = 2000
"""Spark ends workers that have had nothing to do for a minute, while other clients took their turns; new ones
import for a second each, which is not to be measured."""


@attrs.define
class Plan:
    """Which runs there are: `share` is of a whole run's rows."""

    cells: Sequence[Cell]
    clients: Sequence[str]
    rounds: int
    share: float
    has_jvm: bool = True
    """Whether to run under the pyspark that Spark's own connector can be had for."""

    def runs_of(self, cell: Cell) -> list[Run]:
        """Return one round in this cell."""
        return [
            Run(name, cell, records_of(cell, self.share))
            for name in CLIENTS[cell.kind]
            if name in self.clients
            and (name != JVM or self.has_jvm)
            and not (name == BULK and cell.columns == "all")  # it takes no headers
            and not (cell.is_tuned and name in (CONFLUENT, BULK))  # they take none of Kafka's options
        ]

    def __len__(self) -> int:
        return sum(len(self.runs_of(cell)) for cell in self.cells) * self.rounds


@attrs.define
class Session:
    """The process of session.py."""

    _process: subprocess.Popen[str]
    pyspark: str = ""

    def play(self, run: Run) -> Played:
        return Played(**self._request(json.dumps(attrs.asdict(run)))["played"])

    def _request(self, line: str) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        return self.answer()

    def answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the Spark session has ended")
        reply: dict[str, Any] = json.loads(line)
        if "problem" in reply:
            raise RuntimeError(reply["problem"])
        return reply


def play_all(plan: Plan, on_run: Callable[[Run], None]) -> Results[Cell]:
    """All runs; calls `on_run` before each. Every other round goes backwards."""
    results: Results[Cell] = Results()
    for name in dict.fromkeys(cell.broker for cell in plan.cells):
        with running(name) as broker, session(plan.has_jvm) as spark:
            results.notes.append(f"{name}: pyspark {spark.pyspark}, local[2]")
            for cell in plan.cells:
                if cell.broker == name:
                    _play_cell(plan, cell, broker, spark, results, on_run)
    return results


@contextmanager
def session(has_jvm: bool) -> Iterator[Session]:
    """Yield a Spark session in a process of its own, with all that belongs to it."""
    jars, environment = [], {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    if has_jvm:
        jars, environment = jvm_connector.jars(), jvm_connector.environment()
    command = [sys.executable, "-m", "benchmarks.spark.session", ",".join(map(str, jars))]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment,
        start_new_session=True,
    ) as process:
        try:
            one = Session(process)
            one.pyspark = one.answer()["pyspark"]
            yield one
        finally:
            if process.stdin is not None:
                process.stdin.close()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()


def _play_cell(
    plan: Plan,
    cell: Cell,
    broker: Broker,
    spark: Session,
    results: Results[Cell],
    on_run: Callable[[Run], None],
) -> None:
    with ExitStack() as topics:
        play = _player(cell, broker, spark, records_of(cell, plan.share), topics)
        if cell.kind != "quiet stream":
            warm_up(plan, cell, play, results)
        play_rounds(plan.rounds, lambda: plan.runs_of(cell), play, results, on_run)


def _player(
    cell: Cell, broker: Broker, spark: Session, count: int, topics: ExitStack
) -> Callable[[Run], Played]:
    """Return the function that plays one run of the cell.  `topics` holds the topics that runs share."""

    def play_on(run: Run, topic: str, output: str = "") -> Played:
        options = {"output": output} if output else {}
        place = {"bootstrap_servers": broker.bootstrap_servers, "topic": topic, "options": options}
        return spark.play(attrs.evolve(run, **place))

    def play_with_new_topic(run: Run) -> Played:
        with broker.topic(PARTITIONS) as topic:
            if cell.kind == "sink":
                play_on(attrs.evolve(run, records=WAKING_RECORDS), topic)
            return play_on(run, topic)

    if cell.kind not in ("source", "pipeline"):
        return play_with_new_topic

    filled, waking = (topics.enter_context(broker.topic(PARTITIONS)) for _ in range(2))
    filling = Run(OURS, attrs.evolve(cell, kind="sink"), count)
    play_on(filling, filled)
    play_on(attrs.evolve(filling, records=WAKING_RECORDS), waking)

    def play_filled(run: Run) -> Played:
        if cell.kind == "source":
            play_on(attrs.evolve(run, records=WAKING_RECORDS), waking)
            return play_on(run, filled)
        with broker.topic(PARTITIONS) as output:
            play_on(attrs.evolve(run, records=WAKING_RECORDS), waking, output)
            return play_on(run, filled, output)

    return play_filled


def warm_up(plan: Plan, cell: Cell, play: Callable[[Run], Played], results: Results[Cell]) -> None:
    """Play whole rounds until each client's processor time settles: the JVM compiles more in each of them.

    The first round is kept as the cold one.
    """
    latest: dict[str, float] = {}
    unsettled = plan.runs_of(cell)
    for _ in range(1 if plan.share <= SMOKE_SHARE else WARM_UP_ROUNDS):
        for run in list(unsettled):
            played = play(run)
            results.cold.setdefault(cell, {}).setdefault(run.client, played)
            before, latest[run.client] = latest.get(run.client), played.total_cpu_us
            if before is not None and abs(before - played.total_cpu_us) < SETTLED * before:
                unsettled.remove(run)
    if plan.share > SMOKE_SHARE:
        results.notes += [f"{cell}: {run.client} had not settled before it was measured" for run in unsettled]
