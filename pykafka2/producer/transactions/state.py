"""The states of a transactional producer, their transitions, and the calls that each state permits.

Only the IO thread moves `TransactionStatus` (manager.py). Any thread reads it: callers of the transactional
methods (transactions.py), and `send` when it starts a batch (accumulator/accumulator.py).
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from pykafka2.errors import IllegalState, IllegalTransition, KafkaError, TransactionFailed
from pykafka2.events import EventSink, StateMoved


class TransactionState(Enum):
    UNINITIALIZED = "uninitialized"
    INITIALIZING = "initializing"
    READY = "ready"
    IN_TRANSACTION = "in transaction"
    COMMITTING = "committing"
    ABORTING = "aborting"
    DETACHING = "detaching"
    DETACHED = "detached"
    ABORTABLE_ERROR = "abortable error"
    FATAL_ERROR = "fatal error"


_S = TransactionState

# A fatal error can occur in any state except DETACHED.
LEGAL_MOVES: Final[dict[TransactionState, frozenset[TransactionState]]] = {
    # After a rejected first InitProducerId it holds nothing, so it can try again.
    _S.UNINITIALIZED: frozenset({_S.INITIALIZING}),
    _S.INITIALIZING: frozenset({_S.READY, _S.UNINITIALIZED, _S.FATAL_ERROR}),
    _S.READY: frozenset({_S.IN_TRANSACTION, _S.FATAL_ERROR}),
    _S.IN_TRANSACTION: frozenset(
        {_S.COMMITTING, _S.ABORTING, _S.DETACHING, _S.ABORTABLE_ERROR, _S.FATAL_ERROR}
    ),
    _S.COMMITTING: frozenset({_S.READY, _S.ABORTABLE_ERROR, _S.FATAL_ERROR}),
    _S.ABORTING: frozenset({_S.READY, _S.ABORTABLE_ERROR, _S.FATAL_ERROR}),
    _S.DETACHING: frozenset({_S.DETACHED, _S.ABORTABLE_ERROR, _S.FATAL_ERROR}),
    _S.DETACHED: frozenset(),
    _S.ABORTABLE_ERROR: frozenset({_S.ABORTING, _S.FATAL_ERROR}),
    _S.FATAL_ERROR: frozenset(),
}


class Call(Enum):
    """A transactional call of the application."""

    INIT = "init_transactions"
    BEGIN = "begin_transaction"
    SEND = "send"
    SEND_OFFSETS = "send_offsets_to_transaction"
    COMMIT = "commit_transaction"
    ABORT = "abort_transaction"
    DETACH = "detach_transaction"


# A call that did not end within its timeout continues, and the same call again waits for it.
LEGAL_CALLS: Final[dict[TransactionState, frozenset[Call]]] = {
    _S.UNINITIALIZED: frozenset({Call.INIT}),
    _S.INITIALIZING: frozenset({Call.INIT}),
    _S.READY: frozenset({Call.BEGIN}),
    _S.IN_TRANSACTION: frozenset({Call.SEND, Call.SEND_OFFSETS, Call.COMMIT, Call.ABORT, Call.DETACH}),
    _S.COMMITTING: frozenset({Call.COMMIT}),
    _S.ABORTING: frozenset({Call.ABORT}),
    _S.DETACHING: frozenset({Call.DETACH}),
    _S.DETACHED: frozenset({Call.DETACH}),
    _S.ABORTABLE_ERROR: frozenset({Call.ABORT}),
    _S.FATAL_ERROR: frozenset(),
}

NEXT_STEP: Final[dict[TransactionState, str]] = {
    _S.UNINITIALIZED: "call init_transactions() first",
    _S.INITIALIZING: "init_transactions() has not ended; call it again to wait for it",
    _S.READY: "no transaction is open; call begin_transaction() first",
    _S.IN_TRANSACTION: "a transaction is open; end it with commit_transaction() or abort_transaction()",
    _S.COMMITTING: "the transaction is being committed; call commit_transaction() again to wait for it",
    _S.ABORTING: "the transaction is being aborted; call abort_transaction() again to wait for it",
    _S.DETACHING: "the transaction is being detached; call detach_transaction() again to wait for it",
    _S.DETACHED: "the transaction is detached; end it with end_transaction(handle), and close this producer",
    _S.ABORTABLE_ERROR: "call abort_transaction(), then begin_transaction() again",
    _S.FATAL_ERROR: "close this producer and create a new one",
}
"""Advice for each state, for the error of a call that the state does not allow."""

OPEN_STATES: Final = frozenset({_S.IN_TRANSACTION, _S.COMMITTING, _S.DETACHING})
"""States in which batches of the transaction can be sent."""


class TransactionStatus:
    """The current state, and the cause of an error state."""

    __slots__ = ("_event_sink", "cause", "state", "transactional_id")

    def __init__(self, transactional_id: str, event_sink: EventSink) -> None:
        self.transactional_id = transactional_id
        self.state = TransactionState.UNINITIALIZED
        self.cause: KafkaError | None = None
        self._event_sink = event_sink

    def check(self, call: Call) -> None:
        """Raise unless the state allows the call.

        Raises:
            IllegalState: another call must come first; the message names it.
            TransactionFailed: the transaction can only be aborted; the cause is the reason.
            KafkaError: of the class of the fatal error, if there was one.
        """
        state = self.state  # read once, as the IO thread can change it
        if call not in LEGAL_CALLS[state]:
            raise self.refusal(call, state)

    def refusal(self, call: Call, state: TransactionState | None = None) -> KafkaError:
        """Return a new error for a call that the state does not allow."""
        state = self.state if state is None else state
        hint = NEXT_STEP[state]
        if state is TransactionState.ABORTABLE_ERROR and self.cause is not None:
            error: KafkaError = TransactionFailed(
                f"{call.value}: the transaction of {self.transactional_id!r} can only be aborted, because of "
                f"{type(self.cause).__name__}: {str(self.cause).rstrip('.')}; {hint}"
            )
            error.__cause__ = self.cause
            return error
        if state is TransactionState.FATAL_ERROR and self.cause is not None:
            return again(self.cause, f"{call.value}: {str(self.cause).rstrip('.')}; {hint}")
        if call is Call.INIT:  # legal while it was not called, or has not ended
            hint = f"it was called before, and is called only once; {hint}"
        return IllegalState(f"{call.value}(): {hint}")

    def move_to(self, state: TransactionState, now: float, cause: KafkaError | None = None) -> None:
        """Change the state, on the IO thread. Raise IllegalTransition unless the table has the move."""
        if state not in LEGAL_MOVES[self.state]:
            raise IllegalTransition(f"transaction {self.transactional_id!r}: {self.state.value}", state.value)
        before, self.cause = self.state, cause
        self.state = state
        if self._event_sink.is_watched:
            because = "" if cause is None else f"{type(cause).__name__}: {cause}"
            who = f"transactions of {self.transactional_id}"
            self._event_sink.emit(StateMoved(now, who, before.value, state.value, because))


def again(error: KafkaError, text: str) -> KafkaError:
    """Return an error of the same class with another text, caused by this one."""
    try:
        copy = type(error)(text)
    except TypeError:  # an error class with arguments of its own
        copy = KafkaError(text)
    copy.__cause__ = error
    return copy
