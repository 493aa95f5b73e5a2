"""The tables of `benchmarks.producer`, and which targets are reached."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import attrs

from benchmarks.producer.runs import Cell
from benchmarks.side_by_side import report
from benchmarks.side_by_side.report import Target, cpu, latencies, over, rate
from benchmarks.side_by_side.turns import Results

CONFLUENT = "confluent-kafka"
LARGE = "confluent-kafka, 1 MiB batches"
SEND = "pykafka2 send"
MANY = "pykafka2 send_many"
PLAIN = "pykafka2 send_many, no numpy"
ARROW = "pykafka2 send_many, Arrow"


def targets(broker: str) -> Iterator[Target]:
    equal, defaults = Cell(broker), Cell(broker, "defaults")
    unique, varying = attrs.evolve(equal, keys="unique"), attrs.evolve(equal, lengths="varying")
    yield Target("send, rate", equal, SEND, CONFLUENT, rate, 1.1)
    yield Target("send, CPU", equal, SEND, CONFLUENT, cpu, 0.7, is_least=False)
    yield Target("send with add_callback, rate", equal, f"{SEND}, add_callback", CONFLUENT, rate, 0.9)
    yield Target("send_many, rate", equal, MANY, LARGE, rate, 3.0)
    yield Target("send_many, CPU", equal, MANY, LARGE, cpu, 0.6, is_least=False)
    yield Target("Arrow, fixed lengths, CPU over our send's", equal, ARROW, SEND, cpu, 0.25, is_least=False)
    yield Target(
        "Arrow, varying lengths, CPU over our send's", varying, ARROW, SEND, cpu, 0.5, is_least=False
    )
    yield Target("send over kafka-python, rate", equal, SEND, "kafka-python", rate, 8.0)
    yield Target("send over aiokafka, rate", equal, SEND, "aiokafka", rate, 3.0)
    yield Target("unique keys, send, rate", unique, SEND, CONFLUENT, rate, 0.6)
    yield Target("unique keys, send_many, rate", unique, MANY, LARGE, rate, 1.0)
    yield Target("unique keys, send_many without numpy, rate", unique, PLAIN, LARGE, rate, 0.5)
    yield Target("defaults: send, rate", defaults, SEND, CONFLUENT, rate, 1.0)
    yield Target("defaults: send_many, rate", defaults, MANY, CONFLUENT, rate, 1.3)
    ours, theirs = "pykafka2, one at a time", "confluent-kafka, one at a time"
    yield Target(
        "send().result(), p50", equal, ours, theirs, lambda one: one.p50 or 0.0, 1.25, is_least=False
    )
    yield Target("send().result(), p99", equal, ours, theirs, lambda one: one.p99 or 0.0, 1.5, is_least=False)


def tables(results: Results[Cell]) -> Iterator[str]:
    """Yield the lines of a table for each cell: the medians of its rounds."""
    return report.tables(results, "over confluent-kafka: rate, CPU", partial(_beside, results))


def _beside(results: Results[Cell], cell: Cell, client: str) -> str:
    rounds = results.rounds[cell]
    peer = LARGE if client in (MANY, PLAIN, ARROW, LARGE) and LARGE in rounds else CONFLUENT
    text = latencies(results, cell, client)
    if not text:
        text = over(results, cell, client, peer)
        text += " (1 MiB batches)" if text and peer == LARGE else ""
    failed = sum(one.failed for one in rounds[client])
    return f"{text}   {failed} FAILED" if failed else text


def reached(results: Results[Cell]) -> tuple[list[str], int]:
    """Return a line for each target whose clients ran, and the number of missed targets."""
    return report.reached(results, targets)
