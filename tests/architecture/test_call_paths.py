"""How many files a reader opens to follow one call: one poll(), one classic rebalance.

Issue 25 asks for at most 15 files of a `poll()` in a group on the caller's thread, and for at most 10 of a
classic rebalance in `consumer/group`, `consumer/assignors` and `consumer/state` on the driver's thread.
The two files that measure the poll() are not counted: nothing depends on them.
Print the files with `python -m tests.architecture.test_call_paths`.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import pykafka2
from pykafka2 import KafkaConsumer, KafkaProducer
from pykafka2.testing import QUICK, KafkaCluster

FOLDER = str(Path(pykafka2.__file__).parent) + os.sep
MEASURING = {"metrics.py", "consumer/poll/meters.py"}
GROUP = ("consumer/group", "consumer/assignors", "consumer/state")


class FilesCalled:
    """A profile function that records the files of pykafka2 whose functions each thread calls."""

    def __init__(self) -> None:
        self.by_thread: dict[str, set[str]] = {}
        self.is_recording = False

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        if not self.is_recording or event != "call":
            return
        path = frame.f_code.co_filename
        if path.startswith(FOLDER):
            thread = threading.current_thread().name
            self.by_thread.setdefault(thread, set()).add(Path(path.removeprefix(FOLDER)).as_posix())


@contextmanager
def profiled(files: FilesCalled) -> Iterator[None]:
    """Record the calls of this thread."""
    before = sys.getprofile()
    sys.setprofile(files)
    try:
        files.is_recording = True
        yield
    finally:
        files.is_recording = False
        sys.setprofile(before)


def files_of_poll(cluster: KafkaCluster, group_protocol: str) -> set[str]:
    """Return the files of a poll() that returns the first records of a fetched batch."""
    files = FilesCalled()
    servers = cluster.bootstrap_servers
    with (
        KafkaProducer(bootstrap_servers=servers) as producer,
        KafkaConsumer(
            "t",
            bootstrap_servers=servers,
            group_id=f"of-{group_protocol}",
            group_protocol=group_protocol,
            auto_offset_reset="earliest",
        ) as consumer,
    ):
        producer.send("t", b"first", partition=0).result(10)
        while not consumer.poll(1000):
            pass
        consumer.poll(0)  # drops what was read, so the buffer is empty
        for number in range(20):
            producer.send("t", b"%d" % number, partition=0)
        producer.flush()
        while consumer._core.buffer.is_empty:
            time.sleep(0.001)
        with profiled(files):
            assert consumer.poll(1000)
    (called,) = files.by_thread.values()
    return called - MEASURING


def files_of_rebalance(cluster: KafkaCluster) -> set[str]:
    """Return the files of the group on the driver's thread of a member while a second member joins."""
    files = FilesCalled()
    threading.setprofile(files)
    try:
        with KafkaConsumer(
            "t",
            bootstrap_servers=cluster.bootstrap_servers,
            group_id="g",
            client_id="first",
            heartbeat_interval_ms=100,  # the response to a heartbeat starts the rebalance
        ) as first:
            while not first.assignment():
                first.poll(100)
            files.is_recording = True
            with KafkaConsumer(
                "t", bootstrap_servers=cluster.bootstrap_servers, group_id="g", client_id="second"
            ) as second:
                while not len(first.assignment()) == len(second.assignment()) == 1:
                    first.poll(20)
                    second.poll(20)
                files.is_recording = False
    finally:
        threading.setprofile(None)  # type: ignore[arg-type]
    (called,) = [called for thread, called in files.by_thread.items() if "first" in thread]
    return {path for path in called if path.startswith(GROUP)}


def test_a_poll_passes_through_at_most_15_files() -> None:
    with KafkaCluster(brokers=1, topics={"t": 2}, config=QUICK) as cluster:
        for group_protocol in ("classic", "consumer"):
            called = files_of_poll(cluster, group_protocol)
            assert "consumer/poll/poller.py" in called
            assert len(called) <= 15, sorted(called)


@pytest.mark.gate
def test_a_classic_rebalance_passes_through_at_most_10_files() -> None:
    with KafkaCluster(brokers=1, topics={"t": 2}, config=QUICK) as cluster:
        called = files_of_rebalance(cluster)
        assert "consumer/group/classic/join.py" in called
        assert len(called) <= 10, sorted(called)


if __name__ == "__main__":
    with KafkaCluster(brokers=1, topics={"t": 2}, config=QUICK) as shown:
        for title, found in (
            ("poll() in a classic group", files_of_poll(shown, "classic")),
            ("poll() in a KIP-848 group", files_of_poll(shown, "consumer")),
            ("classic rebalance", files_of_rebalance(shown)),
        ):
            print(f"{title}: {len(found)} files", *sorted(found), sep="\n  ")
