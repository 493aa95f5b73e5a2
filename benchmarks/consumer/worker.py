"""The process of one client: plays one run that it is given as JSON, and prints what came out.

`benchmarks.consumer` starts it; by hand: `python -m benchmarks.consumer.worker '{"client": ...}'`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

from benchmarks.consumer.clients import CLIENTS
from benchmarks.consumer.runs import Cell, Run
from benchmarks.consumer.waiting import WAITING
from benchmarks.side_by_side.measured import Measured, answer, clock, peak_rss_mb, wait_for_each

WARM_UP_WAITS = 30
SILENT_SECONDS = 30.0


def play(run: Run) -> Measured:
    if run.client in WAITING:
        turn, close = WAITING[run.client](run)
        return wait_for_each(turn, close, bytes(run.cell.size), run.records, WARM_UP_WAITS)
    return read_all(run)


def read_all(run: Run) -> Measured:
    return read_from(CLIENTS[run.client](run), run.records)


def read_from(arriving: Iterator[int], records: int) -> Measured:
    """Read so many records. The clock begins with the first of them: connecting is not what is measured."""
    begun = time.monotonic()
    while not (first := next(arriving)):
        _check_silence(begun, 0, records)
    started, cpu = clock()
    count, received_at = first, time.monotonic()
    while count < records:
        more = next(arriving)
        if more:
            count, received_at = count + more, time.monotonic()
        else:
            _check_silence(received_at, count, records)
    ended, cpu_ended = clock()
    peak = peak_rss_mb()
    arriving.close()  # type: ignore[attr-defined]
    read = count - first
    return Measured(read / (ended - started), (cpu_ended - cpu) / read * 1e6, peak)


def _check_silence(since: float, count: int, records: int) -> None:
    if time.monotonic() - since > SILENT_SECONDS:
        raise RuntimeError(f"nothing came for {SILENT_SECONDS:g} s after {count} of {records} records")


if __name__ == "__main__":
    answer(sys.argv[1], Cell, play)
