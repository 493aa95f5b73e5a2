"""The code in README and docs runs as printed: every ```python block, in order, one namespace a file.

And the files that documents, docstrings and comments name are there.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator
from contextlib import ExitStack
from functools import cache
from inspect import signature
from pathlib import Path
from typing import Any

import pytest

from pykafka2.testing import QUICK, KafkaCluster
from tests.gate import rest_in_gate

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
PACKAGES = sorted(path for path in (ROOT / "pykafka2").iterdir() if path.is_dir() or path.suffix == ".py")
EXAMPLE_ADDRESS = "localhost:9092"
"""The address of the reader's own cluster."""
OF_THE_READER = frozenset({"test_shop.py", "group_notes.py", "test_group_notes.py"})
"""Files that a page tells its reader to write."""
EXAMPLE = "group_notes"
"""In blocks that tests/architecture/test_adding.py runs."""
MODULE = re.compile(r"(?<![\w*./-])(?:[\w.-]+/)*\w+\.py\b")


def code_of(document: Path) -> str:
    """All blocks of a document, each at its own line numbers, so that a traceback points into the text."""
    text = document.read_text()
    lines: list[str] = []
    for block in BLOCK.finditer(text):
        start = text.count("\n", 0, block.start(1))
        lines += [""] * (start - len(lines))
        lines += block.group(1).splitlines()
    return "\n".join(lines) + "\n"


def needs_spark(document: Path) -> bool:
    """Whether its code is run with Spark's tests, by tests/spark/test_spark_guides.py."""
    return document.name.startswith("spark")


@pytest.mark.slow
@pytest.mark.parametrize(
    "document",
    rest_in_gate(d for d in DOCUMENTS if BLOCK.search(d.read_text()) and not needs_spark(d)),
    ids=lambda d: str(d.relative_to(ROOT)),
)
def test_the_code_runs(document: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    run_with_a_cluster(code_of(document), str(document))


def run_with_a_cluster(code: str, name: str) -> None:
    """Run code, and its tests that take the fixture `kafka_cluster`; localhost:9092 is a bundled cluster."""
    namespace: dict[str, Any] = {"__name__": "documentation"}
    with ExitStack() as stack:
        if EXAMPLE_ADDRESS in code:
            cluster = stack.enter_context(KafkaCluster(brokers=1))
            code = code.replace(EXAMPLE_ADDRESS, cluster.bootstrap_servers)
        exec(compile(code, name, "exec", dont_inherit=True), namespace)
    for test in [value for key, value in namespace.items() if key.startswith("test_") and callable(value)]:
        # A test with `@pytest.mark.kafka(...)` needs another cluster; its guide runs it in a file of its own.
        if list(signature(test).parameters) == ["kafka_cluster"] and not hasattr(test, "pytestmark"):
            with KafkaCluster(brokers=3, config=QUICK) as cluster:
                test(cluster)


def test_tests_in_the_documentation_are_run() -> None:
    with pytest.raises(ZeroDivisionError):
        run_with_a_cluster("def test_x(kafka_cluster):\n    1 / 0\n", "x.md")


def unrun(text: str) -> list[str]:
    """Blocks that look like Python and are not run: fences other than ```python, which no test finds."""
    blocks = re.findall(r"^[ ]*(?:```|~~~)([^\n`]*)\n(.*?)^[ ]*(?:```|~~~)$", text, re.MULTILINE | re.DOTALL)
    code = re.compile(r"^ *(?:from|import) pykafka2", re.MULTILINE)
    return [
        block
        for fence, block in blocks
        if fence != "python" and ("py" in fence or code.search(block)) and EXAMPLE not in block
    ]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda d: str(d.relative_to(ROOT)))
def test_all_python_is_in_blocks_that_are_run(document: Path) -> None:
    assert unrun(document.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("fence", ["py", "python3", "python title=x", " python", ""])
def test_the_check_finds_a_block_that_is_not_run(fence: str) -> None:
    assert unrun(f"a\n```{fence}\nfrom pykafka2 import KafkaProducer\n```\n")
    assert unrun("a\n```python\nfrom pykafka2 import KafkaProducer\n```\nb\n```\nplain\n```\n") == []


def test_the_readme_has_code() -> None:
    assert BLOCK.search((ROOT / "README.md").read_text())


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda d: str(d.relative_to(ROOT)))
def test_paths_named_in_the_text_exist(document: Path) -> None:
    text = document.read_text()
    named = set(re.findall(r"`((?:pykafka2|tests|docs|examples|benchmarks|\.ci)/[\w./-]+)`", text))
    missing = sorted(path for path in named if not (ROOT / path).exists())
    assert missing == []


@cache
def modules() -> frozenset[str]:
    """Every Python file of the project by each ending of its path: a text may leave the beginning out."""
    folders = ("pykafka2", "spark_connector", "tests", "benchmarks", "examples", "docs")
    found = [*ROOT.glob("*.py"), *(path for folder in folders for path in (ROOT / folder).rglob("*.py"))]
    parts = (path.relative_to(ROOT).parts for path in found)
    return frozenset("/".join(names[start:]) for names in parts for start in range(len(names)))


def missing_modules(text: str) -> list[str]:
    found = MODULE.findall(text)
    return [one for one in found if one not in modules() and one.rpartition("/")[2] not in OF_THE_READER]


def prose_of(source: Path) -> Iterator[str]:
    """Comments, docstrings and messages of a source file, if it names a module at all."""
    text = source.read_text(encoding="utf-8")
    if MODULE.search(text) is None:
        return
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in (tokenize.COMMENT, tokenize.STRING):
            yield token.string


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.name)
def test_modules_named_in_docstrings_and_comments_exist(package: Path) -> None:
    sources = sorted(package.rglob("*.py")) if package.is_dir() else [package]
    named = {
        f"{source.relative_to(ROOT)}: {name}"
        for source in sources
        for text in prose_of(source)
        for name in missing_modules(text)
    }
    assert sorted(named) == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda d: str(d.relative_to(ROOT)))
def test_modules_named_in_documents_exist(document: Path) -> None:
    assert missing_modules(document.read_text(encoding="utf-8")) == []


def test_the_check_finds_modules_that_there_are_not() -> None:
    text = "see processor.py, server/processor.py and handlers/processor.py; *_records.py are many"
    assert missing_modules(text) == ["handlers/processor.py"]


def test_the_check_finds_a_block_at_its_own_lines(tmp_path: Path) -> None:
    document = tmp_path / "x.md"
    document.write_text("a\n\n```python\n1 / 0\n```\n")
    with pytest.raises(ZeroDivisionError) as caught:
        exec(compile(code_of(document), str(document), "exec", dont_inherit=True), {})
    assert caught.traceback[-1].lineno == 3
