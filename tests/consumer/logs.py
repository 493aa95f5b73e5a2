"""A scripted cluster whose partitions have logs: Fetch and ListOffsets answered as a broker would.

Nothing of the answers is pykafka2's broker; batches are built by pykafka2.records, and a fetch without data
is held as long as it asks for, so that virtual time runs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import attrs

from pykafka2.consumer.consumer import KafkaConsumer
from pykafka2.errors import (
    FencedLeaderEpoch,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from pykafka2.protocol.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    PartitionData,
)
from pykafka2.protocol.messages.offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from pykafka2.protocol.primitives import ZERO_UUID
from pykafka2.records.batch import RecordBatch
from pykafka2.records.control import build_end_marker
from pykafka2.records.encoder import BatchBuilder
from pykafka2.types import TopicPartition
from tests.cluster.scripted import BOOTSTRAP, Answer, Later, ScriptedBroker, ScriptedCluster

Row = tuple["bytes | None", "bytes | None"]


def build_batch(
    rows: Iterable[Row],
    base_offset: int = 0,
    *,
    timestamp: int = 1000,
    producer_id: int = -1,
    is_transactional: bool = False,
) -> bytes:
    builder = BatchBuilder()
    for key, value in rows:
        builder.append(timestamp, key, value)
    return builder.build(
        base_offset=base_offset,
        producer_id=producer_id,
        producer_epoch=0 if producer_id >= 0 else -1,
        base_sequence=0 if producer_id >= 0 else -1,
        is_transactional=is_transactional,
    )


@attrs.define
class Log:
    """The batches of one partition."""

    batches: list[bytes] = attrs.Factory(list)
    start: int = 0
    end: int = 0
    aborted: list[tuple[int, int, int]] = attrs.Factory(list)
    """Producer, first and last offset of each aborted transaction."""
    error_code: int = 0
    stable_end: int | None = None
    """The last stable offset, where it is not the end."""

    def append(
        self, *values: bytes, timestamp: int = 1000, producer_id: int = -1, is_transactional: bool = False
    ) -> int:
        """One batch; its first offset."""
        base = self.end
        batch = build_batch(
            [(None, value) for value in values],
            base,
            timestamp=timestamp,
            producer_id=producer_id,
            is_transactional=is_transactional,
        )
        self.batches.append(batch)
        self.end += len(values)
        return base

    def end_transaction(self, producer_id: int, first_offset: int, *, committed: bool) -> None:
        self.batches.append(build_end_marker(committed, 1000, producer_id, 0, 0, base_offset=self.end))
        if not committed:
            self.aborted.append((producer_id, first_offset, self.end))
        self.end += 1

    def read(self, offset: int, max_bytes: int) -> bytes:
        """Whole batches from the one with `offset` on; the first is read however large it is."""
        found: list[bytes] = []
        for batch in self.batches if offset < self.end else ():
            if RecordBatch(memoryview(batch)).last_offset < offset:
                continue
            if found and sum(map(len, found)) + len(batch) > max_bytes:
                break
            found.append(batch)
        return b"".join(found)

    def truncate_before(self, offset: int) -> None:
        self.start = offset
        self.batches = [b for b in self.batches if RecordBatch(memoryview(b)).last_offset >= offset]


class LogCluster(ScriptedCluster):
    """Scripted brokers that answer Fetch and ListOffsets from logs."""

    def __init__(self, topics: dict[str, list[int]], brokers: int = 3) -> None:
        super().__init__(brokers, topics)
        self.logs: dict[TopicPartition, Log] = {}
        self.lists_aborted_always = False
        """Whether responses to read_uncommitted fetches list aborted transactions, too."""
        self.on(FetchRequest, self.fetch)
        self.on(ListOffsetsRequest, self.list_offsets)
        self.in_flight: dict[int, int] = {}
        self.in_flight_max = 0
        self.gives_hints = False
        """Whether a broker that does not lead a partition names the leader (KIP-951)."""
        self._held: list[Later] = []

    def log(self, topic: str, partition: int = 0) -> Log:
        return self.logs.setdefault(TopicPartition(topic, partition), Log())

    def append(self, topic: str, partition: int, *values: bytes, **more: Any) -> int:
        """Append one batch; waiting fetches are answered."""
        offset = self.log(topic, partition).append(*values, **more)
        self.arrive()
        return offset

    def arrive(self) -> None:
        held, self._held = self._held, []
        for later in held:
            later.now()

    def consumer(self, *topics: str, **options: Any) -> KafkaConsumer:
        options = {"bootstrap_servers": BOOTSTRAP, "auto_offset_reset": "earliest", **options}
        runtime: Any = self.runtime
        return KafkaConsumer(*topics, runtime=runtime, **options)

    # ------------------------------------------------------------------ Fetch

    def fetch(self, request: FetchRequest, broker: ScriptedBroker) -> Answer:
        count = self.in_flight[broker.id] = self.in_flight.get(broker.id, 0) + 1
        self.in_flight_max = max(self.in_flight_max, count)
        response = self.fetch_now(request, broker)
        has_something = any(
            one.records or one.error_code for topic in response.responses for one in topic.partitions
        )
        later = Later(
            0.001 if has_something else request.max_wait_ms / 1000, lambda: self._answer(request, broker)
        )
        self._held.append(later)
        return later

    def _answer(self, request: FetchRequest, broker: ScriptedBroker) -> FetchResponse:
        self.in_flight[broker.id] -= 1
        return self.fetch_now(request, broker)

    def fetch_now(self, request: FetchRequest, broker: ScriptedBroker) -> FetchResponse:
        room = request.max_bytes
        responses = []
        for topic in request.topics:
            answers = []
            for requested in topic.partitions:
                one = self._fetch_partition(request, topic.topic, topic.topic_id, requested, broker, room)
                room = max(room - len(one.records or b""), 0)
                answers.append(one)
            responses.append(
                FetchableTopicResponse(topic=topic.topic, topic_id=topic.topic_id, partitions=answers)
            )
        return FetchResponse(responses=responses)

    def _fetch_partition(
        self,
        request: FetchRequest,
        name: str,
        topic_id: bytes,
        requested: FetchPartition,
        broker: ScriptedBroker,
        room: int,
    ) -> PartitionData:
        number = requested.partition
        if topic_id != ZERO_UUID:
            names = [known for known, topic in self.topics.items() if topic.topic_id == topic_id]
            if not names:
                return _failed(number, UnknownTopicId.code)
            name = names[0]
        topic = self.topics.get(name)
        if topic is None or number >= len(topic.leaders):
            return _failed(number, UnknownTopicOrPartition.code)
        if topic.leaders[number] != broker.id:
            refusal = _failed(number, NotLeaderOrFollower.code)
            if self.gives_hints:
                refusal.current_leader = LeaderIdAndEpoch(
                    leader_id=topic.leaders[number], leader_epoch=topic.epochs[number]
                )
            return refusal
        if -1 < requested.current_leader_epoch < topic.epochs[number]:
            return _failed(number, FencedLeaderEpoch.code)
        log = self.log(name, number)
        if log.error_code:
            return _failed(number, log.error_code)
        if not log.start <= requested.fetch_offset <= log.end:
            return _failed(number, OffsetOutOfRange.code)
        limit = min(requested.partition_max_bytes, room)
        is_committed = request.isolation_level == 1
        aborted = [
            AbortedTransaction(producer_id=producer_id, first_offset=first)
            for producer_id, first, last in log.aborted
            if is_committed and last >= requested.fetch_offset
        ]
        return PartitionData(
            partition_index=number,
            high_watermark=log.end,
            last_stable_offset=log.end if log.stable_end is None else log.stable_end,
            log_start_offset=log.start,
            aborted_transactions=aborted if is_committed or self.lists_aborted_always else None,
            records=memoryview(log.read(requested.fetch_offset, limit)) if limit else None,
        )

    # ------------------------------------------------------------------ ListOffsets

    def list_offsets(self, request: ListOffsetsRequest, broker: ScriptedBroker) -> Answer:
        return ListOffsetsResponse(
            topics=[
                ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=[
                        self._list_partition(
                            topic.name, requested.partition_index, requested.timestamp, broker
                        )
                        for requested in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    def _list_partition(
        self, name: str, number: int, timestamp: int, broker: ScriptedBroker
    ) -> ListOffsetsPartitionResponse:
        topic = self.topics.get(name)
        if topic is None or number >= len(topic.leaders):
            return ListOffsetsPartitionResponse(partition_index=number, error_code=3)
        if topic.leaders[number] != broker.id:
            return ListOffsetsPartitionResponse(partition_index=number, error_code=6)
        log = self.log(name, number)
        offset, at = -1, -1
        if timestamp == -2:
            offset = log.start
        elif timestamp == -1:
            offset = log.end
        else:
            for batch in [RecordBatch(memoryview(data)) for data in log.batches]:
                if batch.max_timestamp >= timestamp:
                    offset, at = batch.base_offset, batch.max_timestamp
                    break
        return ListOffsetsPartitionResponse(partition_index=number, offset=offset, timestamp=at)


def _failed(number: int, error_code: int) -> PartitionData:
    return PartitionData(partition_index=number, error_code=error_code, high_watermark=-1, records=None)
