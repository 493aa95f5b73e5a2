"""The notebook of examples/ runs from its first cell to its last, and draws the plot of the guide.

`python -m tests.docs.test_notebook` writes the plot again.
"""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
NOTEBOOK = ROOT / "examples" / "topics_as_tables.ipynb"
PLOT = ROOT / "docs" / "images" / "tables" / "orders.svg"


def cells() -> list[dict[str, Any]]:
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    assert notebook["nbformat"] == 4
    found: list[dict[str, Any]] = notebook["cells"]
    return found


def run() -> tuple[dict[str, Any], list[Any]]:
    """Run the code cells, as a kernel does; return the names, and the value of each last expression."""
    names: dict[str, Any] = {"__name__": "__main__"}
    shown = []
    for cell in cells():
        if cell["cell_type"] != "code":
            continue
        tree = ast.parse("".join(cell["source"]))
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, str(NOTEBOOK), "exec"), names)
        if last is not None:
            shown.append(eval(compile(ast.Expression(last.value), str(NOTEBOOK), "eval"), names))  # type: ignore[attr-defined]
    return names, shown


@pytest.mark.slow
def test_notebook_runs_and_draws_the_plot_of_the_guide() -> None:
    names, shown = run()
    written, scan, estimate, counts = shown[:4]
    assert (written.rows, written.failures) == (600, [])
    assert "<td>orders</td>" in scan._repr_html_()
    assert estimate.rows == 600 == sum(count for _, count, _ in counts)
    assert names["plot"]._repr_svg_() + "\n" == PLOT.read_text(encoding="utf-8")


def test_notebook_is_kept_without_outputs() -> None:
    code = [one for one in cells() if one["cell_type"] == "code"]
    assert all(not one["outputs"] and one["execution_count"] is None for one in code)


if __name__ == "__main__":
    PLOT.write_text(run()[0]["plot"]._repr_svg_() + "\n", encoding="utf-8")
