"""Transactional ids: `PREFIX/SINK/RUN/PARTITION/TURN`, plus `/ATTEMPT` if each attempt has its own id.

Runs are numbered, so fencing the ids of an earlier run never ends a transaction of a later run.  Batches
alternate between two turns, so an attempt that outlives its batch does not abort the next batch's
transaction.  Writers of the ledger use `ledger`; `given-up` marks a batch write that failed.  Names of sinks
contain no slash.
"""

from __future__ import annotations

TURNS = 2
LEDGER = "ledger"
GIVEN_UP = "given-up"


def of_sink(prefix: str, sink: str) -> str:
    """Return the common prefix of all ids of a sink."""
    return f"{prefix}/{sink}/"


def of_run(prefix: str, sink: str, run: int) -> str:
    return f"{of_sink(prefix, sink)}{run}/"


def of_task(prefix: str, sink: str, run: int, partition: int, batch: int, attempt: int | None) -> str:
    own = "" if attempt is None else f"/{attempt}"
    return f"{of_run(prefix, sink, run)}{partition}/{batch % TURNS}{own}"


def run_of(transactional_id: str, prefix: str, sink: str) -> int | None:
    """Return the run of a task's id of this sink, None for any other id."""
    begin = of_sink(prefix, sink)
    if not transactional_id.startswith(begin):
        return None
    run, _, task = transactional_id.removeprefix(begin).partition("/")
    return int(run) if task and run.isdecimal() else None


def of_ledger(prefix: str, sink: str) -> str:
    return of_sink(prefix, sink) + LEDGER


def of_given_up(prefix: str, job: str) -> str:
    """Return the id whose registration marks a failed job."""
    return of_sink(prefix, job) + GIVEN_UP
