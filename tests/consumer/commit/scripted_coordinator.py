"""A scripted broker older than KIP-699 and KIP-709: one group in each request."""

from __future__ import annotations

from pykafka2 import KafkaConsumer, TopicPartition
from pykafka2.protocol.messages.committed_offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from pykafka2.protocol.messages.coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from tests.cluster.scripted import ScriptedBroker
from tests.consumer.logs import LogCluster

ORDERS = [TopicPartition("orders", 0), TopicPartition("orders", 1)]
FIND_COORDINATOR, OFFSET_COMMIT, OFFSET_FETCH = (
    FindCoordinatorRequest.API_KEY,
    OffsetCommitRequest.API_KEY,
    OffsetFetchRequest.API_KEY,
)


class OldCluster(LogCluster):
    """One broker that coordinates all groups, in the words of its time."""

    def __init__(self, versions: dict[int, tuple[int, int]]) -> None:
        super().__init__({"orders": [0, 0]}, brokers=1)
        self.brokers[0].versions.update(versions)
        self.offsets: dict[TopicPartition, OffsetCommitRequestPartition] = {}
        self.on(FindCoordinatorRequest, self.find)
        self.on(OffsetCommitRequest, self.commit)
        self.on(OffsetFetchRequest, self.tell)

    def find(self, request: FindCoordinatorRequest, broker: ScriptedBroker) -> FindCoordinatorResponse:
        assert request.key == "old"
        return FindCoordinatorResponse(node_id=0, host=broker.host, port=broker.port, error_message=None)

    def commit(self, request: OffsetCommitRequest, broker: ScriptedBroker) -> OffsetCommitResponse:
        answers = []
        for topic in request.topics:
            for one in topic.partitions:
                self.offsets[TopicPartition(topic.name, one.partition_index)] = one
            partitions = [
                OffsetCommitResponsePartition(partition_index=one.partition_index) for one in topic.partitions
            ]
            answers.append(OffsetCommitResponseTopic(name=topic.name, partitions=partitions))
        return OffsetCommitResponse(topics=answers)

    def tell(self, request: OffsetFetchRequest, broker: ScriptedBroker) -> OffsetFetchResponse:
        topics = []
        for topic in request.topics or []:
            answers = []
            for number in topic.partition_indexes:
                one = self.offsets.get(TopicPartition(topic.name, number))
                answers.append(
                    OffsetFetchResponsePartition(
                        partition_index=number,
                        committed_offset=-1 if one is None else one.committed_offset,
                        metadata=None if one is None else one.committed_metadata,
                    )
                )
            topics.append(OffsetFetchResponseTopic(name=topic.name, partitions=answers))
        return OffsetFetchResponse(topics=topics)

    def reader(self) -> KafkaConsumer:
        consumer = self.consumer(group_id="old", enable_auto_commit=False)
        consumer.assign(ORDERS)
        return consumer
