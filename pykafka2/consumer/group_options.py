"""Which of the consumer's options belong to which kind of group, and what is refused where they do not.

Pure; the caller's thread, when a consumer is made.  The options themselves are in options.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pykafka2.errors import ConfigurationError

PublicName = Callable[[str], str]
"""Of an option, by the name of its field."""

CLASSIC = "classic"
CONSUMER = "consumer"
GROUPS_ONLY = (
    "enable_auto_commit",
    "enable_auto_offset_store",
    "group_instance_id",
    "partition_assignment_strategy",
    "session_timeout",
    "heartbeat_interval",
    "max_poll_interval",
    "group_protocol",
    "group_remote_assignor",
)
"""Options that mean nothing without a group_id."""
_HARMLESS = {"enable_auto_commit": False, "enable_auto_offset_store": True, "group_protocol": CLASSIC}
"""What such an option may say without a group all the same."""

OF_CLASSIC_GROUPS = {
    "partition_assignment_strategy": "the coordinator assigns; name its assignor with group_remote_assignor",
    "session_timeout": "the brokers say so (group.consumer.session.timeout.ms, or the group's own "
    "consumer.session.timeout.ms)",
    "heartbeat_interval": "the brokers say so (group.consumer.heartbeat.interval.ms, or the group's own "
    "consumer.heartbeat.interval.ms)",
}
"""Options that the protocol of KIP-848 has no use for, and what decides instead."""


def check_protocol(protocol: str, given: Mapping[str, Any], public_name: PublicName) -> None:
    """Refuse what the other protocol's groups are told."""
    if protocol == CLASSIC:
        if given.get("group_remote_assignor") is not None:
            raise ConfigurationError(
                f"group_remote_assignor={given['group_remote_assignor']!r} is for group_protocol='consumer'; "
                "classic groups choose with partition_assignment_strategy"
            )
        return
    for name, instead in OF_CLASSIC_GROUPS.items():
        if name in given:
            raise ConfigurationError(
                f"{public_name(name)} is for group_protocol='classic'; with 'consumer' {instead}, "
                "so leave it out"
            )


def refuse_without_group(given: Mapping[str, Any], public_name: PublicName) -> None:
    """Refuse what says something to a group, where there is no group_id."""
    for name in GROUPS_ONLY:
        if name in given and given[name] != _HARMLESS.get(name):
            # Durations have become seconds; nothing else is a float.
            shown = f"{given[name] * 1000:g}" if isinstance(given[name], float) else repr(given[name])
            raise ConfigurationError(
                f"{public_name(name)}={shown} is for members of a group: give a group_id with it, "
                "or leave it out"
            )
