"""Measures the code that runs for each record in Python and compiled (pykafka2-c), side by side.

    python -m benchmarks.compiled [--rounds N] [--records N]

Each row is one task without sockets and threads; the two take turns in one process. The time is the
processor's, in microseconds for each record, the median of the rounds. For whole clients:

    python -m benchmarks.producer --mode equal --client "pykafka2 send" --client "pykafka2[c] send"
    python -m benchmarks.consumer --client "pykafka2 poll" --client "pykafka2[c] poll"
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

from pykafka2 import native
from pykafka2.compression.steps import finish
from pykafka2.native import Compiled
from pykafka2.producer.accumulator.batch_records import _encoded
from pykafka2.producer.partitioning.key_hashes import KeyHashes
from pykafka2.records.batch import batches
from pykafka2.records.batch_reader import decode_any_in_steps
from pykafka2.records.column_decoder import decode_columns
from pykafka2.records.encoder import NO_HEADERS, BatchBuilder, encode_headers
from pykafka2.records.rows import Fields
from tests.native.both import extension, running

NOW = 1_700_000_000_000
VALUE = b"x" * 100
HEADERS = [("trace-id", b"0123456789abcdef"), ("source", b"checkout")]
BATCH_RECORDS = 140

Task = Callable[[int], object]
"""Handles about so many records."""


def unique(number: int) -> bytes:
    return b"%036d" % number


def inputs(kind: str) -> list[tuple[bytes | None, bytes, list[Any]]]:
    """Return key, value and headers of a batch's records."""
    count = range(BATCH_RECORDS)
    match kind:
        case "varied":
            return [(None if n % 3 else b"k%d" % n, b"x" * (50 + n * 37 % 100), []) for n in count]
        case "headers":
            return [(None, VALUE, HEADERS) for _ in count]
        case "keys":
            return [(unique(n), VALUE, []) for n in count]
    return [(None, VALUE, []) for _ in count]


def decoding(kind: str, read: Callable[[Any], object]) -> Task:
    builder = BatchBuilder(max_bytes=1 << 20)
    for key, value, headers in inputs(kind):
        builder.append(NOW, key, value, headers)
    [batch] = batches(builder.build())

    def run(records: int) -> None:
        for _ in range(records // BATCH_RECORDS):
            read(batch)

    return run


def poll(batch: Any) -> None:
    for record in finish(decode_any_in_steps(batch, "orders", 0, check_crcs=False))[0]:
        record.value  # noqa: B018 (as a program reads it)


def encoding(kind: str) -> Task:
    fields: Fields = []
    for key, value, headers in inputs(kind):
        fields += [value, key, NOW, encode_headers(headers) if headers else NO_HEADERS, None]

    def run(records: int) -> None:
        for _ in range(records // BATCH_RECORDS):
            _encoded(fields, NOW)

    return run


def hashing(compiled: Compiled | None) -> Task:
    keys = [unique(n) for n in range(2000)]

    def run(records: int) -> None:
        hash_of = KeyHashes().__missing__ if compiled is None else compiled.murmur2
        for n in range(records):
            hash_of(keys[n % 2000])

    return run


def tasks(compiled: Compiled | None) -> dict[str, Task]:
    """Return the tasks of one implementation."""
    made: dict[str, Task] = {"murmur2 of 36 bytes": hashing(compiled)}
    for kind in ("even", "varied", "keys", "headers"):
        made[f"poll, {kind}"] = decoding(kind, poll)
    made["columns, even"] = decoding("even", decode_columns)
    made["columns, varied"] = decoding("varied", decode_columns)
    for kind in ("even", "varied", "keys", "headers"):
        made[f"encode, {kind}"] = encoding(kind)
    return made


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.compiled",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--records", type=int, default=100_000)
    options = parser.parse_args(words)
    if native.compiled is not None:
        print(f"set {native.VARIABLE}=python: this program switches by itself", file=sys.stderr)
        return 2
    both = (None, extension())
    made = [tasks(compiled) for compiled in both]
    print(f"{'us of CPU per record':24} {'python':>8} {'c':>8}   c / python")
    for name in made[0]:
        times: list[list[float]] = [[], []]
        for _ in range(options.rounds):
            for each, compiled in enumerate(both):
                with running(compiled):
                    began = time.process_time()
                    made[each][name](options.records)
                    times[each].append((time.process_time() - began) / options.records * 1e6)
        python, c = map(median, times)
        print(f"{name:24} {python:8.3f} {c:8.3f}   {c / python:.2f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
