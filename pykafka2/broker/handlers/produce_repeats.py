"""A Produce request that names a partition more than once, handled as in Kafka.

Kafka stores a request's batches in maps by partition: the last valid batch is appended, and an invalid one
determines the response regardless of the others. Each partition has one result. Imported with the first such
request.
"""

from __future__ import annotations

from pykafka2.broker.log.validation import single_batch
from pykafka2.broker.replication.purgatory import ProduceResult
from pykafka2.errors import BrokerError, UnknownTopicId, UnknownTopicOrPartition
from pykafka2.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

Place = tuple[str, bytes, int]
"""A partition as named in the request: the topic's name or id, and the number."""


class Repeats:
    """Such a request: `request` contains the batches to append, and `settle` returns the final results."""

    def __init__(self, request: ProduceRequest, version: int) -> None:
        chosen: dict[Place, PartitionProduceData] = {}
        refused: dict[Place, BrokerError] = {}
        for topic in request.topic_data:
            for data in topic.partition_data:
                place = (topic.name, topic.topic_id, data.index)
                error = _error_of(data, version)
                if error is None or place not in chosen:
                    chosen[place] = data
                if error is not None:
                    refused[place] = error
        self._refused = {id(chosen[place]): error for place, error in refused.items()}
        topics: dict[tuple[str, bytes], TopicProduceData] = {}
        for (name, topic_id, _), data in chosen.items():
            empty = TopicProduceData(name=name, topic_id=topic_id, partition_data=[])
            topics.setdefault((name, topic_id), empty).partition_data.append(data)
        self.request = ProduceRequest(
            transactional_id=request.transactional_id,
            acks=request.acks,
            timeout_ms=request.timeout_ms,
            topic_data=list(topics.values()),
        )

    def settle(self, data: PartitionProduceData, result: ProduceResult) -> ProduceResult:
        """Return the result of one partition; an unknown topic takes precedence."""
        error = self._refused.get(id(data))
        if error is None or isinstance(result.error, UnknownTopicId | UnknownTopicOrPartition):
            return result
        return ProduceResult(error)


def _error_of(data: PartitionProduceData, version: int) -> BrokerError | None:
    try:
        single_batch(data.records, version)
    except BrokerError as error:
        return error
    return None
