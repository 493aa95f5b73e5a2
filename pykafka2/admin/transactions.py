"""Transactions seen from outside (KIP-664)."""

from __future__ import annotations

from collections.abc import Iterable

from pykafka2.admin.outcomes import Outcomes
from pykafka2.admin.unavailable import not_yet
from pykafka2.admin.values import TransactionDescription, TransactionListing
from pykafka2.types import TopicPartition


class TransactionsAdmin:
    """The part of `KafkaAdminClient` that is about transactions.  Timeouts are seconds; thread-safe."""

    def list_transactions(
        self, *, states: Iterable[str] = (), producer_ids: Iterable[int] = (), timeout: float | None = None
    ) -> list[TransactionListing]:
        """All transactional ids of all coordinators, of the states and producer ids given (none: all).

        `states` are Kafka's words, such as "Ongoing", "PrepareCommit", "CompleteAbort".
        """
        not_yet("KafkaAdminClient.list_transactions")

    def describe_transactions(
        self, transactional_ids: Iterable[str], *, timeout: float | None = None, raise_errors: bool = True
    ) -> Outcomes[str, TransactionDescription]:
        """State, producer, timeout in seconds, start and partitions of each transactional id.

        Raises:
            ItemsFailed: some failed (unless `raise_errors` is False), with `TransactionalIdNotFound` where no
                coordinator knows the id.
        """
        not_yet("KafkaAdminClient.describe_transactions")

    def abort_transaction(
        self,
        partition: TopicPartition,
        producer_id: int,
        producer_epoch: int,
        *,
        timeout: float | None = None,
    ) -> None:
        """Write an abort marker for one partition: the way out for a hanging transaction."""
        not_yet("KafkaAdminClient.abort_transaction")

    def find_hanging_transactions(
        self, *, older_than: float = 900.0, timeout: float | None = None
    ) -> list[TransactionDescription]:
        """Transactions that are open in a log, but unknown to their coordinator, for so many seconds."""
        not_yet("KafkaAdminClient.find_hanging_transactions")
