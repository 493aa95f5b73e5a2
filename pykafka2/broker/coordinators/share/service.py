"""The share coordinator of a broker: the share partitions of the state topic's partitions that it leads.

Requests come from other brokers: from leaders, and from group coordinators. coordinators.py reports
elections, topics and time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from pykafka2.broker.coordinators.internal_topics import share_partition_key
from pykafka2.broker.coordinators.replay import Caller, Deferred
from pykafka2.broker.coordinators.runtime import CoordinatorService, ShardLog, Split
from pykafka2.broker.coordinators.settings import ShareSettings, Topics
from pykafka2.broker.coordinators.share.shard import ShareShard
from pykafka2.protocol.struct import Request, Response


class ShareCoordinator(CoordinatorService[ShareShard]):
    """The states of share partitions."""

    def __init__(
        self, settings: ShareSettings, partitions: int, wall_ms: Callable[[float], int], topics: Topics
    ) -> None:
        super().__init__(partitions, settings.write_timeout)
        self.settings = settings
        self._wall_ms = wall_ms
        self._topics = topics

    def elect(self, partition: int, log: ShardLog) -> None:
        """Create the shard of a partition that this broker leads now; `load` follows."""
        shard = ShareShard(self.settings, self._wall_ms)
        shard.topics = self._topics
        self.begin(partition, shard, log)

    def on_topics(self, topics: Topics, now: float) -> None:
        """Apply a change of the cluster's topics; the states of deleted topics are deleted."""
        before = {self._topics.id_of(name) or b"" for name in self._topics.names()}
        deleted = {topic_id for topic_id in before if topics.name_of(topic_id) is None}
        self._topics = topics
        for partition, shard in self.shards.items():
            runtime = self.runtimes[partition]
            runtime.carry_out(shard.on_topics(topics, deleted), now)
            self.note_activity(runtime)

    def submit(self, caller: Caller, request: Request[Any], now: float) -> Deferred[Any]:
        """Return the response to a request; one that names no group or no partition has no results."""
        fields: Any = request
        kind: Any = request.RESPONSE
        if not fields.group_id or not all(topic.partitions for topic in fields.topics):
            deferred: Deferred[Any] = Deferred(request, caller.version)
            deferred.complete(kind(results=[]))
            return deferred
        return super().submit(caller, request, now)

    def split(self, request: Request[Any], version: int) -> Split:
        """Return one request for each share partition."""
        fields: Any = request
        kind: Any = type(request)
        return [
            (
                share_partition_key(fields.group_id, topic.topic_id, partition.partition),
                kind(
                    group_id=fields.group_id,
                    topics=[type(topic)(topic_id=topic.topic_id, partitions=[partition])],
                ),
            )
            for topic in fields.topics
            for partition in topic.partitions
        ]

    def merge(self, request: Request[Any], responses: list[Response]) -> Response:
        """Merge the results of share partitions by topic; the last one counts if one was named twice."""
        topics: dict[bytes, Any] = {}
        partitions: dict[bytes, dict[int, Any]] = {}
        for response in responses:
            result = response.results[0]  # type: ignore[attr-defined]
            topics.setdefault(result.topic_id, result)
            partition = result.partitions[0]
            partitions.setdefault(result.topic_id, {})[partition.partition] = partition
        for topic_id, result in topics.items():
            result.partitions = list(partitions[topic_id].values())
        kind: Any = request.RESPONSE
        return cast("Response", kind(results=list(topics.values())))
