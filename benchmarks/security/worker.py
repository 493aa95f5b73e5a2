"""The process of one client: plays one run that it is given as JSON, and prints what came out.

`benchmarks.security` starts it.  Sending and reading are those of the producers' and consumers' benchmarks.
"""

from __future__ import annotations

import sys

import attrs

from benchmarks.consumer.runs import Cell as Read
from benchmarks.consumer.worker import read_all
from benchmarks.producer.runs import Cell as Sent
from benchmarks.producer.worker import send_all
from benchmarks.security.logins import LOGINS
from benchmarks.security.runs import LOG_IN, SEND, SIZE, Cell, Run, client_of
from benchmarks.side_by_side.measured import Measured, answer, wait_for_each

WARM_UP_LOGINS = 3


def play(run: Run) -> Measured:
    client = client_of(run.client)
    if run.cell.kind == LOG_IN:
        log_in = LOGINS[client]
        return wait_for_each(lambda _: log_in(run), lambda: None, b"", run.records, WARM_UP_LOGINS)
    if run.cell.kind == SEND:
        return send_all(attrs.evolve(run, client=client, cell=Sent(run.cell.broker, size=SIZE)))
    return read_all(attrs.evolve(run, client=client, cell=Read(run.cell.broker, size=SIZE)))


if __name__ == "__main__":
    answer(sys.argv[1], Cell, play)
