"""The process of one client: plays one run that it is given as JSON, and prints what came out.

`benchmarks.producer` starts it; by hand: `python -m benchmarks.producer.worker '{"client": ...}'`.
"""

from __future__ import annotations

import json
import logging
import resource
import sys
import time
import warnings

import attrs

from benchmarks.producer.clients import CLIENTS, clock
from benchmarks.producer.inputs import inputs_of
from benchmarks.producer.runs import Cell, Measured, Run
from benchmarks.producer.waiting import WAITING

WARM_UP_RECORDS = 2000
WARM_UP_WAITS = 50


def play(run: Run) -> Measured:
    return _wait_for_each(run) if run.client in WAITING else _send_all(run)


def _send_all(run: Run) -> Measured:
    sending = CLIENTS[run.client](run, inputs_of(run.cell))
    sending.send(WARM_UP_RECORDS)
    started, cpu = clock()
    sending.send(run.records)
    ended, cpu_ended = clock()
    failed = sending.failed
    peak = _peak_rss_mb()
    sending.close()
    return Measured(run.records / (ended - started), (cpu_ended - cpu) / run.records * 1e6, peak, failed)


def _wait_for_each(run: Run) -> Measured:
    send, close = WAITING[run.client](run)
    value = bytes(run.cell.size)
    for _ in range(WARM_UP_WAITS):
        send(value)
    times = []
    started, cpu = clock()
    for _ in range(run.records):
        begun = time.perf_counter()
        send(value)
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
