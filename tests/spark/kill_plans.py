"""Which queries `tests.spark.kills` plays, where they are killed, and what became of them: plain data."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import attrs

BATCHES, TASKS = 3, 3
BUNDLED, APACHE, OLDEST = "bundled", "apache", "apache-3.9"
BUNDLED_SECURED, APACHE_SECURED, OLDEST_SECURED = "bundled-acl", "apache-acl", "apache-3.9-acl"
"""Secured ones have three brokers, TLS, SASL and ACLs.  Apache Kafka is 4.4.0 if not said otherwise."""
CLUSTERS = (BUNDLED, APACHE, OLDEST, BUNDLED_SECURED, APACHE_SECURED, OLDEST_SECURED)
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

ROLLED_BACK_BY = {"checkpoint -1": 1, "checkpoint -2": 2}
"""Batches by which an older copy of the checkpoint is behind."""
OFFSETS_LOST = "offsets lost"
"""The checkpoint's log of offsets has lost its last entry."""
LEDGER_DELETED = "ledger deleted"
REGROUPED, REORDERED = "regrouped", "reordered"
"""A batch takes two files of the input and not one; the files come in another order."""
REFUSED_WITH = {
    **dict.fromkeys((*ROLLED_BACK_BY, OFFSETS_LOST), "CheckpointBehind"),
    LEDGER_DELETED: "LedgerBehind",
}
"""The error that names the violated condition."""


@attrs.frozen
class Part:
    """Each step of a delivery `rounds` times, then kills at moments of time; then queries that are damaged.

    damages: of them, each after each kill in DAMAGED_AT, with the batches that follow made of the same files,
    of more files each, and of the same number of other files.
    """

    cluster: str
    delivery: str
    rounds: int
    at_random: int
    damages: tuple[str, ...] = ()


DAMAGED_AT = {
    "exactly_once": ("after-done:2", "before-done:2", "between-ends:2", "after-flush:5"),
    "exactly_once_per_task": ("after-done:2", "before-done:2", "after-flush:5"),
}
ALL_DAMAGES = tuple(REFUSED_WITH)

PARTS = (
    Part(BUNDLED, "exactly_once", 4, 6, ALL_DAMAGES),
    Part(BUNDLED, "exactly_once_per_task", 2, 2, ALL_DAMAGES),
    Part(BUNDLED, "at_least_once", 0, 6),
    Part(APACHE, "exactly_once", 1, 2, ALL_DAMAGES),
    Part(APACHE, "exactly_once_per_task", 0, 1, ALL_DAMAGES),
    Part(APACHE, "at_least_once", 0, 1),
    Part(OLDEST, "exactly_once", 1, 2, ALL_DAMAGES),
    Part(OLDEST, "exactly_once_per_task", 1, 1, ALL_DAMAGES),
    Part(BUNDLED_SECURED, "exactly_once", 1, 2, ALL_DAMAGES),
    Part(BUNDLED_SECURED, "exactly_once_per_task", 1, 1),
    Part(APACHE_SECURED, "exactly_once", 1, 2, ALL_DAMAGES),
    Part(APACHE_SECURED, "exactly_once_per_task", 1, 1),
    Part(OLDEST_SECURED, "exactly_once", 1, 2, ALL_DAMAGES),
    Part(OLDEST_SECURED, "exactly_once_per_task", 1, 1),
)


@attrs.frozen
class Plan:
    """One query: where it runs, what it promises, and its kills, one a start.

    A kill is `step:n`, when that step of the query is reached for the n-th time in a start, or `n s`, seconds
    after a micro-batch began.  name: another one for each plan, the same each time.

    damage: what happens between the last kill and the start after it.
    changed: how the batches change that are planned from then on.
    """

    delivery: str
    kills: tuple[str, ...]
    cluster: str = BUNDLED
    name: str = ""
    damage: str = ""
    changed: str = ""

    @property
    def is_timed(self) -> bool:
        return is_moment(self.kills[0])


@attrs.define
class Outcome:
    plan: Plan
    lost: int
    """Rows that are not there; of a refused query they are not lost, but not written yet."""
    repeated: int
    seconds: float
    """From its first start to its end; others ran beside it."""
    note: str = ""
    load: float = 0.0
    failures: int = 0
    """Starts that it ended with an error, and was started again after."""
    refusal: str = ""
    """The error that names the violated condition, with which the query ended."""

    @property
    def verdict(self) -> str:
        repeats = self.plan.delivery == "at_least_once"
        if self.repeated and not repeats:
            return "REPEATED"
        if self.refusal:
            return "refused"
        if self.lost:
            return "LOST"
        return "WRONG" if self.note else "ok"

    @property
    def is_good(self) -> bool:
        return self.verdict in ("ok", "refused")

    def __str__(self) -> str:
        plan = self.plan
        what = ", ".join((*plan.kills, *filter(None, (plan.damage, plan.changed))))
        said = "; ".join(filter(None, (self.refusal, self.note)))
        return (
            f"{plan.cluster:14} {plan.delivery:22} {what:48} {self.lost:5} {self.repeated:8} "
            f"{self.seconds:6.1f} {self.load:5.1f} {self.failures:8} {self.verdict:8} {said}"
        )


HEADING = (
    f"{'broker':14} {'delivery':22} {'kills':48} {'lost':>5} "
    f"{'repeated':>8} {'s':>6} {'load':>5} {'failures':>8} verdict"
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
        found += [((False, 1), plan) for plan in _damaged(part)]
    return [plan for _, plan in sorted(found, key=lambda one: one[0])]


def _damaged(part: Part) -> Iterator[Plan]:
    for damage in part.damages:
        for kill in DAMAGED_AT[part.delivery]:
            for changed in ("", REGROUPED, REORDERED):
                name = f"{part.cluster}/{part.delivery}/{damage}/{kill}/{changed}"
                yield Plan(part.delivery, (kill,), part.cluster, name, damage, changed)


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


def _outcome(line: dict[str, object]) -> Outcome:
    plan = line.pop("plan")
    return Outcome(Plan(**{**plan, "kills": tuple(plan["kills"])}), **line)  # type: ignore[dict-item,arg-type]


def summary(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """How often each step was the end of a query, and what it came to."""
    kills: Counter[tuple[str, str, str]] = Counter()
    for one in outcomes:
        for kill in one.plan.kills:
            step = "at random" if is_moment(kill) else kill.partition(":")[0]
            kills[one.plan.cluster, one.plan.delivery, step] += 1
    for (cluster, delivery, step), count in kills.items():
        yield f"{cluster:14} {delivery:22} {step:16} {count:4} kills"
    verdicts = Counter((one.plan.damage or "killed only", one.verdict) for one in outcomes)
    for (damage, verdict), count in sorted(verdicts.items()):
        yield f"{damage:16} {verdict:8} {count:4} queries"
    silent = [one for one in outcomes if not one.refusal]
    strict = [one for one in outcomes if one.plan.delivery != "at_least_once"]
    yield (
        f"{len(outcomes)} queries, {kills.total()} kills, {len(outcomes) - len(silent)} refused by name: "
        f"{sum(one.lost for one in silent)} rows lost silently; "
        f"{sum(one.repeated for one in strict)} repeated where they must not be; "
        f"{sum(not one.is_good for one in outcomes)} queries went wrong"
    )
