"""The file of `--resume`: a line for each run that has ended, so that hours of runs can be played in parts.

Its first line says of which code the runs are; those of other code are not mixed with them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import attrs

from benchmarks.producer.runs import Run
from benchmarks.side_by_side.measured import Measured
from tests.campaign.results import Played

SHAPE = {"benchmark": "producer"}


class Kept:
    """The runs of a file, each given out once; what is played besides is added to it.

    Raises `UnlikeParts` where the file holds runs of other code.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._left: dict[str, list[Measured]] = {}
        """Results of each run's rounds, in their order."""
        lines = path.read_text(encoding="utf-8").split("\n") if path.exists() else []
        played = Played.now(SHAPE)
        whole = lines[:-1]  # behind the last line's end there is nothing, or half a line of a crash
        if not whole:
            path.write_text(json.dumps(attrs.asdict(played), sort_keys=True) + "\n", encoding="utf-8")
            return
        played.check_like(Played(**json.loads(whole[0])), str(path))
        for line in whole[1:]:
            known = json.loads(line)
            self._left.setdefault(_key(known["run"]), []).append(Measured(**known["measured"]))
        path.write_text("\n".join([*whole, ""]), encoding="utf-8")

    def has(self, run: Run, rounds: int) -> bool:
        """Return whether so many rounds of the run need not be played."""
        return len(self._left.get(_key(attrs.asdict(run)), ())) >= rounds

    def play(self, run: Run, play: Callable[[Run], Measured]) -> Measured:
        """Return the next round of the run: what it came to before, or comes to now."""
        left = self._left.get(_key(attrs.asdict(run)))
        if left:
            return left.pop(0)
        measured = play(run)
        line = json.dumps({"run": attrs.asdict(run), "measured": attrs.asdict(measured)}, sort_keys=True)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")
        return measured


def _key(run: object) -> str:
    return json.dumps(run, sort_keys=True)
