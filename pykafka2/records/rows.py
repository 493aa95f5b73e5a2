"""The records of a producer's batch as one flat list: value, key, timestamp, headers and callback of each.

A tuple for each record would be visited by the garbage collector up to three times while it waits, because
it contains a callback, and the collector would run every 700 records: a tenth of what `send` costs. Pure.
Callers' threads append (accumulator/open_batch.py), batch_records.py encodes, and delivery/ calls the
callbacks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

from pykafka2.records.encoder import NO_HEADERS, Row

Fields = list[Any]
"""The entries of all rows of a batch in one list."""

FIELDS = 5
"""The entries of a row."""

FEW = 24
"""Below this number of records, columns are not faster."""


def rows_of(fields: Fields) -> Iterator[Row]:
    """Iterate over the records."""
    rest = iter(fields)
    return zip(rest, rest, rest, rest, rest, strict=True)


def has_columns(fields: Fields) -> bool:
    """Return whether columns pay off: enough records, no headers, no key unless the first has one."""
    count = len(fields) // FIELDS
    return (
        count >= FEW
        and fields[3::FIELDS].count(NO_HEADERS) == count
        and (fields[1] is not None or fields[1::FIELDS].count(None) == count)
    )


def fields_of_rows(rows: Iterable[Row]) -> Fields:
    return [*chain.from_iterable(rows)]


def row_at(fields: Fields, index: int) -> Row:
    """Return one record; negative indexes count from the end."""
    at = index * FIELDS
    value, key, timestamp, headers, on_delivery = fields[at : at + FIELDS or None]
    return value, key, timestamp, headers, on_delivery
