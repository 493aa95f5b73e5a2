"""Fetches ahead of the application: one fetch in flight per broker, within a budget of bytes.

Owned by the driver's thread, which polls it. The consumer sends it commands and reads the results from the
fetch buffer. Each partition has a fetch offset, which is ahead of the application's position. Each seek or
assignment starts a new generation, which marks older data as stale. Its parts: partitions.py, brokers.py,
requests.py, responses.py, resets.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from pykafka2.cluster.client import ClusterClient
from pykafka2.consumer.fetch.brokers import FetchNodes, FetchSession
from pykafka2.consumer.fetch.buffer import FetchBuffer
from pykafka2.consumer.fetch.offset_lookups import OffsetLookups
from pykafka2.consumer.fetch.partitions import (
    DEPENDS_ON_TIME,
    FetchInFlight,
    FetchState,
    FetchTable,
    PartitionsByNode,
)
from pykafka2.consumer.fetch.requests import FetchRequests
from pykafka2.consumer.fetch.resets import PositionResets
from pykafka2.consumer.fetch.responses import FetchResponses
from pykafka2.consumer.options import ConsumerOptions
from pykafka2.consumer.state.measures import MeasuresByTopic
from pykafka2.driver.pollable import PollResult, Send, ToNode
from pykafka2.errors import (
    FetchSessionIdNotFound,
    FetchSessionTopicIdError,
    InconsistentTopicId,
    InvalidFetchSessionEpoch,
    KafkaError,
    NoOffsetForPartition,
    UnknownServerError,
    error_of,
)
from pykafka2.protocol.messages.fetch import FetchResponse
from pykafka2.protocol.primitives import ZERO_UUID
from pykafka2.types import PartitionInfo, TopicPartition

# Topic ids instead of names (KIP-516); if the metadata of an old cluster has no ids, names are used.
FIRST_VERSION_WITH_IDS = 13
# After these errors of an incremental fetch a full one is sent immediately.
SESSION_ERRORS = (
    FetchSessionIdNotFound,
    InvalidFetchSessionEpoch,
    FetchSessionTopicIdError,
    InconsistentTopicId,
)


class Fetcher:
    """Keeps the fetch buffer filled (a `Pollable`)."""

    def __init__(
        self, options: ConsumerOptions, cluster: ClusterClient, buffer: FetchBuffer, lookups: OffsetLookups
    ) -> None:
        self._options = options
        self._cluster = cluster
        self._metadata = cluster.metadata
        self.buffer = buffer
        self.lookups = lookups
        self.table = FetchTable(options, cluster, buffer)
        """The fetch state of each partition."""
        self.work = self.table.states
        self._responses = FetchResponses(options, cluster, buffer, self.table)
        self._resets = PositionResets(lookups, buffer, self.table)
        self._paused: set[TopicPartition] = set()
        self._partitions_by_node = PartitionsByNode()
        self._nodes = FetchNodes(
            sessions_are_wanted=options.enable_incremental_fetch_sessions, new_backoff=self.table.new_backoff
        )
        self._requests = FetchRequests(options, cluster.metadata, buffer, self.table, self._nodes)
        metrics = cluster.metrics
        self.fetches = 0
        self._sizes = metrics.series("fetch-size")
        self.topics = MeasuresByTopic(metrics)
        metrics.counter("fetch-total", lambda: self.fetches)

    # ------------------------------------------------------------------ commands

    def begin(
        self,
        partition: TopicPartition,
        generation: int,
        offset: int,
        epoch: int = -1,
        origin: int | None = None,
    ) -> None:
        """See `FetchTable.begin`."""
        self._resets.cancel(partition)
        self.table.begin(partition, generation, offset, epoch, origin)

    def reset(self, partition: TopicPartition, generation: int, timestamp: int) -> None:
        """Find the offset at this timestamp, put it into the buffer, and fetch from there on."""
        self._resets.begin(partition, generation, timestamp)

    def end(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop fetching these partitions."""
        for partition in partitions:
            self._paused.discard(partition)
            self.table.forget(partition)
            self._resets.forget(partition)

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        self._paused.update(partitions)
        self.table.changes += 1

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        self._paused.difference_update(partitions)
        self.table.changes += 1

    def reset_brokers_of(self, partition: TopicPartition) -> None:
        """Reset the state of the brokers that this partition can be fetched from, and update the metadata."""
        info, state = self._metadata.partition(*partition), self.table.states.get(partition)
        self._metadata.request_update()
        for node_id in {info.leader if info else -1, state.replica if state else -1}:
            self._nodes.forget(node_id)

    # ------------------------------------------------------------------ the driver's turn

    def poll(self, now: float) -> PollResult:
        result = PollResult([])
        by_node = self._idle_by_leader(now, result)
        if not by_node:
            return result
        room = self._room()
        wanted_room = self._options.queued_max_bytes // 2
        if room < wanted_room:
            self._drop_paused(wanted_room - room)
            self.buffer.notify_when_drained()
            # Room that was made before `notify_when_drained` causes no wake-up, so check again.
            room = self._room()
            if room <= 0:
                return result
        is_short = room < wanted_room
        share = max(room // max(len(by_node) + len(self._nodes.in_flight), 1), 1)
        for node_id, states in by_node.items():
            send = self._fetch(node_id, states, share, is_short, now)
            if send is not None:
                result.sends.append(send)
        return result

    def is_full(self) -> bool:
        """Return whether nothing is fetched before the application has read some data.  Any thread."""
        return self._room() <= 0

    def _room(self) -> int:
        return self._options.queued_max_bytes - self.buffer.size_bytes

    def _drop_paused(self, wanted_bytes: int) -> None:
        """Drop data of paused partitions, the largest first; it is fetched again when they are resumed."""
        size_of = self.buffer.bytes_of
        held = [
            partition for partition in self._paused if partition in self.table.states and size_of(partition)
        ]
        for partition in sorted(sorted(held), key=size_of, reverse=True):
            if wanted_bytes <= 0:
                return
            wanted_bytes -= size_of(partition)
            state = self.table.states[partition]
            items = [
                item
                for item in self.buffer.remove_for_refetch(partition)
                if item.generation == state.generation
            ]
            if items:
                # A response in flight belongs to a later offset, and will be dropped.
                state.offset, state.epoch = items[0].offset, -1
                state.is_stopped = False
                self.table.changes += 1

    def _idle_by_leader(self, now: float, result: PollResult) -> dict[int, list[FetchState]]:
        """Return the fetchable partitions by leader, for leaders that are reachable and have no fetch in
        flight."""
        groups, in_flight = self._partitions_by_node, self._nodes.in_flight
        if groups.as_of != self.table.changes or groups.snapshot is not self._metadata.snapshot:
            groups = self._partitions_by_node = self._group_by_leader(now, result)
        idle: dict[int, list[FetchState]] = {}
        for node_id, states in groups.by_node.items():
            if node_id in in_flight:
                continue
            not_before = self._nodes.not_before.get(node_id, now)
            if now < not_before:
                result.wake_at = min(result.wake_at, not_before)
            elif self._cluster.router.is_ready(node_id, now):
                idle[node_id] = states
        return idle

    def _group_by_leader(self, now: float, result: PollResult) -> PartitionsByNode:
        """Return the fetchable partitions by leader.  The result is valid until the table or the metadata
        changes, unless it depends on time."""
        snapshot, paused = self._metadata.snapshot, self._paused
        groups = PartitionsByNode(self.table.changes, snapshot)
        self.table.moved.clear()  # with new lists, the next fetch names all partitions
        by_node, topics, nodes = groups.by_node, snapshot.topics, snapshot.nodes
        for state in self.table.states.values():
            if state.is_stopped or state.partition in paused:
                continue
            if now < state.not_before:
                groups.as_of = DEPENDS_ON_TIME
                result.wake_at = min(result.wake_at, state.not_before)
                continue
            topic, number = state.partition
            known = topics.get(topic)
            info = known.partitions.get(number) if known is not None else None
            if known is None or info is None or info.leader not in nodes:
                groups.as_of = DEPENDS_ON_TIME
                self._seek_leader(state, now, result)
            elif known.topic_id != state.topic_id and ZERO_UUID not in (known.topic_id, state.topic_id):
                self._stop_at_new_topic(state)
            elif state.replica < 0:
                by_node.setdefault(info.leader, []).append(state)
            else:
                groups.as_of = DEPENDS_ON_TIME
                by_node.setdefault(self._node_for(state, info, now), []).append(state)
        return groups

    def _node_for(self, state: FetchState, info: PartitionInfo, now: float) -> int:
        """Return the follower that the leader prefers while it can be reached, otherwise the leader."""
        if (
            now >= state.replica_until
            or self._metadata.node(state.replica) is None
            or self._cluster.router.connection_failed_recently(state.replica)
        ):
            state.leave_replica()
            return info.leader
        return state.replica

    def _stop_at_new_topic(self, state: FetchState) -> None:
        error = NoOffsetForPartition(
            f"{state.partition}: the topic was deleted and created again, so offset {state.offset} of the "
            "old topic is invalid"
        )
        self.table.recreated.add(state.partition)
        self.table.stop(state, error, is_new_topic=True)

    def _seek_leader(self, state: FetchState, now: float, result: PollResult) -> None:
        if self._metadata.topic(state.partition.topic) is not None:
            self._metadata.request_update()
            state.not_before = now + state.backoff.next()
            result.wake_at = min(result.wake_at, state.not_before)

    def ends_as_of(self, partition: TopicPartition) -> float | None:
        """Return when a response had or confirmed the ends of a partition; None before one. Any thread."""
        at = self.table.ends_as_of.get(partition)
        return None if at is None else max(at, self._nodes.ends_confirmed_at(partition))

    # ------------------------------------------------------------------ one fetch

    def _fetch(
        self, node_id: int, states: list[FetchState], share: int, is_short: bool, now: float
    ) -> Send[FetchResponse] | None:
        made = self._requests.make(node_id, states, share, is_short, now)
        if made is None:
            return None
        request, flight = made
        self._nodes.in_flight[node_id] = flight
        self.fetches += 1
        return Send(
            request,
            ToNode(node_id),
            partial(self._on_response, flight),
            partial(self._on_failure, flight),
            timeout=self._options.request_timeout + flight.max_wait,
            max_version=None if flight.has_ids else FIRST_VERSION_WITH_IDS - 1,
        )

    def _on_response(self, flight: FetchInFlight, response: FetchResponse, now: float) -> None:
        if not self._nodes.end_fetch(flight):
            return
        session = self._nodes.session(flight.node_id)
        if response.error_code:
            error = error_of(response.error_code)
            session.on_failure(error)
            if not (flight.is_incremental and isinstance(error, SESSION_ERRORS)):
                self._on_node_error(flight, error, now)
            elif error.refresh_metadata:
                self._metadata.request_update(error)
            return
        session.on_answer(response.session_id)
        self._nodes.on_success(flight, now)
        is_fruitful = False
        total_bytes = 0
        for topic in response.responses:
            name = topic.topic or flight.names.get(topic.topic_id, "")
            size_bytes = 0
            for partition in topic.partitions:
                size_bytes += len(partition.records or b"")
                place = name, partition.partition_index
                session.on_partition(place, partition)
                state, offset = flight.fetched.get(place, (None, 0))
                if state is None:
                    continue
                if self.table.states.get(state.partition) is not state or state.offset != offset:
                    is_fruitful = True  # it is now fetched from another offset, without a delay
                    continue
                self._responses.apply(state, offset, partition, response.node_endpoints, now)
                is_fruitful = is_fruitful or state.offset > offset
            if size_bytes:
                self.topics[name].sizes.add((size_bytes,))
                total_bytes += size_bytes
        if total_bytes:
            self._sizes.add((total_bytes,))
        if self.table.without_end and flight.is_incremental:
            self._find_ends(flight, session, now)
        if is_fruitful:
            # A waiting poll() can continue while the next fetch is being written.
            self._cluster.driver.tell_waiters()
        else:
            self._nodes.on_empty_response(flight)

    def _find_ends(self, flight: FetchInFlight, session: FetchSession, now: float) -> None:
        """Find the ends of partitions that were revoked and assigned again within one session.

        The response leaves them out if nothing has changed since.
        """
        for partition in tuple(self.table.without_end):
            state, _ = flight.fetched.get(partition, (None, 0))
            ends = session.ends.get(partition)
            if ends is not None and state is not None and self.table.states.get(partition) is state:
                self._responses.note_ends(partition, *ends, now)

    def _on_failure(self, flight: FetchInFlight, error: KafkaError, now: float) -> None:
        if not self._nodes.end_fetch(flight):
            return
        self._nodes.session(flight.node_id).on_failure(error)
        for state, _ in flight.fetched.values():
            if state.replica == flight.node_id:
                state.leave_replica()
                self.table.changes += 1
        self._on_node_error(flight, error, now)

    def _on_node_error(self, flight: FetchInFlight, error: KafkaError, now: float) -> None:
        states = [
            state for state, _ in flight.fetched.values() if self.table.states.get(state.partition) is state
        ]
        if error.retriable or isinstance(error, UnknownServerError):  # as for the error of one partition
            if error.refresh_metadata:
                self._metadata.request_update(error)
            self._nodes.on_failure(flight.node_id, now)
            for state in states:
                self.table.troubles[state.partition] = f"node {flight.node_id}: {error}"
            return
        for state in states:
            self.table.stop(state, error)
