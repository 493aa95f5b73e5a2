"""The settings of a run of `benchmarks.security`: the client, its work, and the security protocol."""

from __future__ import annotations

import attrs

from benchmarks.side_by_side.run import Run as OneRun

PLAIN, TLS, SCRAM = "plaintext", "TLS", "SCRAM-SHA-256"
SEND, POLL, LOG_IN, RULES = "send", "poll", "log in", "rules"

PARTITIONS = 6
SIZE = 100
SENT = 1_000_000
POLLED = 1_500_000
LOGINS = 200
WITH, WITHOUT = "with rules", "without an authorizer"

CLIENTS = {
    SEND: ("pykafka2 send", "pykafka2 send_many", "confluent-kafka"),
    POLL: ("pykafka2 poll", "pykafka2 poll_columns", "confluent-kafka consume, tuned"),
    LOG_IN: ("pykafka2", "confluent-kafka", "kafka-python", "aiokafka"),
}
"""The clients in cells of each kind, each over both of WAYS; RULES has none, as it runs the broker alone."""

WAYS = {SEND: (PLAIN, TLS), POLL: (PLAIN, TLS), LOG_IN: (PLAIN, SCRAM)}


@attrs.frozen
class Cell:
    """The work of a cell. kind: SEND, POLL, LOG_IN, or RULES, which the bundled broker alone does."""

    broker: str = "apache"
    kind: str = SEND

    def __str__(self) -> str:
        what = {
            SEND: f"records of {SIZE} B sent to {PARTITIONS} partitions",
            POLL: f"records of {SIZE} B read from {PARTITIONS} partitions",
            LOG_IN: "a client is made, connects, asks for metadata once, and is closed",
            RULES: f"a Produce of one record of {SIZE} B, in the broker",
        }[self.kind]
        return f"{self.broker}: {what}"


Run = OneRun[Cell]


def by(client: str, way: str) -> str:
    """Return the name of a client that goes this way."""
    return f"{client}, {way}"


def way_of(name: str) -> str:
    """Return the way in a name that `by` made."""
    return name.rpartition(", ")[2]


def client_of(name: str) -> str:
    """Return the client in a name that `by` made."""
    return name.rpartition(", ")[0]


def names_of(kind: str) -> list[str]:
    """Return all that are played in a cell of this kind, the two ways of a client one after the other."""
    if kind == RULES:
        return [WITHOUT, WITH]
    return [by(client, way) for client in CLIENTS[kind] for way in WAYS[kind]]


def records_of(kind: str, share: float) -> int:
    """`share` 1 is a whole run."""
    if kind == LOG_IN:
        return max(5, int(LOGINS * share))
    if kind == RULES:
        return max(100, int(2000 * share))
    # What the first poll brings is not measured, and may be 20,000 rows.
    return max(2000 if kind == SEND else 60_000, int({SEND: SENT, POLL: POLLED}[kind] * share))
