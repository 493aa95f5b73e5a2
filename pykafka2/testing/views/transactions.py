"""Views of transactions: the present state of their coordinators, as plain values.

Read from the coordinator's memory, under the cluster's lock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from pykafka2.broker.coordinators.internal_topics import TRANSACTIONS_TOPIC
from pykafka2.errors import CoordinatorLoadInProgress, CoordinatorNotAvailable, TransactionalIdNotFound
from pykafka2.testing.running import Running
from pykafka2.testing.views.groups import coordinator_partition
from pykafka2.types import TopicPartition

# They load with the first request that needs a coordinator.
if TYPE_CHECKING:
    from pykafka2.broker.coordinators.transactions.service import TransactionCoordinator
    from pykafka2.broker.coordinators.transactions.state import Transaction


@attrs.define(frozen=True)
class TransactionView:
    """A transactional id; `state` is Kafka's name (Ongoing, PrepareCommit, CompleteAbort ...).

    `partitions` belong to the transaction that is open or ending; `started_ms` is its start by the wall
    clock, -1 without one.
    """

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    partitions: tuple[TopicPartition, ...]
    timeout: float
    """Seconds after which the coordinator aborts it."""
    started_ms: int
    coordinator: int
    """Id of its coordinator."""

    @property
    def is_open(self) -> bool:
        """Whether it has begun, and is not yet committed or aborted in all its partitions."""
        return self.state in ("Ongoing", "PrepareCommit", "PrepareAbort")


def transaction_view(running: Running, transactional_id: str) -> TransactionView:
    """Implement `ClusterApi.transaction`."""
    running.check()
    with running.lock:
        return _transaction(running, transactional_id)


def _transaction(running: Running, transactional_id: str) -> TransactionView:
    topic, partition = coordinator_partition(running, transactional_id, "transaction")
    leader = running.controllers.partition(topic, partition).leader
    transactions = _coordinator(running, leader)
    shard = None if transactions is None else transactions.shards.get(partition)
    if shard is None:
        raise CoordinatorNotAvailable(f"{topic}-{partition} has no coordinator now")
    if not running.broker(leader).coordinators.is_active((topic, partition)):
        raise CoordinatorLoadInProgress(f"broker {leader} loads {topic}-{partition}")
    transaction = shard.transactions.get(transactional_id)
    if transaction is None:
        raise TransactionalIdNotFound(f"Transactional id {transactional_id!r} does not exist")
    return _view(transaction, leader)


def transaction_views(running: Running) -> list[TransactionView]:
    """Return all transactional ids of all coordinators, by name."""
    running.check()
    found: list[TransactionView] = []
    with running.lock:
        if TRANSACTIONS_TOPIC in running.controllers.image.topics:
            for broker in running.brokers:
                transactions = _coordinator(running, broker.id)
                for shard in [] if transactions is None else transactions.shards.values():
                    found += [_view(one, broker.id) for one in shard.transactions.values()]
    return sorted(found, key=lambda view: view.transactional_id)


def _coordinator(running: Running, broker_id: int) -> TransactionCoordinator | None:
    """Return a broker's transaction coordinator, None if it does not run or never had a transaction."""
    if broker_id < 0 or not running.broker(broker_id).is_running:
        return None
    return running.broker(broker_id).coordinators.transactions_or_none


def _view(transaction: Transaction, leader: int) -> TransactionView:
    return TransactionView(
        transaction.id,
        transaction.state.value,
        transaction.producer_id,
        transaction.epoch,
        tuple(TopicPartition(*place) for place in sorted(transaction.partitions)),
        transaction.timeout_ms / 1000.0,
        transaction.started_ms,
        leader,
    )
