"""Calls that are retried with back-off until they succeed, time out or fail with a non-retriable error.

A `Pollable` of the driver's thread; any thread can start a call. After an error, metadata or coordinator are
refreshed before the next attempt if the error requires it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from pykafka2.backoff import Backoff
from pykafka2.clock import FOREVER
from pykafka2.cluster.coordinators import Coordinators
from pykafka2.cluster.metadata import Metadata
from pykafka2.driver.completion import Completion
from pykafka2.driver.pollable import Destination, PollResult, Send
from pykafka2.errors import ClientClosed, ClientFailed, IllegalState, KafkaError
from pykafka2.interrupts import run_all
from pykafka2.protocol.struct import Request
from pykafka2.slotted import slotted

Check = Callable[[Any], KafkaError | None]
TimedOut = Callable[[str, float, KafkaError | None], KafkaError]


@slotted(eq=False)
class RetryingCall:
    """One call. `check` returns the error that a response reports, or None."""

    request: Request[Any]
    to: Destination
    check: Check | None
    max_version: int | None
    timeout: float
    deadline: float
    backoff: Backoff
    completion: Completion[Any]
    renewed: Callable[[], Request[Any]] | None = None
    """Creates the request of each attempt if they differ. Called on the driver's thread."""
    is_in_flight: bool = False
    retry_at: float = -FOREVER

    @property
    def name(self) -> str:
        return type(self.request).__name__


class RetryingCalls:
    """The calls under way.

    `timed_out(name, timeout, last_error)` returns the error of a call that timed out.
    """

    def __init__(
        self,
        metadata: Metadata,
        coordinators: Coordinators,
        *,
        timed_out: TimedOut,
        wake: Callable[[], None],
    ) -> None:
        self._metadata = metadata
        self._coordinators = coordinators
        self._timed_out = timed_out
        self._wake = wake
        # Any thread writes it, by single dict operations.
        self.work = self._open = dict[RetryingCall, None]()
        self._closed_because: KafkaError | None = None

    def start(self, call: RetryingCall) -> None:
        """Queue the call for the next poll. Any thread."""
        self._open[call] = None
        if self._closed_because is not None:  # closed meanwhile: no poll would end the call
            self._end(call, self._closed_because)
        self._wake()

    def names(self) -> list[str]:
        """Return the names of the requests of open calls. Any thread."""
        return [call.name for call in tuple(self._open)]

    def close(self, error: ClientClosed | ClientFailed, now: float) -> None:
        """Fail the open calls and those started later."""
        self._closed_because = error
        run_all([partial(self._end, call, error) for call in tuple(self._open)])

    def poll(self, now: float) -> PollResult:
        result = PollResult([])
        for call in tuple(self._open):
            if call.is_in_flight:
                continue  # its request timeout ends it
            if call.completion.is_cancelled:
                self._end(call, IllegalState(f"{call.name} was cancelled by its caller"))
            elif now >= call.retry_at:
                result.sends.append(self._attempt(call))
            else:
                result.wake_at = min(result.wake_at, call.retry_at)
        return result

    # ------------------------------------------------------------------ inside

    def _attempt(self, call: RetryingCall) -> Send[Any]:
        call.is_in_flight = True
        if call.renewed is not None:
            call.request = call.renewed()
        send = Send(
            call.request,
            call.to,
            lambda response, now: self._on_response(call, send, response, now),
            lambda error, now: self._on_error(call, send, error, now),
            max_version=call.max_version,
            deadline=call.deadline,
        )
        return send

    def _on_response(self, call: RetryingCall, send: Send[Any], response: Any, now: float) -> None:
        try:
            error = None if call.check is None else call.check(response)
        except Exception as raised:
            self._end(call, raised)
            return
        if error is not None:
            self._on_error(call, send, error, now)
            return
        self._open.pop(call, None)
        call.completion.succeed(response)

    def _on_error(self, call: RetryingCall, send: Send[Any], error: KafkaError, now: float) -> None:
        call.is_in_flight = False
        if not error.retriable:
            self._end(call, error)
            return
        if error.refresh_metadata:
            self._metadata.request_update(error)
        if error.refresh_coordinator:
            self._coordinators.forget_answerer(send)
        call.retry_at = now + call.backoff.next()
        if call.retry_at >= call.deadline:
            self._end(call, self._timed_out(call.name, call.timeout, error))
        else:
            self._wake()  # this turn may have polled the managers before the response came

    def _end(self, call: RetryingCall, error: BaseException) -> None:
        self._open.pop(call, None)
        call.completion.fail(error)
