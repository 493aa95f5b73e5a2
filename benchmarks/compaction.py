"""Measures the compaction of a log in memory: `python -m benchmarks.compaction [--records 1000000]`.

A tenth of the records have different keys; values have 100 bytes. Target: a million records in 10 s of
processor time, without a step over 100 ms. The exit status is 1 if a row misses it.
"""

from __future__ import annotations

import argparse
import sys
import time

from pykafka2.broker.log.batch import parse_batch
from pykafka2.broker.log.partition_log import PartitionLog
from pykafka2.broker.replication.log_cleaner import CompactionPolicy, compact
from pykafka2.records.encoder import BatchBuilder

BATCH_RECORDS = (1, 100, 1000)
TARGET_SECONDS, TARGET_STEP_SECONDS = 10.0, 0.1


def log_of(records: int, per_batch: int) -> PartitionLog:
    log = PartitionLog("t", 0, bytes(16))
    keys = max(records // 10, 1)
    for start in range(0, records, per_batch):
        builder = BatchBuilder(max_bytes=1 << 20)
        for number in range(start, start + per_batch):
            builder.append(number, b"%d" % (number * 7919 % keys), b"v" * 100)
        log.append_as_leader(parse_batch(builder.build()), 0)
    log.advance_high_watermark(log.log_end_offset)
    log.roll()
    return log


def measure(records: int, per_batch: int) -> tuple[float, float]:
    """Processor seconds of the compaction, and of its longest step."""
    log = log_of(records, per_batch)
    start = before = time.process_time()
    longest = 0.0
    for _ in compact(log, CompactionPolicy(min_dirty_ratio=0.0), 1):
        now = time.process_time()
        longest, before = max(longest, now - before), now
    end = time.process_time()
    return end - start, max(longest, end - before)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000, help="default: a million")
    records = parser.parse_args().records
    misses = False
    for per_batch in BATCH_RECORDS:
        seconds, longest = measure(records, per_batch)
        missed = seconds > TARGET_SECONDS * records / 1e6 or longest > TARGET_STEP_SECONDS
        misses |= missed
        print(
            f"{records} records in batches of {per_batch}: {seconds:.2f} s, longest step "
            f"{longest * 1000:.0f} ms{'  MISSED' if missed else ''}",
            flush=True,
        )
    return 1 if misses else 0


if __name__ == "__main__":
    sys.exit(main())
