"""The tables of `benchmarks.security`, and which targets are reached."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.security.runs import (
    CLIENTS,
    LOG_IN,
    PLAIN,
    POLL,
    RULES,
    SCRAM,
    SEND,
    TLS,
    WITH,
    WITHOUT,
    Cell,
    by,
)
from benchmarks.side_by_side import report
from benchmarks.side_by_side.measured import Measured
from benchmarks.side_by_side.report import Target, cpu, latencies, over, rate
from benchmarks.side_by_side.turns import Results


def p50(measured: Measured) -> float:
    return measured.p50 or 0.0


def targets(broker: str) -> Iterator[Target]:
    for kind in (SEND, POLL):
        cell = Cell(broker, kind)
        for client in CLIENTS[kind]:
            if client.startswith("pykafka2"):
                what = f"{client}, TLS over plaintext, rate"
                yield Target(what, cell, by(client, TLS), by(client, PLAIN), rate, 0.7)
    ours, theirs = by("pykafka2", SCRAM), by("confluent-kafka", SCRAM)
    cell = Cell(broker, LOG_IN)
    yield Target("a login over confluent-kafka's, p50", cell, ours, theirs, p50, 2.0, is_least=False)
    yield Target("a login over confluent-kafka's, CPU", cell, ours, theirs, cpu, 2.0, is_least=False)
    if broker == "bundled":
        cell = Cell(broker, RULES)
        yield Target("rules of access, CPU of a Produce", cell, WITH, WITHOUT, cpu, 1.03, is_least=False)


def tables(results: Results[Cell]) -> Iterator[str]:
    """Return a table for each cell: the medians of its rounds."""

    def beside(cell: Cell, client: str) -> str:
        if cell.kind == RULES:
            return over(results, cell, client, WITHOUT)
        if cell.kind == LOG_IN:
            return latencies(results, cell, client)
        return over(results, cell, client, by(client.rpartition(", ")[0], PLAIN))

    return report.tables(results, "over its own in plaintext: rate, CPU", beside)


def reached(results: Results[Cell]) -> tuple[list[str], int]:
    """Print a line for each requested ratio that was played; return how many are missed."""
    return report.reached(results, targets)
