"""Scripts run as managers, driven by hand."""

from __future__ import annotations

from typing import Any

import pytest

from pykafka2.clock import FOREVER
from pykafka2.driver.driver import Driver
from pykafka2.driver.pollable import PollResult, Send, ToNode
from pykafka2.driver.runtime import Outcome
from pykafka2.driver.script_runner import (
    ScriptRunner,
    StartWork,
    call_to,
    forget_coordinator,
    offloaded,
    run_script,
)
from pykafka2.errors import ClientFailed, Disconnected, IllegalState, KafkaError, RequestTimeout
from pykafka2.network.script import Lane, Script, Step, call, gather, wait
from pykafka2.protocol.messages.group import HeartbeatRequest, HeartbeatResponse
from tests.driver.fakes import HandRuntime


def heartbeat(generation: int) -> HeartbeatRequest:
    return HeartbeatRequest(group_id="g", generation_id=generation, member_id="m")


class Rig:
    """A runner, and the outcome that it reported."""

    def __init__(self, script: Script[Any]) -> None:
        self.outcomes: list[Outcome[Any]] = []
        self.runner = ScriptRunner(
            script, ToNode(1), lambda outcome, now: self.outcomes.append(outcome), timeout=9.0
        )

    def poll(self, now: float) -> PollResult:
        return self.runner.poll(now)

    def sends(self, now: float) -> list[Send[Any]]:
        return self.poll(now).sends


def two_calls() -> Script[int]:
    first = yield from call(heartbeat(1))
    second = yield from call(heartbeat(2), 3)
    return first.error_code * 10 + second.error_code


def test_calls_are_sent_one_after_the_other_and_the_result_is_returned() -> None:
    rig = Rig(two_calls())
    (send,) = rig.sends(0.0)
    assert (send.request, send.to, send.timeout) == (heartbeat(1), ToNode(1), 9.0)
    assert (send.min_version, send.max_version) == (None, None)
    assert rig.sends(0.5) == []
    send.on_response(HeartbeatResponse(error_code=4), 1.0)
    (send,) = rig.sends(1.0)
    assert (send.request, send.min_version, send.max_version) == (heartbeat(2), 3, 3)
    send.on_response(HeartbeatResponse(error_code=2), 2.0)
    assert [outcome.get() for outcome in rig.outcomes] == [42]
    assert rig.runner.is_done
    assert rig.poll(3.0) == PollResult([], FOREVER)


def elsewhere() -> Script[None]:
    yield from call_to(heartbeat(1), ToNode(2), timeout=1.5)
    yield from call_to(heartbeat(2), timeout=2.5)
    yield from call_to(heartbeat(3), ToNode(3), version=3)


def test_a_call_may_have_a_destination_and_a_timeout_of_its_own() -> None:
    rig = Rig(elsewhere())
    seen = []
    for now in range(3):
        (send,) = rig.sends(now)
        seen.append((send.to, send.timeout, send.max_version))
        send.on_response(HeartbeatResponse(), now)
    assert seen == [(ToNode(2), 1.5, None), (ToNode(1), 2.5, None), (ToNode(3), 9.0, 3)]
    assert rig.runner.is_done


def moved() -> Script[int]:
    response = yield from call(heartbeat(1))
    if response.error_code:
        yield from forget_coordinator()
        response = yield from call(heartbeat(2))
    return response.error_code


def test_script_forgets_the_node_without_the_coordinator() -> None:
    forgotten: list[Send[Any]] = []
    runner = ScriptRunner(moved(), ToNode(1), lambda outcome, now: None, forget=forgotten.append)
    (first,) = runner.poll(0.0).sends
    first.on_response(HeartbeatResponse(error_code=16), 1.0)
    assert forgotten == [first]
    (second,) = runner.poll(1.0).sends
    second.on_response(HeartbeatResponse(), 2.0)
    assert runner.outcome is not None
    assert runner.outcome.get() == 0
    assert forgotten == [first]


def confused() -> Script[None]:
    yield Step()


def test_a_step_that_is_none_is_the_scripts_error() -> None:
    rig = Rig(confused())
    rig.poll(0.0)
    assert isinstance(rig.outcomes[0].error, IllegalState)


def stubborn() -> Script[str]:
    while True:
        try:
            yield from call(heartbeat(1))
            return "done"
        except Disconnected:
            yield from wait(2.5)


def test_a_failure_is_thrown_in_and_a_wait_is_a_wake_up_time() -> None:
    rig = Rig(stubborn())
    (send,) = rig.sends(0.0)
    send.on_failure(Disconnected("gone"), 1.0)
    assert rig.poll(1.0) == PollResult([], 3.5)
    assert rig.poll(3.4) == PollResult([], 3.5)
    (send,) = rig.sends(3.5)
    send.on_response(HeartbeatResponse(), 4.0)
    assert [outcome.get() for outcome in rig.outcomes] == ["done"]


def test_a_failure_that_the_script_does_not_catch_is_its_outcome() -> None:
    rig = Rig(two_calls())
    (send,) = rig.sends(0.0)
    send.on_failure(RequestTimeout("slow"), 1.0)
    (outcome,) = rig.outcomes
    with pytest.raises(RequestTimeout):
        outcome.get()


def buggy() -> Script[None]:
    yield from call(heartbeat(1))
    raise ValueError("a bug")


def test_a_bug_in_the_script_is_its_outcome_too() -> None:
    rig = Rig(buggy())
    (send,) = rig.sends(0.0)
    send.on_response(HeartbeatResponse(), 1.0)
    assert isinstance(rig.outcomes[0].error, ValueError)


def gathering(*generations: int) -> Script[list[int]]:
    responses = yield from gather(*(heartbeat(generation) for generation in generations))
    return [response.error_code for response in responses]


def test_gather_sends_together_and_keeps_the_order_of_the_requests() -> None:
    rig = Rig(gathering(1, 2, 3))
    sends = rig.sends(0.0)
    assert len(sends) == 3
    for index in (2, 0, 1):
        assert not rig.outcomes
        sends[index].on_response(HeartbeatResponse(error_code=index), 1.0)
    assert [outcome.get() for outcome in rig.outcomes] == [[0, 1, 2]]


def test_gather_of_nothing_continues_at_once() -> None:
    rig = Rig(gathering())
    assert rig.sends(0.0) == []
    assert rig.outcomes[0].get() == []


def test_the_first_failure_of_a_gather_ends_it_and_late_answers_are_dropped() -> None:
    rig = Rig(gathering(1, 2))
    one, two = rig.sends(0.0)
    two.on_failure(Disconnected("gone"), 1.0)
    one.on_response(HeartbeatResponse(), 1.1)
    one.on_failure(Disconnected("gone"), 1.2)
    assert [type(outcome.error) for outcome in rig.outcomes] == [Disconnected]


def polite(notes: list[str]) -> Script[str]:
    try:
        yield from call(heartbeat(1))
    except KafkaError as error:
        notes.append(str(error))
        yield from call(heartbeat(99))
    return "left"


def test_cancelled_script_may_send_a_last_request_and_gets_no_late_response() -> None:
    notes: list[str] = []
    rig = Rig(polite(notes))
    (send,) = rig.sends(0.0)
    rig.runner.cancel(IllegalState("closing"), 1.0)
    send.on_response(HeartbeatResponse(), 1.1)
    (last,) = rig.sends(1.2)
    assert (notes, last.request) == (["closing"], heartbeat(99))
    last.on_response(HeartbeatResponse(), 1.3)
    assert rig.outcomes[0].get() == "left"
    rig.runner.cancel(IllegalState("again"), 2.0)
    assert len(rig.outcomes) == 1


def test_a_script_that_is_cancelled_before_it_began_ends_with_the_error() -> None:
    rig = Rig(two_calls())
    rig.runner.cancel(IllegalState("closing"), 0.0)
    assert isinstance(rig.outcomes[0].error, IllegalState)
    assert rig.sends(1.0) == []
    assert rig.poll(1.0) == PollResult([], FOREVER)
    assert len(rig.outcomes) == 1, "and does not begin after all"


def persistent() -> Script[None]:
    try:
        yield from call(heartbeat(1))
        yield from call(heartbeat(2))
    except RequestTimeout:
        yield from call(heartbeat(3))


def test_unsent_requests_of_a_cancelled_script_are_not_sent() -> None:
    rig = Rig(persistent())
    (send,) = rig.sends(0.0)
    send.on_response(HeartbeatResponse(), 1.0)
    rig.runner.cancel(RequestTimeout(), 1.0)
    assert [send.request for send in rig.sends(1.0)] == [heartbeat(3)]


def after_a_wait() -> Script[int]:
    yield from wait(1.0)
    response = yield from call(heartbeat(1))
    return response.error_code


def test_finished_wait_does_not_end_the_next_step() -> None:
    rig = Rig(after_a_wait())
    assert rig.poll(0.0) == PollResult([], 1.0)
    (send,) = rig.sends(1.0)
    assert rig.poll(2.0) == PollResult([], FOREVER)
    send.on_response(HeartbeatResponse(error_code=4), 3.0)
    assert [outcome.get() for outcome in rig.outcomes] == [4]


def all_moved() -> Script[None]:
    yield from gather(heartbeat(1), heartbeat(2))
    yield from forget_coordinator()


def test_all_nodes_of_a_joint_failure_are_forgotten() -> None:
    forgotten: list[Send[Any]] = []
    runner = ScriptRunner(all_moved(), ToNode(1), lambda outcome, now: None, forget=forgotten.append)
    sends = runner.poll(0.0).sends
    for send in sends:
        send.on_response(HeartbeatResponse(), 1.0)
    assert forgotten == sends


def test_the_driver_forgets_a_script_that_has_ended() -> None:
    runtime = HandRuntime()
    driver = Driver(runtime, "client")
    outcomes: list[Outcome[Any]] = []

    def waits() -> Script[str]:
        yield from wait(1.0)
        return "woken"

    run_script(driver, waits(), ToNode(1), lambda outcome, now: outcomes.append(outcome))
    assert runtime.turn() == 1.0
    runtime.hand_clock.now = 1.0
    runtime.turn()
    assert outcomes[0].get() == "woken"
    assert driver._pollables == []


# ---------------------------------------------------------------------------------------- work elsewhere


def offload_rig(script: Script[Any]) -> tuple[Rig, list[Any]]:
    """A runner whose work is passed to the test: pairs of the work and its callback."""
    submitted: list[Any] = []
    offload: StartWork = lambda work, then, lane: submitted.append((work, then))  # noqa: E731
    rig = Rig(script)
    rig.runner = ScriptRunner(
        script, ToNode(1), lambda outcome, now: rig.outcomes.append(outcome), offload=offload
    )
    return rig, submitted


def test_offloaded_work_returns_its_value_to_the_script() -> None:
    def script() -> Script[int]:
        return (yield from offloaded(lambda: 6 * 7))

    rig, submitted = offload_rig(script())
    assert rig.sends(0.0) == []
    assert rig.outcomes == []
    ((work, then),) = submitted
    then(Outcome(value=work()), 1.0)
    assert [outcome.get() for outcome in rig.outcomes] == [42]


def test_exception_of_offloaded_work_is_raised_in_the_script_only() -> None:
    def script() -> Script[str]:
        try:
            yield from offloaded(lambda: 1)
        except ValueError as error:
            yield from offloaded(lambda: 1)
            return str(error)
        return "nothing"

    rig, submitted = offload_rig(script())
    rig.sends(0.0)
    submitted[0][1](Outcome(error=ValueError("no")), 1.0)
    submitted[1][1](Outcome(error=SystemExit(3)), 2.0)
    with pytest.raises(ClientFailed, match="SystemExit"):
        rig.outcomes[0].get()


def test_work_that_ends_after_a_cancellation_is_dropped() -> None:
    def script() -> Script[int]:
        return (yield from offloaded(lambda: 1))

    rig, submitted = offload_rig(script())
    rig.sends(0.0)
    rig.runner.cancel(Disconnected("over"), 1.0)
    submitted[0][1](Outcome(value=1), 2.0)
    assert len(rig.outcomes) == 1
    assert isinstance(rig.outcomes[0].error, Disconnected)


def test_work_without_an_end_is_abandoned_after_its_limit() -> None:
    def script() -> Script[str]:
        try:
            yield from offloaded(lambda: 1, Lane.ASSIGNING, 30.0, lambda: RequestTimeout("it hangs"))
        except RequestTimeout as error:
            yield from wait(1.0)
            return str(error)
        return "nothing"

    rig, submitted = offload_rig(script())
    assert rig.runner.poll(1.0).wake_at == 31.0
    rig.sends(30.9)
    assert not rig.outcomes
    assert rig.runner.poll(31.0).wake_at == 32.0
    submitted[0][1](Outcome(value=1), 31.5)
    assert not rig.outcomes, "a late result is ignored"
    rig.sends(32.0)
    assert rig.outcomes[0].get() == "it hangs"
