"""Runs a script (network/script.py) as a manager: its calls become requests, its waits wake-up times.

Belongs to the driver's thread.  For exchanges that happen in order over the router, such as JoinGroup then
SyncGroup; the handshake of a connection is run by network/connection.py itself.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pykafka2.clock import FOREVER
from pykafka2.driver.pollable import Destination, PollResult, Send
from pykafka2.driver.runtime import Outcome
from pykafka2.errors import KafkaError
from pykafka2.network.script import Call, Gather, Script, Step
from pykafka2.protocol.struct import Request

if TYPE_CHECKING:
    from pykafka2.driver.driver import Driver

T = TypeVar("T")


class ScriptRunner(Generic[T]):
    """A running script: a `Pollable` that ends.

    `then(outcome, now)` is called once, with the script's result or with the error that it raised; also an
    error that is no `KafkaError`, so nothing is swallowed.  What a request failed with is thrown in at the
    `yield`; of a `gather` the first failure is, and the other answers are dropped.
    """

    def __init__(
        self,
        script: Script[T],
        to: Destination,
        then: Callable[[Outcome[T], float], None],
        *,
        timeout: float | None = None,
    ) -> None:
        self.outcome: Outcome[T] | None = None
        self._script = script
        self._to = to
        self._then = then
        self._timeout = timeout
        self._is_started = False
        # Counts the steps, so that answers to a step that is over are known as such.
        self._step = 0
        self._sends: list[Send[Any]] = []
        self._resume_at = FOREVER

    @property
    def is_done(self) -> bool:
        return self.outcome is not None

    def poll(self, now: float) -> PollResult:
        """Go on if a wait is over; the requests to send."""
        if not self._is_started:
            self._is_started = True
            self._advance(lambda: self._script.send(None), now)
        elif now >= self._resume_at:
            self._advance(lambda: self._script.send(None), now)
        sends, self._sends = self._sends, []
        return PollResult(sends, self._resume_at)

    def cancel(self, error: KafkaError, now: float) -> None:
        """Throw `error` in where the script stands.  It may still send requests: the runner is done when the
        script is."""
        if self.is_done:
            return
        self._is_started = True
        self._sends = []
        self._advance(lambda: self._script.throw(error), now)

    def _advance(self, move: Callable[[], Step], now: float) -> None:
        self._step += 1
        self._resume_at = FOREVER
        try:
            step = move()
        except StopIteration as end:
            self._end(Outcome(value=end.value), now)
        except Exception as error:
            self._end(Outcome(error=error), now)
        else:
            self._begin(step, now)

    def _begin(self, step: Step, now: float) -> None:
        if isinstance(step, Call):
            self._request([step.request], step.version, lambda responses: responses[0])
        elif isinstance(step, Gather):
            if step.requests:
                self._request(list(step.requests), None, lambda responses: responses)
            else:
                self._advance(lambda: self._script.send([]), now)
        else:
            self._resume_at = now + step.seconds

    def _request(
        self, requests: list[Request[Any]], version: int | None, result: Callable[[list[Any]], Any]
    ) -> None:
        number = self._step
        responses: list[Any] = [None] * len(requests)
        missing = len(requests)

        def on_response(index: int, response: Any, now: float) -> None:
            nonlocal missing
            if number != self._step:
                return
            responses[index] = response
            missing -= 1
            if not missing:
                self._advance(lambda: self._script.send(result(responses)), now)

        def on_failure(error: KafkaError, now: float) -> None:
            if number == self._step:
                self._advance(lambda: self._script.throw(error), now)

        for index, request in enumerate(requests):
            self._sends.append(
                Send(
                    request,
                    self._to,
                    partial(on_response, index),
                    on_failure,
                    self._timeout,
                    min_version=version,
                    max_version=version,
                )
            )

    def _end(self, outcome: Outcome[T], now: float) -> None:
        self.outcome = outcome
        self._then(outcome, now)


def run_script(
    driver: Driver,
    script: Script[T],
    to: Destination,
    then: Callable[[Outcome[T], float], None],
    *,
    timeout: float | None = None,
) -> ScriptRunner[T]:
    """Add a runner to the driver until its script ends.  The driver's thread only."""

    def end(outcome: Outcome[T], now: float) -> None:
        driver.remove(runner)
        then(outcome, now)

    runner = ScriptRunner(script, to, end, timeout=timeout)
    driver.add(runner)
    return runner
