"""Writes figures of matplotlib as SVG files that can be read on light and dark pages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

STYLE = '<style type="text/css">'
IN_THE_DARK = "@media (prefers-color-scheme: dark) {svg {filter: invert(0.88) hue-rotate(180deg)}}"
"""Light and dark change places; the hue of the lines stays."""


def save(figure: Any, path: Path) -> None:
    """Write an SVG without the time of day, and close the figure."""
    from matplotlib import pyplot as plt

    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})
    path.write_text(with_dark_colors(path.read_text(encoding="utf-8")), encoding="utf-8")
    plt.close(figure)


def with_dark_colors(svg: str) -> str:
    """Return the SVG with other colors for readers who prefer dark pages."""
    return svg if IN_THE_DARK in svg else svg.replace(STYLE, f"{STYLE}{IN_THE_DARK}", 1)
