"""Results of seeds, one line of JSON each, so that a large run can be played and added up in parts.

A file of results begins with a line that says what was played: the code, the commit, the shape of the
scenario.  Parts are added only where these agree.  Written by run.py, a line as soon as a seed has ended.
"""

from __future__ import annotations

import hashlib
import json
import platform
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import attrs

import pykafka2
from pykafka2.testing.simulation.faults import Tallies, Tally
from tests.campaign.seed import Report

PACKAGE = Path(pykafka2.__file__).parent
CAMPAIGN = Path(__file__).parent


class UnlikeParts(ValueError):
    """Results of other code or of another scenario cannot be added."""


@attrs.define(frozen=True)
class Played:
    """Header of the seeds that were played: the first line of a file."""

    code: str
    """A hash of the package's source, whatever its commit: the same code plays the same stories."""
    shape: dict[str, Any]
    commit: str = ""
    python: str = ""

    @classmethod
    def now(cls, shape: dict[str, Any]) -> Played:
        """This code, with a scenario of this shape."""
        return cls(code_hash(), shape, _commit(), f"{platform.python_implementation()} {_version()}")

    def __str__(self) -> str:
        return f"commit {self.commit or 'unknown'} (code {self.code}), {self.python}, {self.shape}"

    def check_like(self, other: Played, where: str) -> None:
        """Raise `UnlikeParts` unless the seeds of both may be added."""
        if (self.code, self.shape) != (other.code, other.shape):
            raise UnlikeParts(f"{where} holds seeds of {other}, which cannot be added to those of {self}")


def code_hash() -> str:
    """The same for the same source files of the package and of the campaign."""
    digest = hashlib.blake2b(digest_size=8)
    for folder in (PACKAGE, CAMPAIGN):
        for path in sorted(folder.rglob("*.py")):
            digest.update(str(path.relative_to(folder)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def _version() -> str:
    return platform.python_version()


def _commit() -> str:
    """The commit that is checked out, for people; empty where there is no git."""
    try:
        found = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=10"],
            cwd=PACKAGE,
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
    except OSError:
        return ""
    return found.stdout.strip()


# ---------------------------------------------------------------------- lines


def to_line(report: Report) -> str:
    """A report as a line; its error only in words."""
    known = attrs.asdict(report, filter=lambda field, value: field.name not in ("error", "timeline"))
    return json.dumps(known, sort_keys=True)


def from_line(line: str) -> Report:
    """Read a line of `to_line`."""
    known = json.loads(line)
    known["tallies"] = {kind: Tally(**tally) for kind, tally in known["tallies"].items()}
    return Report(**known)


class ResultFile:
    """A file of results that grows with every seed."""

    def __init__(self, path: Path, played: Played) -> None:
        """Go on with the file, or begin it.  Raises `UnlikeParts` if it holds something else."""
        self.reports: list[Report] = []
        self._path = path
        if path.exists() and path.stat().st_size:
            before, self.reports = read(path)
            played.check_like(before, str(path))
            self._end_last_line()
        else:
            self._append(json.dumps(attrs.asdict(played), sort_keys=True))

    def add(self, report: Report) -> None:
        self.reports.append(report)
        self._append(to_line(report))

    def _end_last_line(self) -> None:
        """Cut off half a line that a crash has left: its seed is played again."""
        text = self._path.read_bytes()
        if not text.endswith(b"\n"):
            self._path.write_bytes(text[: text.rfind(b"\n") + 1])

    def _append(self, line: str) -> None:
        with self._path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")


def read(path: Path) -> tuple[Played, list[Report]]:
    """A file's first line, and its seeds; a last line that was cut off by a crash is left out."""
    first, *lines = path.read_text(encoding="utf-8").split("\n")
    played = Played(**json.loads(first))
    # Every line ends; what stands after the last end is nothing, or half a line.
    return played, [from_line(line) for line in lines[:-1]]


def add_parts(paths: Sequence[Path]) -> tuple[Played, list[Report], list[str]]:
    """All seeds of some files, each once, and what is wrong with them together.

    Raises `UnlikeParts`.  A seed that was played twice must have left the same trace.
    """
    first: Played | None = None
    reports: dict[int, Report] = {}
    problems: list[str] = []
    for path in paths:
        played, more = read(path)
        if first is None:
            first = played
        first.check_like(played, str(path))
        for report in more:
            known = reports.setdefault(report.seed, report)
            if known.trace_hash != report.trace_hash and not (known.failure or report.failure):
                problems.append(
                    f"seed {report.seed} left trace {known.trace_hash} and, in {path}, {report.trace_hash}"
                )
    if first is None:
        raise UnlikeParts("no file of results was named")
    return first, list(reports.values()), problems


def total(reports: Iterable[Report]) -> Tallies:
    """Outcomes of all faults."""
    tallies: Tallies = {}
    for report in reports:
        for kind, tally in report.tallies.items():
            tallies.setdefault(kind, Tally()).add(tally)
    return tallies
