"""The transaction manager: maps calls and failures to steps and states.

A `Pollable` of the IO thread, polled after the sender, which calls `may_send` and reports
failures. Calls of transactions.py arrive as tickets. One step (steps.py) runs at a time, as in Java: first
partitions are added (before transaction.version 2), then offsets, then the transaction ends when every
batch has its outcome.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from pykafka2.driver.completion import Completion
from pykafka2.driver.pollable import TRANSACTION, PollResult, ToCoordinator
from pykafka2.driver.runtime import Outcome
from pykafka2.driver.script_runner import Forget, ScriptRunner, Versions
from pykafka2.errors import (
    IllegalState,
    KafkaError,
    TransactionAborted,
)
from pykafka2.network.script import Script
from pykafka2.producer.accumulator.accumulator import Accumulator
from pykafka2.producer.accumulator.batch import ProducerBatch
from pykafka2.producer.accumulator.batch_records import NO_IDENTITY
from pykafka2.producer.idempotence import ProducerIdentity
from pykafka2.producer.options import ProducerOptions
from pykafka2.producer.transactions.requests import (
    EPOCH_BUMP,
    Reaction,
    Step,
    abortable_error,
    fatal_error,
    produce_versions,
    reaction_to,
)
from pykafka2.producer.transactions.state import OPEN_STATES, Call, TransactionState, TransactionStatus, again
from pykafka2.producer.transactions.steps import Offsets, StepFailed, TransactionSteps
from pykafka2.slotted import slotted
from pykafka2.types import TopicPartition


@slotted(frozen=True)
class Detached:
    """The data of an open transaction that another process needs to end it."""

    producer_id: int
    producer_epoch: int
    transaction_version: int
    is_empty: bool


class TransactionManager:
    """Runs the transactional calls step by step."""

    def __init__(
        self,
        options: ProducerOptions,
        status: TransactionStatus,
        accumulator: Accumulator,
        identity: ProducerIdentity,
        steps: TransactionSteps,
        *,
        forget: Forget,
    ) -> None:
        self._options = options
        self._status = status
        self._accumulator = accumulator
        self.identity = identity
        self._steps = steps
        self._facts = steps.facts
        self._forget = forget
        self._id = status.transactional_id
        self._coordinator = ToCoordinator(TRANSACTION, self._id)
        self._runner: ScriptRunner[None] | None = None
        self._waiting = Waiting()
        self._requests_in_flight = 0
        self._polled_at = 0.0
        self._moves: dict[Call, Callable[[Ticket, float], None]] = {
            Call.INIT: self._begin_init,
            Call.BEGIN: self._begin,
            Call.SEND_OFFSETS: self._begin_offsets,
            Call.COMMIT: partial(self._begin_end, TransactionState.COMMITTING),
            Call.ABORT: partial(self._begin_end, TransactionState.ABORTING),
            Call.DETACH: self._begin_detach,
        }

    # ------------------------------------------------------------------ calls, by the command queue

    def start(self, ticket: Ticket, now: float) -> None:
        """Start the call, join the same call that is running, or reject it."""
        missed = self._waiting.missed() if self._status.state is TransactionState.READY else None
        if missed is not None and missed.call is ticket.call:
            self._waiting.join(ticket)
            ticket.completion.succeed(None)
            return
        try:
            self._status.check(ticket.call)
            if missed is not None and not missed.is_cancelled:
                name = missed.call.value
                raise IllegalState(
                    f"{ticket.call.value}(): {name}() timed out, but succeeded after that; call "
                    f"{name}() again first, which returns at once"
                )
        except KafkaError as error:
            ticket.completion.fail(error)
        else:
            self._moves[ticket.call](ticket, now)

    def take_back(self, now: float) -> None:
        """Note that the task of the last call was cancelled after the call had succeeded."""
        self._waiting.take_back()

    def _begin_init(self, ticket: Ticket, now: float) -> None:
        if self._joins(ticket):
            return
        self._status.move_to(TransactionState.INITIALIZING, now)
        self._waiting.begin(ticket)

    def _begin(self, ticket: Ticket, now: float) -> None:
        self._waiting.begin()
        self._status.move_to(TransactionState.IN_TRANSACTION, now)
        ticket.completion.succeed(None)

    def _begin_offsets(self, ticket: Ticket, now: float) -> None:
        self._waiting.add_offsets(ticket)

    def _begin_end(self, state: TransactionState, ticket: Ticket, now: float) -> None:
        if self._joins(ticket):
            return
        self._status.move_to(state, now)
        self._waiting.begin(ticket)
        self._accumulator.close_tails()  # so that they do not linger
        if state is TransactionState.ABORTING:
            self._waiting.drop_offsets(TransactionAborted(f"the transaction of {self._id!r} was aborted"))

    def _begin_detach(self, ticket: Ticket, now: float) -> None:
        if self._status.state is TransactionState.DETACHED:
            ticket.completion.succeed(self._detached())
        elif not self._joins(ticket):
            self._status.move_to(TransactionState.DETACHING, now)
            self._waiting.begin(ticket)
            self._accumulator.close_tails()

    def _joins(self, ticket: Ticket) -> bool:
        """Add the ticket to the same call if that is running; return whether it is."""
        if self._status.state not in _UNDER_WAY:
            return False
        self._waiting.join(ticket)
        return True

    # ------------------------------------------------------------------ calls of the sender

    @property
    def last_error(self) -> KafkaError | None:
        """The error for which the current step is repeated. Any thread, for error messages."""
        return self._facts.last_error

    @property
    def produce_versions(self) -> Versions:
        return produce_versions(self._facts.version)

    def may_send(self, topic: str, partition: int) -> bool:
        """Return whether batches of the partition can be sent now; if not, request its addition."""
        if self._status.state not in OPEN_STATES:
            return False
        place = TopicPartition(topic, partition)
        if self._facts.version >= EPOCH_BUMP or place in self._facts.added:
            return True
        self._facts.new[place] = None
        return False

    def error_of_unsendable(self) -> KafkaError | None:
        """Return the error of batches that will never be sent; None if they can be sent."""
        state = self._status.state
        if state is TransactionState.ABORTING:
            return TransactionAborted(
                f"the transaction of {self._id!r} was aborted before the record was written"
            )
        if state is TransactionState.ABORTABLE_ERROR:
            return self._status.refusal(Call.SEND)
        return None

    def on_request_sent(self) -> None:
        """Note a request with batches, which starts the transaction if partitions are not added before."""
        self._requests_in_flight += 1
        self._facts.is_started = True

    def on_request_ended(self) -> None:
        self._requests_in_flight -= 1

    def on_batch_failed(self, batch: ProducerBatch, error: KafkaError) -> None:
        """Fail the transaction, as it must not be committed without the batch."""
        self._facts.is_in_doubt = self._facts.is_in_doubt or batch.attempts > 0
        if self.identity.refusal is not None:
            self._fail_for_good(error, None, self._polled_at)
            return
        if self._status.state in OPEN_STATES:
            self._fail_transaction(error, self._polled_at)

    # ------------------------------------------------------------------ the driver's turn

    def poll(self, now: float) -> PollResult:
        self._polled_at = now
        result = PollResult.idle()
        while (runner := self._runner or self._start_next(now)) is not None:
            polled = runner.poll(now)
            result.sends += polled.sends
            if self._runner is runner:
                result.wake_at = polled.wake_at
                break
        return result

    def _start_next(self, now: float) -> ScriptRunner[None] | None:
        """Start the next possible step; None if there is none."""
        state = self._status.state
        if state is TransactionState.INITIALIZING:
            self._run(self._steps.initialize(NO_IDENTITY), self._on_initialized)
        elif state in OPEN_STATES and self._facts.new:
            self._run(self._steps.add_partitions(), self._on_step_done)
        elif state in OPEN_STATES and (first := self._waiting.next_offsets()) is not None:
            ticket, offsets = first
            self._run(self._steps.send_offsets(offsets), partial(self._on_offsets_sent, ticket))
        elif state is TransactionState.COMMITTING and self._is_flushed:
            self._run(self._steps.end(Step.COMMIT), self._on_ended)
        elif state is TransactionState.ABORTING and self._is_flushed:
            self._run(self._steps.end(Step.ABORT), self._on_ended)
        elif state is TransactionState.DETACHING and self._is_flushed:
            self._status.move_to(TransactionState.DETACHED, now)
            self._waiting.succeed(self._detached())
        return self._runner

    @property
    def _is_flushed(self) -> bool:
        """True if every batch has its outcome and none is on the wire, including those that failed."""
        return not self._accumulator.incomplete and not self._requests_in_flight

    def _run(self, script: Script[None], then: Callable[[Outcome[None], float], None]) -> None:
        def end(outcome: Outcome[None], now: float) -> None:
            self._runner = None
            then(outcome, now)

        self._runner = ScriptRunner(script, self._coordinator, end, forget=self._forget)

    # ------------------------------------------------------------------ results of the steps

    def _on_initialized(self, outcome: Outcome[None], now: float) -> None:
        error = self._failure_of(outcome)
        if error is None:
            self._facts.forget()
            self._status.move_to(TransactionState.READY, now)
            self._waiting.succeed(None)
        else:
            self._status.move_to(TransactionState.UNINITIALIZED, now)
            self._waiting.fail(lambda call: again(error, f"{call.value}: {error}"))

    def _on_step_done(self, outcome: Outcome[None], now: float) -> None:
        if outcome.error is not None:
            self._on_step_failed(outcome, now)

    def _on_offsets_sent(self, ticket: Ticket, outcome: Outcome[None], now: float) -> None:
        if outcome.error is None:
            self._waiting.offsets_sent(ticket)
        else:
            self._on_step_failed(outcome, now)

    def _on_ended(self, outcome: Outcome[None], now: float) -> None:
        error = self._failure_of(outcome)
        if error is not None and self._facts.is_ended:
            # The end is decided; only the next transaction needs another producer.
            self._waiting.succeed(None)
            self._fail_for_good(error, Step.INIT, now)
            return
        if error is not None:
            self._on_step_failed(outcome, now)
            return
        self._facts.forget()
        self._status.move_to(TransactionState.READY, now)
        self._waiting.succeed(None)

    def _on_step_failed(self, outcome: Outcome[None], now: float) -> None:
        error, failed = self._failure_of(outcome), outcome.error
        if error is None:
            return
        step = failed.step if isinstance(failed, StepFailed) else None
        if step is None or reaction_to(step, error) is Reaction.FATAL:
            self._fail_for_good(error, step, now)
        # Errors of steps before an abort do not matter.
        elif self._status.state in OPEN_STATES or step is Step.ABORT:
            timeout = self._options.transaction_timeout
            self._fail_transaction(abortable_error(error, step, timeout=timeout), now)

    def _failure_of(self, outcome: Outcome[None]) -> KafkaError | None:
        error = outcome.error
        if error is None:
            return None
        if isinstance(error, StepFailed):
            return error.error
        if isinstance(error, KafkaError):
            return error
        bug = KafkaError(f"a bug in a transaction: {error!r}")
        bug.__cause__ = error
        return bug

    def _fail_transaction(self, error: KafkaError, now: float) -> None:
        """Move to the state in which the transaction can only be aborted."""
        self._status.move_to(TransactionState.ABORTABLE_ERROR, now, error)
        self._give_up(self._status.refusal)

    def _fail_for_good(self, error: KafkaError, step: Step | None, now: float) -> None:
        """Fail the producer: another one has its id, or the outcome of the end is unknown."""
        if self._status.state is TransactionState.FATAL_ERROR:
            return
        error = fatal_error(
            error,
            step,
            transactional_id=self._id,
            timeout=self._options.transaction_timeout,
            is_in_doubt=self._facts.is_in_doubt,
        )
        self._status.move_to(TransactionState.FATAL_ERROR, now, error)
        if self.identity.refusal is None:
            self.identity.refuse(error, f"{error}; close this producer and create a new one")
        self._give_up(self._status.refusal)

    def _give_up(self, refusal: Callable[[Call], KafkaError]) -> None:
        self._accumulator.close_tails()
        self._facts.new.clear()
        self._waiting.fail(refusal)
        self._waiting.drop_offsets(refusal(Call.SEND_OFFSETS))

    def _detached(self) -> Detached:
        producer_id, epoch = self.identity.sequences.identity
        return Detached(producer_id, epoch, self._facts.version, not self._facts.is_started)


_UNDER_WAY = frozenset(
    {
        TransactionState.INITIALIZING,
        TransactionState.COMMITTING,
        TransactionState.ABORTING,
        TransactionState.DETACHING,
    }
)


@slotted(eq=False)
class Ticket:
    """A call that a thread waits for, which sets `is_received` when it has the outcome."""

    call: Call
    completion: Completion[Any]
    offsets: Offsets | None = None
    is_received: bool = False
    is_cancelled: bool = False
    """Whether the thread waited for a task that was cancelled, so that nothing received the outcome."""


class Waiting:
    """The tickets that wait for the current init, end or detachment, and for offsets. Used on the IO thread.

    The tickets of a successful call stay until the next one begins: if no caller received the result, the
    same call returns it. After timeouts it must be called first; after a cancellation it can be.
    """

    def __init__(self) -> None:
        self._tickets: list[Ticket] = []
        self._offsets: deque[tuple[Ticket, Offsets]] = deque()

    def begin(self, *tickets: Ticket) -> None:
        """Replace the tickets, as another call begins."""
        self._tickets = [*tickets]

    def join(self, ticket: Ticket) -> None:
        """Add a ticket of the same call."""
        self._tickets.append(ticket)

    def missed(self) -> Ticket | None:
        """Return a ticket of the call that succeeded without a caller that received it.

        It is cancelled if any of them is. Used when the call has ended.
        """
        if any(one.is_received for one in self._tickets):
            return None
        return max(self._tickets, key=lambda one: one.is_cancelled, default=None)

    def take_back(self) -> None:
        """Count one caller that received the result as cancelled; it does not matter which one."""
        for ticket in self._tickets:
            if ticket.is_received:
                ticket.is_received, ticket.is_cancelled = False, True
                return

    def succeed(self, value: object) -> None:
        for ticket in self._tickets:
            ticket.completion.succeed(value)

    def fail(self, error_of: Callable[[Call], KafkaError]) -> None:
        tickets, self._tickets = self._tickets, []
        for ticket in tickets:
            ticket.completion.fail(error_of(ticket.call))

    # ------------------------------------------------------------------ offsets, in the order of their calls

    def add_offsets(self, ticket: Ticket) -> None:
        if ticket.offsets is not None:
            self._offsets.append((ticket, ticket.offsets))

    def next_offsets(self) -> tuple[Ticket, Offsets] | None:
        return self._offsets[0] if self._offsets else None

    def offsets_sent(self, ticket: Ticket) -> None:
        """Complete the first offsets, unless they were dropped meanwhile."""
        if self._offsets and self._offsets[0][0] is ticket:
            self._offsets.popleft()
        ticket.completion.succeed(None)

    def drop_offsets(self, error: KafkaError) -> None:
        """Fail all offsets that wait."""
        waiting, self._offsets = self._offsets, deque()
        for ticket, _ in waiting:
            ticket.completion.fail(error)
