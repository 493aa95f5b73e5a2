"""The process of one client: plays one run that it is given as JSON, and prints what came out.

`benchmarks.consumer` starts it; by hand: `python -m benchmarks.consumer.worker '{"client": ...}'`.
"""

from __future__ import annotations

import json
import logging
import resource
import sys
import time
import warnings

import attrs

from benchmarks.consumer.clients import CLIENTS
from benchmarks.consumer.runs import Cell, Run
from benchmarks.consumer.waiting import WAITING
from benchmarks.producer.clients import clock
from benchmarks.producer.runs import Measured

WARM_UP_WAITS = 30
SILENT_SECONDS = 30.0


def play(run: Run) -> Measured:
    return _wait_for_each(run) if run.client in WAITING else _read_all(run)


def _read_all(run: Run) -> Measured:
    """The clock begins with the first records: connecting is not what is measured."""
    arriving = CLIENTS[run.client](run)
    begun = time.monotonic()
    while not (first := next(arriving)):
        _check_silence(begun, run, 0)
    started, cpu = clock()
    count, heard = first, time.monotonic()
    while count < run.records:
        more = next(arriving)
        if more:
            count, heard = count + more, time.monotonic()
        else:
            _check_silence(heard, run, count)
    ended, cpu_ended = clock()
    peak = _peak_rss_mb()
    arriving.close()  # type: ignore[attr-defined]
    read = count - first
    return Measured(read / (ended - started), (cpu_ended - cpu) / read * 1e6, peak)


def _check_silence(since: float, run: Run, count: int) -> None:
    if time.monotonic() - since > SILENT_SECONDS:
        raise RuntimeError(f"nothing came for {SILENT_SECONDS:g} s after {count} of {run.records} records")


def _wait_for_each(run: Run) -> Measured:
    turn, close = WAITING[run.client](run)
    value = bytes(run.cell.size)
    for _ in range(WARM_UP_WAITS):
        turn(value)
    times = []
    started, cpu = clock()
    for _ in range(run.records):
        begun = time.perf_counter()
        turn(value)
        times.append(time.perf_counter() - begun)
    ended, cpu_ended = clock()
    peak = _peak_rss_mb()
    close()
    times.sort()
    return Measured(
        run.records / (ended - started),
        (cpu_ended - cpu) / run.records * 1e6,
        peak,
        p50=times[len(times) // 2],
        p99=times[len(times) * 99 // 100],
    )


def _peak_rss_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main(text: str) -> None:
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    given = json.loads(text)
    run = Run(**{**given, "cell": Cell(**given["cell"])})
    print(json.dumps(attrs.asdict(play(run))))


if __name__ == "__main__":
    main(sys.argv[1])
