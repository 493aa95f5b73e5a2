"""Many seeds, one after the other in this process or several at a time in processes of their own.

A seed keeps one processor busy and shares nothing with the others.
"""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Future

T = TypeVar("T")
R = TypeVar("R")


def play_all(play: Callable[[T], R], items: Iterable[T], jobs: int = 1) -> Iterator[R]:
    """`play` of each item, in the order in which they end.

    Items are taken only when there is room, so that a caller may end them when time is up.  With `jobs` above
    1 `play` runs in other processes: it, its items and its results must be picklable.
    """
    if jobs <= 1:
        yield from map(play, items)
        return
    from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
    from multiprocessing import get_context

    source = iter(items)
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=begin_job) as pool:
        # One more than there are processes, so that none waits for us.
        under_way: dict[Future[R], None] = {
            pool.submit(play, item): None for item in islice(source, jobs + 1)
        }
        try:
            while under_way:
                done, _ = wait(under_way, return_when=FIRST_COMPLETED)
                for future in done:
                    del under_way[future]
                    under_way.update((pool.submit(play, item), None) for item in islice(source, 1))
                    yield future.result()
        finally:
            for future in under_way:
                future.cancel()


def begin_job() -> None:
    """In each process: the one that started it says when it is over, and faults make clients log a lot."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    logging.disable(logging.CRITICAL)


@contextmanager
def without_logs() -> Iterator[None]:
    """Logging of faults by clients and brokers is off meanwhile: the timeline shows more."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)
