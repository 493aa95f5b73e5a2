"""The plot of `benchmarks.producer`: rate and processor time of each client, a column of panels a broker."""

from __future__ import annotations

from pathlib import Path

from benchmarks.producer.report import cpu, rate
from benchmarks.producer.runs import Cell
from benchmarks.side_by_side.drawing import save
from benchmarks.side_by_side.turns import Results

COLORS = {"pykafka2": "tab:blue", "confluent-kafka": "tab:orange", "kafka-python": "tab:green"}


def plot(results: Results[Cell], path: Path) -> None:
    """Bars of the cells without any variation, at equal settings and at each client's defaults."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    shown = [cell for cell in results.rounds if cell == Cell(cell.broker, cell.mode)] or [*results.rounds][:1]
    figure, panels = plt.subplots(2, len(shown), figsize=(5.5 * len(shown), 7), squeeze=False)
    for column, cell in enumerate(shown):
        clients = [name for name in results.rounds[cell] if "one at a time" not in name][::-1]
        colors = [COLORS.get(name.split(",")[0].split(" ")[0], "tab:grey") for name in clients]
        for row, (read, scale, label) in enumerate(
            ((rate, 1e6, "million messages a second"), (cpu, 1.0, "us of CPU a message"))
        ):
            panel = panels[row][column]
            figures = [results.median(cell, name, read) / scale for name in clients]
            panel.barh(clients, figures, color=colors)
            for place, figure_ in enumerate(figures):
                panel.text(figure_, place, f" {figure_:.2f}", va="center", fontsize=8)
            panel.set_xlabel(label)
            panel.margins(x=0.15)
            panel.grid(axis="x", alpha=0.3)
        panels[0][column].set_title(f"{cell.broker}, {cell.mode}: {cell.size} B, no keys", fontsize=10)
    figure.tight_layout()
    save(figure, path)
