"""Carries out what the exactly-once scripts ask for, with real clients.  Neighbours: scripts.py, and
commands.py for what may be asked.

Any process of Spark's; blocks its thread.
"""

from __future__ import annotations

import logging
import os
import random
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

import attrs

from pykafka2 import TransactionHandle
from pykafka2.errors import (
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    InvalidTxnState,
    KafkaError,
    KafkaTimeoutError,
    ProducerFenced,
    TransactionalIdNotFound,
)
from spark_connector import clock
from spark_connector.options.sink_options import PER_TASK, SinkOptions
from spark_connector.sink import commands, names, steps
from spark_connector.sink.clients import end_all, kept_admin, new_producer
from spark_connector.sink.commands import Command, Script
from spark_connector.sink.identity import Marker
from spark_connector.sink.ledger import Ledger
from spark_connector.sink.messages import OpenTransaction
from spark_connector.sink.states import LedgerState

R = TypeVar("R")

logger = logging.getLogger(__name__)

END_TIMEOUT = 60.0
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 1.0
MARGIN = 5.0
"""Seconds that must be left of a transaction, or a tenth of its time-out, for the decision to commit it."""
NEWEST_TRANSACTIONS = 2
"""With this transaction.version an end gives the id its next epoch; older brokers take the end they know."""
OVER = (ProducerFenced, InvalidProducerEpoch, InvalidProducerIdMapping, InvalidTxnState)
"""Errors of transactions that ended otherwise.  Whatever else comes may be tried again."""


@attrs.define
class Cluster:
    """Of one sink."""

    _options: SinkOptions
    sink: str

    @property
    def ledger(self) -> Ledger:
        options = self._options
        return Ledger(
            options.kafka, options.ledger_topic, self.sink, names.of_ledger(options.id_prefix, self.sink)
        )

    def perform(self, script: Script[R]) -> R:
        """Run a script to its end."""
        try:
            command = next(script)
            while True:
                try:
                    answer = _CARRIED_OUT[type(command)](self, command)
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

    def _end(self, command: commands.EndTransactions) -> dict[int, KafkaError]:
        """One after the other only where a test looks on."""
        by_handle = {one.handle: one.partition for one in command.transactions}
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
                    continue  # its time-out aborts it
                over[by_handle[handle]] = error
        return over

    def _end_all(
        self, handles: Sequence[TransactionHandle], commit: bool
    ) -> dict[TransactionHandle, KafkaError]:
        return end_all(self._options.kafka, handles, commit=commit, timeout=END_TIMEOUT)

    def _find_committed(self, command: commands.FindCommitted) -> dict[int, Marker]:
        return self.ledger.committed_markers(command.batch, command.partitions)

    def _find_markers(self, command: commands.FindMarkers) -> list[int]:
        return self.ledger.markers(command.batch, command.partition, command.start)

    def _find_holder(self, command: commands.FindHolder) -> int | None:
        return self.ledger.holder(command.offset)

    def _fence_task(self, command: commands.FenceTask) -> None:
        name = names.of_task(
            self._options.id_prefix, self.sink, names.PER_TASK_RUN, command.partition, attempt=None
        )
        logger.warning("%s has been open for long behind its marker; it is aborted", name)
        self._fence(name)

    def _find_end_of_markers(self, command: commands.FindEndOfMarkers) -> int:
        return self.ledger.end_of_markers()

    def _find_lost(self, command: commands.FindLost) -> dict[int, str]:
        if not command.transactions:
            return {}
        ids = {one.handle.transactional_id: one for one in command.transactions}
        told = kept_admin(self._options.kafka).describe_transactions(ids, raise_errors=False)
        lost: dict[int, str] = {}
        now = clock.wall()
        for name, one in ids.items():
            error = told.errors.get(name)
            if error is not None and not isinstance(error, TransactionalIdNotFound):
                raise error
            why = f"nobody knows {name}" if error is not None else _why_lost(told[name], one, now)
            if why:
                lost[one.partition] = why
        return lost

    def _abort_leftovers(self, command: commands.AbortLeftovers) -> None:
        states = ["Ongoing", "Empty"] if command.registered else ["Ongoing"]
        for one in kept_admin(self._options.kafka).list_transactions(states=states):
            run = names.run_of(one.transactional_id, self._options.id_prefix, self.sink)
            if run is not None and command.concerns(run, is_open=one.state == "Ongoing"):
                self._fence(one.transactional_id)

    def _find_tasks_left(self, command: commands.FindTasksLeft) -> list[OpenTransaction]:
        if self._options.delivery != PER_TASK:
            return []
        admin = kept_admin(self._options.kafka)
        partitions: dict[str, int] = {}
        for one in admin.list_transactions(states=["Ongoing"]):
            name = one.transactional_id
            partition = names.partition_of(name, self._options.id_prefix, self.sink)
            if partition is not None:
                partitions[name] = partition
        if not partitions:
            return []
        found = []
        for name, told in admin.describe_transactions(partitions, raise_errors=False).items():
            if told.state == "Ongoing":
                handle = TransactionHandle(name, told.producer_id, told.producer_epoch, NEWEST_TRANSACTIONS)
                found.append(OpenTransaction(partitions[name], handle, -1))
        return found

    def _end_tasks_left(self, command: commands.EndTasksLeft) -> None:
        handles = {one.handle.transactional_id: one.handle for one in command.transactions}
        if not handles:
            return
        self._end_all(list(handles.values()), commit=False)
        # Brokers before 4.0 leave the producer its epoch.  An id that has another one belongs to this run.
        told = kept_admin(self._options.kafka).describe_transactions(handles, raise_errors=False)
        for name, one in told.items():
            if (one.producer_id, one.producer_epoch) == (
                handles[name].producer_id,
                handles[name].producer_epoch,
            ):
                self._fence(name)

    def _fence(self, transactional_id: str) -> None:
        """Abort what is open, and let its producer send nothing more; otherwise its time-out does."""
        with suppress(KafkaTimeoutError):
            self._take_over(transactional_id)

    def _take_over(self, transactional_id: str) -> None:
        producer = new_producer(self._options.kafka, transactional_id)
        try:
            with suppress(ProducerFenced):  # by somebody who came after
                producer.init_transactions()
        finally:
            producer.close(1)

    def _give_up(self, command: commands.GiveUp) -> None:
        self._take_over(names.of_given_up(self._options.id_prefix, self.sink))

    def _find_given_up(self, command: commands.FindGivenUp) -> bool:
        name = names.of_given_up(self._options.id_prefix, self.sink)
        told = kept_admin(self._options.kafka).describe_transactions([name], raise_errors=False)
        error = told.errors.get(name)
        if error is not None and not isinstance(error, TransactionalIdNotFound):
            raise error
        return error is None

    def _pause(self, command: commands.Pause) -> None:
        longest = min(FIRST_PAUSE * command.attempt, LONGEST_PAUSE)
        chance = random.Random(f"{os.getpid()} {threading.get_ident()} {command.attempt}")
        clock.sleep(chance.uniform(longest / 2, longest))

    def _reach(self, command: commands.Reach) -> None:
        steps.reach(command.step, sink=self.sink)


def _why_lost(described: Any, one: OpenTransaction, now: float) -> str:
    """Empty if it can be relied on."""
    handle = one.handle
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


_CARRIED_OUT: dict[type[Command], Callable[[Cluster, Any], Any]] = {
    commands.ReadLedger: Cluster._read,
    commands.WriteLedger: Cluster._write,
    commands.EndTransactions: Cluster._end,
    commands.FindCommitted: Cluster._find_committed,
    commands.FindMarkers: Cluster._find_markers,
    commands.FindHolder: Cluster._find_holder,
    commands.FenceTask: Cluster._fence_task,
    commands.FindEndOfMarkers: Cluster._find_end_of_markers,
    commands.FindLost: Cluster._find_lost,
    commands.AbortLeftovers: Cluster._abort_leftovers,
    commands.FindTasksLeft: Cluster._find_tasks_left,
    commands.EndTasksLeft: Cluster._end_tasks_left,
    commands.GiveUp: Cluster._give_up,
    commands.FindGivenUp: Cluster._find_given_up,
    commands.Pause: Cluster._pause,
    commands.Reach: Cluster._reach,
}
