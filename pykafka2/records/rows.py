"""A batch's records as one flat list: of each its value, key, timestamp, headers and callback.

A tuple kept for each record would be visited by the garbage collector up to three times while it waits, since
it holds a callback, and would make the collector run every 700 records: a tenth of what `send` costs.  Pure;
appended to on callers' threads (partition_queue.py), read by batch.py and by what tells
outcomes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

from pykafka2.records.encoder import NO_HEADERS, Row

Fields = list[Any]
"""The rows of a batch one behind the other."""

FIELDS = 5
"""Of a row; how many entries a record has."""

FEW = 24
"""So many records are done as soon one by one."""


def rows_of(fields: Fields) -> Iterator[Row]:
    """The records one by one."""
    rest = iter(fields)
    return zip(rest, rest, rest, rest, rest, strict=True)


def has_columns(fields: Fields) -> bool:
    """Whether no record has headers, none a key if the first has none, and there are enough to matter."""
    count = len(fields) // FIELDS
    return (
        count >= FEW
        and fields[3::FIELDS].count(NO_HEADERS) == count
        and (fields[1] is not None or fields[1::FIELDS].count(None) == count)
    )


def fields_of_rows(rows: Iterable[Row]) -> Fields:
    return [*chain.from_iterable(rows)]


def row_at(fields: Fields, index: int) -> Row:
    """One record; negative numbers count from the end."""
    at = index * FIELDS
    value, key, timestamp, headers, on_delivery = fields[at : at + FIELDS or None]
    return value, key, timestamp, headers, on_delivery
