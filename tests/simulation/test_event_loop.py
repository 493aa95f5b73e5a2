"""Coroutines in the simulation: an event loop in virtual time, whose order the seed decides."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from pykafka2.testing import Simulation
from pykafka2.testing.simulation import Deadlock, SimulationError


def test_sleep_takes_virtual_time_only() -> None:
    async def main() -> float:
        await asyncio.sleep(3600)
        return asyncio.get_running_loop().time()

    before = time.monotonic()
    with Simulation(seed=1) as simulation:
        assert simulation.run(main) == pytest.approx(3600, abs=0.01)
        assert simulation.now == pytest.approx(3600, abs=0.01)
    assert time.monotonic() - before < 60


def test_timeout_cancels_the_wait() -> None:
    async def main() -> str:
        try:
            async with asyncio.timeout(5):
                await asyncio.Event().wait()
        except TimeoutError:
            return f"{asyncio.get_running_loop().time():.2f}"
        return "not raised"

    with Simulation(seed=1) as simulation:
        assert simulation.run(main) == "5.00"


def test_tasks_left_at_the_end_are_cancelled() -> None:
    ended: list[str] = []

    async def forever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")

    async def main() -> None:
        asyncio.create_task(forever())  # noqa: RUF006
        await asyncio.sleep(0)

    with Simulation(seed=1) as simulation:
        simulation.run(main)
    assert ended == ["cancelled"]


def test_error_of_a_coroutine_is_raised_by_result() -> None:
    async def main() -> None:
        await asyncio.sleep(1)
        raise ValueError("from the coroutine")

    with Simulation(seed=1) as simulation, pytest.raises(ValueError, match="from the coroutine"):
        simulation.run(main)


@pytest.mark.parametrize("seed", range(5))
def test_two_loops_and_an_actor_pass_values_deterministically(seed: int) -> None:
    def play() -> tuple[list[str], str]:
        story: list[str] = []
        with Simulation(seed=seed) as simulation:
            loops: list[tuple[asyncio.AbstractEventLoop, asyncio.Queue[int]]] = []

            async def reader(name: str) -> None:
                queue: asyncio.Queue[int] = asyncio.Queue()
                loops.append((asyncio.get_running_loop(), queue))
                while True:
                    story.append(f"{name} {await queue.get()}")
                    if story[-1].endswith("9"):
                        return

            def writer() -> None:
                simulation.wait_until(lambda: len(loops) == 2)
                for number in range(10):
                    for loop, queue in loops:
                        loop.call_soon_threadsafe(queue.put_nowait, number)
                    simulation.sleep(0.00001)

            async def one() -> None:
                await reader("one")

            async def other() -> None:
                await reader("other")

            actors = [simulation.spawn(body) for body in (one, other, writer)]
            for actor in actors:
                actor.result(timeout=10)
            return story, simulation.trace_hash

    story, digest = play()
    assert [line for line in story if line.startswith("one")] == [f"one {number}" for number in range(10)]
    assert len(story) == 20
    assert play() == (story, digest)


def test_seeds_order_two_loops_differently() -> None:
    def play(seed: int) -> str:
        story = ""
        with Simulation(seed=seed) as simulation:

            async def write(letter: str) -> None:
                nonlocal story
                for _ in range(5):
                    story += letter
                    await asyncio.sleep(0)

            async def one() -> None:
                await write("a")

            async def other() -> None:
                await write("b")

            for actor in [simulation.spawn(one), simulation.spawn(other)]:
                actor.result()
        return story

    assert len({play(seed) for seed in range(10)}) > 3


def test_to_thread_runs_as_an_actor_in_virtual_time() -> None:
    with Simulation(seed=2) as simulation:

        def block() -> str:
            simulation.sleep(7)
            return "done"

        async def main() -> tuple[list[str], float]:
            results = await asyncio.gather(asyncio.to_thread(block), asyncio.to_thread(block))
            return results, simulation.now

        results, now = simulation.run(main)
    assert results == ["done", "done"]
    assert now == pytest.approx(7, abs=0.01)


def test_error_of_to_thread_is_raised_by_await() -> None:
    def fail() -> None:
        raise KeyError("in the thread")

    async def main() -> str:
        try:
            await asyncio.to_thread(fail)
        except KeyError as error:
            return str(error)
        return "not raised"

    with Simulation(seed=2) as simulation:
        assert simulation.run(main) == "'in the thread'"


def test_executor_of_real_threads_is_refused() -> None:
    async def main() -> None:
        with ThreadPoolExecutor(1) as executor:
            await asyncio.get_running_loop().run_in_executor(executor, print)

    with Simulation(seed=2) as simulation, pytest.raises(SimulationError, match="outside of the simulation"):
        simulation.run(main)


def test_coroutine_that_waits_for_ever_is_a_deadlock() -> None:
    async def for_an_event() -> None:
        await asyncio.Event().wait()

    async def main() -> None:
        await asyncio.create_task(for_an_event(), name="the waiting task")

    with (
        Simulation(seed=3) as simulation,
        pytest.raises(Deadlock, match="an event loop's next call") as raised,
    ):
        simulation.run(main)
    assert re.search(r"the waiting task .* in for_an_event", str(raised.value))


def test_simulation_that_ends_before_a_coroutine_unwinds_it() -> None:
    async def main() -> None:
        await asyncio.sleep(3600)

    with Simulation(seed=3) as simulation:
        simulation.spawn(main)
        simulation.sleep(1)


def test_deliveries_of_the_producer_can_be_awaited() -> None:
    with Simulation(seed=4) as simulation:
        cluster = simulation.cluster(1, ["orders"])
        producer = simulation.producer(cluster)

        async def main() -> list[int]:
            return [(await producer.send("orders", b"%d" % number)).offset for number in range(5)]

        assert simulation.run(main) == [0, 1, 2, 3, 4]


def test_finished_generators_leave_the_trace_as_it_is_until_they_are_collected() -> None:
    def play(*, collects: bool) -> str:
        async def numbers() -> AsyncIterator[int]:
            yield 1

        async def main() -> None:
            generator = numbers()
            assert [number async for number in generator] == [1]
            kept.append(generator)
            if collects:
                kept.clear()

        kept: list[object] = []
        with Simulation(seed=1) as simulation:
            simulation.run(main)
            return simulation.trace_hash

    assert play(collects=True) == play(collects=False)


def test_order_in_which_a_task_group_cancels_its_tasks_is_the_same_for_the_same_seed() -> None:
    def play() -> tuple[list[int], str]:
        cancelled: list[int] = []

        async def wait(number: int) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.append(number)

        async def main() -> None:
            ballast = [object() for _ in range(next(sizes))]
            with suppress(ExceptionGroup):
                async with asyncio.TaskGroup() as group:
                    for number in range(20):
                        group.create_task(wait(number))
                        ballast.append(bytearray(number * 100))
                    await asyncio.sleep(1)
                    raise ValueError("ends all tasks")

        with Simulation(seed=1) as simulation:
            simulation.run(main)
            assert len(cancelled) == 20
            return cancelled, simulation.trace_hash

    sizes = iter([1, 1000, 33])
    assert play() == play() == play()
