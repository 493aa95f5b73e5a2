"""No module reads a private attribute that another one defines: what modules share has public names."""

from __future__ import annotations

import ast
import re
import sys

import pytest

from tests.architecture.modules import source_files

OF_OTHERS = {
    "pykafka2.aio.runtime": {"_is_owned", "_release_save", "_acquire_restore"},  # as threading.Condition does
    "pykafka2.aio.tables": {"_repr_html_"},  # the name that notebooks call
    "pykafka2.cli.common.parsing": {"_get_values"},  # argparse has no other place to change a value
    "pykafka2.producer.delivery.loop_future": {"_get_running_loop"},  # faster than the public one
    "pykafka2.testing.waiting": {"_get_running_loop"},
    "pykafka2.contrib.faststream": {"_serializer"},  # the producer of FastStream is not public
}
"""Private attributes of other packages, which have no public counterpart."""

ACCESS = re.compile(r"(?<!\bself)(?<!\bcls)\._[a-z]|\bimport\b.*\b_[a-z]")
"""Without a match there is no access, and most files need not be parsed."""

OF_NAMED_TUPLES = {"_replace", "_fields", "_make", "_asdict"}


def private_accesses(name: str, source: str) -> list[str]:
    """Return the private attributes that a module reads of objects whose classes it does not define."""
    if ACCESS.search(source) is None:
        return []
    tree = ast.parse(source)
    own = _defined_names(tree) | OF_OTHERS.get(name, set()) | OF_NAMED_TUPLES
    standard = {
        alias.asname or alias.name.partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
        if (getattr(node, "module", None) or alias.name).partition(".")[0] in sys.stdlib_module_names
    }
    found = [
        f"{name}:{node.lineno} {alias.name} of {node.module}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        and (node.module or "").startswith(("pykafka2", "spark_connector"))
        for alias in node.names
        if alias.name.startswith("_") and not alias.name.startswith("__")
    ]
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute) or not node.attr.startswith("_") or node.attr.endswith("__"):
            continue
        match node.value:
            case ast.Name(id="self" | "cls"):
                continue
            case ast.Name(id=base):
                is_own = base in standard or node.attr in own
            case ast.Call(func=ast.Name(id="super")):
                continue
            case _:  # an attribute of an attribute, or of a result: its class is rarely that of this module
                is_own = node.attr in OF_OTHERS.get(name, set()) | OF_NAMED_TUPLES
        if not is_own:
            found.append(f"{name}:{node.lineno} {ast.unparse(node)}")
    return found


def _defined_names(tree: ast.Module) -> set[str]:
    """Return the names that the classes of a module define: methods, annotations, `self.name = ...`."""
    names: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                names.add(name)
            case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Store()):
                names.add(name)
            case ast.AnnAssign(target=ast.Name(id=name)):
                names.add(name)
    return names


@pytest.mark.gate
def test_no_module_reads_a_private_attribute_of_another() -> None:
    found = [
        one
        for name, path in source_files().items()
        for one in private_accesses(name, path.read_text(encoding="utf-8"))
    ]
    assert found == []


@pytest.mark.parametrize(
    "planted",
    [
        "limit = consumer._core.options",
        "class Consumer:\n    def __init__(self):\n        self._options = self._consumer._options",
        "class Reads:\n    async def getone(self):\n        return self._consumer._take_queued(1)",
        "for one in clients: one._cluster.close()",
        "def core_of(client): return client()._core",
        "delivery._outcome = outcome",
        "from pykafka2.consumer.core import _second_thread",
    ],
)
def test_the_check_finds_a_planted_access(planted: str) -> None:
    assert private_accesses("pykafka2.aio.planted", planted)


@pytest.mark.parametrize(
    "allowed",
    [
        "class Set:\n    def __or__(self, other):\n        self._items = other._items",
        "import sys\nframe = sys._getframe(1)",
        "row = row._replace(name='orders')",
        "record.__class__.__name__",
    ],
)
def test_the_check_accepts_attributes_of_the_own_class_and_the_standard_library(allowed: str) -> None:
    assert private_accesses("pykafka2.aio.planted", allowed) == []
