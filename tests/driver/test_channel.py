"""A channel between a transport in memory and a handler that takes notes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykafka2.driver.channel import MAX_GATHERED_BUFFERS, Channel, ChannelState
from pykafka2.errors import CorruptData, Disconnected, KafkaError
from pykafka2.network.transport import READABLE, WRITABLE
from tests.driver.fakes import MemorySelector, MemoryTransport


class Notes:
    """A handler that records its calls."""

    def __init__(self) -> None:
        self.opened = 0
        self.received = bytearray()
        self.written = 0
        self.errors: list[KafkaError] = []
        self.refuse = False
        self._buffer = memoryview(bytearray(16))

    def on_open(self, now: float) -> None:
        self.opened += 1

    def buffer(self) -> memoryview:
        return self._buffer

    def on_received(self, count: int, now: float) -> None:
        self.received += self._buffer[:count]
        if self.refuse:
            raise CorruptData("not ours")

    def on_written(self, now: float) -> bool:
        self.written += 1
        return True

    def on_close(self, error: KafkaError, now: float) -> None:
        self.errors.append(error)


class Rig:
    def __init__(self, *, is_open: bool = True) -> None:
        self.transport = MemoryTransport()
        self.selector = MemorySelector()
        self.notes = Notes()
        self.channel = Channel(self.transport, self.selector, self.notes)
        if is_open:
            self.channel.on_ready(WRITABLE, 1.0)

    @property
    def interest(self) -> int | None:
        return self.selector.interests.get(id(self.transport))


def test_opening_waits_for_the_transport_and_then_for_bytes() -> None:
    rig = Rig(is_open=False)
    assert (rig.channel.state, rig.interest, rig.notes.opened) == (ChannelState.OPENING, WRITABLE, 0)
    rig.channel.on_ready(WRITABLE, 1.0)
    assert (rig.channel.state, rig.interest, rig.notes.opened) == (ChannelState.OPEN, READABLE, 1)


def test_bytes_written_while_opening_leave_once_open() -> None:
    rig = Rig(is_open=False)
    rig.channel.write([b"early"])
    assert not rig.channel.flush(1.0)
    rig.channel.on_ready(WRITABLE, 1.0)
    assert rig.channel.flush(1.0)
    assert rig.transport.outgoing == b"early"


def test_failed_opening_is_reported_once() -> None:
    rig = Rig(is_open=False)
    rig.transport.error = Disconnected("refused")
    rig.channel.on_ready(WRITABLE, 1.0)
    rig.channel.on_ready(WRITABLE, 1.0)
    assert [str(error) for error in rig.notes.errors] == ["refused"]
    assert rig.transport.is_closed
    assert rig.interest is None


def test_bytes_reach_the_handler_and_the_end_closes() -> None:
    rig = Rig()
    rig.transport.incoming += b"0123456789abcdefXYZ"
    rig.channel.on_ready(READABLE, 2.0)
    assert rig.notes.received == b"0123456789abcdef"
    rig.channel.on_ready(READABLE, 2.0)
    rig.channel.on_ready(READABLE, 2.0)
    assert rig.notes.received.endswith(b"XYZ")
    assert not rig.notes.errors
    rig.transport.has_ended = True
    rig.channel.on_ready(READABLE, 3.0)
    assert "broker:9092 closed the connection" in str(rig.notes.errors[0])
    assert rig.channel.is_closed


def test_a_handler_that_refuses_the_bytes_closes_the_channel() -> None:
    rig = Rig()
    rig.notes.refuse = True
    rig.transport.incoming += b"x"
    rig.channel.on_ready(READABLE, 2.0)
    assert [type(error) for error in rig.notes.errors] == [CorruptData]
    assert rig.transport.is_closed


def test_full_transport_gets_no_write_until_it_is_writable() -> None:
    rig = Rig()
    rig.transport.room = 3
    rig.channel.write([b"ab", b"", b"cdef"])
    assert not rig.channel.flush(2.0)
    assert (bytes(rig.transport.outgoing), rig.interest) == (b"abc", READABLE | WRITABLE)
    assert [rig.channel.wants_flush, rig.notes.written] == [False, 0]
    rig.transport.room = 100
    rig.channel.on_ready(WRITABLE, 3.0)
    assert [rig.channel.wants_flush, rig.channel.flush(3.0)] == [True, True]
    assert (bytes(rig.transport.outgoing), rig.interest) == (b"abcdef", READABLE)
    assert rig.notes.written == 1


def test_a_write_that_fails_closes_the_channel() -> None:
    rig = Rig()
    rig.channel.write([b"x"])
    rig.transport.error = Disconnected("reset")
    assert rig.channel.flush(2.0)
    assert [str(error) for error in rig.notes.errors] == ["reset"]


def test_close_does_not_notify_the_handler_and_may_be_repeated() -> None:
    rig = Rig()
    rig.channel.write([b"x"])
    rig.channel.close()
    rig.channel.close()
    rig.channel.write([b"y"])
    rig.channel.on_ready(READABLE, 2.0)
    assert not rig.channel.flush(2.0)
    assert not rig.notes.errors
    assert rig.transport.is_closed


def test_without_a_transport_it_waits_to_be_failed() -> None:
    notes = Notes()
    channel = Channel(None, MemorySelector(), notes, "broker:9092")
    channel.write([b"x"])
    assert not channel.flush(1.0)
    channel.fail(Disconnected("refused"), 1.0)
    channel.fail(Disconnected("again"), 1.0)
    assert [str(error) for error in notes.errors] == ["refused"]


def test_many_small_buffers_are_gathered() -> None:
    rig = Rig()
    count = 2 * MAX_GATHERED_BUFFERS + 1
    rig.channel.write([b"x"] * count)
    assert rig.channel.flush(1.0)
    assert (len(rig.transport.outgoing), rig.transport.writes) == (count, 3)


@given(buffers=st.lists(st.binary(max_size=20), max_size=20), rooms=st.lists(st.integers(0, 15), max_size=30))
def test_bytes_leave_whole_and_in_order_for_any_socket_room(buffers: list[bytes], rooms: list[int]) -> None:
    rig = Rig()
    rig.channel.write(buffers)
    for room in rooms:
        rig.transport.room = room
        rig.channel.on_ready(WRITABLE, 1.0)
        rig.channel.flush(1.0)
    rig.transport.room = 1 << 20
    rig.channel.on_ready(WRITABLE, 1.0)
    rig.channel.flush(1.0)
    assert rig.transport.outgoing == b"".join(buffers)
    assert not rig.channel.wants_flush


@pytest.mark.parametrize("state", list(ChannelState))
def test_every_state_takes_a_close(state: ChannelState) -> None:
    rig = Rig(is_open=state is not ChannelState.OPENING)
    if state is ChannelState.CLOSED:
        rig.channel.close()
    assert rig.channel.state is state
    rig.channel.close()
    assert rig.channel.is_closed
