"""Code blocks of README and docs have at most 76 columns: at 1,400 px the site cuts longer lines.

`docs/ruff.toml` lets `ruff format` wrap Python; this test finds comments, texts and other languages, too.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
WIDTH = 76
FENCE = re.compile(r"( *)(`{3,}|~{3,})")


def wide_lines(text: str) -> list[tuple[int, str]]:
    """Return the lines of code blocks that are too long, with their numbers."""
    found, fence, indent = [], "", ""
    for number, line in enumerate(text.splitlines(), 1):
        mark = FENCE.match(line)
        if mark and not fence:
            indent, fence = mark.groups()
        elif mark and mark[2].startswith(fence) and not line[mark.end() :].strip():
            fence = ""
        elif fence and len(line.removeprefix(indent)) > WIDTH:
            found.append((number, line))
    return found


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda d: str(d.relative_to(ROOT)))
def test_code_blocks_have_at_most_76_columns(document: Path) -> None:
    found = [
        f"{document.relative_to(ROOT)}:{number}: {len(line)} columns: {line}"
        for number, line in wide_lines(document.read_text(encoding="utf-8"))
    ]
    assert not found, "\n".join(found)


def test_a_line_of_77_columns_is_found_with_its_number() -> None:
    good, bad = "x" * 76, "y" * 77
    text = f"{bad}\n```python\n{good}\n{bad}\n```\n{bad}\n- a\n\n    ~~~\n    {good}\n    {bad}\n    ~~~\n"
    assert wide_lines(text) == [(4, bad), (11, f"    {bad}")]


def test_another_fence_inside_a_block_does_not_end_it() -> None:
    assert wide_lines(f"````\n```\n{'z' * 77}\n```\n````\n{'z' * 77}\n") == [(3, "z" * 77)]
