"""Builds fetch requests for partitions with room in the buffer, in turns, as changes of the fetch session.

Used on the driver's thread by fetcher.py. Performance-critical: runs for every fetch, which can have a
thousand partitions.
"""

from __future__ import annotations

from pykafka2.cluster.metadata import Metadata
from pykafka2.consumer.fetch.brokers import FetchNodes, SessionKey
from pykafka2.consumer.fetch.buffer import FetchBuffer
from pykafka2.consumer.fetch.partitions import FRUITLESS_GAP, FetchInFlight, FetchState, FetchTable
from pykafka2.consumer.options import ConsumerOptions
from pykafka2.protocol.messages.fetch import FetchPartition, FetchRequest, ReplicaState
from pykafka2.protocol.primitives import ZERO_UUID
from pykafka2.slotted import slotted

NO_REPLICA = ReplicaState()
"""Marks the fetch of a consumer.  Shared by all requests, so it must not be changed."""
# While partitions are left out for lack of room, the next fetch must be sent sooner than fetch_max_wait_ms.
WAIT_WHILE_OTHERS_ARE_FULL = 0.05


@slotted(eq=False)
class _LastFetch:
    """The entries of the last fetch from a node."""

    states: list[FetchState]
    """The fetcher's list itself, which is replaced by another one when anything changes."""
    entries: dict[SessionKey, FetchPartition]
    flight: FetchInFlight


class FetchRequests:
    """Builds the fetch requests of one consumer."""

    def __init__(
        self,
        options: ConsumerOptions,
        metadata: Metadata,
        buffer: FetchBuffer,
        table: FetchTable,
        nodes: FetchNodes,
    ) -> None:
        self._options = options
        self._isolation = options.isolation
        self._metadata = metadata
        self._buffer = buffer
        self._table = table
        self._nodes = nodes
        self._last: dict[int, _LastFetch] = {}

    def make(
        self, node_id: int, states: list[FetchState], max_bytes: int, is_short: bool, now: float
    ) -> tuple[FetchRequest, FetchInFlight] | None:
        """Return a fetch of these partitions, of `max_bytes` at most; None if none of them has room.

        `is_short` is True if the buffer as a whole is at least half full.
        """
        options = self._options
        wanted = self._with_room(states, is_short)
        if not wanted:
            self._buffer.notify_when_drained()
            wanted = self._with_room(states, is_short)  # data can have been removed between the two calls
            if not wanted:
                return None
        max_wait = options.fetch_max_wait
        if len(wanted) < len(states):
            max_wait = min(max_wait, WAIT_WHILE_OTHERS_ARE_FULL)
        flight = FetchInFlight(node_id, max_wait, now + min(max_wait, FRUITLESS_GAP))
        session = self._nodes.session(node_id)
        last = self._last.get(node_id)
        if last is not None and last.states is wanted and session.is_incremental:
            # Only moved partitions are named; the broker takes turns among the others.
            entries, before = last.entries, last.flight
            flight.has_ids, flight.names, flight.fetched = before.has_ids, before.names, before.fetched
            changed = self._entries(self._take_moved(flight), flight)
            entries.update(changed)
        else:
            changed = None
            entries = self._entries(self._in_turn(node_id, wanted), flight)
            self._take_moved(flight)
            self._last[node_id] = _LastFetch(wanted, entries, flight)
        request = FetchRequest(
            max_wait_ms=int(max_wait * 1000),
            min_bytes=options.fetch_min_bytes,
            max_bytes=min(options.fetch_max_bytes, max_bytes),
            isolation_level=self._isolation,
            topics=[],
            rack_id=options.client_rack,
            replica_state=NO_REPLICA,
        )
        session.fill(request, entries, has_ids=flight.has_ids, changed=changed)
        flight.is_incremental = session.is_incremental
        return request, flight

    def _in_turn(self, node_id: int, states: list[FetchState]) -> list[FetchState]:
        turn = self._nodes.next_turn(node_id, len(states))
        return states[turn:] + states[:turn] if turn else states

    def _take_moved(self, flight: FetchInFlight) -> list[FetchState]:
        """Return the flight's partitions whose offsets have moved, and mark them as sent."""
        moved, fetched = self._table.moved, flight.fetched
        mine = [state for state in moved if (known := fetched.get(state.partition)) and known[0] is state]
        for state in mine:
            del moved[state]
        return mine

    def _entries(self, states: list[FetchState], flight: FetchInFlight) -> dict[SessionKey, FetchPartition]:
        """Return the request's entries for these partitions, and record them in the flight."""
        max_bytes, fetched = self._options.max_partition_fetch_bytes, flight.fetched
        topics = self._metadata.snapshot.topics
        entries: dict[SessionKey, FetchPartition] = {}
        for state in states:
            topic, number = partition = state.partition
            known = topics.get(topic)
            leader_epoch, topic_id = -1, ZERO_UUID
            if known is not None:
                topic_id = known.topic_id
                info = known.partitions.get(number)
                if info is not None:
                    leader_epoch = info.leader_epoch
            if topic_id == ZERO_UUID:
                flight.has_ids = False
            else:
                state.topic_id = topic_id
                flight.names[topic_id] = topic
            entries[topic, topic_id, number] = state.entry(leader_epoch, max_bytes)
            fetched[partition] = (state, state.offset)
        return entries

    def _with_room(self, states: list[FetchState], is_short: bool) -> list[FetchState]:
        """Return the partitions that use less than their share of the buffer.

        If room is short, only those without data in the buffer, so that data of others cannot starve them.
        """
        options, bytes_of = self._options, self._buffer.bytes_of
        if is_short:
            return [state for state in states if not bytes_of(state.partition)]
        limit = max(options.max_partition_fetch_bytes, options.queued_max_bytes // len(self._table.states))
        if self._buffer.size_bytes < limit:
            return states
        return [state for state in states if bytes_of(state.partition) < limit]
