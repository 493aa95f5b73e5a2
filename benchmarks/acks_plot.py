"""The plot of `benchmarks.broker_acks`: MB/s over requests in flight, before and after."""

from __future__ import annotations

from pathlib import Path

from benchmarks.acks_runs import COLUMNS, MODES, Runner, Setting


def plot(runner: Runner, drivers: list[str], path: Path) -> None:
    """MB/s over requests in flight, a panel for each driver; the pipelining proposal's points beside them."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, panels = plt.subplots(1, len(drivers), figsize=(5.5 * len(drivers), 4.2), squeeze=False)
    for panel, driver in zip(panels[0], drivers, strict=True):
        for mode, style in zip(MODES, ("--", "-"), strict=True):
            for (name, (acks, replicas)), color in zip(
                list(COLUMNS.items())[:2], ("tab:blue", "tab:orange"), strict=True
            ):
                depths = sorted(
                    {one.in_flight for one in runner.results if one.driver == driver and one.in_flight != 100}
                )
                rates = [
                    runner.run(Setting(driver, mode, 0.001, acks, replicas, depth)).rate for depth in depths
                ]
                panel.plot(depths, rates, style, color=color, marker="o", label=f"{name}, {mode}")
        panel.plot([5, 200], [16, 21], "v", color="grey", label="proposal, acks=-1 before")
        panel.plot([5, 200], [48, 140], "^", color="grey", label="proposal, acks=-1 after")
        panel.set_xscale("log")
        panel.set_yscale("log")
        panel.set_xlabel("requests in flight")
        panel.set_title(f"{driver}, round trip 1 ms")
        panel.grid(alpha=0.3)
    panels[0][0].set_ylabel("MB/s acknowledged, records of 10 KB")
    panels[0][-1].legend(fontsize=8)
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    print(f"\nplot: {path}")
