"""The channel's states, and the order of responses under any order of completion.

tests/acceptance/test_channel_serial.py and test_channel_pipelined.py check each state with each event.
"""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykafka2.broker.server.channel import (
    PIPELINED_MOVES,
    READABLE_STATES,
    Channel,
    ChannelEvent,
    ChannelState,
    Slot,
)
from pykafka2.errors import IllegalState

S, E = ChannelState, ChannelEvent


def test_every_state_can_be_reached_and_left() -> None:
    reached = {S.NOT_MUTED}
    while True:
        more = {after for (before, _), after in PIPELINED_MOVES.items() if before in reached} - reached
        if not more:
            break
        reached |= more
    assert reached == set(ChannelState)
    assert {before for before, _ in PIPELINED_MOVES} == set(ChannelState)


def test_only_two_states_read_the_socket() -> None:
    assert frozenset({S.NOT_MUTED, S.REQCACHED_AND_RESPONSE_PENDING}) == READABLE_STATES


def test_serial_mode_reads_nothing_until_the_response_was_sent() -> None:
    channel = Channel(pipelined=False)
    slot = channel.receive(100)
    assert not channel.is_readable
    channel.local_processed(slot)
    assert channel.state is S.MUTED_AND_RESPONSE_PENDING
    channel.complete(slot, [b"response"])
    assert channel.take_ready() == [slot]
    assert not channel.is_readable
    channel.sent()
    assert channel.state is S.NOT_MUTED


def test_pipelined_mode_reads_after_a_request_was_processed_locally() -> None:
    channel = Channel(pipelined=True)
    first = channel.receive(100)
    assert not channel.is_readable
    channel.local_processed(first)
    assert channel.is_readable
    second = channel.receive(100)
    assert channel.state is S.REQPROCESSING_AND_REQCACHED_AND_RESPONSE_PENDING
    assert not channel.is_readable
    channel.complete(second, [b"second"])
    assert channel.take_ready() == []
    assert channel.state is S.REQCACHED_AND_RESPONSE_PENDING
    channel.complete(first, [b"first"])
    assert channel.take_ready() == [first, second]
    channel.sent()
    assert channel.state is S.REQCACHED_AND_RESPONSE_PENDING
    channel.sent()
    assert channel.state is S.NOT_MUTED


def test_last_cached_response_leaves_a_request_in_processing_muted() -> None:
    channel = Channel(pipelined=True)
    first = channel.receive(1)
    channel.local_processed(first)
    second = channel.receive(1)
    channel.complete(first, [b"1"])
    channel.take_ready()
    channel.sent()
    assert channel.state is S.MUTED_AND_RESPONSE_PENDING
    channel.complete(second, None)
    assert [slot.payload for slot in channel.take_ready()] == [None]
    channel.sent()
    assert channel.state is S.NOT_MUTED


def test_channel_stops_reading_at_its_limits_until_a_response_was_sent() -> None:
    channel = Channel(pipelined=True, max_requests=2, max_bytes=1000)
    slots = [channel.receive(10)]
    channel.local_processed(slots[0])
    slots.append(channel.receive(10))
    channel.local_processed(slots[1])
    assert channel.state is S.REQCACHED_AND_RESPONSE_PENDING
    assert not channel.is_readable
    channel.complete(slots[0], [b"x"])
    channel.take_ready()
    channel.sent()
    assert channel.is_readable
    big = channel.receive(2000)
    channel.local_processed(big)
    assert not channel.is_readable


def test_a_throttled_channel_sends_but_does_not_read() -> None:
    channel = Channel(pipelined=True)
    slot = channel.receive(1)
    channel.throttle()
    channel.local_processed(slot)
    assert channel.state is S.MUTED_AND_THROTTLED_AND_REQCACHED
    channel.complete(slot, [b"x"])
    channel.take_ready()
    channel.sent()
    assert channel.state is S.MUTED_AND_THROTTLED
    assert not channel.is_readable
    channel.end_throttle()
    assert channel.state is S.NOT_MUTED


def test_second_response_to_a_request_is_rejected() -> None:
    channel = Channel(pipelined=True)
    slot = channel.receive(1)
    channel.complete(slot, [b"x"])
    with pytest.raises(IllegalState, match="one response"):
        channel.complete(slot, [b"y"])


@given(st.integers(0, 2**32), st.booleans())
def test_responses_are_sent_in_the_order_of_requests_for_any_completion_order(
    seed: int, pipelined: bool
) -> None:
    """A random walk that receives, processes, completes and sends whenever that is possible."""
    chance = random.Random(seed)
    channel = Channel(pipelined=pipelined, max_requests=5)
    received: list[Slot] = []
    sent: list[Slot] = []
    writing: list[Slot] = []
    for _ in range(150):
        open_slots = [slot for slot in received if not slot.is_complete]
        what = chance.choice(("receive", "local", "complete", "send"))
        if what == "receive" and channel.is_readable:
            received.append(channel.receive(1))
        elif what == "local" and channel.processing is not None:
            channel.local_processed(channel.processing)
        elif what == "complete" and open_slots:
            channel.complete(chance.choice(open_slots), [b"x"])
            writing += channel.take_ready()
        elif what == "send" and writing:
            sent.append(channel.sent())
            assert sent[-1] is writing.pop(0)
        assert channel.in_flight <= 5
        assert channel.bytes == channel.in_flight == len(received) - len(sent)
        assert (channel.state is S.NOT_MUTED) == (channel.in_flight == 0)
    assert sent == received[: len(sent)]
