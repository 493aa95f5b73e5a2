"""Interceptors: user code that sees returned records and committed offsets, for example for tracing.

Used on the caller's thread: `on_consume` inside `poll` and iteration, after the deserializers; `on_commit`
with the callbacks of commits. An exception of an interceptor is logged, and the call continues.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from pykafka2.text import type_of
from pykafka2.types import ConsumerRecord, OffsetAndMetadata, TopicPartition

logger = logging.getLogger(__name__)

Records = dict[TopicPartition, list[ConsumerRecord[Any, Any]]]
"""The records that a call returns, by partition."""


class ConsumerInterceptor:
    """Base class for consumer interceptors; deriving from it is optional."""

    def on_consume(self, records: Records) -> Records | None:
        """Called before records are returned; return these, changed or not, or others; None means these.

        Positions move past all of them.  After a Ctrl-C it can be called with the same records again. It is
        not called by `poll_columns` and `read_range`, which create no record objects.
        """
        return records

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Called after these offsets were committed."""

    def close(self) -> None:
        """Called when the consumer is closed."""


class Interceptors:
    """A chain of the user's objects; each can have `on_consume`, `on_commit` and `close`."""

    def __init__(self, chain: tuple[Any, ...]) -> None:
        self._chain = chain

    def __bool__(self) -> bool:
        return bool(self._chain)

    def on_consume(self, records: Records) -> Records:
        for interceptor in self._chain:
            if hasattr(interceptor, "on_consume"):
                try:
                    returned = interceptor.on_consume(records)
                except Exception:
                    logger.exception("on_consume of %r failed; the records stay unchanged", interceptor)
                    continue
                if isinstance(returned, dict):
                    records = {partition: kept for partition, kept in returned.items() if kept}
                elif returned is not None:
                    logger.error(
                        "on_consume of %r returned %s instead of a dict; the records stay unchanged",
                        interceptor,
                        type_of(returned),
                    )
        return records

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        for interceptor in self._chain:
            if hasattr(interceptor, "on_commit"):
                try:
                    interceptor.on_commit(offsets)
                except Exception:
                    logger.exception("on_commit of %r failed", interceptor)

    def close(self) -> None:
        """Close the interceptors; does nothing when called again."""
        chain, self._chain = self._chain, ()
        for interceptor in chain:
            if hasattr(interceptor, "close"):
                try:
                    interceptor.close()
                except Exception:
                    logger.exception("close of %r failed", interceptor)
