"""Builds fetch requests: the partitions with room in the buffer, in turns, as changes of the session.

Driver's thread, within fetcher.py.  Hot: once for every fetch, which may have a thousand partitions.
"""

from __future__ import annotations

import attrs

from pykafka2.cluster.metadata import Metadata
from pykafka2.consumer.fetch.brokers import FetchNodes, SessionKey
from pykafka2.consumer.fetch.buffer import FetchBuffer
from pykafka2.consumer.fetch.partitions import FRUITLESS_GAP, FetchState, FetchTable, Flight
from pykafka2.consumer.options import ConsumerOptions
from pykafka2.protocol.messages.fetch import FetchPartition, FetchRequest
from pykafka2.protocol.primitives import ZERO_UUID

# A broker that could send more than there is room for is asked again soon, not after fetch_max_wait_ms.
WAIT_WHILE_OTHERS_ARE_FULL = 0.05


@attrs.define(eq=False)
class _Said:
    """The last entries that were sent to a node."""

    states: list[FetchState]
    """The very list that the fetcher gave: it makes another one as soon as anything has changed."""
    asked: dict[SessionKey, FetchPartition]
    flight: Flight


class FetchRequests:
    """Makes the requests of one consumer."""

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
        self._last: dict[int, _Said] = {}

    def make(
        self, node_id: int, states: list[FetchState], max_bytes: int, is_short: bool, now: float
    ) -> tuple[FetchRequest, Flight] | None:
        """A fetch of these partitions, of `max_bytes` at most; None where none of them has room.

        `is_short` says that the buffer as a whole is half full.
        """
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
        flight = Flight(node_id, max_wait, now + min(max_wait, FRUITLESS_GAP))
        session = self._nodes.session(node_id)
        last = self._last.get(node_id)
        if last is not None and last.states is wanted and session.is_incremental:
            # Only what has moved is named; the broker sees to the turns of the others.
            asked, before = last.asked, last.flight
            flight.has_ids, flight.names, flight.asked = before.has_ids, before.names, before.asked
            changed = self._name(self._take_moved(flight), flight)
            asked.update(changed)
        else:
            changed = None
            asked = self._name(self._in_turn(node_id, wanted), flight)
            self._take_moved(flight)
            self._last[node_id] = _Said(wanted, asked, flight)
        request = FetchRequest(
            max_wait_ms=int(max_wait * 1000),
            min_bytes=options.fetch_min_bytes,
            max_bytes=min(options.fetch_max_bytes, max_bytes),
            isolation_level=self._isolation,
            topics=[],
            rack_id=options.client_rack,
        )
        session.fill(request, asked, has_ids=flight.has_ids, changed=changed)
        flight.is_incremental = session.is_incremental
        return request, flight

    def _in_turn(self, node_id: int, states: list[FetchState]) -> list[FetchState]:
        turn = self._nodes.next_turn(node_id, len(states))
        return states[turn:] + states[:turn] if turn else states

    def _take_moved(self, flight: Flight) -> list[FetchState]:
        """Those of the flight's partitions whose places have moved."""
        moved, asked = self._table.moved, flight.asked
        mine = [state for state in moved if (known := asked.get(state.partition)) and known[0] is state]
        for state in mine:
            del moved[state]
        return mine

    def _name(self, states: list[FetchState], flight: Flight) -> dict[SessionKey, FetchPartition]:
        """These partitions for the request; the flight notes them."""
        most_bytes, noted = self._options.max_partition_fetch_bytes, flight.asked
        topics = self._metadata.snapshot.topics
        asked: dict[SessionKey, FetchPartition] = {}
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
            asked[topic, topic_id, number] = state.ask(leader_epoch, most_bytes)
            noted[partition] = (state, state.offset)
        return asked

    def _with_room(self, states: list[FetchState], is_short: bool) -> list[FetchState]:
        """Those that do not fill more than their share of the buffer already.

        When room is short, those with nothing there at all: what waits of others must not keep them out.
        """
        options, bytes_of = self._options, self._buffer.bytes_of
        if is_short:
            return [state for state in states if not bytes_of(state.partition)]
        limit = max(options.max_partition_fetch_bytes, options.queued_max_bytes // len(self._table.states))
        if self._buffer.size_bytes < limit:
            return states
        return [state for state in states if bytes_of(state.partition) < limit]
