"""The file map of docs/architecture.md has every folder, and its layers every module that all use."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "architecture.md"
PACKAGES = ("pykafka2", "spark_connector")


def file_map(text: str) -> dict[str, str]:
    """The rows: what is in each folder, by the folders of the first column."""
    rows = [line.split("|")[1:3] for line in text.split("## File map")[1].split("\n## ")[0].splitlines()]
    return {
        folder: said
        for row in rows
        if len(row) == 2
        for folder in re.findall(r"`([^`]+)`", row[0])
        for said in row[1:]
    }


def folders() -> set[str]:
    """The folders that hold modules, as the map writes them."""
    found = {path.parent for package in PACKAGES for path in (ROOT / package).rglob("*.py")}
    return {f"{path.relative_to(ROOT).as_posix()}/" for path in found}


def test_every_folder_is_on_the_map() -> None:
    """With a row of its own, or named in the row of a folder above it."""
    rows = file_map(PAGE.read_text(encoding="utf-8"))
    missing = []
    for folder in sorted(folders() - rows.keys() - {"pykafka2/"}):
        parts = folder.rstrip("/").split("/")
        above = ["/".join(parts[:end]) + "/" for end in range(1, len(parts))]
        is_named = any(
            f"`{'/'.join(parts[start:])}/" in rows.get(one, "")
            for one in above
            for start in range(1, len(parts))
        )
        if not is_named:
            missing.append(folder)
    assert missing == []


def test_every_folder_on_the_map_is_there() -> None:
    rows = file_map(PAGE.read_text(encoding="utf-8"))
    assert len(rows) > 20
    assert [one for one in rows if not list(ROOT.glob(one))] == []


def test_every_module_that_all_layers_use_is_in_the_table_of_layers() -> None:
    text = PAGE.read_text(encoding="utf-8")
    (row,) = re.findall(r"^\| `(errors [^`]+)` \|", text, re.MULTILINE)
    # What programs import or run, and no module of ours does.
    entrances = {"__init__", "__main__", "partitioner", "structs"}
    modules = {path.stem for path in (ROOT / "pykafka2").glob("*.py")} - entrances
    assert set(row.split()) == modules
