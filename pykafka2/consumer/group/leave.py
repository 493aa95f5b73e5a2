"""Good-byes to the coordinator, so that the others need not wait until a member's session ends.

Owned by a membership, on the driver's thread; each is a script of its own (classic/join.py) that goes on
while the consumer may be joining anew.
"""

from __future__ import annotations

from collections.abc import Callable

from pykafka2.cluster.client import ClusterClient
from pykafka2.consumer.options import ConsumerOptions
from pykafka2.driver.pollable import PollResult, ToCoordinator
from pykafka2.driver.runtime import Outcome
from pykafka2.driver.script_runner import ScriptRunner
from pykafka2.errors import KafkaError
from pykafka2.logs import ClientLogger
from pykafka2.network.script import Script

LEAVE_ATTEMPTS = 5


class LeaveRequests:
    """Those that are being said (a `Pollable`)."""

    def __init__(self, options: ConsumerOptions, cluster: ClusterClient, to: ToCoordinator) -> None:
        self._options = options
        self._cluster = cluster
        self._to = to
        self._log = ClientLogger(__name__, options.client_id)
        self.runners: list[ScriptRunner[None]] = []
        """The scripts in progress."""

    def start(self, script: Script[None], done: Callable[[KafkaError | None], None]) -> None:
        """Run a script that says good-bye; `done` as in `say`."""

        def said(outcome: Outcome[None], now: float) -> None:
            self.runners.remove(runner)
            error = outcome.error
            if error is not None:
                self._log.info("group %r was not told that a member left: %s", self._to.key, error)
            done(error if isinstance(error, KafkaError) else None)

        runner = ScriptRunner(script, self._to, said, forget=self._cluster.coordinators.forget_answerer)
        self.runners.append(runner)
        self._cluster.driver.wake()

    def give_up(self, error: KafkaError, now: float) -> None:
        """Say no more: what is on the wire may still be heard, but nothing is repeated."""
        for runner in tuple(self.runners):
            runner.cancel(error, now)

    def poll_into(self, result: PollResult, now: float) -> None:
        """Add what is to be sent, and when to be asked again, to the owner's result."""
        for runner in tuple(self.runners):
            more = runner.poll(now)
            result.sends += more.sends
            result.wake_at = min(result.wake_at, more.wake_at)
