"""Kafka's error codes by Kafka's names: short words for tables of expectations."""

from __future__ import annotations

from pykafka2 import errors

COORDINATOR_LOAD_IN_PROGRESS = errors.CoordinatorLoadInProgress.code
COORDINATOR_NOT_AVAILABLE = errors.CoordinatorNotAvailable.code
FENCED_INSTANCE_ID = errors.FencedInstanceId.code
FENCED_MEMBER_EPOCH = errors.FencedMemberEpoch.code
GROUP_AUTHORIZATION_FAILED = errors.GroupAuthorizationFailed.code
GROUP_ID_NOT_FOUND = errors.GroupIdNotFound.code
GROUP_MAX_SIZE_REACHED = errors.GroupMaxSizeReached.code
GROUP_SUBSCRIBED_TO_TOPIC = errors.GroupSubscribedToTopic.code
ILLEGAL_GENERATION = errors.IllegalGeneration.code
INCONSISTENT_GROUP_PROTOCOL = errors.InconsistentGroupProtocol.code
INVALID_GROUP_ID = errors.InvalidGroupId.code
INVALID_RECORD_STATE = errors.InvalidRecordState.code
INVALID_REGULAR_EXPRESSION = errors.InvalidRegularExpression.code
INVALID_REQUEST = errors.InvalidRequest.code
INVALID_SESSION_TIMEOUT = errors.InvalidSessionTimeout.code
INVALID_SHARE_SESSION_EPOCH = errors.InvalidShareSessionEpoch.code
MEMBER_ID_REQUIRED = errors.MemberIdRequired.code
NON_EMPTY_GROUP = errors.NonEmptyGroup.code
NOT_COORDINATOR = errors.NotCoordinator.code
NOT_ENOUGH_REPLICAS = errors.NotEnoughReplicas.code
NOT_ENOUGH_REPLICAS_AFTER_APPEND = errors.NotEnoughReplicasAfterAppend.code
NOT_LEADER_OR_FOLLOWER = errors.NotLeaderOrFollower.code
OFFSET_METADATA_TOO_LARGE = errors.OffsetMetadataTooLarge.code
OUT_OF_ORDER_SEQUENCE_NUMBER = errors.OutOfOrderSequenceNumber.code
REBALANCE_IN_PROGRESS = errors.RebalanceInProgress.code
REQUEST_TIMED_OUT = errors.RequestTimedOut.code
SHARE_SESSION_LIMIT_REACHED = errors.ShareSessionLimitReached.code
SHARE_SESSION_NOT_FOUND = errors.ShareSessionNotFound.code
STALE_MEMBER_EPOCH = errors.StaleMemberEpoch.code
TOPIC_AUTHORIZATION_FAILED = errors.TopicAuthorizationFailed.code
UNKNOWN_MEMBER_ID = errors.UnknownMemberId.code
UNKNOWN_SERVER_ERROR = errors.UnknownServerError.code
UNKNOWN_TOPIC_ID = errors.UnknownTopicId.code
UNKNOWN_TOPIC_OR_PARTITION = errors.UnknownTopicOrPartition.code
UNRELEASED_INSTANCE_ID = errors.UnreleasedInstanceId.code
UNSTABLE_OFFSET_COMMIT = errors.UnstableOffsetCommit.code
UNSUPPORTED_ASSIGNOR = errors.UnsupportedAssignor.code
UNSUPPORTED_VERSION = errors.UnsupportedVersion.code
