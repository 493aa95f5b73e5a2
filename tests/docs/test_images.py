"""The pictures of the first page show today's figures and today's output."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

IMAGES = Path(__file__).parents[2] / "docs" / "images"


def script(name: str) -> ModuleType:
    """The script of that name beside the pictures."""
    spec = importlib.util.spec_from_file_location(name, IMAGES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_speed_chart_shows_the_figures_of_the_benchmarks_page() -> None:
    chart = script("speed_chart")
    assert chart.TARGET.read_text(encoding="utf-8") == chart.draw(chart.TABLES.read_text(encoding="utf-8"))


def test_speed_chart_changes_with_the_figures() -> None:
    chart = script("speed_chart")
    tables = chart.TABLES.read_text(encoding="utf-8")
    _, row, _ = chart.BARS[0]
    changed = tables.replace(f"{row} {chart.ratio_of(tables, row)}", f"{row} 9.99")
    assert changed != tables
    assert ">9.99 ×<" in chart.draw(changed)


def test_speed_chart_includes_a_latency_and_a_ratio_below_one() -> None:
    chart = script("speed_chart")
    tables = chart.TABLES.read_text(encoding="utf-8")
    assert any(is_latency for _, _, is_latency in chart.BARS)
    assert any(not is_latency and chart.ratio_of(tables, row) < 1 for _, row, is_latency in chart.BARS)


@pytest.mark.gate
@pytest.mark.slow
def test_demo_picture_shows_the_output_of_the_demo() -> None:
    cast = script("demo_cast")
    drawn = cast.drawn_lines(cast.TARGET.read_text(encoding="utf-8"))
    assert cast.wording(drawn) == cast.wording(cast.output_of("--records", "4000"))
    assert len(drawn) > 15


def test_wording_ignores_only_numbers_and_plurals() -> None:
    cast = script("demo_cast")
    assert cast.wording(["produced   1,000 records"]) == cast.wording(["produced 1 record"])
    assert cast.wording(["lost  0"]) != cast.wording(["found  0"])
