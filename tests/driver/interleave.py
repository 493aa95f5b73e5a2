"""Lets something happen between any two lines of a function, as another thread or a signal handler might."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import CodeType, FrameType
from typing import Any


def at_line(code: CodeType, number: int, action: Callable[[], None], run: Callable[[], Any]) -> bool:
    """Run; the action comes before the `number`-th line executed in `code`.  False if there is none."""
    lines = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        if frame.f_code is not code:
            return None

        def local(frame: FrameType, event: str, argument: Any) -> Any:
            nonlocal lines
            if event == "line":
                lines += 1
                if lines == number:
                    # Not traced itself, or an action that runs the same code would count.
                    sys.settrace(None)
                    action()
                    sys.settrace(trace)
            return local

        return local

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        run()
    finally:
        sys.settrace(before)
    return lines >= number


def at_every_line(attempt: Callable[[int], bool]) -> Iterator[int]:
    """The numbers of all lines, each tried once: `attempt(number)` uses `at_line` and returns its answer."""
    number = 1
    while attempt(number):
        yield number
        number += 1
