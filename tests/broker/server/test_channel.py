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


def now_at(channel: Channel) -> ChannelState:
    return channel.state


def reads(channel: Channel) -> bool:
    return channel.is_readable


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


def test_serial_mode_reads_nothing_until_the_reply_has_left() -> None:
    channel = Channel(pipelined=False)
    slot = channel.receive(100)
    assert not reads(channel)
    channel.local_processed(slot)
    assert now_at(channel) is S.MUTED_AND_RESPONSE_PENDING
    channel.complete(slot, [b"reply"])
    assert channel.take_ready() == [slot]
    assert not reads(channel)
    channel.sent()
    assert now_at(channel) is S.NOT_MUTED


def test_pipelined_mode_reads_on_once_a_request_was_processed_locally() -> None:
    channel = Channel(pipelined=True)
    first = channel.receive(100)
    assert not reads(channel)
    channel.local_processed(first)
    assert reads(channel)
    second = channel.receive(100)
    assert now_at(channel) is S.REQPROCESSING_AND_REQCACHED_AND_RESPONSE_PENDING
    assert not reads(channel)
    channel.complete(second, [b"second"])
    assert channel.take_ready() == []
    assert now_at(channel) is S.REQCACHED_AND_RESPONSE_PENDING
    channel.complete(first, [b"first"])
    assert channel.take_ready() == [first, second]
    channel.sent()
    assert now_at(channel) is S.REQCACHED_AND_RESPONSE_PENDING
    channel.sent()
    assert now_at(channel) is S.NOT_MUTED


def test_the_last_cached_reply_leaves_a_request_in_processing_muted() -> None:
    channel = Channel(pipelined=True)
    first = channel.receive(1)
    channel.local_processed(first)
    second = channel.receive(1)
    channel.complete(first, [b"1"])
    channel.take_ready()
    channel.sent()
    assert now_at(channel) is S.MUTED_AND_RESPONSE_PENDING
    channel.complete(second, None)
    assert [slot.payload for slot in channel.take_ready()] == [None]
    channel.sent()
    assert now_at(channel) is S.NOT_MUTED


def test_the_channel_stops_reading_at_its_caps_until_a_reply_leaves() -> None:
    channel = Channel(pipelined=True, max_requests=2, max_bytes=1000)
    slots = [channel.receive(10)]
    channel.local_processed(slots[0])
    slots.append(channel.receive(10))
    channel.local_processed(slots[1])
    assert now_at(channel) is S.REQCACHED_AND_RESPONSE_PENDING
    assert not reads(channel)
    channel.complete(slots[0], [b"x"])
    channel.take_ready()
    channel.sent()
    assert reads(channel)
    big = channel.receive(2000)
    channel.local_processed(big)
    assert not reads(channel)


def test_a_throttled_channel_sends_but_does_not_read() -> None:
    channel = Channel(pipelined=True)
    slot = channel.receive(1)
    channel.throttle()
    channel.local_processed(slot)
    assert now_at(channel) is S.MUTED_AND_THROTTLED_AND_REQCACHED
    channel.complete(slot, [b"x"])
    channel.take_ready()
    channel.sent()
    assert now_at(channel) is S.MUTED_AND_THROTTLED
    assert not reads(channel)
    channel.end_throttle()
    assert now_at(channel) is S.NOT_MUTED


def test_a_request_has_one_reply() -> None:
    channel = Channel(pipelined=True)
    slot = channel.receive(1)
    channel.complete(slot, [b"x"])
    with pytest.raises(IllegalState, match="one response"):
        channel.complete(slot, [b"y"])


@given(st.integers(0, 2**32), st.booleans())
def test_replies_leave_in_the_order_of_requests_for_any_completion_order(seed: int, pipelined: bool) -> None:
    """A random walk that receives, processes, completes and sends whenever that is possible."""
    chance = random.Random(seed)
    channel = Channel(pipelined=pipelined, max_requests=5)
    received: list[Slot] = []
    left: list[Slot] = []
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
            left.append(channel.sent())
            assert left[-1] is writing.pop(0)
        assert channel.in_flight <= 5
        assert channel.bytes == channel.in_flight == len(received) - len(left)
        assert (channel.state is S.NOT_MUTED) == (channel.in_flight == 0)
    assert left == received[: len(left)]
