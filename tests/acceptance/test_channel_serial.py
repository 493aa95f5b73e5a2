"""The serial channel is Apache's, state by state and event by event, and reads one request at a time.

The table repeats KafkaChannel.mute, handleChannelMuteEvent and maybeUnmute of 4.3.1 by hand; a response there
is always the last one.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pykafka2.broker.server.channel import READABLE_STATES, Channel, ChannelEvent, ChannelState
from pykafka2.errors import IllegalTransition
from pykafka2.protocol.messages.produce import ProduceRequest
from pykafka2.testing import KafkaCluster
from tests.broker.support.batches import batch
from tests.broker.support.data_requests import partition_of, produce_request
from tests.broker.support.raw_client import RawClient

S, E = ChannelState, ChannelEvent
PENDING = S.MUTED_AND_RESPONSE_PENDING
THROTTLED = S.MUTED_AND_THROTTLED
THROTTLED_PENDING = S.MUTED_AND_THROTTLED_AND_RESPONSE_PENDING

APACHE = {
    # mute: a complete receive
    (S.NOT_MUTED, E.MUTED): S.MUTED,
    # REQUEST_RECEIVED
    (S.MUTED, E.REQUEST_RECEIVED): PENDING,
    # RESPONSE_SENT
    (PENDING, E.LAST_RESPONSE_SENT): S.MUTED,
    (THROTTLED_PENDING, E.LAST_RESPONSE_SENT): THROTTLED,
    # THROTTLE_STARTED
    (PENDING, E.THROTTLE_STARTED): THROTTLED_PENDING,
    # THROTTLE_ENDED
    (THROTTLED, E.THROTTLE_ENDED): S.MUTED,
    (THROTTLED_PENDING, E.THROTTLE_ENDED): PENDING,
    # maybeUnmute
    (S.MUTED, E.UNMUTED): S.NOT_MUTED,
}


@pytest.mark.parametrize("state", list(S))
@pytest.mark.parametrize("event", list(E))
def test_every_state_and_event_is_apaches(state: ChannelState, event: ChannelEvent) -> None:
    channel = Channel(pipelined=False)
    channel.state = state
    if (state, event) in APACHE:
        channel.move(event)
        assert channel.state is APACHE[state, event]
    else:
        with pytest.raises(IllegalTransition):
            channel.move(event)
        assert channel.state is state


def test_complete_request_mutes_the_channel_before_it_is_received(monkeypatch: pytest.MonkeyPatch) -> None:
    channel = Channel(pipelined=False)
    events: list[ChannelEvent] = []
    move = Channel.move

    def recorded(self: Channel, event: ChannelEvent) -> None:
        events.append(event)
        move(self, event)

    monkeypatch.setattr(Channel, "move", recorded)
    channel.receive(100)
    assert events == [E.MUTED, E.REQUEST_RECEIVED]
    assert channel.state is PENDING


def test_apaches_five_states_are_all_there_are_and_one_of_them_reads() -> None:
    states = {S.NOT_MUTED, S.MUTED, PENDING, THROTTLED, THROTTLED_PENDING}
    assert {state for (before, _), after in APACHE.items() for state in (before, after)} == states
    assert states & READABLE_STATES == {S.NOT_MUTED}


@pytest.mark.kafka(brokers=2, topics={"t": 1}, config={"channel.mode": "serial"})
def test_the_second_frame_is_not_read_before_the_first_reply_is_written(
    kafka_cluster: KafkaCluster, leader: Callable[[str, int], RawClient], wait_for: Callable[..., None]
) -> None:
    kafka_cluster.controls.pause_followers()
    broker = kafka_cluster.brokers[kafka_cluster.partition("t", 0).leader]
    wire = leader("t", 0)
    wire.send(produce_request("t", 0, batch([b"first"])), 12)
    wait_for(lambda: kafka_cluster.log("t", 0).log_end_offset == 1)
    wire.send(produce_request("t", 0, batch([b"second"])), 12)
    kafka_cluster.runtime.wait_until(lambda: False, 0.05)
    (connection,) = broker.processors[0].connections
    assert len(connection.frames._buffer) == 0, "it is still in the socket"
    assert len(kafka_cluster.history.entries("Produce")) == 1
    kafka_cluster.controls.resume_followers()
    assert [partition_of(wire.receive(ProduceRequest, 12)[1]).base_offset for _ in range(2)] == [0, 1]
    first, second = kafka_cluster.history.entries("Produce")
    assert second.received_at >= (first.answered_at or 0.0)
