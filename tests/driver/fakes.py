"""An in-memory transport, selector and network, and a runtime that turns by hand."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from pykafka2.clock import Clock, Entropy, SeededEntropy
from pykafka2.driver.runtime import Outcome, Step, Task, ignore_error
from pykafka2.driver.wait_queue import Waiter, WaitQueue, Watched
from pykafka2.errors import Disconnected, KafkaError
from pykafka2.network.endpoint import Endpoint
from pykafka2.network.script import Lane
from pykafka2.network.transport import (
    READABLE,
    WRITABLE,
    Buffer,
    Listener,
    Network,
    Ready,
    Selector,
    SocketOptions,
    Transport,
)

T = TypeVar("T")


class MemoryTransport:
    """Bytes in two arrays; takes at most `room` bytes of writes until the test changes it."""

    def __init__(self, peer: str = "broker:9092") -> None:
        self.peer = peer
        self.incoming = bytearray()
        self.outgoing = bytearray()
        self.room = 1 << 30
        self.writes = 0
        self.is_established = False
        self.has_ended = False
        self.is_closed = False
        self.error: KafkaError | None = None

    def establish(self) -> bool:
        if self.error is not None:
            raise self.error
        self.is_established = True
        return True

    def interest(self) -> int:
        return READABLE if self.is_established else WRITABLE

    def read_into(self, buffer: memoryview) -> int | None:
        if self.error is not None:
            raise self.error
        count = min(len(buffer), len(self.incoming))
        if not count:
            return 0 if self.has_ended else None
        buffer[:count] = self.incoming[:count]
        del self.incoming[:count]
        return count

    def write(self, buffers: Sequence[Buffer]) -> int:
        if self.error is not None:
            raise self.error
        self.writes += 1
        taken = b"".join(buffers)[: self.room]
        self.room -= len(taken)
        self.outgoing += taken
        return len(taken)

    def close(self, *, reset: bool = False) -> None:
        self.is_closed = True


class MemorySelector:
    """Remembers what is waited for."""

    def __init__(self) -> None:
        self.interests: dict[int, int] = {}
        self.wakes = 0

    def register(self, source: Transport | Listener, interest: int, data: object) -> None:
        assert id(source) not in self.interests
        self.interests[id(source)] = interest

    def modify(self, source: Transport | Listener, interest: int, data: object) -> None:
        assert self.interests[id(source)] != interest
        self.interests[id(source)] = interest

    def unregister(self, source: Transport | Listener) -> None:
        self.interests.pop(id(source), None)

    def select(self, timeout: float | None) -> list[Ready]:
        return []

    def wake(self) -> None:
        self.wakes += 1

    def close(self) -> None:
        self.interests.clear()


class MemoryNetwork:
    """Connects to transports of its own, or refuses."""

    def __init__(self) -> None:
        self.transports: list[MemoryTransport] = []
        self.refusal: KafkaError | None = None

    def selector(self) -> Selector:
        return MemorySelector()

    def resolve(self, host: str, port: int, *, canonical: bool = False) -> list[Endpoint]:
        return [Endpoint(host, port)]

    def connect(
        self, endpoint: Endpoint, *, options: SocketOptions, tls: Any = None, server_name: str | None = None
    ) -> Transport:
        if self.refusal is not None:
            raise self.refusal
        transport = MemoryTransport(str(endpoint))
        self.transports.append(transport)
        return transport

    def listen(self, host: str, port: int, *, tls: Any = None) -> Listener:
        raise Disconnected("not in this test")


class HandClock:
    """Stands still until moved."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def wall_ms(self) -> int:
        return int(self.now * 1000)

    def wall_ns(self) -> int:
        return self.wall_ms() * 1_000_000


class HandTask:
    """A loop that the test turns."""

    def __init__(self, name: str, step: Step) -> None:
        self.name = name
        self.error: BaseException | None = None
        self.step = step
        self.wakes = 0
        self.is_stopped = False

    def wake(self) -> None:
        self.wakes += 1

    def stop(self, timeout: float = 5.0) -> bool:
        self.is_stopped = True
        return True


class HandRuntime:
    """One task, one thread, no waiting: a blocked caller turns the loop itself."""

    def __init__(self) -> None:
        self.hand_clock = HandClock()
        self.clock: Clock = self.hand_clock
        self.entropy: Entropy = SeededEntropy(1)
        self.memory = MemoryNetwork()
        self.network: Network = self.memory
        self.tasks: list[HandTask] = []
        self.turning = False
        self.random = random.Random(1)

    def spawn(
        self,
        name: str,
        step: Step,
        selector: Selector | None = None,
        on_failed: Callable[[BaseException], None] = ignore_error,
    ) -> Task:
        task = HandTask(name, step)
        self.tasks.append(task)
        return task

    def turn(self, *events: Ready) -> float:
        self.turning = True
        try:
            return self.tasks[0].step.run_once(self.hand_clock.now, list(events))
        finally:
            self.turning = False

    def wait_until(self, predicate: Callable[[], bool], timeout: float, *queues: WaitQueue) -> bool:
        for _ in range(10):
            if predicate():
                return True
            self.turn()
        return predicate()

    def notify(self) -> None:
        pass

    def check_waiters(self) -> None:
        pass

    def join(self, waiter: Waiter, watched: Watched | None) -> None:
        pass

    def leave(self, waiter: Waiter, watched: Watched | None) -> None:
        pass

    def offload(
        self, work: Callable[[], T], then: Callable[[Outcome[T]], None], lane: Lane = Lane.COMPUTING
    ) -> None:
        try:
            outcome: Outcome[T] = Outcome(value=work())
        except Exception as error:
            outcome = Outcome(error=error)
        then(outcome)

    def is_current(self, task: Task) -> bool:
        return self.turning

    def is_in_a_loop(self) -> bool:
        return self.turning

    def close(self) -> None:
        pass
