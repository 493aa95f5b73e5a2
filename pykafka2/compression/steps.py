"""Long work in short steps, so that the caller can stop between two of them and continue later.

Any thread. A step runs a generator from one `yield` to the next. It yields the number of bytes that the work
holds, and returns the result.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

T = TypeVar("T")

Steps = Generator[int, None, T]

STEP_BYTES = 4 << 20
"""The bytes that one step decompresses: some 10 ms of work."""

FRAME_COST_BYTES = STEP_BYTES >> 10
"""A new frame or block takes as long as this many decompressed bytes; some are empty."""


def finish(steps: Steps[T]) -> T:
    """Run all steps at once; return the result."""
    try:
        while True:
            next(steps)
    except StopIteration as end:
        result: T = end.value
        return result
