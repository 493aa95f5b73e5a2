"""The process of one client: plays one run that it is given as JSON, and prints what came out.

`benchmarks.producer` starts it; by hand: `python -m benchmarks.producer.worker '{"client": ...}'`.
"""

from __future__ import annotations

import sys

from benchmarks.producer.clients import CLIENTS
from benchmarks.producer.inputs import inputs_of
from benchmarks.producer.runs import Cell, Run
from benchmarks.producer.waiting import WAITING
from benchmarks.side_by_side.measured import Measured, answer, clock, peak_rss_mb, wait_for_each

WARM_UP_RECORDS = 2000
WARM_UP_WAITS = 50


def play(run: Run) -> Measured:
    if run.client in WAITING:
        turn, close = WAITING[run.client](run)
        return wait_for_each(turn, close, bytes(run.cell.size), run.records, WARM_UP_WAITS)
    return send_all(run)


def send_all(run: Run) -> Measured:
    """Send as fast as the client can; the clock begins after a warm-up."""
    sending = CLIENTS[run.client](run, inputs_of(run.cell))
    sending.send(WARM_UP_RECORDS)
    started, cpu = clock()
    sending.send(run.records)
    ended, cpu_ended = clock()
    failed = sending.failed
    peak = peak_rss_mb()
    sending.close()
    return Measured(run.records / (ended - started), (cpu_ended - cpu) / run.records * 1e6, peak, failed)


if __name__ == "__main__":
    answer(sys.argv[1], Cell, play)
