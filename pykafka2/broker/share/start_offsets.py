"""The start offsets of share partitions, from their share coordinators, with the lag behind them (KIP-1226).

The lag is the number of records between the start offset and the end of the partition whose delivery is not
complete; each leader responds with its end. Like Kafka's GroupCoordinatorService.describeShareGroupOffsets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final

from pykafka2.broker.base.image import Key
from pykafka2.broker.coordinators.inter_broker import InterBrokerSender, ShareStateClient
from pykafka2.broker.node import Node
from pykafka2.errors import KafkaError, LeaderNotAvailable, NetworkException, error_of
from pykafka2.protocol.messages.offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from pykafka2.protocol.messages.share_offsets import (
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from pykafka2.protocol.messages.share_state import ReadShareGroupStateSummaryRequestPartitionData

LIST_OFFSETS_VERSION: Final = 9
LATEST: Final = -1
CONSUMER: Final = -1
NO_OFFSET: Final = -1
NO_COUNT: Final = -1
TIMEOUT: Final = 10.0

Ends = Mapping[Key, tuple[int, int]]
"""Error code and end offset of each partition."""


class StartOffsets:
    """Reads start offsets for one request at a time. Access requires the cluster's lock."""

    def __init__(self, node: Node, persister: ShareStateClient, sender: InterBrokerSender) -> None:
        self._node = node
        self._persister = persister
        self._sender = sender

    def describe(
        self,
        group_id: str,
        wanted: Iterable[tuple[str, Iterable[int]]],
        others: list[DescribeShareGroupOffsetsResponseTopic],
        done: Callable[[DescribeShareGroupOffsetsResponseGroup], None],
        now: float,
    ) -> None:
        """Describe these partitions of topics; `others` are entries that the response has in addition.

        An unknown topic or a partition without a state has the offset -1 and no error.
        """
        image = self._node.image
        known: dict[Key, bytes] = {}
        missing: list[DescribeShareGroupOffsetsResponseTopic] = []
        for name, partitions in wanted:
            topic = image.topics.get(name)
            topic_id, count = (bytes(16), 0) if topic is None else (topic.id, len(topic.partitions))
            absent = [_partition(number) for number in partitions if not 0 <= number < count]
            if absent:
                missing.append(_topic(name, topic_id, absent))
            known |= {(name, number): topic_id for number in partitions if 0 <= number < count}
        summaries: dict[Key, Any] = {}

        def summarized(key: Key, result: Any, at: float) -> None:
            summaries[key] = result
            if len(summaries) == len(known):
                with_lag = [key for key in known if _has_lag(summaries[key])]
                self._ends(with_lag, finished, at)

        def finished(ends: Ends) -> None:
            topics = {topic.topic_name: topic for topic in missing}
            for key, topic_id in known.items():
                entry = topics.setdefault(key[0], _topic(key[0], topic_id, []))
                entry.partitions.append(_described(key, summaries[key], ends))
            done(
                DescribeShareGroupOffsetsResponseGroup(group_id=group_id, topics=[*topics.values(), *others])
            )

        if not known:
            finished({})
        for key, topic_id in known.items():
            entry = ReadShareGroupStateSummaryRequestPartitionData(partition=key[1], leader_epoch=0)
            self._persister.call(group_id, topic_id, entry, partial(summarized, key), now)

    def _ends(self, keys: list[Key], done: Callable[[Ends], None], now: float) -> None:
        """Get the end offsets of partitions from their leaders."""
        ends: dict[Key, tuple[int, int]] = {}
        by_leader: dict[int, list[Key]] = {}
        for key in keys:
            image = self._node.image.partition(*key)
            if image is None or not self._node.image.is_alive(image.leader):
                ends[key] = LeaderNotAvailable.code, NO_OFFSET
            else:
                by_leader.setdefault(image.leader, []).append(key)

        def arrived(response: ListOffsetsResponse, at: float) -> None:
            for topic in response.topics:
                for one in topic.partitions:
                    ends[topic.name, one.partition_index] = one.error_code, one.offset
            check()

        def failed(of: list[Key], error: KafkaError, at: float) -> None:
            ends.update(dict.fromkeys(of, (NetworkException.code, NO_OFFSET)))
            check()

        def check() -> None:
            if len(ends) == len(keys):
                done(ends)

        if not by_leader:
            done(ends)
        for leader, of in by_leader.items():
            self._sender.send(
                leader, _request(of), LIST_OFFSETS_VERSION, arrived, partial(failed, of), TIMEOUT, now
            )


def _request(keys: Iterable[Key]) -> ListOffsetsRequest:
    topics: dict[str, list[ListOffsetsPartition]] = {}
    for name, number in keys:
        topics.setdefault(name, []).append(ListOffsetsPartition(partition_index=number, timestamp=LATEST))
    return ListOffsetsRequest(
        replica_id=CONSUMER,
        topics=[ListOffsetsTopic(name=name, partitions=partitions) for name, partitions in topics.items()],
    )


def _has_lag(summary: Any) -> bool:
    return (
        not summary.error_code
        and summary.start_offset != NO_OFFSET
        and summary.delivery_complete_count != NO_COUNT
    )


def _described(key: Key, summary: Any, ends: Ends) -> DescribeShareGroupOffsetsResponsePartition:
    if summary.error_code:
        return _partition(key[1])
    if not _has_lag(summary):
        return _partition(key[1], summary.start_offset, summary.leader_epoch)
    code, end = ends[key]
    if code:
        entry = _partition(key[1], 0)
        entry.error_code, entry.error_message = code, str(error_of(code))
        return entry
    lag = end - summary.start_offset - summary.delivery_complete_count
    return _partition(key[1], summary.start_offset, summary.leader_epoch, lag)


def _partition(
    number: int, start_offset: int = NO_OFFSET, leader_epoch: int = 0, lag: int = -1
) -> DescribeShareGroupOffsetsResponsePartition:
    return DescribeShareGroupOffsetsResponsePartition(
        partition_index=number, start_offset=start_offset, leader_epoch=leader_epoch, lag=lag
    )


def _topic(
    name: str, topic_id: bytes, partitions: list[DescribeShareGroupOffsetsResponsePartition]
) -> DescribeShareGroupOffsetsResponseTopic:
    return DescribeShareGroupOffsetsResponseTopic(topic_name=name, topic_id=topic_id, partitions=partitions)
