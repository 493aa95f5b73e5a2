"""The package as a graph: which module imports which, read from the source, and in which way."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from functools import cache
from itertools import count
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "pykafka2"
PACKAGES = (PACKAGE, ROOT / "spark_connector")

Graph = dict[str, set[str]]


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@functools.cache
def source_files() -> dict[str, Path]:
    return {module_name(path): path for package in PACKAGES for path in sorted(package.rglob("*.py"))}


def imports_in(source: str, name: str, known: set[str]) -> set[str]:
    """Modules of the package that `name` imports anywhere: when it is loaded, for the type checker only
    (`if TYPE_CHECKING`), inside functions.  A reader has to follow all of them alike."""
    found: set[str] = set()
    for node in statements(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            of = _absolute(node, name, known)
            for alias in node.names:
                inner = f"{of}.{alias.name}"
                found.add(inner if inner in known else of)
    return {imported for imported in found if imported in known and imported != name}


def statements(tree: ast.Module) -> Iterator[ast.AST]:
    """All statements, wherever they are: many times quicker than to go through every expression, too."""
    left: list[ast.AST] = [tree]
    while left:
        node = left.pop()
        yield node
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            inner = getattr(node, field, ())
            if isinstance(inner, list):
                left += inner


@cache
def import_graph() -> Graph:
    """Every module with those that it imports; read once."""
    files = source_files()
    return {name: imports_in(path.read_text(), name, set(files)) for name, path in files.items()}


def circles(graph: Graph) -> list[frozenset[str]]:
    """The sets of modules of which each reaches all others of its set (Tarjan's algorithm)."""
    numbers: dict[str, int] = {}
    lowest: dict[str, int] = {}
    path: list[str] = []
    found: list[frozenset[str]] = []
    number = count()

    def visit(name: str) -> Iterator[str]:
        """Yield each module to visit next, so that long chains need no deep recursion."""
        numbers[name] = lowest[name] = next(number)
        path.append(name)
        for imported in sorted(graph.get(name, ())):
            if imported not in numbers:
                yield imported
                lowest[name] = min(lowest[name], lowest[imported])
            elif imported in path:
                lowest[name] = min(lowest[name], numbers[imported])
        if lowest[name] == numbers[name]:
            start = path.index(name)
            circle, path[start:] = frozenset(path[start:]), []
            if len(circle) > 1:
                found.append(circle)

    for name in sorted(graph):
        visits = [] if name in numbers else [visit(name)]
        while visits:
            following = next(visits[-1], None)
            if following is None:
                visits.pop()
            else:
                visits.append(visit(following))
    return found


def _absolute(node: ast.ImportFrom, name: str, known: set[str]) -> str:
    """The module that `from ... import` names, also where dots say it relative to `name`."""
    if not node.level:
        return node.module or ""
    is_package = any(other.startswith(f"{name}.") for other in known)
    parts = name.split(".")
    base = parts[: len(parts) - node.level + is_package]
    return ".".join([*base, node.module] if node.module else base)
