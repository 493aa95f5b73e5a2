"""The process of one client: plays one run from JSON, and prints the result.

`benchmarks.share` starts it; by hand: `python -m benchmarks.share.worker '{"client": ...}'`.
"""

from __future__ import annotations

import sys

from benchmarks.consumer.worker import read_from
from benchmarks.share.clients import CLIENTS
from benchmarks.share.runs import Cell, Run
from benchmarks.side_by_side.measured import Measured, answer


def play(run: Run) -> Measured:
    return read_from(CLIENTS[run.client](run), run.records)


if __name__ == "__main__":
    answer(sys.argv[1], Cell, play)
