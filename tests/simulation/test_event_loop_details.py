"""Order, wake-ups and ends of the event loop in virtual time, and the waits of its tasks in a runtime."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from pykafka2.driver.runtime import Outcome
from pykafka2.driver.wait_queue import WaitQueue, Watched
from pykafka2.network.script import Lane
from pykafka2.testing import Simulation
from pykafka2.testing.simulation import SimulationError
from pykafka2.testing.simulation.event_loop import OrderedWeakSet, SimEventLoop, run_coroutine


class Key:
    """An object that can be referred to weakly."""


# ---------------------------------------------------------------------- order


def test_futures_and_tasks_are_numbered_in_the_order_of_their_creation() -> None:
    async def nothing() -> None: ...

    async def main() -> tuple[list[int], list[str]]:
        loop = asyncio.get_running_loop()
        made: list[Any] = [loop.create_future(), asyncio.create_task(nothing()), loop.create_future()]
        named = asyncio.create_task(nothing(), name="mine")
        await asyncio.gather(made[1], named)
        return [hash(one) - hash(made[0]) for one in made], [made[1].get_name(), named.get_name()]

    def play() -> Any:
        with Simulation(seed=1) as simulation:
            return simulation.run(main)

    numbers, names = play()
    assert numbers == [0, 1, 2]
    assert names[0].startswith("task-")
    assert names[1] == "mine"
    assert play() == (numbers, names)  # asyncio's own names count on in the process


def test_set_of_futures_has_the_same_order_in_each_run() -> None:
    async def main() -> list[int]:
        ballast, futures = [], []
        for number in range(20):
            futures.append(asyncio.get_running_loop().create_future())
            ballast.append(bytearray(next(sizes) * (number + 1)))
        first = hash(futures[0])
        return [hash(one) - first for one in set(futures)]

    def play() -> Any:
        with Simulation(seed=1) as simulation:
            return simulation.run(main)

    sizes = iter([100] * 20 + [3000] * 20)
    assert play() == play()


def test_generators_left_at_the_end_are_closed_in_the_order_of_their_creation() -> None:
    def play(ballast: int) -> list[int]:
        closed: list[int] = []

        async def numbers(number: int) -> AsyncIterator[int]:
            try:
                yield number
            finally:
                closed.append(number)

        async def main() -> None:
            for number in range(20):
                generator = numbers(number)
                await anext(generator)
                kept.append(generator)
                kept.append(bytearray(number * ballast))

        kept: list[object] = []
        with Simulation(seed=1) as simulation:
            simulation.run(main)
        return closed

    assert play(10) == play(1000) == list(range(20))


def test_ordered_weak_set_keeps_the_order_and_no_object() -> None:
    keys = [Key() for _ in range(10)]
    items = OrderedWeakSet()
    for key in [*keys, *keys]:
        items.add(key)
    assert list(items) == keys
    items.discard(keys[3])
    items.discard(keys[3])
    assert list(items) == keys[:3] + keys[4:]
    del key, keys[0]
    assert list(items) == keys[:2] + keys[3:]
    assert len(items) == 8
    items.clear()
    assert len(items) == 0


# ---------------------------------------------------------------------- wake-ups and time


def test_thread_safe_call_wakes_a_loop_without_timers_at_once() -> None:
    with Simulation(seed=1) as simulation:
        loops: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

        async def main() -> float:
            event = asyncio.Event()
            loops.append((asyncio.get_running_loop(), event))
            await event.wait()
            return simulation.now

        waiting = simulation.spawn(main)
        simulation.sleep(1)
        [(loop, event)] = loops
        loop.call_soon_threadsafe(event.set)
        simulation.sleep(5)
        assert waiting.result() == pytest.approx(1, abs=0.01)


def test_loop_has_the_time_of_the_simulation_and_each_pass_takes_some() -> None:
    async def main() -> list[float]:
        loop = asyncio.get_running_loop()
        times = [loop.time()]
        for _ in range(3):
            await asyncio.sleep(0)
            times.append(loop.time())
        await asyncio.sleep(2)
        return [*times, loop.time()]

    with Simulation(seed=1) as simulation:
        times = simulation.run(main)
        assert times == sorted(set(times))
        assert times[0] == pytest.approx(0, abs=0.01)
        assert times[-2] == pytest.approx(0, abs=0.01)
        assert times[-1] == pytest.approx(2, abs=0.01) == pytest.approx(simulation.now, abs=0.01)


def test_loop_that_only_waits_turns_a_few_times_also_after_a_thread_safe_call() -> None:
    async def main() -> None:
        asyncio.get_running_loop().call_soon_threadsafe(lambda: None)
        await asyncio.sleep(1)

    with Simulation(seed=1) as simulation:
        simulation.run(main)
        assert simulation.scheduler.progress < 50


# ---------------------------------------------------------------------- threads of a loop


def test_to_thread_that_was_cancelled_ends_without_an_error() -> None:
    reported: list[Any] = []

    with Simulation(seed=1) as simulation:
        ended: list[float] = []

        def block() -> str:
            simulation.sleep(2)
            ended.append(simulation.now)
            return "unused"

        async def main() -> None:
            asyncio.get_running_loop().set_exception_handler(lambda loop, context: reported.append(context))
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(1):
                    await asyncio.to_thread(block)
            await asyncio.sleep(5)

        simulation.run(main)
    assert ended == [pytest.approx(2, abs=0.01)]
    assert not reported


def test_to_thread_that_ends_after_its_loop_ends_without_an_error() -> None:
    with Simulation(seed=1) as simulation:
        ended: list[float] = []

        def block() -> None:
            simulation.sleep(2)
            ended.append(simulation.now)

        async def main() -> None:
            asyncio.get_running_loop().run_in_executor(None, block)
            await asyncio.sleep(1)

        simulation.run(main)
        simulation.sleep(5)
        assert ended == [pytest.approx(2, abs=0.01)]
        assert all(actor.unclaimed_failure() is None for actor in simulation.scheduler.threads.actors)


def test_thread_of_a_loop_has_the_name_and_the_arguments_of_its_function() -> None:
    def add(one: int, other: int) -> int:
        return one + other

    async def main() -> int:
        return await asyncio.get_running_loop().run_in_executor(None, add, 1, 2)

    with Simulation(seed=1) as simulation:
        assert simulation.run(main) == 3
        assert "add" in [actor.name for actor in simulation.scheduler.threads.actors]


# ---------------------------------------------------------------------- the end


def test_coroutine_that_has_not_begun_at_the_end_of_the_simulation_is_closed() -> None:
    states: list[tuple[bool, str]] = []
    for seed in range(30):
        begun: list[bool] = []

        async def main(begun: list[bool] = begun) -> None:
            begun.append(True)
            await asyncio.sleep(3600)

        coroutine = main()
        entered: list[bool] = []
        with Simulation(seed=seed) as simulation:

            def run(
                simulation: Simulation = simulation,
                coroutine: Any = coroutine,
                entered: list[bool] = entered,
            ) -> None:
                entered.append(True)
                run_coroutine(simulation.scheduler, coroutine)

            simulation.spawn(run)
            simulation.sleep(20e-6)
        if entered:
            states.append((bool(begun), inspect.getcoroutinestate(coroutine)))
        coroutine.close()
    assert {state for _, state in states} == {inspect.CORO_CLOSED}
    assert {has_begun for has_begun, _ in states} == {True, False}


def test_loop_is_closed_after_its_coroutine_also_if_that_raised() -> None:
    loops: list[asyncio.AbstractEventLoop] = []

    async def main() -> None:
        loops.append(asyncio.get_running_loop())
        raise ZeroDivisionError

    with Simulation(seed=1) as simulation:
        with pytest.raises(ZeroDivisionError):
            simulation.run(main)
        assert isinstance(loops[0], SimEventLoop)
        assert loops[0].is_closed()


def test_sockets_of_a_loop_raise() -> None:
    async def main() -> None:
        with pytest.raises(NotImplementedError):
            await asyncio.open_connection("127.0.0.1", 9)

    async def with_an_executor() -> None:
        asyncio.get_running_loop().run_in_executor(object(), print)  # type: ignore[arg-type]

    with Simulation(seed=1) as simulation:
        simulation.run(main)
        with pytest.raises(SimulationError, match="pass None"):
            simulation.run(with_an_executor)


# ---------------------------------------------------------------------- waits of tasks in a runtime


class Counter:
    """A waiter that counts its wake-ups."""

    def __init__(self) -> None:
        self.wake_ups = 0

    def unpark(self) -> None:
        self.wake_ups += 1


def test_notify_wakes_the_waiters_of_its_place_until_they_leave() -> None:
    with Simulation(seed=1) as simulation:
        runtime, other = simulation.runtime.at("shop"), simulation.runtime.at("office")
        waiter = Counter()
        runtime.join(waiter, None)
        runtime.notify()
        assert waiter.wake_ups == 1
        other.notify()
        assert waiter.wake_ups == 1
        runtime.check_waiters()  # it has no predicate
        assert waiter.wake_ups == 1
        runtime.leave(waiter, None)
        runtime.leave(waiter, None)
        runtime.notify()
        assert waiter.wake_ups == 1


def test_check_waiters_wakes_waiters_with_a_true_predicate_until_they_leave() -> None:
    with Simulation(seed=1) as simulation:
        runtime = simulation.runtime.at("shop")
        waiter, is_true = Counter(), False
        watched = Watched(lambda: is_true, waiter.unpark)
        runtime.join(waiter, watched)
        runtime.check_waiters()
        assert waiter.wake_ups == 0
        is_true = True
        runtime.check_waiters()
        assert waiter.wake_ups == 1
        runtime.leave(waiter, watched)
        runtime.check_waiters()
        assert waiter.wake_ups == 1


def test_blocked_actor_leaves_its_queues() -> None:
    with Simulation(seed=1) as simulation:
        runtime, queue = simulation.runtime.at("shop"), WaitQueue()
        news: list[int] = []

        def cause() -> None:
            simulation.sleep(1)
            news.append(1)
            queue.wake()
            simulation.sleep(5)  # the end of an actor wakes every waiter

        simulation.spawn(cause)
        assert runtime.wait_until(lambda: bool(news), 10, queue)
        assert simulation.now == pytest.approx(1, abs=0.01)
        assert not runtime.wait_until(lambda: False, 1, queue)
        assert not queue._waiters


@pytest.mark.parametrize("lane", [Lane.CALLS, Lane.CLOSING])
def test_calls_on_helper_threads_can_block_and_their_exceptions_are_outcomes(lane: Lane) -> None:
    with Simulation(seed=1) as simulation:
        runtime = simulation.runtime.at("shop")
        outcomes: list[Outcome[Any]] = []

        def block(result: Callable[[], str]) -> Callable[[], str]:
            def call() -> str:
                simulation.sleep(1)
                return result()

            return call

        def fail() -> str:
            raise KeyboardInterrupt

        runtime.offload(block(lambda: "done"), outcomes.append, lane)
        runtime.offload(block(fail), outcomes.append, lane)
        simulation.wait_until(lambda: len(outcomes) == 2, 10)
        assert simulation.now == pytest.approx(1, abs=0.4)
        assert sorted(type(one.error).__name__ for one in outcomes) == ["KeyboardInterrupt", "NoneType"]
        assert [one.value for one in outcomes if one.error is None] == ["done"]


def test_helper_threads_begin_at_times_that_the_seed_decides() -> None:
    def play(seed: int) -> list[float]:
        with Simulation(seed=seed) as simulation:
            runtime, begun = simulation.runtime.at("shop"), list[float]()
            for _ in range(40):
                runtime.offload(lambda: begun.append(simulation.now), lambda outcome: None, Lane.CALLS)
            simulation.sleep(1)
            return begun

    begun = play(1)
    assert begun == play(1) != play(2)
    assert len(begun) == 40
    assert min(begun) < 1e-3 < 20e-3 < max(begun)
