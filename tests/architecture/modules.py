"""The package as a graph: which module imports which, read from the source, and when."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "pykafka2"


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def source_files() -> dict[str, Path]:
    return {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def _is_type_checking(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def top_level_statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements that run when the module is imported; not those for the type checker only."""
    for node in body:
        if _is_type_checking(node) or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        yield node
        for field in ("body", "orelse", "finalbody", "handlers"):
            yield from top_level_statements(getattr(node, field, []))


def imports_of(name: str, path: Path, known: set[str]) -> set[str]:
    """Modules of the package that `name` loads when it is imported."""
    found: set[str] = set()
    for node in top_level_statements(ast.parse(path.read_text()).body):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                found.add(inner if inner in known else node.module)
    return {imported for imported in found if imported in known and imported != name}


def import_graph() -> dict[str, set[str]]:
    files = source_files()
    return {name: imports_of(name, path, set(files)) for name, path in files.items()}
