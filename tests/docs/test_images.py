"""The pictures of the first page show today's figures and today's output."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

IMAGES = Path(__file__).parents[2] / "docs" / "images"
ICONS = {"favicon.svg", "logo.svg"}
PICTURES = sorted(path for path in IMAGES.parent.rglob("*.svg") if path.name not in ICONS)


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


def test_speed_chart_shows_the_compiled_code_below_the_rows_that_have_it() -> None:
    chart = script("speed_chart")
    tables = chart.TABLES.read_text(encoding="utf-8")
    without = tables.replace(", compiled |", ", built |")
    _, row, _ = chart.BARS[0]
    drawn = chart.draw(f"{without}\n{chart.compiled(row)} 1.97 × | 0.71 × |\n")
    assert "compiled" not in chart.draw(without)
    assert ">1.97 × compiled<" in drawn
    assert f">{chart.ratio_of(tables, row):.2f} ×<" in drawn


def test_speed_chart_includes_a_latency_and_a_ratio_below_one() -> None:
    chart = script("speed_chart")
    tables = chart.TABLES.read_text(encoding="utf-8")
    assert any(is_latency for _, _, is_latency in chart.BARS)
    assert any(not is_latency and chart.ratio_of(tables, row) < 1 for _, row, is_latency in chart.BARS)


def test_speed_chart_names_date_and_commit_of_the_newest_run() -> None:
    chart = script("speed_chart")
    tables = "2026-11-01 `abcdef0`\n## Producer\n\nat 2026-11-27 (`1234567`) and 2026-11-20 (`89abcde`)\n"
    assert chart.measured(tables) == "2026-11-27, commit 1234567"
    with pytest.raises(ValueError, match="no date or no commit"):
        chart.measured("\n## Producer\n\n2026-11-27\n")


@pytest.mark.parametrize("picture", PICTURES, ids=lambda path: path.name)
def test_picture_can_be_read_on_light_and_dark_pages(picture: Path) -> None:
    """It is drawn in grey without a background, or with a background that dark pages turn dark."""
    drawing = picture.read_text(encoding="utf-8")
    has_background = re.search(
        r'<rect[^>]*(?:width="100%"|fill="(?:white|#161b22)")|style="fill: #ffffff"', drawing
    )
    if has_background:
        assert "prefers-color-scheme:" in drawing or 'fill="#161b22"' in drawing
    else:
        assert "#7d8590" in drawing


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
