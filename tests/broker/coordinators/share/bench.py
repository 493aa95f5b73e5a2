"""A share coordinator's shard in memory: requests about one share partition in one line each."""

from __future__ import annotations

from typing import Any

from pykafka2.broker.coordinators.replay import Caller, Deferred, decode_record
from pykafka2.broker.coordinators.runtime import Entry, ShardRuntime
from pykafka2.broker.coordinators.settings import ShareSettings, TopicTable
from pykafka2.broker.coordinators.share.shard import SHARE_RECORDS, ShareShard
from pykafka2.protocol.messages import share_state as messages
from pykafka2.protocol.struct import RecordValue
from tests.broker.support.memory_log import MemoryLog

ORDERS, REFUNDS = b"o" * 16, b"r" * 16
TOPICS = TopicTable({"orders": (ORDERS, 6), "refunds": (REFUNDS, 3)})


def batch(
    first: int, last: int, state: int, count: int = 1
) -> messages.WriteShareGroupStateRequestStateBatch:
    return messages.WriteShareGroupStateRequestStateBatch(
        first_offset=first, last_offset=last, delivery_state=state, delivery_count=count
    )


def initialize_request(
    group: str, topic_id: bytes, partition: int, state_epoch: int, start: int
) -> messages.InitializeShareGroupStateRequest:
    entry = messages.InitializeShareGroupStateRequestPartitionData(
        partition=partition, state_epoch=state_epoch, start_offset=start
    )
    topic = messages.InitializeStateData(topic_id=topic_id, partitions=[entry])
    return messages.InitializeShareGroupStateRequest(group_id=group, topics=[topic])


def read_request(
    group: str, topic_id: bytes, partition: int, leader_epoch: int
) -> messages.ReadShareGroupStateRequest:
    entry = messages.ReadShareGroupStateRequestPartitionData(partition=partition, leader_epoch=leader_epoch)
    topic = messages.ReadStateData(topic_id=topic_id, partitions=[entry])
    return messages.ReadShareGroupStateRequest(group_id=group, topics=[topic])


def write_request(
    group: str, topic_id: bytes, partition: int, *batches: Any, start: int = -1, **fields: Any
) -> messages.WriteShareGroupStateRequest:
    defaults = {"state_epoch": 0, "leader_epoch": 0, "delivery_complete_count": 0}
    entry = messages.WriteShareGroupStateRequestPartitionData(
        partition=partition, start_offset=start, state_batches=list(batches), **defaults | fields
    )
    topic = messages.WriteStateData(topic_id=topic_id, partitions=[entry])
    return messages.WriteShareGroupStateRequest(group_id=group, topics=[topic])


def summary_request(
    group: str, topic_id: bytes, partition: int
) -> messages.ReadShareGroupStateSummaryRequest:
    entry = messages.ReadShareGroupStateSummaryRequestPartitionData(partition=partition, leader_epoch=0)
    topic = messages.ReadStateSummaryData(topic_id=topic_id, partitions=[entry])
    return messages.ReadShareGroupStateSummaryRequest(group_id=group, topics=[topic])


def delete_request(group: str, topic_id: bytes, partition: int) -> messages.DeleteShareGroupStateRequest:
    entry = messages.DeleteShareGroupStateRequestPartitionData(partition=partition)
    topic = messages.DeleteStateData(topic_id=topic_id, partitions=[entry])
    return messages.DeleteShareGroupStateRequest(group_id=group, topics=[topic])


class ShareBench:
    """The shard with its log; time passes by `advance` only."""

    def __init__(self, updates_per_snapshot: int = 500) -> None:
        self.settings = ShareSettings(updates_per_snapshot=updates_per_snapshot)
        self.log = MemoryLog()
        self.now = 0.0
        self.elect()

    def elect(self) -> None:
        """Replace the shard by one that has loaded the log."""
        self.shard = ShareShard(self.settings, lambda at: round(at * 1000))
        self.shard.topics = TOPICS
        self.runtime = ShardRuntime(self.shard, self.log)
        # The log starts where it was pruned.
        entries = [
            Entry(entry.key, entry.value, None, offset)
            for offset, entry in enumerate(self.log.entries)
            if isinstance(entry, Entry) and offset >= self.log.log_start_offset
        ]
        self.runtime.load(entries, len(self.log.entries), self.now)

    def call(self, request: Any, version: int = 0) -> Any:
        """Return the result of the request's share partition."""
        deferred: Deferred[Any] = Deferred(request, version)
        self.runtime.submit(Caller(version), deferred, self.now)
        assert deferred.response is not None
        return deferred.response.results[0].partitions[0]

    def advance(self, seconds: float) -> None:
        self.now += seconds
        self.runtime.poll(self.now)

    def values(self) -> list[RecordValue | None]:
        """Return the values of all records; None is a tombstone."""
        decoded = [
            decode_record(SHARE_RECORDS, entry.key, entry.value)
            for entry in self.log.entries
            if isinstance(entry, Entry)
        ]
        return [one[1] for one in decoded if one is not None]

    # -- group "g", partition 0 of "orders" ----------------------------------------------------------

    def initialize(self, state_epoch: int = 0, start: int = 0, partition: int = 0) -> int:
        return int(self.call(initialize_request("g", ORDERS, partition, state_epoch, start)).error_code)

    def write(self, *batches: Any, **fields: Any) -> int:
        return int(self.call(write_request("g", ORDERS, 0, *batches, **fields), 1).error_code)

    def read(self, leader_epoch: int = 0) -> Any:
        return self.call(read_request("g", ORDERS, 0, leader_epoch))

    def batches(self) -> list[tuple[int, int, int, int]]:
        """Return the batches of the state as tuples: first and last offset, state, count."""
        return [
            (one.first_offset, one.last_offset, one.delivery_state, one.delivery_count)
            for one in self.read(self.shard.states["g", ORDERS, 0].leader_epoch).state_batches
        ]
