"""The settings of a run of `benchmarks.spark`: plain data, as JSON between the benchmark and the Spark
session.
"""

from __future__ import annotations

import attrs

from benchmarks.side_by_side.measured import Measured
from benchmarks.side_by_side.run import Run as OneRun

OURS, CONFLUENT, BULK, JVM = "pykafka2", "confluent-kafka", "confluent-kafka produce_batch", "JVM connector"
ONCE, PER_TASK = "pykafka2, exactly once", "pykafka2, once per task"

CLIENTS = {
    "sink": (OURS, ONCE, CONFLUENT, BULK, JVM),
    "source": (OURS, CONFLUENT, JVM),
    "pipeline": (OURS, JVM),
    "micro-batches": (OURS, ONCE, PER_TASK, JVM),
    "quiet stream": (OURS,),
}
"""The clients in cells of each kind."""

TUNED = {"kafka.batch.size": str(1 << 20), "kafka.linger.ms": "50", "kafka.buffer.memory": str(64 << 20)}
"""Settings that make Spark's own connector fast; used for both connectors in tuned cells."""

ROWS = 1_000_000
MICRO_BATCH_ROWS = 100_000
MICRO_BATCHES = 12
QUIET_BATCHES = 50
PARTITIONS = 2
VALUE_BYTES = 100


@attrs.frozen
class Cell:
    """The work of a cell, for all clients.

    kind: of CLIENTS.  columns: "value", or "all" with a key, a value and a header.  is_tuned: the clients
    that take Kafka's producer options get `TUNED`.
    """

    broker: str = "apache"
    kind: str = "sink"
    columns: str = "value"
    is_tuned: bool = False

    def __str__(self) -> str:
        what = {
            "sink": "batch writes",
            "source": "batch reads to noop, all columns",
            "pipeline": "batch reads, half of the rows filtered out, the rest written to another topic",
            "micro-batches": f"micro-batches of {MICRO_BATCH_ROWS:,} rows, written",
            "quiet stream": "micro-batches of a stream with almost nothing in it",
        }[self.kind]
        rows = "value alone" if self.columns == "value" else "key, value and a header"
        tuned = "; " + ", ".join(f"{name}={value}" for name, value in TUNED.items()) if self.is_tuned else ""
        return f"{self.broker}: {what}; rows of {VALUE_BYTES} B, {rows}{tuned}"


Run = OneRun[Cell]


@attrs.define
class Played(Measured):
    """`cpu_us` is that of the Python workers; p50 and p99 are of micro-batches, in seconds."""

    jvm_cpu_us: float = 0.0
    batch_seconds: list[float] = attrs.Factory(list)

    @property
    def total_cpu_us(self) -> float:
        """Return the processor time of the workers and the JVM per row, in microseconds."""
        return self.cpu_us + self.jvm_cpu_us


def records_of(cell: Cell, share: float) -> int:
    """`share` 1 is a whole run."""
    if cell.kind == "micro-batches":
        return max(3, int(MICRO_BATCHES * share)) * MICRO_BATCH_ROWS
    if cell.kind == "quiet stream":
        return max(5, int(QUIET_BATCHES * share))
    return max(2000, int(ROWS * share))


def cells_of(broker: str) -> list[Cell]:
    """Return all cells of a broker."""
    found = [Cell(broker, kind, columns) for kind in ("sink", "source") for columns in ("value", "all")]
    found += [Cell(broker, "sink", columns, is_tuned=True) for columns in ("value", "all")]
    return [*found, Cell(broker, "pipeline"), Cell(broker, "micro-batches"), Cell(broker, "quiet stream")]
