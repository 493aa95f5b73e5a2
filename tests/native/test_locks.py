"""The locks of the extension without a global lock, compiled for a Python that has one."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.packages.pythons import interpreter

pytestmark = [pytest.mark.gate, pytest.mark.slow]

SOURCE = Path(__file__).parents[2] / "native" / "pykafka2_c.c"
VERSIONS = ("3.13", "3.14")  # older ones have no PyMutex

FORKS = """
import os, signal, sys, threading
sys.path.insert(0, sys.argv[1])
import pykafka2_c

class Delivery:
    __slots__ = ("batch_outcome", "batch_index")

class Batch:
    __slots__ = ("outcome", "fields", "count", "room_bytes", "since_ns", "until_ns", "timestamp")

pykafka2_c.bind(1, Delivery)
pykafka2_c.bind(2, Batch)
batch = Batch()
batch.outcome, batch.fields, batch.count, batch.room_bytes = object(), [], 0, 100
is_locked, goes_on, outcome = threading.Event(), threading.Event(), Batch.outcome

def slowly(batch):
    if threading.current_thread() is not threading.main_thread():
        is_locked.set()
        goes_on.wait()
    return outcome.__get__(batch)

Batch.outcome = property(slowly)
row = (b"v", None, 1, b"\\0", None)
thread = threading.Thread(target=pykafka2_c.append_unlocked, args=(batch, row, 10))
thread.start()
is_locked.wait()
child = os.fork()
if child == 0:
    signal.alarm(30)
    os._exit(0 if pykafka2_c.append_unlocked(batch, row, 10).batch_index == 0 else 1)
goes_on.set()
thread.join()
status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
assert (batch.count, len(batch.fields), batch.room_bytes) == (1, 5, 90)
sys.exit(f"the child ended with {status}" if status else 0)
"""


def test_the_child_of_a_fork_does_not_wait_for_a_lock_of_its_parent(tmp_path: Path) -> None:
    python = next((one for version in VERSIONS if (one := interpreter(version)) is not None), None)
    if python is None:
        pytest.skip(f"neither of Python {' and '.join(VERSIONS)} is installed")
    code = "import sysconfig; print(sysconfig.get_path('include'), sysconfig.get_config_var('EXT_SUFFIX'))"
    shown = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    include, suffix = shown.stdout.split()
    target = tmp_path / f"pykafka2_c{suffix}"
    options = ("-O1", "-shared", "-fPIC", "-DFREE_THREADED", f"-I{include}")
    subprocess.run(["gcc", *options, str(SOURCE), "-o", str(target)], check=True, timeout=120)
    command = [python, "-W", "ignore", "-c", FORKS, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
