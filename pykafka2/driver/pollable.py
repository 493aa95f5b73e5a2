"""The interface between a manager and its driver: `poll(now)` returns requests and the time of the next poll.

Managers belong to the driver's thread, never block and never read a clock. Each request has a `Destination`;
the router (cluster/router.py) finds the connection.
"""

from __future__ import annotations

from collections.abc import Callable, Sized
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

from pykafka2.clock import FOREVER
from pykafka2.errors import KafkaError
from pykafka2.protocol.struct import Request, Response
from pykafka2.slotted import slotted

R = TypeVar("R", bound=Response)


@slotted(frozen=True)
class AnyNode:
    """The least busy reachable node; the excluded one is used only if there is no other."""

    but: int | None = None


@slotted(frozen=True)
class ToNode:
    """One broker by its id."""

    id: int


@slotted(frozen=True)
class ToIdleConnection:
    """One broker by its id, over a connection on which no fetch or JoinGroup waits for its response."""

    id: int


@slotted(frozen=True)
class ToController:
    """The broker that the metadata names as controller; any broker if it names none."""


@slotted(frozen=True)
class ToLeader:
    """The leader of a partition."""

    topic: str
    partition: int


GROUP = 0
TRANSACTION = 1


@slotted(frozen=True)
class ToCoordinator:
    """The coordinator of a group (kind 0) or a transactional id (kind 1), over a connection of its own."""

    kind: int
    key: str


Destination = AnyNode | ToNode | ToIdleConnection | ToController | ToLeader | ToCoordinator


def ignore_failure(error: KafkaError, now: float) -> None:
    """For requests whose loss does not matter."""


@slotted
class Send(Generic[R]):
    """A request to send.

    Exactly one of `on_response(response, now)` and `on_failure(error, now)` is called, once, on the driver's
    thread. The response is decoded, and its error codes are left to the caller; the error is the reason for a
    missing response (`Disconnected`, `RequestTimeout`, `UnsupportedVersion`, `NoBrokersAvailable` ...).
    `timeout` (seconds) replaces request_timeout_ms. It limits the wait for a connection, and once the request
    is sent, the wait for the response. `deadline` ends both; after it nothing is sent.

    `on_sent(now)` is called when the transport has the last byte. With `expects_response=False` (acks=0)
    `on_response` then gets None. `min_version` and `max_version` limit the version. `sent_to` (a node's id)
    and `sent_at` are None until the request is sent.
    """

    request: Request[R]
    to: Destination
    on_response: Callable[[Any, float], None]
    on_failure: Callable[[KafkaError, float], None]
    timeout: float | None = None
    expects_response: bool = True
    on_sent: Callable[[float], None] | None = None
    min_version: int | None = None
    max_version: int | None = None
    sent_to: int | None = None
    sent_at: float | None = None
    deadline: float = FOREVER


@slotted
class PollResult:
    """The result of a poll: requests to send now, and the latest time of the next poll."""

    sends: list[Send[Any]]
    wake_at: float = FOREVER

    @classmethod
    def idle_until(cls, wake_at: float) -> PollResult:
        return cls([], wake_at)

    @classmethod
    def idle(cls) -> PollResult:
        return cls([], FOREVER)

    @classmethod
    def send(
        cls,
        request: Request[R],
        *,
        on_response: Callable[[R, float], None],
        on_failure: Callable[[KafkaError, float], None] = ignore_failure,
        to: Destination | None = None,
        timeout: float | None = None,
        wake_at: float = FOREVER,
    ) -> PollResult:
        destination = AnyNode() if to is None else to
        return cls([Send(request, destination, on_response, on_failure, timeout)], wake_at)


NOTHING = PollResult([])
"""The result without requests and without a next time.  Shared, so it must not be changed."""


class Pollable(Protocol):
    """One duty and its state.  Owned by the driver's thread; never blocks, never reads a clock."""

    def poll(self, now: float) -> PollResult:
        """Return requests to send, and the time of the next poll.  Also called early, after any event."""
        ...


@runtime_checkable
class Occasional(Pollable, Protocol):
    """A manager that is polled only while `work` is not empty."""

    @property
    def work(self) -> Sized:
        """Return its unfinished work: always the same container, which any thread can fill."""
        ...


class RequestRouter(Protocol):
    """Routes requests to their destinations: cluster/router.py."""

    def route(self, send: Send[Any], now: float) -> None: ...
