"""The tables of `benchmarks.producer`, and which of the ratios that were asked for are reached."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Callable, Iterator

import attrs

from benchmarks.producer.runner import Results
from benchmarks.producer.runs import Cell, Measured

CONFLUENT = "confluent-kafka"
LARGE = "confluent-kafka, 1 MiB batches"
SEND = "pykafka2 send"
MANY = "pykafka2 send_many"
PLAIN = "pykafka2 send_many, no numpy"
ARROW = "pykafka2 send_many, Arrow"


def rate(measured: Measured) -> float:
    return measured.records_per_second


def cpu(measured: Measured) -> float:
    return measured.cpu_us


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
    equal, defaults = Cell(broker), Cell(broker, "defaults")
    unique, varying = attrs.evolve(equal, keys="unique"), attrs.evolve(equal, lengths="varying")
    yield Target("send, rate", equal, SEND, CONFLUENT, rate, 1.0)
    yield Target("send, CPU", equal, SEND, CONFLUENT, cpu, 1.0, is_least=False)
    yield Target("send with add_callback, rate", equal, f"{SEND}, add_callback", CONFLUENT, rate, 0.8)
    yield Target("send_many, rate", equal, MANY, LARGE, rate, 1.6)
    yield Target("send_many, CPU", equal, MANY, LARGE, cpu, 0.6, is_least=False)
    yield Target("Arrow, fixed lengths, CPU over our send's", equal, ARROW, SEND, cpu, 0.25, is_least=False)
    yield Target(
        "Arrow, varying lengths, CPU over our send's", varying, ARROW, SEND, cpu, 0.5, is_least=False
    )
    yield Target("send over kafka-python, rate", equal, SEND, "kafka-python", rate, 8.0)
    yield Target("send over aiokafka, rate", equal, SEND, "aiokafka", rate, 3.0)
    yield Target("unique keys, send, rate", unique, SEND, CONFLUENT, rate, 0.5)
    yield Target("unique keys, send_many, rate", unique, MANY, LARGE, rate, 1.0)
    yield Target("unique keys, send_many without numpy, rate", unique, PLAIN, LARGE, rate, 0.5)
    yield Target("defaults: send, rate", defaults, SEND, CONFLUENT, rate, 0.8)
    yield Target("defaults: send_many, rate", defaults, MANY, CONFLUENT, rate, 1.3)
    ours, theirs = "pykafka2, one at a time", "confluent-kafka, one at a time"
    yield Target("send().result(), p50", equal, ours, theirs, lambda one: one.p50 or 0.0, 1.6, is_least=False)
    yield Target("send().result(), p99", equal, ours, theirs, lambda one: one.p99 or 0.0, 2.0, is_least=False)


def tables(results: Results) -> Iterator[str]:
    """A table for each cell: the medians of its rounds."""
    for cell, clients in results.rounds.items():
        yield ""
        yield str(cell)
        counts = any(one.instructions for rounds in clients.values() for one in rounds)
        yield (
            f"  {'':<33}{'msg/s':>10}{'us CPU a msg':>14}{'peak RSS MB':>13}"
            + ("  instructions" if counts else "")
            + "   over confluent-kafka: rate, CPU"
        )
        for client, rounds in clients.items():
            row = (
                f"  {client:<33}{results.median(cell, client, rate):>10,.0f}"
                f"{results.median(cell, client, cpu):>14.2f}"
                f"{results.median(cell, client, lambda one: one.peak_rss_mb):>13.0f}"
            )
            if counts:
                row += f"{results.median(cell, client, lambda one: one.instructions or 0):>14,.0f}"
            yield row + _beside(results, cell, client) + _failures(rounds)


def _beside(results: Results, cell: Cell, client: str) -> str:
    if results.rounds[cell][client][0].p50 is not None:
        p50 = results.median(cell, client, lambda one: one.p50 or 0.0)
        p99 = results.median(cell, client, lambda one: one.p99 or 0.0)
        return f"   p50 {p50 * 1000:.2f} ms, p99 {p99 * 1000:.2f} ms"
    peer = LARGE if client in (MANY, PLAIN, ARROW, LARGE) and LARGE in results.rounds[cell] else CONFLUENT
    rates, cpus = results.ratio(cell, client, peer, rate), results.ratio(cell, client, peer, cpu)
    if rates is None or cpus is None:
        return ""
    return f"   {rates:.2f} x, {cpus:.2f} x" + (" (1 MiB batches)" if peer == LARGE else "")


def _failures(rounds: list[Measured]) -> str:
    failed = sum(one.failed for one in rounds)
    return f"   {failed} FAILED" if failed else ""


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


def machine() -> str:
    """Commit, Python, processors, and how busy they are with other things."""
    done = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
    return (
        f"commit {done.stdout.strip() or 'unknown'}, CPython {platform.python_version()}, {os.cpu_count()} "
        f"cores, load average {load}"
    )


def versions() -> str:
    """Of the peers."""
    from importlib.metadata import version

    return ", ".join(f"{name} {version(name)}" for name in ("confluent-kafka", "kafka-python", "aiokafka"))
