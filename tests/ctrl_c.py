"""A Ctrl-C in the middle of a blocking call, and how long the call took to notice."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

AFTER = 0.2
WITHIN = 15.0
"""Much more than is promised, for machines with other work to do; the calls would take thirty."""


@contextmanager
def interrupted(waits: Callable[[], object] = lambda: True) -> Iterator[None]:
    """The body is interrupted by a Ctrl-C soon after this signals that it waits, and ends in time."""
    pressed_at: list[float] = []

    def press() -> None:
        deadline = time.monotonic() + 60
        while not waits() and time.monotonic() < deadline:
            time.sleep(0.001)
        pressed_at.append(time.monotonic())
        signal.raise_signal(signal.SIGINT)

    timer = threading.Timer(AFTER, press)
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            yield
        assert time.monotonic() - pressed_at[0] < WITHIN
    finally:
        timer.join()
