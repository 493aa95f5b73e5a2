"""The transactional calls of `KafkaProducer`: declared, and refused until transactions are implemented.

Callers' threads.  The sequences and identity of the IO thread (sequences.py, identity.py) are where a
transaction manager will stand.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import NoReturn

from pykafka2.errors import IllegalState
from pykafka2.types import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition


class TransactionalCalls:
    """Mixed into the producer."""

    def init_transactions(self, timeout: float | None = None) -> None:
        """Register the transactional_id and end what an earlier producer with it left open.

        `timeout` is in seconds, here and below (default: max_block_ms).

        Raises:
            IllegalState: this version has no transactions yet.
        """
        self._no_transactions()

    def begin_transaction(self) -> None:
        """Start a transaction; what is sent from here on belongs to it.  Raises as `init_transactions`."""
        self._no_transactions()

    def send_offsets_to_transaction(
        self,
        offsets: dict[TopicPartition, OffsetAndMetadata],
        group_metadata: ConsumerGroupMetadata,
        timeout: float | None = None,
    ) -> None:
        """Commit a consumer's offsets with the transaction (KIP-447).  Raises as `init_transactions`."""
        self._no_transactions()

    def commit_transaction(self, timeout: float | None = None) -> None:
        """Make everything sent in the transaction visible at once.  Raises as `init_transactions`."""
        self._no_transactions()

    def abort_transaction(self, timeout: float | None = None) -> None:
        """Have readers skip everything sent in the transaction.  Raises as `init_transactions`."""
        self._no_transactions()

    def transaction(self) -> AbstractContextManager[None]:
        """`with producer.transaction():` commits, or aborts on an exception.  Raises as the others."""
        self._no_transactions()

    def _no_transactions(self) -> NoReturn:
        raise IllegalState(
            "transactions are not available yet; records are written once each, in order, by idempotence"
        )
