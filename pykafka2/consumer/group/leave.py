"""LeaveGroup requests, so that the other members need not wait for the session timeout.

Owned by a membership, on the driver's thread. Each request is a separate script, which continues while the
consumer is already rejoining.
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
    """The LeaveGroup requests in progress."""

    def __init__(self, options: ConsumerOptions, cluster: ClusterClient, to: ToCoordinator) -> None:
        self._options = options
        self._cluster = cluster
        self._to = to
        self._log = ClientLogger(__name__, options.client_id)
        self.runners: list[ScriptRunner[None]] = []
        """The scripts in progress."""

    def start(self, script: Script[None], done: Callable[[KafkaError | None], None]) -> None:
        """Run a script that leaves the group; `done(error)` is called when it has ended."""

        def on_end(outcome: Outcome[None], now: float) -> None:
            self.runners.remove(runner)
            error = outcome.error
            if error is not None:
                self._log.info("leaving group %r failed: %s", self._to.key, error)
            done(error if isinstance(error, KafkaError) else None)

        runner = ScriptRunner(script, self._to, on_end, forget=self._cluster.coordinators.forget_answerer)
        self.runners.append(runner)
        self._cluster.driver.wake()

    def give_up(self, error: KafkaError, now: float) -> None:
        """Cancel all scripts.  Requests in flight can still take effect, but are not retried."""
        for runner in tuple(self.runners):
            runner.cancel(error, now)

    def poll_into(self, result: PollResult, now: float) -> None:
        """Add the requests to send and the next wake-up time to the owner's result."""
        for runner in tuple(self.runners):
            more = runner.poll(now)
            result.sends += more.sends
            result.wake_at = min(result.wake_at, more.wake_at)
