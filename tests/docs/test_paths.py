"""Files and folders that pages, comments and docstrings name are there."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
TOP = "pykafka2|spark_connector|tests|benchmarks|examples|docs|.ci|.github"
# A folder or a file in code style: `pykafka2/broker/log/`, `tests/docs`.
IN_CODE = re.compile(rf"`((?:{TOP})(?:/[\w.*-]+)*)/?`")
# The arguments of a run: `tests/producer tests/network`.
SEVERAL = re.compile(r"`([^`]*)`")
# In comments and docstrings: `rule.py`, `controls/rules.py`; not behind a dot, a slash or a bracket of code.
MODULE = re.compile(r"(?<![\w./'\"*-])((?:\w+/)*\w+\.py)\b(?!['\"])")
COMMENT = re.compile(r'"""(.*?)"""|#([^\n]*)', re.DOTALL)


@cache
def everything() -> frozenset[str]:
    """All files, and the folders that they are in, by their paths from here."""
    found: set[str] = set()
    for top in ("pykafka2", "spark_connector", "tests", "benchmarks", "examples", "docs", ".ci", ".github"):
        for path in (ROOT / top).rglob("*"):
            if "__pycache__" not in path.parts:
                found.add(path.relative_to(ROOT).as_posix())
        found.add(top)
    return frozenset(found | {path.name for path in ROOT.iterdir()})


@cache
def endings() -> frozenset[str]:
    """Every way to name a module by the end of its path."""
    found: set[str] = set()
    for path in everything():
        if path.endswith(".py"):
            parts = PurePosixPath(path).parts
            found |= {"/".join(parts[start:]) for start in range(len(parts))}
    return frozenset(found)


@pytest.mark.parametrize("page", PAGES, ids=[path.relative_to(ROOT).as_posix() for path in PAGES])
def test_paths_named_by_a_page_exist(page: Path) -> None:
    text = re.sub(r"^ *```.*?^ *```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    named = set(IN_CODE.findall(text))
    for code in SEVERAL.findall(text):
        if code.startswith("tests/"):
            named |= {one.split("::")[0].rstrip("/") for one in code.split()}
    assert [one for one in sorted(named) if "*" not in one and one not in everything()] == []


@pytest.mark.gate
def test_modules_named_by_comments_and_docstrings_exist() -> None:
    sources = [
        path
        for top in ("pykafka2", "spark_connector", "tests/campaign")
        for path in sorted((ROOT / top).rglob("*.py"))
    ]
    missing = [
        f"{path.relative_to(ROOT)}: {named}"
        for path in sources
        for words in COMMENT.findall(path.read_text(encoding="utf-8"))
        for named in MODULE.findall("".join(words))
        if named not in endings()
    ]
    assert missing == []


def test_the_first_page_leads_to_every_guide() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    guides = [path.name for path in sorted((ROOT / "docs" / "guides").glob("*.md"))]
    assert [name for name in guides if f"(docs/guides/{name})" not in text] == []
