"""Calls the `on_delivery` of each record of a batch, in order, with a metadata made for it alone.

The IO thread.  What a callback raises is logged and keeps none of the others from being called; what is no
`Exception`, as from `sys.exit()`, goes on to a thread of the user's at the end.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import repeat

from pykafka2.errors import KafkaError
from pykafka2.producer.fields import FIELDS, Fields, rows_of
from pykafka2.types import NO_OFFSET, RecordMetadata

logger = logging.getLogger(__name__)

Interrupt = Callable[[BaseException], None]
"""`Driver.interrupt`: what becomes of a `sys.exit()` in a callback."""


def tell_written(
    topic: str,
    partition: int,
    fields: Fields,
    base_offset: int,
    log_append_time: int,
    interrupt: Interrupt,
) -> None:
    """The records are in the log from `base_offset` on (-1: nobody knows).  Hot: no call but the user's."""
    callbacks = fields[4::FIELDS]
    for on_delivery in callbacks:
        if on_delivery is not None:  # never `==`, which is the user's own and may say or raise anything
            break
    else:
        return  # records by column, or nobody's
    exit_request: BaseException | None = None
    told = metadata_of(topic, partition, fields, base_offset, log_append_time)
    for on_delivery, metadata in zip(callbacks, told, strict=True):
        if on_delivery is None:
            continue
        try:
            on_delivery(metadata, None)
        except BaseException as error:
            log_callback(topic, partition, error)
            if not isinstance(error, Exception):
                exit_request = exit_request or error
    if exit_request is not None:
        interrupt(exit_request)


def metadata_of(
    topic: str, partition: int, fields: Fields, base_offset: int, log_append_time: int
) -> Iterator[RecordMetadata]:
    """Of each record, made when it is its turn; a third less of it than by a loop of Python's."""
    count = len(fields) // FIELDS
    has_offset, has_own_time = base_offset >= 0, log_append_time < 0
    columns = zip(
        repeat(topic, count),
        repeat(partition, count),
        range(base_offset, base_offset + count) if has_offset else repeat(NO_OFFSET, count),
        fields[2::FIELDS] if has_own_time else repeat(log_append_time, count),
        _sizes(fields[1::FIELDS]),
        _sizes(fields[::FIELDS]),
        strict=True,
    )
    # A tuple's own `__new__`, as that of a named tuple is a call of Python's.
    return map(tuple.__new__, repeat(RecordMetadata), columns)


def _sizes(data: list[bytes | None]) -> Iterable[int]:
    if data[0] is None and data.count(None) == len(data):
        return repeat(-1, len(data))
    try:
        return [*map(len, data)]  # type: ignore[arg-type]
    except TypeError:
        return [-1 if entry is None else len(entry) for entry in data]


def tell_failed(
    topic: str,
    partition: int,
    fields: Fields,
    error: KafkaError,
    record_errors: Mapping[int, KafkaError],
    mark_reported: Callable[[int], None],
    interrupt: Interrupt,
) -> None:
    """The records have failed, with errors of their own where there are such."""
    exit_request: BaseException | None = None
    for index, (_, _, _, _, on_delivery) in enumerate(rows_of(fields)):
        if on_delivery is None:
            continue
        mark_reported(index)
        try:
            on_delivery(None, record_errors.get(index, error))
        except BaseException as raised:
            log_callback(topic, partition, raised)
            if not isinstance(raised, Exception):
                exit_request = exit_request or raised
    if exit_request is not None:
        interrupt(exit_request)


def log_callback(topic: str, partition: int, error: BaseException) -> None:
    """What a callback of the user's has raised; called where it is handled."""
    what = "failed" if isinstance(error, Exception) else "asked for the end"
    logger.exception("a delivery callback for %s-%d %s", topic, partition, what)
