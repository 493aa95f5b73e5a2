"""A process ends while its share consumer holds records: a record is accepted only if its handler said so.

Each program takes the six records of its group, accepts some, prints them, and ends in its own way. The
others are then delivered again, soon, to a consumer of this process.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pykafka2.testing import KafkaCluster
from tests.share.world import QUICK, TOPICS, configure, consumer, fill, identity, take

pytestmark = [pytest.mark.gate, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
RECORDS = 6
READY = "ready"

BEGIN = """
import asyncio, os, signal, sys, threading, time
from pykafka2 import KafkaShareConsumer, aio
from tests.share.world import take

def accepted(record):
    print(record.topic, record.value.decode(), flush=True)

options = {
    "bootstrap_servers": sys.argv[1], "group_id": sys.argv[2], "fetch_max_wait_ms": 50,
    "share_acknowledgement_mode": "explicit",
}
"""

SYNC = """
consumer = KafkaShareConsumer("t", "u", **options)
first, second, third, *rest = take(consumer, 6)
with first:
    pass
accepted(first)
"""

IN_A_THREAD = """
begun = threading.Event()

def work():
    with second:
        begun.set()
        time.sleep(60)

threading.Thread(target=work, daemon=True).start()
begun.wait(10)
"""

FORK = """
with second:
    child = os.fork()
    if not child:
        sys.exit(0)  # with the functions of atexit
    assert os.waitpid(child, 0)[1] == 0
accepted(second)
child = os.fork()
if not child:
    consumer.close()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
with third:
    pass
accepted(third)
"""

FORK_OF_A_HANDLER = """
child = os.fork()
if not child:
    with second:
        pass
    accepted(second)  # is not reached
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
"""

IMPLICIT = """
options["share_acknowledgement_mode"] = "implicit"
consumer = KafkaShareConsumer("t", "u", **options)
last, count = [], 0
while count < 6:
    for record in last:
        accepted(record)  # by the next poll
    last = [record for records in consumer.poll(100).values() for record in records]
    count += len(last)
"""

IMPLICIT_ITERATION = """
options["share_acknowledgement_mode"] = "implicit"
consumer = KafkaShareConsumer("t", "u", **options)
for number, record in enumerate(consumer):
    if number == 2:
        sys.exit(0)
    accepted(record)  # by the next step of the iteration
"""

TASKS = """
async def work(consumer, is_first):
    async for record in consumer:
        async with record:
            if not is_first:
                print("ready", flush=True)
                await asyncio.sleep(60)
        accepted(record)
        is_first = False

async def main():
    async with aio.KafkaShareConsumer("t", "u", **options) as consumer:
        await asyncio.gather(*(work(consumer, is_first) for is_first in (True, False)))

asyncio.run(main())
"""

TASKS_AT_EXIT = """
async def main():
    consumer = aio.KafkaShareConsumer("t", "u", **options)
    async for record in consumer:
        async with record:
            pass
        accepted(record)
        await consumer.commit()
        break
    async for record in consumer:
        await record.__aenter__()
        sys.exit(0)

asyncio.run(main())
"""

PROGRAMS = {
    "end of the main program": (SYNC, 0),
    "exit in a block": (f"{SYNC}\nwith second:\n    sys.exit(3)", 3),
    "exception in a block": (f"{SYNC}\nwith second:\n    raise ValueError('no such job')", 1),
    "daemon thread in a block": (f"{SYNC}{IN_A_THREAD}", 0),
    "acknowledged and not sent": (f"{SYNC}\nconsumer.acknowledge(second)\naccepted(second)", 0),
    "_exit in a block": (f"{SYNC}\nconsumer.commit()\nwith second:\n    os._exit(4)", 4),
    "killed in a block": (
        f"{SYNC}\nconsumer.commit()\nwith second:\n    os.kill(os.getpid(), signal.SIGKILL)",
        -9,
    ),
    "ctrl-c in a block": (f"{SYNC}\nwith second:\n    print('ready', flush=True)\n    time.sleep(60)", -2),
    "ctrl-c between blocks": (f"{SYNC}\nprint('ready', flush=True)\ntime.sleep(60)", -2),
    "fork": (f"{SYNC}{FORK}", 0),
    "fork of a handler": (f"{SYNC}{FORK_OF_A_HANDLER}", 0),
    "implicit mode after a poll": (IMPLICIT, 0),
    "implicit mode in an iteration": (IMPLICIT_ITERATION, 0),
    "ctrl-c in tasks": (TASKS, -2),
    "exit in a task": (TASKS_AT_EXIT, 0),
}
"""The text of each program, and its exit code; -2 is the end by a Ctrl-C."""


IN_GATE = (
    "end of the main program",
    "killed in a block",
    "ctrl-c in a block",
    "fork",
    "implicit mode in an iteration",
    "ctrl-c in tasks",
)


@pytest.fixture(scope="module")
def queues() -> Iterator[KafkaCluster]:
    """The session of a member that was killed ends soon; locks last for longer than a test."""
    config = {
        **QUICK,
        "group.share.min.session.timeout.ms": 1000,
        "group.share.record.lock.duration.ms": 900_000,
        "group.share.max.record.lock.duration.ms": 900_000,
    }
    with KafkaCluster(brokers=2, topics=TOPICS, config=config) as cluster:
        fill(cluster, RECORDS // len(TOPICS))
        yield cluster


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform has no fork and no signals")
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in IN_GATE else pytest.mark.long) for name in PROGRAMS],
)
def test_ended_process_has_accepted_only_records_with_completed_handlers(
    queues: KafkaCluster, name: str
) -> None:
    text, code = PROGRAMS[name]
    group = name.replace(" ", "-")
    configure(queues, group, **({"share_session_timeout_ms": 5000} if code in (4, -9) else {}))
    words = [sys.executable, "-c", BEGIN + text, queues.bootstrap_servers, group]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )
    assert process.stdout is not None
    lines: list[str] = []
    if READY in text:
        while READY not in lines:
            line = process.stdout.readline()
            assert line, process.communicate()
            lines.append(line.strip())
        process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=60)
    assert process.returncode == code, errors
    lines += out.splitlines()
    accepted = {tuple(line.split()) for line in lines if line != READY}
    everything = {(topic, str(number)) for topic in TOPICS for number in range(RECORDS // len(TOPICS))}
    with consumer(queues, group_id=group, share_acknowledgement_mode="explicit") as one:
        rest = take(one, len(everything - accepted), most_polls=300)
        assert {(topic, value.decode()) for topic, value in identity(rest)} == everything - accepted
        for record in rest:
            with record:
                pass
        assert set(one.commit().values()) <= {None}
        assert not one.poll(100)
