"""Tables of results, and which targets are reached."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import attrs

from benchmarks.side_by_side.measured import Measured
from benchmarks.side_by_side.turns import Results


def rate(measured: Measured) -> float:
    return measured.records_per_second


def cpu(measured: Measured) -> float:
    return measured.cpu_us


@attrs.frozen
class Target:
    """The least (or greatest) ratio of two clients in one cell.

    Without another client, `limit` is in milliseconds, and `read` returns seconds.
    """

    what: str
    cell: Any
    one: str
    other: str | None
    read: Callable[[Measured], float]
    limit: float
    is_least: bool = True


def tables(
    results: Results[Any], heading: str, beside: Callable[[Any, str], str], rate_width: int = 10
) -> Iterator[str]:
    """Yield the lines of a table for each cell: the medians of its rounds.

    `beside(cell, client)` returns the text after a client's own figures, under `heading`.
    """
    for cell, clients in results.rounds.items():
        yield ""
        yield str(cell)
        counts = any(one.instructions for rounds in clients.values() for one in rounds)
        yield (
            f"  {'':<33}{'records/s':>{rate_width}}{'CPU us/record':>14}{'peak RSS MB':>13}"
            + ("  instructions" if counts else "")
            + f"   {heading}"
        )
        for client in clients:
            row = (
                f"  {client:<33}{results.median(cell, client, rate):>{rate_width},.0f}"
                f"{results.median(cell, client, cpu):>14.2f}"
                f"{results.median(cell, client, lambda one: one.peak_rss_mb):>13.0f}"
            )
            if counts:
                row += f"{results.median(cell, client, lambda one: one.instructions or 0):>14,.0f}"
            yield row + beside(cell, client)


def latencies(results: Results[Any], cell: Any, client: str) -> str:
    """Return the latencies of a client that waits for each record; empty for others."""
    if results.rounds[cell][client][0].p50 is None:
        return ""
    p50 = results.median(cell, client, lambda one: one.p50 or 0.0)
    p99 = results.median(cell, client, lambda one: one.p99 or 0.0)
    return f"   p50 {p50 * 1000:.2f} ms, p99 {p99 * 1000:.2f} ms"


def over(results: Results[Any], cell: Any, client: str, peer: str) -> str:
    """Return a client's rate and processor time over a peer's; empty if one of them did not run."""
    rates, cpus = results.ratio(cell, client, peer, rate), results.ratio(cell, client, peer, cpu)
    return "" if rates is None or cpus is None else f"   {rates:.2f} x, {cpus:.2f} x"


def reached(results: Results[Any], targets: Callable[[str], Iterable[Target]]) -> tuple[list[str], int]:
    """Return a line for each target whose clients ran, and the number of missed targets."""
    lines, missed = [], 0
    for broker in dict.fromkeys(cell.broker for cell in results.rounds):
        for target in targets(broker):
            if target.other is not None:
                ratio, unit = results.ratio(target.cell, target.one, target.other, target.read), "x"
            elif target.one in results.rounds.get(target.cell, ()):
                ratio, unit = 1000 * results.median(target.cell, target.one, target.read), "ms"
            else:
                continue
            if ratio is None:
                continue
            is_reached = ratio >= target.limit if target.is_least else ratio <= target.limit
            missed += not is_reached
            sign = ">=" if target.is_least else "<="
            lines.append(
                f"{broker:<9}{target.what:<45}{ratio:>7.2f} {unit:<4}{sign} {target.limit:.2f} {unit}"
                f"{'' if is_reached else '   MISSED'}"
            )
    return lines, missed


def machine() -> str:
    """Return commit, Python version, number of cores and load average."""
    done = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
    return (
        f"commit {done.stdout.strip() or 'unknown'}, CPython {platform.python_version()}, {os.cpu_count()} "
        f"cores, load average {load}"
    )


def versions() -> str:
    """Return the versions of the other clients."""
    from importlib.metadata import version

    return ", ".join(f"{name} {version(name)}" for name in ("confluent-kafka", "kafka-python", "aiokafka"))
