"""A Ctrl-C in the middle of a blocking call, and how long the call took to notice."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

AFTER = 0.2
WITHIN = 1.0
"""Ten times what is promised, for machines with other work to do."""


@contextmanager
def interrupted() -> Iterator[None]:
    """What is done inside is hit by a Ctrl-C after a moment, and ends with it in time."""
    pressed_at: list[float] = []

    def press() -> None:
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
