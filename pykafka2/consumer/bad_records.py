"""Handles records that cannot be read, according to the option `on_bad_record`.

Used on the caller's thread, inside poll(), by poll/collector.py (records that a deserializer rejects) and
poll/errors.py (damaged batches).
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from typing import Any

from pykafka2.errors import SerializationError
from pykafka2.hooks import Hooks
from pykafka2.option_fields import AWAITED_BY_AIO, Because, is_async
from pykafka2.text import brief, type_of
from pykafka2.types import BadRecord, ConsumerRecord, TopicPartition

logger = logging.getLogger(__name__)

NOT_AWAITED_RESULT = (
    "it returned {kind}, which this consumer does not await, so the record is not skipped. Wait in the "
    "function, such as by `delivery.result(timeout=10)`, or use the consumer of pykafka2.aio"
)

RAISE = "raise"
SKIP = "skip"


def read_policy(value: Any) -> Any:
    """Return the value of the option: 'raise', 'skip' or a callable."""
    if callable(value) and not isinstance(value, type):
        if is_async(value):  # records would be skipped although its coroutine never ran
            raise Because(AWAITED_BY_AIO)
        return value
    if not isinstance(value, str) or value.lower() not in (RAISE, SKIP):
        raise ValueError
    return value.lower()


class HandlerRunning(SerializationError):
    """The coroutine of on_bad_record is running; the asyncio consumer repeats the pass when it has ended."""


class BadRecords:
    """Raises or skips bad records, or passes them to the application's callable."""

    def __init__(self, policy: str | Callable[[BadRecord], Any], interceptors: Hooks) -> None:
        self._policy = policy
        self._interceptors = interceptors
        self._seen: dict[TopicPartition, tuple[int, int]] = {}
        """Generation and offset of the damaged batch that is fetched a second time, by partition."""
        self.skipped = 0
        """The total number of records that were skipped or passed to the callable."""

    @property
    def raises(self) -> bool:
        return self._policy == RAISE

    @property
    def is_of_interest(self) -> bool:
        """Whether a damaged batch can be skipped, or an interceptor sees it."""
        return not self.raises or self._interceptors.has("on_bad_record")

    @property
    def wants_batch(self) -> bool:
        """Whether the policy needs the bytes of a damaged batch."""
        return callable(self._policy)

    def is_repeated(self, bad: BadRecord, generation: int) -> bool:
        """Return whether the batch failed before.

        It is fetched again after the first failure, because it can be damaged on its way.
        """
        partition = bad.topic_partition
        if self._seen.get(partition) == (generation, bad.offset):
            del self._seen[partition]
            return True
        self._seen[partition] = (generation, bad.offset)
        return False

    def refused(self, bad: BadRecord) -> None:
        """Report a damaged batch that is not skipped to the interceptors."""
        self._interceptors.call("on_bad_record", bad, False)

    def skip(self, bad: BadRecord) -> None:
        """Skip the record; raise an exception if the policy does not allow it. Report it to interceptors.

        Raises:
            KafkaError: `bad.error`, with the policy 'raise'.
            SerializationError: the application's callable raised an exception, which is the cause.
        """
        try:
            self._decide(bad)
        except HandlerRunning:
            raise
        except Exception:
            self._interceptors.call("on_bad_record", bad, False)
            raise
        self._interceptors.call("on_bad_record", bad, True)
        self.skipped += 1

    def _decide(self, bad: BadRecord) -> None:
        """Return if the record is skipped.

        Raises:
            KafkaError: `bad.error`, with the policy 'raise'.
            SerializationError: the application's callable raised an exception, which is the cause.
        """
        policy = self._policy
        if callable(policy):
            try:
                result = policy(bad)
                if inspect.isawaitable(result):
                    _close(result)
                    raise TypeError(NOT_AWAITED_RESULT.format(kind=type_of(result)))
            except HandlerRunning:
                raise
            except Exception as error:
                where = f"{bad.topic_partition} at offset {bad.offset}"
                raise SerializationError(
                    f"{where}: on_bad_record failed: {brief(error)}; it was called because of: {bad.error}"
                ) from error
        elif policy == SKIP:
            upto = f" (up to offset {bad.next_offset - 1})" if bad.next_offset - bad.offset > 1 else ""
            logger.warning("skipped%s: %s", upto, bad.error)
        else:
            raise bad.error


def undeserialized(
    record: ConsumerRecord[Any, Any], key: bytes | None, part: str, error: Exception, advice: str = ""
) -> BadRecord:
    """Return the bad record after its key_deserializer or value_deserializer failed; `key` is the raw key."""
    where = f"{record.topic}-{record.partition} at offset {record.offset}"
    failure = SerializationError(f"{where}: the {part}_deserializer failed: {brief(error)}{advice}")
    failure.__cause__ = error
    return BadRecord(
        record.topic,
        record.partition,
        record.offset,
        record.offset + 1,
        failure,
        timestamp=record.timestamp,
        key=key,
        value=record.value,
        headers=record.headers,
    )


def _close(result: object) -> None:
    """Close a coroutine, so that Python does not warn that it was never awaited."""
    if inspect.iscoroutine(result):
        result.close()
