"""The runtime on real threads, clocks and sockets: each loop has its own daemon thread.

The only module of the client that starts threads; its counterpart in virtual time is
testing/simulation/driver.py. Waiting and waking take no lock that a signal handler or a Ctrl-C could find
held: a sleeper parks on its own lock, which serves as a binary semaphore.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from collections.abc import Callable
from typing import TypeVar

from pykafka2.clock import FOREVER, Clock, Entropy, SystemClock, SystemEntropy
from pykafka2.driver.runtime import Outcome, Step, Task, ignore_error
from pykafka2.driver.wait_queue import RuntimeWaiters, WaitQueue, Watched
from pykafka2.errors import ClientClosed, ClientNotStarted, ForkedClientError
from pykafka2.network.script import Lane
from pykafka2.network.tcp import TcpNetwork
from pykafka2.network.transport import Network, Ready, Selector

T = TypeVar("T")

# Of each lane.
MAX_OFFLOAD_THREADS = 4
# Blocking calls mostly wait, and one that waits must not delay another.
MAX_CALL_THREADS = 64
# An idle helper thread ends after this many seconds; name resolution comes in bursts.
OFFLOAD_IDLE = 10.0
CLOSE_TIMEOUT = 1.0
# A signal that the system hands to another thread does not end the main thread's sleep, yet its handler runs
# there: so the main thread never sleeps longer than this.
SIGNAL_CHECK = 0.25

logger = logging.getLogger(__name__)

_loops: set[int] = set()
"""The threads of all loops; each operation on it is one step in C."""


class Parker:
    """A place where one thread sleeps until another unparks it; an early unpark is not lost.

    `unpark` can be called by any thread and by a signal handler, even one that interrupted `unpark`.
    """

    __slots__ = ("_permit",)

    def __init__(self) -> None:
        self._permit = threading.Lock()
        self._permit.acquire()

    def park(self, timeout: float) -> None:
        """Sleep until unparked, at most `timeout` seconds.  May return early.  Ctrl-C interrupts it."""
        if timeout > 0:
            self._permit.acquire(timeout=-1 if timeout > threading.TIMEOUT_MAX else timeout)
        else:
            self._permit.acquire(blocking=False)

    def unpark(self) -> None:
        if self._permit.locked():
            try:
                self._permit.release()
            except RuntimeError:
                pass  # another thread was faster: the permit is there


class ThreadTask:
    """A loop in its own thread (see `runtime.Task`)."""

    def __init__(
        self,
        runtime: ThreadRuntime,
        name: str,
        step: Step,
        selector: Selector | None,
        on_failed: Callable[[BaseException], None] = ignore_error,
    ) -> None:
        self.name = name
        self.error: BaseException | None = None
        self.turns = 0
        self.worked = 0.0
        self._runtime = runtime
        self._step = step
        self._selector = selector
        self._on_failed = on_failed
        self._parker = Parker()
        self.wake: Callable[[], None] = self._parker.unpark if selector is None else selector.wake
        """Calls `run_once` soon.  Any thread or signal handler; takes no lock."""
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def stop(self, timeout: float = 5.0) -> bool:
        """End the loop after its current turn and wait for it; False if it did not end in time."""
        self._stopping = True
        self.wake()
        if self._thread is threading.current_thread():
            return True
        self._thread.join(min(max(timeout, 0.0), threading.TIMEOUT_MAX))
        return not self._thread.is_alive()

    def is_current(self) -> bool:
        return threading.get_ident() == self._thread.ident

    def _run(self) -> None:
        me = threading.get_ident()
        _loops.add(me)
        try:
            if self._selector is None:
                self._turn_parked(self._parker)
            else:
                self._turn_selecting(self._selector)
        except BaseException as error:
            self._end(error)
        finally:
            _loops.discard(me)
            if self._selector is not None:
                self._selector.close()
            self._runtime.notify()

    def _end(self, error: BaseException) -> None:
        try:
            self._on_failed(error)
            logger.error("the loop %s ended by an error", self.name, exc_info=error)
        finally:
            self.error = error

    def _turn_selecting(self, selector: Selector) -> None:
        monotonic = self._runtime.clock.monotonic
        run_once = self._step.run_once
        events: list[Ready] = []
        while not self._stopping:
            began = monotonic()
            wake_at = run_once(began, events)
            ended = monotonic()
            self.turns += 1
            self.worked += ended - began
            events = selector.select(wake_at - ended)

    def _turn_parked(self, parker: Parker) -> None:
        monotonic = self._runtime.clock.monotonic
        run_once = self._step.run_once
        while not self._stopping:
            wake_at = run_once(monotonic(), ())
            parker.park(wake_at - monotonic())


class ThreadRuntime(RuntimeWaiters):
    """`runtime.Runtime` on threads.  One belongs to a client, or to a cluster of the bundled broker."""

    def __init__(
        self, *, network: Network | None = None, clock: Clock | None = None, entropy: Entropy | None = None
    ) -> None:
        super().__init__()
        self.clock: Clock = clock or SystemClock()
        self.entropy: Entropy = entropy or SystemEntropy()
        self.network: Network = network or TcpNetwork()
        self._pid = os.getpid()
        self._main_thread = threading.main_thread().ident
        self._pools = {
            lane: _Pool(
                self.clock.monotonic,
                f"pykafka2-{lane.value}",
                MAX_CALL_THREADS if lane in (Lane.CALLS, Lane.CLOSING) else MAX_OFFLOAD_THREADS,
            )
            for lane in Lane
        }

    def spawn(
        self,
        name: str,
        step: Step,
        selector: Selector | None = None,
        on_failed: Callable[[BaseException], None] = ignore_error,
    ) -> Task:
        """Start a daemon thread that runs the loop; its first turn is immediate.

        Raise `ClientNotStarted` if the system has no thread for it.
        """
        self._check_process()
        try:
            task = ThreadTask(self, name, step, selector, on_failed)  # a subinterpreter has no daemon threads
            task.start()
        except RuntimeError as error:
            raise ClientNotStarted(f"{name}: the system has no thread left ({error})") from error
        return task

    def wait_until(self, predicate: Callable[[], bool], timeout: float, *queues: WaitQueue) -> bool:
        """Block the calling thread until `predicate()` is true, at most `timeout` seconds (see `Runtime`).

        Ctrl-C and signal handlers interrupt it at once.
        """
        if os.getpid() != self._pid:
            if predicate():  # so that the caller can raise its own error, which names the client
                return True
            raise ForkedClientError
        monotonic = self.clock.monotonic
        deadline = monotonic() + timeout
        longest = SIGNAL_CHECK if threading.get_ident() == self._main_thread else FOREVER
        parker = Parker()
        watched = None if queues else Watched(predicate, parker.unpark)
        look = predicate if watched is None else watched.look
        try:
            self.join(parker, watched)
            for queue in queues:
                queue.join(parker)
            # Evaluated after the waiter has joined: a wake-up from then on is kept as its permit.
            while not look():
                remaining = deadline - monotonic()
                if remaining <= 0:
                    return look()
                parker.park(remaining if remaining < longest else longest)
            return True
        finally:
            for queue in queues:
                queue.leave(parker)
            self.leave(parker, watched)

    def offload(
        self,
        work: Callable[[], T],
        then: Callable[[Outcome[T]], None],
        lane: Lane = Lane.COMPUTING,
    ) -> None:
        """Run `work`, then `then(outcome)`, on one of the few helper threads of its lane.

        Raise `ClientClosed` after `close`, `RuntimeError` if the system has no thread for it. Exceptions of
        `then` are logged.
        """
        self._check_process()

        def job() -> None:
            try:
                outcome: Outcome[T] = Outcome(value=work())
            except BaseException as error:
                outcome = Outcome(error=error)
            then(outcome)

        self._pools[lane].submit(job)

    def is_current(self, task: Task) -> bool:
        return isinstance(task, ThreadTask) and task.is_current()

    def is_in_a_loop(self) -> bool:
        return threading.get_ident() in _loops

    def close(self) -> None:
        """End the helper threads; those that hang in their work are abandoned (they are daemons)."""
        deadline = self.clock.monotonic() + CLOSE_TIMEOUT
        for pool in self._pools.values():
            pool.begin_to_close()
        for pool in self._pools.values():
            pool.close(deadline)

    @property
    def was_forked(self) -> bool:
        """Return True in a child process: its threads exist only in the parent."""
        return os.getpid() != self._pid

    def _check_process(self) -> None:
        if self.was_forked:
            raise ForkedClientError


class _Pool:
    """A few daemon threads that start when there is work and end when they have been idle for a while.

    Whenever the lock is free, each queued job has a thread that waits for a job or starts, unless the limit
    of threads is reached, or the system has no more. `concurrent.futures.ThreadPoolExecutor` does not serve
    here: its threads never end by themselves, and the interpreter joins them at its exit, so a name that no
    server resolves or a hung token provider would keep the process alive. It also accepts no job after that,
    such as those of a close.
    """

    def __init__(self, monotonic: Callable[[], float], name: str, max_threads: int) -> None:
        self._monotonic = monotonic
        self._name = name
        self._max_threads = max_threads
        self._jobs: deque[Callable[[], None]] = deque()
        self._threads: set[threading.Thread] = set()
        self._idle = 0
        """Threads that wait for a job, including those that are notified and not yet awake."""
        self._lock = threading.Lock()  # entered by `with` itself: a Ctrl-C cannot leave it locked
        self._changed = threading.Condition(self._lock)
        self._is_closed = False

    def submit(self, job: Callable[[], None]) -> None:
        with self._lock:
            if self._is_closed:
                raise ClientClosed("the runtime is closed")
            if len(self._jobs) >= self._idle and len(self._threads) < self._max_threads:
                self._start_thread()
            self._jobs.append(job)
            self._changed.notify()

    def _start_thread(self) -> None:
        """Start one more thread, unless others can do the work.  The lock is held.

        Raise `RuntimeError` if the system cannot start the first one.
        """
        thread = threading.Thread(target=self._work, name=self._name, daemon=True)
        self._threads.add(thread)
        try:
            thread.start()
        except BaseException as error:
            self._threads.discard(thread)
            if not self._threads or not isinstance(error, RuntimeError):
                raise

    def begin_to_close(self) -> None:
        with self._lock:
            self._is_closed = True
            self._changed.notify_all()

    def close(self, deadline: float) -> None:
        """Wait for the threads, after `begin_to_close`."""
        with self._lock:
            threads = list(self._threads)
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join(max(0.0, deadline - self._monotonic()))

    def _work(self) -> None:
        while (job := self._next()) is not None:
            try:
                job()
            except BaseException:
                logger.exception("offloaded work failed in its continuation")
            job = None  # let go of what it refers to while idle

    def _next(self) -> Callable[[], None] | None:
        """Return the next job; None, and the thread no longer counts, if it has to end."""
        with self._lock:
            if not self._jobs and not self._is_closed:
                self._idle += 1
                self._changed.wait_for(self._has_news, OFFLOAD_IDLE)
                self._idle -= 1
            if self._jobs:  # also after the time is over: `submit` counted on this thread
                return self._jobs.popleft()
            self._threads.discard(threading.current_thread())
            return None

    def _has_news(self) -> bool:
        return bool(self._jobs) or self._is_closed
