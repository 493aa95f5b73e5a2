"""The table "Where to find it" in docs/architecture.md names functions, classes and tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
HEADING = "## Where to find it"


def test_names_in_the_table_are_defined_in_their_files() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| (.+) \| (.+) \| (.+) \|$", text.split(HEADING)[1].split("\n## ")[0], re.MULTILINE
    )[1:]
    assert len(rows) > 8
    missing = []
    for _, code, test in rows:
        for folder, cell in (("pykafka2", code), ("tests", test)):
            for path, names in re.findall(r"`([\w/]+\.py)`(?:: ((?:`\w+`(?:, )?)+))?", cell):
                source = (ROOT / folder / path).read_text(encoding="utf-8")
                missing += [
                    f"{path}: {name}"
                    for name in re.findall(r"\w+", names)
                    if not re.search(rf"^\s*(?:def|class) {name}\b", source, re.MULTILINE)
                ]
    assert missing == []
