"""The page of the site that lists the errors with what to do about each, made from the classes.

`python -m tests.docs.option_pages` writes it; test_error_page.py compares.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from types import ModuleType

import pykafka2.errors
import spark_connector.errors
from pykafka2.errors import KafkaError, name_of
from tests.docs.definitions import anchor, check_entries, definition, linked, section, values
from tests.docs.option_subjects import OPTION_PAGES

FAQ = Path(__file__).parents[2] / "docs" / "guides" / "faq.md"
HEAD = """\
# Errors

All errors are classes of `pykafka2.errors`, with the base class `KafkaError`; those of the Spark connector
are in `spark_connector.errors`. A *retried* error is temporary in most cases: the clients retry until the
timeout of the call, and raise it only after that. After a *fatal* error the client cannot continue: close
it and create a new one. After an *abortable* error the transaction must be aborted; the producer continues.
After an *application-recoverable* one the program closes the client, creates a new one, and continues from
the last committed offsets (KIP-1050). Programs read the same from `error.retriable`, `error.fatal`,
`error.abortable`, `error.application_recoverable` and `error.what_to_do`.
The [FAQ by error message](../guides/faq.md) has cause and fix of the messages that users see most.

Errors of the brokers have a code, the number in Kafka's protocol, and Kafka's name. Within a subject, the
errors that programs meet most come first. Subjects:
"""

BASE = """\
## Base class

::: pykafka2.errors.KafkaError
"""

SUBJECTS: Mapping[str, str] = {
    "Configuration and use": """
        ConfigurationError UnknownOption IllegalArgument IllegalState ClientClosed ConcurrentUse
        ForkedClientError WrongEventLoop LoopBlocked ClientFailed ClientNotStarted IllegalTransition""",
    "Connections": """
        NoBrokersAvailable BootstrapResolutionFailed KafkaTimeoutError RequestTimeout Disconnected
        MisroutedConnection LinkCut
        NetworkException UnsupportedVersion RebootstrapRequired MismatchedEndpointType UnsupportedEndpointType
        InconsistentClusterId""",
    "TLS": """
        TlsError TlsCertificateRejected TlsHostNameMismatch TlsNotSpoken TlsClientCertificateRefused
        TlsInterrupted""",
    "Authentication": """
        SaslAuthenticationFailed UnsupportedSaslMechanism IllegalSaslState TokenExpired
        TokenProviderTimedOut TokenEndpointTimedOut TokenEndpointUnavailable UnacceptableCredential""",
    "Delegation tokens": """
        DelegationTokenAuthDisabled DelegationTokenRequestNotAllowed DelegationTokenNotFound
        DelegationTokenExpired DelegationTokenOwnerMismatch DelegationTokenAuthorizationFailed
        InvalidPrincipalType""",
    "Authorization": """
        TopicAuthorizationFailed GroupAuthorizationFailed TransactionalIdAuthorizationFailed
        ClusterAuthorizationFailed SecurityDisabled PrincipalDeserializationFailure""",
    "Topics and leaders": """
        UnknownTopicOrPartition UnknownUntilTimeout NotLeaderOrFollower LeaderNotAvailable
        InvalidTopicException UnknownTopicId InconsistentTopicId FencedLeaderEpoch UnknownLeaderEpoch
        ReplicaNotAvailable ListenerNotFound BrokerNotAvailable""",
    "Sending": """
        DeliveryTimeout BufferExhausted RecordTooLarge MessageTooLarge SerializationError NotEnoughReplicas
        NotEnoughReplicasAfterAppend RequestTimedOut InvalidRecord IncompleteSend RecordPurged
        CodecUnavailable UnsupportedCompressionType InvalidTimestamp RecordListTooLarge CorruptMessage
        OutOfOrderSequenceNumber UnknownProducerId DuplicateSequenceNumber InvalidRequiredAcks
        UnsupportedForMessageFormat""",
    "Transactions": """
        ProducerFenced TransactionAborted TransactionAbortable TransactionFailed InvalidTxnState
        ConcurrentTransactions InvalidProducerEpoch InvalidTransactionTimeout InvalidProducerIdMapping
        TransactionCoordinatorFenced TransactionalIdNotFound""",
    "Reading": """
        OffsetOutOfRange NoOffsetForPartition LogTruncated ConsumerStalled CorruptData CorruptResponse
        OffsetNotAvailable UnstableOffsetCommit ConsumerWakeup ConsumerStopped FetchSessionIdNotFound
        InvalidFetchSessionEpoch FetchSessionTopicIdError InvalidFetchSize OffsetMovedToTieredStorage
        PositionOutOfRange SnapshotNotFound""",
    "Groups and commits": """
        CommitFailed RetriableCommitFailed RebalanceInProgress FencedInstanceId UnknownMemberId
        IllegalGeneration GroupMaxSizeReached AssignorFailed InconsistentGroupProtocol UnsupportedAssignor
        InvalidGroupId InvalidSessionTimeout CoordinatorNotAvailable NotCoordinator
        CoordinatorLoadInProgress FencedMemberEpoch StaleMemberEpoch UnreleasedInstanceId MemberIdRequired
        InvalidRegularExpression OffsetMetadataTooLarge InvalidCommitOffsetSize GroupIdNotFound
        NonEmptyGroup GroupDeletionFailed GroupSubscribedToTopic""",
    "Administration": """
        TopicAlreadyExists InvalidPartitions InvalidReplicationFactor InvalidReplicaAssignment InvalidConfig
        PolicyViolation InvalidRequest TopicDeletionDisabled ThrottlingQuotaExceeded NotController
        ReassignmentInProgress NoReassignmentInProgress ElectionNotNeeded PreferredLeaderNotAvailable
        EligibleLeadersNotAvailable ResourceNotFound DuplicateResource OperationNotAttempted LogDirNotFound
        FeatureUpdateFailed BrokerIdNotRegistered UnknownControllerId ControllerIdNotRegistered DuplicateVoter
        VoterNotFound InvalidVoterKey""",
    "Inside the brokers": """
        UnknownServerError KafkaStorageError UnknownErrorCode StaleControllerEpoch StaleBrokerEpoch
        IneligibleReplica NewLeaderElected InvalidUpdateVersion InconsistentVoterSet
        DuplicateBrokerRegistration InvalidRegistration""",
    "Share groups, streams and telemetry": """
        InvalidRecordState ShareSessionNotFound InvalidShareSessionEpoch ShareSessionLimitReached
        FencedStateEpoch StreamsInvalidTopology StreamsInvalidTopologyEpoch StreamsTopologyFenced
        StreamsTopologyDescriptionUpdateFailed UnknownSubscriptionId TelemetryTooLarge""",
    "Spark connector": """
        SparkConnectorError DataLoss WrongOffsets WrongSchema WrongRow ExactlyOnceError CheckpointBehind
        LedgerBehind SupersededRun NotCommitted PartlyCommitted""",
    "Names of kafka-python": """
        Cancelled MetadataEmptyBrokerList NodeNotReadyError NoError QuotaViolationError StaleMetadata
        TooManyInFlightRequests UnknownBrokerIdError UnrecognizedBrokerVersion""",
    "Base classes": """
        KafkaError BrokerError RetriableError InvalidMetadataError AuthorizationError""",
}
"""The errors of each subject, those that programs meet most first."""


def errors_of(module: ModuleType) -> Iterator[type[KafkaError]]:
    """The public error classes that the module defines, in its order."""
    for name, found in vars(module).items():
        is_error = inspect.isclass(found) and issubclass(found, KafkaError)
        if is_error and found.__module__ == module.__name__ and not name.startswith("_"):
            yield found


def error_page() -> str:
    """Return the text of the page. Raises SystemExit for errors without a subject."""
    modules = (pykafka2.errors, spark_connector.errors)
    by_name = {error.__name__: error for module in modules for error in errors_of(module)}
    subjects = {title: names.split() for title, names in SUBJECTS.items()}
    check_entries("error_page.py", by_name, [name for names in subjects.values() for name in names])
    parts = [HEAD, ", ".join(f"[{title}](#{anchor(title)})" for title in subjects) + ".\n"]
    parts += [
        section(title, *(_definition(by_name[name], by_name) for name in names))
        for title, names in subjects.items()
    ]
    return "\n".join([*parts, BASE])


def _definition(error: type[KafkaError], known: Mapping[str, type[KafkaError]]) -> str:
    what = " ".join(inspect.cleandoc(error.__doc__ or "").split("\n\n")[0].split())
    facts = (
        ("Code", _code(error)),
        ("Kafka", f"`{name_of(error.code or 0)}`" if _code(error) else ""),
        ("Retried", "yes" if error.retriable else ""),
        ("Fatal", "yes" if error.fatal else ""),
        ("Abortable", "yes" if error.abortable else ""),
        ("Application-recoverable", "yes" if error.application_recoverable else ""),
        ("Base classes", ", ".join(_bases(error, known))),
        ("FAQ", ", ".join(_messages().get(anchor(error.__name__), ()))),
    )
    return definition(
        error.__name__,
        facts,
        linked(values(what), known, error.__name__, OPTION_PAGES),
        f"**What to do:** {linked(values(error.what_to_do), known, '', OPTION_PAGES)}",
    )


@cache
def _messages() -> dict[str, list[str]]:
    """Return links to the entries of the FAQ by the anchors of the errors that they link to."""
    found: dict[str, list[str]] = {}
    for entry in FAQ.read_text(encoding="utf-8").split("\n### ")[1:]:
        heading = entry.partition("\n")[0]
        for name in dict.fromkeys(re.findall(r"reference/errors\.md#(\w+)", entry.partition("\n## ")[0])):
            found.setdefault(name, []).append(f"[{heading}](../guides/faq.md#{anchor(heading)})")
    return found


def _code(error: type[KafkaError]) -> str:
    """Return the code that brokers send for the error; empty for errors of the clients."""
    if not error.code or (error.code == -1 and error is not pykafka2.errors.UnknownServerError):
        return ""
    return str(error.code)


def _bases(error: type[KafkaError], known: Iterable[str]) -> Iterator[str]:
    """The classes by which a program can also catch the error, except KafkaError: ours, then Python's."""
    for base in error.__mro__[1:]:
        if base is not KafkaError and base.__name__ in known:
            yield f"[`{base.__name__}`](#{base.__name__.lower()})"
    for base in error.__mro__[1:]:
        if base.__module__ == "builtins" and base not in (Exception, BaseException, object):
            yield f"`{base.__name__}`"
