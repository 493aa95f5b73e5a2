"""Scripts: an exchange that happens in order, written in order.

A script is a generator that yields what it wants (`call`, `wait`, `gather`) and receives the answers.  It
knows neither sockets nor clocks: a connection runs the handshake, the driver runs longer ones, a test calls
`send` by hand.  A disconnect, a timeout or a cancellation is thrown in at the `yield`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from enum import Enum
from typing import Any, TypeVar, cast

import attrs

from pykafka2.clock import FOREVER
from pykafka2.errors import KafkaError
from pykafka2.protocol.struct import Request, Response

R = TypeVar("R", bound=Response)
T = TypeVar("T")


class Step:
    """A value that a script yields.  Runners can support further kinds (driver/script_runner.py)."""

    __slots__ = ()


@attrs.define(frozen=True)
class Call(Step):
    """Send this request, in this version (None: the highest that both sides speak); answer its response."""

    request: Request[Any]
    version: int | None = None


@attrs.define(frozen=True)
class Wait(Step):
    """Go on after this many seconds."""

    seconds: float


@attrs.define(frozen=True)
class Gather(Step):
    """Send these requests together and answer with the list of their responses, in order."""

    requests: tuple[Request[Any], ...]


class Lane(Enum):
    """Which helper threads do a piece of work: what hangs in one lane holds up nothing in another."""

    COMPUTING = "offload"
    NAMES = "names"
    TOKENS = "tokens"
    ASSIGNING = "assigning"


@attrs.define(frozen=True)
class Offload(Step):
    """Run this work, which may block, on another thread; answer with its result, or with what it raised.

    Work that may hang has a `lane` of its own and a limit: after `seconds` the answer is that `overdue` is
    raised, whatever becomes of the work.
    """

    work: Callable[[], Any]
    lane: Lane = Lane.COMPUTING
    seconds: float = FOREVER
    overdue: Callable[[], KafkaError] | None = None


Script = Generator[Step, Any, T]


def call(request: Request[R], version: int | None = None) -> Script[R]:
    """`response = yield from call(SomeRequest(...))`, typed by the request."""
    return cast(R, (yield Call(request, version)))


def wait(seconds: float) -> Script[None]:
    yield Wait(seconds)


def gather(*requests: Request[R]) -> Script[list[R]]:
    return cast("list[R]", (yield Gather(requests)))
