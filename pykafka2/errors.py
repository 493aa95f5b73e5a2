"""All errors of pykafka2: what happened, and what the client or the user does about it.

`KafkaError` is the base class.  Each error code of the brokers has a class, a subclass of `BrokerError`,
in Kafka's order and with Kafka's name; the others are errors of the client.  Traits are class attributes, so
no call site keeps lists of codes.  Longer than other modules because it is a table.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

from pykafka2.text import shown


class KafkaError(Exception):
    """Base class of all errors of pykafka2.

    Traits:
        retriable: the same call can succeed later; the clients retry such errors themselves.
        fatal: the client that raised it cannot continue; close it and create a new one.
        abortable: abort the transaction and process its records again; the producer continues (KIP-1050).
        application_recoverable: close the client, create a new one, and continue from the last committed
            offsets (KIP-1050).
        refresh_metadata: the client's metadata is out of date.
        refresh_coordinator: the coordinator must be looked up again.
        what_to_do: what the user can do, in one or two sentences.
    """

    code: ClassVar[int | None] = None
    retriable: ClassVar[bool] = False
    fatal: ClassVar[bool] = False
    abortable: ClassVar[bool] = False
    application_recoverable: ClassVar[bool] = False
    refresh_metadata: ClassVar[bool] = False
    refresh_coordinator: ClassVar[bool] = False
    what_to_do: ClassVar[str] = "Read the message, which names the cause."

    def __str__(self) -> str:
        return super().__str__() or text_of(type(self))

    def anew(self) -> Self:
        """Return a copy to raise when other callers raise the same error: each needs its own traceback."""
        # Not by calling the class: a subclass outside this package can take other arguments.
        fresh = type(self).__new__(type(self), *self.args)
        fresh.__dict__.update(self.__dict__)
        if self.__cause__ is not None:
            fresh.__cause__ = self.__cause__
        return fresh


class RetriableError(KafkaError):
    """The same call can succeed later."""

    what_to_do = (
        "Nothing at first: the clients retry until the timeout of the call. If it is raised, call again."
    )

    retriable = True


class InvalidMetadataError(RetriableError):
    """The client's metadata is out of date; the client fetches it again, then retries."""

    refresh_metadata = True


# ---------------------------------------------------------------------------------------------------
# The client's own errors
# ---------------------------------------------------------------------------------------------------


class ConfigurationError(KafkaError, ValueError):
    """An option is missing, unknown, of the wrong type, or contradicts another; the message names it."""

    what_to_do = "Correct the option that the message names."


class UnknownOption(ConfigurationError):
    """No option has this name; the message names the nearest one."""

    what_to_do = "Use the name that the message proposes, or look it up among the options of the client."


class IllegalState(KafkaError, RuntimeError):
    """The call is not allowed in this state; the message names the call that must come first."""

    what_to_do = "Make the call that the message names first."


class IllegalTransition(IllegalState):
    """A state machine received an event that its current state does not allow."""

    what_to_do = "Report it with the log: it is a bug in pykafka2."

    def __init__(self, state: object, event: object) -> None:
        super().__init__(f"no move from {state} on {event}")
        self.state = state
        self.event = event

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.state, self.event)


class ClientClosed(IllegalState):
    """The client is closed; create a new one."""

    what_to_do = "Create a new client."


class ClientNotStarted(RetriableError, OSError):
    """The system has no file descriptor or thread left for a client; the message names which."""

    what_to_do = "Raise the limit of open files or threads, or close clients that are no longer used."


class ClientFailed(IllegalState):
    """The client's IO thread failed; the cause is its exception. Create a new client."""

    what_to_do = (
        "Close the client and create a new one. If the cause is not one of your callbacks, report it."
    )

    fatal = True


class ConcurrentUse(IllegalState):
    """Two threads use one consumer at the same time; create one for each thread."""

    what_to_do = (
        "Create one consumer for each thread. Any thread can call `wakeup`, `read_range`, `health`, "
        "`explain` and `metrics`."
    )


class ConsumerStopped(ClientClosed):
    """The asyncio consumer was stopped, also while a read waited; create a new one."""


class ConsumerWakeup(KafkaError):
    """`wakeup()` of the asyncio consumer ended a `getone` that waited; no record was lost."""

    what_to_do = "Call `getone` again to continue."


class LoopBlocked(IllegalState):
    """The call would block the event loop; await the method of the `pykafka2.aio` client instead."""

    what_to_do = "Await the call of the `pykafka2.aio` client, or the delivery, instead."


class WrongEventLoop(IllegalState):
    """The asyncio client belongs to another event loop, or no event loop runs in this thread."""

    what_to_do = "Use a client only in the event loop of its first awaited call; create one for each loop."


class ForkedClientError(IllegalState):
    """The client was created before a fork; create a new one in the child process."""

    what_to_do = "Create the client in the child process, after the fork."


class NoOffsetForPartition(KafkaError):
    """A partition has no position and auto_offset_reset is 'none'; call seek() or set a policy."""

    what_to_do = "Call `seek()`, commit an offset, or set `auto_offset_reset` to 'earliest' or 'latest'."


class AssignorFailed(KafkaError):
    """An assignor raised or returned an invalid assignment; the message names it and the reason."""

    what_to_do = "Correct the assignor; the cause is its exception."


class CommitFailed(KafkaError):
    """The group rejected the offsets, because this consumer is no longer a member of it.

    Its partitions can have other owners by now, which read the records again from the last commit. Call
    poll() to rejoin; the message names why the membership ended, if known.
    """

    what_to_do = (
        "Call `poll()` to join the group again. If it happens often, raise `max_poll_interval_ms` or "
        "lower `max_poll_records`."
    )


class RetriableCommitFailed(RetriableError):
    """An asynchronous commit failed with a retriable error, which is the cause of this one.

    It is not retried automatically, as it could overwrite a later commit: commit the latest offsets again.
    """

    what_to_do = "Commit again, with the latest offsets."


class KafkaTimeoutError(RetriableError, TimeoutError):
    """The call did not end within its timeout; the message names what it waited for."""

    what_to_do = "Check that the brokers that the message names are up, or allow more time."


class BufferExhausted(KafkaTimeoutError):
    """The producer's buffer_memory stayed full for max_block_ms; the brokers are slower than the sends."""

    what_to_do = "Send less, raise `buffer_memory` or `max_block_ms`, or check why the brokers are slow."


class IncompleteSend(KafkaError):
    """`send_many` stopped after it had queued some of the records; the cause is the reason.

    Attributes:
        taken: how many rows were queued.
        left: the numbers of the rows that were not queued, in order: send these again.
        delivery: the outcome of the queued rows.
    """

    what_to_do = "Send the rows in `left` again."

    def __init__(self, message: str, taken: int = 0, left: Sequence[int] = (), delivery: Any = None) -> None:
        super().__init__(message)
        self.taken = taken
        self.left = left
        self.delivery = delivery

    def __reduce__(self) -> tuple[Any, ...]:
        # Another process cannot wait for this process's deliveries.
        return type(self), (str(self), self.taken, self.left)


class RecordTooLarge(KafkaError, ValueError):
    """A record is larger than max_request_size or buffer_memory; nothing was queued."""

    what_to_do = (
        "Raise `max_request_size` or `buffer_memory`, and the topic's `max.message.bytes`, or send "
        "smaller records."
    )
    row: int | None = None
    """The index of the record in the values of `send_many`."""


class RecordPurged(KafkaError):
    """The record was queued when `purge` was called; it was dropped and is not in the log."""

    what_to_do = "Send the record again if it is still needed."


class TransactionFailed(KafkaError):
    """The transaction can only be aborted; the cause is the reason."""

    what_to_do = "Call `abort_transaction()`, then begin the transaction again."

    abortable = True


class TransactionAborted(KafkaError):
    """The transaction was aborted before the record was written."""

    what_to_do = "Send the record again in the next transaction."


class SerializationError(KafkaError, ValueError):
    """A serializer or deserializer failed; the message names topic, partition and offset if known."""

    what_to_do = (
        "Correct the serializer or the record. For a consumer, `on_bad_record` chooses to skip such records."
    )


class IllegalArgument(SerializationError, TypeError):
    """An argument is invalid; the message names it, its value and the valid values."""

    what_to_do = "Pass a value that the message names as valid."


class ConsumerStalled(KafkaError):
    """A partition has not advanced for two minutes, although the brokers respond and have records.  The
    message names the cause if it is known.  The consumer continues to try."""

    what_to_do = "Follow the cause in the message; `explain()` names what the consumer waits for."


class CorruptData(KafkaError, ValueError):
    """Bytes do not follow the protocol; the message names message, version and field."""

    what_to_do = "Skip the record with `seek()` or `on_bad_record`, and find the program that wrote it."


class CorruptResponse(CorruptData, InvalidMetadataError):
    """A broker's response does not follow the protocol, so the client closes the connection and retries.  It
    is unknown whether the request was processed."""

    what_to_do = (
        "Nothing at first: the client reconnects and retries. If it is raised, check what listens at the "
        "address of the broker."
    )


class CodecUnavailable(KafkaError, ImportError):
    """The library of a compression codec is not installed; the message names the package."""

    what_to_do = "Install the package that the message names."


class Disconnected(InvalidMetadataError, ConnectionError):
    """The connection ended before the response; it is unknown whether the request was processed."""


class MisroutedConnection(Disconnected):
    """The address belongs to another broker or cluster than the metadata says (KIP-1242)."""

    what_to_do = "Nothing: the client closes the connection and restarts from `bootstrap_servers`."


class NoBrokersAvailable(RetriableError, ConnectionError):
    """No broker could be reached; the message lists each address with its reason."""

    what_to_do = "Check `bootstrap_servers`, and that the brokers are up and can be reached from this host."


class BootstrapResolutionFailed(KafkaError, ConnectionError):
    """DNS resolved no name of `bootstrap_servers` within `bootstrap_resolve_timeout_ms` (KIP-909)."""

    what_to_do = "Correct `bootstrap_servers` or DNS; the client keeps trying."


class TlsError(KafkaError, ConnectionError):
    """The TLS handshake failed; the message names the reason."""

    what_to_do = "Compare `security_protocol` and the certificates with the listener of the broker."


class TlsInterrupted(TlsError, RetriableError):
    """The peer closed the connection during the TLS handshake: a restart, or a port without TLS."""


class TlsNotSpoken(TlsError):
    """The port speaks Kafka's protocol without TLS; see security_protocol."""

    what_to_do = (
        "Set `security_protocol` to 'PLAINTEXT' or 'SASL_PLAINTEXT', or connect to the listener with TLS."
    )


class TlsClientCertificateRefused(TlsError):
    """The broker requires a client certificate and received none, or rejected the one it received; see
    ssl_certfile."""

    what_to_do = "Set `ssl_certfile` and `ssl_keyfile` to a certificate that the broker trusts."


class TlsCertificateRejected(TlsError):
    """The broker's certificate was not signed by a trusted authority, has expired or was revoked; see
    ssl_cafile."""

    what_to_do = (
        "Set `ssl_cafile` to the authority that signed the certificate of the broker, or renew that "
        "certificate."
    )


class TlsHostNameMismatch(TlsError):
    """The broker's certificate does not contain the host name that the client connected to."""

    what_to_do = (
        "Connect by a host name in the certificate, or issue a certificate with the name that is used."
    )


class RequestTimeout(Disconnected):
    """The broker did not respond within request_timeout_ms; it may have processed the request."""

    what_to_do = (
        "Nothing at first: the clients retry. If it is raised often, check the load of the broker or "
        "raise `request_timeout_ms`."
    )


class DeliveryTimeout(KafkaTimeoutError):
    """A batch was not acknowledged within delivery_timeout_ms; its records may or may not be in the log."""

    what_to_do = "Check the brokers, or raise `delivery_timeout_ms`. Sending again may duplicate the record."

    retriable = False


class LinkCut(Disconnected):
    """A link of the bundled broker was cut by a test."""


# ---------------------------------------------------------------------------------------------------
# The brokers' error codes, in Kafka's order
# ---------------------------------------------------------------------------------------------------


class BrokerError(KafkaError):
    """A broker responded with an error code."""

    code: ClassVar[int | None] = -1


class AuthorizationError(BrokerError):
    """The user has no ACL for the operation; the subclass names the kind of resource."""

    what_to_do = "Ask the administrator for the ACL, or authenticate as another user."


class UnknownServerError(BrokerError):
    """The broker failed with an error that has no code of its own; see the broker's log."""

    what_to_do = "Read the log of the broker."

    code = -1


class OffsetOutOfRange(BrokerError):
    """The requested offset is below the start of the log or above its end."""

    what_to_do = "Call `seek()`, or set `auto_offset_reset` to 'earliest' or 'latest'."

    code = 1


class LogTruncated(OffsetOutOfRange):
    """The log was truncated to `offset`, below records that were read: the new leader does not have them
    (KIP-320).  `leader_epoch` is the epoch of the last record before the offset."""

    what_to_do = (
        "Decide whether the records that were read beyond `offset` must be undone, then `seek()` to it."
    )

    offset = -1
    leader_epoch = -1


class CorruptMessage(BrokerError, RetriableError):
    """The bytes of a batch do not match its checksum: they were damaged in transit or on disk."""

    code = 2


class UnknownTopicOrPartition(BrokerError, InvalidMetadataError):
    """No such topic or partition on this broker; create the topic, or wait until its metadata has spread."""

    what_to_do = (
        "Create the topic, or correct its name. Calls retry until their timeout; poll() of a consumer waits."
    )

    code = 3


class UnknownUntilTimeout(UnknownTopicOrPartition, KafkaTimeoutError):
    """No such topic or partition was found before the call's timeout (default_api_timeout_ms) ended."""


class InvalidFetchSize(BrokerError):
    """A fetch size is not a positive number."""

    what_to_do = "Correct the fetch size."

    code = 4


class LeaderNotAvailable(BrokerError, InvalidMetadataError):
    """The partition has no leader until the current election ends."""

    code = 5


class NotLeaderOrFollower(BrokerError, InvalidMetadataError):
    """The broker is no longer the leader of the partition."""

    code = 6


class RequestTimedOut(BrokerError, RetriableError):
    """The broker stopped waiting for other replicas; the records stay in the leader's log."""

    code = 7


class BrokerNotAvailable(BrokerError):
    """The broker is not available."""

    what_to_do = "Wait until the broker is up again."

    code = 8


class ReplicaNotAvailable(BrokerError, InvalidMetadataError):
    """The requested replica is not available."""

    code = 9


class MessageTooLarge(BrokerError):
    """A batch is larger than the topic's max.message.bytes; send smaller records or raise that limit."""

    what_to_do = "Send smaller records, or raise the topic's `max.message.bytes`."

    code = 10


class StaleControllerEpoch(BrokerError):
    """A request came from a controller that has since been replaced."""

    what_to_do = "Nothing: brokers get it from each other."

    code = 11


class OffsetMetadataTooLarge(BrokerError):
    """The metadata of an offset commit is longer than the broker's offset.metadata.max.bytes (4096)."""

    what_to_do = "Commit shorter metadata, or raise `offset.metadata.max.bytes` of the brokers."

    code = 12


class NetworkException(BrokerError, InvalidMetadataError):
    """The broker closed the connection before it responded."""

    code = 13


class CoordinatorLoadInProgress(BrokerError, RetriableError):
    """The coordinator is still loading its log."""

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
    """The topic is internal, or its name is invalid: use at most 249 letters, digits, '.', '_' and '-'."""

    what_to_do = "Correct the name of the topic."

    code = 17


class RecordListTooLarge(BrokerError):
    """A produce request is larger than a log segment; send smaller batches."""

    what_to_do = "Send smaller batches, or raise the topic's `segment.bytes`."

    code = 18


class NotEnoughReplicas(BrokerError, RetriableError):
    """Fewer replicas are in sync than min.insync.replicas requires; nothing was appended."""

    code = 19


class NotEnoughReplicasAfterAppend(BrokerError, RetriableError):
    """Replicas fell out of sync after the append; the records are in the log, on too few replicas."""

    code = 20


class InvalidRequiredAcks(BrokerError):
    """acks must be 0, 1 or all (-1)."""

    what_to_do = "Set `acks` to 0, 1 or 'all'."

    code = 21


class IllegalGeneration(BrokerError):
    """The member used an older generation of the group."""

    what_to_do = "Nothing: the consumer joins the group again with the next `poll()`."

    code = 22
    application_recoverable = True


class InconsistentGroupProtocol(BrokerError):
    """The members have no common protocol (assignor); configure one that all of them have."""

    what_to_do = "Configure one assignor in common for all members, and the same `group_protocol`."

    code = 23


class InvalidGroupId(BrokerError):
    """The group id is empty or invalid."""

    what_to_do = "Set `group_id` to a string that is not empty."

    code = 24


class UnknownMemberId(BrokerError):
    """The coordinator does not know this member; join the group again without a member id."""

    what_to_do = "Nothing: the consumer joins the group again with the next `poll()`."

    code = 25
    application_recoverable = True


class InvalidSessionTimeout(BrokerError):
    """session_timeout_ms is outside the broker's group.min/max.session.timeout.ms."""

    what_to_do = (
        "Set `session_timeout_ms` between the broker's `group.min.session.timeout.ms` and "
        "`group.max.session.timeout.ms`."
    )

    code = 26


class RebalanceInProgress(BrokerError):
    """The group is rebalancing; join again."""

    what_to_do = "Call `poll()`, which takes part in the rebalance."

    code = 27


class InvalidCommitOffsetSize(BrokerError):
    """The committed offsets are larger than the broker allows."""

    what_to_do = "Commit fewer partitions at a time, or shorter metadata."

    code = 28


class TopicAuthorizationFailed(AuthorizationError):
    """The principal has no access to the topic. It needs an ACL: READ to consume or change offsets, WRITE to
    produce, DESCRIBE to view it, CREATE, ALTER or DELETE to change it."""

    code = 29


class GroupAuthorizationFailed(AuthorizationError):
    """The principal has no access to the group. It needs an ACL: READ to consume or change offsets, DESCRIBE
    to view it, DELETE to delete it or its offsets."""

    code = 30


class ClusterAuthorizationFailed(AuthorizationError):
    """The principal has no access to the cluster for this operation. It needs an ACL."""

    code = 31
    fatal = True


class InvalidTimestamp(BrokerError):
    """A record's timestamp is outside what the topic allows (message.timestamp.before/after.max.ms)."""

    what_to_do = (
        "Correct the timestamp of the record, or the topic's `message.timestamp.before.max.ms` and "
        "`message.timestamp.after.max.ms`."
    )

    code = 32


class UnsupportedSaslMechanism(BrokerError):
    """The broker does not offer this SASL mechanism; use one that it lists."""

    what_to_do = "Set `sasl_mechanism` to a mechanism in the message."

    code = 33
    fatal = True


class IllegalSaslState(BrokerError):
    """The SASL exchange was out of order, or the client did not authenticate first."""

    what_to_do = "Set `security_protocol` and the SASL options as the listener needs them."

    code = 34


class UnsupportedVersion(BrokerError):
    """The broker does not support the version that this requires."""

    what_to_do = "Upgrade the broker, or leave out the option or call that requires the version."

    code = 35
    fatal = True


class TopicAlreadyExists(BrokerError):
    """A topic of this name exists."""

    what_to_do = "Use the topic, or choose another name."

    code = 36


class InvalidPartitions(BrokerError):
    """The number of partitions is illegal."""

    what_to_do = "Correct the number of partitions: above zero, and more than the topic has."

    code = 37


class InvalidReplicationFactor(BrokerError):
    """The replication factor is below one or above the number of brokers."""

    what_to_do = "Choose a replication factor of at most the number of brokers."

    code = 38


class InvalidReplicaAssignment(BrokerError):
    """The replica assignment is illegal."""

    what_to_do = "Name existing brokers, each of them once for a partition."

    code = 39


class InvalidConfig(BrokerError):
    """A configuration key or value is illegal."""

    what_to_do = "Correct the key or value that the message names."

    code = 40


class NotController(BrokerError, RetriableError):
    """This broker is not the controller; the request must go to the controller."""

    code = 41
    refresh_metadata = True


class InvalidRequest(BrokerError):
    """The request is malformed, or its parts contradict each other."""

    what_to_do = "Correct the arguments that the message names."

    code = 42


class UnsupportedForMessageFormat(BrokerError):
    """The log's message format is too old for this."""

    what_to_do = "Upgrade the message format of the topic."

    code = 43


class PolicyViolation(BrokerError):
    """The request breaks a policy of the broker."""

    what_to_do = "Follow the policy that the message names, or ask the administrator."

    code = 44


class OutOfOrderSequenceNumber(BrokerError):
    """A batch arrived out of order: the broker lacks the batch before it."""

    what_to_do = "Abort the transaction, or close the producer and create a new one."

    code = 45


class DuplicateSequenceNumber(BrokerError):
    """The batch was appended before."""

    what_to_do = "Nothing: the batch is in the log."

    code = 46


class InvalidProducerEpoch(BrokerError):
    """The producer's epoch is not the latest; another producer uses the same id."""

    what_to_do = "Close this producer; give each producer a `transactional_id` of its own."

    code = 47
    application_recoverable = True
    fatal = True


class InvalidTxnState(BrokerError):
    """The transaction is not in a state that allows this."""

    what_to_do = "Abort the transaction and begin again."

    code = 48


class InvalidProducerIdMapping(BrokerError):
    """The producer id does not belong to the transactional id."""

    what_to_do = "Close the producer and create a new one."

    code = 49
    application_recoverable = True
    fatal = True


class InvalidTransactionTimeout(BrokerError):
    """transaction_timeout_ms is larger than the broker's transaction.max.timeout.ms."""

    what_to_do = "Lower `transaction_timeout_ms`, or raise `transaction.max.timeout.ms` of the brokers."

    code = 50


class ConcurrentTransactions(BrokerError, RetriableError):
    """The previous transaction has not ended yet."""

    code = 51


class TransactionCoordinatorFenced(BrokerError):
    """A newer transaction coordinator took over."""

    what_to_do = "Nothing: brokers get it from each other."

    code = 52


class TransactionalIdAuthorizationFailed(AuthorizationError):
    """The principal has no access to the transactional id. It needs an ACL: WRITE to produce or to fence
    producers, DESCRIBE to view it."""

    code = 53
    fatal = True


class SecurityDisabled(BrokerError):
    """The broker has no authorizer or other security feature enabled."""

    what_to_do = "Configure an authorizer on the brokers."

    code = 54


class OperationNotAttempted(BrokerError):
    """The operation was not attempted, because another part of the request failed."""

    what_to_do = "Correct the other part of the request, whose error is raised beside it."

    code = 55


class KafkaStorageError(BrokerError, InvalidMetadataError):
    """The broker could not reach its disk; another replica will lead."""

    code = 56


class LogDirNotFound(BrokerError):
    """The broker has no such log directory."""

    what_to_do = "Name a log directory of that broker."

    code = 57


class SaslAuthenticationFailed(BrokerError):
    """The broker rejected the credentials."""

    what_to_do = "Correct the user name, password or token."

    code = 58
    fatal = True


class TokenExpired(SaslAuthenticationFailed):
    """The OAUTHBEARER token of the provider had expired; it was not sent."""

    what_to_do = "Correct the token provider, or the clock of this host."


class TokenProviderTimedOut(SaslAuthenticationFailed):
    """The OAUTHBEARER token provider, or the token endpoint, returned no token in time."""

    what_to_do = "Check the token provider or the token endpoint."


class TokenEndpointTimedOut(TokenProviderTimedOut, RetriableError):
    """The token endpoint returned no token in time; the clients request one again."""

    what_to_do = RetriableError.what_to_do

    fatal = False


class TokenEndpointUnavailable(SaslAuthenticationFailed, RetriableError):
    """The token endpoint could not be reached, or responded that it is unavailable."""

    what_to_do = RetriableError.what_to_do

    fatal = False


class UnknownProducerId(BrokerError):
    """The broker holds no state for the producer id."""

    what_to_do = "Close the producer and create a new one."

    code = 59
    fatal = True


class ReassignmentInProgress(BrokerError):
    """The partition is being reassigned; wait, or cancel that first."""

    what_to_do = "Wait for the reassignment, or cancel it."

    code = 60


class DelegationTokenAuthDisabled(BrokerError):
    """Delegation tokens are disabled on the broker."""

    what_to_do = "Set `delegation.token.secret.key` on the brokers."

    code = 61


class DelegationTokenNotFound(BrokerError):
    """The broker does not know the delegation token."""

    what_to_do = "Create a new token."

    code = 62


class DelegationTokenOwnerMismatch(BrokerError):
    """The delegation token belongs to another user."""

    what_to_do = "Authenticate as the owner or a renewer of the token."

    code = 63


class DelegationTokenRequestNotAllowed(BrokerError):
    """Delegation tokens cannot be requested over this connection; use a secure one."""

    what_to_do = "Connect with SASL or TLS client authentication, and not by a delegation token."

    code = 64


class DelegationTokenAuthorizationFailed(AuthorizationError):
    """The principal has no access to the delegation token."""

    code = 65


class DelegationTokenExpired(BrokerError):
    """The delegation token has expired; create a new one."""

    what_to_do = "Create a new token."

    code = 66


class InvalidPrincipalType(BrokerError):
    """The principal's type is not supported."""

    what_to_do = "Name a principal of the type User."

    code = 67


class NonEmptyGroup(BrokerError):
    """The group has members; stop them first."""

    what_to_do = "Stop the members of the group first."

    code = 68


class GroupIdNotFound(BrokerError):
    """No group of this id exists."""

    what_to_do = "Correct the id of the group."

    code = 69


class FetchSessionIdNotFound(BrokerError, RetriableError):
    """The broker has dropped the fetch session; the client creates a new one."""

    code = 70


class InvalidFetchSessionEpoch(BrokerError, RetriableError):
    """The fetch session's epoch is invalid; the client creates a new session."""

    code = 71


class ListenerNotFound(BrokerError, InvalidMetadataError):
    """The leader has no listener of this name."""

    code = 72


class TopicDeletionDisabled(BrokerError):
    """The broker does not allow topics to be deleted (delete.topic.enable)."""

    what_to_do = "Set `delete.topic.enable` on the brokers."

    code = 73


class FencedLeaderEpoch(BrokerError, InvalidMetadataError):
    """The leader epoch is older than the broker's; refresh the metadata."""

    code = 74


class UnknownLeaderEpoch(BrokerError, InvalidMetadataError):
    """The leader epoch is newer than the broker's metadata."""

    code = 75
    refresh_metadata = False


class UnsupportedCompressionType(BrokerError):
    """The broker or this version cannot handle the codec."""

    what_to_do = "Choose another `compression_type`, or upgrade the brokers."

    code = 76


class StaleBrokerEpoch(BrokerError):
    """The broker has registered again since."""

    what_to_do = "Nothing: brokers get it from each other."

    code = 77


class OffsetNotAvailable(BrokerError, RetriableError):
    """The new leader does not know its high watermark yet."""

    code = 78


class MemberIdRequired(BrokerError):
    """The coordinator assigned a member id; join again with it."""

    what_to_do = "Nothing: the consumer joins again with the id."

    code = 79


class PreferredLeaderNotAvailable(BrokerError, InvalidMetadataError):
    """The preferred leader is not available."""

    code = 80


class GroupMaxSizeReached(BrokerError):
    """The group has group.max.size members."""

    what_to_do = "Stop a member, or raise `group.max.size` of the brokers."

    code = 81


class FencedInstanceId(BrokerError):
    """Another member uses the same group_instance_id; this one must stop."""

    what_to_do = "Close this consumer; give each member a `group_instance_id` of its own."

    code = 82
    application_recoverable = True
    fatal = True


class EligibleLeadersNotAvailable(BrokerError, InvalidMetadataError):
    """No eligible replica is available to lead."""

    code = 83


class ElectionNotNeeded(BrokerError, InvalidMetadataError):
    """The requested replica is the leader already."""

    code = 84


class NoReassignmentInProgress(BrokerError):
    """There is no reassignment to cancel."""

    what_to_do = "Nothing: there is nothing to cancel."

    code = 85


class GroupSubscribedToTopic(BrokerError):
    """The group is subscribed to the topic; its offsets cannot be deleted."""

    what_to_do = "Stop the members that subscribe to the topic."

    code = 86


class InvalidRecord(BrokerError):
    """The broker rejected a record; the message names it and the reason."""

    what_to_do = "Correct the record that the message names."

    code = 87


class UnstableOffsetCommit(BrokerError, RetriableError):
    """Offsets belong to a transaction that is still open."""

    code = 88


class ThrottlingQuotaExceeded(BrokerError, RetriableError):
    """The quota is exceeded."""

    code = 89


class ProducerFenced(BrokerError):
    """A newer producer with the same transactional id took over; this one must stop."""

    what_to_do = "Close this producer; the newer one with the same `transactional_id` continues."

    code = 90
    application_recoverable = True
    fatal = True


class ResourceNotFound(BrokerError):
    """The resource named does not exist."""

    what_to_do = "Correct the name of the resource."

    code = 91


class DuplicateResource(BrokerError):
    """The resource is named twice."""

    what_to_do = "Name the resource once."

    code = 92


class UnacceptableCredential(BrokerError):
    """The credential is not acceptable."""

    what_to_do = "Follow the rules in the message, for example the number of iterations."

    code = 93


class InconsistentVoterSet(BrokerError):
    """The set of voters is not the same everywhere."""

    what_to_do = "Nothing: controllers get it from each other."

    code = 94


class InvalidUpdateVersion(BrokerError):
    """The partition's state has changed since; read it again."""

    what_to_do = "Nothing: brokers get it from each other."

    code = 95


class FeatureUpdateFailed(BrokerError):
    """The feature could not be updated."""

    what_to_do = "Choose a version of the feature that all brokers support."

    code = 96


class PrincipalDeserializationFailure(BrokerError):
    """The forwarded principal could not be read."""

    what_to_do = "Use the same principal builder on all brokers."

    code = 97


class SnapshotNotFound(BrokerError):
    """The snapshot does not exist."""

    what_to_do = "Nothing: controllers get it from each other."

    code = 98


class PositionOutOfRange(BrokerError):
    """The position is outside the snapshot."""

    what_to_do = "Nothing: controllers get it from each other."

    code = 99


class UnknownTopicId(BrokerError, InvalidMetadataError):
    """The broker does not know the topic id; the topic was deleted, or deleted and created again."""

    code = 100


class DuplicateBrokerRegistration(BrokerError):
    """A broker of this id is registered and alive."""

    what_to_do = "Give each broker a `node.id` of its own."

    code = 101


class BrokerIdNotRegistered(BrokerError):
    """The broker id is not registered."""

    what_to_do = "Correct the id of the broker, or start it."

    code = 102


class InconsistentTopicId(BrokerError, InvalidMetadataError):
    """The topic id is not the one of the broker's log; refresh the metadata."""

    code = 103


class InconsistentClusterId(BrokerError):
    """The request is meant for another cluster."""

    what_to_do = "Connect to the right cluster."

    code = 104


class TransactionalIdNotFound(BrokerError):
    """The coordinator does not know the transactional id."""

    what_to_do = "Correct the transactional id."

    code = 105


class FetchSessionTopicIdError(BrokerError, RetriableError):
    """Topic names and topic ids were mixed in one fetch session."""

    code = 106


class IneligibleReplica(BrokerError):
    """The replica cannot join the in-sync set now."""

    what_to_do = "Nothing: brokers get it from each other."

    code = 107


class NewLeaderElected(BrokerError):
    """A new leader was elected."""

    what_to_do = "Nothing: brokers get it from each other."

    code = 108


class OffsetMovedToTieredStorage(BrokerError):
    """The offset is in tiered storage."""

    what_to_do = "Nothing: brokers get it from each other."

    code = 109


class FencedMemberEpoch(BrokerError):
    """The member's epoch is not the coordinator's; join the group again."""

    what_to_do = "Nothing: the consumer joins the group again with the next `poll()`."

    code = 110


class UnreleasedInstanceId(BrokerError):
    """The group_instance_id is still in use by another member."""

    what_to_do = "Stop the other member with this `group_instance_id`, or wait until its session ends."

    code = 111


class UnsupportedAssignor(BrokerError):
    """The broker does not offer this assignor."""

    what_to_do = "Set `group_remote_assignor` to an assignor of the brokers, such as 'uniform' or 'range'."

    code = 112


class StaleMemberEpoch(BrokerError):
    """The member's epoch is old; refresh it."""

    what_to_do = "Nothing: the consumer commits again with its new epoch."

    code = 113


class MismatchedEndpointType(BrokerError):
    """The request was sent to the wrong kind of endpoint."""

    what_to_do = "Connect to a broker, not to a controller."

    code = 114


class UnsupportedEndpointType(BrokerError):
    """The kind of endpoint is not supported."""

    what_to_do = "Connect to a broker, not to a controller."

    code = 115


class UnknownControllerId(BrokerError):
    """The controller id is unknown."""

    what_to_do = "Correct the id of the controller."

    code = 116


class UnknownSubscriptionId(BrokerError):
    """The telemetry subscription is unknown; request it again."""

    what_to_do = "Nothing: the client subscribes again."

    code = 117


class TelemetryTooLarge(BrokerError):
    """The telemetry is larger than allowed."""

    what_to_do = "Increase the brokers' telemetry.max.bytes, or subscribe to fewer metrics."

    code = 118


class InvalidRegistration(BrokerError):
    """The registration is not valid."""

    what_to_do = "Nothing: brokers get it from the controller."

    code = 119


class TransactionAbortable(BrokerError):
    """The transaction cannot continue; abort it, then begin again."""

    what_to_do = "Call `abort_transaction()`, then begin the transaction again."

    code = 120
    abortable = True


class InvalidRecordState(BrokerError):
    """The record is in no state to be acknowledged: its lock has expired or was lost."""

    what_to_do = (
        "The brokers deliver the record again. Handle records in `with record:`, which renews their locks, "
        "or request fewer at once (`max_poll_records`)."
    )

    code = 121


class ShareSessionNotFound(BrokerError, RetriableError):
    """The share session is unknown; the client creates a new one."""

    code = 122


class InvalidShareSessionEpoch(BrokerError, RetriableError):
    """The share session's epoch is invalid; the client creates a new session."""

    code = 123


class FencedStateEpoch(BrokerError):
    """The share coordinator's state epoch is newer."""

    what_to_do = "Nothing: brokers get it from each other."

    code = 124


class InvalidVoterKey(BrokerError):
    """The voter's key does not match."""

    what_to_do = "Correct the directory id of the voter."

    code = 125


class DuplicateVoter(BrokerError):
    """The voter is already in the set."""

    what_to_do = "Nothing: the voter is in the set."

    code = 126


class VoterNotFound(BrokerError):
    """The voter is not in the set."""

    what_to_do = "Correct the id of the voter."

    code = 127


class InvalidRegularExpression(BrokerError):
    """The regular expression is not valid."""

    what_to_do = "Correct the pattern; brokers use the syntax of RE2/J."

    code = 128


class RebootstrapRequired(BrokerError):
    """The client must restart from its bootstrap servers."""

    what_to_do = "Nothing: the client restarts from `bootstrap_servers`."

    code = 129


class StreamsInvalidTopology(BrokerError):
    """The streams topology is not valid."""

    what_to_do = "Nothing: pykafka2 has no streams groups."

    code = 130


class StreamsInvalidTopologyEpoch(BrokerError):
    """The streams topology's epoch is not valid."""

    what_to_do = "Nothing: pykafka2 has no streams groups."

    code = 131


class StreamsTopologyFenced(BrokerError):
    """The streams topology's epoch is old."""

    what_to_do = "Nothing: pykafka2 has no streams groups."

    code = 132


class ShareSessionLimitReached(BrokerError, RetriableError):
    """The broker has reached its maximum number of share sessions."""

    code = 133


class GroupDeletionFailed(BrokerError):
    """The group could not be deleted; the broker's message says why."""

    what_to_do = "Correct what the broker's message names, then delete the group again."

    code = 134


class StreamsTopologyDescriptionUpdateFailed(BrokerError):
    """The broker could not store the description of a streams topology."""

    what_to_do = "Nothing: pykafka2 has no streams groups."

    code = 135


class ControllerIdNotRegistered(BrokerError):
    """No controller with this id is registered."""

    what_to_do = "Correct the id; `describe_quorum()` returns the controllers."

    code = 136


class UnknownErrorCode(BrokerError):
    """The broker responded with a code that this version of pykafka2 does not know: `unknown_code`.

    `unknown_code` is None if the error was created from a message alone.
    """

    what_to_do = "Look the code up in the release notes of the broker, and upgrade pykafka2."

    def __init__(self, code: int | str, message: str = "") -> None:
        number = code if isinstance(code, str) else f"error code {code}"
        if message and number not in message:
            message = f"{message}: {number}"
        super().__init__(message or number)
        self.unknown_code = None if isinstance(code, str) else code

    def __reduce__(self) -> tuple[Any, ...]:
        message = str(self)
        return type(self), (message,) if self.unknown_code is None else (self.unknown_code, message)


NONE = 0

_BY_CODE: dict[int, type[BrokerError]] = {
    cls.code: cls
    for cls in (*BrokerError.__subclasses__(), *AuthorizationError.__subclasses__())
    if cls.code is not None and cls not in (UnknownErrorCode, AuthorizationError)
}


def for_code(code: int) -> type[BrokerError]:
    """Return the class of a broker error code, UnknownErrorCode for unknown ones. 0 raises KeyError."""
    if code == NONE:
        raise KeyError("0 is no error")
    return _BY_CODE.get(code, UnknownErrorCode)


def text_of(cls: type[KafkaError]) -> str:
    """Return the text of errors without a message: the first paragraph of the docstring, on one line."""
    return " ".join((cls.__doc__ or "").strip().split("\n\n")[0].split())


def error_of(code: int, message: str | None = None) -> BrokerError:
    """Return the error for a broker's code and message; without a message it has the class's text.

    Unprintable characters are escaped and a very long message is truncated, as a broker can send any text.
    """
    cls = for_code(code)
    message = shown(message) if message else ""
    if cls is UnknownErrorCode:
        return UnknownErrorCode(code, message)
    return cls(message) if message else cls()


def error_or_none(code: int, message: str | None = None) -> BrokerError | None:
    """Return the error for a broker's code and message; None for 0."""
    return error_of(code, message) if code else None


def raise_for_code(code: int, message: str | None = None) -> None:
    """Raise the error of a non-zero code; return for 0."""
    if code:
        raise error_of(code, message)


def name_of(code: int) -> str:
    """Return Kafka's name of a code, such as `NOT_LEADER_OR_FOLLOWER`; for logs and histories."""
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
    """Base of kafka-python's errors that pykafka2 never raises; programs can still catch them."""

    what_to_do = "Nothing: it is never raised."


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

if not TYPE_CHECKING:  # type checkers see only the names above, so they report misspelt ones

    def __getattr__(name: str) -> type[KafkaError]:
        """Return a class by kafka-python's name, usually ours followed by "Error"."""
        found = _OF_KAFKA_PYTHON.get(name) or globals().get(name.removesuffix("Error"))
        if isinstance(found, type) and issubclass(found, KafkaError):
            return found
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
