"""The tables of `benchmarks.spark`, and which targets are reached."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks.side_by_side import report
from benchmarks.side_by_side.report import Target, cpu, rate
from benchmarks.side_by_side.turns import Results
from benchmarks.spark.runs import BULK, CONFLUENT, JVM, ONCE, OURS, Cell

EMPTY_BATCH_MS = 20.0


def targets(broker: str) -> Iterator[Target]:
    for columns in ("value", "all"):
        sink, source = Cell(broker, "sink", columns), Cell(broker, "source", columns)
        of = "value alone" if columns == "value" else "all columns"
        least = 1.5 if broker == "apache" else 2.0
        yield Target(f"sink over confluent-kafka, {of}", sink, OURS, CONFLUENT, rate, least)
        yield Target(f"its worker CPU, {of}", sink, OURS, CONFLUENT, cpu, 0.5, is_least=False)
        if broker == "apache":
            yield Target(f"sink over the JVM connector, {of}", sink, OURS, JVM, rate, 1.1)
            tuned = Cell(broker, "sink", columns, is_tuned=True)
            yield Target(f"tuned sink over the tuned JVM, {of}", tuned, OURS, JVM, rate, 1.1)
            yield Target(f"source over the JVM connector, {of}", source, OURS, JVM, rate, 2.0)
        yield Target(f"source over confluent-kafka, {of}", source, OURS, CONFLUENT, rate, 2.0)
    batches, pipeline = Cell(broker, "micro-batches"), Cell(broker, "pipeline")
    yield Target("exactly once over at least once", batches, ONCE, OURS, rate, 0.7)
    if broker == "apache":
        yield Target("micro-batch over the JVM connector's", batches, OURS, JVM, rate, 1.0)
        yield Target(
            "CPU of the pipeline over the JVM's", pipeline, OURS, JVM, total_cpu, 1.4, is_least=False
        )


def total_cpu(played: Any) -> float:
    return float(played.total_cpu_us)


def tables(results: Results[Cell]) -> Iterator[str]:
    """Yield the lines of a table for each cell: the medians of its rounds."""
    yield from results.notes
    for cell, clients in results.rounds.items():
        yield ""
        yield str(cell)
        if cell.kind == "quiet stream":
            (rounds,) = clients.values()
            seconds = sorted(second for one in rounds for second in one.batch_seconds)
            yield f"  latestOffset() and partitions(), {len(seconds)} micro-batches: {_spread(seconds)}"
            continue
        yield (
            f"  {'':<30}{'rows/s':>12}{'us CPU a row: workers':>23}{'JVM':>7}{'cold: rows/s':>15}{'CPU':>7}"
            "   over confluent-kafka, its produce_batch, the JVM: rows/s"
        )
        for client in clients:
            yield (
                f"  {client:<30}{results.median(cell, client, rate):>12,.0f}"
                f"{results.median(cell, client, cpu):>23.2f}"
                f"{results.median(cell, client, lambda one: one.jvm_cpu_us):>7.2f}"
                f"{_cold(results, cell, client)}   {_beside(results, cell, client)}"
            )


def _cold(results: Results[Cell], cell: Cell, client: str) -> str:
    """Return the figures of a client's first round, with the processor time of all processes."""
    cold = results.cold.get(cell, {}).get(client)
    return f"{'-':>15}{'-':>7}" if cold is None else f"{rate(cold):>15,.0f}{total_cpu(cold):>7.2f}"


def _beside(results: Results[Cell], cell: Cell, client: str) -> str:
    if cell.kind == "micro-batches":
        seconds = sorted(second for one in results.rounds[cell][client] for second in one.batch_seconds)
        return f"a micro-batch: {_spread(seconds)}"
    ratios = (results.ratio(cell, client, peer, rate) for peer in (CONFLUENT, BULK, JVM))
    return "  ".join("    -" if one is None else f"{one:.2f} x" for one in ratios)


def _spread(seconds: list[float]) -> str:
    middle, last = seconds[len(seconds) // 2], seconds[-1]
    return f"median {middle * 1000:.1f} ms, longest {last * 1000:.1f} ms"


def reached(results: Results[Cell]) -> tuple[list[str], int]:
    """Print a line for each requested figure that was played; return how many are missed."""
    lines, missed = report.reached(results, targets)
    for cell, clients in results.rounds.items():
        if cell.kind == "quiet stream":
            found_ms = results.median(cell, next(iter(clients)), _median_ms)
            is_reached = found_ms <= EMPTY_BATCH_MS
            missed += not is_reached
            lines.append(
                f"{cell.broker:<9}{'our part of an empty micro-batch':<45}{found_ms:>6.1f} ms   "
                f"<= {EMPTY_BATCH_MS:g} ms{'' if is_reached else '   MISSED'}"
            )
    return lines, missed


def _median_ms(one: Any) -> float:
    return float(one.p50 or 0.0) * 1000
