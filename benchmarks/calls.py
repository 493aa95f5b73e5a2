"""Counts the function calls and the processor time of one record at a time, by thread of the client.

    python -m benchmarks.calls [producer|aio|consumer ...] [--records N] [--rounds N] [--functions N]
        [--bytecodes]

`producer` sends a record and waits for its result, `aio` does the same in an event loop, and `consumer`
polls for a record that another producer has sent. The caller's thread and the client's IO thread are counted
apart; calls of C functions are counted by the Python function that makes them. Calls do not depend on the
machine. Times are processor time without the count; the best round counts. The broker is another process.
`--bytecodes` counts the executed bytecode instructions instead of calls and takes a hundred times longer.
The round with the smallest count is printed: others include work that is done every few seconds.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

from pykafka2 import KafkaConsumer, KafkaProducer, aio
from pykafka2.testing import KafkaCluster

VALUE = b"x" * 100
CLIENT = "counted"
CALLER, IO = "caller", "IO"

Loop = Callable[[int], None]
"""Sends or reads so many records, one at a time."""


class Calls:
    """Calls by thread and function, while `is_on`; a profile function for threads that start later, too."""

    install: Callable[[Any], None] = staticmethod(sys.setprofile)
    install_later: Callable[[Any], None] = staticmethod(threading.setprofile)

    def __init__(self) -> None:
        self.is_on = False
        self.functions: dict[str, Counter[str]] = {CALLER: Counter(), IO: Counter()}
        self._threads: dict[int, str | None] = {threading.get_ident(): CALLER}

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        if not self.is_on or event not in ("call", "c_call"):
            return
        whose = self.whose()
        if whose is not None:
            where = name_of(frame)
            if event == "c_call":
                where = f"{where} -> {argument.__qualname__}"
            self.functions[whose][where] += 1

    def whose(self) -> str | None:
        """Return which thread runs; None for one that is not counted."""
        ident = threading.get_ident()
        if ident not in self._threads:
            self._threads[ident] = IO if threading.current_thread().name == CLIENT else None
        return self._threads[ident]

    @contextmanager
    def counting(self) -> Iterator[None]:
        self.is_on = True
        self.install(self)
        try:
            yield
        finally:
            self.install(None)
            self.is_on = False


class Bytecodes(Calls):
    """Executed instructions by thread and function; a trace function."""

    install = staticmethod(sys.settrace)
    install_later = staticmethod(threading.settrace)

    def __call__(self, frame: FrameType, event: str, argument: Any) -> Any:
        whose = self.whose()
        if whose is None:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        functions, where = self.functions[whose], name_of(frame)

        def count(frame: FrameType, event: str, argument: Any) -> Any:
            if event == "opcode" and self.is_on:
                functions[where] += 1
            return count

        return count


def name_of(frame: FrameType) -> str:
    code = frame.f_code
    return f"{code.co_filename.rpartition('pykafka2/')[2]}:{code.co_qualname}"


@contextmanager
def producing(servers: str) -> Iterator[Loop]:
    with KafkaProducer(bootstrap_servers=servers, client_id=CLIENT, linger_ms=0) as producer:

        def send(records: int) -> None:
            for _ in range(records):
                producer.send("orders", VALUE).result()

        yield send


@contextmanager
def producing_in_a_loop(servers: str) -> Iterator[Loop]:
    with asyncio.Runner() as runner:

        async def create() -> aio.KafkaProducer[Any, Any]:
            return aio.KafkaProducer(bootstrap_servers=servers, client_id=CLIENT, linger_ms=0)

        async def send(records: int) -> None:
            for _ in range(records):
                await (await producer.send("orders", VALUE))

        producer = runner.run(create())
        yield lambda records: runner.run(send(records))
        runner.run(producer.close())


@contextmanager
def consuming(servers: str) -> Iterator[Loop]:
    with (
        KafkaConsumer(
            "orders", bootstrap_servers=servers, client_id=CLIENT, auto_offset_reset="earliest"
        ) as consumer,
        KafkaProducer(bootstrap_servers=servers, client_id="other", linger_ms=0) as producer,
    ):
        # The partition's other records are read first, so that each poll waits for one response.
        while consumer.poll(timeout_ms=500):
            pass

        def read(records: int) -> None:
            for _ in range(records):
                producer.send("orders", VALUE)
                while not consumer.poll(timeout_ms=1000):
                    pass

        yield read


SUBJECTS: Final = {"producer": producing, "aio": producing_in_a_loop, "consumer": consuming}


def counted(subject: str, servers: str, records: int, rounds: int, calls: Calls) -> dict[str, Counter[str]]:
    """Return the calls of so many records by thread and function, in the round with the fewest."""
    found: list[dict[str, Counter[str]]] = []
    calls.install_later(calls)
    try:
        with SUBJECTS[subject](servers) as run:
            calls.install_later(None)
            run(records // 2 + 1)
            for _ in range(rounds):
                with calls.counting():
                    run(records)
                found.append({thread: functions.copy() for thread, functions in calls.functions.items()})
                for functions in calls.functions.values():
                    functions.clear()
    finally:
        calls.install_later(None)
    return min(found, key=lambda counts: sum(map(Counter.total, counts.values())))


def timed(subject: str, servers: str, records: int, rounds: int) -> dict[str, float]:
    """Return the microseconds of processor time per record, by thread, in the best of the rounds."""
    best: dict[str, float] = {}
    with SUBJECTS[subject](servers) as run:
        run(records // 2 + 1)
        (thread,) = [one for one in threading.enumerate() if one.name == CLIENT]
        assert thread.ident is not None
        clocks = {CALLER: time.CLOCK_THREAD_CPUTIME_ID, IO: time.pthread_getcpuclockid(thread.ident)}
        for _ in range(rounds):
            before = {name: time.clock_gettime(clock) for name, clock in clocks.items()}
            run(records)
            for name, clock in clocks.items():
                spent = (time.clock_gettime(clock) - before[name]) / records * 1e6
                best[name] = min(best.get(name, spent), spent)
    return best


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("subjects", nargs="*", choices=[*SUBJECTS, []], default=[])
    parser.add_argument("--records", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--functions", type=int, default=0, help="show so many functions of each thread")
    parser.add_argument("--bytecodes", action="store_true", help="count bytecode instructions, not calls")
    options = parser.parse_args(arguments)
    with KafkaCluster(brokers=1, topics={"orders": 1}, process=True) as cluster:
        for subject in options.subjects or SUBJECTS:
            calls = Bytecodes() if options.bytecodes else Calls()
            counts = counted(subject, cluster.bootstrap_servers, options.records, options.rounds, calls)
            times = timed(subject, cluster.bootstrap_servers, options.records, options.rounds)
            for thread, functions in counts.items():
                in_c = sum(count for where, count in functions.items() if " -> " in where) / options.records
                in_all = functions.total() / options.records
                found = f"{in_all - in_c:6.1f} Python calls, {in_c:6.1f} C calls"
                if options.bytecodes:
                    found = f"{in_all:6.1f} bytecodes"
                print(f"{subject:9} {thread:7} {found}, {times[thread]:6.1f} us")
                for where, count in functions.most_common(options.functions):
                    print(f"{count / options.records:12.2f}  {where}")


if __name__ == "__main__":
    main()
