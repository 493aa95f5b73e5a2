"""Reaction to each error of a coordinator or leader, compared with the Java client's."""

from __future__ import annotations

import pytest

from pykafka2 import errors
from pykafka2.errors import KafkaError
from pykafka2.producer.idempotence import TransactionalPolicy, Verdict
from pykafka2.producer.transactions.requests import Reaction, Step, fatal_error, reaction_to

RETRY, ABORT, FATAL = Reaction.RETRY, Reaction.ABORTABLE, Reaction.FATAL
PRODUCE = "Produce"
REQUESTS = (*Step, PRODUCE)
ALWAYS_RETRY = (RETRY,) * 7
ALWAYS_FATAL = (FATAL,) * 7
UNEXPECTED = (FATAL, ABORT, FATAL, FATAL, FATAL, FATAL, ABORT)
OF_A_MEMBER = (FATAL, ABORT, FATAL, ABORT, FATAL, FATAL, ABORT)

# TransactionManager and Sender of kafka-clients 4.4.0: InitProducerId, AddPartitionsToTxn, AddOffsetsToTxn,
# TxnOffsetCommit, EndTxn(commit), EndTxn(abort), Produce.
JAVA: dict[type[KafkaError], tuple[Reaction, ...]] = {
    errors.CoordinatorLoadInProgress: ALWAYS_RETRY,
    errors.CoordinatorNotAvailable: ALWAYS_RETRY,
    errors.NotCoordinator: ALWAYS_RETRY,
    errors.ConcurrentTransactions: ALWAYS_RETRY,
    errors.UnknownTopicOrPartition: ALWAYS_RETRY,
    errors.NotLeaderOrFollower: ALWAYS_RETRY,
    errors.RequestTimedOut: ALWAYS_RETRY,
    errors.NetworkException: ALWAYS_RETRY,
    errors.ProducerFenced: ALWAYS_FATAL,
    errors.InvalidProducerEpoch: (FATAL, FATAL, FATAL, FATAL, FATAL, FATAL, ABORT),
    errors.InvalidProducerIdMapping: ALWAYS_FATAL,  # KAFKA-18019
    errors.TransactionalIdAuthorizationFailed: (ABORT, FATAL, FATAL, FATAL, FATAL, FATAL, FATAL),
    errors.ClusterAuthorizationFailed: (ABORT, ABORT, FATAL, FATAL, FATAL, FATAL, FATAL),
    errors.TransactionAbortable: (ABORT, ABORT, ABORT, ABORT, ABORT, FATAL, ABORT),
    errors.UnknownProducerId: (FATAL, ABORT, ABORT, FATAL, ABORT, ABORT, ABORT),
    errors.OutOfOrderSequenceNumber: UNEXPECTED,
    errors.InvalidTxnState: (FATAL, FATAL, FATAL, FATAL, FATAL, FATAL, ABORT),
    errors.TopicAuthorizationFailed: UNEXPECTED,
    errors.OperationNotAttempted: UNEXPECTED,
    errors.GroupAuthorizationFailed: (FATAL, ABORT, ABORT, ABORT, FATAL, FATAL, ABORT),
    errors.FencedInstanceId: OF_A_MEMBER,
    errors.UnknownMemberId: OF_A_MEMBER,
    errors.IllegalGeneration: OF_A_MEMBER,
    errors.StaleMemberEpoch: OF_A_MEMBER,
    errors.GroupIdNotFound: OF_A_MEMBER,
    errors.UnknownTopicId: ALWAYS_RETRY,
    errors.OffsetMetadataTooLarge: UNEXPECTED,
    errors.UnsupportedForMessageFormat: UNEXPECTED,
    errors.MessageTooLarge: UNEXPECTED,
    errors.InvalidRecord: UNEXPECTED,
    errors.InvalidRequest: UNEXPECTED,
    errors.UnknownServerError: UNEXPECTED,
    errors.UnsupportedVersion: ALWAYS_FATAL,
}

# An offset commit that was rejected is undone by an abort, whatever the reason: Java names only some.
_UNDONE_BY_AN_ABORT = {
    **{(kind, Step.ADD_OFFSETS): ABORT for kind, row in JAVA.items() if row in (UNEXPECTED, OF_A_MEMBER)},
    **{(kind, Step.COMMIT_OFFSETS): ABORT for kind, row in JAVA.items() if row == UNEXPECTED},
}

DIFFERENT: dict[tuple[type[KafkaError], Step | str], Reaction] = {
    **_UNDONE_BY_AN_ABORT,
    # The coordinator checks the identity before the state, so no fenced producer gets this. Nothing was
    # committed.
    (errors.InvalidTxnState, Step.ADD_PARTITIONS): ABORT,
    (errors.InvalidTxnState, Step.ADD_OFFSETS): ABORT,
    (errors.InvalidTxnState, Step.COMMIT_OFFSETS): ABORT,
    (errors.InvalidTxnState, Step.COMMIT): ABORT,
    # As for the other steps, the abort requests another epoch.
    (errors.UnknownProducerId, Step.COMMIT_OFFSETS): ABORT,
    # No broker executed the request; the brokers may be in the middle of an upgrade.
    (errors.UnsupportedVersion, Step.ADD_PARTITIONS): ABORT,
    (errors.UnsupportedVersion, Step.ADD_OFFSETS): ABORT,
    (errors.UnsupportedVersion, Step.COMMIT_OFFSETS): ABORT,
    (errors.UnsupportedVersion, PRODUCE): ABORT,
    # No transaction is open, so there is nothing to abort. A first init_transactions() can be called again.
    (errors.TransactionalIdAuthorizationFailed, Step.INIT): FATAL,
    (errors.ClusterAuthorizationFailed, Step.INIT): FATAL,
    (errors.TransactionAbortable, Step.INIT): FATAL,
    # No coordinator responds so to this.
    (errors.ClusterAuthorizationFailed, Step.ADD_PARTITIONS): FATAL,
}


def reaction(request: Step | str, error: KafkaError) -> Reaction:
    """This client's reaction; that to Produce is for the first unfinished batch of a partition."""
    if isinstance(request, Step):
        return reaction_to(request, error)
    verdict = TransactionalPolicy().verdict(error, is_in_turn=True)
    return {Verdict.RETRY: RETRY, Verdict.FAIL: ABORT, Verdict.FATAL: FATAL}[verdict]


@pytest.mark.parametrize("kind", JAVA, ids=lambda kind: kind.__name__)
def test_reaction_to_each_transactional_error_is_javas(kind: type[KafkaError]) -> None:
    expected = {
        request: DIFFERENT.get((kind, request), java)
        for request, java in zip(REQUESTS, JAVA[kind], strict=True)
    }
    assert {request: reaction(request, kind("no")) for request in REQUESTS} == expected


def test_each_listed_difference_differs_from_java() -> None:
    for (kind, request), ours in DIFFERENT.items():
        assert JAVA[kind][REQUESTS.index(request)] is not ours, (kind, request)


@pytest.mark.parametrize(
    "kind",
    [
        errors.Disconnected,
        errors.RequestTimeout,
        errors.CorruptResponse,
        errors.NoBrokersAvailable,
    ],
)
def test_connection_errors_are_retried_at_every_step(kind: type[KafkaError]) -> None:
    assert {reaction_to(step, kind("no")) for step in Step} == {RETRY}


@pytest.mark.parametrize(
    "kind", [errors.ProducerFenced, errors.InvalidProducerEpoch, errors.InvalidProducerIdMapping]
)
@pytest.mark.parametrize(
    ("is_in_doubt", "outcome"), [(False, "it was not committed"), (True, "committed is not known")]
)
def test_error_of_a_refused_commit_names_its_outcome(
    kind: type[KafkaError], is_in_doubt: bool, outcome: str
) -> None:
    """A coordinator that refuses the first attempt has executed none."""
    error = fatal_error(kind("no"), Step.COMMIT, transactional_id="t", timeout=60.0, is_in_doubt=is_in_doubt)
    assert outcome in str(error)


@pytest.mark.parametrize("is_in_turn", [True, False])
def test_batch_behind_others_does_not_outlive_its_producer_id(is_in_turn: bool) -> None:
    error = errors.InvalidProducerIdMapping("no")
    assert TransactionalPolicy().verdict(error, is_in_turn=is_in_turn) is Verdict.FATAL


def test_request_that_cannot_be_encoded_is_not_repeated() -> None:
    reactions = [reaction_to(step, errors.SerializationError("no")) for step in Step]
    assert reactions == [FATAL, ABORT, ABORT, ABORT, FATAL, FATAL]


def test_every_other_error_of_a_broker_is_retried_or_unexpected() -> None:
    """An error that no retry helps is not retried, and none is ignored at the end."""
    kinds = {errors.for_code(code) for code in range(-1, 200) if code != errors.NONE}
    assert len(kinds) > 130
    for kind in kinds - set(JAVA) - {errors.UnknownErrorCode}:
        reactions = tuple(reaction_to(step, kind("no")) for step in Step)
        unexpected = (FATAL, ABORT, ABORT, ABORT, FATAL, FATAL)
        assert reactions == (ALWAYS_RETRY[:6] if kind.retriable else unexpected), kind
