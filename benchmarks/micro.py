"""Measures the hot path per record, beside kafka-python and aiokafka in the same run.

    python -m benchmarks.micro [--rounds N] [--records N] [--json]

Records have 100 bytes, no key and no headers, in batches of 16 KiB. The libraries take turns in short rounds,
and the best round of each counts, so a busy machine affects all alike. Ratios are to kafka-python. A library
that is not installed is left out.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import attrs

from pykafka2.records.batch import batches
from pykafka2.records.column_decoder import decode_columns
from pykafka2.records.decoder import decode_records
from pykafka2.records.encoder import BatchBuilder
from pykafka2.types import ConsumerRecord

VALUE = b"x" * 100
TIMESTAMP = 1_700_000_000_000
BATCH_BYTES = 16384
BASELINE = "kafka-python"

TARGETS = {"append+build": 3.0, "decode": 2.8}
"""How many times faster than kafka-python pykafka2 promises to be."""


@attrs.define
class Row:
    """One subject at one task: its best time per record in microseconds, and how it compares."""

    task: str
    subject: str
    microseconds: float
    ratio: float | None = None  # kafka-python's time divided by this one
    target: float | None = None


Subject = Callable[[], int]
"""Does the task once and answers how many records it went over."""


def encode_pykafka2() -> int:
    builder = BatchBuilder(max_bytes=BATCH_BYTES)
    append = builder.append
    while append(TIMESTAMP, None, VALUE) is not None:
        pass
    builder.build()
    return builder.count


def encoder_of(builder_type: Callable[..., Any]) -> Subject:
    def encode() -> int:
        builder = builder_type(
            magic=2,
            compression_type=0,
            is_transactional=False,
            producer_id=-1,
            producer_epoch=-1,
            base_sequence=-1,
            batch_size=BATCH_BYTES,
        )
        append = builder.append
        count = 0
        while append(count, TIMESTAMP, None, VALUE, []) is not None:
            count += 1
        builder.build()
        return count

    return encode


def decode_pykafka2(blob: bytes) -> int:
    records: list[ConsumerRecord] = []
    for batch in batches(blob):
        records += decode_records(batch, "topic", 0)
    return len(records)


def decode_pykafka2_columns(blob: bytes) -> int:
    return sum(len(decode_columns(batch)) for batch in batches(blob))


def decoder_of(records_type: Callable[[bytes], Any], blob: bytes) -> Subject:
    def decode() -> int:
        records: list[Any] = []
        source = records_type(blob)
        while (batch := source.next_batch()) is not None:
            if not batch.validate_crc():
                raise ValueError("checksum")
            records += batch
        return len(records)

    return decode


def one_batch() -> bytes:
    builder = BatchBuilder(max_bytes=BATCH_BYTES)
    while builder.append(TIMESTAMP, None, VALUE) is not None:
        pass
    return builder.build()


def subjects() -> dict[str, dict[str, Subject]]:
    """Task -> subject -> what to run."""
    blob = one_batch()
    encode: dict[str, Subject] = {"pykafka2": encode_pykafka2}
    decode: dict[str, Subject] = {
        "pykafka2": lambda: decode_pykafka2(blob),
        "pykafka2 columns": lambda: decode_pykafka2_columns(blob),
    }
    try:
        from kafka.record.default_records import DefaultRecordBatchBuilder
        from kafka.record.memory_records import MemoryRecords
    except ImportError:
        pass
    else:
        encode["kafka-python"] = encoder_of(DefaultRecordBatchBuilder)
        decode["kafka-python"] = decoder_of(MemoryRecords, blob)
    try:
        from aiokafka.record.default_records import DefaultRecordBatchBuilder as CompiledBuilder
        from aiokafka.record.memory_records import MemoryRecords as CompiledRecords
    except ImportError:
        pass
    else:
        encode["aiokafka (compiled)"] = encoder_of(CompiledBuilder)
        decode["aiokafka (compiled)"] = decoder_of(CompiledRecords, blob)
    return {"append+build": encode, "decode": decode}


def measure(rounds: int = 40, records: int = 1500) -> list[Row]:
    """Run every subject in turns; each round goes over about so many records."""
    rows = []
    for task, competitors in subjects().items():
        best = dict.fromkeys(competitors, float("inf"))
        for _ in range(rounds):
            for name, run in competitors.items():
                count = 0
                started = time.perf_counter()
                while count < records:
                    count += run()
                best[name] = min(best[name], (time.perf_counter() - started) / count)
        for name, seconds in best.items():
            ratio = best[BASELINE] / seconds if BASELINE in best else None
            target = TARGETS[task] if name == "pykafka2" else None
            rows.append(Row(task, name, seconds * 1e6, ratio, target))
    return rows


def table(rows: list[Row]) -> str:
    lines = [f"{'task':<14}{'subject':<22}{'us/record':>10}{'ratio':>8}{'target':>8}"]
    for row in rows:
        ratio = "" if row.ratio is None else f"{row.ratio:.2f}x"
        target = "" if row.target is None else f"{row.target:.1f}x"
        lines.append(f"{row.task:<14}{row.subject:<22}{row.microseconds:>10.3f}{ratio:>8}{target:>8}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.micro", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--records", type=int, default=1500, help="records a subject goes over in each round")
    parser.add_argument("--json", action="store_true", help="print rows as JSON")
    arguments = parser.parse_args()
    rows = measure(arguments.rounds, arguments.records)
    print(json.dumps([attrs.asdict(row) for row in rows], indent=2) if arguments.json else table(rows))


if __name__ == "__main__":
    main()
