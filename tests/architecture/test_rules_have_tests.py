"""docs/broker-rules.md is whole: each rule has a name of its own, a promise, a source in Kafka, and
tests that are there.

A rule that is not built has its reason in place of tests.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path

import attrs
import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "broker-rules.md"
NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)+")
TEST = re.compile(r"^- `(tests/[\w/]+\.py)::(\w+)`$", re.MULTILINE)
FUNCTION = re.compile(r"^ *(?:async )?def (test_\w+)", re.MULTILINE)
NUMBERED = re.compile(r"test_(rule_|row_|requirement_)?\d+_")
MENTION = re.compile(r"broker-rules\.md#([\w-]+)|\brules? `?([a-z0-9]+(?:-[a-z0-9]+)+)\b(?!\.md)")
# What counts something that is not in the repository; "fault: rule 1 fired" is the id of a planted rule.
UNREADABLE = re.compile(
    r"(?<!fault: )\b(?:rules?|rows?|requirements?|steps?|sections?) \d+\b|\blater step\b", re.I
)


@attrs.frozen
class Rule:
    name: str
    text: str

    @property
    def promise(self) -> str:
        return self.text.partition("\nKafka: ")[0].strip()

    @property
    def source(self) -> str:
        return self._after("Kafka: ")

    @property
    def reason(self) -> str:
        """Why the broker does not keep it yet; empty for a rule that it keeps."""
        return self._after("Not built: ")

    @property
    def tests(self) -> list[tuple[str, str]]:
        return TEST.findall(self.text)

    def _after(self, start: str) -> str:
        found = re.search(rf"^{start}(.+)$", self.text, re.MULTILINE)
        return found[1] if found else ""


def rules() -> list[Rule]:
    _, *sections = re.split(r"^### ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return [Rule(*section.split("\n", 1)) for section in sections]


@cache
def functions_of(path: str) -> frozenset[str]:
    """The test functions of a file, those in classes, too."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return frozenset(one.name for one in functions if one.name.startswith("test_"))


def test_names_are_unique_and_can_be_linked_to() -> None:
    counted = Counter(rule.name for rule in rules())
    assert [name for name, count in counted.items() if count > 1 or not NAME.fullmatch(name)] == []
    assert len(counted) >= 93


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule.name)
def test_a_rule_has_a_promise_a_source_and_tests_or_a_reason(rule: Rule) -> None:
    assert rule.promise
    assert rule.source
    assert bool(rule.tests) != bool(rule.reason), "tests, or the reason why there are none"
    gone = [(path, name) for path, name in rule.tests if name not in functions_of(path)]
    assert gone == []


@pytest.mark.gate
def test_rules_that_are_mentioned_are_on_the_page() -> None:
    """A link to `broker-rules.md`, or "(rule acks-0-gets-no-reply)" in a docstring."""
    names = {rule.name for rule in rules()}
    documents = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("docs/guides/*.md")]
    sources = [path for folder in ("pykafka2", "tests") for path in (ROOT / folder).rglob("*.py")]
    mentioned = {
        link or name
        for path in (*documents, *sources)
        for link, name in MENTION.findall(path.read_text(encoding="utf-8"))
    }
    assert mentioned - names == set()


@pytest.mark.gate
def test_texts_do_not_refer_to_numbers_that_cannot_be_looked_up() -> None:
    folders = ("pykafka2", "benchmarks", "examples")
    sources = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    documents = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("docs/guides/*.md")]
    found = {
        f"{path.relative_to(ROOT)}: {mention}"
        for path in (*sources, *documents, ROOT / "noxfile.py", ROOT / ".ci" / "run")
        for mention in UNREADABLE.findall(path.read_text(encoding="utf-8"))
    }
    assert found == set()


@pytest.mark.gate
def test_tests_are_named_after_promises_not_numbers() -> None:
    """The number of a rule, a requirement or a row means nothing to the reader of a failure."""
    names = [
        (path.name, name)
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        for name in FUNCTION.findall(path.read_text(encoding="utf-8"))
    ]
    assert ("test_rules_have_tests.py", "test_tests_are_named_after_promises_not_numbers") in names
    assert [(path, name) for path, name in names if NUMBERED.match(name)] == []
