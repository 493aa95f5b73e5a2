"""Counts references and blocks of memory while the extension handles many records.

    python -m tests.native.counts --records 1000000

Each function runs for so many records. Afterwards its arguments have as many references as
before, and no block is left. The exit status is 1 otherwise.
"""

from __future__ import annotations

import argparse
import gc
import random
import sys
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

from pykafka2.compression.steps import finish
from pykafka2.native import Compiled
from pykafka2.producer.accumulator.open_batch import NS_PER_MS, SHUT, OpenBatch, note_time
from pykafka2.producer.accumulator.partition_queue import PartitionQueue
from pykafka2.producer.partitioning.topic_route import NO_SNAPSHOT, Route
from pykafka2.records.batch import batches
from pykafka2.records.batch_reader import decode_any_in_steps
from pykafka2.records.column_decoder import decode_columns
from pykafka2.records.encoder import NO_HEADERS
from tests.native.both import extension, running
from tests.native.differential import any_batch, encoded, in_columns, polled
from tests.producer.accumulator.test_batch import a_batch
from tests.records.strategies import NOW, Input, build

RECORDS = 500
"""Records that a task handles in one call."""
FEW_BLOCKS = 200
"""Blocks that caches of the Python code can take, whatever the number of records."""

VALUE, KEY, TOPIC = b"value" * 9, b"key" * 9, "orders-of-the-test"
TIME = NOW + 7
HEADERS = [("trace-id", b"x" * 9), ("other", None)]


def tasks(compiled: Compiled) -> dict[str, Callable[[], object]]:
    """Return what to run; each handles about RECORDS records."""
    [batch] = batches(build([Input(NOW + n, KEY, VALUE, HEADERS if n % 2 else []) for n in range(RECORDS)]))
    fields = [VALUE, KEY, TIME, NO_HEADERS, None] * RECORDS
    damaged = [any_batch(random.Random(number))[0] for number in range(8)]

    def decode() -> None:
        for record in finish(decode_any_in_steps(batch, TOPIC, 0))[0]:
            assert record.value == VALUE

    def append() -> None:
        open_batch: OpenBatch = a_batch().open
        for _ in range(RECORDS):
            compiled.append_unlocked(open_batch, (VALUE, KEY, TIME, NO_HEADERS, None), 80)
        compiled.swap_room(open_batch, SHUT)

    def shortcut() -> None:
        open_batch = a_batch().open
        open_batch.append((VALUE, None, TIME, NO_HEADERS, None), 60)
        note_time(open_batch, TIME)
        clock = [TIME * 1_000_000] * RECORDS
        send = compiled.shortcut(
            {TOPIC: open_batch}, {}, object(), clock.pop, True, note_time, NO_HEADERS, 10
        )
        for _ in range(RECORDS):
            send(TOPIC, VALUE, None, None)
            send(TOPIC, VALUE, KEY, None)
            send("unknown", VALUE, None, None)

    def shortcut_of_keys() -> None:
        batch = a_batch().open
        batch.append((VALUE, KEY, TIME, NO_HEADERS, None), 60)
        queue, route = PartitionQueue.__new__(PartitionQueue), Route.__new__(Route)
        queue.tail, route.queues, route.snapshot = batch, [queue], NO_SNAPSHOT
        metadata = SimpleNamespace(snapshot=NO_SNAPSHOT)

        def noted(batch: OpenBatch, ms: int) -> Any:
            """Return an object of its own instead of False, so that a lost reference keeps a block."""
            return note_time(batch, ms) or []

        clock = [(TIME + number % 3 - 1) * NS_PER_MS for number in range(RECORDS)]
        send = compiled.shortcut({}, {TOPIC: route}, metadata, clock.pop, True, noted, NO_HEADERS, 10)
        for _ in range(RECORDS):
            send(TOPIC, VALUE, KEY, None)

    def decode_damaged() -> None:
        for one in damaged:
            polled(one, 0)
            in_columns(one, 0, 100)

    return {
        "decode": decode,
        "decode into columns": lambda: decode_columns(batch),
        "decode damaged batches": decode_damaged,
        "encode": lambda: encoded(fields),
        "append": append,
        "append by the shortcut": shortcut,
        "append by the shortcut with keys": shortcut_of_keys,
        "murmur2": lambda: [compiled.murmur2(KEY) for _ in range(RECORDS)],
    }


def held() -> list[int]:
    return [sys.getrefcount(one) for one in (VALUE, KEY, TOPIC, TIME, NO_HEADERS, HEADERS[0][1])]


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.native.counts", description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    options = parser.parse_args(words)
    compiled, wrong = extension(), 0
    with running(compiled):
        for name, task in tasks(compiled).items():
            for _ in range(3):
                task()
            gc.collect()
            references, blocks = held(), sys.getallocatedblocks()
            for _ in range(max(2, options.records // RECORDS)):
                task()
            gc.collect()
            more = sys.getallocatedblocks() - blocks
            as_before = held() == references
            wrong += not as_before or more >= FEW_BLOCKS
            print(f"{name}: {more} blocks left, references {'as before' if as_before else 'CHANGED'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
