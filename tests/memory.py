"""The memory of a test run: kept low, printed at its end, and limited by `--max-memory-mb`."""

from __future__ import annotations

import ctypes
import gc
import resource
import sys
import warnings
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

KEPT_MB = 12
"""Memory that the tests of one file may leave behind before it is collected in their midst."""

FILES_KEPT_APART = 100
"""After this many files all objects are collected, also those that earlier files left in use."""

IN_USE = Path("/proc/self/statm")

# glibc's malloc.h
M_MMAP_THRESHOLD = -3
M_ARENA_MAX = -8
LARGE_BLOCK_BYTES = 1 << 18


class MemorySaver:
    """A pytest plugin that gives back what tests have left, after each file of them.

    The parts of a cluster refer to each other in cycles, so a closed one stays until the garbage collector
    has run. It runs less often, and takes longer, the more objects there are. So the long-lived objects of
    pytest are set aside, and those that a file of tests leaves in use. And glibc keeps freed memory until it
    trims: small blocks in an arena of each of many short-lived threads, blocks as large as one that was freed
    before among the small ones. So arenas are shared, and each large block is one of its own, which goes back
    to the system when it is freed.
    """

    def __init__(self) -> None:
        self._in_use_mb = 0
        self._files = 0
        libc = ctypes.CDLL(None) if IN_USE.exists() else None
        self._trim = getattr(libc, "malloc_trim", None)
        tune = getattr(libc, "mallopt", None)
        if tune is not None:
            tune(M_ARENA_MAX, 2)
            tune(M_MMAP_THRESHOLD, LARGE_BLOCK_BYTES)

    @pytest.hookimpl(wrapper=True)
    def pytest_collection(self) -> Generator[None, object, object]:
        gc.disable()
        try:
            return (yield)
        finally:
            gc.enable()
            gc.collect()
            gc.freeze()
            self._give_back()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Generator[None, object, object]:
        answer = yield
        is_last = nextitem is None or nextitem.path != item.path
        if is_last:
            self._files += 1
            if self._files % FILES_KEPT_APART == 0 or nextitem is None:
                gc.unfreeze()
            _collect(item)
            gc.freeze()
        elif in_use_mb() > self._in_use_mb + KEPT_MB:
            _collect(item)
        else:
            return answer
        self._give_back()
        return answer

    def _give_back(self) -> None:
        if self._trim is not None:
            self._trim(0)
        self._in_use_mb = in_use_mb()


def _collect(item: pytest.Item) -> None:
    """Collect what `item` has left; where it forgives forgotten sockets, that holds here, too."""
    with warnings.catch_warnings():
        if any("ResourceWarning" in mark.args[0] for mark in item.iter_markers("filterwarnings")):
            warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


class MemoryReport:
    """A pytest plugin that says what each process of the run took, and fails it if that was too much.

    With pytest-xdist each worker tells the process that it was started by.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._limit_mb: int | None = config.getoption("--max-memory-mb")
        self._peaks: dict[str, int] = {}

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        self._peaks[node.gateway.id] = getattr(node, "workeroutput", {}).get("peak_memory_mb", 0)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        self._peaks["pytest"] = peak_memory_mb()
        output: dict[str, object] | None = getattr(self._config, "workeroutput", None)
        if output is not None:
            output["peak_memory_mb"] = self._peaks["pytest"]
        elif self._too_large() and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        peaks = ", ".join(f"{name} {peak} MB" for name, peak in sorted(self._peaks.items()))
        terminalreporter.write_line(f"peak memory: {peaks}")
        if too_large := self._too_large():
            line = f"too much memory: more than {self._limit_mb} MB in {', '.join(too_large)}"
            terminalreporter.write_line(line, red=True)

    def _too_large(self) -> list[str]:
        limit = self._limit_mb
        return [] if limit is None else [name for name, peak in self._peaks.items() if peak > limit]


def peak_memory_mb() -> int:
    """The most memory that this process has had so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return int(peak / (1 << 20 if sys.platform == "darwin" else 1 << 10))


def in_use_mb() -> int:
    """The memory that this process has now; 0 where the system does not say."""
    if not IN_USE.exists():
        return 0
    return int(IN_USE.read_text().split()[1]) * resource.getpagesize() >> 20
