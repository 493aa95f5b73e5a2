"""The queue between processors and handlers, and the order in which a loop runs its parts."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from itertools import pairwise
from types import SimpleNamespace
from typing import cast

import pytest

from pykafka2.broker.parts import Completions
from pykafka2.broker.server.request_channel import MAX_REQUESTS_PER_TURN, Handler, RequestChannel
from pykafka2.broker.server.request_context import Progress, RequestContext
from pykafka2.broker.server.threads import ACTIVE_FOR, MAX_HELD_BACK, MAX_TURN, REST, Loop, Loops, Part
from pykafka2.clock import FOREVER
from pykafka2.driver.thread_driver import ThreadRuntime
from pykafka2.network.tcp import TcpTransport
from pykafka2.network.transport import READABLE, WRITABLE, Ready
from pykafka2.testing import KafkaCluster

REQUEST = cast(RequestContext, object())


@pytest.mark.parametrize("is_fresh", [False, True])
def test_processor_waiting_for_room_is_signalled(is_fresh: bool) -> None:
    channel, processor = RequestChannel(1), Part("processor")
    channel.put(REQUEST, is_fresh=is_fresh)
    assert not channel.has_room_for(processor)
    processor.is_signalled = False
    channel.join_line(processor)
    assert not processor.is_signalled
    assert channel.take() is REQUEST
    assert processor.is_signalled
    assert channel.has_room_for(processor)


def test_processor_is_signalled_at_once_if_there_is_room() -> None:
    channel, processor = RequestChannel(1), Part("processor")
    processor.is_signalled = False
    channel.join_line(processor)
    assert processor.is_signalled


@pytest.mark.parametrize("takes_the_room", [False, True])
def test_processors_have_room_one_after_another(takes_the_room: bool) -> None:
    channel, first, second = RequestChannel(1), Part("first"), Part("second")
    channel.put(REQUEST)
    for one in (first, second):
        one.is_signalled = False
        channel.join_line(one)
    channel.take()
    assert (first.is_signalled, second.is_signalled) == (True, False)
    assert channel.has_room_for(first)
    assert not channel.has_room_for(second)
    assert not channel.has_room_for(Part("third"))
    if takes_the_room:
        channel.put(REQUEST)
    channel.leave_line(first)
    assert second.is_signalled is not takes_the_room
    channel.take()
    assert second.is_signalled
    assert channel.has_room_for(second)
    channel.leave_line(second)
    assert channel.has_room_for(first)


def test_fresh_and_waiting_requests_alternate() -> None:
    channel = RequestChannel(7)
    waiting = [cast(RequestContext, object()) for _ in range(4)]
    fresh = [cast(RequestContext, object()) for _ in range(3)]
    for one in waiting:
        channel.put(one)
    assert not channel.fresh
    for one in fresh:
        channel.put(one, is_fresh=True)
    assert channel.fresh
    assert channel.is_full
    assert len(channel) == 7
    taken = [channel.take() for _ in range(8)]
    assert taken == [fresh[0], waiting[0], fresh[1], waiting[1], fresh[2], waiting[2], waiting[3], None]
    channel.put(fresh[0], is_fresh=True)
    channel.clear()
    assert channel.take() is None


def test_fresh_and_waiting_requests_count_against_the_byte_limit() -> None:
    channel = RequestChannel(100, max_bytes=100)
    half = cast(RequestContext, SimpleNamespace(received=SimpleNamespace(size_bytes=50)))
    channel.put(half, is_fresh=True)
    assert not channel.is_full
    channel.put(half)
    assert channel.is_full


def test_request_put_back_is_taken_next() -> None:
    channel = RequestChannel(10)
    waiting = [cast(RequestContext, object()) for _ in range(3)]
    for one in waiting:
        channel.put(one)
    first = channel.take()
    assert first is waiting[0]
    channel.put_back(first)
    assert [channel.take() for _ in range(3)] == waiting


def a_context(client_id: str = "other") -> RequestContext:
    return cast(RequestContext, SimpleNamespace(progress=Progress(), client_id=client_id))


def spend(seconds: float) -> None:
    """Take this time of the loop."""
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass


class Worker(Part):
    """A part that records its turns and has work for `count` of them."""

    def __init__(self, name: str, turns: list[str], count: int) -> None:
        super().__init__(name)
        self._turns = turns
        self._count = count

    def run(self, now: float) -> float:
        self._turns.append(self.name)
        self._count -= 1
        if self._count > 0:
            self.signal()
        return FOREVER


class Last(Worker):
    runs_last = True


class Sending(Worker):
    sends = True


@pytest.fixture
def runtime() -> Iterator[ThreadRuntime]:
    with_threads = ThreadRuntime()
    yield with_threads
    with_threads.close()


def test_part_that_runs_last_waits_until_the_others_are_idle(runtime: ThreadRuntime) -> None:
    turns: list[str] = []
    loops = Loops(runtime, "test", separate=False)
    loops.add_all([Last("last", turns, 1), Worker("worker", turns, 5)])
    assert runtime.wait_until(lambda: "last" in turns, 5)
    loops.stop()
    assert turns == ["worker"] * 5 + ["last"]


class Busy(Part):
    """A part that is always busy, for a third of a turn each time; in its tenth run it sends a byte."""

    def __init__(self, turns: list[str], sending: socket.socket) -> None:
        super().__init__("busy")
        self._turns = turns
        self._sending = sending

    def run(self, now: float) -> float:
        spend(MAX_TURN / 3)
        self._turns.append(self.name)
        if len(self._turns) == 10:
            self._sending.send(b"x")
        if len(self._turns) < 100:
            self.signal()
        return FOREVER


class Receiving(Part):
    """A part that records the arrival of a byte."""

    def __init__(self, turns: list[str], receiving: TcpTransport) -> None:
        super().__init__("receiving")
        self._turns = turns
        self._receiving = receiving

    def run(self, now: float) -> float:
        self.loop.selector.register(self._receiving, READABLE, self)
        return FOREVER

    def on_ready(self, bits: int, now: float) -> None:
        self._turns.append("received")
        self.loop.selector.unregister(self._receiving)


def test_busy_loop_polls_sockets_and_runs_the_last_parts(runtime: ThreadRuntime) -> None:
    """Each run takes a third of a turn, or longer on a busy machine."""
    turns: list[str] = []
    loops = Loops(runtime, "test", separate=False)
    sending, receiving = socket.socketpair()
    with sending, receiving:
        parts = [Receiving(turns, TcpTransport(receiving, "peer", established=True)), Busy(turns, sending)]
        loops.add_all([*parts, Last("last", turns, 1)])
        assert runtime.wait_until(lambda: turns.count("busy") > 90, 10)
        loops.stop()
    assert turns.index("received") <= 10 + 4
    assert turns.index("last") <= 4 * (MAX_HELD_BACK + 1)


class Slow(Part):
    """A part that takes a whole turn and signals other parts."""

    def __init__(self, *others: Part) -> None:
        super().__init__("slow")
        self._others = others

    def run(self, now: float) -> float:
        spend(MAX_TURN)
        for other in self._others:
            other.signal()
        return FOREVER


class Target:
    """A target of the selector that records its events."""

    def __init__(self, name: str, turns: list[str]) -> None:
        self._name = name
        self._turns = turns

    def on_ready(self, bits: int, now: float) -> None:
        self._turns.append(self._name)


@pytest.fixture
def loop(runtime: ThreadRuntime) -> Loop:
    """A loop whose turns are run by the test."""
    ended = Loop(runtime, "test")
    ended.stop(5)
    return ended


def test_responses_of_a_long_turn_are_sent_before_the_sockets_are_polled(loop: Loop) -> None:
    turns: list[str] = []
    sending, other = Sending("sending", turns, 1), Worker("other", turns, 1)
    for part in (sending, other, Slow(sending, other)):
        loop.add(part)
    loop.run_once(0.0, ())
    assert turns == ["sending", "other", "sending"]


def test_requests_are_handled_before_blocked_connections_are_written(loop: Loop) -> None:
    turns: list[str] = []
    loop.add(Worker("handler", turns, 1))
    blocked, request = Target("blocked", turns), Target("request", turns)
    both = Target("both", turns)
    loop.run_once(0.0, [(blocked, WRITABLE), (both, READABLE | WRITABLE), (request, READABLE)])
    assert turns == ["both", "request", "handler", "blocked"]


class FailingSender(Sending):
    def run(self, now: float) -> float:
        super().run(now)
        raise ZeroDivisionError("planted")


def test_sending_part_that_failed_is_not_run_at_the_end_of_a_long_turn_in_its_rest(loop: Loop) -> None:
    turns: list[str] = []
    failing = FailingSender("failing", turns, 1)
    for part in (failing, slow := Slow(failing)):
        loop.add(part)
    loop.run_once(0.0, ())
    slow.signal()
    loop.run_once(REST / 2, ())
    assert turns == ["failing"]
    loop.run_once(REST, ())
    assert turns == ["failing"] * 2


def test_loop_is_shared_while_more_than_one_part_runs_in_it(loop: Loop) -> None:
    """It is an attribute, as each turn of a handler reads it; a part that has failed does not run."""
    turns: list[str] = []
    last = Worker("last", turns, 1)
    last.runs_last = True
    parts = [Worker("worker", turns, 1), last, Sending("sending", turns, 1)]
    shared = []
    for part in parts:
        loop.add(part)
        shared.append(loop.is_shared)
    for part in parts:
        loop._failed(part, RuntimeError("a bug"), 0.0)
        shared.append(loop.is_shared)
    loop.run_once(REST, ())
    shared.append(loop.is_shared)
    for part in parts:
        loop.remove(part)
        shared.append(loop.is_shared)
    assert shared == [False, True, True, True, False, False, True, True, False, False]


def test_other_clients_count_while_they_have_sent_something_lately(loop: Loop) -> None:
    reader, other = object(), object()
    for now in (10.0, 20.0):
        loop.note_sender(reader, now)
        assert not loop.has_others(reader, now)
    loop.note_sender(other, 30.0)
    loop.note_sender(reader, 30.0)
    for now in (30.0, 30.0 + ACTIVE_FOR / 2):
        assert loop.has_others(reader, now)
        assert loop.has_others(other, now)
    assert not loop.has_others(reader, 30.0 + ACTIVE_FOR)
    loop.note_sender(other, 40.0)
    assert loop.has_others(reader, 40.0)
    assert not loop.has_others(other, 40.0)


def test_handler_without_further_requests_is_not_run_again(loop: Loop) -> None:
    turns: list[str] = []
    channel = RequestChannel(100)
    handler = Handler(
        "handler", channel, lambda context, now: turns.append("handled"), lambda now: turns.append("end")
    )
    for part in (handler, Worker("other", [], 1)):
        loop.add(part)
    channel.put(a_context(), is_fresh=True)
    loop.run_once(0.0, ())
    assert turns == ["handled", "end"]
    assert not handler.is_signalled


def test_handlers_are_signalled_in_turn() -> None:
    channel, handlers = RequestChannel(10), tuple(Part(f"handler {number}") for number in range(3))
    channel.connect(handlers)
    for count in range(1, 4):
        for part in handlers:
            part.is_signalled = part.is_signalled and count > 1
        channel.put(REQUEST)
        assert sum(part.is_signalled for part in handlers) == count


def test_handler_takes_64_requests_in_a_pass_and_the_others_in_the_next(
    loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Loop, "is_turn_over", False)
    handled: list[RequestContext] = []
    channel = RequestChannel(200)
    handler = Handler("handler", channel, lambda context, now: handled.append(context), lambda now: None)
    for part in (handler, Worker("other", [], 1)):
        loop.add(part)
    for _ in range(MAX_REQUESTS_PER_TURN + 6):
        channel.put(a_context())
    loop._pass(loop._parts, 0.0)
    assert len(handled) == MAX_REQUESTS_PER_TURN
    loop.run_once(0.0, ())
    assert len(handled) == MAX_REQUESTS_PER_TURN + 6


class Putting(Part):
    """A part that puts a request into the queue in its first turn."""

    def __init__(self, channel: RequestChannel) -> None:
        super().__init__("putting")
        self._channel = channel

    def run(self, now: float) -> float:
        self._channel.put(a_context())
        return FOREVER


def test_request_that_arrives_in_the_pass_in_which_handlers_stopped_is_handled_in_the_next(
    loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Loop, "is_turn_over", False)
    passes: list[int] = []
    channel = RequestChannel(10)
    first, second = (
        Handler(name, channel, lambda context, now: passes.append(loop.passes), lambda now: None)
        for name in ("first", "second")
    )
    channel.connect((second, first))
    for part in (first, Putting(channel), second):
        loop.add(part)
    first.is_signalled = second.is_signalled = False
    channel.put(a_context(), is_fresh=True)
    assert (first.is_signalled, second.is_signalled) == (True, False)
    loop.run_once(0.0, ())
    assert len(passes) == 2
    assert passes[1] == passes[0] + 1


def test_last_parts_run_less_often_while_there_is_work(runtime: ThreadRuntime) -> None:
    """Both are always busy, so the runs of one are at most as many as the turns."""
    turns: list[str] = []
    loops = Loops(runtime, "test", separate=False)
    sending, receiving = socket.socketpair()
    with sending, receiving:
        loops.add_all([Busy(turns, sending), Last("last", turns, 10_000)])
        deadline = time.monotonic() + 60
        while len(turns) <= 200 and time.monotonic() < deadline:
            time.sleep(0.005)
        loops.stop()
    at_work = turns[: len(turns) - turns[::-1].index("busy")]
    assert 0 < at_work.count("last") <= at_work.count("busy") // (MAX_HELD_BACK + 1) + 1


class Responding(Part):
    """A part that records how many requests were handled before it writes responses."""

    def __init__(self, names: list[str]) -> None:
        super().__init__("responding")
        self._names = names
        self.at: list[int] = []

    def run(self, now: float) -> float:
        self.at.append(len(self._names))
        return FOREVER


def test_handlers_of_a_shared_loop_pause_for_the_response_to_a_fresh_request(runtime: ThreadRuntime) -> None:
    names: list[str] = []
    channel, responding = RequestChannel(100), Responding(names)

    def handle(context: RequestContext, now: float) -> None:
        names.append(cast(str, context.client_id))
        responding.signal()

    handlers = tuple(Handler(f"handler-{number}", channel, handle, lambda now: None) for number in range(3))
    channel.connect(handlers)
    for number in range(40):
        channel.put(a_context("fresh" if number == 20 else "other"), is_fresh=number == 20)
    loops = Loops(runtime, "test", separate=False)
    loops.add_all([*handlers, responding])
    assert runtime.wait_until(lambda: len(names) == 40, 10)
    loops.stop()
    assert names[0] == "fresh"
    assert 1 in responding.at, responding.at


def test_handlers_that_share_a_loop_stop_together_when_the_turn_is_over(runtime: ThreadRuntime) -> None:
    """Each request takes a whole turn, so the other part runs after each of them."""
    names: list[str] = []
    channel, responding = RequestChannel(100), Responding(names)

    def handle(context: RequestContext, now: float) -> None:
        spend(MAX_TURN)
        names.append("handled")
        responding.signal()

    handlers = tuple(Handler(f"handler-{number}", channel, handle, lambda now: None) for number in range(3))
    channel.connect(handlers)
    for _ in range(12):
        channel.put(a_context())
    loops = Loops(runtime, "test", separate=False)
    loops.add_all([*handlers, responding])
    assert runtime.wait_until(lambda: bool(responding.at) and responding.at[-1] == 12, 10)
    loops.stop()
    assert max(after - before for before, after in pairwise([0, *responding.at])) == 1, responding.at


class SendingResponses(Responding):
    """A part that sends responses at the end of a turn."""

    sends = True

    def run(self, now: float) -> float:
        self._names.append("sent")
        return FOREVER


@pytest.mark.parametrize("by_the_last_parts", [False, True])
def test_responses_are_sent_before_the_sockets_are_polled_if_the_turn_is_over(
    runtime: ThreadRuntime, by_the_last_parts: bool
) -> None:
    """Another poll would delay them, and cost as much as a tenth of a small request."""
    names: list[str] = []
    channel, sending = RequestChannel(100), SendingResponses(names)

    def respond(now: float) -> None:
        spend(MAX_TURN)
        names.append("handled")
        sending.signal()

    completions = Completions(1, respond)
    completions.is_signalled = False

    def handle(context: RequestContext, now: float) -> None:
        if by_the_last_parts:
            completions.signal()
        else:
            respond(now)

    handler = Handler("handler", channel, handle, lambda now: None)
    channel.connect((handler,))
    loops = Loops(runtime, "test", separate=False)
    loops.add_all([handler, sending, completions])
    loop = handler.loop
    poll = loop.selector.select

    def select(timeout: float | None) -> list[Ready]:
        names.append("polled" if timeout == 0 else "slept")
        return poll(timeout)

    def put() -> None:
        loop.selector.select = select  # type: ignore[method-assign]
        names.clear()
        channel.put(a_context(), is_fresh=True)

    loop.call(put)
    assert runtime.wait_until(lambda: "slept" in names, 10)
    loops.stop()
    assert names[:3] == ["handled", "sent", "slept"]


class Ending(Part):
    """A part that removes another part and itself in its turn, then raises."""

    def __init__(self, other: Part) -> None:
        super().__init__("ending")
        self._other = other

    def run(self, now: float) -> float:
        self.loop.remove(self._other)
        self.loop.remove(self)
        raise ZeroDivisionError("planted")


def test_part_removed_in_a_turn_is_not_run_again(runtime: ThreadRuntime) -> None:
    """It is run neither in that turn nor after the rest that follows its failure."""
    turns: list[str] = []
    other, last = Worker("other", turns, 1), Worker("last", turns, 1)
    loops = Loops(runtime, "test", separate=False)
    ending = Ending(other)
    loops.add_all([ending, other, last])
    assert runtime.wait_until(lambda: "last" in turns, 10)
    loop = last.loop
    loops.call(last, lambda: None)
    assert not loop._resting
    assert not set(loop._parts) - {last}
    loops.stop()
    assert turns == ["last"]
    assert [one.where for one in loops.problems.take()] == ["ending"]


@pytest.mark.parametrize("separate", [False, True])
def test_handler_stops_when_the_turn_is_over(runtime: ThreadRuntime, separate: bool) -> None:
    """Each request takes a third of a turn. A handler on its own thread handles all requests."""
    handled: list[int] = []
    count = 0

    def handle(context: RequestContext, now: float) -> None:
        nonlocal count
        count += 1
        spend(MAX_TURN / 3)

    channel = RequestChannel(100)
    handler = Handler("handler", channel, handle, lambda now: handled.append(count))
    channel.connect((handler,))
    for _ in range(40):
        channel.put(a_context())
    loops = Loops(runtime, "test", separate=separate)
    loops.add_all([handler, Worker("other", [], 1)])
    assert runtime.wait_until(lambda: bool(handled) and handled[-1] == 40, 10)
    loops.stop()
    at_most = max(after - before for before, after in pairwise([0, *handled]))
    assert at_most == 40 if separate else at_most <= 4


def test_delayed_requests_are_completed_after_all_available_requests() -> None:
    """So the response to a follower's fetch has all records of one read from the sockets."""
    assert Completions.runs_last
    with KafkaCluster(brokers=1) as cluster:
        assert any(isinstance(part, Completions) for part in cluster.brokers[0].parts.loop_parts())
