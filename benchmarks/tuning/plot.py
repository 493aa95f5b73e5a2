"""Draws a curve: throughput, latency and processor time over an option's values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.tuning.curves import KIB, Curve
from benchmarks.tuning.points import Outcome


def plot(curve: Curve, outcomes: dict[Any, Outcome], path: Path) -> None:
    """Write an SVG with three panels."""
    import matplotlib as mpl

    mpl.use("Agg")
    mpl.rcParams["svg.hashsalt"] = curve.option  # the same file for the same figures
    from matplotlib import pyplot as plt

    labels = [label(value) for value in outcomes]
    found = list(outcomes.values())
    panels: list[tuple[str, list[tuple[str, list[float]]]]] = [
        ("thousand records a second", [("", [one.records_per_second / 1e3 for one in found])]),
        (
            f"ms at {'poll' if curve.workload == 'consume' else 'delivery'}",
            [("p50", [one.p50_ms for one in found]), ("p99", [one.p99_ms for one in found])],
        ),
        (
            "us of CPU a record",
            [
                ("client", [one.cpu_us for one in found]),
                ("broker", [one.broker_cpu_us for one in found]),
            ],
        ),
    ]
    figure, axes = plt.subplots(1, len(panels), figsize=(11, 2.8))
    for axis, (title, lines) in zip(axes, panels, strict=True):
        for name, heights in lines:
            axis.plot(labels, heights, marker="o", markersize=4, label=name)
        axis.set_ylim(bottom=0)
        axis.set_title(title, fontsize=10)
        axis.set_xlabel(f"{curve.option}{f' ({curve.unit})' if curve.unit else ''}", fontsize=9)
        axis.tick_params(labelsize=8)
        axis.grid(alpha=0.3)
        if len(lines) > 1:
            axis.legend(fontsize=8)
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def label(value: Any) -> str:
    """Return the value in short: 65536 is 64K."""
    if isinstance(value, int) and value >= KIB and value % KIB == 0:
        return f"{value // KIB // KIB}M" if value % (KIB * KIB) == 0 else f"{value // KIB}K"
    return str(value)
