"""The demo's closing table: plain text, one fact a line."""

from __future__ import annotations

import attrs

from pykafka2.cli.demo.crash import Crash
from pykafka2.cli.demo.proof import Verdict
from pykafka2.text import counted

RULE = "-" * 78
PERCENTILES = (("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("max", 1.0))


@attrs.define
class Figures:
    """The measurements of a run; times in seconds."""

    brokers: int = 0
    partitions: int = 0
    replication: int = 0
    produce_seconds: float = 0.0
    consume_seconds: float = 0.0
    retries: int = 0
    rejoined: bool | None = None
    latencies: list[float] = attrs.field(factory=list)


def table(figures: Figures, verdict: Verdict, crash: Crash | None) -> str:
    """Return the whole table, ready to print."""
    rows = [
        (
            "cluster",
            f"{counted(figures.brokers, 'broker')}, {counted(figures.partitions, 'partition')} x "
            f"{counted(figures.replication, 'replica')}",
        ),
        ("produced", _rate(verdict.sent, figures.produce_seconds)),
        ("acknowledged after", _percentiles(figures.latencies)),
        ("read back", _rate(verdict.received, figures.consume_seconds)),
        *_crash_rows(figures, crash),
        ("records retried", f"{figures.retries:,}"),
        *[(finding.kind, f"{len(finding.records):,}") for finding in verdict.all_findings],
        ("verdict", _verdict(verdict)),
    ]
    width = max(len(name) for name, _ in rows)
    return "\n".join([RULE, *(f"{name:<{width}}  {value}" for name, value in rows), RULE])


def _crash_rows(figures: Figures, crash: Crash | None) -> list[tuple[str, str]]:
    if crash is None:
        return [("crash", "none: it needs the demo's own cluster and a second replica")]
    back = {True: "back in sync", False: "not back in sync", None: "not restarted"}[figures.rejoined]
    return [
        ("crash", f"broker {crash.broker}, leader of partition 0; now {back}"),
        (
            "in flight at the crash",
            f"{counted(crash.in_flight, 'produce request')}, {counted(crash.unreplicated, 'record')} dropped",
        ),
        ("leader", f"broker {crash.broker} -> {crash.leader_after}"),
        ("leader epoch", f"{crash.epoch_before} -> {crash.epoch_after}"),
    ]


def _rate(count: int, seconds: float) -> str:
    return f"{counted(count, 'record')} in {seconds:.2f} s = {count / max(seconds, 1e-9):,.0f} a second"


def _percentiles(latencies: list[float]) -> str:
    if not latencies:
        return "nothing was acknowledged"
    ordered = sorted(latencies)
    shown = [(name, ordered[int(share * (len(ordered) - 1))]) for name, share in PERCENTILES]
    return ", ".join(f"{name} {1000 * value:.1f} ms" for name, value in shown)


def _verdict(verdict: Verdict) -> str:
    if verdict.is_clean:
        return "every record came back once, in order, unchanged"
    return "NOT what was sent: " + ", ".join(f"{f.kind} {len(f.records):,}" for f in verdict.findings)
