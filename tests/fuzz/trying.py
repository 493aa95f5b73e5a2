"""One frame under watch: which errors its parser raised, what time and memory it took."""

from __future__ import annotations

import resource
import signal
import time
import tracemalloc
from collections.abc import Callable
from types import FrameType
from typing import Any

import attrs

from tests.fuzz.targets import Made, Target
from tests.memory import IN_USE

MOST_SECONDS = 1.0
"""Limit of processor time for one frame."""
HANGS_AFTER_SECONDS = 10.0
MOST_EXTRA_BYTES = 16 << 20
"""Limit of memory, beyond four times the frame."""
FRAMES_A_WEIGHING = 50
"""Every so many frames memory is traced, which takes three times as long."""
ROOM_BYTES = 512 << 20
"""More than this no frame can take: the process has no more."""


class Hang(Exception):
    """Reading one frame took too long; raised in the middle of it."""


@attrs.define
class Finding:
    """A frame that was read as it must not be."""

    target: str
    index: int
    data: bytes
    what: str


@attrs.define
class Tally:
    frames: int = 0
    refused: int = 0
    slowest: float = 0.0
    largest_bytes: int = 0
    """Memory that one frame took at most, of those that were weighed."""
    findings: list[Finding] = attrs.Factory(list)

    def add(self, other: Tally) -> None:
        self.frames += other.frames
        self.refused += other.refused
        self.slowest = max(self.slowest, other.slowest)
        self.largest_bytes = max(self.largest_bytes, other.largest_bytes)
        self.findings += other.findings


def try_frame(target: Target, index: int, made: Made, tally: Tally, *, weigh: bool = False) -> None:
    """Read one frame, and note what became of it."""
    tally.frames += 1
    began = time.thread_time()
    what = _weighed(target, made, tally) if weigh else _read(target, made, tally)
    took = time.thread_time() - began
    tally.slowest = max(tally.slowest, took)
    if what is None and took > MOST_SECONDS:
        what = f"took {took:.1f} s"
    if what is not None:
        tally.findings.append(Finding(target.name, index, made.data, what))


def _read(target: Target, made: Made, tally: Tally) -> str | None:
    try:
        target.read(made)
    except target.may_raise:
        tally.refused += 1
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:300]
    return None


def _weighed(target: Target, made: Made, tally: Tally) -> str | None:
    tracemalloc.start()
    try:
        what = _read(target, made, tally)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    tally.largest_bytes = max(tally.largest_bytes, peak)
    if what is None and peak > 4 * len(made.data) + MOST_EXTRA_BYTES:
        return f"{len(made.data)} bytes took {peak} bytes of memory"
    return what


def limit_memory() -> None:
    """From now on this process has little more than it takes.  Safe to repeat."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    if soft == resource.RLIM_INFINITY and IN_USE.exists():
        taken = int(IN_USE.read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (taken + ROOM_BYTES, hard))


def watched(call: Callable[[], Any]) -> Any:
    """Return the call's result; raise `Hang` in it after too much processor time. Main thread."""

    def ring(number: int, frame: FrameType | None) -> None:
        raise Hang(f"still reading after {HANGS_AFTER_SECONDS:g} s")

    before = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, HANGS_AFTER_SECONDS)
    try:
        return call()
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
