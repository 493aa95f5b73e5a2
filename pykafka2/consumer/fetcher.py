"""Fetches ahead of the application: one fetch in flight per broker, within a budget of bytes.

Owned by the driver's thread, which polls it; the consumer speaks to it by commands, it answers through the
fetch buffer.  Each partition has its own place in the log here, ahead of the application's position; a
generation, drawn anew at each seek or assignment, tells what belongs to which.  Neighbours: fetch_buffer.py,
positions.py (resets).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from pykafka2.backoff import Backoff
from pykafka2.clock import FOREVER
from pykafka2.cluster.client import ClusterClient
from pykafka2.consumer.fetch_buffer import FetchBuffer
from pykafka2.consumer.fetch_session import FetchSession
from pykafka2.consumer.fetch_state import FetchState, Flight
from pykafka2.consumer.fetched import FetchedData, Problem
from pykafka2.consumer.options import ConsumerOptions
from pykafka2.consumer.positions import LATEST_TIMESTAMP, OffsetLookups, Question
from pykafka2.driver.pollable import PollResult, Send, ToNode
from pykafka2.errors import (
    CorruptMessage,
    FetchSessionIdNotFound,
    FetchSessionTopicIdError,
    InconsistentTopicId,
    InvalidFetchSessionEpoch,
    KafkaError,
    LogTruncated,
    NoOffsetForPartition,
    OffsetOutOfRange,
    UnknownServerError,
    error_of,
)
from pykafka2.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from pykafka2.protocol.primitives import ZERO_UUID
from pykafka2.types import Node, OffsetAndTimestamp, PartitionInfo, TopicPartition

# Topic ids instead of names (KIP-516); a cluster too old to name ids in its metadata is spoken to in names.
FIRST_VERSION_WITH_IDS = 13
# A broker that could send more than there is room for is asked again soon, not after fetch_max_wait_ms.
WAIT_WHILE_OTHERS_ARE_FULL = 0.05
# After these errors of an incremental fetch a full one is due, at once.
SESSION_ERRORS = (
    FetchSessionIdNotFound,
    InvalidFetchSessionEpoch,
    FetchSessionTopicIdError,
    InconsistentTopicId,
)
# An answer that brings nothing usable is not asked for again sooner than so long after it was asked for.
FRUITLESS_GAP = 0.1
# Nor is what the application could not read; it costs two fetches, its own and the one ahead of it.
UNREADABLE_GAP = 0.2


class Fetcher:
    """Keeps the fetch buffer filled (a `Pollable`)."""

    def __init__(
        self, options: ConsumerOptions, cluster: ClusterClient, buffer: FetchBuffer, lookups: OffsetLookups
    ) -> None:
        self._options = options
        self._cluster = cluster
        self._metadata = cluster.metadata
        self._buffer = buffer
        self._lookups = lookups
        self._states: dict[TopicPartition, FetchState] = {}
        self._generations: dict[TopicPartition, int] = {}
        self._paused: set[TopicPartition] = set()
        self._in_flight: dict[int, Flight] = {}
        self._first: dict[int, int] = {}
        self._sessions: dict[int, FetchSession] = {}
        self._misses: dict[TopicPartition, Backoff] = {}
        """Counts fetches in a row that were out of range, over the resets between them."""
        self._reset_not_before: dict[TopicPartition, float] = {}
        """When an offset that was refused is asked for again at the earliest."""
        self._node_backoffs: dict[int, Backoff] = {}
        self._node_not_before: dict[int, float] = {}
        self.high_watermarks: dict[TopicPartition, int] = {}
        """The end of each partition as of its last fetch; single entries may be read from any thread."""
        self.readable_ends: dict[TopicPartition, int] = {}
        """How far records may be read: the same, or with read_committed the last stable offset."""
        self.troubles: dict[TopicPartition, str] = {}
        """Why the last fetch of a partition brought nothing usable, until one does."""
        self.made_anew: set[TopicPartition] = set()
        """Partitions whose topic was deleted and made anew while they were read."""
        self.fetches = 0

    # ------------------------------------------------------------------ commands

    def begin(self, partition: TopicPartition, generation: int, offset: int, epoch: int = -1) -> None:
        """Fetch from this offset on; what was fetched for an earlier generation no longer counts.

        `epoch` is the leader epoch of the record before it, -1 if that is not known.
        """
        old = self._states.get(partition)
        state = FetchState(partition, generation, offset, self._new_backoff(), epoch)
        if old is not None and old.generation == generation:
            # The application has met a problem and tries again.
            not_before = max(old.not_before, self._cluster.driver.clock.monotonic() + UNREADABLE_GAP)
            state.topic_id, state.backoff, state.not_before = old.topic_id, old.backoff, not_before
        else:
            state.topic_id = self._metadata.topic_id(partition.topic)
        self._generations[partition] = generation
        self._states[partition] = state

    def reset(self, partition: TopicPartition, generation: int, timestamp: int) -> None:
        """Find the offset at this time, tell the buffer, and begin there."""
        self._states.pop(partition, None)
        self._generations[partition] = generation
        self._ask_for_reset(partition, generation, timestamp)

    def _ask_for_reset(
        self, partition: TopicPartition, generation: int, timestamp: int, end: int | None = None
    ) -> None:
        self._lookups.ask(
            Question(
                partition,
                timestamp,
                on_found=partial(self._on_reset, partition, generation, timestamp, end),
                on_failed=partial(self._on_reset_failed, partition, generation),
                not_before=self._reset_not_before.get(partition, -FOREVER),
            )
        )

    def end(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop fetching these partitions."""
        for partition in partitions:
            self._states.pop(partition, None)
            self._generations.pop(partition, None)
            self._paused.discard(partition)
            self.made_anew.discard(partition)
            self._misses.pop(partition, None)
            self._reset_not_before.pop(partition, None)
            self.high_watermarks.pop(partition, None)
            self.readable_ends.pop(partition, None)
            self.troubles.pop(partition, None)

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        self._paused.update(partitions)

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        self._paused.difference_update(partitions)

    def rediscover(self, partition: TopicPartition) -> None:
        """Begin anew with the brokers that this partition may be read from, as if they were met just now."""
        info, state = self._metadata.partition(*partition), self._states.get(partition)
        self._metadata.request_update()
        for node_id in {info.leader if info else -1, state.replica if state else -1}:
            self._in_flight.pop(node_id, None)
            self._sessions.pop(node_id, None)
            self._node_backoffs.pop(node_id, None)
            self._node_not_before.pop(node_id, None)

    # ------------------------------------------------------------------ the driver's turn

    def poll(self, now: float) -> PollResult:
        result = PollResult.idle()
        if not self._states:
            return result
        by_node = self._idle_by_leader(now, result)
        if not by_node:
            return result
        room = self._room()
        wanted_room = self._options.queued_max_bytes // 2
        if room < wanted_room:
            self._put_back_paused(wanted_room - room)
            self._buffer.ask_for_room()
            # The application may have made room between the two: then nobody would wake us.
            room = self._room()
            if room <= 0:
                return result
        is_short = room < wanted_room
        share = max(room // max(len(by_node) + len(self._in_flight), 1), 1)
        for node_id, states in by_node.items():
            send = self._fetch(node_id, states, share, is_short, now)
            if send is not None:
                result.sends.append(send)
        return result

    def _room(self) -> int:
        return self._options.queued_max_bytes - self._buffer.size_bytes

    def _put_back_paused(self, wanted_bytes: int) -> None:
        """Give up data of paused partitions, the largest first: it is fetched again when they are resumed."""
        size_of = self._buffer.bytes_of
        held = [partition for partition in self._paused if partition in self._states and size_of(partition)]
        for partition in sorted(sorted(held), key=size_of, reverse=True):
            if wanted_bytes <= 0:
                return
            wanted_bytes -= size_of(partition)
            state = self._states[partition]
            mine = [one for one in self._buffer.put_back(partition) if one.generation == state.generation]
            if mine:
                # An answer under way was asked for behind this place, and will be dropped.
                state.offset, state.epoch = mine[0].offset, -1
                state.is_stopped = False

    def _idle_by_leader(self, now: float, result: PollResult) -> dict[int, list[FetchState]]:
        """What could be fetched now, by leaders that have no fetch in flight and can be reached."""
        by_node: dict[int, list[FetchState]] = {}
        leader_of = self._metadata.leader_of
        for state in self._states.values():
            if state.is_stopped or state.partition in self._paused:
                continue
            if now < state.not_before:
                result.wake_at = min(result.wake_at, state.not_before)
                continue
            info = leader_of(*state.partition)
            if info is None:
                self._seek_leader(state, now, result)
            elif self._is_of_another_topic(state):
                self._stop_at_new_topic(state)
            else:
                node_id = self._node_for(state, info, now)
                if node_id not in self._in_flight:
                    by_node.setdefault(node_id, []).append(state)
        return {node_id: states for node_id, states in by_node.items() if self._is_free(node_id, now, result)}

    def _node_for(self, state: FetchState, info: PartitionInfo, now: float) -> int:
        """The leader, or the follower that it named, while that can be reached."""
        if state.replica < 0:
            return info.leader
        if (
            now >= state.replica_until
            or self._metadata.node(state.replica) is None
            or self._cluster.router.connection_failed_recently(state.replica)
        ):
            state.leave_replica()
            return info.leader
        return state.replica

    def _is_of_another_topic(self, state: FetchState) -> bool:
        topic_id = self._metadata.topic_id(state.partition.topic)
        return topic_id != state.topic_id and ZERO_UUID not in (topic_id, state.topic_id)

    def _stop_at_new_topic(self, state: FetchState) -> None:
        error = NoOffsetForPartition(
            f"{state.partition}: the topic was deleted and made anew, so offset {state.offset} of the old "
            "one means nothing in it"
        )
        self.made_anew.add(state.partition)
        self._stop(state, error, is_new_topic=True)

    def _seek_leader(self, state: FetchState, now: float, result: PollResult) -> None:
        if self._metadata.topic(state.partition.topic) is not None:
            self._metadata.request_update()
            state.not_before = now + state.backoff.next()
            result.wake_at = min(result.wake_at, state.not_before)

    def _is_free(self, node_id: int, now: float, result: PollResult) -> bool:
        not_before = self._node_not_before.get(node_id, -FOREVER)
        if now < not_before:
            result.wake_at = min(result.wake_at, not_before)
            return False
        return self._cluster.router.is_ready(node_id, now)

    # ------------------------------------------------------------------ one fetch

    def _fetch(
        self, node_id: int, states: list[FetchState], share: int, is_short: bool, now: float
    ) -> Send[FetchResponse] | None:
        options = self._options
        wanted = self._with_room(states, is_short)
        if not wanted:
            self._buffer.ask_for_room()
            wanted = self._with_room(states, is_short)  # it may have been made between the two
            if not wanted:
                return None
        max_wait = options.fetch_max_wait
        if len(wanted) < len(states):
            max_wait = min(max_wait, WAIT_WHILE_OTHERS_ARE_FULL)
        flight = Flight(node_id, now + min(max_wait, FRUITLESS_GAP))
        # The one who came first last time comes last now: a broker fills its answer in the order asked.
        turn = self._first.get(node_id, 0) % len(wanted)
        self._first[node_id] = turn + 1
        topics: dict[str, FetchTopic] = {}
        ids_are_known = True
        for state in wanted[turn:] + wanted[:turn]:
            topic, number = state.partition
            topic_id = self._metadata.topic_id(topic)
            state.topic_id = topic_id if topic_id != ZERO_UUID else state.topic_id
            ids_are_known = ids_are_known and topic_id != ZERO_UUID
            info = self._metadata.partition(topic, number)
            told = topics.setdefault(topic, FetchTopic(topic=topic, topic_id=topic_id, partitions=[]))
            told.partitions.append(self._ask(state, info))
            flight.asked[topic, number] = flight.asked[topic_id, number] = (state, state.offset)
        self._in_flight[node_id] = flight
        self.fetches += 1
        request = FetchRequest(
            max_wait_ms=int(max_wait * 1000),
            min_bytes=options.fetch_min_bytes,
            max_bytes=min(options.fetch_max_bytes, share),
            isolation_level=options.isolation,
            topics=list(topics.values()),
            rack_id=options.client_rack,
        )
        session = self._session(node_id)
        session.narrow(request, has_ids=ids_are_known)
        flight.is_incremental = session.is_incremental
        return Send(
            request,
            ToNode(node_id),
            partial(self._on_response, flight),
            partial(self._on_failure, flight),
            timeout=options.request_timeout + max_wait,
            max_version=None if ids_are_known else FIRST_VERSION_WITH_IDS - 1,
        )

    def _with_room(self, states: list[FetchState], is_short: bool) -> list[FetchState]:
        """Those that do not fill more than their share of the buffer already.

        When room is short, those with nothing there at all: what waits of others must not keep them out.
        """
        options, bytes_of = self._options, self._buffer.bytes_of
        if is_short:
            return [state for state in states if not bytes_of(state.partition)]
        limit = max(options.max_partition_fetch_bytes, options.queued_max_bytes // len(self._states))
        return [state for state in states if bytes_of(state.partition) < limit]

    def _ask(self, state: FetchState, info: PartitionInfo | None) -> FetchPartition:
        return FetchPartition(
            partition=state.partition.partition,
            current_leader_epoch=info.leader_epoch if info is not None else -1,
            fetch_offset=state.offset,
            last_fetched_epoch=state.epoch,
            partition_max_bytes=self._options.max_partition_fetch_bytes,
        )

    def _session(self, node_id: int) -> FetchSession:
        session = self._sessions.get(node_id)
        if session is None:
            session = FetchSession(is_wanted=self._options.enable_incremental_fetch_sessions)
            self._sessions[node_id] = session
        return session

    def _has_landed(self, flight: Flight) -> bool:
        """True for the answer that is waited for; not so where the broker was given up meanwhile."""
        if self._in_flight.get(flight.node_id) is not flight:
            return False
        del self._in_flight[flight.node_id]
        return True

    def _on_response(self, flight: Flight, response: FetchResponse, now: float) -> None:
        if not self._has_landed(flight):
            return
        session = self._session(flight.node_id)
        if response.error_code:
            error = error_of(response.error_code)
            session.on_failure(error)
            if not (flight.is_incremental and isinstance(error, SESSION_ERRORS)):
                self._on_node_error(flight, error, now)
            elif error.refresh_metadata:
                self._metadata.request_update(error)
            return
        session.on_answer(response.session_id)
        self._node_backoffs.pop(flight.node_id, None)
        is_fruitful = False
        endpoints = [Node(one.node_id, one.host, one.port, one.rack) for one in response.node_endpoints]
        for topic in response.responses:
            named: bytes | str = topic.topic or topic.topic_id
            for told in topic.partitions:
                state, offset = flight.asked.get((named, told.partition_index), (None, 0))
                if state is None:
                    continue
                if self._states.get(state.partition) is not state or state.offset != offset:
                    is_fruitful = True  # it is to be read from elsewhere by now, and need not wait
                    continue
                self._on_partition(state, offset, told, endpoints, now)
                is_fruitful = is_fruitful or state.offset > offset
        if not is_fruitful:
            self._node_not_before[flight.node_id] = flight.not_again_before

    def _on_failure(self, flight: Flight, error: KafkaError, now: float) -> None:
        if not self._has_landed(flight):
            return
        self._session(flight.node_id).on_failure(error)
        for state, _ in flight.asked.values():
            if state.replica == flight.node_id:
                state.leave_replica()
        self._on_node_error(flight, error, now)

    def _on_node_error(self, flight: Flight, error: KafkaError, now: float) -> None:
        if error.retriable:
            if error.refresh_metadata:
                self._metadata.request_update(error)
            backoff = self._node_backoffs.setdefault(flight.node_id, self._new_backoff())
            self._node_not_before[flight.node_id] = now + backoff.next()
            return
        for state in {id(state): state for state, _ in flight.asked.values()}.values():
            if self._states.get(state.partition) is state:
                self._stop(state, error)

    # ------------------------------------------------------------------ one partition of an answer

    def _on_partition(
        self, state: FetchState, offset: int, told: PartitionData, endpoints: list[Node], now: float
    ) -> None:
        if told.error_code:
            self._on_partition_error(state, offset, told, endpoints, now)
            return
        if told.diverging_epoch.end_offset >= 0:
            self._on_truncation(state, offset, told)
            return
        if told.preferred_read_replica >= 0 and not told.records:
            self._read_from(state, told.preferred_read_replica, now)
            return
        self.high_watermarks[state.partition] = told.high_watermark
        is_bounded = self._options.isolation and told.last_stable_offset >= 0
        self.readable_ends[state.partition] = told.last_stable_offset if is_bounded else told.high_watermark
        if not told.records:
            state.backoff.reset()
            if told.high_watermark <= offset:
                self.troubles.pop(state.partition, None)
            else:
                self.troubles[state.partition] = f"the broker sends no records from offset {offset} on"
            return
        self.troubles.pop(state.partition, None)
        aborted = told.aborted_transactions if self._options.isolation else None
        data = FetchedData(state.partition, state.generation, offset, memoryview(told.records), aborted)
        if data.next_offset <= offset and data.error is None:
            self.troubles[state.partition] = f"the broker sends only records before offset {offset}"
            self._delay(state, now)
            return
        self._misses.pop(state.partition, None)
        if data.next_offset > offset:
            state.backoff.reset()
        state.offset, state.epoch = data.next_offset, data.last_epoch
        # Nothing can be fetched behind what cannot be read: the application must decide.
        state.is_stopped = data.error is not None
        self._buffer.put(data)

    def _on_partition_error(
        self, state: FetchState, offset: int, told: PartitionData, endpoints: list[Node], now: float
    ) -> None:
        error = error_of(
            told.error_code, f"{state.partition} at offset {offset}: {error_of(told.error_code)}"
        )
        self.troubles[state.partition] = str(error)
        if state.leave_replica() and not isinstance(error, CorruptMessage):
            return  # a follower may be behind, or none any more: the leader is asked
        if isinstance(error, CorruptMessage):
            # The broker's own copy is damaged; asking again gives the same.
            self._delay(state, now)
            self._stop(state, error)
            return
        if isinstance(error, OffsetOutOfRange) and state.epoch >= 0:
            # The broker may only know nothing of that epoch: then the offset alone is good enough.
            state.epoch = -1
            return
        if not error.retriable and not isinstance(error, UnknownServerError):
            if isinstance(error, OffsetOutOfRange):
                self._misses.setdefault(state.partition, self._new_backoff()).next()
            else:
                self._delay(state, now)
            self._stop(state, error)
            return
        hint = told.current_leader
        is_news = hint.leader_id >= 0 and self._metadata.update_leader(
            *state.partition, hint.leader_id, hint.leader_epoch, endpoints
        )
        if not is_news:
            if error.refresh_metadata:
                self._metadata.request_update(error)
            self._delay(state, now)

    def _read_from(self, state: FetchState, node_id: int, now: float) -> None:
        """The leader says that another replica is nearer, for as long as metadata is believed."""
        if self._metadata.node(node_id) is None or self._cluster.router.connection_failed_recently(node_id):
            self._metadata.request_update()
            self._delay(state, now)
            return
        state.backoff.reset()
        state.replica, state.replica_until = node_id, now + self._options.metadata_max_age

    def _on_truncation(self, state: FetchState, offset: int, told: PartitionData) -> None:
        """The log does not hold what was read last: it was cut, and perhaps written anew from there on."""
        end = told.diverging_epoch
        error = LogTruncated(
            f"{state.partition}: the log was truncated to offset {min(end.end_offset, offset)} after records "
            f"up to {offset} (leader epoch {state.epoch}) had been fetched"
        )
        error.offset, error.leader_epoch = min(end.end_offset, offset), end.epoch
        self._stop(state, error)

    def _delay(self, state: FetchState, now: float) -> None:
        state.not_before = now + max(state.backoff.next(), FRUITLESS_GAP)

    def _stop(self, state: FetchState, error: KafkaError, *, is_new_topic: bool = False) -> None:
        state.is_stopped = True
        self._buffer.put(Problem(state.partition, state.generation, state.offset, error, is_new_topic))

    # ------------------------------------------------------------------ resets

    def _on_reset(
        self,
        partition: TopicPartition,
        generation: int,
        timestamp: int,
        end: int | None,
        found: OffsetAndTimestamp | None,
        now: float,
    ) -> None:
        if self._generations.get(partition) != generation:
            return  # the application has moved on
        if found is None and timestamp >= 0:
            if end is None:
                self._ask_for_end(partition, generation, timestamp)
                return
            found = OffsetAndTimestamp(end, timestamp)
        if found is None:
            error = NoOffsetForPartition(f"{partition}: the broker names no offset to begin at")
            self._on_reset_failed(partition, generation, error, now)
            return
        self.begin(partition, generation, found.offset)
        misses = self._misses.get(partition)
        if misses is not None and misses.attempts > 1:
            # The offset that the broker named last time was out of its range.
            self._states[partition].not_before = now + max(misses.delay(misses.attempts - 2), FRUITLESS_GAP)
        self._buffer.put_reset(partition, generation, found.offset)

    def _ask_for_end(self, partition: TopicPartition, generation: int, timestamp: int) -> None:
        """No record is that young: begin at the end, but at one that was written just now if there is one.

        So the time is asked for again after the end; between the two orders only this one skips nothing.
        """

        def on_found(found: OffsetAndTimestamp | None, now: float) -> None:
            if self._generations.get(partition) == generation:
                self._ask_for_reset(partition, generation, timestamp, found.offset if found else 0)

        failed = partial(self._on_reset_failed, partition, generation)
        self._lookups.ask(Question(partition, LATEST_TIMESTAMP, on_found, failed))

    def _on_reset_failed(
        self, partition: TopicPartition, generation: int, error: KafkaError, now: float
    ) -> None:
        if self._generations.get(partition) == generation:
            self._reset_not_before[partition] = now + FRUITLESS_GAP
            self._buffer.put(Problem(partition, generation, -1, error))

    def _new_backoff(self) -> Backoff:
        options = self._options
        return Backoff(options.retry_backoff, options.retry_backoff_max, self._cluster.driver.entropy.random)
