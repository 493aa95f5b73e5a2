"""How a connection gets ready: runs the script of its handshake, or of another authentication.

Belongs to the connection (connection.py), which sends what the script calls for and hears of the end, on the
driver's thread.  Work that may block is done on another thread.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from pykafka2.errors import IllegalState, KafkaError
from pykafka2.logs import ClientLogger
from pykafka2.network.handshake import Agreement
from pykafka2.network.in_flight import OnResponse
from pykafka2.network.script import Call, Offload, Script, Step

OnWorkDone = Callable[[Any, BaseException | None, float], None]
Offloader = Callable[[Callable[[], Any], OnWorkDone], None]
"""Runs work on another thread, then tells its result or its error, and the time, on the driver's thread."""


class SettingUpOwner(Protocol):
    """What running a script asks of its connection."""

    broker: str

    def call_for_set_up(self, step: Call, on_answer: OnResponse, now: float) -> None:
        """Send the request.  Raises `KafkaError` if it cannot be."""
        ...

    def on_agreed(self, agreement: Agreement, now: float) -> None: ...

    def fail(self, error: KafkaError, now: float) -> None: ...


class SettingUp:
    """One run of a script."""

    def __init__(
        self,
        script: Script[Agreement],
        owner: SettingUpOwner,
        offload: Offloader | None,
        log: ClientLogger,
    ) -> None:
        self._script = script
        self._owner = owner
        self._offload = offload
        self._log = log
        self._is_closed = False

    def go_on(self, answer: Any, now: float) -> None:
        """Begin (with None), or go on with an answer."""
        self._run(partial(self._script.send, answer), now)

    def close(self) -> None:
        """Work that ends later is not heard of.  Safe to repeat."""
        self._is_closed = True
        self._script.close()

    def _run(self, go_on: Callable[[], Step], now: float) -> None:
        broker = self._owner.broker
        try:
            step = go_on()
            if isinstance(step, Call):
                self._owner.call_for_set_up(step, self.go_on, now)
            elif isinstance(step, Offload) and self._offload is not None:
                self._offload(step.work, self._on_work_done)
            else:
                raise IllegalState(f"nobody here does what the handshake wants: {step!r}")
        except StopIteration as done:
            self._owner.on_agreed(done.value, now)
        except KafkaError as error:
            self._owner.fail(error, now)
        except Exception as error:
            # A token callable of the user's, say: no reason to end more than this connection.  What it says
            # may quote a secret: its type has to do, the cause has the rest.
            self._log.exception("%s: the handshake failed", broker)
            failure = IllegalState(f"the handshake with {broker} failed: {type(error).__name__}")
            failure.__cause__ = error
            self._owner.fail(failure, now)

    def _on_work_done(self, result: Any, error: BaseException | None, now: float) -> None:
        if self._is_closed:
            return  # it took too long
        if error is None:
            self.go_on(result, now)
        else:
            self._run(partial(self._script.throw, error), now)
