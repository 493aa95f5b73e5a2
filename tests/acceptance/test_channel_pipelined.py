"""The pipelined channel's table, row by row, and a produce behind a held one."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pykafka2.broker.server.channel import SERIAL_MOVES, Channel, ChannelEvent, ChannelState
from pykafka2.errors import IllegalTransition
from pykafka2.protocol.messages.produce import ProduceRequest
from pykafka2.testing import KafkaCluster
from tests.broker.support.batches import batch
from tests.broker.support.data_requests import partition_of, produce_request
from tests.broker.support.raw_client import RawClient

S, E = ChannelState, ChannelEvent
PENDING = S.MUTED_AND_RESPONSE_PENDING
CACHED = S.REQCACHED_AND_RESPONSE_PENDING
PROCESSING = S.REQPROCESSING_AND_REQCACHED_AND_RESPONSE_PENDING

PLAIN = {
    **SERIAL_MOVES,
    (PENDING, E.REQUEST_LOCAL_PROCESSED): CACHED,
    (CACHED, E.REQUEST_RECEIVED): PROCESSING,
    (CACHED, E.RESPONSE_SENT): CACHED,
    (CACHED, E.LAST_RESPONSE_SENT): S.MUTED,
    (PROCESSING, E.REQUEST_LOCAL_PROCESSED): CACHED,
    (PROCESSING, E.RESPONSE_SENT): PROCESSING,
    (PROCESSING, E.LAST_RESPONSE_SENT): PENDING,
}
# What throttling makes of a state; everything that may happen to the one may happen to the other.
THROTTLED = {
    S.MUTED: S.MUTED_AND_THROTTLED,
    PENDING: S.MUTED_AND_THROTTLED_AND_RESPONSE_PENDING,
    CACHED: S.MUTED_AND_THROTTLED_AND_REQCACHED,
    PROCESSING: S.MUTED_AND_THROTTLED_AND_REQPROCESSING,
}


def expected() -> dict[tuple[ChannelState, ChannelEvent], ChannelState]:
    table = dict(PLAIN)
    for plain, throttled in THROTTLED.items():
        if plain is not S.MUTED:
            table[plain, E.THROTTLE_STARTED] = throttled
        table[throttled, E.THROTTLE_ENDED] = plain
    for (before, event), after in PLAIN.items():
        throttles = event in (E.THROTTLE_STARTED, E.THROTTLE_ENDED)
        # Nothing is read and nothing is unmuted while throttled.
        if before in THROTTLED and not throttles and event not in (E.REQUEST_RECEIVED, E.UNMUTED):
            table[THROTTLED[before], event] = THROTTLED[after]
    return table


@pytest.mark.parametrize("state", list(S))
@pytest.mark.parametrize("event", list(E))
def test_every_state_and_event_moves_by_the_table_or_raises(state: ChannelState, event: ChannelEvent) -> None:
    channel = Channel(pipelined=True)
    channel.state = state
    if (state, event) in expected():
        channel.move(event)
        assert channel.state is expected()[state, event]
    else:
        with pytest.raises(IllegalTransition):
            channel.move(event)
        assert channel.state is state


@pytest.mark.kafka(brokers=2, topics={"t": 1})
def test_the_next_produce_is_appended_before_the_first_is_answered(
    kafka_cluster: KafkaCluster, leader: Callable[[str, int], RawClient], wait_for: Callable[..., None]
) -> None:
    kafka_cluster.controls.pause_followers()
    wire = leader("t", 0)
    for value in (b"1", b"2", b"3"):
        wire.send(produce_request("t", 0, batch([value])), 12)
    wait_for(lambda: kafka_cluster.log("t", 0).values() == [b"1", b"2", b"3"])
    entries = kafka_cluster.history.entries("Produce")
    assert [entry.answered_at for entry in entries] == [None, None, None]
    assert kafka_cluster.history.in_flight_max("Produce") == 3
    kafka_cluster.controls.resume_followers()
    assert [partition_of(wire.receive(ProduceRequest, 12)[1]).base_offset for _ in range(3)] == [0, 1, 2]
