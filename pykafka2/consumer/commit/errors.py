"""Turns the errors of commit responses into messages for the application.

Pure; used on the driver's thread by commit_queue.py.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from pykafka2.consumer.state.group_identity import GroupIdentity, GroupStatus
from pykafka2.errors import (
    CommitFailed,
    CorruptResponse,
    FencedInstanceId,
    KafkaError,
    KafkaTimeoutError,
    RebalanceInProgress,
    RetriableCommitFailed,
    UnknownTopicId,
    UnknownTopicOrPartition,
    error_of,
)
from pykafka2.protocol.messages.committed_offsets import OffsetCommitResponse
from pykafka2.text import named
from pykafka2.types import TopicPartition


class MembershipMoved(KafkaError):
    """The identity in an OffsetFetch is out of date; the next attempt uses the current one."""

    retriable = True


def refusal_in(response: OffsetCommitResponse, partitions: Collection[TopicPartition]) -> KafkaError | None:
    """Return the error of a commit response with its partitions, or None if all offsets were committed.

    If partitions have different errors, one that is not retriable is preferred.
    """
    error_codes = {
        TopicPartition(topic.name, partition.partition_index): partition.error_code
        for topic in response.topics
        for partition in topic.partitions
    }
    missing = [partition for partition in partitions if partition not in error_codes]
    if missing:
        return CorruptResponse(f"the response to the commit lacks {named(missing)}")
    codes = [code for partition in partitions if (code := error_codes[partition])]
    if not codes:
        return None
    worst = min(codes, key=lambda code: error_of(code).retriable)
    where = named([partition for partition in partitions if error_codes[partition] == worst])
    return error_of(worst, f"{where}: {error_of(worst)}")


def membership_error(error: KafkaError, group_status: GroupStatus, identity: GroupIdentity) -> KafkaError:
    """Return the error of a commit that the coordinator rejected because of the membership."""
    group = group_status.group_id
    if isinstance(error, FencedInstanceId):
        failure: KafkaError = FencedInstanceId(
            f"another member of group {group!r} uses group_instance_id={identity.group_instance_id!r}; "
            "stop this one, or give it another id"
        )
    elif isinstance(error, RebalanceInProgress):
        failure = RebalanceInProgress(
            f"group {group!r} is rebalancing, so the offsets were not committed; call poll() to rejoin, "
            "then commit the partitions you still own"
        )
    elif identity.generation_id < 0:
        failure = CommitFailed(
            f"group {group!r} has members, and this consumer, which uses assign(), is not one of them "
            f"({error}); use another group_id for it"
        )
    else:
        because = group_status.lost_because or (
            "either poll() was not called for max_poll_interval_ms, or no heartbeat was sent for "
            f"{'its session' if identity.membership else 'session_timeout_ms'}"
        )
        failure = CommitFailed(
            f"group {group!r} has removed this consumer ({error}): {because}. The offsets were not "
            "committed, and other members can read the same records again; call poll() to rejoin"
        )
    failure.__cause__ = error
    return failure


def retriable_commit_error(error: KafkaError) -> RetriableCommitFailed:
    """Return the error of an asynchronous commit that failed with a retriable error."""
    failure = RetriableCommitFailed(
        f"the offset commit failed with a retriable error; commit the latest offsets again: {error}"
    )
    failure.__cause__ = error
    return failure


def recreated_topic_error(topics: Iterable[str]) -> UnknownTopicId:
    """Return the error of a commit for topics that were deleted and created again after they were read."""
    return UnknownTopicId(
        f"{named(topics)}: deleted, and created again with the same name; the offsets of this commit "
        "belong to the old topic and were not committed"
    )


def missing_topic_error(topics: Collection[str]) -> UnknownTopicOrPartition:
    """Return the error of a commit for topics that were deleted or never existed."""
    verb, whose = ("does", "its") if len(topics) == 1 else ("do", "their")
    return UnknownTopicOrPartition(
        f"{named(topics)} {verb} not exist on the brokers, so {whose} offsets were not committed; commit the "
        "offsets of the other topics"
    )


def commit_timeout_error(
    partitions: Iterable[TopicPartition], group_id: str, timeout: float, last_error: KafkaError | None
) -> KafkaTimeoutError:
    """Return the error of a commit that was not acknowledged within `timeout` seconds.

    `last_error` is the error of its last attempt, or None without one.
    """
    reason = f"; the last attempt failed: {last_error}" if last_error is not None else ""
    error = KafkaTimeoutError(
        f"the commit of {named(partitions)} to group {group_id!r} was not acknowledged within "
        f"{round(timeout, 3):g} s{reason}; it is unknown whether it was written"
    )
    error.__cause__ = last_error
    return error
