"""Records of a batch one by one into columns, and how the last of them is laid out.

Runs on the application's thread, for column_decoder.py, which then looks for others of that layout.  The
lines of the loop are those of `tuple_decoder.decode_tuples`; a property test keeps the two alike.
"""

from __future__ import annotations

from pykafka2.errors import CorruptData
from pykafka2.records.batch import RecordBatch
from pykafka2.records.columns import Columns
from pykafka2.records.headers import read_headers
from pykafka2.records.layouts import Layout
from pykafka2.records.opening import has_gaps, raise_corrupt, raise_out_of_order
from pykafka2.records.runs import Bytes, Field, Rows
from pykafka2.records.varint import MAX_VARLONG_BYTES, read_raw
from pykafka2.types import LOG_APPEND_TIME, Headers

# Times further from the first one than this many bytes hold are of no layout that others could have.
MAX_TIME_BYTES = 4


class RowDecoder:
    """One batch, whose bytes are checked and decompressed."""

    __slots__ = (
        "_batch",
        "_buffer",
        "_columns",
        "_first_offset",
        "_previous",
        "_where",
        "base_timestamp",
        "has_create_time",
        "has_gaps",
    )

    def __init__(
        self, batch: RecordBatch, buffer: bytes, columns: Columns, where: str, first_offset: int
    ) -> None:
        self._batch = batch
        self._buffer = buffer
        self._columns = columns
        self._where = where
        self._first_offset = first_offset
        self.has_create_time = batch.timestamp_type != LOG_APPEND_TIME
        self.base_timestamp = batch.base_timestamp if self.has_create_time else batch.max_timestamp
        self.has_gaps = has_gaps(batch)
        self._previous = batch.base_offset - 1
        """With gaps: the offset of the record that was decoded last."""

    @property
    def next_offset(self) -> int:
        """With gaps: behind the record that was decoded last."""
        return self._previous + 1

    def fill(self, columns: Columns) -> None:
        """Add what follows to other columns."""
        self._columns = columns

    def decode(self, index: int, stop: int, position: int) -> tuple[int, Layout | None, int]:
        """Decode the records from `index` up to `stop`.

        Where the last one begins, how it is laid out (if others may be laid out so), and where it ends.

        Hot: 0.45 us a record of 100 bytes.
        """
        batch, buffer = self._batch, self._buffer
        base_offset, has_create_time, has_gaps = batch.base_offset, self.has_create_time, self.has_gaps
        base_timestamp = timestamp = self.base_timestamp
        offsets: list[int] = []
        timestamps: list[int] = []
        keys: Bytes = []
        values: Bytes = []
        all_headers: dict[int, Headers] = {}
        add_time, add_key, add_value = timestamps.append, keys.append, values.append
        last_delta = 0
        previous = self._previous
        offset = base_offset + index
        begin = after_length = after_time = key_at = value_at = size = 0
        try:
            for offset in range(base_offset + index, base_offset + stop):
                begin = position
                length = buffer[position]
                if length < 0x80:
                    position += 1
                elif (byte := buffer[position + 1]) < 0x80:
                    length = length & 0x7F | byte << 7
                    position += 2
                else:
                    length, position = read_raw(buffer, position)
                after_length = position

                delta = buffer[position + 1]
                if delta < 0x80:
                    position += 2
                elif (byte := buffer[position + 2]) < 0x80:
                    delta = delta & 0x7F | byte << 7
                    position += 3
                else:
                    delta, position = read_raw(buffer, position + 1, MAX_VARLONG_BYTES)
                if delta != last_delta and has_create_time:
                    timestamp = base_timestamp + ((delta >> 1) ^ -(delta & 1))
                    last_delta = delta
                after_time = position

                if has_gaps:
                    raw_offset, position = read_raw(buffer, position)
                    if raw_offset & 1:
                        raise CorruptData("a negative offset delta")
                    offset = base_offset + (raw_offset >> 1)
                    if not previous < offset <= batch.last_offset:
                        raise_out_of_order(offset, previous, batch)
                    previous = offset
                    offsets.append(offset)
                else:
                    delta = offset - base_offset
                    position += 1 if delta < 64 else 2 if delta < 8192 else 3

                size = buffer[position]
                if size == 1:
                    key = None
                    position += 1
                    key_at = position
                else:
                    if size < 0x80:
                        position += 1
                    elif (byte := buffer[position + 1]) < 0x80:
                        size = size & 0x7F | byte << 7
                        position += 2
                    else:
                        size, position = read_raw(buffer, position)
                    if size & 1:
                        raise CorruptData("a key of negative length")
                    key_at = position
                    key = buffer[position : position + (size >> 1)]
                    position += size >> 1

                size = buffer[position]
                if size == 1:
                    value = None
                    position += 1
                    value_at = position
                else:
                    if size < 0x80:
                        position += 1
                    elif (byte := buffer[position + 1]) < 0x80:
                        size = size & 0x7F | byte << 7
                        position += 2
                    else:
                        size, position = read_raw(buffer, position)
                    if size & 1:
                        raise CorruptData("a value of negative length")
                    value_at = position
                    value = buffer[position : position + (size >> 1)]
                    position += size >> 1

                if buffer[position]:
                    headers: Headers = []
                    position = read_headers(buffer, position, headers)
                    size = -1
                else:
                    headers = []
                    position += 1
                if (position - after_length) << 1 != length:
                    raise CorruptData("its fields do not end where its length says")
                if headers:
                    all_headers[len(values)] = headers
                add_time(timestamp)
                add_key(key)
                add_value(value)
        except (IndexError, CorruptData) as error:
            raise_corrupt(batch, offset, self._where, error)
        finally:
            self._previous = previous
            count = len(values)
            found = offsets[:count] if has_gaps else range(base_offset + index, base_offset + index + count)
            self._columns.add(
                Rows(found, timestamps[:count], keys[:count], values, all_headers), self._first_offset
            )
        time = Field(after_length + 1 - begin, after_time - after_length - 1)
        if has_gaps or size < 0 or time.size > MAX_TIME_BYTES:
            return begin, None, position
        key_field = Field(key_at - begin, -1 if key is None else len(key))
        value_field = Field(value_at - begin, -1 if value is None else len(value))
        return begin, Layout(position - begin, time, key_field, value_field), position
