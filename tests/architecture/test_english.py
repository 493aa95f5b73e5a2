"""Docstrings start with a verb or a noun, as in the Python and Kafka documentation.

Folder by folder: those in `DONE` have no docstring that starts with a relative clause.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DONE = (
    "pykafka2/admin",
    "pykafka2/cli",
    "pykafka2/cluster",
    "pykafka2/compression",
    "pykafka2/consumer",
    "pykafka2/driver",
    "pykafka2/network",
    "pykafka2/producer",
    "pykafka2/protocol",
    "pykafka2/records",
    "spark_connector/sink",
)
OPENING = re.compile(r"(Who|Whose|Whom|What|Where|Of|As)\b")
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def docstrings_of(source: str) -> Iterator[str]:
    """The docstrings of a module, of its classes and of its functions."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, DOCUMENTED):
            docstring = ast.get_docstring(node)
            if docstring:
                yield docstring


@pytest.mark.parametrize("folder", DONE)
def test_docstrings_start_with_a_verb_or_a_noun(folder: str) -> None:
    paths = sorted((ROOT / folder).rglob("*.py"))
    assert paths
    found = [
        f"{path.relative_to(ROOT)}: {docstring.splitlines()[0]}"
        for path in paths
        for docstring in docstrings_of(path.read_text(encoding="utf-8"))
        if OPENING.match(docstring)
    ]
    assert found == []


def test_a_relative_clause_is_found() -> None:
    source = '"""What it does."""\n\ndef work() -> None:\n    """Return nothing."""\n'
    assert [bool(OPENING.match(one)) for one in docstrings_of(source)] == [True, False]
