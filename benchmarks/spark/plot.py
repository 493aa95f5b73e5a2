"""The plot of `benchmarks.spark`: rows a second of sinks and sources, and how long micro-batches take."""

from __future__ import annotations

from pathlib import Path

from benchmarks.side_by_side.drawing import save
from benchmarks.side_by_side.report import rate
from benchmarks.side_by_side.turns import Results
from benchmarks.spark.runs import Cell

COLORS = {"pykafka2": "tab:blue", "confluent-kafka": "tab:orange", "JVM": "tab:green"}


def plot(results: Results[Cell], path: Path) -> None:
    """A panel for each cell, a column of panels a broker."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    brokers = list(dict.fromkeys(cell.broker for cell in results.rounds))
    columns = {name: [cell for cell in results.rounds if cell.broker == name] for name in brokers}
    height = max(map(len, columns.values()))
    figure, panels = plt.subplots(
        height, len(brokers), figsize=(6.5 * len(brokers), 2.1 * height), squeeze=False
    )
    for column, name in enumerate(brokers):
        for row, panel in enumerate(panels[:, column]):
            if row < len(columns[name]):
                _draw(panel, results, columns[name][row])
            else:
                panel.axis("off")
    figure.tight_layout()
    save(figure, path)


def _draw(panel: object, results: Results[Cell], cell: Cell) -> None:
    clients = list(results.rounds[cell])[::-1]
    colors = [COLORS.get(name.split(",")[0].split(" ")[0], "tab:grey") for name in clients]
    if cell.kind in ("micro-batches", "quiet stream"):
        seconds = [
            [second for one in results.rounds[cell][name] for second in one.batch_seconds] for name in clients
        ]
        panel.boxplot(seconds, vert=False, tick_labels=clients)  # type: ignore[attr-defined]
        panel.set_xlabel("seconds of a micro-batch")  # type: ignore[attr-defined]
    else:
        figures = [results.median(cell, name, rate) / 1e6 for name in clients]
        panel.barh(clients, figures, color=colors)  # type: ignore[attr-defined]
        panel.set_xlabel("million rows a second")  # type: ignore[attr-defined]
    panel.set_title(str(cell), fontsize=8)  # type: ignore[attr-defined]
    panel.tick_params(labelsize=8)  # type: ignore[attr-defined]
    panel.grid(axis="x", alpha=0.3)  # type: ignore[attr-defined]
