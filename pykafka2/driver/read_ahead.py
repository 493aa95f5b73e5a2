"""Iterates on a thread of its own, one item ahead, so that a caller can wait for a limited time.

For callers that must return now and then while they wait, such as a library that notices Ctrl-C between
calls. Like the other threads of clients it is a daemon, but a generator that is closed leaves none behind.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Generator
from contextlib import ExitStack, closing, suppress
from typing import Any, TypeVar

T = TypeVar("T")


def read_ahead(
    iterate: Callable[[], Generator[T, None, None]],
    interrupt: Callable[[], object],
    late_after_s: float,
    name: str,
) -> Generator[T | None, None, None]:
    """Yield the items of `iterate()`, and None each time that the next one takes longer than `late_after_s`.

    At the end, or when it is closed, it calls `interrupt`, which ends a step that blocks, and waits for the
    thread. Errors of the iteration are raised here.
    """
    found: queue.Queue[Any] = queue.Queue(1)
    ended = threading.Event()
    thread = threading.Thread(
        target=_iterate, args=(iterate, found, ended, late_after_s), name=name, daemon=True
    )
    with ExitStack() as stack:
        thread.start()
        stack.callback(thread.join)
        stack.callback(interrupt)
        stack.callback(ended.set)
        while True:
            try:
                entry = found.get(timeout=late_after_s)
            except queue.Empty:
                yield None
                continue
            if isinstance(entry, _End):
                if entry.error is not None:
                    raise entry.error
                return
            yield entry


class _End:
    """The end of an iteration."""

    __slots__ = ("error",)

    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error


def _iterate(
    iterate: Callable[[], Generator[T, None, None]],
    found: queue.Queue[Any],
    ended: threading.Event,
    retry_after_s: float,
) -> None:
    """Put the items, and then the end, until `ended` is set."""

    def put(entry: object) -> None:
        while not ended.is_set():
            with suppress(queue.Full):
                found.put(entry, timeout=retry_after_s)
                return

    try:
        with closing(iterate()) as items:
            for item in items:
                put(item)
                if ended.is_set():
                    return
        put(_End())
    except BaseException as error:
        put(_End(error))
