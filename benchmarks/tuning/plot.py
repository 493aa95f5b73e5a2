"""Draws a curve: throughput, latency and processor time over an option's values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.side_by_side.drawing import save
from benchmarks.tuning.curves import KIB, Curve
from benchmarks.tuning.points import Outcome

LOG_RANGE = 20
"""A logarithmic axis shows latencies whose largest value is more than so many times the smallest."""

WIDE_GAP = 64
"""A first value that is so many times smaller than the second would leave little room for the others."""

Lines = list[tuple[str, list[float]]]


def plot(curve: Curve, outcomes: dict[Any, Outcome], path: Path) -> None:
    """Write an SVG with three panels: lines over numbers, bars over names."""
    import matplotlib as mpl

    mpl.use("Agg")
    settings = {
        "svg.hashsalt": curve.option,  # the same file for the same figures
        "svg.fonttype": "none",  # text, which a browser scales and a reader can search
        "font.family": ["DejaVu Sans", "sans-serif"],
        "axes.prop_cycle": mpl.cycler(color=["#0072b2", "#d55e00"]),  # for the colour-blind, too
    }
    with mpl.rc_context(settings):
        _draw(curve, outcomes, path)


def _draw(curve: Curve, outcomes: dict[Any, Outcome], path: Path) -> None:
    from matplotlib import pyplot as plt
    from matplotlib.ticker import LogLocator

    panels = _panels(curve, list(outcomes.values()))
    figure, axes = plt.subplots(1, len(panels), figsize=(11, 3.2))
    for axis, (title, lines) in zip(axes, panels, strict=True):
        if _is_numeric(curve):
            _draw_lines(axis, curve, list(outcomes), lines)
        else:
            _draw_bars(axis, curve, list(outcomes), lines)
        values = [value for _, heights in lines for value in heights]
        if title.startswith("Latency") and max(values) > LOG_RANGE * min(values) > 0:
            axis.set_yscale("log")
            axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axis.yaxis.set_major_formatter("{x:g}")
            axis.minorticks_off()
            axis.set_ylim(min(values) * 0.7, max(values) * 5)
            title += ", log scale"
        else:
            axis.set_ylim(0, max(*values, 1e-9) * (1.3 if len(lines) > 1 else 1.12))
        if len(lines) > 1:
            axis.legend(fontsize=9, loc="upper right", ncols=2)
        axis.set_title(title, fontsize=11)
        axis.set_xlabel(f"{curve.option}{f' ({curve.unit})' if curve.unit else ''}", fontsize=10)
        axis.tick_params(labelsize=9)
        axis.grid(alpha=0.3)
    figure.tight_layout()
    save(figure, path)


def _panels(curve: Curve, outcomes: list[Outcome]) -> list[tuple[str, Lines]]:
    """Return title and named lines of each panel."""
    where = "send to poll" if curve.workload == "consume" else "send to callback"
    return [
        ("Throughput (thousand records/s)", [("", [one.records_per_second / 1e3 for one in outcomes])]),
        (
            f"Latency, {where} (ms)",
            [("p50", [one.p50_ms for one in outcomes]), ("p99", [one.p99_ms for one in outcomes])],
        ),
        (
            "CPU time per record (µs)",
            [
                ("client", [one.client_cpu_us for one in outcomes]),
                ("broker", [one.broker_cpu_us for one in outcomes]),
            ],
        ),
    ]


def _is_numeric(curve: Curve) -> bool:
    return all(isinstance(value, int) for value in curve.values)


def _draw_lines(axis: Any, curve: Curve, values: list[Any], lines: Lines) -> None:
    """Draw lines over a logarithmic axis, whose first part is linear if the first value is 0 or far away."""
    for (name, heights), marker in zip(lines, "os", strict=False):
        axis.plot(values, heights, marker=marker, markersize=5, label=name)
    scaled = values[1] if values[0] == 0 or values[1] > WIDE_GAP * values[0] else None
    if scaled is None:
        axis.set_xscale("log", base=2)
    else:
        axis.set_xscale("symlog", base=2, linthresh=scaled, linscale=1.5)
    axis.set_xticks(values, _tick_labels(curve, values))
    axis.minorticks_off()
    if curve.default in values:
        axis.axvline(curve.default, color="#888888", linestyle=":", linewidth=1.5, zorder=0)


def _draw_bars(axis: Any, curve: Curve, values: list[Any], lines: Lines) -> None:
    width = 0.8 / len(lines)
    for number, (name, heights) in enumerate(lines):
        places = [place + (number - (len(lines) - 1) / 2) * width for place in range(len(values))]
        axis.bar(places, heights, width * 0.9, label=name, zorder=2)
    axis.set_xticks(range(len(values)), _tick_labels(curve, values))


def _tick_labels(curve: Curve, values: list[Any]) -> list[str]:
    return [f"{label(value)}\n(default)" if value == curve.default else label(value) for value in values]


def label(value: Any) -> str:
    """Return the value in short: 65536 is 64K."""
    if isinstance(value, int) and value >= KIB and value % KIB == 0:
        return f"{value // KIB // KIB}M" if value % (KIB * KIB) == 0 else f"{value // KIB}K"
    return str(value)
