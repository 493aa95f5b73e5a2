"""Which queries `tests.spark.kills` plays, where they are killed, and what became of them: plain data."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import attrs

BATCHES, TASKS = 3, 3
BUNDLED, APACHE = "bundled", "apache"
OF_TASKS = ("before-init", "after-append", "after-flush")
OF_DRIVER = ("before-decided", "after-decided", "between-ends", "before-done", "after-done")
IN_RECOVERY = ("in-recovery", "before-claim")
STEPS = {
    "exactly_once": (*OF_TASKS, *OF_DRIVER, *IN_RECOVERY),
    "exactly_once_per_task": (*OF_TASKS, "before-done", "after-done", "before-claim"),
    "at_least_once": (),
}
LONGEST_DELAY = 3.0
"""Seconds after its first micro-batch began; a query ends soon after that by itself."""


@attrs.frozen
class Part:
    """Each step of a delivery `rounds` times, then kills at moments of time."""

    cluster: str
    delivery: str
    rounds: int
    at_random: int


PARTS = (
    Part(BUNDLED, "exactly_once", 4, 6),
    Part(BUNDLED, "exactly_once_per_task", 2, 2),
    Part(BUNDLED, "at_least_once", 0, 6),
    Part(APACHE, "exactly_once", 1, 2),
    Part(APACHE, "exactly_once_per_task", 0, 1),
    Part(APACHE, "at_least_once", 0, 1),
)


@attrs.frozen
class Plan:
    """One query: where it runs, what it promises, and its kills, one a start.

    A kill is `step:n`, when that step of the query is reached for the n-th time in a start, or `n s`, seconds
    after a micro-batch began.  name: another one for each plan, the same each time.
    """

    delivery: str
    kills: tuple[str, ...]
    cluster: str = BUNDLED
    name: str = ""

    @property
    def is_timed(self) -> bool:
        return is_moment(self.kills[0])


@attrs.define
class Outcome:
    plan: Plan
    lost: int
    repeated: int
    seconds: float
    """From its first start to its end; others ran beside it."""
    note: str = ""
    load: float = 0.0
    failures: int = 0
    """Starts that it ended with an error, and was started again after."""

    @property
    def is_good(self) -> bool:
        return (
            not self.lost and not self.note and (not self.repeated or self.plan.delivery == "at_least_once")
        )

    def __str__(self) -> str:
        plan, wrong = self.plan, "" if self.is_good else "  WRONG "
        return (
            f"{plan.cluster:8} {plan.delivery:22} {', '.join(plan.kills):32} {self.lost:5} "
            f"{self.repeated:8} {self.seconds:6.1f} {self.load:5.1f} {self.failures:8}{wrong}{self.note}"
        )


HEADING = (
    f"{'broker':8} {'delivery':22} {'kills':32} {'lost':>5} "
    f"{'repeated':>8} {'s':>6} {'load':>5} {'failures':>8}"
)


def is_moment(kill: str) -> bool:
    return kill.endswith(" s")


def all_plans(parts: Iterable[Part] = PARTS, seed: int = 1) -> list[Plan]:
    """Those at steps first, each step once before any is played again; a function of its arguments alone."""
    chance = random.Random(seed)
    found: list[tuple[tuple[int, int], Plan]] = []
    for part in parts:
        chosen = [(number, kills) for number in range(part.rounds) for kills in _round(part, number, chance)]
        chosen += [(part.rounds, tuple(_moments(chance))) for _ in range(part.at_random)]
        for index, (number, kills) in enumerate(chosen):
            name = f"{part.cluster}/{part.delivery}/{index}"
            plan = Plan(part.delivery, kills, part.cluster, name)
            found.append(((plan.is_timed, number), plan))
    return [plan for _, plan in sorted(found, key=lambda one: one[0])]


def _round(part: Part, number: int, chance: random.Random) -> Iterator[tuple[str, ...]]:
    for step in STEPS[part.delivery]:
        if step in IN_RECOVERY:
            first = f"{('after-decided', 'between-ends', 'before-done')[number % 3]}:{1 + number % 3}"
            if part.delivery != "exactly_once":
                first = f"after-flush:{2 + number}"
            yield first, f"{step}:1"
        elif step in OF_TASKS:
            yield (f"{step}:{chance.randint(1, TASKS * BATCHES)}",)
        else:
            yield (f"{step}:{1 + number % BATCHES}",)


def _moments(chance: random.Random) -> list[str]:
    return [f"{chance.uniform(0, LONGEST_DELAY):.1f} s" for _ in range(chance.randint(1, 2))]


# ---------------------------------------------------------------------------------- a file of outcomes


def recorded(file: Path | None) -> list[Outcome]:
    """Those of earlier parts; none where there is no such file yet."""
    if file is None or not file.exists():
        return []
    return [_outcome(json.loads(line)) for line in file.read_text().splitlines()]


def record(file: Path | None, outcome: Outcome) -> None:
    if file is not None:
        with file.open("a") as lines:
            lines.write(json.dumps(attrs.asdict(outcome)) + "\n")


def _outcome(told: dict[str, object]) -> Outcome:
    plan = told.pop("plan")
    return Outcome(Plan(**{**plan, "kills": tuple(plan["kills"])}), **told)  # type: ignore[dict-item,arg-type]


def summary(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """How often each step was the end of a query, and what it came to."""
    kills: Counter[tuple[str, str, str]] = Counter()
    for one in outcomes:
        for kill in one.plan.kills:
            step = "at random" if is_moment(kill) else kill.partition(":")[0]
            kills[one.plan.cluster, one.plan.delivery, step] += 1
    for (cluster, delivery, step), count in kills.items():
        yield f"{cluster:8} {delivery:22} {step:16} {count:4} kills"
    strict = [one for one in outcomes if one.plan.delivery != "at_least_once"]
    yield (
        f"{len(outcomes)} queries, {kills.total()} kills: {sum(one.lost for one in outcomes)} rows lost; "
        f"{sum(one.repeated for one in strict)} repeated where they must not be; "
        f"{sum(not one.is_good for one in outcomes)} queries went wrong"
    )
