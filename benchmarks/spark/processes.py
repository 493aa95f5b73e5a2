"""Processor time and memory of a Spark session's processes: its JVM, and its Python workers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import attrs

TICKS = os.sysconf("SC_CLK_TCK")


@attrs.frozen
class Usage:
    """Seconds of processor time by process, of Python workers and of the JVM; resident MB of workers."""

    workers: dict[int, float]
    jvm: dict[int, float]
    worker_mb: float

    def worker_seconds_since(self, before: Usage) -> float:
        return _since(before.workers, self.workers)

    def jvm_seconds_since(self, before: Usage) -> float:
        return _since(before.jvm, self.jvm)


def usage() -> Usage:
    """The usage of this process's session, without this process itself."""
    workers: dict[int, float] = {}
    jvm: dict[int, float] = {}
    resident = 0.0
    for folder in _of_session():
        try:
            stat = (folder / "stat").read_text()
            pages = int((folder / "statm").read_text().split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
        name, fields = stat[stat.index("(") + 1 : stat.rindex(")")], stat[stat.rindex(")") + 2 :].split()
        seconds = sum(map(int, fields[11:13])) / TICKS
        if name == "java":
            jvm[int(folder.name)] = seconds
        else:
            workers[int(folder.name)] = seconds
            resident += pages * os.sysconf("SC_PAGESIZE") / (1 << 20)
    return Usage(workers, jvm, resident)


def _since(before: dict[int, float], after: dict[int, float]) -> float:
    """The processor time of a process that has ended meanwhile is unknown."""
    return sum(seconds - before.get(process, 0.0) for process, seconds in after.items())


def _of_session() -> Iterator[Path]:
    session = os.getsid(0)
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            try:
                if os.getsid(int(folder.name)) == session:
                    yield folder
            except (ProcessLookupError, PermissionError):
                continue
