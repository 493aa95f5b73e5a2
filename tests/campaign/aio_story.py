"""Asyncio applications under faults: the copying of copy_story.py, and senders and readers, all cancelled.

One or two event loops run tasks that send, that copy in transactions, and that read with coroutine listeners;
a sync producer sends beside them. Each of their calls can be cancelled at any moment, and a task can block
its loop. At the end, each acknowledged record is in the log once, no record of a cancelled send is, the
copies equal the input, each reader has read in order, and no task is left.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

import attrs

from pykafka2.testing.simulation.actors import Actor
from pykafka2.testing.simulation.facade import Simulation
from pykafka2.testing.simulation.faults import Injector, Kind
from pykafka2.testing.simulation.history import FAILED, OK
from pykafka2.testing.simulation.problems import InvariantViolated
from tests.campaign.aio_work import REFUSED, Application, Copier, Reader, Sender
from tests.campaign.consumer_lives import drawn_group
from tests.campaign.copy_story import INPUT, CopyShape, CopyStory, copy_kinds
from tests.campaign.seed import Report, Sabotage, play_seed

SECONDS = 10.0
CANCELS = (0.0, 0.1, 0.3)
"""How many calls in one are cancelled."""

LEAST_COPIES = 5
LEAST_CANCELLED = 5
LEAST_FAULTS = 3


# The interval is measured by the wall clock, as in Apache Kafka: after a jump back a group has no assignment
# until the clock is where it was.
OF_CONSUMER_GROUPS: Mapping[str, object] = {
    "group.consumer.assignment.interval.ms": 0,
    "group.consumer.min.session.timeout.ms": 1500,
    "group.consumer.session.timeout.ms": 3000,
    "group.consumer.min.heartbeat.interval.ms": 300,
    "group.consumer.heartbeat.interval.ms": 300,
}


def aio_kinds() -> tuple[Kind, ...]:
    """Faults for copies, except wakeups, which asyncio's consumers do not have."""
    return tuple(kind for kind in copy_kinds() if kind.name != "wakeup")


@attrs.define
class AioShape(CopyShape):
    """How large the story is."""

    seconds: float = SECONDS
    cancels: float | None = None
    """How many calls in one are cancelled; None: as the seed says."""
    kinds: Any = attrs.field(factory=aio_kinds)


def run_seed(
    seed: int,
    shape: AioShape | None = None,
    *,
    sabotage: Sabotage | None = None,
    keep_timeline: bool = False,
) -> Report:
    """Play one seed; a broken promise or any other failure comes back as the report's `error`."""
    report = Report(seed, "aio")
    play_seed(
        report,
        lambda simulation: AioStory(simulation, shape or AioShape(), report).play(sabotage),
        keep_timeline=keep_timeline,
    )
    report.counts = (
        report.reads >= LEAST_COPIES
        and report.effective_faults >= LEAST_FAULTS
        and report.outcomes["cancelled"] >= LEAST_CANCELLED
    )
    return report


def _drawn_readers(draw: Random) -> dict[str, Any]:
    """Options that all readers share: a group of either protocol (KIP-848)."""
    classic = drawn_group(draw)
    if draw.random() < 0.6:
        return classic
    kept = ("max_poll_interval_ms", "auto_offset_reset")
    return {"group_protocol": "consumer", **{name: classic[name] for name in kept}}


class AioStory(CopyStory):
    """One play of the story; belongs to the simulation's main actor."""

    config = OF_CONSUMER_GROUPS

    def __init__(self, simulation: Simulation, shape: AioShape, report: Report) -> None:
        self._cancels = shape.cancels
        super().__init__(simulation, shape, report)

    def _make_copiers(self, draw: Random, options: dict[str, Any]) -> None:
        cancels = draw.choice(CANCELS[1:]) if self._cancels is None else self._cancels
        group = {**_drawn_readers(draw), "request_timeout_ms": 3000, "fetch_max_wait_ms": 500}
        shared = self.world, self._stop, self._done
        self._copiers = [
            Copier(*shared, number, draw.choice([0.0, cancels, cancels]), options)
            for number in range(self._shape.consumers or draw.choice([1, 2, 2]))
        ]
        self._senders = [Sender(*shared, number, cancels) for number in range(draw.choice([1, 1, 2]))]
        self._readers = [Reader(*shared, number, cancels, group) for number in range(draw.choice([1, 2, 2]))]
        self._loops: list[list[Application]] = [[] for _ in range(draw.choice([1, 1, 2, 3]))]
        for application in self._applications():
            draw.choice(self._loops).append(application)

    def _applications(self) -> list[Application]:
        return [*self._copiers, *self._senders, *self._readers]

    def _places_of_clients(self) -> list[str]:
        whats = {"copier": ("producer", "consumer"), "sender": ("producer",), "reader": ("consumer",)}
        return [
            f"{one.name}-{what}-{life}"
            for one in self._applications()
            for what in whats[one.kind]
            for life in (1, 2)
        ]

    def _start(self) -> list[Actor]:
        def loop_of(applications: list[Application]) -> Any:
            async def loop() -> None:
                async with asyncio.TaskGroup() as group:
                    for application in applications:
                        group.create_task(application.run())  # type: ignore[attr-defined]
                left = asyncio.all_tasks() - {asyncio.current_task()}
                if left:
                    raise InvariantViolated(f"NoTaskIsLeft: {left}")

            return loop

        self._actors = [
            self._simulation.spawn(loop_of(applications), f"loop {number}")
            for number, applications in enumerate(self._loops)
            if applications
        ]
        return self._actors

    # ------------------------------------------------------------------ the proof

    def _wait_for(self, what: str, holds: Callable[[], bool]) -> None:
        def holds_or_failed() -> bool:
            for actor in self._actors:
                if actor.is_done:
                    actor.result()  # raises what ended its loop
            return holds()

        super()._wait_for(what, holds_or_failed)

    def _wait_for_the_end(self) -> None:
        self._wait_for("senders end", lambda: all(one.is_over for one in self._senders))
        super()._wait_for_the_end()
        self._wait_for("everything is read", lambda: not self._unread())

    def _unread(self) -> set[tuple[Any, int]]:
        written = {
            (place, offset) for place in self._places(INPUT) for offset, _ in self.world.records(*place)
        }
        for reader in self._readers:
            written -= reader.read
        return written

    def _check(self) -> None:
        super()._check()
        for application in self._applications():
            for problem in application.problems:
                raise InvariantViolated(f"CallsKeepTheirWord: {problem}")
        logs = {place: self.world.records(*place) for place in self._places(INPUT)}
        times = Counter(value for log in logs.values() for _, value in log)
        for sender in self._senders:
            for record in sender.records:
                found = times[record.value]
                if found > 1 or (record.outcome in (REFUSED, FAILED) and found):
                    raise InvariantViolated(f"RecordsAreWrittenOnce: {record} is in the log {found} times")
                if record.outcome == OK and (record.offset, record.value) not in logs[record.place]:
                    raise InvariantViolated(f"RecordsAreWrittenOnce: {record} is not at its offset")

    def _fill_report(self, injector: Injector) -> None:
        super()._fill_report(injector)
        applications = self._applications()
        self._report.operations = sum(one.commits for one in self._copiers) + sum(
            len(one.records) for one in self._senders
        )
        self._report.outcomes = {
            "lives": sum(one.lives for one in applications),
            "failures": sum(one.failures for one in applications),
            "cancelled": sum(one.cancelled for one in applications),
        }
