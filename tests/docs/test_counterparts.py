"""The table of Apache Kafka's classes in docs/architecture.md names classes and files that there are."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
HEADING = "## For readers of Apache Kafka's sources"
TABLE = r"^\| in Apache Kafka \| here \| in `([^`]+)` \|\n\|[-|]+\n((?:\|.*\n)+)"


def test_classes_in_the_table_of_counterparts_are_in_their_named_files() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    tables = re.findall(TABLE, text.split(HEADING)[1].split("\n## ")[0], re.MULTILINE)
    assert [folder for folder, _ in tables] == ["pykafka2/broker/", "pykafka2/"]
    named = [(folder, *line.split("|")[2:4]) for folder, rows in tables for line in rows.splitlines() if line]
    assert len(named) > 20
    for folder, ours, files in named:
        paths = [ROOT / folder / path for path in re.findall(r"`([^`]+)`", files)]
        sources = "\n".join(path.read_text(encoding="utf-8") for path in paths)
        for name in re.findall(r"`([A-Z]\w+)`", ours):
            assert re.search(rf"^class {name}\b", sources, re.MULTILINE), f"{name} is not in {files}"
