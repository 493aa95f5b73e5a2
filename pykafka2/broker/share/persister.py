"""The client of the share coordinator: reads and writes the state of share partitions (KIP-932).

Leaders read and write the states of their share partitions; the group coordinator initializes, deletes and
summarizes them. Each call is about one share partition and calls back with its result. Calls of one group
that wait while a request is on its way to the same coordinator share the next request. Errors that pass are
retried with backoff, and the coordinator is looked up again in the broker's metadata. A read waits until
earlier writes of its share partition have ended. Like Kafka's PersisterStateManager, but for that. Access
requires the cluster's lock.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import attrs

from pykafka2 import errors
from pykafka2.broker.controller.topics import NewTopic
from pykafka2.broker.coordinators.inter_broker import InterBrokerSender
from pykafka2.broker.coordinators.internal_topics import (
    SHARE_STATE_TOPIC,
    create_internal_topic,
    partition_for,
    share_partition_key,
)
from pykafka2.broker.node import Node
from pykafka2.broker.server.responses import REFUSAL
from pykafka2.errors import KafkaError
from pykafka2.protocol.messages import share_state as messages

Done = Callable[[Any, float], None]
"""Callback: called once with the partition's entry of the response (error_code is 0 on success) and the time.
"""

REQUEST_TIMEOUT: Final = 10.0
FIRST_BACKOFF: Final = 0.1
MAX_BACKOFF: Final = 1.0
RETRY_TIMEOUT: Final = 15.0
"""Seconds after which the last retriable error is returned."""

RETRIABLE: Final = frozenset(
    {
        errors.CoordinatorLoadInProgress.code,
        errors.CoordinatorNotAvailable.code,
        errors.NotCoordinator.code,
        # The coordinator's metadata can be older.
        errors.UnknownTopicOrPartition.code,
    }
)


@attrs.define(frozen=True)
class _Api:
    """A request of the share coordinator, its entry for a topic, and the result of a partition."""

    request: type[Any]
    topic: type[Any]
    result: type[Any]
    version: int


APIS: Final[dict[type[Any], _Api]] = {
    messages.InitializeShareGroupStateRequestPartitionData: _Api(
        messages.InitializeShareGroupStateRequest,
        messages.InitializeStateData,
        messages.InitializeShareGroupStateResponsePartitionResult,
        0,
    ),
    messages.ReadShareGroupStateRequestPartitionData: _Api(
        messages.ReadShareGroupStateRequest,
        messages.ReadStateData,
        messages.ReadShareGroupStateResponsePartitionResult,
        0,
    ),
    messages.WriteShareGroupStateRequestPartitionData: _Api(
        messages.WriteShareGroupStateRequest,
        messages.WriteStateData,
        messages.WriteShareGroupStateResponsePartitionResult,
        1,
    ),
    messages.DeleteShareGroupStateRequestPartitionData: _Api(
        messages.DeleteShareGroupStateRequest,
        messages.DeleteStateData,
        messages.DeleteShareGroupStateResponsePartitionResult,
        0,
    ),
    messages.ReadShareGroupStateSummaryRequestPartitionData: _Api(
        messages.ReadShareGroupStateSummaryRequest,
        messages.ReadStateSummaryData,
        messages.ReadShareGroupStateSummaryResponsePartitionResult,
        1,
    ),
}
"""By the entry of a share partition in the request."""


@attrs.define(eq=False)
class _Call:
    """One call: its share partition, and its entry in the request."""

    group_id: str
    topic_id: bytes
    entry: Any
    done: Done
    deadline: float
    backoff: float = FIRST_BACKOFF

    @property
    def api(self) -> _Api:
        return APIS[type(self.entry)]

    @property
    def is_write(self) -> bool:
        return isinstance(self.entry, messages.WriteShareGroupStateRequestPartitionData)

    @property
    def place(self) -> tuple[bytes, int]:
        return self.topic_id, self.entry.partition

    @property
    def key(self) -> _Key:
        return self.group_id, *self.place


_Key = tuple[str, bytes, int]
"""A share partition: group id, topic id, partition."""

_Lane = tuple[int, _Api, str]
"""A coordinator, a request and a group: one request at a time is on its way."""


class Persister:
    """The share coordinators of the cluster, as one broker uses them.

    `create_topic` has the controller create the state topic before the first call.
    """

    def __init__(
        self, node: Node, sender: InterBrokerSender, create_topic: Callable[[NewTopic], object]
    ) -> None:
        self._node = node
        self._sender = sender
        self._create_topic = create_topic
        self._waiting: dict[_Lane, list[_Call]] = {}
        self._in_flight: set[_Lane] = set()
        self._writes: dict[_Key, int] = {}
        """How many writes of a share partition have not ended."""
        self._reads: dict[_Key, list[_Call]] = {}
        """Reads that wait for these. A share partition that is created again would otherwise read the state
        before a retried write of the former one, and deliver a record that is being accepted."""

    def call(self, group_id: str, topic_id: bytes, entry: Any, done: Done, now: float) -> None:
        """Send an entry of one of `APIS` about a share partition, and call `done` with the result.

        A read gets the state, and its leader epoch fences former leaders; a start offset of -1 is to be
        chosen. A write stores changed batches and the start offset: FENCED_LEADER_EPOCH and
        FENCED_STATE_EPOCH mean that another leader, or an administrator, was faster. Without a state, a
        deletion succeeds, and a summary has the start offset -1.
        """
        call = _Call(group_id, topic_id, entry, done, now + RETRY_TIMEOUT)
        if call.is_write:
            self._writes[call.key] = self._writes.get(call.key, 0) + 1
        elif isinstance(entry, messages.ReadShareGroupStateRequestPartitionData) and call.key in self._writes:
            self._reads.setdefault(call.key, []).append(call)
            return
        self._submit(call, now)

    # ------------------------------------------------------------------ sending

    def _submit(self, call: _Call, now: float) -> None:
        coordinator = self._coordinator_of(call)
        if coordinator is None:
            self._retry(call, errors.CoordinatorNotAvailable(), now)
            return
        lane = (coordinator, call.api, call.group_id)
        self._waiting.setdefault(lane, []).append(call)
        self._send(lane, now)

    def _coordinator_of(self, call: _Call) -> int | None:
        """Return the broker that leads the partition of the state topic; the first call creates the topic."""
        node = self._node
        if SHARE_STATE_TOPIC not in node.image.topics:
            create_internal_topic(node, self._create_topic, SHARE_STATE_TOPIC)
        topic = node.image.topics.get(SHARE_STATE_TOPIC)
        if topic is None:
            return None
        key = share_partition_key(call.group_id, *call.place)
        leader = topic.partitions[partition_for(key, len(topic.partitions))].leader
        return leader if node.image.is_alive(leader) else None

    def _send(self, lane: _Lane, now: float) -> None:
        """Send the waiting calls of a lane, one for each share partition, unless a request is on its way."""
        waiting = self._waiting.get(lane)
        if not waiting or lane in self._in_flight:
            return
        calls: dict[tuple[bytes, int], _Call] = {}
        left = []
        for call in waiting:
            if call.place in calls:
                left.append(call)  # in order, so that a later write cannot overtake it
            else:
                calls[call.place] = call
        self._waiting[lane] = left
        self._in_flight.add(lane)
        coordinator, api, group_id = lane
        by_topic: dict[bytes, list[Any]] = {}
        for call in calls.values():
            by_topic.setdefault(call.topic_id, []).append(call.entry)
        request = api.request(
            group_id=group_id,
            topics=[api.topic(topic_id=topic_id, partitions=sent) for topic_id, sent in by_topic.items()],
        )
        self._sender.send(
            coordinator,
            request,
            api.version,
            lambda response, at: self._arrived(lane, calls, response, at),
            lambda error, at: self._failed(lane, calls, error, at),
            REQUEST_TIMEOUT,
            now,
        )

    def _arrived(self, lane: _Lane, calls: dict[tuple[bytes, int], _Call], response: Any, now: float) -> None:
        self._in_flight.discard(lane)
        results = {
            (topic.topic_id, partition.partition): partition
            for topic in response.results
            for partition in topic.partitions
        }
        for place, call in calls.items():
            result = results.get(place)
            if result is None:
                self._refuse(call, errors.UnknownServerError(), now)
            elif result.error_code in RETRIABLE:
                self._retry(call, result, now)
            else:
                self._complete(call, result, now)
        self._next(lane, now)

    def _failed(
        self, lane: _Lane, calls: dict[tuple[bytes, int], _Call], error: KafkaError, now: float
    ) -> None:
        self._in_flight.discard(lane)
        for call in calls.values():
            self._retry(call, errors.NetworkException(str(error)), now)
        self._next(lane, now)

    def _next(self, lane: _Lane, now: float) -> None:
        if self._waiting.get(lane):
            self._send(lane, now)
        elif lane not in self._in_flight:
            self._waiting.pop(lane, None)

    def _retry(self, call: _Call, failure: Any, now: float) -> None:
        """Submit a call again after its backoff; after the timeout complete it with the failure."""
        if now + call.backoff > call.deadline:
            if isinstance(failure, errors.BrokerError):
                self._refuse(call, failure, now)
            else:
                self._complete(call, failure, now)
            return
        self._node.wheel.add(now + call.backoff, lambda at: self._submit(call, at))
        call.backoff = min(2 * call.backoff, MAX_BACKOFF)

    def _refuse(self, call: _Call, error: errors.BrokerError, now: float) -> None:
        result = REFUSAL.entry(call.api.result, call.entry, call.api.version, error)
        self._complete(call, result, now)

    def _complete(self, call: _Call, result: Any, now: float) -> None:
        """Call back; a failure there affects this call only."""
        try:
            call.done(result, now)
        except Exception as error:
            self._node.problems.note(f"the result of {call.api.request.__name__}", error)
        if call.is_write:
            self._write_ended(call.key, now)

    def _write_ended(self, key: _Key, now: float) -> None:
        self._writes[key] -= 1
        if not self._writes[key]:
            del self._writes[key]
            for read in self._reads.pop(key, ()):
                self._submit(read, now)
