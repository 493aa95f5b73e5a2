"""Meaning of responses for a producer's identity, as a table."""

from __future__ import annotations

import pytest

from pykafka2.errors import (
    CorruptData,
    Disconnected,
    DuplicateSequenceNumber,
    InvalidProducerEpoch,
    KafkaError,
    MessageTooLarge,
    NotLeaderOrFollower,
    OutOfOrderSequenceNumber,
    ProducerFenced,
    UnknownProducerId,
)
from pykafka2.producer.idempotence import (
    LAST_EPOCH,
    NO_IDENTITY,
    IdempotentPolicy,
    IdentityPolicy,
    Verdict,
)


@pytest.mark.parametrize(
    ("error", "in_turn", "behind"),
    [
        (DuplicateSequenceNumber(), Verdict.WRITTEN, Verdict.WRITTEN),
        (OutOfOrderSequenceNumber(), Verdict.RENUMBER, Verdict.RETRY),
        (UnknownProducerId(), Verdict.RENUMBER, Verdict.RETRY),
        (InvalidProducerEpoch(), Verdict.RENUMBER, Verdict.RETRY),
        (ProducerFenced(), Verdict.FATAL, Verdict.FATAL),
        (NotLeaderOrFollower(), Verdict.RETRY, Verdict.RETRY),
        (Disconnected(), Verdict.RETRY, Verdict.RETRY),
        (CorruptData(), Verdict.RETRY, Verdict.RETRY),
        (MessageTooLarge(), Verdict.FAIL, Verdict.FAIL),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, KafkaError) else value.name,
)
def test_verdict_of_an_idempotent_producer_depends_on_error_and_turn(
    error: KafkaError, in_turn: Verdict, behind: Verdict
) -> None:
    policy = IdempotentPolicy()
    assert policy.verdict(error, is_in_turn=True) is in_turn
    assert policy.verdict(error, is_in_turn=False) is behind


def test_verdict_without_idempotence_depends_on_the_error_alone() -> None:
    policy = IdentityPolicy()
    assert policy.verdict(NotLeaderOrFollower(), is_in_turn=False) is Verdict.RETRY
    assert policy.verdict(OutOfOrderSequenceNumber(), is_in_turn=False) is Verdict.FAIL
    assert policy.next_identity((7, 3)) == (7, 3)


def test_epochs_go_up_by_one_and_end() -> None:
    policy = IdempotentPolicy()
    assert policy.next_identity((7, 3)) == (7, 4)
    assert policy.next_identity((7, LAST_EPOCH)) == NO_IDENTITY
    # Brokers refuse to raise 32766, as 32767 is what fences a producer for good.
    assert LAST_EPOCH == 32766
