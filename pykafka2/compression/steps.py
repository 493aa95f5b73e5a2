"""Long work in short steps, so that the caller can stop between two of them and go on later.

Any thread.  A step is a generator's way from one `yield` to the next; it yields how many bytes the work holds
so far, and returns the result.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

T = TypeVar("T")

Steps = Generator[int, None, T]

STEP_BYTES = 4 << 20
"""How much one step decompresses: some 10 ms of work."""

FRAME_COST_BYTES = STEP_BYTES >> 10
"""Beginning a frame or a block takes as long as decompressing so many bytes; some hold nothing at all."""


def finish(steps: Steps[T]) -> T:
    """Take all steps at once."""
    try:
        while True:
            next(steps)
    except StopIteration as end:
        result: T = end.value
        return result
