"""The result of one run of a client, and how the client's process measures it."""

from __future__ import annotations

import json
import logging
import resource
import time
import warnings
from collections.abc import Callable
from typing import Any

import attrs

from benchmarks.side_by_side.run import Run


@attrs.define
class Measured:
    """The result of one run: records a second by the clock, processor time of the client's process, memory.

    instructions is None where the machine does not count them; p50 and p99 (seconds) are of runs that wait
    for each record.
    """

    records_per_second: float
    cpu_us: float
    peak_rss_mb: float
    failed: int = 0
    instructions: float | None = None
    p50: float | None = None
    p99: float | None = None


def clock() -> tuple[float, float]:
    """Return the seconds of the clock and of this process's processors."""
    return time.perf_counter(), time.process_time()


def peak_rss_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def wait_for_each(
    turn: Callable[[bytes], object], close: Callable[[], object], value: bytes, records: int, warm_up: int
) -> Measured:
    """Return one record at a time, each waited for by `turn`."""
    for _ in range(warm_up):
        turn(value)
    times = []
    started, cpu = clock()
    for _ in range(records):
        begun = time.perf_counter()
        turn(value)
        times.append(time.perf_counter() - begun)
    ended, cpu_ended = clock()
    peak = peak_rss_mb()
    close()
    times.sort()
    return Measured(
        records / (ended - started),
        (cpu_ended - cpu) / records * 1e6,
        peak,
        p50=times[len(times) // 2],
        p99=times[len(times) * 99 // 100],
    )


def answer(text: str, cell_of: Callable[..., Any], play: Callable[[Any], Measured]) -> None:
    """The client's process: play the run that the text describes, and print what came out."""
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    fields = json.loads(text)
    run = Run(**{**fields, "cell": cell_of(**fields["cell"])})
    print(json.dumps(attrs.asdict(play(run))))
