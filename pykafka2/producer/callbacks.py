"""Calls the `on_delivery` of each record of a batch, in order, with a metadata made for it alone.

The IO thread.  What a callback raises is logged and keeps none of the others from being called; what is no
`Exception`, as from `sys.exit()`, goes on to a thread of the user's at the end.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from pykafka2.errors import KafkaError
from pykafka2.producer.fields import Fields, rows_of
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
    new = tuple.__new__
    exit_request: BaseException | None = None
    offset, step = (base_offset - 1, 1) if base_offset >= 0 else (NO_OFFSET, 0)
    for value, key, timestamp, _, on_delivery in rows_of(fields):
        offset += step
        if on_delivery is None:
            continue
        try:
            on_delivery(
                new(
                    RecordMetadata,
                    (
                        topic,
                        partition,
                        offset,
                        timestamp if log_append_time < 0 else log_append_time,
                        -1 if key is None else len(key),
                        -1 if value is None else len(value),
                    ),
                ),
                None,
            )
        except BaseException as error:
            log_callback(topic, partition, error)
            if not isinstance(error, Exception):
                exit_request = exit_request or error
    if exit_request is not None:
        interrupt(exit_request)


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
