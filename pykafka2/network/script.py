"""Scripts: sequential exchanges with a broker, written as generators.

A script yields steps (`call`, `wait`, `gather`) and receives their results. It uses no sockets and no clock:
a connection runs the handshake, the driver runs longer scripts, a test calls `send`. Disconnects, timeouts
and cancellation are thrown in at the `yield`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from enum import Enum
from typing import Any, TypeVar, cast

from pykafka2.clock import FOREVER
from pykafka2.errors import IllegalState, KafkaError
from pykafka2.protocol.struct import Request, Response
from pykafka2.slotted import slotted

R = TypeVar("R", bound=Response)
T = TypeVar("T")


class Step:
    """A value that a script yields. Runners can support further kinds (driver/script_runner.py)."""

    __slots__ = ()


@slotted(frozen=True)
class Call(Step):
    """Send a request; the result is its response. If `version` is None, the highest common one is used."""

    request: Request[Any]
    version: int | None = None


@slotted(frozen=True)
class Wait(Step):
    """Resume after this many seconds."""

    seconds: float


@slotted(frozen=True)
class Gather(Step):
    """Send several requests at once; the result is the list of their responses, in order."""

    requests: tuple[Request[Any], ...]


class Lane(Enum):
    """The pools of helper threads; work that hangs in one lane does not delay the others."""

    COMPUTING = "offload"
    NAMES = "names"
    TOKENS = "tokens"
    ASSIGNING = "assigning"
    DISK = "disk"
    """Flushes of a broker's logs."""
    CALLS = "calls"
    """Blocking calls of asyncio clients."""
    CLOSING = "closing"
    """The calls that close asyncio clients, and end the blocking ones."""


@slotted(frozen=True)
class Offload(Step):
    """Run blocking work on another thread; the result is the work's result or exception.

    Work that can hang has its own `lane` and a limit: after `seconds` the script resumes with the error
    `overdue()`, and a later result is ignored.
    """

    work: Callable[[], Any]
    lane: Lane = Lane.COMPUTING
    seconds: float = FOREVER
    overdue: Callable[[], KafkaError] | None = None

    def error_if_overdue(self) -> KafkaError:
        """Return the error that the script resumes with after the limit."""
        return IllegalState("work took too long") if self.overdue is None else self.overdue()


Script = Generator[Step, Any, T]


def call(request: Request[R], version: int | None = None) -> Script[R]:
    """Send a request: `response = yield from call(SomeRequest(...))`, typed by the request."""
    return cast(R, (yield Call(request, version)))


def wait(seconds: float) -> Script[None]:
    yield Wait(seconds)


def gather(*requests: Request[R]) -> Script[list[R]]:
    return cast("list[R]", (yield Gather(requests)))
