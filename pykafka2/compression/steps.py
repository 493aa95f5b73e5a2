"""Generators that split long work into steps, so that the caller can pause between two of them.

Any thread. A step runs a generator from one `yield` to the next. The generator yields the number of bytes in
memory so far, and returns the result.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

T = TypeVar("T")

Steps = Generator[int, None, T]

STEP_BYTES = 4 << 20
"""Bytes that one step decompresses: about 10 ms of work."""

FRAME_COST_BYTES = STEP_BYTES >> 10
"""The cost of a new frame or block, in decompressed bytes. It also limits steps of many empty frames."""


def finish(steps: Steps[T]) -> T:
    """Run all steps at once; return the result."""
    try:
        while True:
            next(steps)
    except StopIteration as end:
        result: T = end.value
        return result
