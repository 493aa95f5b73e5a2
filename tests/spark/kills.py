"""Kills Spark with SIGKILL at every step of the sink's protocol, starts it again, and counts the rows.

    python -m tests.spark.kills [--rounds 4] [--random 6] [--delivery exactly_once] [--apache] [--only STEP]

Each line of the table is a query of three micro-batches that was killed (JVM, driver and Python workers at
once), perhaps killed again in its recovery, then run to its end.  What a reader of another library sees with
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
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs

from pykafka2 import KafkaAdminClient, NewTopic
from tests.spark.committed import committed
from tests.spark.kills_program import CRASH_AT, TASKS, kill_session

ROOT = Path(__file__).parents[2]
BATCHES, ROWS = 3, 60
RUN_TIMEOUT = 900.0
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
class Campaign:
    """Kills queries that write to one cluster."""

    servers: str
    folder: Path

    def play(self, delivery: str, kills: list[str]) -> Outcome:
        """Kill a new query at these moments, a start for each: `step:n`, or `N s` after its first batch
        began.
        """
        topic = f"kills-{uuid.uuid4().hex[:8]}"
        with KafkaAdminClient(bootstrap_servers=self.servers) as admin:
            admin.create_topics([NewTopic(topic, partitions=4)])
            admin.wait_for_topics([topic], timeout=30)
        folder = self.folder / topic
        expected = _write_input(folder / "in")
        began = time.monotonic()
        notes = []
        for number, kill in enumerate(kills):
            code = self._run(folder, topic, delivery, kill, number)
            if code == 0 and not kill.endswith(" s"):
                notes.append(f"{kill} was not reached")
        code = self._run(folder, topic, delivery, "", len(kills))
        if code != 0:
            notes.append(f"the last run ended with {code}: {(folder / 'log').read_text()[-1500:]}")
        found = committed(self.servers, topic)
        lost = sum(1 for value in expected if not found[value])
        repeated = found.total() - len(expected) + lost
        return Outcome(delivery, kills, lost, repeated, time.monotonic() - began, "; ".join(notes))

    def _run(self, folder: Path, topic: str, delivery: str, kill: str, number: int) -> int:
        """One start of the query; its exit code."""
        counted = folder / f"reached-{number}"
        counted.mkdir()
        after = float(kill.removesuffix(" s")) if kill.endswith(" s") else None
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_SUBMIT_ARGS": f"--driver-java-options '{QUICK_JVM}' pyspark-shell",
            "PYKAFKA2_SPARK_STEP_HOOK": "tests.spark.kills_program:on_step",
            "PYKAFKA2_TEST_CRASH_FOLDER": str(counted),
            CRASH_AT: "" if after is not None else kill,
        }
        command = [
            sys.executable,
            "-m",
            "tests.spark.kills_program",
            self.servers,
            topic,
            delivery,
            str(folder),
        ]
        with (folder / "log").open("ab") as log:
            process = subprocess.Popen(
                command, env=environment, stdout=log, stderr=log, cwd=folder, start_new_session=True
            )
            try:
                if after is None:
                    return process.wait(RUN_TIMEOUT)
                deadline = time.monotonic() + RUN_TIMEOUT
                while not (folder / "checkpoint/offsets/0").exists() and time.monotonic() < deadline:
                    time.sleep(0.05)
                return process.wait(after)
            except subprocess.TimeoutExpired:
                return -9 if after is not None else 124
            finally:
                kill_session(process.pid)  # a daemon of Python may be left over
                process.wait()


def _write_input(folder: Path) -> list[str]:
    folder.mkdir(parents=True)
    for batch in range(BATCHES):
        lines = [json.dumps({"value": f"{batch}/{row}"}) for row in range(ROWS)]
        (folder / f"{batch:03}.json").write_text("\n".join(lines))
    return [f"{batch}/{row}" for batch in range(BATCHES) for row in range(ROWS)]


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
        campaign = Campaign(servers, Path(folder))
        for kills in plans(given.delivery, given.rounds, given.random, given.seed):
            if given.only and not any(kill.startswith(given.only) for kill in kills):
                continue
            if len(outcomes) >= given.most:
                break
            one = campaign.play(given.delivery, kills)
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
