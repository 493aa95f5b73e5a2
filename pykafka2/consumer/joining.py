"""One join after another: the exchange with the coordinator, the pauses between, how many came to no end.

Owned by membership.py, on the driver's thread; what is said to the coordinator is a script in group_steps.py.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from pykafka2.backoff import Backoff
from pykafka2.cluster.client import ClusterClient
from pykafka2.consumer.group_steps import Assigned, JoinWish, Lead, Watcher, join_group
from pykafka2.consumer.options import ConsumerOptions
from pykafka2.driver.pollable import PollResult, ToCoordinator
from pykafka2.driver.runtime import Outcome
from pykafka2.driver.script_runner import ScriptRunner
from pykafka2.errors import IllegalGeneration, KafkaError, RebalanceInProgress, UnknownMemberId
from pykafka2.logs import ClientLogger
from pykafka2.network.script import Lane

WARN_FROM = 3
"""So many rebalances in a row that were not brought to an end are worth a warning."""

CURED_AT_ONCE = (RebalanceInProgress, UnknownMemberId, IllegalGeneration)
"""What one more rebalance cures is tried without a pause, the first time."""


class Joining:
    """The joins of one member, one at a time (a `Pollable`)."""

    def __init__(
        self,
        options: ConsumerOptions,
        cluster: ClusterClient,
        to: ToCoordinator,
        lead: Lead,
        new_backoff: Callable[[], Backoff],
    ) -> None:
        self.unfinished = 0
        """Rebalances in a row that were not brought to an end."""
        self._options = options
        self._driver = cluster.driver
        self._coordinators = cluster.coordinators
        self._to = to
        self._lead = lead
        self._new_backoff = new_backoff
        self._log = ClientLogger(__name__, options.client_id)
        self._runner: ScriptRunner[Assigned] | None = None
        self._backoff = new_backoff()
        self._not_before = 0.0

    @property
    def is_under_way(self) -> bool:
        return self._runner is not None

    def poll(self, now: float) -> PollResult:
        return PollResult.idle() if self._runner is None else self._runner.poll(now)

    def begin(
        self,
        wish: JoinWish,
        member_id: str,
        watcher: Watcher,
        then: Callable[[Outcome[Assigned]], None],
        now: float,
    ) -> None:
        """Join as soon as the pause is over; `then(outcome)` unless it is cancelled."""

        def ended(outcome: Outcome[Assigned], now: float) -> None:
            if self._runner is runner:  # else the member has left meanwhile
                self._runner = None
                self._note(outcome.error, now)
                then(outcome)

        script = join_group(
            self._options,
            wish,
            member_id,
            self._not_before - now,
            self._new_backoff(),
            watcher,
            self._lead,
        )
        self._runner = runner = ScriptRunner(
            script,
            self._to,
            ended,
            forget=self._coordinators.forget_answerer,
            # An assignor of the user's may take its time, or never end.
            offload=partial(self._driver.offload, lane=Lane.ASSIGNING),
        )

    def delay(self, until: float) -> None:
        """Do not join before."""
        self._not_before = until

    def cancel(self, error: KafkaError, now: float) -> None:
        """End what is under way; nobody hears of it."""
        runner, self._runner = self._runner, None
        if runner is not None:
            runner.cancel(error, now)

    def _note(self, error: BaseException | None, now: float) -> None:
        if error is None:
            self._backoff.reset()
            self._not_before = now
            self.unfinished = 0
            return
        self.unfinished += 1
        is_curable = isinstance(error, CURED_AT_ONCE) and self.unfinished == 1
        self._not_before = now if is_curable else now + self._backoff.next()
        if self.unfinished >= WARN_FROM:
            self._log.warning(
                "group %r: %d rebalances in a row did not come to an end; the last: %s",
                self._options.group_id,
                self.unfinished,
                error,
            )
