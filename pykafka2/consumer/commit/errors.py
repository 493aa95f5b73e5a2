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
        return CorruptResponse(f"the answer to the commit says nothing of {named(silent)}")
    codes = [code for partition in asked if (code := told[partition])]
    if not codes:
        return None
    worst = min(codes, key=lambda code: error_of(code).retriable)
    where = named([partition for partition in asked if told[partition] == worst])
    return error_of(worst, f"{where}: {error_of(worst)}")


def words_for_member(error: KafkaError, standing: GroupStanding, identity: GroupIdentity) -> KafkaError:
    """The error that an application gets when a commit is refused because of who sent it."""
    group = standing.group_id
    if isinstance(error, FencedInstanceId):
        told: KafkaError = FencedInstanceId(
            f"another member of group {group!r} uses group_instance_id={identity.group_instance_id!r}; "
            "stop this one, or give it another id"
        )
    elif isinstance(error, RebalanceInProgress):
        told = RebalanceInProgress(
            f"group {group!r} is sharing its partitions anew, so the offsets were not committed; call poll() "
            "to take part, then commit those of the partitions that stay"
        )
    elif identity.generation_id < 0:
        told = CommitFailed(
            f"group {group!r} has members, and this consumer, whose partitions are assigned by assign(), is "
            f"none of them ({error}); give it a group_id of its own"
        )
    else:
        because = standing.lost_because or (
            "it may have been longer between two calls of poll() than max_poll_interval_ms, or without a "
            f"heartbeat for {'its session' if identity.membership else 'session_timeout_ms'}"
        )
        told = CommitFailed(
            f"group {group!r} has taken this consumer's partitions away ({error}): {because}. The offsets "
            "were not committed, and other members may read the same records again; call poll() to join again"
        )
    told.__cause__ = error
    return told


def words_for_passing(error: KafkaError) -> RetriableCommitFailed:
    """The error of a commit that is sent once only, and met what passes."""
    passing = RetriableCommitFailed(
        f"the offset commit failed for a reason that passes; commit the latest offsets again: {error}"
    )
    passing.__cause__ = error
    return passing


def words_for_gone(topics: Iterable[str]) -> UnknownTopicId:
    """The error of a commit for topics that were deleted, and made anew, since their records were read."""
    return UnknownTopicId(
        f"{named(topics)}: deleted, and made anew under the same name; the offsets of this commit are of "
        "what is gone and were not committed"
    )


def words_for_late(
    partitions: Iterable[TopicPartition], group_id: str, timeout: float, last_error: KafkaError | None
) -> KafkaTimeoutError:
    """The error of a commit whose deadline has come, after `timeout` seconds; `last_error` is that of its
    last attempt, if there was one."""
    reason = f"; the last attempt failed: {last_error}" if last_error is not None else ""
    error = KafkaTimeoutError(
        f"the commit of {named(partitions)} to group {group_id!r} was not acknowledged within "
        f"{timeout:g} s{reason}; it may have been written all the same"
    )
    error.__cause__ = last_error
    return error
