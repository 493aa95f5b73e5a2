"""The tables of `benchmarks.consumer`, and which of the ratios that were asked for are reached."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import attrs

from benchmarks.consumer.runner import Results
from benchmarks.consumer.runs import Cell
from benchmarks.producer.report import cpu, rate
from benchmarks.producer.runs import Measured

TUNED = "confluent-kafka consume, tuned"
DEFAULTS = "confluent-kafka consume"
POLL, ITERATION = "pykafka2 poll", "pykafka2 iteration"
COLUMNS, ARROW = "pykafka2 poll_columns", "pykafka2 to_arrow"


@attrs.frozen
class Target:
    """A ratio of two clients in one cell, and what it should be at least (or at most)."""

    what: str
    cell: Cell
    one: str
    other: str
    read: Callable[[Measured], float]
    limit: float
    is_least: bool = True


def targets(broker: str) -> Iterator[Target]:
    base = Cell(broker)
    varying = attrs.evolve(base, lengths="varying")
    yield Target("poll over tuned consume(1000), rate", base, POLL, TUNED, rate, 0.9)
    yield Target("poll over tuned consume(1000), CPU", base, POLL, TUNED, cpu, 0.9, is_least=False)
    yield Target("poll over consume(1000) at its defaults", base, POLL, DEFAULTS, rate, 6.0)
    yield Target("iteration over tuned poll", base, ITERATION, "confluent-kafka poll, tuned", rate, 1.4)
    yield Target("poll_columns over tuned consume(1000)", base, COLUMNS, TUNED, rate, 1.5)
    yield Target("to_arrow, fixed lengths, over the same", base, ARROW, TUNED, rate, 2.5)
    yield Target("to_arrow, varying lengths, over the same", varying, ARROW, TUNED, rate, 1.5)
    yield Target("poll over kafka-python", base, POLL, "kafka-python", rate, 8.0)
    yield Target("poll over aiokafka", base, POLL, "aiokafka", rate, 1.3)
    ours, theirs = "pykafka2, send to poll", "confluent-kafka, send to poll"
    yield Target("send to poll, p50", base, ours, theirs, lambda one: one.p50 or 0.0, 1.6, is_least=False)
    yield Target("send to poll, p99", base, ours, theirs, lambda one: one.p99 or 0.0, 2.0, is_least=False)


def tables(results: Results) -> Iterator[str]:
    """A table for each cell: the medians of its rounds."""
    for cell, clients in results.rounds.items():
        yield ""
        yield str(cell)
        counts = any(one.instructions for rounds in clients.values() for one in rounds)
        yield (
            f"  {'':<33}{'msg/s':>11}{'us CPU a msg':>14}{'peak RSS MB':>13}"
            + ("  instructions" if counts else "")
            + "   over tuned consume: rate, CPU"
        )
        for client in clients:
            row = (
                f"  {client:<33}{results.median(cell, client, rate):>11,.0f}"
                f"{results.median(cell, client, cpu):>14.2f}"
                f"{results.median(cell, client, lambda one: one.peak_rss_mb):>13.0f}"
            )
            if counts:
                row += f"{results.median(cell, client, lambda one: one.instructions or 0):>14,.0f}"
            yield row + _beside(results, cell, client)


def _beside(results: Results, cell: Cell, client: str) -> str:
    if results.rounds[cell][client][0].p50 is not None:
        p50 = results.median(cell, client, lambda one: one.p50 or 0.0)
        p99 = results.median(cell, client, lambda one: one.p99 or 0.0)
        return f"   p50 {p50 * 1000:.2f} ms, p99 {p99 * 1000:.2f} ms"
    rates, cpus = results.ratio(cell, client, TUNED, rate), results.ratio(cell, client, TUNED, cpu)
    return "" if rates is None or cpus is None else f"   {rates:.2f} x, {cpus:.2f} x"


def reached(results: Results) -> tuple[list[str], int]:
    """A line for each ratio that was asked for and played; how many are missed."""
    lines, missed = [], 0
    for broker in dict.fromkeys(cell.broker for cell in results.rounds):
        for target in targets(broker):
            ratio = results.ratio(target.cell, target.one, target.other, target.read)
            if ratio is None:
                continue
            is_reached = ratio >= target.limit if target.is_least else ratio <= target.limit
            missed += not is_reached
            sign = ">=" if target.is_least else "<="
            lines.append(
                f"{broker:<9}{target.what:<45}{ratio:>7.2f} x   {sign} {target.limit:.2f} x"
                f"{'' if is_reached else '   MISSED'}"
            )
    return lines, missed
