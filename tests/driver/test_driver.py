"""The driver, turned by hand in memory; and once on real threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from pykafka2.clock import FOREVER
from pykafka2.driver.channel import Channel
from pykafka2.driver.driver import Driver
from pykafka2.driver.pollable import AnyNode, PollResult, Send
from pykafka2.driver.runtime import Outcome
from pykafka2.driver.thread_driver import ThreadRuntime
from pykafka2.errors import ClientClosed, Disconnected, ForkedClientError, IllegalState, KafkaError
from pykafka2.network.endpoint import Endpoint
from pykafka2.network.transport import READABLE, WRITABLE, SocketOptions
from pykafka2.protocol.messages.metadata import MetadataRequest
from tests.driver.fakes import HandRuntime
from tests.driver.test_channel import Notes

ENDPOINT = Endpoint("10.0.0.1", 9092)


class Manager:
    """Returns the values that the test sets, and counts."""

    def __init__(self, *results: PollResult) -> None:
        self.results = list(results)
        self.polled_at: list[float] = []

    def poll(self, now: float) -> PollResult:
        self.polled_at.append(now)
        return self.results.pop(0) if self.results else PollResult.idle()


class Router:
    """Keeps what it is given, or fails it at once."""

    def __init__(self, error: KafkaError | None = None) -> None:
        self.sends: list[Send[Any]] = []
        self.error = error

    def route(self, send: Send[Any], now: float) -> None:
        self.sends.append(send)
        if self.error is not None:
            send.on_failure(self.error, now)


@pytest.fixture
def runtime() -> HandRuntime:
    return HandRuntime()


@pytest.fixture
def driver(runtime: HandRuntime) -> Driver:
    return Driver(runtime, "client")


def open_channel(driver: Driver, runtime: HandRuntime, handler: Notes) -> Channel:
    channel = driver.open(ENDPOINT, handler, options=SocketOptions())
    runtime.turn((channel, WRITABLE))
    return channel


# ---------------------------------------------------------------------- turns


def test_earliest_wake_time_of_any_manager_decides_the_next_turn(
    driver: Driver, runtime: HandRuntime
) -> None:
    assert runtime.turn() == FOREVER
    driver.add(Manager(PollResult.idle_until(7.0)))
    driver.add(Manager(PollResult.idle_until(5.0)))
    driver.add(Manager())
    assert runtime.turn() == 5.0


def test_a_manager_that_was_removed_is_not_polled(driver: Driver, runtime: HandRuntime) -> None:
    stays, goes = Manager(), Manager()
    driver.add(goes)
    driver.add(stays)
    driver.remove(goes)
    runtime.turn()
    assert (len(stays.polled_at), len(goes.polled_at)) == (1, 0)


def test_occasional_manager_is_polled_only_while_it_has_work(driver: Driver, runtime: HandRuntime) -> None:
    class Helper(Manager):
        work: list[str] = []  # noqa: RUF012

    helper = Helper(PollResult.idle_until(5.0))
    driver.add(helper)
    assert runtime.turn() == FOREVER
    helper.work.append("task")
    assert runtime.turn() == 5.0
    helper.work.clear()
    assert runtime.turn() == FOREVER
    assert len(helper.polled_at) == 1


def test_requests_go_to_the_router_in_order(driver: Driver, runtime: HandRuntime) -> None:
    router = driver.router = Router()
    requests = [MetadataRequest(topics=None), MetadataRequest(topics=[])]
    for request in requests:
        driver.add(Manager(PollResult.send(request, on_response=lambda response, now: None)))
    runtime.turn()
    assert [send.request for send in router.sends] == requests


def test_manager_of_a_request_that_fails_at_once_is_polled_again(
    driver: Driver, runtime: HandRuntime
) -> None:
    driver.router = Router(Disconnected("no"))
    failures: list[KafkaError] = []
    send = Send(
        MetadataRequest(topics=None),
        AnyNode(),
        on_response=lambda response, now: None,
        on_failure=lambda error, now: failures.append(error),
    )
    driver.add(Manager(PollResult([send], FOREVER)))
    runtime.hand_clock.now = 3.0
    assert runtime.turn() == 3.0
    assert len(failures) == 1
    assert runtime.turn() == FOREVER


def test_a_request_without_a_router_is_a_failure_that_names_it(
    driver: Driver, runtime: HandRuntime, caplog: pytest.LogCaptureFixture
) -> None:
    driver.add(Manager(PollResult.send(MetadataRequest(topics=None), on_response=lambda response, now: None)))
    with pytest.raises(IllegalState, match="no router for MetadataRequest"):
        runtime.turn()


def test_commands_run_in_order_before_the_managers_and_those_they_queue_run_next_turn(
    driver: Driver, runtime: HandRuntime
) -> None:
    order: list[str] = []
    driver.call_soon(lambda now: order.append("one"))
    driver.call_soon(lambda now: driver.call_soon(lambda now: order.append("three")))
    driver.call_soon(lambda now: order.append("two"))
    assert runtime.turn() == 0.0
    assert order == ["one", "two"]
    assert runtime.turn() == FOREVER
    assert order == ["one", "two", "three"]
    assert runtime.tasks[0].wakes >= 3


def test_outcome_of_offloaded_work_arrives_as_a_command(driver: Driver, runtime: HandRuntime) -> None:
    outcomes: list[tuple[Outcome[int], float]] = []
    driver.offload(lambda: 42, lambda outcome, now: outcomes.append((outcome, now)))
    assert outcomes == []
    runtime.hand_clock.now = 2.0
    runtime.turn()
    assert [(outcome.get(), now) for outcome, now in outcomes] == [(42, 2.0)]


# ---------------------------------------------------------------------- channels


def test_bytes_written_in_a_turn_leave_at_its_end_and_managers_are_polled_again(
    driver: Driver, runtime: HandRuntime
) -> None:
    notes = Notes()
    channel = open_channel(driver, runtime, notes)
    driver.call_soon(lambda now: channel.write([b"a"]))
    driver.call_soon(lambda now: channel.write([b"b"]))
    # The handler got on_written, so the managers are called again.
    assert runtime.turn() == 0.0
    (transport,) = runtime.memory.transports
    assert (bytes(transport.outgoing), transport.writes, notes.written) == (b"ab", 1, 1)
    assert runtime.turn() == FOREVER


def test_a_refusal_at_once_comes_later_and_as_on_close(driver: Driver, runtime: HandRuntime) -> None:
    runtime.memory.refusal = Disconnected("network unreachable")
    notes = Notes()
    channel = driver.open(ENDPOINT, notes, options=SocketOptions())
    channel.write([b"x"])
    assert not notes.errors
    runtime.turn()
    assert [str(error) for error in notes.errors] == ["network unreachable"]
    assert channel.is_closed


def test_channel_closed_at_once_gets_no_refusal(driver: Driver, runtime: HandRuntime) -> None:
    runtime.memory.refusal = Disconnected("network unreachable")
    notes = Notes()
    driver.open(ENDPOINT, notes, options=SocketOptions()).close()
    runtime.turn()
    assert not notes.errors


def test_events_of_a_channel_that_was_closed_in_the_same_turn_are_dropped(
    driver: Driver, runtime: HandRuntime
) -> None:
    first, second = Notes(), Notes()
    one = open_channel(driver, runtime, first)
    two = open_channel(driver, runtime, second)
    for transport in runtime.memory.transports:
        transport.incoming += b"x"
    first.on_received = lambda count, now: two.close()  # type: ignore[method-assign]
    runtime.turn((one, READABLE), (two, READABLE))
    assert second.received == b""
    assert not second.errors


# ---------------------------------------------------------------------- failure and end


def fail_in_manager(driver: Driver) -> None:
    class Broken:
        def poll(self, now: float) -> PollResult:
            raise ValueError("a bug")

    driver.add(Broken())


def fail_in_command(driver: Driver) -> None:
    def broken(now: float) -> None:
        raise ValueError("a bug")

    driver.call_soon(broken)


@pytest.mark.parametrize("fail", [fail_in_manager, fail_in_command])
def test_a_bug_in_the_loop_is_raised_by_every_later_call(
    driver: Driver,
    runtime: HandRuntime,
    fail: Callable[[Driver], None],
    caplog: pytest.LogCaptureFixture,
) -> None:
    fail(driver)
    with pytest.raises(ValueError, match="a bug"):
        runtime.turn()
    for call in (
        lambda: driver.wait_until(lambda: False, 1.0),
        lambda: driver.call_soon(lambda now: None),
        driver.raise_failure,
    ):
        with pytest.raises(IllegalState, match="client stopped: ValueError"):
            call()
    assert "a bug" in caplog.text


def test_a_result_that_is_there_is_handed_out_in_spite_of_a_failure(driver: Driver) -> None:
    driver.failure = ValueError("later")
    assert driver.wait_until(lambda: True, 0.0)


def test_a_blocking_call_on_the_drivers_own_thread_is_refused(driver: Driver, runtime: HandRuntime) -> None:
    errors: list[BaseException] = []

    def block(now: float) -> None:
        try:
            driver.wait_until(lambda: True, 1.0)
        except IllegalState as error:
            errors.append(error)

    driver.call_soon(block)
    runtime.turn()
    assert "call it from your own thread" in str(errors[0])


def test_close_runs_queued_commands_writes_and_closes_the_channels(
    driver: Driver, runtime: HandRuntime
) -> None:
    notes = Notes()
    channel = open_channel(driver, runtime, notes)
    driver.call_soon(lambda now: channel.write([b"farewell"]))
    assert driver.close()
    assert driver.close()
    (transport,) = runtime.memory.transports
    assert transport.outgoing == b"farewell"
    assert transport.is_closed
    assert runtime.tasks[0].is_stopped
    assert not notes.errors
    with pytest.raises(ClientClosed):
        driver.call_soon(lambda now: None)
    with pytest.raises(ClientClosed):
        driver.wait_until(lambda: False, 1.0)


def test_close_from_a_callback_does_not_wait_for_itself(driver: Driver, runtime: HandRuntime) -> None:
    answers: list[bool] = []
    driver.call_soon(lambda now: answers.append(driver.close()))
    runtime.turn()
    assert answers == [True]


def test_work_without_a_thread_fails_and_the_loop_continues(
    driver: Driver, runtime: HandRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fail like a name that cannot be resolved: it is retried."""

    def refuse(*arguments: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(runtime, "offload", refuse)
    outcomes: list[Outcome[int]] = []
    driver.call_soon(lambda now: driver.offload(lambda: 42, lambda outcome, now: outcomes.append(outcome)))
    driver.run_once(0.0, [])
    driver.run_once(1.0, [])
    assert isinstance(outcomes[0].error, RuntimeError)
    assert driver.failure is None


def test_offloaded_work_that_ends_after_close_is_dropped(driver: Driver, runtime: HandRuntime) -> None:
    driver.close()
    driver.offload(lambda: 1, lambda outcome, now: pytest.fail("the driver is closed"))
    assert runtime.turn() == FOREVER


def test_forked_child_gets_an_error_from_every_call_and_closes_nothing(
    driver: Driver, runtime: HandRuntime
) -> None:
    open_channel(driver, runtime, Notes())
    driver.abandon(ForkedClientError("created before a fork"))
    with pytest.raises(ForkedClientError):
        driver.call_soon(lambda now: None)
    with pytest.raises(ForkedClientError):
        driver.wait_until(lambda: False, 1.0)
    assert driver.close()
    assert not runtime.memory.transports[0].is_closed
    assert not runtime.tasks[0].is_stopped


# ---------------------------------------------------------------------- on threads


def test_on_real_threads_a_caller_waits_for_a_command_and_for_the_end() -> None:
    runtime = ThreadRuntime()
    driver = Driver(runtime, "pykafka2-test")
    seen: list[str] = []
    driver.call_soon(lambda now: seen.append(threading.current_thread().name))
    assert driver.wait_until(lambda: bool(seen), 5.0)
    assert seen == ["pykafka2-test"]

    errors: list[BaseException] = []

    def wait_for_nothing() -> None:
        try:
            driver.wait_until(lambda: False, 30.0)
        except ClientClosed as error:
            errors.append(error)

    waiter = threading.Thread(target=wait_for_nothing)
    waiter.start()
    driver.call_soon(lambda now: seen.append("last"))
    assert driver.close(5.0)
    waiter.join(30)
    assert seen[-1] == "last"
    assert len(errors) == 1
    runtime.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("pykafka2-test")]


def test_a_waiter_is_woken_when_its_condition_holds_and_not_every_turn() -> None:
    runtime = ThreadRuntime()
    driver = Driver(runtime, "pykafka2-test")
    turns: list[float] = []
    called_on: list[str] = []
    woken: list[bool] = []
    is_waiting = threading.Event()

    def look() -> bool:
        called_on.append(threading.current_thread().name)
        is_waiting.set()
        return len(turns) >= 100

    waiter = threading.Thread(target=lambda: woken.append(driver.wait_until(look, 30.0)), name="waiter")
    waiter.start()
    is_waiting.wait()
    while not runtime._waiters:
        time.sleep(0.001)
    while len(turns) < 100:
        before = len(turns)
        driver.call_soon(turns.append)
        assert runtime.wait_until(lambda: len(turns) > before, 5.0)  # noqa: B023
    waiter.join(30)
    assert woken == [True]
    # Before and after it was registered, and sometimes when both threads ran at once.
    assert called_on.count("waiter") <= 10
    assert called_on.count("pykafka2-test") >= 90
    driver.close()
    runtime.close()


def test_a_predicate_that_raises_on_the_io_thread_raises_on_the_waiters() -> None:
    runtime = ThreadRuntime()
    driver = Driver(runtime, "pykafka2-test")
    is_broken: list[float] = []

    def look() -> bool:
        if is_broken:
            raise ValueError("a bug")
        driver.call_soon(is_broken.append)
        return False

    with pytest.raises(ValueError, match="a bug"):
        driver.wait_until(look, 5.0)
    assert driver.failure is None
    driver.close()
    runtime.close()


def test_waiter_can_be_woken_in_the_middle_of_a_turn() -> None:
    runtime = ThreadRuntime()
    driver = Driver(runtime, "pykafka2-test")
    is_there, has_gone_on = threading.Event(), threading.Event()
    seen: list[bool] = []

    def hand_over(now: float) -> None:
        is_there.set()
        driver.tell_waiters()
        seen.append(has_gone_on.wait(30))  # what is left of the turn

    driver.call_soon(hand_over)
    assert driver.wait_until(is_there.is_set, 5.0)
    has_gone_on.set()
    assert driver.close(5.0)
    assert seen == [True]
    runtime.close()
