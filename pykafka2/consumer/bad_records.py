"""Handles records that cannot be read, according to the option `on_bad_record`.

Caller's thread, inside poll().  Records that a deserializer refuses are met in poll/collector.py, batches
that are damaged in poll/errors.py; both ask here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from pykafka2.errors import SerializationError
from pykafka2.option_fields import NOT_AWAITED, Because, is_async
from pykafka2.text import brief
from pykafka2.types import BadRecord, TopicPartition

logger = logging.getLogger(__name__)

RAISE = "raise"
SKIP = "skip"


def read_policy(value: Any) -> Any:
    """The option's value: one of two words, or a callable."""
    if callable(value) and not isinstance(value, type):
        if is_async(value):  # records would be passed over, and nobody have taken them
            raise Because(NOT_AWAITED)
        return value
    if not isinstance(value, str) or value.lower() not in (RAISE, SKIP):
        raise ValueError
    return value.lower()


class BadRecords:
    """Raises, passes over, or has the application take what is bad."""

    def __init__(self, policy: str | Callable[[BadRecord], Any]) -> None:
        self._policy = policy
        self._met: dict[TopicPartition, tuple[int, int]] = {}
        """Generation and offset of the damaged batch of each partition that is being read a second time."""
        self.passed_over = 0
        """How many were skipped or taken by the callable, ever."""

    @property
    def raises(self) -> bool:
        return self._policy == RAISE

    @property
    def wants_batch(self) -> bool:
        """Whether anybody looks at the bytes of a damaged batch."""
        return callable(self._policy)

    def is_met_again(self, bad: BadRecord, generation: int) -> bool:
        """False the first time: a batch may have been damaged on its way, and is read a second time."""
        partition = bad.topic_partition
        if self._met.get(partition) == (generation, bad.offset):
            del self._met[partition]
            return True
        self._met[partition] = (generation, bad.offset)
        return False

    def pass_over(self, bad: BadRecord) -> None:
        """Return where the record may be passed over.

        Raises:
            KafkaError: `bad.error`, by policy.
            SerializationError: the application's callable failed; its own error is the cause.
        """
        policy = self._policy
        if callable(policy):
            try:
                policy(bad)
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
        self.passed_over += 1
