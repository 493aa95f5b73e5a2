"""Turns the errors of commit responses into messages for the application.

Pure; used on the driver's thread by commit_queue.py.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from pykafka2.consumer.state.group_identity import GroupIdentity, GroupStanding
from pykafka2.errors import (
    CommitFailed,
    CorruptResponse,
    FencedInstanceId,
    KafkaError,
    KafkaTimeoutError,
    RebalanceInProgress,
    RetriableCommitFailed,
    UnknownTopicId,
    error_of,
)
from pykafka2.protocol.messages.committed_offsets import OffsetCommitResponse
from pykafka2.text import named
from pykafka2.types import TopicPartition


class MembershipMoved(KafkaError):
    """Committed offsets were asked for under an epoch, or as a member, that is over: asked again as who the
    consumer is by then."""

    retriable = True


def refusal_in(response: OffsetCommitResponse, asked: Collection[TopicPartition]) -> KafkaError | None:
    """The error that the answer stands for, naming its partitions; None if all offsets were written.

    Where partitions met different errors, it is one that no repetition cures, if there is one.
    """
    told = {
        TopicPartition(topic.name, one.partition_index): one.error_code
        for topic in response.topics
        for one in topic.partitions
    }
    silent = [partition for partition in asked if partition not in told]
    if silent:
        return CorruptResponse(f"the response to the commit lacks {named(silent)}")
    codes = [code for partition in asked if (code := told[partition])]
    if not codes:
        return None
    worst = min(codes, key=lambda code: error_of(code).retriable)
    where = named([partition for partition in asked if told[partition] == worst])
    return error_of(worst, f"{where}: {error_of(worst)}")


def words_for_member(error: KafkaError, standing: GroupStanding, identity: GroupIdentity) -> KafkaError:
    """Return the error of a commit that the coordinator rejected because of the membership."""
    group = standing.group_id
    if isinstance(error, FencedInstanceId):
        told: KafkaError = FencedInstanceId(
            f"another member of group {group!r} uses group_instance_id={identity.group_instance_id!r}; "
            "stop this one, or give it another id"
        )
    elif isinstance(error, RebalanceInProgress):
        told = RebalanceInProgress(
            f"group {group!r} is rebalancing, so the offsets were not committed; call poll() to rejoin, "
            "then commit the partitions you still own"
        )
    elif identity.generation_id < 0:
        told = CommitFailed(
            f"group {group!r} has members, and this consumer, which uses assign(), is not one of them "
            f"({error}); use another group_id for it"
        )
    else:
        because = standing.lost_because or (
            "either poll() was not called for max_poll_interval_ms, or no heartbeat was sent for "
            f" {'its session' if identity.membership else 'session_timeout_ms'}"
        )
        told = CommitFailed(
            f"group {group!r} has removed this consumer ({error}): {because}. The offsets were not "
            "committed, and other members can read the same records again; call poll() to rejoin"
        )
    told.__cause__ = error
    return told


def words_for_passing(error: KafkaError) -> RetriableCommitFailed:
    """Return the error of an asynchronous commit that failed with a retriable error."""
    passing = RetriableCommitFailed(
        f"the offset commit failed with a retriable error; commit the latest offsets again: {error}"
    )
    passing.__cause__ = error
    return passing


def words_for_gone(topics: Iterable[str]) -> UnknownTopicId:
    """The error of a commit for topics that were deleted and created again since their records were read."""
    return UnknownTopicId(
        f"{named(topics)}: deleted, and created again with the same name; the offsets of this commit "
        "belong to the old topic and were not committed"
    )


def words_for_late(
    partitions: Iterable[TopicPartition], group_id: str, timeout: float, last_error: KafkaError | None
) -> KafkaTimeoutError:
    """The error of a commit whose deadline has come, after `timeout` seconds; `last_error` is that of its
    last attempt, if there was one."""
    reason = f"; the last attempt failed: {last_error}" if last_error is not None else ""
    error = KafkaTimeoutError(
        f"the commit of {named(partitions)} to group {group_id!r} was not acknowledged within "
        f"{timeout:g} s{reason}; it is unknown whether it was written"
    )
    error.__cause__ = last_error
    return error
