"""The requests of a transactional producer to coordinators, one script per step, and the facts about the open
transaction.

Owned by the transaction manager (manager.py), on the IO thread; requests.py has the
requests and the meaning of errors.

A request whose response was lost can still be executed later. From transaction.version 2 on each end raises
the epoch, so the late request is rejected. With earlier versions the producer requests another epoch
(KIP-360) before the next transaction begins, as a late EndTxn could end that one.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from functools import partial
from typing import Protocol, TypeVar

from pykafka2.backoff import Backoff
from pykafka2.driver.pollable import GROUP, ToCoordinator
from pykafka2.driver.script_runner import ANY_VERSION, Versions, call_to, forget_coordinator
from pykafka2.errors import (
    ClientClosed,
    ClientFailed,
    ConcurrentTransactions,
    CorruptData,
    InvalidTxnState,
    KafkaError,
    error_or_none,
)
from pykafka2.network.script import Script, wait
from pykafka2.producer.accumulator.batch_records import Identity
from pykafka2.producer.idempotence import ProducerIdentity, error_of_identity
from pykafka2.producer.options import ProducerOptions
from pykafka2.producer.transactions.requests import (
    EPOCH_BUMP,
    FEATURE,
    LAST_ADD_PARTITIONS_OF_CLIENTS,
    Reaction,
    Step,
    add_partitions,
    commit_offsets,
    end_versions,
    error_of_offsets,
    error_of_partitions,
    offset_commit_versions,
    reaction_to,
)
from pykafka2.producer.transactions.state import OPEN_STATES, TransactionState, TransactionStatus
from pykafka2.protocol.messages.transaction import (
    AddOffsetsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
)
from pykafka2.protocol.struct import Request, Response
from pykafka2.slotted import slot, slotted
from pykafka2.types import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition

R = TypeVar("R", bound=Response)

CONCURRENT_BACKOFF = 0.02
"""Seconds until a request is repeated while the coordinator ends the previous transaction."""


class Features(Protocol):
    """The broker features that steps depend on (cluster/nodes.py)."""

    def finalized_feature(self, name: str) -> int:
        """Return the level of a feature of the cluster; 0 if it has none."""
        ...


class StepFailed(Exception):
    """A step was rejected, or its transaction has failed."""

    def __init__(self, step: Step, error: KafkaError) -> None:
        super().__init__(str(error))
        self.step = step
        self.error = error


@slotted(frozen=True)
class Offsets:
    """The arguments of `send_offsets_to_transaction`."""

    offsets: Mapping[TopicPartition, OffsetAndMetadata]
    group: ConsumerGroupMetadata


@slotted
class Facts:
    """The known facts about the open transaction.

    Attributes:
        version: the transaction.version of its records.
        added: partitions that were added, before version 2.
        new: partitions that must be added.
        is_started: a request was sent that starts the transaction on the coordinator.
        has_joined: the coordinator has confirmed a partition or group, before version 2.
        is_in_doubt: a request got no response, or a sent batch failed, so a broker can execute it later. The
            next transaction then needs another epoch.
        is_ended: the end is decided; the next epoch can be missing.
        last_error: the error for which the current step is repeated; None once it succeeded.
    """

    version: int = 0
    added: dict[TopicPartition, None] = slot(factory=dict)
    new: dict[TopicPartition, None] = slot(factory=dict)
    is_started: bool = False
    has_joined: bool = False
    is_in_doubt: bool = False
    is_ended: bool = False
    last_error: KafkaError | None = None

    def forget(self) -> None:
        """Reset the facts after the end; the next transaction starts with the same version."""
        self.added.clear()
        self.new.clear()
        self.is_started = self.has_joined = False
        self.is_in_doubt = self.is_ended = False
        self.last_error = None


class TransactionSteps:
    """The scripts; each ends when its requests have succeeded, or raises StepFailed."""

    def __init__(
        self,
        options: ProducerOptions,
        status: TransactionStatus,
        identity: ProducerIdentity,
        features: Features,
        topic_id: Callable[[str], bytes],
        random: random.Random,
    ) -> None:
        self.facts = Facts()
        self._options = options
        self._status = status
        self._identity = identity
        self._features = features
        self._topic_id = topic_id
        self._random = random
        self._id = status.transactional_id

    def initialize(self, expected: Identity) -> Script[None]:
        """Request a producer id, or the next epoch of the one that the producer has."""
        request = InitProducerIdRequest(
            transactional_id=self._id,
            transaction_timeout_ms=int(self._options.transaction_timeout * 1000),
            producer_id=expected[0],
            producer_epoch=expected[1],
        )
        answer = yield from self._request(Step.INIT, request, error_of_identity)
        self._identity.sequences.on_identity(answer.producer_id, answer.producer_epoch)
        self.facts.version = self._features.finalized_feature(FEATURE)

    def add_partitions(self) -> Script[None]:
        adding = dict(self.facts.new)
        self.facts.is_started = True
        request = add_partitions(self._id, self._identity.sequences.identity, adding)
        yield from self._request(
            Step.ADD_PARTITIONS,
            request,
            error_of_partitions,
            versions=(None, LAST_ADD_PARTITIONS_OF_CLIENTS),
        )
        self.facts.has_joined = True
        self.facts.added |= adding
        for place in adding:
            self.facts.new.pop(place, None)

    def send_offsets(self, what: Offsets) -> Script[None]:
        identity, group = self._identity.sequences.identity, what.group
        self.facts.is_started = True
        if self.facts.version < EPOCH_BUMP:
            request = AddOffsetsToTxnRequest(
                transactional_id=self._id,
                producer_id=identity[0],
                producer_epoch=identity[1],
                group_id=group.group_id,
            )
            yield from self._request(Step.ADD_OFFSETS, request, lambda answer: _error(answer.error_code))
            self.facts.has_joined = True
        commit = commit_offsets(self._id, identity, what.offsets, group, self._topic_id)
        yield from self._request(
            Step.COMMIT_OFFSETS,
            commit,
            partial(error_of_offsets, request=commit),
            to=ToCoordinator(GROUP, group.group_id),
            versions=offset_commit_versions(self.facts.version, group, commit),
        )

    def end(self, step: Step) -> Script[None]:
        """End the transaction if the coordinator can know it, and request the next epoch if necessary."""
        facts, is_raised = self.facts, False
        if facts.is_started:
            is_raised = yield from self._request_end(step)
        needs_epoch = facts.is_in_doubt or (facts.is_started and facts.version >= EPOCH_BUMP)
        was_version = facts.version
        if facts.is_started:  # otherwise no request was sent, and no broker may be connected
            facts.version = self._features.finalized_feature(FEATURE)
        is_upgraded = was_version < EPOCH_BUMP <= facts.version
        if not is_raised and (needs_epoch or is_upgraded):
            yield from self.initialize(self._identity.sequences.identity)

    def _request_end(self, step: Step) -> Script[bool]:
        """Send EndTxn. Return whether the response raised the epoch."""
        identity = self._identity.sequences.identity
        request = EndTxnRequest(
            transactional_id=self._id,
            producer_id=identity[0],
            producer_epoch=identity[1],
            committed=step is Step.COMMIT,
        )
        try:
            answer = yield from self._request(
                step,
                request,
                lambda answer: _error(answer.error_code),
                versions=end_versions(self.facts.version),
            )
        except StepFailed as failed:
            # The coordinator may never have received the start of the transaction.
            is_unknown = isinstance(failed.error, InvalidTxnState) and not self.facts.has_joined
            if step is not Step.ABORT or not is_unknown:
                raise
            self.facts.is_in_doubt = True
            return False
        self.facts.is_ended = True
        if answer.producer_id < 0:
            return False
        self._identity.sequences.on_identity(answer.producer_id, answer.producer_epoch)
        return True

    def _request(
        self,
        step: Step,
        request: Request[R],
        error_in: Callable[[R], KafkaError | None],
        *,
        to: ToCoordinator | None = None,
        versions: Versions = ANY_VERSION,
    ) -> Script[R]:
        """Repeat a request until it succeeds.

        Raises:
            StepFailed: it was rejected, or the transaction has failed meanwhile.
        """
        backoff = Backoff(self._options.retry_backoff, self._options.retry_backoff_max, self._random)
        while True:
            error: KafkaError | None
            try:
                answer = yield from call_to(request, to, versions=versions)
            except KafkaError as failure:
                # It can have arrived, and be executed later.
                self.facts.is_in_doubt = True
                error = failure
            else:
                error = error_in(answer)
                if error is None:
                    self.facts.last_error = None
                    return answer
            self.facts.last_error = error
            if isinstance(error, ClientClosed | ClientFailed) or self._is_moot(step, error):
                raise StepFailed(step, error)
            if reaction_to(step, error) is not Reaction.RETRY:
                raise StepFailed(step, error)
            if error.refresh_coordinator:
                yield from forget_coordinator()
            pause = backoff.next()
            yield from wait(min(pause, CONCURRENT_BACKOFF) if _is_brief(step, error) else pause)

    def _is_moot(self, step: Step, error: KafkaError) -> bool:
        """Return whether to stop: the transaction has failed, or a first init cannot be sent."""
        if step in (Step.COMMIT, Step.ABORT):
            return False
        if step is Step.INIT:
            is_first = self._status.state is TransactionState.INITIALIZING
            return is_first and not error.retriable and not isinstance(error, CorruptData)
        return self._status.state not in OPEN_STATES


def _error(code: int) -> KafkaError | None:
    return error_or_none(code)


def _is_brief(step: Step, error: KafkaError) -> bool:
    return isinstance(error, ConcurrentTransactions) and step is Step.ADD_PARTITIONS
