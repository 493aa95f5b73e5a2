"""The transaction coordinator of a broker, for the partitions of __transaction_state that it leads.

service.py has the common parts of both coordinators; coordinators.py reports elections, topics and time, and
marker_sender.py sends the markers and reports their results.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from pykafka2.broker.base.patterns import compile_pattern
from pykafka2.broker.coordinators.internal_topics import partition_for
from pykafka2.broker.coordinators.replay import (
    Caller,
    Deferred,
    WriteMarkers,
)
from pykafka2.broker.coordinators.runtime import CoordinatorService, ShardLog, Split
from pykafka2.broker.coordinators.settings import Topics, TransactionSettings
from pykafka2.broker.coordinators.transactions.describing import matching_ids
from pykafka2.broker.coordinators.transactions.partitions import FIRST_ADD_PARTITIONS_WITH_TRANSACTIONS
from pykafka2.broker.coordinators.transactions.shard import TransactionShard
from pykafka2.errors import InvalidRegularExpression
from pykafka2.protocol.messages import (
    transaction,
    transaction_admin,
)
from pykafka2.protocol.struct import Request


class TransactionCoordinator(CoordinatorService[TransactionShard]):
    """Transactions. `new_producer_id` returns an id from the controller's blocks."""

    def __init__(
        self,
        settings: TransactionSettings,
        partitions: int,
        wall_ms: Callable[[float], int],
        new_producer_id: Callable[[], int],
        offsets_partitions: int = 50,
    ) -> None:
        super().__init__(partitions, settings.append_timeout)
        self.settings = settings
        self._wall_ms = wall_ms
        self._new_producer_id = new_producer_id
        self._offsets_partitions = offsets_partitions
        self._topics: Topics | None = None

    def elect(self, partition: int, leader_epoch: int, log: ShardLog) -> None:
        """Create the shard of a partition that this broker leads in this epoch; `load` follows."""
        shard = TransactionShard(
            self.settings, leader_epoch, self._wall_ms, self._new_producer_id, self._offsets_partitions
        )
        if self._topics is not None:
            shard.topics = self._topics
        self.begin(partition, shard, log)

    def on_topics(self, topics: Topics) -> None:
        """Apply a change of the cluster's topics."""
        self._topics = topics
        for shard in self.shards.values():
            shard.topics = topics

    def use_version(self, transaction_version: int) -> None:
        """Apply the finalized feature transaction.version, which can change while transactions are open."""
        if transaction_version != self.settings.transaction_version:
            self.settings = attrs.evolve(self.settings, transaction_version=transaction_version)
            for shard in self.shards.values():
                shard.settings = self.settings

    def take_markers(self) -> list[WriteMarkers]:
        """Return the markers to write, each of them once; `marker_written` reports the results."""
        taken: list[WriteMarkers] = []
        for runtime in self.runtimes.values():
            taken += runtime.actions
            runtime.actions.clear()
        return taken

    def marker_written(self, markers: WriteMarkers, place: tuple[str, int], code: int, now: float) -> None:
        """Record a leader's result for a marker: 0 or an error code; failed markers are retried."""
        partition = partition_for(markers.transactional_id, self.partitions)
        shard = self.shards.get(partition)
        if shard is not None:
            runtime = self.runtimes[partition]
            runtime.carry_out(shard.marker_written(markers, place, code, now), now)
            self.note_activity(runtime)

    def submit(self, caller: Caller, request: Request[Any], now: float) -> Deferred[Any]:
        if isinstance(request, transaction_admin.ListTransactionsRequest):
            return self._list(caller, request, now)
        if isinstance(request, transaction.InitProducerIdRequest) and request.transactional_id is None:
            # An idempotent producer without transactions: any broker serves it.
            deferred: Deferred[Any] = Deferred(request, caller.version)
            producer_id = self._new_producer_id()
            response = transaction.InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)
            deferred.complete(response)
            return deferred
        return super().submit(caller, request, now)

    def _list(
        self, caller: Caller, request: transaction_admin.ListTransactionsRequest, now: float
    ) -> Deferred[Any]:
        """List the transactions of all partitions; the pattern is matched here, once for all of them."""
        if not request.transactional_id_pattern:
            return self.submit_to_all(caller, request, now)
        deferred: Deferred[Any] = Deferred(request, caller.version)

        def complete(listed: transaction_admin.ListTransactionsResponse) -> None:
            try:
                deferred.complete(matching_ids(listed, pattern))
            except InvalidRegularExpression as error:
                deferred.refuse(error.code, str(error))

        try:
            pattern = compile_pattern(request.transactional_id_pattern)
        except InvalidRegularExpression as error:
            deferred.refuse(error.code, str(error))
        else:
            self.submit_to_all(caller, request, now).then(complete)
        return deferred

    def key_of(self, request: Request[Any]) -> str:
        if isinstance(request, transaction.AddPartitionsToTxnRequest):
            return request.v3_and_below_transactional_id
        return request.transactional_id  # type: ignore[attr-defined,no-any-return]

    def split(self, request: Request[Any], version: int) -> Split | None:
        if isinstance(request, transaction_admin.DescribeTransactionsRequest):
            return [
                (name, transaction_admin.DescribeTransactionsRequest(transactional_ids=[name]))
                for name in request.transactional_ids
            ]
        if (
            isinstance(request, transaction.AddPartitionsToTxnRequest)
            and version >= FIRST_ADD_PARTITIONS_WITH_TRANSACTIONS
        ):
            return [
                (entry.transactional_id, transaction.AddPartitionsToTxnRequest(transactions=[entry]))
                for entry in request.transactions
            ]
        return None
