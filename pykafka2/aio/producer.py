"""The asyncio producer's signature.  Its behaviour comes with the asyncio facade (design section 1)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from pykafka2.errors import KafkaError
from pykafka2.types import (
    ConsumerGroupMetadata,
    Headers,
    OffsetAndMetadata,
    PartitionInfo,
    RecordMetadata,
    TopicPartition,
)


class KafkaProducer(Protocol):
    """`pykafka2.KafkaProducer` on the event loop: same options, names and promises.

    Belongs to the loop that is running when it is entered; using it from another loop raises
    `IllegalState`.  Cancelling any of its awaits loses no record: a record that was appended is sent.
    """

    async def __aenter__(self) -> KafkaProducer: ...

    async def __aexit__(self, *exception: object) -> None:
        """Flush and close; raises what could not be delivered."""
        ...

    async def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        headers: Headers | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        on_delivery: Callable[[RecordMetadata | None, KafkaError | None], None] | None = None,
    ) -> Awaitable[RecordMetadata]:
        """Wait for room in the buffer, append, and return an awaitable delivery."""
        ...

    async def send_many(
        self,
        topic: str,
        values: Sequence[Any],
        keys: Sequence[Any] | None = None,
        headers: Headers | None = None,
        partition: int | None = None,
        timestamps_ms: Sequence[int] | None = None,
    ) -> Awaitable[Sequence[RecordMetadata]]:
        """Append columns of records with one completion a batch."""
        ...

    async def flush(self, timeout: float | None = None) -> None:
        """Wait for everything sent so far; raises what failed or what remains after `timeout` seconds."""
        ...

    async def partitions_for(self, topic: str) -> list[PartitionInfo]: ...

    async def init_transactions(self, timeout: float | None = None) -> None: ...

    async def begin_transaction(self) -> None: ...

    async def send_offsets_to_transaction(
        self,
        offsets: dict[TopicPartition, OffsetAndMetadata],
        group_metadata: ConsumerGroupMetadata,
        timeout: float | None = None,
    ) -> None: ...

    async def commit_transaction(self, timeout: float | None = None) -> None: ...

    async def abort_transaction(self, timeout: float | None = None) -> None: ...

    def transaction(self) -> AbstractAsyncContextManager[None]:
        """`async with producer.transaction():` commits, or aborts on an exception."""
        ...

    async def close(self, timeout: float | None = None) -> None: ...

    def metrics(self) -> dict[str, float]: ...

    def health(self) -> Any: ...

    def explain(self) -> str: ...
