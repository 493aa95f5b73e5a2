"""Compares the p99 of a client with and without hostile clients that send and never read.

    python -m benchmarks.hostile_readers [--seconds 60] [--rounds 5] [--connections 60]

One broker in a process of its own. The hostile connections, from another process, send requests as fast as
the broker accepts them and read nothing. The measured client requests metadata every few milliseconds. Both
halves of a round run one after the other. Target: the median ratio of their 99th percentiles is below 2.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import os
import select
import socket
import statistics
import struct
import sys
import time
from multiprocessing.synchronize import Event

from pykafka2.testing import KafkaCluster

LENGTH = struct.Struct(">i")
METADATA_V1 = struct.pack(">ihhihi", 14, 3, 1, 1, -1, -1)
MOST = 2.0


def latencies(address: tuple[str, int], seconds: float, every: float = 0.005) -> list[float]:
    """Return the seconds from request to answer of a client that asks one thing at a time, sorted."""
    found = []
    with socket.create_connection(address, 10) as connection, connection.makefile("rb") as stream:
        end = time.perf_counter() + seconds
        while (started := time.perf_counter()) < end:
            connection.sendall(METADATA_V1)
            stream.read(*LENGTH.unpack(stream.read(LENGTH.size)))
            took = time.perf_counter() - started
            found.append(took)
            time.sleep(max(0.0, every - took))
    return sorted(found)


def send_and_never_read(address: tuple[str, int], connections: int, stop: Event) -> None:
    """Run in a process of its own until `stop`."""
    hostile = [socket.create_connection(address, 10) for _ in range(connections)]
    frames = METADATA_V1 * 1000
    for one in hostile:
        one.setblocking(False)
    while not stop.is_set():
        _, writable, _ = select.select([], hostile, [], 0.05)
        for one in writable:
            with contextlib.suppress(BlockingIOError, ConnectionError):
                one.send(frames)
    for one in hostile:
        one.close()


def p99(found: list[float]) -> float:
    return found[len(found) * 99 // 100]


def one_round(address: tuple[str, int], seconds: float, connections: int) -> tuple[float, float]:
    """Return the good client's p99 alone, and beside the hostile connections."""
    alone = p99(latencies(address, seconds))
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    hostile = context.Process(target=send_and_never_read, args=(address, connections, stop))
    hostile.start()
    try:
        time.sleep(1.0)
        return alone, p99(latencies(address, seconds))
    finally:
        stop.set()
        hostile.join()


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--seconds", type=float, default=60.0, help="time of each half of a round (default 60)"
    )
    parser.add_argument("--rounds", type=int, default=5, help="rounds (default 5)")
    parser.add_argument("--connections", type=int, default=60, help="hostile connections (default 60)")
    arguments = parser.parse_args()
    ratios = []
    with KafkaCluster(1, process=True, history_entries=0) as cluster:
        host, _, port = cluster.bootstrap_servers.rpartition(":")
        for _ in range(arguments.rounds):
            alone, beside = one_round((host, int(port)), arguments.seconds, arguments.connections)
            ratios.append(beside / alone)
            print(
                f"p99 alone {1000 * alone:.1f} ms, beside {1000 * beside:.1f} ms: {ratios[-1]:.2f}x",
                flush=True,
            )
    median = statistics.median(ratios)
    print(
        f"median {median:.2f}x, to be below {MOST:g}x{'  MISSED' if median >= MOST else ''}; "
        f"load average {os.getloadavg()[0]:.1f}"
    )
    return 1 if median >= MOST else 0


if __name__ == "__main__":
    sys.exit(main())
