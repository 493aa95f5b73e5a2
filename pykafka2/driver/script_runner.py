"""Runs a script (network/script.py) as a manager: its calls become requests, its waits wake-up times.

Belongs to the driver's thread. For exchanges that happen in order over the router, such as JoinGroup then
SyncGroup; network/connection.py itself runs the handshake of a connection.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from pykafka2.clock import FOREVER
from pykafka2.driver.pollable import Destination, PollResult, Send
from pykafka2.driver.runtime import Outcome
from pykafka2.errors import ClientFailed, IllegalState, KafkaError
from pykafka2.network.script import Call, Gather, Lane, Offload, Script, Step, Wait
from pykafka2.protocol.struct import Request, Response
from pykafka2.slotted import slotted

if TYPE_CHECKING:
    from pykafka2.driver.driver import Driver

T = TypeVar("T")
R = TypeVar("R", bound=Response)

Forget = Callable[[Send[Any]], None]
StartWork = Callable[[Callable[[], Any], Callable[[Outcome[Any], float], None], Lane], None]
Versions = tuple[int | None, int | None]
"""The lowest and the highest version; None for any."""

ANY_VERSION: Versions = (None, None)


@slotted(frozen=True)
class CallTo(Call):
    """A call with its own destination and timeout; None uses the runner's.

    `min_version` and `max_version` limit the version if `version` does not set it.
    """

    to: Destination | None = None
    timeout: float | None = None
    min_version: int | None = None
    max_version: int | None = None

    @property
    def versions(self) -> Versions:
        if self.version is not None:
            return self.version, self.version
        return self.min_version, self.max_version


@slotted(frozen=True)
class ForgetCoordinator(Step):
    """Forget the coordinator: the broker responded to the last call that it is not the coordinator."""


def call_to(
    request: Request[R],
    to: Destination | None = None,
    *,
    timeout: float | None = None,
    version: int | None = None,
    versions: Versions = ANY_VERSION,
) -> Script[R]:
    """`response = yield from call_to(SomeRequest(...), ToLeader("orders", 0), timeout=5.0)`."""
    return cast(R, (yield CallTo(request, version, to, timeout, *versions)))


def offloaded(
    work: Callable[[], T],
    lane: Lane = Lane.COMPUTING,
    seconds: float = FOREVER,
    overdue: Callable[[], KafkaError] | None = None,
) -> Script[T]:
    """`value = yield from offloaded(long_computation)`; its exceptions, or `overdue()`, are raised here."""
    return cast(T, (yield Offload(work, lane, seconds, overdue)))


def forget_coordinator() -> Script[None]:
    """Called after NOT_COORDINATOR: forget this coordinator, unless another one was found since."""
    yield ForgetCoordinator()


def _keep_coordinator(send: Send[Any]) -> None:
    """Do nothing, for scripts without requests to a coordinator."""


def _no_offload(work: Callable[[], Any], then: Callable[[Outcome[Any], float], None], lane: Lane) -> None:
    raise IllegalState("a script offloads work, but its runner was created without `offload`")


class ScriptRunner(Generic[T]):
    """A running script: a `Pollable` that ends.

    `then(outcome, now)` is called once, with the script's result or the error that it raised, including
    errors that are not a `KafkaError`. The error of a request is thrown in at the `yield`. For a `gather`
    this is the first error, and the other responses are dropped.

    `to` and `timeout` apply to calls that set none of their own (`call_to`). `forget(send)` implements
    `forget_coordinator`, and `offload(work, then, lane)` implements `offloaded` (`Driver.offload`).
    """

    def __init__(
        self,
        script: Script[T],
        to: Destination,
        then: Callable[[Outcome[T], float], None],
        *,
        timeout: float | None = None,
        forget: Forget = _keep_coordinator,
        offload: StartWork = _no_offload,
    ) -> None:
        self.outcome: Outcome[T] | None = None
        self._script = script
        self._to = to
        self._then = then
        self._timeout = timeout
        self._forget = forget
        self._offload = offload
        self._last_sends: list[Send[Any]] = []
        self._is_started = False
        # The number of the step, to detect answers to an earlier one.
        self._step = 0
        self._sends: list[Send[Any]] = []
        self._resume_at = FOREVER
        self._work: Offload | None = None
        """The work on another thread whose limit is `_resume_at`."""

    @property
    def is_done(self) -> bool:
        return self.outcome is not None

    def poll(self, now: float) -> PollResult:
        """Continue if a wait is over; return the requests to send."""
        if not self._is_started:
            self._is_started = True
            self._advance(lambda: self._script.send(None), now)
        elif now >= self._resume_at:
            work = self._work
            if work is None:
                self._advance(lambda: self._script.send(None), now)
            else:
                self._advance(lambda: self._script.throw(work.error_if_overdue()), now)
        sends, self._sends = self._sends, []
        return PollResult(sends, self._resume_at)

    def cancel(self, error: KafkaError, now: float) -> None:
        """Throw `error` into the script, which can send more requests; the runner ends with the script."""
        if self.is_done:
            return
        self._is_started = True
        self._sends = []
        self._advance(lambda: self._script.throw(error), now)

    def _advance(self, move: Callable[[], Step], now: float) -> None:
        self._step += 1
        self._resume_at, self._work = FOREVER, None
        try:
            step = move()
        except StopIteration as end:
            self._end(Outcome(value=end.value), now)
        except Exception as error:
            self._end(Outcome(error=error), now)
        else:
            self._begin(step, now)

    def _begin(self, step: Step, now: float) -> None:
        if isinstance(step, CallTo):
            self._request([step.request], step.versions, itemgetter(0), step.to, step.timeout)
        elif isinstance(step, Call):
            self._request([step.request], (step.version, step.version), itemgetter(0))
        elif isinstance(step, Gather):
            if step.requests:
                self._request(list(step.requests), ANY_VERSION, lambda responses: responses)
            else:
                self._advance(lambda: self._script.send([]), now)
        elif isinstance(step, ForgetCoordinator):
            for send in self._last_sends:
                self._forget(send)
            self._advance(lambda: self._script.send(None), now)
        elif isinstance(step, Wait):
            self._resume_at = now + step.seconds
        elif isinstance(step, Offload):
            self._work, self._resume_at = step, now + step.seconds
            self._start(step)
        else:
            unknown = IllegalState(f"a script yielded {step!r}, which is not a step")
            self._advance(lambda: self._script.throw(unknown), now)

    def _request(
        self,
        requests: list[Request[Any]],
        versions: Versions,
        result: Callable[[list[Any]], Any],
        to: Destination | None = None,
        timeout: float | None = None,
    ) -> None:
        to = self._to if to is None else to
        timeout = self._timeout if timeout is None else timeout
        number = self._step
        min_version, max_version = versions
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

        self._last_sends = [
            Send(
                request,
                to,
                partial(on_response, index),
                on_failure,
                timeout,
                min_version=min_version,
                max_version=max_version,
            )
            for index, request in enumerate(requests)
        ]
        self._sends += self._last_sends

    def _start(self, work: Offload) -> None:
        number = self._step

        def then(outcome: Outcome[Any], now: float) -> None:
            if number != self._step:
                return
            error = outcome.error
            if error is None:
                self._advance(lambda: self._script.send(outcome.value), now)
                return
            # What would end the driver's loop (`SystemExit` from a callback of the user's, say) stays here.
            failure = error if isinstance(error, Exception) else ClientFailed(f"it raised {error!r}")
            self._advance(lambda: self._script.throw(failure), now)

        self._offload(work.work, then, work.lane)

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
    forget: Forget = _keep_coordinator,
) -> ScriptRunner[T]:
    """Add a runner to the driver until its script ends.  The driver's thread only.

    `forget(send)` implements the script's `forget_coordinator` (`Coordinators.forget_answerer`).
    """

    def end(outcome: Outcome[T], now: float) -> None:
        driver.remove(runner)
        then(outcome, now)

    runner = ScriptRunner(script, to, end, timeout=timeout, forget=forget)
    driver.add(runner)
    return runner
