"""Definition of "one short error" for tests/typing/wrong_options.py."""

from __future__ import annotations

from pathlib import Path

WRONG_OPTIONS = Path(__file__).parent / "wrong_options.py"
LONGEST = 600
"""Characters of an error with its file name; `partition_assignment_strategy` lists all its types."""


def wrong_lines() -> list[int]:
    """The numbers of the lines with a wrong option."""
    lines = WRONG_OPTIONS.read_text().splitlines()
    return [number for number, line in enumerate(lines, 1) if line.startswith("Kafka")]
