"""Every error of pykafka2: what happened, and what it asks of the client or of you.

One root, `KafkaError`; one class per broker error code (below `BrokerError`, in Kafka's order and with
Kafka's names); and the errors that arise on this side of the wire.  Traits stand on the class, so that no
call site keeps lists of codes.  Longer than other modules because it is a table.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

from pykafka2.text import shown


class KafkaError(Exception):
    """Root of all errors raised by pykafka2.

    Traits:
        retriable: the same call may succeed later; the clients retry such errors by themselves.
        fatal: the client that raised it cannot go on; close it and make a new one.
        refresh_metadata: the client's metadata is out of date.
        refresh_coordinator: the coordinator must be looked up again.
    """

    code: ClassVar[int | None] = None
    retriable: ClassVar[bool] = False
    fatal: ClassVar[bool] = False
    refresh_metadata: ClassVar[bool] = False
    refresh_coordinator: ClassVar[bool] = False

    def __str__(self) -> str:
        return super().__str__() or (type(self).__doc__ or "").strip().split("\n")[0]

    def anew(self) -> Self:
        """A copy, to be raised where others raise the same error: each gets a traceback of its own."""
        # Not by a call, as a class of the user's may take arguments of its own, of which nobody knows.
        fresh = type(self).__new__(type(self), *self.args)
        fresh.__dict__.update(self.__dict__)
        if self.__cause__ is not None:
            fresh.__cause__ = self.__cause__
        return fresh


class RetriableError(KafkaError):
    """The same call may succeed later."""

    retriable = True


class InvalidMetadataError(RetriableError):
    """The client's metadata is out of date; the client fetches it again, then retries."""

    refresh_metadata = True


# ---------------------------------------------------------------------------------------------------
# This side of the wire
# ---------------------------------------------------------------------------------------------------


class ConfigurationError(KafkaError, ValueError):
    """An option is missing, unknown, of the wrong type, or contradicts another; the message names it."""


class UnknownOption(ConfigurationError):
    """No option has this name; the message names the nearest one."""


class IllegalState(KafkaError, RuntimeError):
    """The call does not fit the state of the object; the message says which call comes first."""


class NotYetAvailable(KafkaError, NotImplementedError):
    """The signature is final, its behaviour comes with a later version; the message names it."""


class IllegalTransition(IllegalState):
    """A state machine was asked for a move that its table does not have."""

    def __init__(self, state: object, event: object) -> None:
        super().__init__(f"no move from {state} on {event}")
        self.state = state
        self.event = event

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.state, self.event)


class ClientClosed(IllegalState):
    """The client is closed; make a new one."""


class ClientNotStarted(RetriableError, OSError):
    """The system has no file descriptor or no thread left for a client; the message says which."""


class ClientFailed(IllegalState):
    """The client's IO thread ended by an error, which is the cause of this one; make a new client."""

    fatal = True


class ConcurrentUse(IllegalState):
    """Two threads use one consumer at once; give each thread its own."""


class ForkedClientError(IllegalState):
    """The client was made before a fork; make a new one in the child process."""


class NoOffsetForPartition(KafkaError):
    """A partition has no position and auto_offset_reset is 'none'; seek first, or set a policy."""


class AssignorFailed(KafkaError):
    """An assignor failed, or its assignment cannot be used; the message names it and says why."""


class CommitFailed(KafkaError):
    """The group did not take the offsets, and will not: this consumer is no member of it any more.

    Its partitions may have other owners by now, who will read the records again from the last commit.  Call
    poll() to join again; the message names why the membership ended, as far as that is known.
    """


class RetriableCommitFailed(RetriableError):
    """An asynchronous commit failed for a reason that passes; its cause is the error it met.

    It is not sent again by itself, as it could overtake a later one: commit the latest offsets again.
    """


class KafkaTimeoutError(RetriableError, TimeoutError):
    """The call did not end within its timeout; the message says what it waited for."""


class BufferExhausted(KafkaTimeoutError):
    """The producer's buffer_memory stayed full for max_block_ms; the brokers are slower than the sends."""


class IncompleteSend(KafkaError):
    """`send_many` gave up after it had taken some of the records; the cause says why.

    Attributes:
        taken: how many were taken; they are on their way.
        left: the row numbers of those that were not, in order: send these again.
        delivery: the outcome of those taken.
    """

    def __init__(self, message: str, taken: int = 0, left: Sequence[int] = (), delivery: Any = None) -> None:
        super().__init__(message)
        self.taken = taken
        self.left = left
        self.delivery = delivery

    def __reduce__(self) -> tuple[Any, ...]:
        # Another process cannot wait for what is on its way here.
        return type(self), (str(self), self.taken, self.left)


class RecordTooLarge(KafkaError, ValueError):
    """A record is larger than max_request_size or buffer_memory; nothing was queued."""


class RecordPurged(KafkaError):
    """The record waited to be sent when `purge` was called: it was taken out, and is not in the log."""


class TransactionFailed(KafkaError):
    """The transaction can only be aborted: its cause says why; abort_transaction(), then begin again."""


class TransactionAborted(KafkaError):
    """The record was taken for a transaction that was aborted before the record was written."""


class SerializationError(KafkaError, ValueError):
    """A serializer or deserializer failed; the message names topic, partition and offset where known."""


class IllegalArgument(SerializationError, TypeError):
    """An argument is not what the call takes; the message names it, what it got and what it takes."""


class ConsumerStalled(KafkaError):
    """A partition has not advanced for two minutes although brokers answer and records are there; the message
    has what is known of the cause.  The consumer goes on trying."""


class CorruptData(KafkaError, ValueError):
    """Bytes are not what the protocol says; the message names message, version and field."""


class CorruptResponse(CorruptData, InvalidMetadataError):
    """A broker's answer is not what the protocol says: its connection is closed, and the request may be sent
    again; whether it was carried out is not known."""


class CodecUnavailable(KafkaError, ImportError):
    """The library of a compression codec is not installed; the message names the package."""


class Disconnected(InvalidMetadataError, ConnectionError):
    """The connection ended before the answer came; whether the request was carried out is not known."""


class NoBrokersAvailable(RetriableError, ConnectionError):
    """No broker could be reached; the message lists each address with its reason."""


class TlsError(KafkaError, ConnectionError):
    """The TLS handshake failed; the message says whether the other side speaks TLS at all."""


class TlsInterrupted(TlsError, RetriableError):
    """The other side ended the connection during the TLS handshake: a restart, or a port without TLS."""


class TlsNotSpoken(TlsError):
    """The port speaks Kafka's protocol without TLS; see security_protocol."""


class TlsClientCertificateRefused(TlsError):
    """The broker wants a client certificate and was shown none, or does not accept the one that it was shown;
    see ssl_certfile."""


class TlsCertificateRejected(TlsError):
    """The broker's certificate was not signed by a trusted authority, has expired or was revoked; see
    ssl_cafile."""


class TlsHostNameMismatch(TlsError):
    """The broker's certificate is for another host name than the one it was connected to by."""


class RequestTimeout(Disconnected):
    """The broker did not answer within request_timeout_ms; whether it acted is not known."""


class DeliveryTimeout(KafkaTimeoutError):
    """A batch was not acknowledged within delivery_timeout_ms; its records may or may not be in the log."""

    retriable = False


class LinkCut(Disconnected):
    """A link of the bundled broker was cut by a test."""


# ---------------------------------------------------------------------------------------------------
# The brokers' error codes, in Kafka's order
# ---------------------------------------------------------------------------------------------------


class BrokerError(KafkaError):
    """A broker answered with an error code."""

    code: ClassVar[int | None] = -1


class AuthorizationError(BrokerError):
    """The user has no access rule for what it asked; the subclass says of which kind of resource."""


class UnknownServerError(BrokerError):
    """The broker failed in a way it has no code for; see the broker's log."""

    code = -1


class OffsetOutOfRange(BrokerError):
    """The offset asked for is below the log start or above the end; seek, or let auto_offset_reset decide."""

    code = 1


class LogTruncated(OffsetOutOfRange):
    """The log was cut at `offset`, below records that had been read: a leader was elected that did not have
    them (KIP-320).  `leader_epoch` is that of the last record before the offset."""

    offset = -1
    leader_epoch = -1


class CorruptMessage(BrokerError, RetriableError):
    """The bytes of a batch do not match their checksum, so they changed on the way; sending again is safe."""

    code = 2


class UnknownTopicOrPartition(BrokerError, InvalidMetadataError):
    """No such topic or partition on this broker; create the topic, or wait until its metadata has spread."""

    code = 3


class UnknownUntilTimeout(UnknownTopicOrPartition, KafkaTimeoutError):
    """No such topic or partition was found before the call's timeout (default_api_timeout_ms) ended."""


class InvalidFetchSize(BrokerError):
    """A fetch size is not a positive number."""

    code = 4


class LeaderNotAvailable(BrokerError, InvalidMetadataError):
    """The partition has no leader at the moment; an election is under way, so ask again."""

    code = 5


class NotLeaderOrFollower(BrokerError, InvalidMetadataError):
    """The broker asked is no longer the partition's leader."""

    code = 6


class RequestTimedOut(BrokerError, RetriableError):
    """The broker gave up waiting for other replicas; what was appended stays appended."""

    code = 7


class BrokerNotAvailable(BrokerError):
    """The broker is not available."""

    code = 8


class ReplicaNotAvailable(BrokerError, InvalidMetadataError):
    """The replica asked is not available."""

    code = 9


class MessageTooLarge(BrokerError):
    """A batch is larger than the topic's max.message.bytes; send smaller records or raise that limit."""

    code = 10


class StaleControllerEpoch(BrokerError):
    """A request came from a controller that has since been replaced."""

    code = 11


class OffsetMetadataTooLarge(BrokerError):
    """The metadata of an offset commit is longer than the broker's offset.metadata.max.bytes (4096)."""

    code = 12


class NetworkException(BrokerError, InvalidMetadataError):
    """The broker closed the connection before it answered."""

    code = 13


class CoordinatorLoadInProgress(BrokerError, RetriableError):
    """The coordinator is still reading its log; ask again."""

    code = 14


class CoordinatorNotAvailable(BrokerError, RetriableError):
    """The coordinator is not available yet; look it up again."""

    code = 15
    refresh_coordinator = True


class NotCoordinator(BrokerError, RetriableError):
    """This broker does not coordinate the group or transaction; look the coordinator up again."""

    code = 16
    refresh_coordinator = True


class InvalidTopicException(BrokerError):
    """The topic is internal, or its name not legal: at most 249 letters, digits, '.', '_' and '-'."""

    code = 17


class RecordListTooLarge(BrokerError):
    """A produce request is larger than a log segment; send smaller batches."""

    code = 18


class NotEnoughReplicas(BrokerError, RetriableError):
    """Fewer replicas are in sync than min.insync.replicas asks for; nothing was appended."""

    code = 19


class NotEnoughReplicasAfterAppend(BrokerError, RetriableError):
    """Replicas fell out of sync after the append; the records are in the log but not as safe as asked."""

    code = 20


class InvalidRequiredAcks(BrokerError):
    """acks must be 0, 1 or all (-1)."""

    code = 21


class IllegalGeneration(BrokerError):
    """The member speaks of a generation that is over; join the group again."""

    code = 22


class InconsistentGroupProtocol(BrokerError):
    """The members share no protocol (assignor); give them one in common."""

    code = 23


class InvalidGroupId(BrokerError):
    """The group id is empty or not legal."""

    code = 24


class UnknownMemberId(BrokerError):
    """The coordinator does not know this member; join the group again without a member id."""

    code = 25


class InvalidSessionTimeout(BrokerError):
    """session_timeout_ms is outside the broker's group.min/max.session.timeout.ms."""

    code = 26


class RebalanceInProgress(BrokerError):
    """The group is rebalancing; join again."""

    code = 27


class InvalidCommitOffsetSize(BrokerError):
    """The committed offsets are larger than the broker allows."""

    code = 28


class TopicAuthorizationFailed(AuthorizationError):
    """The principal may not do this to the topic; ask for an ACL: READ to consume, WRITE to produce."""

    code = 29


class GroupAuthorizationFailed(AuthorizationError):
    """The principal may not use the group; ask for an ACL that allows READ on it."""

    code = 30


class ClusterAuthorizationFailed(AuthorizationError):
    """The principal may not do this to the cluster; ask for an ACL."""

    code = 31
    fatal = True


class InvalidTimestamp(BrokerError):
    """A record's timestamp is outside what the topic allows (message.timestamp.before/after.max.ms)."""

    code = 32


class UnsupportedSaslMechanism(BrokerError):
    """The broker does not offer this SASL mechanism; choose one that it lists."""

    code = 33
    fatal = True


class IllegalSaslState(BrokerError):
    """The SASL exchange was out of order, or the client did not authenticate first."""

    code = 34


class UnsupportedVersion(BrokerError):
    """The broker does not speak the version that this needs."""

    code = 35
    fatal = True


class TopicAlreadyExists(BrokerError):
    """A topic of this name exists."""

    code = 36


class InvalidPartitions(BrokerError):
    """The number of partitions is not legal here."""

    code = 37


class InvalidReplicationFactor(BrokerError):
    """The replication factor is below one or above the number of brokers."""

    code = 38


class InvalidReplicaAssignment(BrokerError):
    """The replica assignment is not legal."""

    code = 39


class InvalidConfig(BrokerError):
    """A configuration key or value is not legal."""

    code = 40


class NotController(BrokerError, RetriableError):
    """This broker is not the controller; ask the one that is."""

    code = 41


class InvalidRequest(BrokerError):
    """The request's parts do not fit together."""

    code = 42


class UnsupportedForMessageFormat(BrokerError):
    """The log's message format is too old for this."""

    code = 43


class PolicyViolation(BrokerError):
    """The request breaks a policy of the broker."""

    code = 44


class OutOfOrderSequenceNumber(BrokerError):
    """A batch came before one that it should follow; records in between are missing."""

    code = 45


class DuplicateSequenceNumber(BrokerError):
    """The batch was appended before."""

    code = 46


class InvalidProducerEpoch(BrokerError):
    """The producer's epoch is not the newest; another producer uses the same id."""

    code = 47
    fatal = True


class InvalidTxnState(BrokerError):
    """The transaction is not in a state that allows this."""

    code = 48


class InvalidProducerIdMapping(BrokerError):
    """The producer id does not belong to the transactional id."""

    code = 49
    fatal = True


class InvalidTransactionTimeout(BrokerError):
    """transaction_timeout_ms is larger than the broker's transaction.max.timeout.ms."""

    code = 50


class ConcurrentTransactions(BrokerError, RetriableError):
    """The previous transaction is still being ended; ask again."""

    code = 51


class TransactionCoordinatorFenced(BrokerError):
    """A newer transaction coordinator took over."""

    code = 52


class TransactionalIdAuthorizationFailed(AuthorizationError):
    """The principal may not use the transactional id; ask for an ACL that allows WRITE on it."""

    code = 53
    fatal = True


class SecurityDisabled(BrokerError):
    """The broker has no security features switched on."""

    code = 54


class OperationNotAttempted(BrokerError):
    """The operation was not attempted, because another part of the request failed."""

    code = 55


class KafkaStorageError(BrokerError, InvalidMetadataError):
    """The broker could not reach its disk; another replica will lead."""

    code = 56


class LogDirNotFound(BrokerError):
    """The broker has no such log directory."""

    code = 57


class SaslAuthenticationFailed(BrokerError):
    """The broker refused the credentials."""

    code = 58
    fatal = True


class TokenExpired(SaslAuthenticationFailed):
    """The OAUTHBEARER token that the provider gave was no longer good; it was not sent."""


class TokenProviderTimedOut(SaslAuthenticationFailed):
    """The OAUTHBEARER token provider, or the token endpoint, gave no token in time."""


class UnknownProducerId(BrokerError):
    """The broker holds no state for the producer id."""

    code = 59
    fatal = True


class ReassignmentInProgress(BrokerError):
    """The partition is being reassigned; wait, or cancel that first."""

    code = 60


class DelegationTokenAuthDisabled(BrokerError):
    """Delegation tokens are switched off on the broker."""

    code = 61


class DelegationTokenNotFound(BrokerError):
    """The broker does not know the delegation token."""

    code = 62


class DelegationTokenOwnerMismatch(BrokerError):
    """The delegation token belongs to somebody else."""

    code = 63


class DelegationTokenRequestNotAllowed(BrokerError):
    """Delegation tokens may not be asked for over this connection; use a secure one."""

    code = 64


class DelegationTokenAuthorizationFailed(AuthorizationError):
    """The principal may not use the delegation token."""

    code = 65


class DelegationTokenExpired(BrokerError):
    """The delegation token has expired; make a new one."""

    code = 66


class InvalidPrincipalType(BrokerError):
    """The principal's type is not supported."""

    code = 67


class NonEmptyGroup(BrokerError):
    """The group has members; stop them first."""

    code = 68


class GroupIdNotFound(BrokerError):
    """No group of this id exists."""

    code = 69


class FetchSessionIdNotFound(BrokerError, RetriableError):
    """The broker has dropped the fetch session; a new one is made."""

    code = 70


class InvalidFetchSessionEpoch(BrokerError, RetriableError):
    """The fetch session's epoch does not fit; a new session is made."""

    code = 71


class ListenerNotFound(BrokerError, InvalidMetadataError):
    """The leader has no listener of this name."""

    code = 72


class TopicDeletionDisabled(BrokerError):
    """The broker does not allow topics to be deleted (delete.topic.enable)."""

    code = 73


class FencedLeaderEpoch(BrokerError, InvalidMetadataError):
    """The leader epoch is older than the broker's; refresh the metadata."""

    code = 74


class UnknownLeaderEpoch(BrokerError, InvalidMetadataError):
    """The leader epoch is newer than the broker's; it will learn, ask again."""

    code = 75
    refresh_metadata = False


class UnsupportedCompressionType(BrokerError):
    """The broker or this version cannot handle the codec."""

    code = 76


class StaleBrokerEpoch(BrokerError):
    """The broker has registered again since."""

    code = 77


class OffsetNotAvailable(BrokerError, RetriableError):
    """The new leader does not know its high watermark yet; ask again."""

    code = 78


class MemberIdRequired(BrokerError):
    """The coordinator gave a member id; join again with it."""

    code = 79


class PreferredLeaderNotAvailable(BrokerError, InvalidMetadataError):
    """The preferred leader is not available."""

    code = 80


class GroupMaxSizeReached(BrokerError):
    """The group has as many members as it may have."""

    code = 81


class FencedInstanceId(BrokerError):
    """Another member uses the same group_instance_id; this one must stop."""

    code = 82
    fatal = True


class EligibleLeadersNotAvailable(BrokerError, InvalidMetadataError):
    """No eligible replica is available to lead."""

    code = 83


class ElectionNotNeeded(BrokerError, InvalidMetadataError):
    """The leader is already the one asked for."""

    code = 84


class NoReassignmentInProgress(BrokerError):
    """There is no reassignment to cancel."""

    code = 85


class GroupSubscribedToTopic(BrokerError):
    """The group is subscribed to the topic; its offsets cannot be deleted."""

    code = 86


class InvalidRecord(BrokerError):
    """The broker refused a record; the message says which and why."""

    code = 87


class UnstableOffsetCommit(BrokerError, RetriableError):
    """Offsets of an open transaction are not stable yet; ask again."""

    code = 88


class ThrottlingQuotaExceeded(BrokerError, RetriableError):
    """The quota is used up; ask again later."""

    code = 89


class ProducerFenced(BrokerError):
    """A newer producer with the same transactional id took over; this one must stop."""

    code = 90
    fatal = True


class ResourceNotFound(BrokerError):
    """The resource named does not exist."""

    code = 91


class DuplicateResource(BrokerError):
    """The resource is named twice."""

    code = 92


class UnacceptableCredential(BrokerError):
    """The credential is not acceptable."""

    code = 93


class InconsistentVoterSet(BrokerError):
    """The set of voters is not the same everywhere."""

    code = 94


class InvalidUpdateVersion(BrokerError):
    """The partition's state has moved on; read it again."""

    code = 95


class FeatureUpdateFailed(BrokerError):
    """The feature could not be updated."""

    code = 96


class PrincipalDeserializationFailure(BrokerError):
    """The forwarded principal could not be read."""

    code = 97


class SnapshotNotFound(BrokerError):
    """The snapshot does not exist."""

    code = 98


class PositionOutOfRange(BrokerError):
    """The position is outside the snapshot."""

    code = 99


class UnknownTopicId(BrokerError, InvalidMetadataError):
    """The broker does not know the topic id; the topic was deleted or made anew."""

    code = 100


class DuplicateBrokerRegistration(BrokerError):
    """A broker of this id is registered and alive."""

    code = 101


class BrokerIdNotRegistered(BrokerError):
    """The broker id is not registered."""

    code = 102


class InconsistentTopicId(BrokerError, InvalidMetadataError):
    """The topic id is not the one of the broker's log; refresh the metadata."""

    code = 103


class InconsistentClusterId(BrokerError):
    """The request is meant for another cluster."""

    code = 104


class TransactionalIdNotFound(BrokerError):
    """The coordinator does not know the transactional id."""

    code = 105


class FetchSessionTopicIdError(BrokerError, RetriableError):
    """Topic names and topic ids were mixed in one fetch session."""

    code = 106


class IneligibleReplica(BrokerError):
    """The replica may not join the in-sync set now."""

    code = 107


class NewLeaderElected(BrokerError):
    """A new leader was elected."""

    code = 108


class OffsetMovedToTieredStorage(BrokerError):
    """The offset is in tiered storage."""

    code = 109


class FencedMemberEpoch(BrokerError):
    """The member's epoch is not the coordinator's; join the group again."""

    code = 110


class UnreleasedInstanceId(BrokerError):
    """The group_instance_id is still in use by another member."""

    code = 111


class UnsupportedAssignor(BrokerError):
    """The broker does not offer this assignor."""

    code = 112


class StaleMemberEpoch(BrokerError):
    """The member's epoch is old; refresh it."""

    code = 113


class MismatchedEndpointType(BrokerError):
    """The request was sent to the wrong kind of endpoint."""

    code = 114


class UnsupportedEndpointType(BrokerError):
    """The kind of endpoint is not supported."""

    code = 115


class UnknownControllerId(BrokerError):
    """The controller id is not known."""

    code = 116


class UnknownSubscriptionId(BrokerError):
    """The telemetry subscription is not known; ask for it again."""

    code = 117


class TelemetryTooLarge(BrokerError):
    """The telemetry is larger than allowed."""

    code = 118


class InvalidRegistration(BrokerError):
    """The registration is not valid."""

    code = 119


class TransactionAbortable(BrokerError):
    """The transaction cannot go on; abort it, then begin again."""

    code = 120


class InvalidRecordState(BrokerError):
    """The record is not in a state that allows the acknowledgement."""

    code = 121


class ShareSessionNotFound(BrokerError, RetriableError):
    """The share session is not known; a new one is made."""

    code = 122


class InvalidShareSessionEpoch(BrokerError, RetriableError):
    """The share session's epoch does not fit; a new session is made."""

    code = 123


class FencedStateEpoch(BrokerError):
    """The share coordinator's state epoch is newer."""

    code = 124


class InvalidVoterKey(BrokerError):
    """The voter's key does not match."""

    code = 125


class DuplicateVoter(BrokerError):
    """The voter is already in the set."""

    code = 126


class VoterNotFound(BrokerError):
    """The voter is not in the set."""

    code = 127


class InvalidRegularExpression(BrokerError):
    """The regular expression is not valid."""

    code = 128


class RebootstrapRequired(BrokerError):
    """The client should start again from its bootstrap servers."""

    code = 129


class StreamsInvalidTopology(BrokerError):
    """The streams topology is not valid."""

    code = 130


class StreamsInvalidTopologyEpoch(BrokerError):
    """The streams topology's epoch is not valid."""

    code = 131


class StreamsTopologyFenced(BrokerError):
    """The streams topology's epoch is old."""

    code = 132


class ShareSessionLimitReached(BrokerError, RetriableError):
    """The broker holds as many share sessions as it may."""

    code = 133


class UnknownErrorCode(BrokerError):
    """The broker answered with a code that this version of pykafka2 does not know: `unknown_code`.

    Made of words alone, as every other error can be, it has none.
    """

    def __init__(self, code: int | str, message: str = "") -> None:
        number = code if isinstance(code, str) else f"error code {code}"
        if message and number not in message:
            message = f"{message}: {number}"
        super().__init__(message or number)
        self.unknown_code = None if isinstance(code, str) else code

    def __reduce__(self) -> tuple[Any, ...]:
        told = str(self)
        return type(self), (told,) if self.unknown_code is None else (self.unknown_code, told)


NONE = 0

_BY_CODE: dict[int, type[BrokerError]] = {
    cls.code: cls
    for cls in (*BrokerError.__subclasses__(), *AuthorizationError.__subclasses__())
    if cls.code is not None and cls not in (UnknownErrorCode, AuthorizationError)
}


def for_code(code: int) -> type[BrokerError]:
    """The class of a broker error code.  Unknown codes give `UnknownErrorCode`; 0 raises `KeyError`."""
    if code == NONE:
        raise KeyError("0 is no error")
    return _BY_CODE.get(code, UnknownErrorCode)


def error_of(code: int, message: str | None = None) -> BrokerError:
    """An error object for a broker's code and message; the class's own words where there is none.

    What cannot be printed is escaped, and a very long message is cut: the text may be any.
    """
    cls = for_code(code)
    message = shown(message) if message else ""
    if cls is UnknownErrorCode:
        return UnknownErrorCode(code, message)
    return cls(message) if message else cls()


def raise_for_code(code: int, message: str | None = None) -> None:
    """Raise the error of a non-zero code; return for 0."""
    if code:
        raise error_of(code, message)


def name_of(code: int) -> str:
    """Kafka's name of a code, such as `NOT_LEADER_OR_FOLLOWER`; for logs and histories."""
    if code == NONE:
        return "NONE"
    cls = _BY_CODE.get(code)
    if cls is None:
        return f"UNKNOWN({code})"
    return "".join("_" + c if c.isupper() else c.upper() for c in cls.__name__).lstrip("_")


# ---------------------------------------------------------------------------------------------------
# kafka-python's names
# ---------------------------------------------------------------------------------------------------


class _NeverRaised(KafkaError):
    """Base of kafka-python's errors that pykafka2 has no occasion to raise: programs may still catch them."""


class Cancelled(_NeverRaised, RetriableError):
    """kafka-python cancelled a request; never raised here."""


class MetadataEmptyBrokerList(_NeverRaised, RetriableError):
    """kafka-python received metadata without brokers; never raised here."""


class NodeNotReadyError(_NeverRaised, RetriableError):
    """kafka-python has no connection to a node yet; never raised here, where clients connect and retry."""


class NoError(_NeverRaised, BrokerError):
    """kafka-python's class for code 0, which is no error; never raised here."""

    code = NONE


class QuotaViolationError(_NeverRaised):
    """A metric of kafka-python exceeded its quota; never raised here."""


class StaleMetadata(_NeverRaised, InvalidMetadataError):
    """kafka-python waits for metadata; never raised here, where clients wait by themselves."""


class TooManyInFlightRequests(_NeverRaised, RetriableError):
    """A connection of kafka-python is busy; never raised here, where requests wait for their turn."""


class UnknownBrokerIdError(_NeverRaised):
    """kafka-python does not know a node; never raised here."""


class UnrecognizedBrokerVersion(_NeverRaised):
    """kafka-python could not guess the broker's version; never raised here: versions are negotiated."""


_OF_KAFKA_PYTHON = {
    "BrokerResponseError": BrokerError,
    "CorrelationIdError": CorruptResponse,
    "CorruptRecordException": CorruptMessage,
    "IncompatibleBrokerVersion": UnsupportedVersion,
    "InvalidReceiveError": CorruptData,
    "KafkaProtocolError": CorruptData,
    "LogTruncationError": LogTruncated,
    "CorruptRecordError": CorruptMessage,
    "InvalidConfigurationError": InvalidConfig,
    "InvalidFetchRequestError": InvalidFetchSize,
    "InvalidReplicationAssignmentError": InvalidReplicaAssignment,
    "InvalidTopicError": InvalidTopicException,
    "KafkaConfigurationError": ConfigurationError,
    "KafkaConnectionError": Disconnected,
    "MessageSizeTooLargeError": MessageTooLarge,
    "NotLeaderForPartitionError": NotLeaderOrFollower,
    "UnknownError": UnknownServerError,
    "UnsupportedCodecError": CodecUnavailable,
}

if not TYPE_CHECKING:  # type checkers know the names above only, and so find misspelt ones

    def __getattr__(name: str) -> type[KafkaError]:
        """A class by kafka-python's name for it, which most often is ours with "Error" behind it."""
        found = _OF_KAFKA_PYTHON.get(name) or globals().get(name.removesuffix("Error"))
        if isinstance(found, type) and issubclass(found, KafkaError):
            return found
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
