"""The tables of `benchmarks.consumer`, and which targets are reached."""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from benchmarks.consumer.runs import Cell
from benchmarks.side_by_side import report
from benchmarks.side_by_side.report import Target, cpu, latencies, over, rate
from benchmarks.side_by_side.turns import Results

TUNED = "confluent-kafka consume, tuned"
DEFAULTS = "confluent-kafka consume"
POLL, ITERATION = "pykafka2 poll", "pykafka2 iteration"
COLUMNS, ARROW = "pykafka2 poll_columns", "pykafka2 to_arrow"


def targets(broker: str) -> Iterator[Target]:
    base = Cell(broker)
    varying = attrs.evolve(base, lengths="varying")
    yield Target("poll over tuned consume(1000), rate", base, POLL, TUNED, rate, 1.2)
    yield Target("poll over tuned consume(1000), CPU", base, POLL, TUNED, cpu, 0.9, is_least=False)
    yield Target("poll, varying lengths, over the same, CPU", varying, POLL, TUNED, cpu, 1.0, is_least=False)
    yield Target("poll over consume(1000) at its defaults", base, POLL, DEFAULTS, rate, 6.0)
    yield Target("iteration over tuned poll", base, ITERATION, "confluent-kafka poll, tuned", rate, 1.4)
    yield Target("poll_columns over tuned consume(1000)", base, COLUMNS, TUNED, rate, 3.0)
    yield Target("to_arrow, fixed lengths, over the same", base, ARROW, TUNED, rate, 4.0)
    yield Target("to_arrow, varying lengths, over the same", varying, ARROW, TUNED, rate, 1.5)
    yield Target("poll over kafka-python", base, POLL, "kafka-python", rate, 8.0)
    yield Target("poll over aiokafka", base, POLL, "aiokafka", rate, 1.3)
    ours, theirs = "pykafka2, send to poll", "confluent-kafka, send to poll"
    yield Target("send to poll, p50", base, ours, theirs, lambda one: one.p50 or 0.0, 1.4, is_least=False)
    yield Target("send to poll, p99", base, ours, theirs, lambda one: one.p99 or 0.0, 2.0, is_least=False)


def tables(results: Results[Cell]) -> Iterator[str]:
    """Yield the lines of a table for each cell: the medians of its rounds."""

    def beside(cell: Cell, client: str) -> str:
        return latencies(results, cell, client) or over(results, cell, client, TUNED)

    return report.tables(results, "over tuned consume: rate, CPU", beside, rate_width=11)


def reached(results: Results[Cell]) -> tuple[list[str], int]:
    """Return a line for each target whose clients ran, and the number of missed targets."""
    return report.reached(results, targets)
