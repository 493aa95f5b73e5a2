"""Turns the coordinator's errors for a KIP-848 member into messages that say what to do.

Pure; used by membership.py on the driver's thread.
"""

from __future__ import annotations

from pykafka2.consumer.options import ConsumerOptions
from pykafka2.errors import (
    FencedInstanceId,
    FencedMemberEpoch,
    GroupAuthorizationFailed,
    GroupIdNotFound,
    GroupMaxSizeReached,
    InvalidGroupId,
    InvalidRegularExpression,
    InvalidRequest,
    KafkaError,
    UnknownMemberId,
    UnreleasedInstanceId,
    UnsupportedAssignor,
    UnsupportedVersion,
)

EXPELLING = (UnknownMemberId, FencedMemberEpoch)
"""The member is out, and may come back at once."""

FATAL = (
    FencedInstanceId,
    GroupAuthorizationFailed,
    GroupIdNotFound,
    GroupMaxSizeReached,
    InvalidGroupId,
    InvalidRegularExpression,
    InvalidRequest,
    UnreleasedInstanceId,
    UnsupportedAssignor,
    UnsupportedVersion,
)
"""No repetition of the same heartbeat cures these."""


def explained(error: KafkaError, options: ConsumerOptions, pattern: str | None) -> KafkaError:
    """The same error in words that say which setting, and what to do; itself if there is nothing to add."""
    group = f"group {options.group_id!r}"
    words: dict[type[KafkaError], str] = {
        FencedInstanceId: (
            f"another consumer of {group} has the same group_instance_id={options.group_instance_id!r}; "
            "close this one, and give each consumer a name of its own"
        ),
        GroupAuthorizationFailed: f"this client may not use {group}; ask for an ACL that allows READ on it",
        GroupIdNotFound: (
            f"{group} has members of the classic protocol, and its coordinator does not let it change "
            "(group.consumer.migration.policy); set that to 'upgrade' or 'bidirectional', or stop the other "
            f"members, or give group_protocol='classic' ({error})"
        ),
        GroupMaxSizeReached: (
            f"{group} has as many members as its coordinator allows (group.consumer.max.size); stop one, or "
            "raise it"
        ),
        InvalidGroupId: f"{group}: the brokers refuse this group_id; it must not be empty",
        InvalidRegularExpression: (
            f"{pattern!r} is not a regular expression that the brokers take ({error}); write a "
            "SubscriptionPattern in RE2's syntax, which has no look-ahead and no references, or give "
            "pattern=re.compile(...), which is matched here"
        ),
        UnreleasedInstanceId: (
            f"another consumer of {group} has the group_instance_id={options.group_instance_id!r}, or had it "
            "and ended without close(); give each consumer a name of its own, or wait until that one's "
            "session is over (group.consumer.session.timeout.ms) and subscribe() again"
        ),
        UnsupportedAssignor: (
            f"group_remote_assignor={options.group_remote_assignor!r}: the brokers offer no such assignor; "
            "choose one of group.consumer.assignors ('uniform' and 'range' by default), or leave it out"
        ),
        UnsupportedVersion: _too_old(group, pattern, error),
    }
    told = words.get(type(error))
    return type(error)(told) if told is not None else error


def _too_old(group: str, pattern: str | None, error: KafkaError) -> str:
    if pattern is not None:
        return (
            f"the coordinator of {group} cannot resolve a SubscriptionPattern ({error}); use brokers of "
            "4.0 or later, or give pattern=re.compile(...), which is matched here"
        )
    return (
        f"the coordinator of {group} does not have the protocol of KIP-848 ({error}); give "
        "group_protocol='classic' until the cluster is at 4.0 or later, with group.version at 1"
    )
