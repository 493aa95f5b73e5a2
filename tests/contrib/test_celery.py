"""Celery on share groups: real workers, which are killed."""

from __future__ import annotations

import collections
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import pytest

pytest.importorskip("celery")

from pykafka2.testing import KafkaCluster
from tests.share.world import QUICK

pytestmark = pytest.mark.gate

ROOT = Path(__file__).parents[2]
TIMEOUT = 120.0
FROM_TASKS = "from tests.contrib.celery_tasks import *\n"


class Workers:
    """Celery workers as processes, and the runs of their tasks."""

    def __init__(self, servers: str, folder: Path) -> None:
        self.folder = folder
        self.runs_file = folder / "runs"
        self.runs_file.touch()
        self.environment = {
            **os.environ,
            "TEST_BROKER": f"pykafka2://{servers.replace(',', ';pykafka2://')}//",
            "TEST_RUNS": str(self.runs_file),
        }
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self._started = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for process in self.processes.values():
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def start(self, pool: str = "solo", *options: str) -> str:
        """Start a worker; return its name."""
        self._started += 1
        name = f"w{self._started}"
        command = [*self.celery(), "worker", "-P", pool, "-n", f"{name}@test", "-l", "info", *options]
        with (self.folder / f"{name}.log").open("wb") as log:
            self.processes[name] = subprocess.Popen(
                command, env=self.environment, cwd=ROOT, stdout=log, stderr=log, start_new_session=True
            )
        return name

    def celery(self) -> list[str]:
        return [sys.executable, "-W", "ignore", "-m", "celery", "-A", "tests.contrib.celery_tasks"]

    def run(self, *command: str) -> str:
        """Return what a command prints."""
        done = subprocess.run(
            command,
            env=self.environment,
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )
        assert done.returncode == 0, f"{done.stdout}{done.stderr}{self.logs()}"
        return done.stdout

    def python(self, code: str) -> str:
        return self.run(sys.executable, "-W", "ignore", "-c", FROM_TASKS + code)

    def await_ready(self) -> None:
        """Wait until all workers take tasks."""
        deadline = time.monotonic() + TIMEOUT
        while not all(" ready." in (self.folder / f"{name}.log").read_text() for name in self.processes):
            assert time.monotonic() < deadline, self.logs()
            time.sleep(0.05)

    def kill(self, name: str) -> None:
        """Kill a worker with SIGKILL, and the processes of its pool."""
        process = self.processes.pop(name)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def stop(self) -> None:
        """End all workers as a deployment does."""
        self.await_ready()  # before that, SIGTERM just ends them
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            assert process.wait(TIMEOUT) == 0, self.logs()
        self.processes.clear()

    def runs(self) -> collections.Counter[int]:
        """Return how often each number was noted."""
        return collections.Counter(map(int, self.runs_file.read_bytes().split()))

    def await_runs(self, count: int) -> None:
        deadline = time.monotonic() + TIMEOUT
        while len(self.runs()) < count:
            assert time.monotonic() < deadline, f"{len(self.runs())} of {count} tasks ran\n{self.logs()}"
            time.sleep(0.02)

    def logs(self) -> str:
        return "\n".join(
            f"--- {log.name}\n{log.read_text()[-3000:]}" for log in sorted(self.folder.glob("*.log"))
        )


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[Workers]:
    with (
        KafkaCluster(brokers=1, config=QUICK) as cluster,
        Workers(cluster.bootstrap_servers, tmp_path) as workers,
    ):
        yield workers


SEND = """
with app.producer_pool.acquire() as producer:
    for number in range({count}):
        note.apply_async((number, {seconds}), producer=producer)
"""


@pytest.mark.slow
def test_killed_worker_loses_no_task(workers: Workers) -> None:
    check_killed_worker(workers)


def check_killed_worker(workers: Workers) -> None:
    """Kill one of two workers while they share 200 tasks."""
    killed = workers.start("prefork", "-c", "2")
    workers.start()
    workers.python(SEND.format(count=200, seconds=0.002))
    workers.await_runs(60)
    workers.kill(killed)
    workers.await_runs(200)
    workers.stop()
    runs = workers.runs()
    assert set(runs) == set(range(200))
    # The tasks in work, and those whose acknowledgement was lost: those that the worker had, at most.
    assert sum(runs.values()) - 200 <= 2 * 4


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.longest
def test_ten_thousand_tasks_survive_workers_that_are_killed_at_random(workers: Workers) -> None:
    count, choice, kills = 10_000, random.Random(1), 0
    pools = [("prefork", "-c", "2"), ("prefork", "-c", "2"), ("solo",)]
    for pool in pools:
        workers.start(*pool)
    workers.await_ready()
    sender = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", FROM_TASKS + SEND.format(count=count, seconds=0.001)],
        env=workers.environment,
        cwd=ROOT,
    )
    while len(workers.runs()) < count:
        progress = len(workers.runs())
        name = choice.choice(sorted(workers.processes))
        workers.kill(name)
        kills += 1
        workers.start(*pools[kills % 3])
        workers.await_runs(min(progress + choice.randint(100, 400), count))
    assert sender.wait(TIMEOUT) == 0
    workers.stop()
    runs = workers.runs()
    again = sum(runs.values()) - count
    print(f"{count} tasks, {kills} workers killed: {count - len(runs)} lost, {again} ran once more")
    assert set(runs) == set(range(count))
    assert again <= 4 * kills  # what a worker runs, and what it has not acknowledged yet


@pytest.mark.slow
def test_results_retries_countdown_and_remote_control(workers: Workers) -> None:
    check_results(workers)


def check_results(workers: Workers) -> None:
    """Run tasks on a worker with processes and one with threads."""
    workers.start("prefork", "-c", "1")
    workers.start("threads", "-c", "2")
    workers.await_ready()
    code = """
import json
from celery.utils.nodenames import worker_direct
sent = [note.delay(number) for number in range(5)]
results = [result.get(timeout=60) for result in sent]
retried = fail_twice.delay().get(timeout=60)
later = note.apply_async((5,), countdown=0.2).get(timeout=60)
note_later.delay(7)
direct = note.apply_async((6,), queue=worker_direct("w2@test")).get(timeout=60)
pings = sorted(name for reply in app.control.ping(timeout=30, limit=2) for name in reply)
print(json.dumps([results, retried, later, direct, pings]))
"""
    assert json.loads(workers.python(code)) == [[0, 1, 2, 3, 4], 2, 5, 6, ["w1@test", "w2@test"]]
    workers.await_runs(8)
    workers.stop()
    assert set(workers.runs().values()) == {1}
