"""The socket selector: readiness, interest 0, and a wake-up that is never lost."""

from __future__ import annotations

import gc
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from pykafka2.clock import FOREVER
from pykafka2.network.endpoint import Endpoint
from pykafka2.network.selector import SocketSelector
from pykafka2.network.tcp import TcpNetwork
from pykafka2.network.transport import READABLE, WRITABLE, Listener, SocketOptions, Transport
from tests.driver.interleave import at_every_line, at_line

Pair = tuple[Transport, Transport]


@pytest.fixture(params=["epoll", "other"])
def selector(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[SocketSelector]:
    """On epoll, and on what machines have that know no epoll."""
    if request.param == "other":
        monkeypatch.delattr(select, "epoll")
    selector = SocketSelector()
    yield selector
    selector.close()


@pytest.fixture
def listener() -> Iterator[Listener]:
    listener = TcpNetwork().listen("127.0.0.1", 0)
    yield listener
    listener.close()


@pytest.fixture
def pair(listener: Listener) -> Iterator[Pair]:
    client = TcpNetwork().connect(Endpoint("127.0.0.1", listener.port), options=SocketOptions())
    server = None
    while server is None:
        server = listener.accept()
    while not client.establish():
        time.sleep(0.001)
    yield client, server
    client.close()
    server.close()


def test_select_returns_ready_sockets_with_their_data(selector: SocketSelector, pair: Pair) -> None:
    client, server = pair
    selector.register(server, READABLE, "server")
    assert selector.select(0) == []
    assert selector.select(-1.0) == []
    client.write([b"hello"])
    assert selector.select(FOREVER) == [("server", READABLE)]
    selector.modify(server, READABLE | WRITABLE, "both")
    assert selector.select(5.0) == [("both", READABLE | WRITABLE)]


def test_interest_0_keeps_the_registration_and_waits_for_nothing(
    selector: SocketSelector, pair: Pair
) -> None:
    client, server = pair
    selector.register(server, 0, "server")
    client.write([b"hello"])
    assert selector.select(0.01) == []
    selector.modify(server, READABLE, "again")
    assert selector.select(5.0) == [("again", READABLE)]
    selector.modify(server, 0, "quiet")
    assert selector.select(0.01) == []
    selector.unregister(server)
    selector.unregister(server)


def test_a_wake_before_the_select_ends_it(selector: SocketSelector) -> None:
    selector.wake()
    selector.wake()
    started = time.monotonic()
    assert selector.select(30.0) == []
    assert selector.select(0.02) == []
    assert 0.02 <= time.monotonic() - started < 20


def test_a_wake_during_the_select_ends_it(selector: SocketSelector) -> None:
    waker = threading.Timer(0.02, selector.wake)
    started = time.monotonic()
    waker.start()
    assert selector.select(30.0) == []
    assert time.monotonic() - started < 20
    waker.join()


def test_a_wake_from_a_signal_handler_ends_the_select(selector: SocketSelector) -> None:
    before = signal.signal(signal.SIGALRM, lambda number, frame: selector.wake())
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        started = time.monotonic()
        assert selector.select(30.0) == []
        assert time.monotonic() - started < 20
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_a_wake_between_any_two_lines_of_select_is_not_slept_through(selector: SocketSelector) -> None:
    """The machine's select is replaced by one that notes whether it would have slept."""
    underlying = selector._poller
    really_poll = underlying.poll
    is_numbered = False
    slept_through: list[int] = []
    number = 0

    def poll(timeout: float | None, max_events: int) -> list[Any]:
        events = really_poll(0, max_events)
        if is_numbered and not events and timeout != 0:
            slept_through.append(number)
        return events

    underlying.poll = poll

    def wake() -> None:
        nonlocal is_numbered
        is_numbered = True
        selector.wake()

    def attempt(line: int) -> bool:
        nonlocal is_numbered, number
        number, is_numbered = line, False
        has_line = at_line(SocketSelector.select.__code__, line, wake, lambda: selector.select(30.0))
        # A wake after the round has begun is for the next select, which must not sleep either.
        selector.select(0)
        return has_line

    tried = list(at_every_line(attempt))
    assert len(tried) > 12
    assert slept_through == []


def test_a_wake_after_the_round_has_begun_ends_the_next_select(selector: SocketSelector) -> None:
    selector.wake()
    selector.select(30.0)
    selector.wake()
    started = time.monotonic()
    selector.select(30.0)
    assert time.monotonic() - started < 20


def test_a_wake_that_ctrl_c_cuts_off_does_not_deafen_the_selector(selector: SocketSelector) -> None:
    class CtrlC(Exception):
        pass

    def interrupt() -> None:
        raise CtrlC

    def attempt(line: int) -> bool:
        # The loop sleeps while the wake is cut off.
        selector._sleeps += 1
        selector._asleep = selector._sleeps
        try:
            has_line = at_line(SocketSelector.wake.__code__, line, interrupt, selector.wake)
        except CtrlC:
            has_line = True
        selector.wake()
        assert selector._poller.poll(0, 8), f"line {line}"
        selector.select(0)
        return has_line

    assert len(list(at_every_line(attempt))) >= 5


@pytest.mark.gate
@pytest.mark.slow
def test_no_wake_is_lost_under_stress(selector: SocketSelector) -> None:
    """Wakers bump a counter and wake; the loop must see every bump although it sleeps for ever in between."""
    rounds, wakers = 1000, 3
    counters = [0] * wakers
    seen = [0] * wakers

    def wake_often(index: int) -> None:
        for _ in range(rounds):
            counters[index] += 1
            selector.wake()
            while seen[index] < counters[index]:
                if time.monotonic() > deadline:
                    return

    before = sys.getswitchinterval()
    deadline = time.monotonic() + 30.0
    sys.setswitchinterval(1e-5)
    threads = [threading.Thread(target=wake_often, args=(index,)) for index in range(wakers)]
    try:
        for thread in threads:
            thread.start()
        while min(seen) < rounds and time.monotonic() < deadline:
            selector.select(5.0)
            seen[:] = counters
    finally:
        sys.setswitchinterval(before)
        for thread in threads:
            thread.join()
    assert seen == [rounds] * wakers
    assert time.monotonic() < deadline


def test_a_thousand_wakes_end_one_select(selector: SocketSelector) -> None:
    """Each sleep is ended by its own wakes alone, though the bytes that signalled the earlier ones are
    unread.
    """
    for _ in range(3):
        selector._sleeps += 1
        selector._asleep = selector._sleeps
        for _ in range(1000):
            selector.wake()
        assert selector.select(30.0) == []
        started = time.monotonic()
        assert selector.select(0.01) == []
        assert time.monotonic() - started >= 0.009


def test_close_may_race_with_wakes_and_leaves_no_file_behind() -> None:
    gc.collect()  # what other tests have left is closed before, or below: neither is this one's
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(50):
        selector = SocketSelector()
        threads = [threading.Thread(target=selector.wake) for _ in range(2)]
        for thread in threads:
            thread.start()
        selector.close()
        selector.close()
        selector.wake()
        assert selector.select(None) == []
        for thread in threads:
            thread.join()
    assert len(os.listdir("/proc/self/fd")) <= before
