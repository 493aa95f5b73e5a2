"""The asyncio producer's signature.  Its behaviour comes with the asyncio facade (design section 1).

What may wait is a coroutine; what only reads the producer's own state is not.  tests/typing holds it against
`pykafka2.KafkaProducer`, name by name and parameter by parameter.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Protocol, Self

from pykafka2.types import (
    ConsumerGroupMetadata,
    Headers,
    OffsetAndMetadata,
    PartitionInfo,
    RecordMetadata,
    TopicPartition,
)

if TYPE_CHECKING:
    from pykafka2.producer.delivery import OnDelivery


class KafkaProducer(Protocol):
    """`pykafka2.KafkaProducer` on the event loop: same options, names, parameters and errors.

    Belongs to the loop that is running when it is entered; using it from another loop raises
    `IllegalState`.  Cancelling any of its awaits loses no record: a record that was appended is sent.
    """

    async def __aenter__(self) -> Self:
        """Belong to the running loop.  Nothing is connected to yet."""
        ...

    async def __aexit__(self, *exception: object) -> None:
        """Flush and close; raises what could not be delivered."""
        ...

    # ------------------------------------------------------------------ sending

    async def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        headers: Headers | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> Awaitable[RecordMetadata]:
        """Append a record to its partition's batch and return its delivery, which may be awaited.

        Waits at most max_block_ms: for the topic's metadata at first, and while buffer_memory is full.

        Args:
            value, key: bytes, or what value_serializer and key_serializer take; None is a null.
            headers: pairs of a name and bytes (or None).
            partition: chosen by the partitioner where None.
            timestamp_ms: milliseconds since the epoch; now where None.
            on_delivery: called once on the loop as on_delivery(metadata, error), one of them None.

        Raises (nothing was appended then):
            SerializationError: a serializer failed, or there is none and it is not bytes.
            RecordTooLarge: beyond max_request_size or buffer_memory.
            BufferExhausted: no room within max_block_ms.
            UnknownTopicOrPartition, TopicAuthorizationFailed, NoBrokersAvailable, KafkaTimeoutError: no
                metadata of the topic within max_block_ms.
            ClientClosed, ForkedClientError: this producer is closed, or belongs to the parent process.
        """
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
        """Append columns of records of the same length; what is said of `send` holds for each.

        Awaiting what it returns gives all outcomes, in order, or raises the first failure.  An error of the
        call itself says in a note how many records were appended before it.
        """
        ...

    async def flush(self, timeout: float | None = None) -> None:
        """Send everything appended so far, and wait until every record's outcome is known.

        `timeout` is in seconds; None waits for as long as it takes, which delivery_timeout_ms bounds.

        Raises:
            KafkaError: records failed since the last flush and nobody was told.
            KafkaTimeoutError: records remain after `timeout`; they stay on their way.
            ClientClosed: the producer is closed.
        """
        ...

    async def partitions_for(self, topic: str) -> list[PartitionInfo]:
        """The topic's partitions, by number; waits at most max_block_ms and raises as `send` does."""
        ...

    # ------------------------------------------------------------------ transactions

    async def init_transactions(self, timeout: float | None = None) -> None:
        """Register the transactional_id and end what an earlier producer with it left open.

        `timeout` is in seconds, here and below (default: max_block_ms).

        Raises:
            IllegalState: this version has no transactions yet.
        """
        ...

    async def begin_transaction(self) -> None:
        """Start a transaction; what is sent from here on belongs to it.  Raises as `init_transactions`."""
        ...

    async def send_offsets_to_transaction(
        self,
        offsets: dict[TopicPartition, OffsetAndMetadata],
        group_metadata: ConsumerGroupMetadata,
        timeout: float | None = None,
    ) -> None:
        """Commit a consumer's offsets with the transaction (KIP-447).  Raises as `init_transactions`."""
        ...

    async def commit_transaction(self, timeout: float | None = None) -> None:
        """Make everything sent in the transaction visible at once.  Raises as `init_transactions`."""
        ...

    async def abort_transaction(self, timeout: float | None = None) -> None:
        """Have readers skip everything sent in the transaction.  Raises as `init_transactions`."""
        ...

    def transaction(self) -> AbstractAsyncContextManager[None]:
        """`async with producer.transaction():` commits, or aborts on an exception (cancelling included)."""
        ...

    # ------------------------------------------------------------------ looking at it, and the end

    def metrics(self) -> dict[str, float]:
        """Kafka's producer metrics by name, as plain numbers: totals since the start, and current values."""
        ...

    def health(self) -> dict[str, Any]:
        """What the producer is doing, as data: state, waiting records, memory, metadata, identity."""
        ...

    def explain(self) -> str:
        """What the producer is waiting for, in words."""
        ...

    async def close(self, timeout: float | None = None) -> None:
        """Send what is left, then end the connections.  Safe to repeat.

        `timeout` is in seconds; None waits until every record's outcome is known (delivery_timeout_ms bounds
        it).  The producer is closed whatever is raised.

        Raises:
            KafkaTimeoutError: records remained after `timeout`; they failed with `ClientClosed`.
            KafkaError: records failed and nobody was told (see `flush`).
        """
        ...
