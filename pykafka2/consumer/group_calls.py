"""The calls of `KafkaConsumer` that need a consumer group: declared, and refused until there are groups.

Callers' threads.  Membership, heartbeats and commits will stand beside fetcher.py as managers of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from pykafka2.errors import NotYetAvailable
from pykafka2.types import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition

Offsets = Mapping[TopicPartition, OffsetAndMetadata]


class GroupCalls:
    """Mixed into the consumer."""

    def commit(self, offsets: Offsets | None = None, timeout_ms: int | None = None) -> None:
        """Commit offsets to the group (None: the positions), and wait until they are written.

        `timeout_ms` is in milliseconds (default: default_api_timeout_ms).

        Raises:
            NotYetAvailable: this version has no consumer groups yet.
        """
        self._no_groups("commit")

    def commit_sync(self, offsets: Offsets | None = None, timeout_ms: int | None = None) -> None:
        """As `commit`, by the Java client's name."""
        self._no_groups("commit_sync")

    def commit_async(
        self, offsets: Offsets | None = None, callback: Callable[..., Any] | None = None
    ) -> None:
        """Commit without waiting; `callback(offsets, error)` tells how it went.  Raises as `commit`."""
        self._no_groups("commit_async")

    def committed(
        self, partition: TopicPartition, metadata: bool = False, timeout_ms: int | None = None
    ) -> OffsetAndMetadata | None:
        """What the group has committed for a partition, or None.  Raises as `commit`."""
        self._no_groups("committed")

    def group_metadata(self) -> ConsumerGroupMetadata:
        """What a transactional producer must know of the membership (KIP-447).  Raises as `commit`."""
        self._no_groups("group_metadata")

    def enforce_rebalance(self) -> None:
        """Have the group share its partitions anew; the next `poll` does it.  Raises as `commit`."""
        self._no_groups("enforce_rebalance")

    def _no_groups(self, what: str) -> NoReturn:
        raise NotYetAvailable(
            f"{what}() needs a consumer group, and this version has none yet; "
            "keep position() yourself and come back to it with seek()"
        )
