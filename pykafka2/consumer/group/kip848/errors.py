"""Adds what to do to the coordinator's errors for a KIP-848 member.

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
"""The coordinator has removed or fenced the member, which can rejoin immediately."""

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
"""Errors that a retry of the same heartbeat cannot resolve."""


def explained(error: KafkaError, options: ConsumerOptions, pattern: str | None) -> KafkaError:
    """Return the error with a message that names the setting and what to do, or the error itself."""
    group = f"group {options.group_id!r}"
    words: dict[type[KafkaError], str] = {
        FencedInstanceId: (
            f"another consumer of {group} uses the same group_instance_id={options.group_instance_id!r}; "
            "close this one, and give each consumer a group_instance_id of its own"
        ),
        GroupAuthorizationFailed: f"not authorized to use {group}; ask for an ACL that allows READ on it",
        GroupIdNotFound: (
            f"{group} has members of the classic protocol, and its coordinator does not convert it "
            "(group.consumer.migration.policy); set that to 'upgrade' or 'bidirectional', stop the other "
            f"members, or use group_protocol='classic' ({error})"
        ),
        GroupMaxSizeReached: (
            f"{group} has as many members as its coordinator allows (group.consumer.max.size); stop one, or "
            "raise it"
        ),
        InvalidGroupId: f"{group}: the brokers reject this group_id; it must not be empty",
        InvalidRegularExpression: (
            f"{pattern!r} is not a regular expression that the brokers accept ({error}); write a "
            "SubscriptionPattern in RE2 syntax, which has no look-ahead and no back-references, or use "
            "pattern=re.compile(...), which the client matches"
        ),
        UnreleasedInstanceId: (
            f"another consumer of {group} uses group_instance_id={options.group_instance_id!r}, or used it "
            "and ended without close(); give each consumer a group_instance_id of its own, or wait for the "
            "session timeout (group.consumer.session.timeout.ms) and call subscribe() again"
        ),
        UnsupportedAssignor: (
            f"group_remote_assignor={options.group_remote_assignor!r}: the brokers offer no such assignor; "
            "choose one of group.consumer.assignors ('uniform' and 'range' by default), or remove the option"
        ),
        UnsupportedVersion: _too_old(group, pattern, error),
    }
    message = words.get(type(error))
    return type(error)(message) if message is not None else error


def _too_old(group: str, pattern: str | None, error: KafkaError) -> str:
    if pattern is not None:
        return (
            f"the coordinator of {group} cannot resolve a SubscriptionPattern ({error}); use brokers of "
            "4.0 or later, or pattern=re.compile(...), which the client matches"
        )
    return (
        f"the coordinator of {group} does not support the protocol of KIP-848 ({error}); use "
        "group_protocol='classic' until the cluster is at 4.0 or later, with group.version at 1"
    )
