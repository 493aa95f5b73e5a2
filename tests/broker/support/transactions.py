"""The bench of the transaction coordinator: requests in one line each, to a coordinator on one of two hosts.

`ShardTransactions` has a shard in memory, and logs of partitions: it is the broker, which carries markers to
the logs and reports the results. `ClusterTransactions` has a simulated cluster on the wire. Tests of both get
a `TransactionBench`. `Producer` sends the requests of a transactional client, to a cluster.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from pykafka2 import errors
from pykafka2.broker.coordinators.replay import Caller, Deferred, WriteMarkers
from pykafka2.broker.coordinators.replay import Producer as Identity
from pykafka2.broker.coordinators.runtime import ShardRuntime
from pykafka2.broker.coordinators.settings import TransactionSettings
from pykafka2.broker.coordinators.transactions.shard import TransactionShard
from pykafka2.broker.coordinators.transactions.state import Partition, Transaction
from pykafka2.broker.log.partition_log import EndMarker, PartitionLog
from pykafka2.clock import FOREVER
from pykafka2.errors import BrokerError
from pykafka2.protocol.messages.committed_offsets import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponsePartitions,
)
from pykafka2.protocol.messages.coordinator import FindCoordinatorRequest
from pykafka2.protocol.messages.fetch import PartitionData
from pykafka2.protocol.messages.produce import PartitionProduceResponse
from pykafka2.protocol.messages.transaction import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from pykafka2.protocol.struct import Request, Response
from pykafka2.records.batch import TRANSACTIONAL_FLAG
from pykafka2.records.decoder import decode_tuples
from pykafka2.testing.cluster import KafkaCluster
from pykafka2.testing.simulation import Simulation
from tests.broker.support.batches import NOW_MS, batch, in_transaction, view, visible
from tests.broker.support.data_requests import (
    TV1_PRODUCE,
    TV2_PRODUCE,
    data_of,
    fetch_request,
    partition_of,
    produce_request,
)
from tests.broker.support.memory_log import MemoryLog
from tests.broker.support.raw_client import RawClient

R = TypeVar("R", bound=Response)

A, B = ("t", 0), ("t", 1)
TOPICS = {"t": 2, "u": 2}


class TransactionBench:
    """Requests to the coordinator of transactional ids; `name` is the default one."""

    name = "tid"
    shard: TransactionShard

    def call(self, request: Request[R], version: int, name: str | None = None) -> R:
        """Return the response of a transactional id's coordinator."""
        raise NotImplementedError

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        raise NotImplementedError

    def try_write(self, producer: Identity, partition: Partition, value: bytes = b"x") -> int:
        """Write one transactional record. Return the error code."""
        raise NotImplementedError

    def write(self, producer: Identity, partition: Partition, value: bytes = b"x") -> None:
        assert self.try_write(producer, partition, value) == 0

    def hold_markers(self) -> None:
        """Delay markers until `finish`."""
        raise NotImplementedError

    def finish(self) -> None:
        """Let the markers of ended transactions be written."""
        raise NotImplementedError

    def committed_values(self, partition: Partition) -> list[bytes | None]:
        """Return the values that a read_committed consumer returns."""
        raise NotImplementedError

    def end_of_stable(self, partition: Partition) -> int:
        """Return the last stable offset."""
        raise NotImplementedError

    @property
    def transaction(self) -> Transaction:
        return self.shard.transactions[self.name]

    @property
    def state(self) -> str:
        return self.transaction.state.value

    def init(
        self,
        producer: Identity | None = None,
        *,
        name: str | None = None,
        timeout_ms: int = 60_000,
        version: int = 5,
    ) -> InitProducerIdResponse:
        request = InitProducerIdRequest(
            transactional_id=self.name if name is None else name,
            transaction_timeout_ms=timeout_ms,
            producer_id=producer.id if producer else -1,
            producer_epoch=producer.epoch if producer else -1,
        )
        return self.call(request, version, name)

    def begin(self, *, name: str | None = None, timeout_ms: int = 60_000) -> Identity:
        """Return a producer that can begin a transaction, once no older one is being ended."""
        for _ in range(100):
            response = self.init(name=name, timeout_ms=timeout_ms)
            if response.error_code == 0:
                return Identity(response.producer_id, response.producer_epoch)
            waits = (errors.ConcurrentTransactions.code, errors.CoordinatorLoadInProgress.code)
            assert response.error_code in waits, response
            self.advance(0.05)
        raise AssertionError(f"{name} could not begin")

    def try_add(
        self,
        producer: Identity,
        partitions: Iterable[Partition],
        *,
        name: str | None = None,
        version: int = 5,
        verify_only: bool = False,
    ) -> list[int]:
        """Send AddPartitionsToTxn. Return the error codes."""
        indexes: dict[str, list[int]] = defaultdict(list)
        for topic, index in partitions:
            indexes[topic].append(index)
        topics = [AddPartitionsToTxnTopic(name=topic, partitions=found) for topic, found in indexes.items()]
        transactional_id = self.name if name is None else name
        if version >= 4:
            one = AddPartitionsToTxnTransaction(
                transactional_id=transactional_id,
                producer_id=producer.id,
                producer_epoch=producer.epoch,
                verify_only=verify_only,
                topics=topics,
            )
            response = self.call(AddPartitionsToTxnRequest(transactions=[one]), version, name)
            results = response.results_by_transaction[0].topic_results
        else:
            request = AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=transactional_id,
                v3_and_below_producer_id=producer.id,
                v3_and_below_producer_epoch=producer.epoch,
                v3_and_below_topics=topics,
            )
            results = self.call(request, version, name).results_by_topic_v3_and_below
        return [one.partition_error_code for topic in results for one in topic.results_by_partition]

    def add(self, producer: Identity, partitions: Iterable[Partition] = (A,), **options: Any) -> set[int]:
        return set(self.try_add(producer, partitions, **options))

    def add_offsets(
        self, producer: Identity, group_id: str = "group", *, name: str | None = None, version: int = 4
    ) -> int:
        request = AddOffsetsToTxnRequest(
            transactional_id=self.name if name is None else name,
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            group_id=group_id,
        )
        return self.call(request, version, name).error_code

    def end(
        self, producer: Identity, *, committed: bool = True, name: str | None = None, version: int = 5
    ) -> EndTxnResponse:
        return self.call(self.end_request(producer, committed=committed, name=name), version, name)

    def end_request(
        self, producer: Identity, *, committed: bool = True, name: str | None = None
    ) -> EndTxnRequest:
        return EndTxnRequest(
            transactional_id=self.name if name is None else name,
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            committed=committed,
        )


class ShardTransactions(TransactionBench):
    """A shard in memory with the logs of partitions; `now` moves by `advance` only."""

    def __init__(self, **settings: Any) -> None:
        self.settings = TransactionSettings(**settings)
        self.now = 0.0
        self.next_producer_id = 1000
        self.coordinator_epoch = 0
        self.log = MemoryLog()
        self.logs: dict[Partition, PartitionLog] = {}
        self.start()

    def start(self) -> None:
        """Start a coordinator that loads the log."""
        self.coordinator_epoch += 1
        self.shard = TransactionShard(
            self.settings, self.coordinator_epoch, self.wall_ms, self.new_producer_id, 50
        )
        self.runtime = ShardRuntime(self.shard, self.log)
        self.runtime.load(self.log.entries, len(self.log.entries), self.now)

    def reload(self, *, keep_uncommitted: bool = True) -> None:
        """Crash the coordinator, and have another one load the log."""
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

    def advance(self, seconds: float) -> None:
        """Let each timer run at its own time; markers stay orders."""
        end = self.now + seconds
        while (due := self.runtime.poll(self.now)) <= end and due != FOREVER:
            self.now = max(self.now, due)
            self.runtime.poll(self.now)
        self.now = end
        self.runtime.poll(self.now)

    def send(self, request: Request[R], version: int) -> Deferred[R]:
        """Submit a request as a broker decodes it."""
        deferred = Deferred(type(request).decode(request.encode(version), version), version)
        self.runtime.submit(Caller(version), deferred, self.now)
        return deferred

    def call(self, request: Request[R], version: int, name: str | None = None) -> R:
        response = self.send(request, version).response
        assert response is not None, "the response waits for the high watermark"
        return response

    def partition(self, partition: Partition) -> PartitionLog:
        if partition not in self.logs:
            self.logs[partition] = PartitionLog(*partition, bytes(16))
        return self.logs[partition]

    def try_write(self, producer: Identity, partition: Partition, value: bytes = b"x") -> int:
        """Append a transactional batch without a sequence number."""
        data = batch(
            [value],
            attributes=TRANSACTIONAL_FLAG,
            producer_id=producer.id,
            producer_epoch=producer.epoch,
        )
        log = self.partition(partition)
        try:
            log.append_as_leader(view(data), 0, from_client=False)
        except BrokerError as error:
            return error.code or 0
        log.advance_high_watermark(log.log_end_offset)
        return 0

    def orders(self) -> list[WriteMarkers]:
        """Return the markers that the broker must write, each order once."""
        orders = list(self.runtime.actions)
        self.runtime.actions.clear()
        return orders

    def mark(self, order: WriteMarkers, partition: Partition) -> int:
        """Write one marker. Return the error code of the partition's leader."""
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

    def ended(self, *partitions: Partition) -> tuple[Identity, WriteMarkers]:
        """Commit a transaction with these partitions. Return its producer and the order of its markers."""
        producer = self.begin()
        self.add(producer, partitions)
        self.end(producer)
        (order,) = self.orders()
        return producer, order

    def hold_markers(self) -> None:
        pass  # none is written before `finish`

    def finish(self) -> None:
        for order in self.orders():
            for partition in sorted(order.partitions):
                self.report(order, partition, self.mark(order, partition))

    def committed_values(self, partition: Partition) -> list[bytes | None]:
        log = self.partition(partition)
        end = log.last_stable_offset
        aborted = log.aborted_transactions(0, end)
        return [
            value
            for one in log.batches(0)
            if one.base_offset < end and not one.is_control
            for offset, _, _, value, _ in decode_tuples(one, "test", False)
            if not any(
                entry.producer_id == one.producer_id and entry.first_offset <= offset <= entry.last_offset
                for entry in aborted
            )
        ]

    def end_of_stable(self, partition: Partition) -> int:
        return self.partition(partition).last_stable_offset


class ClusterTransactions(TransactionBench):
    """A simulated cluster, with a connection to each of its brokers."""

    def __init__(
        self,
        simulation: Simulation,
        brokers: int = 3,
        *,
        transaction_version: int = 2,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        self.simulation = simulation
        self.cluster: KafkaCluster = simulation.cluster(
            brokers=brokers,
            topics=TOPICS,
            config=dict(config or {}),
            features={"transaction.version": transaction_version},
        )
        self.version = transaction_version
        self._wires: dict[int, RawClient] = {}
        self._sequences: dict[tuple[Identity, Partition], int] = defaultdict(int)

    def call_broker(self, broker: int, request: Request[R], version: int) -> R:
        """Send a request to a broker, over a new connection if the old one is closed."""
        for is_last in (False, True):
            wire = self._wires.get(broker)
            try:
                if wire is None:
                    address = self.cluster.brokers[broker].address
                    wire = self._wires[broker] = RawClient(address, simulation=self.simulation)
                return wire.call(request, version)
            except ConnectionError:
                self._wires.pop(broker).close()
                if is_last:
                    raise
        raise AssertionError

    def call(self, request: Request[R], version: int, name: str | None = None) -> R:
        return self.call_broker(self.find(self.name if name is None else name), request, version)

    def find(self, key: str, kind: str = "transaction") -> int:
        """Return the coordinator's broker id, once there is one."""
        request = FindCoordinatorRequest(key_type=1 if kind == "transaction" else 0, coordinator_keys=[key])
        for _ in range(200):
            alive = next(broker.id for broker in self.cluster.brokers if broker.is_running)
            found = self.call_broker(alive, request, 4).coordinators[0]
            if not found.error_code:
                return found.node_id
            self.simulation.run_for(0.05)
        raise AssertionError(f"no coordinator of {key}")

    @property
    def shard(self) -> TransactionShard:  # type: ignore[override]
        shards = self.cluster.brokers[self.find(self.name)].coordinators.transactions.shards
        return next(one for one in shards.values() if self.name in one.transactions)

    @property
    def state(self) -> str:
        return self.state_of(self.name)

    def state_of(self, name: str) -> str:
        """Return the state in the coordinator's memory, or the name of the error instead."""
        try:
            return self.cluster.transaction(name).state
        except errors.BrokerError as error:
            return type(error).__name__

    def until(self, state: str, name: str = "tid") -> None:
        """Wait until a transactional id has this state."""
        assert self.simulation.wait_until(lambda: self.state_of(name) == state, 60), (
            f"{name} is in {self.state_of(name)}, not {state}"
        )

    def advance(self, seconds: float) -> None:
        self.simulation.run_for(seconds)

    def hold_markers(self) -> None:
        self.cluster.controls.pause_followers(A)

    def finish(self) -> None:
        self.cluster.controls.resume_followers()
        assert self.simulation.wait_until(lambda: self.state.startswith("Complete"), 60), self.state

    def leader(self, topic: str = "t", partition: int = 0) -> int:
        return self.cluster.partition(topic, partition).leader

    def try_write(self, producer: Identity, partition: Partition, value: bytes = b"x") -> int:
        sequence = self._sequences[producer, partition]
        records = in_transaction([value], producer.id, producer.epoch, sequence)
        request = produce_request(*partition, records, transactional_id=self.name)
        version = TV2_PRODUCE if self.version >= 2 else TV1_PRODUCE
        code = partition_of(self.call_broker(self.leader(*partition), request, version)).error_code
        self._sequences[producer, partition] += not code
        return code

    def read(self, topic: str = "t", partition: int = 0, *, committed: bool = True) -> PartitionData:
        request = fetch_request(topic, partition, committed=committed)
        return data_of(self.call_broker(self.leader(topic, partition), request, 12))

    def values(self, topic: str = "t", partition: int = 0) -> list[bytes | None]:
        """Return the values that a read_committed consumer returns."""
        return visible(self.read(topic, partition))

    def committed_values(self, partition: Partition) -> list[bytes | None]:
        return self.values(*partition)

    def end_of_stable(self, partition: Partition) -> int:
        return self.read(*partition).last_stable_offset

    def offset(
        self, group: str, topic: str = "t", partition: int = 0, *, stable: bool = True
    ) -> OffsetFetchResponsePartitions:
        """Return a group's committed offset, with `require_stable`."""
        places = OffsetFetchRequestGroup(
            group_id=group, topics=[OffsetFetchRequestTopics(name=topic, partition_indexes=[partition])]
        )
        request = OffsetFetchRequest(groups=[places], require_stable=stable)
        response = self.call_broker(self.find(group, "group"), request, 9).groups[0]
        assert response.error_code == 0
        return response.topics[0].partitions[0]


class Producer:
    """A transactional producer with the requests of a client of the cluster's transaction.version."""

    def __init__(self, world: ClusterTransactions, name: str = "tid", version: int | None = None) -> None:
        self.world = world
        self.name = name
        self.version = world.version if version is None else version
        self.id, self.epoch = -1, -1
        self.sequences: dict[Partition, int] = {}

    @property
    def identity(self) -> Identity:
        return Identity(self.id, self.epoch)

    @property
    def adds_by_producing(self) -> bool:
        return self.version >= 2

    def call(self, request: Request[R], version: int) -> R:
        return self.world.call(request, version, self.name)

    def init(self, timeout_ms: int = 60_000, *, keeps_id: bool = False) -> int:
        """Get an id, or with `keeps_id` a new epoch. Return the error code."""
        response = self.try_init(timeout_ms, keeps_id=keeps_id)
        if not response.error_code:
            self.take(response.producer_id, response.producer_epoch)
        return response.error_code

    def try_init(
        self, timeout_ms: int = 60_000, *, keeps_id: bool = False, version: int = 5
    ) -> InitProducerIdResponse:
        identity = self.identity if keeps_id else None
        return self.world.init(identity, name=self.name, timeout_ms=timeout_ms, version=version)

    def begin(self, timeout_ms: int = 60_000) -> Producer:
        """Call `init` until no older transaction is being ended."""
        identity = self.world.begin(name=self.name, timeout_ms=timeout_ms)
        self.take(identity.id, identity.epoch)
        return self

    def take(self, producer_id: int, epoch: int) -> None:
        if (producer_id, epoch) != (self.id, self.epoch):
            self.sequences.clear()
        self.id, self.epoch = producer_id, epoch

    def add(self, *places: Partition, version: int = 3) -> list[int]:
        return self.world.try_add(self.identity, places, name=self.name, version=version)

    def write(
        self, values: Sequence[bytes], topic: str = "t", partition: int = 0, version: int | None = None
    ) -> PartitionProduceResponse:
        """Produce one batch."""
        place = (topic, partition)
        sequence = self.sequences.get(place, 0)
        records = in_transaction(values, self.id, self.epoch, sequence)
        request = produce_request(topic, partition, records, transactional_id=self.name)
        usual = TV2_PRODUCE if self.adds_by_producing else TV1_PRODUCE
        leader = self.world.leader(*place)
        response = partition_of(self.world.call_broker(leader, request, version or usual))
        if not response.error_code:
            self.sequences[place] = sequence + len(values)
        return response

    def send(self, value: bytes, topic: str = "t", partition: int = 0) -> None:
        """Write one record as a client does; an old one adds the partition first."""
        if not self.adds_by_producing:
            for _ in range(100):
                codes = self.add((topic, partition))
                if codes != [errors.ConcurrentTransactions.code]:
                    break
                self.world.advance(0.02)
            assert codes == [0]
        response = self.write([value], topic, partition)
        assert response.error_code == 0, errors.for_code(response.error_code)

    def try_end(self, *, committed: bool, version: int | None = None) -> EndTxnResponse:
        usual = 5 if self.adds_by_producing else 4
        return self.world.end(self.identity, committed=committed, name=self.name, version=version or usual)

    def end(self, *, committed: bool = True) -> int:
        """Commit or abort, and take the id and epoch of the response. Return the error code."""
        response = self.try_end(committed=committed)
        if not response.error_code and self.adds_by_producing:
            self.take(response.producer_id, response.producer_epoch)
        return response.error_code

    def add_offsets(self, group: str) -> int:
        return self.world.add_offsets(self.identity, group, name=self.name)

    def commit_offset(
        self,
        group: str,
        offset: int,
        *,
        version: int | None = None,
        generation: int = -1,
        member: str = "",
        topic: str = "t",
        partition: int = 0,
    ) -> int:
        """Send TxnOffsetCommit for one partition. Return its error code."""
        places = {topic: [partition]}
        (result,) = self.commit_offsets(
            group, offset, places, version=version, generation=generation, member=member
        )
        return result[1][0]

    def commit_offsets(
        self,
        group: str,
        offset: int,
        places: Mapping[str, Sequence[int]],
        *,
        version: int | None = None,
        generation: int = -1,
        member: str = "",
        to: int | None = None,
    ) -> list[tuple[str, list[int]]]:
        """Send TxnOffsetCommit, `to` a broker or to the coordinator. Return topics with error codes."""
        topics = [
            TxnOffsetCommitRequestTopic(
                name=name,
                partitions=[
                    TxnOffsetCommitRequestPartition(
                        partition_index=number, committed_offset=offset, committed_metadata=""
                    )
                    for number in numbers
                ],
            )
            for name, numbers in places.items()
        ]
        request = TxnOffsetCommitRequest(
            transactional_id=self.name,
            group_id=group,
            producer_id=self.id,
            producer_epoch=self.epoch,
            generation_id_or_member_epoch=generation,
            member_id=member,
            topics=topics,
        )
        usual = 5 if self.adds_by_producing else 4
        coordinator = self.world.find(group, "group") if to is None else to
        response = self.world.call_broker(coordinator, request, version or usual)
        return [(topic.name, [one.error_code for one in topic.partitions]) for topic in response.topics]
