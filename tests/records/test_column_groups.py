"""Batches decoded together, by arrays, say what each says alone; and the same is raised."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pykafka2.errors import KafkaError
from pykafka2.records import column_group
from pykafka2.records.array_decoder import decode_arrays
from pykafka2.records.batch import RecordBatch, batches, open_body
from pykafka2.records.column_decoder import decode_columns
from pykafka2.records.column_group import ColumnGroup
from pykafka2.records.columns import GrowingColumns
from pykafka2.records.decoder import RecordTuple
from pykafka2.records.encoder import BatchBuilder
from pykafka2.records.runs import ArrayRun, UniformRun
from pykafka2.types import Headers
from tests.records.test_columns import rows_in, table_rows

NOW = 1_700_000_000_000
Row = tuple[int, "bytes | None", "bytes | None", Headers]

BINARY = bytes(at * 31 % 256 for at in range(256)) * 36
BYTES = st.none() | st.binary(max_size=9) | st.sampled_from([b"", b"\0" * 70, b"v" * 100, b"\xff" * 200])
NAMES = st.sampled_from(["", "trace", "naïve", b"\xff".decode("utf-8", "surrogateescape")])
HEADERS = st.just([]) | st.lists(st.tuples(NAMES, st.none() | st.binary(max_size=3)), max_size=3)
ROWS = st.lists(
    st.tuples(st.sampled_from([NOW, NOW + 1, NOW - 5, NOW + 100_000]), BYTES, BYTES, HEADERS),
    min_size=1,
    max_size=30,
)


@st.composite
def blobs(draw: st.DrawFn) -> list[bytes]:
    """Batches one after the other, some rows often; with gaps between their offsets, or log-append times."""
    found, offset = [], draw(st.sampled_from([0, 500, 1 << 40]))
    for _ in range(draw(st.integers(1, 5))):
        rows = draw(ROWS) * draw(st.sampled_from([1, 1, 3, 40]))
        builder = BatchBuilder(max_bytes=1 << 30)
        for row in rows:
            builder.append(*row)
        blob = bytearray(builder.build(base_offset=offset))
        kind = draw(st.sampled_from(["", "", "gap", "log-append time", "compacted"]))
        if kind == "log-append time":
            blob[22] |= 8
        if kind == "compacted":
            blob[23:27] = (builder.count + 7).to_bytes(4, "big")
        found.append(bytes(blob))
        offset += builder.count + (7 if kind in ("gap", "compacted") else 0)
    return found


def uniform(*counts: int, size: int = 100) -> list[bytes]:
    found, offset = [], 0
    for count in counts:
        builder = BatchBuilder(max_bytes=1 << 30)
        for number in range(count):
            builder.append(NOW + number, None, bytes([number % 256]) * size)
        found.append(builder.build(base_offset=offset))
        offset += count
    return found


def opened(blob: bytes) -> list[tuple[RecordBatch, Any]]:
    return [(batch, open_body(batch, "t", False, 1 << 30)) for batch in batches(blob)]


def grouped(
    blob: bytes, first_offset: int = 0, end: int | None = None
) -> tuple[list[RecordTuple], str, int, GrowingColumns]:
    """The group's result for the batches, why it ended, and the base offset of the batch that failed."""
    columns = GrowingColumns()
    group = ColumnGroup(columns, "t", check_crcs=False)
    why = ""
    try:
        with group:
            for batch in batches(blob):
                if batch.last_offset >= first_offset:
                    group.end_offset = end
                    group.add(batch, max(batch.base_offset, first_offset))
    except KafkaError as error:
        why = str(error)
    failed = group.failed.base_offset if isinstance(group.failed, RecordBatch) else -1
    return rows_in(columns), why, failed, columns


def alone(blob: bytes, first_offset: int = 0) -> tuple[list[RecordTuple], str, int]:
    columns = GrowingColumns()
    for batch in batches(blob):
        try:
            if batch.last_offset >= first_offset:
                decode_columns(batch, columns, "t", first_offset, None, False)
        except KafkaError as error:
            return rows_in(columns), str(error), batch.base_offset
    return rows_in(columns), "", -1


@contextmanager
def without_arrays() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(column_group, "_array_decoder", lambda: None)
        yield


@contextmanager
def alike_from(records: int) -> Iterator[None]:
    """Batches of this many records are checked for records that are alike."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(column_group, "FEWEST_ALIKE", records)
        yield


@pytest.mark.gate
@pytest.mark.slow
@given(blobs(), st.integers(0, 90), st.sampled_from([1, 1 << 20]))
@example(uniform(90, 150, 150, 149), 70, 1 << 20)
@example(uniform(90, 150, 20, 149), 70, 1)
def test_batches_together_are_the_batches_one_by_one(
    found: list[bytes], skipped: int, fewest_alike: int
) -> None:
    blob = b"".join(found)
    first_offset = next(iter(batches(blob))).base_offset + skipped
    with alike_from(fewest_alike):
        rows, why, failed, columns = grouped(blob, first_offset)
    assert (rows, why, failed) == alone(blob, first_offset)
    table = columns.to_arrow()
    table.validate(full=True)
    with without_arrays():
        assert table.equals(grouped(blob, first_offset)[3].to_arrow())


@pytest.mark.slow
@given(blobs(), st.data(), st.sampled_from([1, 1 << 20]))
def test_damaged_batches_are_refused_as_alone(
    found: list[bytes], data: st.DataObject, fewest_alike: int
) -> None:
    number = data.draw(st.integers(0, len(found) - 1))
    damaged = bytearray(found[number])
    damaged[data.draw(st.integers(61, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    blob = b"".join([*found[:number], bytes(damaged), *found[number + 1 :]])
    with alike_from(fewest_alike):
        assert grouped(blob)[:3] == alone(blob)


@pytest.mark.parametrize("size", [0, 40, 100, 500, 9000])
@pytest.mark.parametrize("is_varying", [False, True])
@pytest.mark.parametrize("is_binary", [False, True])
def test_produced_batches_are_decoded_by_arrays(size: int, is_varying: bool, is_binary: bool) -> None:
    blob, offset = b"", 0
    for batch in range(3):
        builder = BatchBuilder(max_bytes=1 << 30)
        for number in range(100):
            length = size + (number * 7 + batch) % 50 if is_varying else size
            value = (BINARY[number:] if is_binary else b"v" * 9100)[:length]
            headers: Headers = [("trace", b"\0\1")] * (number % 3) if batch == 2 else []
            builder.append(NOW + number, b"k%d" % number if is_varying else None, value, headers)
        blob += builder.build(base_offset=offset)
        offset += 100
    run = decode_arrays(opened(blob))
    assert run is not None
    columns = GrowingColumns()
    columns.add(run)
    assert rows_in(columns) == alone(blob)[0]


def test_a_record_within_a_value_does_not_mislead() -> None:
    inner = uniform(60, size=30)[0][61:]
    builder = BatchBuilder(max_bytes=1 << 30)
    for number in range(60):
        builder.append(NOW, None, inner[: 300 + number])
        builder.append(NOW, None, b"\0\x0e\0\0\0\1\1\0")
    blob = builder.build()
    assert grouped(blob)[:3] == alone(blob)


def test_batches_of_as_many_bytes_need_not_be_alike() -> None:
    blob, offset = b"", 0
    for sizes in ([10] * 60, [10] * 30 + [12, 8] * 15, [9, 11] * 30):
        builder = BatchBuilder(max_bytes=1 << 30)
        for size in sizes:
            builder.append(NOW, None, b"v" * size)
        blob += builder.build(base_offset=offset)
        offset += 60
    assert len({batch.size_bytes for batch in batches(blob)}) == 1
    run = decode_arrays(opened(blob))
    assert run is not None
    assert [len(value or b"") for value in run.values] == [10] * 90 + [12, 8] * 15 + [9, 11] * 30


def test_uniform_batches_are_decoded_as_runs() -> None:
    blob = b"".join(uniform(300, 9000, 300, 65))
    rows, _, _, columns = grouped(blob, 10)
    assert rows == alone(blob, 10)[0]
    kinds = [type(run) for run in columns.runs()]
    assert set(kinds[:-1]) == {UniformRun}
    assert kinds[-1] is ArrayRun, "a batch of few records is taken together with others"
    assert len(kinds) < 20


@pytest.mark.parametrize("odd", [20, 65, 150, 298])
@pytest.mark.parametrize("value", [None, b"other", b"v" * 101])
def test_a_record_unlike_the_others_leaves_the_batch_to_arrays(odd: int, value: bytes | None) -> None:
    builder = BatchBuilder(max_bytes=1 << 30)
    for number in range(300):
        builder.append(NOW, None, value if number == odd else b"v" * 100)
    blob = builder.build() + uniform(300, 300)[1]
    rows, _, _, columns = grouped(blob)
    assert rows == alone(blob)[0]
    assert [type(run) for run in columns.runs()] == [ArrayRun], "nor is the next one tried"


@pytest.mark.parametrize("at", [61, 70, 5000, -1])
def test_damage_among_uniform_records_gives_the_usual_error(at: int) -> None:
    blob = bytearray(b"".join(uniform(300)))
    blob[at] ^= 0xFF
    assert grouped(bytes(blob))[:3] == alone(bytes(blob))


def test_bytes_behind_uniform_records_give_the_usual_error() -> None:
    [blob] = uniform(300)
    fewer = bytearray(blob)
    fewer[23:27], fewer[57:61] = (298).to_bytes(4, "big"), (299).to_bytes(4, "big")
    assert grouped(bytes(fewer))[:3] == alone(bytes(fewer))
    assert "bytes are left" in grouped(bytes(fewer))[1]


def test_group_ends_at_its_end_offset() -> None:
    blob = b"".join(uniform(60, 60))
    rows, _, _, columns = grouped(blob, 10, end=100)
    assert [row[0] for row in rows] == list(range(10, 100))
    assert [type(run) for run in columns.runs()] == [ArrayRun]


def test_records_before_a_checksum_that_does_not_fit_are_there() -> None:
    first, second, third = uniform(60, 60, 60)
    damaged = bytearray(second)
    damaged[-3] ^= 1
    columns = GrowingColumns()
    group = ColumnGroup(columns, "t", check_crcs=True)

    def add_all() -> None:
        with group:
            for batch in batches(first + bytes(damaged) + third):
                group.add(batch, 0)

    with pytest.raises(KafkaError, match="t at offset 60: checksum"):
        add_all()
    assert columns.offsets == list(range(60))
    assert isinstance(group.failed, RecordBatch)
    assert group.failed.base_offset == 60


def test_a_batch_that_runs_back_is_not_mixed_with_those_before_it() -> None:
    first, second = uniform(60, 60)
    [again] = uniform(90)
    columns = GrowingColumns()
    position = 0
    with ColumnGroup(columns, "t", check_crcs=True) as group:
        for batch in batches(first + again + second):
            group.add(batch, position)
            position = max(position, batch.next_offset)
    assert columns.offsets == list(range(120))


def test_tables_of_pieces_of_arrays() -> None:
    blob = b"".join(uniform(60, 60))
    _, _, _, columns = grouped(blob)
    columns.shorten(70)
    assert table_rows(columns.to_arrow()) == rows_in(columns)
    assert columns.to_arrow().schema.field("value").type == pa.binary()


@pytest.mark.gate
def test_numpy_is_not_loaded_for_columns() -> None:
    code = (
        "import sys; from pykafka2.records.column_group import ColumnGroup; "
        "from pykafka2.records.columns import GrowingColumns; ColumnGroup(GrowingColumns(), 't', True); "
        "sys.exit('numpy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.mark.gate
def test_numpy_is_loaded_once_it_would_have_been_quicker() -> None:
    code = """
import sys
from pykafka2.records import column_group
from pykafka2.records.batch import batches
from pykafka2.records.columns import GrowingColumns
from pykafka2.records.encoder import BatchBuilder

column_group.WORTH_NUMPY = 200
builder = BatchBuilder(max_bytes=1 << 20)
for size in range(150):
    builder.append(0, None, bytes(size))  # no two of one length
blob = builder.build()
found = []
for _ in range(4):
    columns = GrowingColumns()
    with column_group.ColumnGroup(columns, "t", check_crcs=True) as group:
        for batch in batches(blob, "t"):
            group.add(batch, 0)
    assert [len(one) for one in columns.values] == list(range(150))
    found.append("numpy" in sys.modules)
sys.exit(str(found))
"""
    ended = subprocess.run([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True, check=False)
    assert ended.stderr.strip() == "[False, False, True, True]"


@pytest.mark.parametrize("missing", ["pyarrow", "numpy"])
def test_numpy_is_not_used_without_pyarrow(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(column_group, "find_spec", lambda name: None if name == missing else name)
    without = column_group.WithoutArrays()
    without.add(column_group.WORTH_NUMPY)
    assert not without.should_end()
    monkeypatch.undo()
    assert not without.should_end(), "it is looked for once"


@pytest.mark.parametrize(("start", "stop"), [(0, 60), (0, 100), (100, 200), (130, 200), (150, 151)], ids=str)
def test_part_without_headers_of_a_run_with_headers_makes_a_table(start: int, stop: int) -> None:
    blob = b""
    for base in (0, 100):
        builder = BatchBuilder()
        for number in range(base, base + 100):
            headers: Headers = [("trace", b"1")] if 60 <= number < 130 else []
            builder.append(NOW, b"k" * (number % 7), b"v" * (number % 11), headers)
        blob += builder.build(base_offset=base)
    run = decode_arrays(opened(blob))
    assert run is not None
    columns = GrowingColumns()
    columns.add(run, start)
    columns.end_before(stop)
    assert columns.offsets == list(range(start, stop))
    assert table_rows(columns.to_arrow()) == rows_in(columns)
