"""Decodes the records of a batch of format 2 one by one; the loop over them is written once, as a template.

`LOOP` reads the fields of each record, `VARIANTS` lists what the decoders make of them: objects for `poll`,
tuples for the broker, rows for columns. A decoder is compiled at its first use; tracebacks show its lines.
Any thread. For any input the result is records or CorruptData; no number in the bytes makes it allocate more
than they can hold.
"""

from __future__ import annotations

import linecache
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from itertools import chain, dropwhile, repeat
from textwrap import dedent, indent
from typing import TYPE_CHECKING, Any, Final, NoReturn, cast

import attrs

from pykafka2.compression import MAX_OUTPUT_BYTES
from pykafka2.errors import CorruptData
from pykafka2.native import compiled as native
from pykafka2.records.batch import RecordBatch, check_count, has_gaps, open_batch
from pykafka2.records.varint import MAX_VARINT_BYTES, MAX_VARLONG_BYTES, read_raw
from pykafka2.types import LOG_APPEND_TIME, ConsumerRecord, Headers

if TYPE_CHECKING:
    from pykafka2.records.runs import Rows  # the broker needs no rows

RecordTuple = tuple[int, int, "bytes | None", "bytes | None", Headers]
"""Offset, timestamp, key, value and headers of a record, without topic and partition."""

STILL_READING: Final[RecordTuple] = (-1, -1, None, None, [])
"""Yielded instead of a record while headers are skipped, so that the caller can do something else."""

HEADERS_AT_ONCE = 20_000
"""Headers that are skipped at once, in about 5 ms."""

MOST_HEADERS_KEPT: Final = 16
"""After so many different headers in a batch, those of other records are not compared with them."""

SIZES_OF_OFFSETS: Final = b"\1" * 64 + b"\2" * (8192 - 64)
"""The bytes that each offset delta from 0 to 8191 takes."""

MOST_NAMES_KEPT: Final = 256
LONGEST_NAME_KEPT: Final = 64
_names: dict[bytes, str] = {}
"""Names of headers as text, if they are at most so long. Any thread: each operation on it is atomic."""


@attrs.define(frozen=True)
class Variant:
    """The lines that one decoder adds to `LOOP`."""

    parameters: str
    """Those after batch, buffer and where."""
    before: str
    """Lines that set index, stop, position, previous and offset_sizes."""
    on_offset: str
    """Lines for an offset that was read from its record, not counted."""
    on_headers: str
    """Lines that read the headers of a record that has some."""
    on_record: str
    """Lines for a record: offset, timestamp, key, key_size, value, value_size, and headers or None."""
    after: str
    """Lines after the last record."""


VARIANTS: Final = {
    # A generator of ConsumerRecord. 0.75 us a record of 100 bytes, of which 0.2 us are the object;
    # `benchmarks.micro` guards it. Setting the slots costs two thirds of calling the class.
    "records": Variant(
        parameters="topic, partition, index, position, previous, check_crcs, max_output_bytes",
        before="""
            if buffer is None:
                buffer = open_batch(batch, where, check_crcs, max_output_bytes)
            stop = batch.count
            offset_sizes = sizes_of_offsets(batch, index, stop)
            leader_epoch, timestamp_type = batch.partition_leader_epoch, batch.timestamp_type
            record_type, new = ConsumerRecord, ConsumerRecord.__new__
            known_headers = {}  # many records have the same headers: their lists are copies
            keeps_headers = True
        """,
        on_offset="<ascending>",
        on_headers="""
            if keeps_headers:
                record_end = start + (length >> 1)
                raw_headers = buffer[position:record_end]
                same = known_headers.get(raw_headers) if record_end <= end else None
                if same is not None:
                    headers, position = same.copy(), record_end
                else:
                    <read headers>
                    # If they do not end with the record, the check of its length raises below.
                    known_headers[raw_headers] = headers.copy()
                    keeps_headers = len(known_headers) < MOST_HEADERS_KEPT
            else:
                <read headers>
        """,
        on_record="""
            record = new(record_type)
            record.topic = topic
            record.partition = partition
            record.offset = offset
            record.timestamp = timestamp
            record.timestamp_type = timestamp_type
            record.key = key
            record.value = value
            if headers:
                record.headers_slot = headers  # otherwise ConsumerRecord makes a list when it is read
            record.leader_epoch = leader_epoch
            record.serialized_key_size = key_size
            record.serialized_value_size = value_size
            yield record
        """,
        after="<nothing left>",
    ),
    # A generator of RecordTuple. 0.6 us a record of 100 bytes; the broker reads each batch it appends.
    "tuples": Variant(
        parameters="read_offsets, keeps_headers, headers_at_once, check_crcs, max_output_bytes",
        before="""
            if buffer is None:
                buffer = open_batch(batch, where, check_crcs, max_output_bytes)
            else:
                check_count(batch, where, len(buffer))
            index, stop, position = 0, batch.count, 0
            previous = batch.base_offset - 1
            room = headers_at_once
            offset_sizes = repeat(0) if read_offsets else sizes_of_offsets(batch, 0, stop)
        """,
        on_offset="""
            if not (read_offsets or previous < offset <= last_offset):
                raise_out_of_order(offset, previous, batch)
            previous = offset
        """,
        on_headers="""
            if keeps_headers:
                <read headers>
            else:
                left, position = header_count(buffer, position)
                while left > room:
                    position = skip_headers(buffer, position, room)
                    left, room = left - room, headers_at_once
                    yield STILL_READING
                position = skip_headers(buffer, position, left)
                room -= left
        """,
        on_record="yield offset, timestamp, key, value, [] if headers is None else headers",
        after="<nothing left>",
    ),
    # A function that adds some records of a batch to `Rows`. 0.45 us a record of 100 bytes.
    "rows": Variant(
        parameters="index, stop, position, previous, rows",
        before="""
            offset_sizes = sizes_of_offsets(batch, index, stop)
            keys, values, all_headers = rows.keys, rows.values, rows.headers
            add_offset, add_time = rows.offsets.append, rows.timestamps.append
            add_key, add_value = keys.append, values.append
        """,
        on_offset="""
            <ascending>
            add_offset(offset)
        """,
        on_headers="<read headers>",
        on_record="""
            if headers:
                all_headers[len(values)] = headers
            add_time(timestamp)
            add_key(key)
            add_value(value)
        """,
        after="return begin, position, headers is None",
    ),
}
"""The decoders by name."""

LOOP: Final = """
    <before>
    base_offset, last_offset = batch.base_offset, batch.last_offset
    has_create_time = batch.timestamp_type != LOG_APPEND_TIME
    base_timestamp = timestamp = batch.base_timestamp if has_create_time else batch.max_timestamp
    last_delta = 0
    offset, end = base_offset + index, len(buffer)
    try:
        for offset, offset_size in zip(range(offset, base_offset + stop), offset_sizes):
            begin = position
            length = buffer[position]
            <rest of length>
            start = position

            # A byte of attributes, which have no meaning yet, and the timestamp. Records of one millisecond
            # share its number.
            delta = buffer[position + 1]
            <rest of delta>
            if delta != last_delta and has_create_time:
                timestamp = base_timestamp + ((delta >> 1) ^ -(delta & 1))
                last_delta = delta

            if offset_size:
                position += offset_size
            else:
                raw_offset, position = read_raw(buffer, position)
                if raw_offset & 1:
                    raise CorruptData("a negative offset delta")
                offset = base_offset + (raw_offset >> 1)
                <on_offset>

            <read key>
            <read value>

            headers = None
            if buffer[position]:
                <on_headers>
            else:
                position += 1
            # All was read within the buffer, or IndexError was raised; an odd length is negative.
            if (position - start) << 1 != length:
                raise CorruptData("its length does not match its fields")
            <on_record>
    except (IndexError, CorruptData) as error:
        raise_corrupt(batch, offset, where, error)
    <after>
"""
"""The body of every decoder; `<name>` stands for the lines of that name."""


def rest_of_varint(name: str, skip: int = 0, max_bytes: int = MAX_VARINT_BYTES) -> str:
    """Return the lines that read an unsigned number whose first byte, `skip` bytes ahead, is in `name`."""
    at = f"position + {skip}" if skip else "position"
    return f"""
        if {name} < 0x80:
            position += {skip + 1}
        elif (byte := buffer[position + {skip + 1}]) < 0x80:
            {name} = {name} & 0x7F | byte << 7
            position += {skip + 2}
        else:
            {name}, position = read_raw(buffer, {at}, {max_bytes})
    """


def nullable_bytes(name: str) -> str:
    """Return the lines that read a key or a value, and its size."""
    return f"""
        size = buffer[position]
        if size == 1:
            {name}, {name}_size = None, -1
            position += 1
        else:
            <rest of size>
            if size & 1:
                raise CorruptData("a {name} of negative length")
            {name}_size = size >> 1
            {name} = buffer[position : position + {name}_size]
            position += {name}_size
    """


LINES: Final = {
    "rest of length": rest_of_varint("length"),
    "rest of delta": rest_of_varint("delta", skip=1, max_bytes=MAX_VARLONG_BYTES),
    "rest of size": rest_of_varint("size"),
    "read key": nullable_bytes("key"),
    "read value": nullable_bytes("value"),
    "read headers": "position = read_headers(buffer, position, headers := [])",
    "ascending": """
        if not previous < offset <= last_offset:
            raise_out_of_order(offset, previous, batch)
        previous = offset
    """,
    "nothing left": """
        if position != end:
            raise_leftover(batch, end - position, where)
    """,
}
"""The lines that decoders share, by name; those that read a field move `position` behind it."""


def filled(template: str, lines: Mapping[str, str]) -> str:
    """Replace each `<name>` in a line of its own, also in what replaces it, by the lines of that name."""

    def block(found: re.Match[str]) -> str:
        return indent(filled(lines[found[2]], lines), found[1])

    return re.sub(r"^( *)<([a-z_ ]+)>$", block, dedent(template).strip(), flags=re.MULTILINE)


@cache
def compiled(name: str) -> Callable[..., Any]:
    """Compile the decoder of this name; linecache gets its source, for tracebacks and debuggers."""
    variant = VARIANTS[name]
    body = filled(LOOP, LINES | attrs.asdict(variant))
    source = f"def decode_{name}(batch, buffer, where, {variant.parameters}):\n{indent(body, '    ')}\n"
    filename = f"<pykafka2 decode {name}>"
    linecache.cache[filename] = len(source), None, source.splitlines(keepends=True), filename
    names = dict(NAMES)
    exec(compile(source, filename, "exec"), names)  # noqa: S102
    return cast(Callable[..., Any], names[f"decode_{name}"])


def decode_records(
    batch: RecordBatch,
    topic: str,
    partition: int,
    first_offset: int = 0,
    check_crcs: bool = True,
    max_output_bytes: int = MAX_OUTPUT_BYTES,
) -> Iterator[ConsumerRecord]:
    """Iterate over the batch's records from first_offset on, as `poll` returns them (with keys and values in
    bytes).

    Lazy: the batch is opened and decoded when the first record is read. A damaged record raises only when it
    is reached, so `list.extend(islice(...))` keeps those before it.

    Raises:
        CorruptMessage: the checksum does not match; names topic, partition and offset.
        CorruptData: the bytes are not records; names topic, partition and offset.
        UnsupportedCompressionType, CodecUnavailable: the batch's codec is unknown, or not installed.
    """
    records: Iterator[ConsumerRecord] = compiled("records")(
        batch,
        None,
        f"{topic}-{partition}",
        topic,
        partition,
        0,
        0,
        batch.base_offset - 1,
        check_crcs,
        max_output_bytes,
    )
    if first_offset > batch.base_offset:
        return dropwhile(lambda record: record.offset < first_offset, records)
    return records


def decode_opened_records(
    batch: RecordBatch,
    buffer: bytes,
    topic: str,
    partition: int,
    index: int = 0,
    position: int = 0,
    previous: int | None = None,
) -> Iterator[ConsumerRecord]:
    """Iterate over the records from `index` on, of a batch whose bytes are checked and decompressed.

    position is that of the first of them in the buffer, previous the last offset before it.
    """
    if previous is None:
        previous = batch.base_offset - 1
    records: Iterator[ConsumerRecord] = compiled("records")(
        batch, buffer, f"{topic}-{partition}", topic, partition, index, position, previous, False, 0
    )
    return records


def decode_tuples(
    batch: RecordBatch,
    where: str = "records",
    check_crcs: bool = True,
    max_output_bytes: int = MAX_OUTPUT_BYTES,
    read_offsets: bool = True,
    keeps_headers: bool = True,
    buffer: bytes | None = None,
) -> Iterator[RecordTuple]:
    """Iterate over the batch's records as tuples; lazy, and raises, like `decode_records`.

    where names topic and partition in errors. With read_offsets each offset is the one in its record, in any
    order, for the broker, which verifies them. Without it, offsets are counted if the header says that there
    are no gaps; those that do not ascend within the batch's range are CorruptData.

    Without keeps_headers, headers are checked and left out, because each of 2 bytes takes 70 as an object;
    after many of them `STILL_READING` is yielded. buffer has the records of a decompressed batch.
    """
    tuples: Iterator[RecordTuple] = compiled("tuples")(
        batch, buffer, where, read_offsets, keeps_headers, HEADERS_AT_ONCE, check_crcs, max_output_bytes
    )
    return tuples


def decode_rows(
    batch: RecordBatch,
    buffer: bytes,
    where: str,
    index: int,
    stop: int,
    position: int,
    previous: int,
    rows: Rows,
) -> tuple[int, int, bool]:
    """Add the records from `index` up to `stop`, at least one, of an open batch to `rows`.

    position is that of the first of them in the buffer, previous the last offset before it. Offsets are added
    only if they are read, see `has_gaps`. After an error the lists can differ in length by one.

    Return where the last record begins, where it ends, and whether it is without headers.
    """
    if native is not None:
        has_create_time = batch.timestamp_type != LOG_APPEND_TIME
        index, begin, position, previous, is_plain = native.decode_rows(
            buffer,
            cast("list[int]", rows.offsets),
            rows.timestamps,
            rows.keys,
            rows.values,
            rows.headers,
            index,
            stop,
            position,
            batch.base_offset,
            previous,
            batch.last_offset,
            batch.base_timestamp if has_create_time else batch.max_timestamp,
            has_create_time,
            has_gaps(batch),
        )
        if index == stop:
            return begin, position, is_plain
    last: tuple[int, int, bool] = compiled("rows")(
        batch, buffer, where, index, stop, position, previous, rows
    )
    return last


def read_headers(buffer: bytes, position: int, headers: Headers) -> int:
    """Read the headers at position into the list and return where they end; each takes at least two bytes.

    Hot: 0.5 us for a header of less than 64 bytes. A topic has few names of headers, so most are in `_names`.
    """
    count = buffer[position]
    if count < 0x80:
        position += 1
    else:
        count, position = read_raw(buffer, position)
    if count & 1 or count > len(buffer) - position:
        raise CorruptData("more headers than there are bytes, or a negative number")
    while count:  # cheaper for one or two than a range
        count -= 2
        size = buffer[position]
        if size < 0x80:
            position += 1
        else:
            size, position = read_raw(buffer, position)
        if size & 1:
            raise CorruptData("a header's name of negative length")
        end = position + (size >> 1)
        encoded = buffer[position:end]
        name = _names.get(encoded) or _name_of(encoded)
        size = buffer[end]
        if size < 0x80:
            position = end + 1
        else:
            size, position = read_raw(buffer, end)
        if size == 1:
            headers.append((name, None))
        elif size & 1:
            raise CorruptData("a header of negative length")
        else:
            end = position + (size >> 1)
            if end > len(buffer):
                raise CorruptData("a header that is longer than its batch")
            headers.append((name, buffer[position:end]))
            position = end
    return position


def header_count(buffer: bytes, position: int) -> tuple[int, int]:
    """Return the number of headers at this position, and where the first one begins."""
    count, position = read_raw(buffer, position)
    if count & 1 or count > len(buffer) - position:
        raise CorruptData("more headers than there are bytes, or a negative number")
    return count >> 1, position


def skip_headers(buffer: bytes, position: int, count: int) -> int:
    """Check so many headers as `read_headers` does, without making objects of them; return where they end."""
    while count:
        count -= 1
        size = buffer[position]
        if size < 0x80:
            position += 1
        else:
            size, position = read_raw(buffer, position)
        if size & 1:
            raise CorruptData("a header's name of negative length")
        position += size >> 1
        size = buffer[position]
        if size < 0x80:
            position += 1
        else:
            size, position = read_raw(buffer, position)
        if size & 1:
            if size != 1:
                raise CorruptData("a header of negative length")
        else:
            position += size >> 1
            if position > len(buffer):
                raise CorruptData("a header that is longer than its batch")
    return position


def _name_of(encoded: bytes) -> str:
    name = encoded.decode("utf-8", "surrogateescape")
    if len(encoded) <= LONGEST_NAME_KEPT:
        if len(_names) >= MOST_NAMES_KEPT:
            _names.clear()
        _names[encoded] = name
    return name


def sizes_of_offsets(batch: RecordBatch, index: int, stop: int) -> Iterable[int]:
    """Return the size of each record's offset delta; zeros if it must be read, see `has_gaps`."""
    if has_gaps(batch):
        return repeat(0)
    if stop <= len(SIZES_OF_OFFSETS):
        return SIZES_OF_OFFSETS[index:stop]
    return chain(SIZES_OF_OFFSETS[index:], repeat(3))


def raise_out_of_order(offset: int, previous: int, batch: RecordBatch) -> NoReturn:
    raise CorruptData(f"offset {offset} follows {previous}, and the batch's last is {batch.last_offset}")


def raise_corrupt(batch: RecordBatch, offset: int, where: str, error: Exception) -> NoReturn:
    why = "the batch ends within the record" if isinstance(error, IndexError) else error
    if batch.last_offset_delta != batch.count - 1:
        offset = batch.base_offset  # with gaps, the offset is unknown until the record is read
    raise CorruptData(f"{where} at offset {offset}, in the batch from {batch.base_offset}: {why}") from error


def raise_leftover(batch: RecordBatch, left: int, where: str) -> NoReturn:
    why = f"{left} bytes are left after its {batch.count} records"
    raise CorruptData(f"{where}, batch from offset {batch.base_offset}: {why}")


NAMES: Final[dict[str, Any]] = {
    "__name__": __name__,
    "ConsumerRecord": ConsumerRecord,
    "CorruptData": CorruptData,
    "LOG_APPEND_TIME": LOG_APPEND_TIME,
    "MAX_OUTPUT_BYTES": MAX_OUTPUT_BYTES,
    "MOST_HEADERS_KEPT": MOST_HEADERS_KEPT,
    "STILL_READING": STILL_READING,
    "check_count": check_count,
    "header_count": header_count,
    "open_batch": open_batch,
    "raise_corrupt": raise_corrupt,
    "raise_leftover": raise_leftover,
    "raise_out_of_order": raise_out_of_order,
    "read_headers": read_headers,
    "read_raw": read_raw,
    "repeat": repeat,
    "sizes_of_offsets": sizes_of_offsets,
    "skip_headers": skip_headers,
}
"""The names in `LOOP` that decoders find in this module."""
