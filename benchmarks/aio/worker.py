"""The process of one client: plays one run from JSON, and prints the result.

`benchmarks.aio` starts it; by hand: `python -m benchmarks.aio.worker '{"client": ...}'`.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine
from typing import Any, cast

from benchmarks.aio.clients import CLIENTS
from benchmarks.aio.runs import Cell, Run
from benchmarks.side_by_side.measured import Measured, answer


def play(run: Run) -> Measured:
    client = CLIENTS[run.cell.what][run.client]
    return asyncio.run(cast("Coroutine[Any, Any, Measured]", client(run)))


if __name__ == "__main__":
    answer(sys.argv[1], Cell, play)
