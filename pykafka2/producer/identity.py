"""Who the producer is to the brokers: asks for a producer id, lazily, before the first idempotent batch.

Belongs to the IO thread; polled by the sender while sequences.py has no identity.  Only what a broker says
ends the asking: a lost connection or an answer that cannot be read is asked about again, as long as there are
records that wait (delivery_timeout_ms bounds them).
"""

from __future__ import annotations

import random

from pykafka2.backoff import Backoff
from pykafka2.driver.pollable import PollResult
from pykafka2.errors import (
    BrokerError,
    ClusterAuthorizationFailed,
    CorruptData,
    KafkaError,
    UnsupportedVersion,
    error_of,
)
from pykafka2.producer.identity_policy import IdempotentPolicy, IdentityPolicy, TransactionalPolicy
from pykafka2.producer.options import ProducerOptions
from pykafka2.producer.sequences import Sequences
from pykafka2.protocol.messages.transaction import InitProducerIdRequest, InitProducerIdResponse


def policy_of(options: ProducerOptions) -> IdentityPolicy:
    """The policy for the life of a producer with these options."""
    if options.transactional_id is not None:
        return TransactionalPolicy()
    return IdempotentPolicy() if options.enable_idempotence else IdentityPolicy()


def error_of_identity(answer: InitProducerIdResponse) -> KafkaError | None:
    """Why the answer gives no producer id; None if it does."""
    if answer.error_code:
        return error_of(answer.error_code)
    if answer.producer_id < 0 or answer.producer_epoch < 0:
        told = f"producer id {answer.producer_id}, epoch {answer.producer_epoch}"
        return CorruptData(f"InitProducerId answered {told} and no error")
    return None


class ProducerIdentity:
    """One InitProducerId at a time, repeated with back-off until it succeeds or is refused for good.

    That of a transactional producer asks for nothing: transaction_manager.py tells it who it is.
    """

    def __init__(self, options: ProducerOptions, random: random.Random, policy: IdentityPolicy) -> None:
        self.sequences = Sequences(policy)
        self.refusal: KafkaError | None = None
        """Why no broker will ever give an id, or take records of the one that this producer had."""
        self._backoff = Backoff(options.retry_backoff, options.retry_backoff_max, random)
        self._is_told = options.transactional_id is not None
        self._is_asking = False
        self._not_before = 0.0

    def poll(self, now: float) -> PollResult:
        if self._is_asking or self._is_told or self.refusal is not None:
            return PollResult.idle()
        if now < self._not_before:
            return PollResult.idle_until(self._not_before)
        self._is_asking = True
        # Without a transactional id any broker may hand out ids, and the timeout has no meaning.
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=2**31 - 1)
        return PollResult.send(request, on_response=self._on_response, on_failure=self._on_failure)

    def refuse(self, error: KafkaError, because: str) -> None:
        """The producer cannot go on: what waits fails with this, and what is sent from now on."""
        self.refusal = type(error)(because)
        self.sequences.on_refusal()

    def _on_response(self, response: InitProducerIdResponse, now: float) -> None:
        error = error_of_identity(response)
        if error is not None:
            self._on_failure(error, now)
            return
        self._is_asking = False
        self._backoff.reset()
        self.sequences.on_identity(response.producer_id, response.producer_epoch)

    def _on_failure(self, error: KafkaError, now: float) -> None:
        self._is_asking = False
        if error.retriable or not isinstance(error, BrokerError):
            self._not_before = now + self._backoff.next()
            return
        hint = "close the producer"
        if isinstance(error, UnsupportedVersion):
            hint = "set enable_idempotence=False"
        elif isinstance(error, ClusterAuthorizationFailed):
            hint = "it takes WRITE on a topic, or IDEMPOTENT_WRITE on the cluster; then make a new producer"
        self.refuse(error, f"no producer id for an idempotent producer: {error}; {hint}")
