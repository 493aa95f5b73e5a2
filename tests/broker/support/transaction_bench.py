"""A transaction coordinator on a table: its log, the logs of partitions, a clock that the test turns.

The bench is the broker: it carries markers to the partitions' logs and reports what they said.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from pykafka2.broker.coordinators.replay import Caller, Deferred, Producer, WriteMarkers
from pykafka2.broker.coordinators.runtime import ShardRuntime
from pykafka2.broker.coordinators.settings import TransactionSettings
from pykafka2.broker.coordinators.transactions.shard import TransactionShard
from pykafka2.broker.coordinators.transactions.state import Partition, Transaction
from pykafka2.broker.log.partition_log import Appended, EndMarker, PartitionLog
from pykafka2.clock import FOREVER
from pykafka2.errors import BrokerError
from pykafka2.protocol.messages.transaction import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from pykafka2.protocol.struct import Request, Response
from pykafka2.records.batch import TRANSACTIONAL_FLAG
from tests.broker.support.batches import NOW_MS, batch, view
from tests.broker.support.memory_log import MemoryLog

R = TypeVar("R", bound=Response)

A, B = ("t", 0), ("t", 1)


class Bench:
    """One shard of the transaction coordinator; `name` is the transactional id where none is said."""

    name = "mover"

    def __init__(self, **settings: Any) -> None:
        self.settings = TransactionSettings(**settings)
        self.now = 0.0
        self.next_producer_id = 1000
        self.coordinator_epoch = 0
        self.log = MemoryLog()
        self.logs: dict[Partition, PartitionLog] = {}
        self.start()

    # -- the coordinator's life ---------------------------------------------------------------------

    def start(self) -> None:
        """Elect and load."""
        self.coordinator_epoch += 1
        self.shard = TransactionShard(
            self.settings, self.coordinator_epoch, self.wall_ms, self.new_producer_id, 50
        )
        self.runtime = ShardRuntime(self.shard, self.log)
        self.runtime.load(self.log.entries, len(self.log.entries), self.now)

    def reload(self, *, keep_uncommitted: bool = True) -> None:
        """The coordinator dies; another one loads what the log has."""
        self.runtime.unload()
        if not keep_uncommitted:
            del self.log.entries[self.log.high_watermark :]
        self.start()

    def commit_all(self) -> None:
        self.log.commit_all()
        self.runtime.on_high_watermark(self.log.high_watermark)

    def wall_ms(self, now: float) -> int:
        return NOW_MS + round(now * 1000)

    def new_producer_id(self) -> int:
        self.next_producer_id += 1
        return self.next_producer_id

    def pass_time(self, seconds: float) -> None:
        """Everything that is due meanwhile happens at its time; markers are not carried out."""
        end = self.now + seconds
        while (due := self.runtime.poll(self.now)) <= end and due != FOREVER:
            self.now = max(self.now, due)
            self.runtime.poll(self.now)
        self.now = end
        self.runtime.poll(self.now)

    @property
    def transaction(self) -> Transaction:
        return self.shard.transactions[self.name]

    @property
    def state(self) -> str:
        return self.transaction.state.value

    # -- requests -----------------------------------------------------------------------------------

    def submit(self, request: Request[R], version: int) -> Deferred[R]:
        deferred = Deferred(request, version)
        self.runtime.submit(Caller(version), deferred, self.now)
        return deferred

    def ask(self, request: Request[R], version: int) -> R:
        response = self.submit(request, version).response
        assert response is not None, "the answer waits for the high watermark"
        return response

    def init(
        self,
        producer: Producer | None = None,
        *,
        name: str | None = None,
        timeout_ms: int = 60_000,
        version: int = 5,
    ) -> InitProducerIdResponse:
        return self.ask(
            InitProducerIdRequest(
                transactional_id=self.name if name is None else name,
                transaction_timeout_ms=timeout_ms,
                producer_id=producer.id if producer else -1,
                producer_epoch=producer.epoch if producer else -1,
            ),
            version,
        )

    def begin(self, *, name: str | None = None, timeout_ms: int = 60_000) -> Producer:
        """A producer that may begin."""
        response = self.init(name=name, timeout_ms=timeout_ms)
        assert response.error_code == 0
        return Producer(response.producer_id, response.producer_epoch)

    def add(
        self,
        producer: Producer,
        partitions: Iterable[Partition] = (A,),
        *,
        name: str | None = None,
        version: int = 5,
        verify_only: bool = False,
    ) -> set[int]:
        """The codes that came back."""
        topics = [AddPartitionsToTxnTopic(name=topic, partitions=[index]) for topic, index in partitions]
        name = self.name if name is None else name
        if version >= 4:
            one = AddPartitionsToTxnTransaction(
                transactional_id=name,
                producer_id=producer.id,
                producer_epoch=producer.epoch,
                verify_only=verify_only,
                topics=topics,
            )
            response = self.ask(AddPartitionsToTxnRequest(transactions=[one]), version)
            results = response.results_by_transaction[0].topic_results
        else:
            request = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=name,
                v3_and_below_producer_id=producer.id,
                v3_and_below_producer_epoch=producer.epoch,
                v3_and_below_topics=topics,
            )
            results = self.ask(request, version).results_by_topic_v3_and_below
        return {one.partition_error_code for topic in results for one in topic.results_by_partition}

    def add_offsets(self, producer: Producer, group_id: str = "group", *, version: int = 4) -> int:
        request = AddOffsetsToTxnRequest(
            transactional_id=self.name,
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            group_id=group_id,
        )
        return self.ask(request, version).error_code

    def end(
        self, producer: Producer, *, committed: bool = True, name: str | None = None, version: int = 5
    ) -> EndTxnResponse:
        request = EndTxnRequest(
            transactional_id=self.name if name is None else name,
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            committed=committed,
        )
        return self.ask(request, version)

    # -- partitions ---------------------------------------------------------------------------------

    def partition(self, partition: Partition) -> PartitionLog:
        if partition not in self.logs:
            self.logs[partition] = PartitionLog(*partition, bytes(16))
        return self.logs[partition]

    def write(self, producer: Producer, partition: Partition, value: bytes = b"x") -> Appended:
        """A transactional batch, its sequence left aside."""
        data = batch(
            [value],
            attributes=TRANSACTIONAL_FLAG,
            producer_id=producer.id,
            producer_epoch=producer.epoch,
        )
        log = self.partition(partition)
        appended = log.append_as_leader(view(data), 0, from_client=False)
        log.advance_high_watermark(log.log_end_offset)
        return appended

    def orders(self) -> list[WriteMarkers]:
        """The markers that the broker writes, each once."""
        orders = list(self.runtime.actions)
        self.runtime.actions.clear()
        return orders

    def mark(self, order: WriteMarkers, partition: Partition) -> int:
        """Write one marker; the code that the partition's leader gives."""
        log = self.partition(partition)
        marker = EndMarker(
            order.producer_id,
            order.producer_epoch,
            order.committed,
            order.coordinator_epoch,
            order.transaction_version,
        )
        try:
            log.append_marker(marker, 0, self.wall_ms(self.now))
        except BrokerError as error:
            return error.code or 0
        log.advance_high_watermark(log.log_end_offset)
        return 0

    def report(self, order: WriteMarkers, partition: Partition, code: int) -> None:
        self.runtime.carry_out(self.shard.marker_written(order, partition, code, self.now), self.now)

    def carry_out(self) -> None:
        """Write all markers that are ordered."""
        for order in self.orders():
            for partition in sorted(order.partitions):
                self.report(order, partition, self.mark(order, partition))

    def committed_values(self, partition: Partition) -> list[bytes]:
        """Return the values that a read_committed consumer reads."""
        from pykafka2.records.decoder import decode_tuples

        log = self.partition(partition)
        end = log.last_stable_offset
        aborted = log.aborted_transactions(0, end)
        return [
            value or b""
            for one in log.batches(0)
            if one.base_offset < end and not one.is_control
            for offset, _, _, value, _ in decode_tuples(one, "test", False)
            if not any(
                entry.producer_id == one.producer_id and entry.first_offset <= offset <= entry.last_offset
                for entry in aborted
            )
        ]
