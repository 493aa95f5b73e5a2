"""Runs the handshake or re-authentication of a connection as a script.

Owned by connection.py, on the driver's thread. Blocking work runs on another thread.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from pykafka2.clock import FOREVER
from pykafka2.errors import IllegalState, KafkaError
from pykafka2.logs import ClientLogger
from pykafka2.network.handshake import Agreement
from pykafka2.network.in_flight import OnResponse
from pykafka2.network.script import Call, Offload, Script, Step

OnWorkDone = Callable[[Any, BaseException | None, float], None]
Offloader = Callable[[Offload, OnWorkDone], None]
"""Runs a step's work on another thread, then calls back with its result on the driver's thread."""


class ConnectionSetupOwner(Protocol):
    """The part of a connection that running a script needs."""

    broker: str

    def call_for_set_up(self, step: Call, on_response: OnResponse, now: float) -> None:
        """Send the request. Raise KafkaError if it cannot be encoded."""
        ...

    def on_agreed(self, agreement: Agreement, now: float) -> None: ...

    def fail(self, error: KafkaError, now: float) -> None: ...


class ConnectionSetup:
    """One run of a script."""

    def __init__(
        self,
        script: Script[Agreement],
        owner: ConnectionSetupOwner,
        offload: Offloader | None,
        log: ClientLogger,
    ) -> None:
        self._script = script
        self._owner = owner
        self._offload = offload
        self._log = log
        self._is_closed = False
        self._work: Offload | None = None
        self._work_began_at = 0.0
        self._waited = 0.0

    def deadline(self, setup_deadline: float) -> float:
        """Return the time by which the connection must be ready.

        The time of work with its own limit does not count, as the broker does not cause it.
        """
        work = self._work
        if work is not None and work.seconds < FOREVER:
            return self._work_began_at + work.seconds
        return setup_deadline + self._waited

    def resume(self, result: Any, now: float) -> None:
        """Start the script (with None), or resume it with a result."""
        self._run(partial(self._script.send, result), now)

    def give_up_work(self, now: float) -> bool:
        """Resume the script without work that has exceeded its limit; return False if there is none."""
        work = self._work
        if work is None or now < self._work_began_at + work.seconds:
            return False
        self._end_of_work(now)
        self._run(partial(self._script.throw, work.error_if_overdue()), now)
        return True

    def close(self) -> None:
        """Close the script; results of unfinished work are ignored. Idempotent."""
        self._is_closed = True
        self._script.close()

    def _run(self, resume: Callable[[], Step], now: float) -> None:
        broker = self._owner.broker
        try:
            step = resume()
            if isinstance(step, Call):
                self._owner.call_for_set_up(step, self.resume, now)
            elif isinstance(step, Offload) and self._offload is not None:
                self._work, self._work_began_at = step, now
                self._offload(step, partial(self._on_work_done, step))
            else:
                raise IllegalState(f"the handshake yielded an unsupported step: {step!r}")
        except StopIteration as done:
            self._owner.on_agreed(done.value, now)
        except KafkaError as error:
            self._owner.fail(error, now)
        except Exception as error:
            # For example a user's token provider, which must not end more than this connection. Its message
            # can contain a secret, so only its type is shown; the cause has the rest.
            self._log.exception("%s: the handshake failed", broker)
            failure = IllegalState(f"the handshake with {broker} failed: {type(error).__name__}")
            failure.__cause__ = error
            self._owner.fail(failure, now)

    def _on_work_done(self, work: Offload, result: Any, error: BaseException | None, now: float) -> None:
        if self._is_closed or self._work is not work:
            return  # it exceeded its limit
        self._end_of_work(now)
        if error is None:
            self.resume(result, now)
            return
        if not isinstance(error, Exception):
            # For example sys.exit() in a user's provider, which must not end more than this connection.
            cause, error = error, IllegalState(f"work for the handshake raised {type(error).__name__}")
            error.__cause__ = cause
        self._run(partial(self._script.throw, error), now)

    def _end_of_work(self, now: float) -> None:
        work, self._work = self._work, None
        if work is not None and work.seconds < FOREVER:
            self._waited += now - self._work_began_at
