"""Virtual time, actors and their baton."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

import pytest

from pykafka2.network.transport import Ready
from pykafka2.testing.simulation import (
    ActorFailed,
    ActorStuck,
    Deadlock,
    HotLoop,
    LoopFailed,
    Simulation,
    SimulationError,
)
from tests.simulation.toys import Ticker


def test_time_jumps_to_the_next_thing_to_happen() -> None:
    with Simulation(1) as simulation:
        ticker = Ticker(period=10.0)
        simulation.runtime.spawn("ticker", ticker)
        began = time.monotonic()
        simulation.run_for(3600)
        assert time.monotonic() - began < 5
        assert simulation.now == pytest.approx(3600)
        assert 359 <= len(ticker.turned_at) <= 361


def test_an_idle_loop_is_not_turned() -> None:
    with Simulation(1) as simulation:
        task = simulation.scheduler.spawn_task("idle", "idle", Ticker(float("inf")), None)
        simulation.run_for(100)
        assert task.turns == 1
        task.wake()
        simulation.run_for(1)
        assert task.turns == 2


def test_time_advances_despite_a_loop_that_never_sleeps() -> None:
    with Simulation(1) as simulation:
        simulation.runtime.spawn("restless", Ticker(period=0.0))
        simulation.run_for(0.01)
        assert simulation.now == pytest.approx(0.01)


@pytest.mark.gate
@pytest.mark.slow
def test_a_loop_that_spins_fails_by_name() -> None:
    with Simulation(1) as simulation:
        simulation.runtime.spawn("restless", Ticker(period=0.0))
        simulation.runtime.spawn("calm", Ticker(period=0.1))
        with pytest.raises(HotLoop, match=r"(?s)turns in the virtual second.*restless: \d{5} turns"):
            simulation.run_for(5)


def test_a_stopped_loop_is_not_turned_again() -> None:
    with Simulation(1) as simulation:
        ticker = Ticker(period=1.0)
        task = simulation.runtime.spawn("ticker", ticker)
        simulation.run_for(5)
        assert task.stop()
        turns = len(ticker.turned_at)
        task.wake()
        simulation.run_for(5)
        assert len(ticker.turned_at) == turns


def test_blocking_code_of_actors_interleaves_in_virtual_time() -> None:
    said: list[str] = []
    with Simulation(1) as simulation:

        def speak(word: str, period: float) -> None:
            for _ in range(3):
                simulation.sleep(period)
                said.append(word)

        fast = simulation.spawn(lambda: speak("tick", 1.0), "fast")
        slow = simulation.spawn(lambda: speak("tock", 1.6), "slow")
        slow.result()
        fast.result()
        assert said == ["tick", "tock", "tick", "tick", "tock", "tock"]
        assert simulation.now == pytest.approx(4.8, abs=0.01)


def test_seed_decides_the_order_of_actors() -> None:
    def first(seed: int) -> str:
        order: list[str] = []
        with Simulation(seed) as simulation:
            actors = [simulation.spawn(lambda n=n: order.append(n), n) for n in "abc"]  # type: ignore[misc]
            for actor in actors:
                actor.result()
        return "".join(order)

    orders = {first(seed) for seed in range(30)}
    assert len(orders) == 6
    assert first(7) == first(7)


def test_actors_talk_by_queues_and_events() -> None:
    with Simulation(3) as simulation:
        queue, done = simulation.queue(capacity=2), simulation.event()

        def produce() -> None:
            for number in range(10):
                queue.put(number)
            done.set()

        simulation.spawn(produce, "producer")
        assert [queue.get(timeout=1) for _ in range(10)] == list(range(10))
        assert done.wait(timeout=1)
        with pytest.raises(TimeoutError):
            queue.get(timeout=2)


def test_wait_until_distinguishes_predicate_and_timeout() -> None:
    with Simulation(2) as simulation:
        flag: list[bool] = []

        def raise_flag() -> None:
            simulation.sleep(1)
            flag.append(True)
            simulation.runtime.notify()

        simulation.spawn(raise_flag, "flag")
        assert not simulation.runtime.wait_until(lambda: bool(flag), 0.5)
        assert simulation.now == pytest.approx(0.5)
        assert simulation.runtime.wait_until(lambda: bool(flag), 10)
        assert simulation.now == pytest.approx(1.0, abs=0.001)
        assert simulation.runtime.wait_until(lambda: bool(flag), 0)


def test_time_advances_despite_polling_without_a_timeout() -> None:
    with Simulation(2) as simulation:
        while simulation.now < 0.01:
            simulation.runtime.wait_until(lambda: False, 0)
        assert simulation.now < 0.02


def test_offloaded_work_takes_virtual_time_and_reports_its_error() -> None:
    with Simulation(2) as simulation:
        outcomes: list[object] = []
        simulation.runtime.offload(lambda: 1 // 0, outcomes.append)
        assert outcomes == []
        simulation.run_for(0.1)
        assert isinstance(outcomes[0].error, ZeroDivisionError)  # type: ignore[attr-defined]


def test_deadlock_lists_the_waiting_actors_and_their_waits() -> None:
    with Simulation(2) as simulation:
        simulation.spawn(lambda: simulation.queue().get(), "hungry")
        with pytest.raises(
            Deadlock, match=r"(?s)hungry waits: an item in a queue.*main waits: an event|main"
        ):
            simulation.event().wait()
        with pytest.raises(Deadlock):
            simulation.sleep(1)


def test_endless_timers_do_not_hide_a_deadlock() -> None:
    with Simulation(2) as simulation:
        simulation.runtime.spawn("ticker", Ticker(period=5.0))
        with pytest.raises(Deadlock, match="an event"):
            simulation.event().wait()


def test_failed_actor_fails_the_simulation_unless_its_result_is_read() -> None:
    def fail() -> None:
        raise ValueError("broken")

    def nobody_asks() -> None:
        with Simulation(2) as simulation:
            simulation.spawn(fail, "faulty")
            simulation.run_for(1)

    with Simulation(2) as simulation, pytest.raises(ValueError, match="broken"):
        simulation.run(fail)
    with pytest.raises(ActorFailed, match="broken"):
        nobody_asks()


def test_a_loop_that_raises_ends_and_fails_the_simulation(caplog: pytest.LogCaptureFixture) -> None:
    class Faulty:
        def run_once(self, now: float, events: Sequence[Ready]) -> float:
            raise KeyError("lost")

    def turn_it() -> None:
        with Simulation(2) as simulation:
            task = simulation.runtime.spawn("faulty", Faulty())
            simulation.run_for(1)
            assert isinstance(task.error, KeyError)

    with pytest.raises(LoopFailed, match="lost"):
        turn_it()


def test_a_step_must_not_block() -> None:
    class Blocking:
        def __init__(self, simulation: Simulation) -> None:
            self.simulation = simulation

        def run_once(self, now: float, events: Sequence[Ready]) -> float:
            self.simulation.sleep(1)
            return now

    def turn_it() -> None:
        with Simulation(2) as simulation:
            simulation.runtime.spawn("blocking", Blocking(simulation))
            simulation.run_for(1)

    with pytest.raises(LoopFailed, match="must not wait"):
        turn_it()


def test_is_current_holds_within_the_turn_only() -> None:
    with Simulation(2) as simulation:
        seen: list[bool] = []

        class Polling:
            def run_once(self, now: float, events: Sequence[Ready]) -> float:
                seen.append(simulation.runtime.is_current(task))
                return float("inf")

        task = simulation.runtime.spawn("polling", Polling())
        simulation.run_for(1)
        assert seen == [True]
        assert not simulation.runtime.is_current(task)


def test_other_threads_are_refused() -> None:
    with Simulation(2) as simulation:
        errors: list[BaseException] = []

        def intrude() -> None:
            try:
                simulation.sleep(1)
            except SimulationError as error:
                errors.append(error)

        thread = threading.Thread(target=intrude, name="stranger")
        thread.start()
        thread.join()
        assert "stranger" in str(errors[0])


def test_actors_that_still_wait_are_unwound_at_the_end() -> None:
    before = set(threading.enumerate())
    unwound: list[str] = []
    with Simulation(2) as simulation:

        def wait_for_ever() -> None:
            try:
                simulation.event().wait()
            finally:
                unwound.append("yes")

        simulation.spawn(wait_for_ever, "waiting")
        simulation.spawn(lambda: None, "never started")
        simulation.runtime.wait_until(lambda: False, 0.01)
    assert unwound == ["yes"]
    assert set(threading.enumerate()) <= before


def spin() -> None:
    while True:
        pass


@pytest.mark.gate
@pytest.mark.slow
def test_an_actor_that_keeps_the_baton_fails_with_its_stack() -> None:
    with Simulation(2, watchdog=0.5) as simulation:
        simulation.spawn(spin, "spinner")
        with pytest.raises(ActorStuck, match=r"(?s)spinner held the baton.*in spin"):
            simulation.sleep(1)


@pytest.mark.gate
@pytest.mark.slow
def test_a_test_that_keeps_the_baton_is_interrupted(capsys: pytest.CaptureFixture[str]) -> None:
    with Simulation(2, watchdog=0.5) as simulation:
        simulation.sleep(1)
        with pytest.raises(ActorStuck):
            spin()
    assert "main held the baton" in capsys.readouterr().err


def test_a_paused_place_runs_later() -> None:
    with Simulation(2) as simulation:
        ticker = Ticker(period=1.0)
        simulation.runtime.spawn("broker-1 ticker", ticker)
        simulation.run_for(1.5)
        simulation.scheduler.pause("broker-1", simulation.scheduler.now + 10)
        simulation.run_for(5)
        assert len(ticker.turned_at) == 2
        simulation.run_for(6)
        assert ticker.turned_at[2] == pytest.approx(11.5, abs=0.001)


def test_the_wall_clock_jumps_alone() -> None:
    with Simulation(2) as simulation:
        wall, monotonic = simulation.clock.wall_ms(), simulation.clock.monotonic()
        simulation.clock.jump(-3600)
        assert simulation.clock.wall_ms() - wall == -3_600_000
        assert simulation.clock.monotonic() == monotonic


@pytest.mark.gate
def test_ended_actors_are_dropped() -> None:
    with Simulation(seed=1) as simulation:
        first = simulation.spawn(lambda: 1)
        assert [simulation.run(lambda number=number: number) for number in range(1000)] == list(range(1000))  # type: ignore[misc]
        assert len(simulation.scheduler.threads.actors) < 500
        assert first.result() == 1


@pytest.mark.gate
def test_failures_of_ended_actors_are_kept() -> None:
    def fail() -> None:
        raise ValueError("early")

    with Simulation(seed=1) as simulation:
        simulation.spawn(fail)
        for _ in range(1000):
            simulation.run(int)
        assert [str(failure) for failure in simulation.failures] == [
            "actor fail-1 ended by ValueError('early')"
        ]
