"""An asyncio event loop in virtual time, run by one actor of the simulation."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from pykafka2.clock import FOREVER
from pykafka2.testing.simulation.problems import SimulationEnded, SimulationError
from pykafka2.testing.simulation.scheduler import Scheduler

T = TypeVar("T")


def run_coroutine(scheduler: Scheduler, coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine as `asyncio.run` does, in virtual time, on the calling actor.

    Tasks that are left at its end are cancelled.  If the simulation ends before, they are dropped.
    """
    loop = SimEventLoop(scheduler)
    try:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            return runner.run(coroutine)
    finally:
        loop.close()
        coroutine.close()


class SimFuture(asyncio.Future[T]):
    """A future whose place in a set depends on its number alone, so that sets of futures have an order."""

    number = 0

    def __hash__(self) -> int:
        return self.number


class SimTask(asyncio.Task[T]):
    """A task that is numbered like `SimFuture`: `TaskGroup` and `asyncio.run` keep tasks in sets."""

    def __init__(self, coroutine: Any, *, number: int, **options: Any) -> None:
        self.number = number
        super().__init__(coroutine, **options)

    def __hash__(self) -> int:
        return self.number


class OrderedWeakSet:
    """The part of `weakref.WeakSet` that an event loop uses, in the order of insertion."""

    def __init__(self) -> None:
        self._items: WeakKeyDictionary[Any, None] = WeakKeyDictionary()

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._items)

    def add(self, item: Any) -> None:
        self._items[item] = None

    def discard(self, item: Any) -> None:
        self._items.pop(item, None)

    def clear(self) -> None:
        self._items.clear()


class SimEventLoop(asyncio.BaseEventLoop):
    """Timers, tasks and thread-safe calls of asyncio in the virtual time of one actor.

    Each pass over the ready callbacks takes a few virtual microseconds, drawn from the seed.  `to_thread`
    runs its function as an actor.  There are no sockets: what a loop offers for those raises
    `NotImplementedError`.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__()
        self._scheduler = scheduler
        self._selector = self  # where BaseEventLoop waits
        self._is_woken = False
        self._futures = 0
        self._asyncgens: Any = OrderedWeakSet()
        self.set_task_factory(self._new_task)

    def create_future(self) -> asyncio.Future[Any]:
        self._futures += 1
        future: SimFuture[Any] = SimFuture(loop=self)
        future.number = self._futures
        return future

    def _new_task(self, loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> SimTask[Any]:
        self._futures += 1
        if options.get("name") is None:
            options["name"] = f"task-{self._futures}"
        return SimTask(coroutine, number=self._futures, loop=loop, **options)

    async def shutdown_asyncgens(self) -> None:
        """Close the generators that were left, in their order; finished ones can still be in the set."""
        for generator in list(self._asyncgens):
            if generator.ag_frame is None:
                self._asyncgens.discard(generator)
        await super().shutdown_asyncgens()

    def time(self) -> float:
        return self._scheduler.now

    def select(self, timeout: float | None) -> list[object]:
        """Let other actors and loops run until a thread-safe call arrives, at most `timeout` seconds."""
        self._scheduler.wait_until(self._woken, FOREVER if timeout is None else timeout, self._describe_tasks)
        self._is_woken = False
        return []

    def run_in_executor(  # type: ignore[override]
        self, executor: object, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        """Run blocking code as an actor; `executor` must be None, as with `asyncio.to_thread`."""
        if executor is not None:
            raise SimulationError(
                "an executor's threads are outside of the simulation; "
                "pass None to run the function as an actor"
            )
        future: asyncio.Future[T] = self.create_future()

        def settle(result: T | None, error: BaseException | None) -> None:
            if future.cancelled():
                return
            if error is None:
                future.set_result(result)  # type: ignore[arg-type]
            else:
                future.set_exception(error)

        def call() -> None:
            result, error = None, None
            try:
                result = func(*args)
            except SimulationEnded:
                raise
            except BaseException as raised:
                error = raised
            if not self.is_closed():
                self.call_soon_threadsafe(settle, result, error)

        self._scheduler.spawn_actor(getattr(func, "__name__", "to_thread"), call)
        return future

    def _describe_tasks(self) -> str:
        lines = ["an event loop's next call; its tasks are"]
        for task in sorted(asyncio.all_tasks(self), key=hash):
            frames = task.get_stack(limit=1)
            where = f"{frames[-1].f_code.co_filename}:{frames[-1].f_lineno}" if frames else "nowhere"
            function = frames[-1].f_code.co_name if frames else "it"
            lines.append(f"    {task.get_name()} at {where} in {function}")
        return "\n".join(lines)

    def _woken(self) -> bool:
        return self._is_woken

    def _write_to_self(self) -> None:
        self._is_woken = True
        self._scheduler.notify()

    def _process_events(self, event_list: list[object]) -> None:
        """Do nothing: there are no sockets."""
