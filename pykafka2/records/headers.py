"""The headers of a record.

Any thread.  Hot where records have headers.
"""

from __future__ import annotations

from pykafka2.errors import CorruptData
from pykafka2.records.varint import read_raw
from pykafka2.types import Headers

# Names of headers that are kept as text: so many, of so many bytes.
MOST_NAMES_KEPT = 256
LONGEST_NAME_KEPT = 64


def read_headers(buffer: bytes, position: int, headers: Headers) -> int:
    """Read the headers at position into the list; where they end.  Each takes at least two bytes.

    Hot: 0.5 us a header of less than 64 bytes.  Topics have few names of headers, so most are known.
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
    """Return how many headers there are at this position, and where the first one begins."""
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


_names: dict[bytes, str] = {}
"""Names of headers that were met, as text.  Any thread: each operation on it is one step."""


def _name_of(encoded: bytes) -> str:
    name = encoded.decode("utf-8", "surrogateescape")
    if len(encoded) <= LONGEST_NAME_KEPT:
        if len(_names) >= MOST_NAMES_KEPT:
            _names.clear()
        _names[encoded] = name
    return name
