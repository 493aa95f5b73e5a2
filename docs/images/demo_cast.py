"""Plays `pykafka2 demo` and draws what it printed as demo.svg: `python docs/images/demo_cast.py`.

The lines of the SVG appear one after the other, as in a terminal.  A test compares their wording with the
output of a new run, so the picture cannot show what the demo no longer prints.
"""

from __future__ import annotations

import re
import subprocess
import sys
from html import escape, unescape
from pathlib import Path

TARGET = Path(__file__).with_name("demo.svg")
COMMAND = "pykafka2 demo"
WIDTH, TOP, LINE = 780, 46, 19
DELAY = 0.12
"""Seconds between two lines."""


def output_of(*arguments: str) -> list[str]:
    """Return the lines that the demo prints, without the progress bars."""
    command = [sys.executable, "-m", "pykafka2.cli.main", "demo", "--no-progress", *arguments]
    played = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)  # noqa: S603
    return played.stdout.splitlines()


def wording(lines: list[str]) -> list[str]:
    """Return the lines with numbers, plurals and runs of spaces made equal, to compare two runs."""
    numberless = (re.sub(r"[\d,.]*\d", "N", re.sub(r"s\b", "", line)) for line in lines)
    return [re.sub(r"\s+|(?<=N) (?=N)", " ", line).strip() for line in numberless]


def draw(lines: list[str]) -> str:
    """Return a terminal window in which the lines appear."""
    shown = [f"$ {COMMAND}", *lines]
    height = TOP + len(shown) * LINE + 8
    texts = [
        f'<text x="20" y="{TOP + number * LINE}" style="animation-delay:{number * DELAY:.2f}s" '
        f'xml:space="preserve">{escape(line)}</text>'
        for number, line in enumerate(shown)
    ]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}">',
            "<style>text{font:13px ui-monospace,Menlo,Consolas,monospace;fill:#d7dde5;opacity:0;"
            "animation:appear .1s forwards}@keyframes appear{to{opacity:1}}</style>",
            f'<rect width="{WIDTH}" height="{height}" rx="8" fill="#161b22"/>',
            '<circle cx="22" cy="18" r="6" fill="#ff5f57"/><circle cx="42" cy="18" r="6" fill="#febc2e"/>'
            '<circle cx="62" cy="18" r="6" fill="#28c840"/>',
            *texts,
            "</svg>",
            "",
        ]
    )


def drawn_lines(svg: str) -> list[str]:
    """Return the lines in a drawing, without the command."""
    return [unescape(line) for line in re.findall(r'xml:space="preserve">(.*?)</text>', svg)][1:]


if __name__ == "__main__":
    TARGET.write_text(draw(output_of()), encoding="utf-8")
