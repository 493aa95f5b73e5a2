"""Runs the scripts of the exactly-once protocol with real clients.

Used in any process of Spark; blocks its thread. Neighbors: protocol.py has the scripts, commands.py what
they can yield.
"""

from __future__ import annotations

import logging
import os
import random
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import attrs

from pykafka2 import TransactionHandle
from pykafka2.errors import (
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    InvalidTxnState,
    KafkaError,
    KafkaTimeoutError,
    NoBrokersAvailable,
    ProducerFenced,
    TransactionalIdNotFound,
)
from spark_connector import clock
from spark_connector.options.sink_options import SinkOptions
from spark_connector.sink.clients import end_all, kept_admin
from spark_connector.sink.exactly_once import commands
from spark_connector.sink.exactly_once import crash_points as steps
from spark_connector.sink.exactly_once import transactional_ids as names
from spark_connector.sink.exactly_once.commands import Command, Script
from spark_connector.sink.exactly_once.identity import Marker
from spark_connector.sink.exactly_once.ledger import Ledger, TopicSettings
from spark_connector.sink.exactly_once.ledger_state import LedgerState
from spark_connector.sink.exactly_once.messages import OpenTransaction

R = TypeVar("R")

logger = logging.getLogger(__name__)

END_TIMEOUT = 60.0
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 1.0
MARGIN = 5.0
"""Seconds that a transaction must have left, or a tenth of its timeout, for the decision to commit it."""
OVER = (ProducerFenced, InvalidProducerEpoch, InvalidProducerIdMapping, InvalidTxnState)
"""Errors of transactions that ended otherwise.  Any other error can be retried."""


@attrs.define
class Cluster:
    """The clients and topics of one sink."""

    _options: SinkOptions
    sink: str

    @property
    def ledger(self) -> Ledger:
        options = self._options
        return Ledger(
            options.kafka,
            options.ledger_topic,
            self.sink,
            names.of_ledger(options.id_prefix, self.sink),
            TopicSettings.of(options),
        )

    def perform(self, script: Script[R]) -> R:
        """Run a script to its end and return its result."""
        try:
            command = next(script)
            while True:
                try:
                    answer = _EXECUTE[type(command)](self, command)
                except Exception as error:
                    command = script.throw(error)
                else:
                    command = script.send(answer)
        except StopIteration as end:
            found: R = end.value
            return found

    # ------------------------------------------------------------------ commands

    def _read(self, command: commands.ReadLedger) -> LedgerState:
        if command.owned:
            return self.ledger.own(command.run, fresh=command.fresh)
        return self.ledger.read(fresh=command.fresh)

    def _write(self, command: commands.WriteLedger) -> None:
        self.ledger.write(command.state)

    def _find_run(self, command: commands.FindRun) -> bool:
        return self.ledger.has_run(command.run)

    def _end(self, command: commands.EndTransactions) -> dict[int, KafkaError]:
        """End transactions; a test with a hook sees the first one end before the others."""
        by_handle = {transaction.handle: transaction.partition for transaction in command.transactions}
        handles = list(by_handle)
        groups = [handles[:1], handles[1:]] if steps.is_hooked() and command.commit else [handles]
        over: dict[int, KafkaError] = {}
        for number, group in enumerate(groups):
            if number and group:
                steps.reach(steps.Step.BETWEEN_ENDS, sink=self.sink)
            for handle, error in self._end_all(group, command.commit).items():
                if not isinstance(error, OVER):
                    if command.commit:
                        raise error
                    continue  # its timeout aborts it
                over[by_handle[handle]] = error
        return over

    def _end_all(
        self, handles: Sequence[TransactionHandle], commit: bool
    ) -> dict[TransactionHandle, KafkaError]:
        return end_all(self._options.kafka, handles, commit=commit, timeout=END_TIMEOUT)

    def _find_committed(self, command: commands.FindCommitted) -> dict[int, Marker]:
        return self.ledger.committed_markers(command.batch, command.partitions)

    def _find_markers(self, command: commands.FindMarkers) -> dict[int, int]:
        return self.ledger.markers(command.batch, command.partition, command.start, command.before)

    def _find_holder(self, command: commands.FindHolder) -> commands.Attempts | None:
        return self.ledger.holder(command.offset)

    def _fence_tasks(self, command: commands.FenceTasks) -> None:
        prefix = self._options.id_prefix
        ids = [
            names.of_task(prefix, self.sink, task.run, task.partition, task.batch, attempt=None)
            for task in command.tasks
        ]
        self._fence(ids, must_succeed=True)

    def _find_end_of_markers(self, command: commands.FindEndOfMarkers) -> int:
        return self.ledger.end_of_markers()

    def _find_lost(self, command: commands.FindLost) -> dict[int, str]:
        if not command.transactions:
            return {}
        ids = {transaction.handle.transactional_id: transaction for transaction in command.transactions}
        described = kept_admin(self._options.kafka).describe_transactions(ids, raise_errors=False)
        lost: dict[int, str] = {}
        now = clock.wall()
        for name, transaction in ids.items():
            error = described.errors.get(name)
            if error is not None and not isinstance(error, TransactionalIdNotFound):
                raise error
            why = (
                f"{name} is unknown to the brokers"
                if error is not None
                else _why_lost(described[name], transaction, now)
            )
            if why:
                lost[transaction.partition] = why
        return lost

    def _abort_leftovers(self, command: commands.AbortLeftovers) -> None:
        states = ["Ongoing", "Empty"] if command.registered else ["Ongoing"]
        ids = []
        for listing in kept_admin(self._options.kafka).list_transactions(states=states):
            run = names.run_of(listing.transactional_id, self._options.id_prefix, self.sink)
            if run is not None and command.concerns(run, is_open=listing.state == "Ongoing"):
                ids.append(listing.transactional_id)
        self._fence(ids)

    def _fence(self, transactional_ids: Sequence[str], *, must_succeed: bool = False) -> None:
        """Abort the open transactions of these ids and fence their producers.

        Unless it `must_succeed`, brokers that do not respond in time abort the transaction by its timeout.
        An id that another producer has taken over since is fenced, too.
        """
        if not transactional_ids:
            return
        outcomes = kept_admin(self._options.kafka).fence_producers(
            transactional_ids, timeout=self._max_block, raise_errors=False
        )
        unanswered = (KafkaTimeoutError, NoBrokersAvailable)
        for error in outcomes.errors.values():
            if isinstance(error, ProducerFenced) or (isinstance(error, unanswered) and not must_succeed):
                continue
            raise error

    @property
    def _max_block(self) -> float:
        """Seconds to wait for brokers, as a producer with these options does."""
        options = {name.replace("_", "."): value for name, value in self._options.kafka.items()}
        return float(options.get("max.block.ms", 60_000)) / 1000

    def _give_up(self, command: commands.GiveUp) -> None:
        self._fence([names.of_given_up(self._options.id_prefix, self.sink)], must_succeed=True)

    def _find_given_up(self, command: commands.FindGivenUp) -> bool:
        name = names.of_given_up(self._options.id_prefix, self.sink)
        described = kept_admin(self._options.kafka).describe_transactions([name], raise_errors=False)
        error = described.errors.get(name)
        if error is not None and not isinstance(error, TransactionalIdNotFound):
            raise error
        return error is None

    def _pause(self, command: commands.Pause) -> None:
        longest = min(FIRST_PAUSE * command.attempt, LONGEST_PAUSE)
        chance = random.Random(f"{os.getpid()} {threading.get_ident()} {command.attempt}")
        clock.sleep(chance.uniform(longest / 2, longest))

    def _reach(self, command: commands.Reach) -> None:
        steps.reach(command.step, sink=self.sink)


def _why_lost(described: Any, transaction: OpenTransaction, now: float) -> str:
    """Return why a transaction may fail to commit, an empty string if it will not."""
    handle = transaction.handle
    name = handle.transactional_id
    if described.state != "Ongoing" or (described.producer_id, described.producer_epoch) != (
        handle.producer_id,
        handle.producer_epoch,
    ):
        return (
            f"{name} is in state {described.state} with producer {described.producer_id} and epoch "
            f"{described.producer_epoch}, not open with {handle.producer_id} and {handle.producer_epoch}: it "
            f"was aborted after kafka.transaction.timeout.ms={described.timeout * 1000:.0f}, or by another "
            "attempt of its task"
        )
    left = described.start_time_ms / 1000 + described.timeout - now
    if left < min(MARGIN, described.timeout / 10):
        return (
            f"{name} has {left:.1f} s left: kafka.transaction.timeout.ms={described.timeout * 1000:.0f} is "
            "too short for a micro-batch; raise it"
        )
    return ""


_EXECUTE: dict[type[Command], Callable[[Cluster, Any], Any]] = {
    commands.ReadLedger: Cluster._read,
    commands.WriteLedger: Cluster._write,
    commands.FindRun: Cluster._find_run,
    commands.EndTransactions: Cluster._end,
    commands.FindCommitted: Cluster._find_committed,
    commands.FindMarkers: Cluster._find_markers,
    commands.FindHolder: Cluster._find_holder,
    commands.FenceTasks: Cluster._fence_tasks,
    commands.FindEndOfMarkers: Cluster._find_end_of_markers,
    commands.FindLost: Cluster._find_lost,
    commands.AbortLeftovers: Cluster._abort_leftovers,
    commands.GiveUp: Cluster._give_up,
    commands.FindGivenUp: Cluster._find_given_up,
    commands.Pause: Cluster._pause,
    commands.Reach: Cluster._reach,
}
