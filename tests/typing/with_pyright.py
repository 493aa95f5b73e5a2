"""The public signatures, as pyright lets an application see them: `python -m tests.typing.with_pyright`.

uses.py marks the lines that a type checker has to refuse, for mypy; pyright (basedpyright, which heeds no
such marks) has to refuse the same lines and no others.  Needs `basedpyright` on the path; `nox -s long`
brings it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.typing.shortness import LONGEST, WRONG_OPTIONS, wrong_lines

USES = Path(__file__).parent / "uses.py"
MARK = "# type: ignore["


def errors(file: Path) -> list[tuple[int, str]]:
    """The line and the message of each error that it finds."""
    command = ["basedpyright", "--outputjson", "--level", "error", "--pythonpath", sys.executable, str(file)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    found = json.loads(done.stdout)["generalDiagnostics"]
    return [
        (one["range"]["start"]["line"] + 1, one["message"]) for one in found if one["severity"] == "error"
    ]


def refused() -> set[int]:
    """The numbers of the lines in which it finds an error."""
    return {line for line, _ in errors(USES)}


def refuses_briefly() -> bool:
    """Whether each wrong option gives one short error."""
    found = errors(WRONG_OPTIONS)
    longest = max(len(message) for _, message in found)
    lines = [line for line, _ in found]
    print(f"{WRONG_OPTIONS.name}: errors in lines {lines}, the longest has {longest} characters")
    return lines == wrong_lines() and longest <= LONGEST


def marked() -> set[int]:
    lines = USES.read_text().splitlines()
    return {number for number, line in enumerate(lines, 1) if MARK in line}


def main() -> int:
    found = refused()
    wrongly, missed = sorted(found - marked()), sorted(marked() - found)
    if wrongly or missed:
        print(f"{USES.name}: pyright refuses lines {wrongly}, and accepts lines {missed} that are wrong")
        return 1
    print(f"{USES.name}: pyright refuses the {len(marked())} lines that are wrong, and no other")
    return 0 if refuses_briefly() else 1


if __name__ == "__main__":
    sys.exit(main())
