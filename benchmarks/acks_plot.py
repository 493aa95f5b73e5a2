"""The plot of `benchmarks.broker_acks`: a row of panels for each client."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import attrs

from benchmarks.acks_runs import ARTICLE, COLUMNS, MODES, Runner, Setting
from benchmarks.side_by_side.drawing import save

STYLES = dict(zip(MODES, ("--", "-"), strict=True))
COLORS = {"acks=-1": "tab:blue", "acks=1": "tab:orange"}


def by_depth(panel: Any, runner: Runner, driver: str) -> bool:
    """Draw MB/s over requests in flight; return whether there is anything to draw."""
    is_drawn = False
    for name, color in COLORS.items():
        for mode, style in STYLES.items():
            acks, replicas = COLUMNS[name]
            base = Setting(driver, mode, acks=acks, replicas=replicas)
            rates = {
                setting.in_flight: result.rate
                for setting, result in runner.results.items()
                if attrs.evolve(setting, in_flight=base.in_flight) == base
            }
            depths = sorted(rates)
            if len(depths) > 1:
                is_drawn = True
                panel.plot(
                    depths,
                    [rates[depth] for depth in depths],
                    style,
                    color=color,
                    marker="o",
                    markersize=4,
                    label=f"{name}, {mode}",
                )
    for mode, marker in zip(MODES, "v^", strict=True):
        points = {depth: mb[0] for (depth, of), mb in ARTICLE.items() if of == mode}
        panel.plot([*points], [*points.values()], marker, color="grey", label=f"article, acks=-1, {mode}")
    panel.set(xscale="log", yscale="log", xlabel="requests in flight", ylabel="MB/s", ylim=(0.5, 1000))
    return is_drawn


def by_clients(panel: Any, runner: Runner, driver: str) -> bool:
    """Draw MB/s over serial clients."""
    rates = {
        setting.producers: rate
        for setting, rate in runner.medians.items()
        if attrs.evolve(setting, producers=1) == Setting(driver, "serial")
    }
    counts = sorted(rates)
    panel.plot(
        counts,
        [rates[one] for one in counts],
        "--",
        color=COLORS["acks=-1"],
        marker="o",
        markersize=4,
        label="acks=-1, serial",
    )
    others = {
        "acks=-1, pipelined, one client at 200": Setting(driver, "pipelined", in_flight=200),
        "acks=1, serial, one client": Setting(driver, "serial", acks=1),
    }
    for (name, setting), color in zip(others.items(), COLORS.values(), strict=True):
        if setting in runner.medians:
            panel.axhline(runner.medians[setting], color=color, linestyle=STYLES[setting.mode], label=name)
    panel.set(xlabel="serial clients on one partition", ylabel="MB/s")
    return len(counts) > 1


def by_time(panel: Any, runner: Runner, driver: str) -> bool:
    """Draw bytes in and replicated bytes over time, with acks=1 (figure 6)."""
    flow = runner.flows.get(Setting(driver, "serial", acks=1))
    if flow is None:
        return False
    seconds = [at - flow.times[0] for at in flow.times[1:]]
    panel.plot(seconds, flow.rates(flow.bytes_in), color=COLORS["acks=1"], label="bytes in")
    panel.plot(seconds, flow.rates(flow.replicated), ":", color="grey", label="replicated")
    panel.set(xlabel="seconds, acks=1", ylabel="MB/s")
    return True


PANELS: tuple[Callable[[Any, Runner, str], bool], ...] = (by_depth, by_clients, by_time)


def plot(runner: Runner, drivers: Sequence[str], path: Path, note: str) -> None:
    """Draw the panels of each client, at a round trip of 1 ms, to `path`; `note` is the line below them."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    with mpl.rc_context({"svg.hashsalt": "acks"}):  # the same file for the same figures
        figure, rows = plt.subplots(
            len(drivers), len(PANELS), figsize=(4.6 * len(PANELS), 3.8 * len(drivers)), squeeze=False
        )
        for row, driver in zip(rows, drivers, strict=True):
            for panel, draw in zip(row, PANELS, strict=True):
                if not draw(panel, runner, driver):
                    panel.set_visible(False)
                    continue
                panel.set_title(driver, fontsize=10)
                if draw is not by_depth:
                    panel.set_ylim(0, 1.35 * panel.get_ylim()[1])  # room for the legend
                panel.grid(alpha=0.3)
                panel.legend(fontsize=6, handlelength=4, ncols=2, loc="upper left")
        figure.text(0.01, 0.005, note, fontsize=8, color="grey")
        figure.tight_layout(rect=(0, 0.03, 1, 1))
        save(figure, path)
    print(f"\nplot: {path}")
