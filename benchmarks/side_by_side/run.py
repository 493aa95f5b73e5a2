"""What is played: plain data, as JSON between a benchmark and the processes that it runs."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import attrs

Cell = TypeVar("Cell")


@attrs.frozen
class Run(Generic[Cell]):
    """One client in one cell (what is done where, whoever does it), once.

    records: how many, or rows; of a client that repeats one thing, how often.
    """

    client: str
    cell: Cell
    records: int
    bootstrap_servers: str = ""
    topic: str = ""


AnyRun = Run[Any]
