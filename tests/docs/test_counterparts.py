"""The table of Apache Kafka's classes in docs/architecture.md names classes and files that there are."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
HEADING = "## For those who know Apache Kafka's sources"


def test_the_classes_beside_apache_kafkas_are_in_the_files_named_there() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = [
        line.split("|")[2:4] for line in text.split(HEADING)[1].split("\n## ")[0].splitlines() if "`" in line
    ]
    named = [row for row in rows if len(row) == 2][1:]  # the first is the heading
    assert len(named) > 10
    for ours, files in named:
        paths = [ROOT / "pykafka2" / "broker" / path for path in re.findall(r"`([^`]+)`", files)]
        sources = "\n".join(path.read_text(encoding="utf-8") for path in paths)
        for name in re.findall(r"`([A-Z]\w+)`", ours):
            assert re.search(rf"^class {name}\b", sources, re.MULTILINE), f"{name} is not in {files}"
