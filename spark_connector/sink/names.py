"""Transactional ids: `PREFIX/SINK/RUN/PARTITION`, with `/ATTEMPT` where attempts have ids of their own.

Runs are numbered, so that nothing of an earlier run can end a transaction of a later one.  Tasks that end
their transactions themselves have `task` for the number: there a later run is meant to end what an earlier
one left. The ledger's writers have `ledger`; a batch write that was given up is marked by `given-up`.
Sinks' names hold no slash.
"""

from __future__ import annotations

PER_TASK_RUN = "task"
LEDGER = "ledger"
GIVEN_UP = "given-up"


def of_sink(prefix: str, sink: str) -> str:
    """What all ids of a sink begin with."""
    return f"{prefix}/{sink}/"


def of_run(prefix: str, sink: str, run: int | str) -> str:
    return f"{of_sink(prefix, sink)}{run}/"


def of_task(prefix: str, sink: str, run: int | str, partition: int, attempt: int | None) -> str:
    own = "" if attempt is None else f"/{attempt}"
    return f"{of_run(prefix, sink, run)}{partition}{own}"


def run_of(transactional_id: str, prefix: str, sink: str) -> int | None:
    """Of a task's id of this sink its run; None of any other id, and where tasks have `task` for it."""
    begin = of_sink(prefix, sink)
    if not transactional_id.startswith(begin):
        return None
    run, _, task = transactional_id.removeprefix(begin).partition("/")
    return int(run) if task and run.isdecimal() else None


def partition_of(transactional_id: str, prefix: str, sink: str) -> int | None:
    """The partition of a task that ends its transactions itself; None of any other id."""
    begin = of_run(prefix, sink, PER_TASK_RUN)
    partition = transactional_id.removeprefix(begin)
    return int(partition) if partition != transactional_id and partition.isdecimal() else None


def of_ledger(prefix: str, sink: str) -> str:
    return of_sink(prefix, sink) + LEDGER


def of_given_up(prefix: str, job: str) -> str:
    """An id that somebody has registered once the job is given up, and nobody before."""
    return of_sink(prefix, job) + GIVEN_UP
