"""Transactional producers and readers in virtual time, without retries, so tests see every error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from pykafka2 import errors
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
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from pykafka2.protocol.struct import Request, Response
from pykafka2.testing.cluster import KafkaCluster
from pykafka2.testing.simulation import Simulation
from tests.broker.support.batches import in_transaction, visible
from tests.broker.support.data_requests import (
    TV1_PRODUCE,
    TV2_PRODUCE,
    data_of,
    fetch_request,
    partition_of,
    produce_request,
)
from tests.broker.support.raw_client import RawClient

R = TypeVar("R", bound=Response)

TOPICS = {"t": 2, "u": 2}


class World:
    """A simulated cluster and a connection to each of its brokers."""

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

    def call(self, broker: int, request: Request[R], version: int) -> R:
        """Send a request to one broker, over a new connection if the old one was closed."""
        for is_last in (False, True):
            wire = self._wires.get(broker)
            try:
                if wire is None:
                    wire = self._wires[broker] = RawClient(
                        self.cluster.brokers[broker].address, simulation=self.simulation
                    )
                return wire.call(request, version)
            except ConnectionError:
                self._wires.pop(broker).close()
                if is_last:
                    raise
        raise AssertionError

    def find(self, key: str, kind: str = "transaction") -> int:
        """Return the coordinator, once one is elected."""
        request = FindCoordinatorRequest(key_type=1 if kind == "transaction" else 0, coordinator_keys=[key])
        for _ in range(200):
            alive = next(broker.id for broker in self.cluster.brokers if broker.is_running)
            found = self.call(alive, request, 4).coordinators[0]
            if not found.error_code:
                return found.node_id
            self.simulation.run_for(0.05)
        raise AssertionError(f"no coordinator of {key}")

    def leader(self, topic: str = "t", partition: int = 0) -> int:
        return self.cluster.partition(topic, partition).leader

    def read(self, topic: str = "t", partition: int = 0, *, committed: bool = True) -> PartitionData:
        request = fetch_request(topic, partition, committed=committed)
        return data_of(self.call(self.leader(topic, partition), request, 12))

    def values(self, topic: str = "t", partition: int = 0) -> list[bytes | None]:
        """Return the values that a read_committed consumer returns of a partition."""
        return visible(self.read(topic, partition))

    def offset(
        self, group: str, topic: str = "t", partition: int = 0, *, stable: bool = True
    ) -> OffsetFetchResponsePartitions:
        """Return a group's committed offset, with `require_stable`."""
        fetched = OffsetFetchRequestGroup(
            group_id=group, topics=[OffsetFetchRequestTopics(name=topic, partition_indexes=[partition])]
        )
        request = OffsetFetchRequest(groups=[fetched], require_stable=stable)
        response = self.call(self.find(group, "group"), request, 9).groups[0]
        assert response.error_code == 0
        return response.topics[0].partitions[0]

    def until(self, state: str, name: str = "tid") -> None:
        """Wait until a transactional id has this state."""
        assert self.simulation.wait_until(lambda: self.state(name) == state, 60), (
            f"{name} is in {self.state(name)}, not {state}"
        )

    def state(self, name: str = "tid") -> str:
        """Return the state at the coordinator, or the name of its error."""
        try:
            return self.cluster.transaction(name).state
        except errors.BrokerError as error:
            return type(error).__name__


class Producer:
    """One transactional producer with the requests of the cluster's transaction.version."""

    def __init__(self, world: World, name: str = "tid", version: int | None = None) -> None:
        self.world = world
        self.name = name
        self.version = world.version if version is None else version
        self.id, self.epoch = -1, -1
        self.sequences: dict[tuple[str, int], int] = {}

    @property
    def adds_by_producing(self) -> bool:
        return self.version >= 2

    def ask(self, request: Request[R], version: int) -> R:
        return self.world.call(self.world.find(self.name), request, version)

    def init(self, timeout_ms: int = 60_000, *, keeps_id: bool = False) -> int:
        """Initialize the producer, or bump its epoch with `keeps_id`; return the error code."""
        response = self.try_init(timeout_ms, keeps_id=keeps_id)
        if not response.error_code:
            self.take(response.producer_id, response.producer_epoch)
        return response.error_code

    def try_init(
        self, timeout_ms: int = 60_000, *, keeps_id: bool = False, version: int = 5
    ) -> InitProducerIdResponse:
        request = InitProducerIdRequest(transactional_id=self.name, transaction_timeout_ms=timeout_ms)
        if keeps_id:
            request.producer_id, request.producer_epoch = self.id, self.epoch
        return self.ask(request, version)

    def begin(self, timeout_ms: int = 60_000) -> Producer:
        """Repeat `init` until the older transaction has ended."""
        for _ in range(100):
            code = self.init(timeout_ms)
            if code == 0:
                return self
            assert code in (errors.ConcurrentTransactions.code, errors.CoordinatorLoadInProgress.code), code
            self.world.simulation.run_for(0.05)
        raise AssertionError(f"{self.name} could not begin")

    def take(self, producer_id: int, epoch: int) -> None:
        if (producer_id, epoch) != (self.id, self.epoch):
            self.sequences.clear()
        self.id, self.epoch = producer_id, epoch

    def add(self, *places: tuple[str, int], version: int = 3) -> list[int]:
        """Send AddPartitionsToTxn as clients do, and return the error codes."""
        topics: dict[str, list[int]] = {}
        for topic, index in places:
            topics.setdefault(topic, []).append(index)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self.id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=name, partitions=ids) for name, ids in topics.items()
            ],
        )
        response = self.ask(request, version)
        return [
            one.partition_error_code
            for topic in response.results_by_topic_v3_and_below
            for one in topic.results_by_partition
        ]

    def write(
        self, values: Sequence[bytes], topic: str = "t", partition: int = 0, version: int | None = None
    ) -> PartitionProduceResponse:
        """Produce one batch."""
        place = (topic, partition)
        sequence = self.sequences.get(place, 0)
        records = in_transaction(values, self.id, self.epoch, sequence)
        request = produce_request(topic, partition, records, transactional_id=self.name)
        known = TV2_PRODUCE if self.adds_by_producing else TV1_PRODUCE
        response = partition_of(self.world.call(self.world.leader(*place), request, version or known))
        if not response.error_code:
            self.sequences[place] = sequence + len(values)
        return response

    def send(self, value: bytes, topic: str = "t", partition: int = 0) -> None:
        """Write one record as a client does, which adds the partition first before version 2."""
        if not self.adds_by_producing:
            for _ in range(100):
                codes = self.add((topic, partition))
                if codes != [errors.ConcurrentTransactions.code]:
                    break
                self.world.simulation.run_for(0.02)
            assert codes == [0]
        response = self.write([value], topic, partition)
        assert response.error_code == 0, errors.for_code(response.error_code)

    def try_end(self, *, committed: bool, version: int | None = None) -> EndTxnResponse:
        request = EndTxnRequest(
            transactional_id=self.name,
            producer_id=self.id,
            producer_epoch=self.epoch,
            committed=committed,
        )
        return self.ask(request, version or (5 if self.adds_by_producing else 4))

    def end(self, *, committed: bool = True) -> int:
        """Commit or abort, adopt the producer id and epoch of the response, and return the error code."""
        response = self.try_end(committed=committed)
        if not response.error_code and self.adds_by_producing:
            self.take(response.producer_id, response.producer_epoch)
        return response.error_code

    def add_offsets(self, group: str) -> int:
        request = AddOffsetsToTxnRequest(
            transactional_id=self.name, producer_id=self.id, producer_epoch=self.epoch, group_id=group
        )
        return self.ask(request, 4).error_code

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
        """Commit an offset of one partition with TxnOffsetCommit, and return the error code."""
        request = TxnOffsetCommitRequest(
            transactional_id=self.name,
            group_id=group,
            producer_id=self.id,
            producer_epoch=self.epoch,
            generation_id_or_member_epoch=generation,
            member_id=member,
            topics=[
                TxnOffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        TxnOffsetCommitRequestPartition(
                            partition_index=partition, committed_offset=offset, committed_metadata=""
                        )
                    ],
                )
            ],
        )
        chosen = version or (5 if self.adds_by_producing else 4)
        response = self.world.call(self.world.find(group, "group"), request, chosen)
        return response.topics[0].partitions[0].error_code
