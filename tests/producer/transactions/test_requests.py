"""Meaning of a coordinator's response at each step: retry, abort, or the end of the producer."""

from __future__ import annotations

import pytest

from pykafka2 import errors
from pykafka2.errors import KafkaError
from pykafka2.producer.transactions.requests import Reaction, Step, reaction_to

AGAIN, ABORTABLE, FATAL = Reaction.RETRY, Reaction.ABORTABLE, Reaction.FATAL
EVERYWHERE_AGAIN = (AGAIN,) * 6
EVERYWHERE_FATAL = (FATAL,) * 6
UNDONE_BY_AN_ABORT = (FATAL, ABORTABLE, ABORTABLE, ABORTABLE, FATAL, FATAL)

# Init, partitions, offsets, their commit, the commit, the abort.
TABLE: dict[type[KafkaError], tuple[Reaction, ...]] = {
    # Somebody else, or time, changes these.
    errors.CoordinatorLoadInProgress: EVERYWHERE_AGAIN,
    errors.CoordinatorNotAvailable: EVERYWHERE_AGAIN,
    errors.NotCoordinator: EVERYWHERE_AGAIN,
    errors.ConcurrentTransactions: EVERYWHERE_AGAIN,
    errors.UnknownTopicOrPartition: EVERYWHERE_AGAIN,
    errors.RequestTimedOut: EVERYWHERE_AGAIN,
    errors.NetworkException: EVERYWHERE_AGAIN,
    # Of the connection: nobody said anything.
    errors.Disconnected: EVERYWHERE_AGAIN,
    errors.RequestTimeout: EVERYWHERE_AGAIN,
    errors.CorruptResponse: EVERYWHERE_AGAIN,
    errors.NoBrokersAvailable: EVERYWHERE_AGAIN,
    # Another producer has the id, or this one may not use it (KIP-588).
    errors.ProducerFenced: EVERYWHERE_FATAL,
    errors.InvalidProducerEpoch: EVERYWHERE_FATAL,
    errors.TransactionalIdAuthorizationFailed: EVERYWHERE_FATAL,
    errors.ClusterAuthorizationFailed: EVERYWHERE_FATAL,
    # An abort, and another epoch after it, make it good (KIP-360, KIP-890).
    errors.TransactionAbortable: (FATAL, ABORTABLE, ABORTABLE, ABORTABLE, ABORTABLE, ABORTABLE),
    errors.UnknownProducerId: (FATAL, ABORTABLE, ABORTABLE, ABORTABLE, ABORTABLE, ABORTABLE),
    errors.InvalidProducerIdMapping: (FATAL, ABORTABLE, ABORTABLE, ABORTABLE, ABORTABLE, ABORTABLE),
    # In no such state was anything committed; an abort that is refused by it nobody understands.
    errors.InvalidTxnState: (FATAL, ABORTABLE, ABORTABLE, ABORTABLE, ABORTABLE, FATAL),
    errors.TopicAuthorizationFailed: UNDONE_BY_AN_ABORT,
    errors.GroupAuthorizationFailed: UNDONE_BY_AN_ABORT,
    errors.UnknownMemberId: UNDONE_BY_AN_ABORT,
    errors.IllegalGeneration: UNDONE_BY_AN_ABORT,
    errors.FencedInstanceId: UNDONE_BY_AN_ABORT,
    errors.StaleMemberEpoch: UNDONE_BY_AN_ABORT,
    errors.OffsetMetadataTooLarge: UNDONE_BY_AN_ABORT,
    errors.OperationNotAttempted: UNDONE_BY_AN_ABORT,
    errors.UnsupportedVersion: UNDONE_BY_AN_ABORT,
    errors.InvalidRequest: UNDONE_BY_AN_ABORT,
    # Nobody can tell what became of an end that was answered so.
    errors.UnknownServerError: UNDONE_BY_AN_ABORT,
    # What could not be said to any broker cannot be said again.
    errors.SerializationError: UNDONE_BY_AN_ABORT,
}


@pytest.mark.parametrize("kind", TABLE, ids=lambda kind: kind.__name__)
def test_reaction_to_each_error_at_each_step(kind: type[KafkaError]) -> None:
    assert tuple(reaction_to(step, kind("no")) for step in Step) == TABLE[kind]


def test_every_error_of_a_broker_is_one_of_these_kinds() -> None:
    """None that no retry helps is asked about again, and none is forgiven at the end."""
    kinds = {errors.for_code(code) for code in range(-1, 200) if code != errors.NONE}
    assert len(kinds) > 130
    for kind in kinds - set(TABLE) - {errors.UnknownErrorCode}:
        reactions = tuple(reaction_to(step, kind("no")) for step in Step)
        assert reactions == (EVERYWHERE_AGAIN if kind.retriable else UNDONE_BY_AN_ABORT), kind
