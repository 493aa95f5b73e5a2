"""Compares the extension with the Python code on random and damaged batches; both must do exactly the same.

    python -m tests.native.differential --batches 80000 --seed 1

Each batch is decoded into records, in steps and in part, and into columns; its rows are encoded. Results and
error texts must be equal. The exit status is 1 if they are not; the seed and number of the batch repeat it.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Sequence
from typing import Any

from pykafka2.errors import KafkaError
from pykafka2.native import Compiled
from pykafka2.producer.accumulator.batch_records import _encoded
from pykafka2.records.batch import HEADER, HEADER_BYTES, LENGTH_END, MAX_OFFSET, RecordBatch
from pykafka2.records.batch_reader import decode_any_in_steps
from pykafka2.records.column_decoder import ColumnDecoder, plans
from pykafka2.records.columns import GrowingColumns
from pykafka2.records.encoder import encode_headers
from pykafka2.records.rows import Fields
from pykafka2.records.varint import varint
from tests.native.both import extension, running, with_slots

SIZES = (0, 1, 5, 36, 62, 63, 64, 65, 100, 100, 100, 300, 8191, 8192)
DELTAS = (0, 0, 0, 1, 5, 63, 64, -1, -64, 8191, 8192, 1 << 20, 1 << 35, -(1 << 40), 1 << 62, -(1 << 63))
NAMES = ("h", "trace-id", "ü", "\udcff", "")
INTS = (-1, 0, 63, 64, 8191, 8192, 2**31 - 1, 2**31, 2**34)

Outcome = tuple[list[Any], str]


def any_bytes(chance: random.Random) -> bytes | None:
    return None if chance.random() < 0.15 else chance.randbytes(chance.choice(SIZES))


def any_row(chance: random.Random) -> tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]:
    headers = []
    if chance.random() < 0.3:
        headers = [(chance.choice(NAMES), any_bytes(chance)) for _ in range(chance.randrange(4))]
    return any_bytes(chance), any_bytes(chance), headers


def field(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


def any_batch(chance: random.Random) -> tuple[RecordBatch, Fields]:
    """Return a batch, damaged or not, and its rows."""
    count = chance.choice((1, 1, 2, 3, 20, 64, 70, 140, 600))
    base = chance.choice((0, 5, 1 << 40, MAX_OFFSET - 3 * count - 20))
    base_time = chance.choice((0, 1_700_000_000_000, (1 << 62) + 5))
    offsets = list(range(count))
    if chance.random() < 0.2:
        offsets = sorted(chance.sample(range(count * 3), count))
    alike = any_row(chance) if chance.random() < 0.4 or count > 140 else None
    body, fields = bytearray(), []
    is_lying = chance.random() < 0.1
    for offset in offsets:
        key, value, headers = alike or any_row(chance)
        delta = chance.choice(DELTAS) if alike is None else chance.choice(DELTAS[:7])
        encoded = encode_headers(headers) if headers else b"\0"
        if is_lying and chance.random() < 0.1:
            offset = chance.choice(INTS)
        record = b"\0" + varint(delta) + varint(offset) + field(key) + field(value) + encoded
        body += varint(len(record)) + record
        fields += [value, key, base_time + delta, encoded, None]
    last = offsets[-1] if chance.random() < 0.9 else offsets[-1] + chance.randrange(3)
    if chance.random() < 0.5:
        damage(body, chance)
    if chance.random() < 0.05:
        count = max(0, count + chance.choice((-1, 1, 7)))
    attributes = 8 if chance.random() < 0.2 else 0
    size = HEADER_BYTES - LENGTH_END + len(body)
    header = HEADER.pack(base, size, 3, 2, 0, attributes, last, base_time, base_time + 9, -1, -1, -1, count)
    return RecordBatch(memoryview(header + body)), fields


def damage(body: bytearray, chance: random.Random) -> None:
    for _ in range(chance.choice((1, 1, 2, 5))):
        at = chance.randrange(len(body)) if body else 0
        match chance.randrange(5):
            case 0:
                body[at : at + 1] = bytes([chance.randrange(256)])
            case 1:
                del body[at : at + chance.randrange(1, 5)]
            case 2:
                body[at:at] = chance.randbytes(chance.randrange(1, 5))
            case 3:
                body[at : at + 1] = varint(chance.choice(INTS))
            case _:
                body[at : at + 1] = bytes([body[at] | 0x80, 0]) if body else b""


def polled(batch: RecordBatch, first_offset: int) -> tuple[list[Any], int, str]:
    """Decode in steps like `poll`; return the records before the first error, the steps, and its text.

    The steps up to the first record are counted; without a record they do not matter.
    """
    found: list[Any] = []
    count = 0
    steps = decode_any_in_steps(batch, "orders", 7, first_offset, check_crcs=False)
    try:
        try:
            while True:
                next(steps)
                count += 1
        except StopIteration as end:
            records = end.value[0]
        for record in records:
            found.append(with_slots(record))  # noqa: PERF401 (an error must leave the records before it)
    except KafkaError as error:
        return found, count if found else 0, f"{type(error).__name__}: {error}"
    return found, count if found else 0, ""


def in_columns(batch: RecordBatch, first_offset: int, at_once: int) -> Outcome:
    columns, text = GrowingColumns(), ""
    plans._plans.clear()
    try:
        decoder = ColumnDecoder(batch, batch.records_bytes(), columns, "orders-7", first_offset)
        while not decoder.is_done:
            decoder.run(at_once)
    except KafkaError as error:
        text = f"{type(error).__name__}: {error}"
    lists = (columns.offsets, columns.timestamps, columns.keys, columns.values, columns.headers)
    return list(zip(*lists, strict=True)), text


def encoded(fields: Fields) -> Any:
    try:
        return _encoded(list(fields), fields[2])
    except (KafkaError, ValueError, OverflowError) as error:
        return f"{type(error).__name__}: {error}"


def outcome(batch: RecordBatch, fields: Fields, first_offset: int, at_once: int) -> dict[str, Any]:
    return {
        "records": polled(batch, 0),
        "records from an offset": polled(batch, first_offset),
        "columns": in_columns(batch, first_offset, at_once),
        "encoded": encoded(fields),
    }


def differences(compiled: Compiled, seed: int, number: int) -> list[str]:
    """Return what differs for one batch."""
    chance = random.Random(f"{seed}/{number}")
    batch, fields = any_batch(chance)
    first_offset = batch.base_offset + chance.randrange(batch.count + 2)
    at_once = chance.choice((3, 1000))
    both = []
    for implementation in (None, compiled):
        with running(implementation):
            both.append(outcome(batch, fields, first_offset, at_once))
    return [name for name, found in both[0].items() if found != both[1][name]]


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.native.differential", description=__doc__)
    parser.add_argument("--batches", type=int, default=2000)
    parser.add_argument("--first", type=int, default=0, help="number of the first batch")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(words)
    compiled, failed = extension(), 0
    for number in range(options.first, options.first + options.batches):
        if number > options.first and not number % 1000:
            print(f"batch {number}, {failed} with differences so far", flush=True)
        found = differences(compiled, options.seed, number)
        if found:
            failed += 1
            print(f"batch {number} of seed {options.seed}: {', '.join(found)} differ", flush=True)
    print(f"{options.batches} batches, {failed} with differences")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
