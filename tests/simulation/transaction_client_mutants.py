"""Planted bugs of the producer's transactions, each of which the campaign must catch; see mutants.py."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext, suppress
from typing import Any

import pytest

from pykafka2.errors import TransactionFailed
from pykafka2.network.script import Script
from pykafka2.producer.transactions.manager import TransactionManager
from pykafka2.producer.transactions.requests import Step
from pykafka2.producer.transactions.state import Call
from pykafka2.producer.transactions.steps import TransactionSteps
from pykafka2.producer.transactions.transactions import TransactionRunner

Mutant = Callable[[pytest.MonkeyPatch], None]


def failed_batches_are_committed_around(patch: pytest.MonkeyPatch) -> None:
    """A record that failed does not keep its transaction from being committed."""
    patch.setattr(TransactionManager, "on_batch_failed", lambda self, batch, error: None)


def commits_do_not_wait_for_their_batches(patch: pytest.MonkeyPatch) -> None:
    """The end goes out while records wait."""
    patch.setattr(TransactionManager, "_is_flushed", property(lambda self: True))


def commits_that_failed_count_as_done(patch: pytest.MonkeyPatch) -> None:
    """The application gets no error."""
    run = TransactionRunner.run

    def hopeful(self: TransactionRunner, call: Call, timeout: float | None, *arguments: Any) -> Any:
        with suppress(TransactionFailed) if call is Call.COMMIT else nullcontext():
            return run(self, call, timeout, *arguments)

    patch.setattr(TransactionRunner, "run", hopeful)


def aborts_commit(patch: pytest.MonkeyPatch) -> None:
    """The flag of EndTxn says the wrong thing."""
    end = TransactionSteps.end

    def mistaken(self: TransactionSteps, step: Step) -> Script[None]:
        return end(self, Step.COMMIT)

    patch.setattr(TransactionSteps, "end", mistaken)


def offsets_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    """They are not sent, and the call returns."""

    def nothing(self: TransactionSteps, what: object) -> Script[None]:
        return None
        yield

    patch.setattr(TransactionSteps, "send_offsets", nothing)


MUTANTS = (
    failed_batches_are_committed_around,
    commits_do_not_wait_for_their_batches,
    commits_that_failed_count_as_done,
    aborts_commit,
    offsets_are_forgotten,
)
