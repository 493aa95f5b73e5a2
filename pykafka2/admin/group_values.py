"""Arguments and results of admin calls about groups and offsets. Durations are seconds."""

from __future__ import annotations

from enum import EnumMeta, IntEnum
from typing import TYPE_CHECKING, Any

import attrs

from pykafka2.other_clients import no_such_attribute
from pykafka2.types import Node, OffsetAndMetadata, TopicPartition


class _OffsetSpecType(EnumMeta):
    """The type of `OffsetSpec`, whose error for confluent-kafka's `OffsetSpec.latest()` names LATEST."""

    if not TYPE_CHECKING:

        def __getattr__(cls, name: str) -> Any:
            members = cls.__dict__.get("_member_map_", {})
            if name in members:  # members are found here before Python 3.12
                return members[name]
            raise no_such_attribute(cls, name)


class OffsetSpec(IntEnum, metaclass=_OffsetSpecType):
    """Offsets that `list_offsets` finds without a time, with their numbers in requests."""

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3
    EARLIEST_LOCAL = -4
    LATEST_TIERED = -5
    EARLIEST_PENDING_UPLOAD = -6


class OffsetTimestamp(int):
    """A time in milliseconds since the epoch, where a plain int is an offset (`reset_group_offsets`)."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"OffsetTimestamp({int(self)})"


@attrs.define(frozen=True)
class GroupListing:
    """A group in the list of its coordinator.

    `protocol` is the members' kind: "consumer", "connect", "share" ..., empty without members so far.
    `type` is "Classic", "Consumer", "Share" or "Streams"; empty with brokers before Kafka 3.8.
    """

    group_id: str
    protocol: str
    state: str
    type: str

    @property
    def is_simple(self) -> bool:
        """Whether the group only has committed offsets and never had members."""
        return self.protocol == "" and self.type in ("", "Classic")


@attrs.define(frozen=True)
class MemberDescription:
    """A member of a group and its partitions, which in a share group other members can have, too.

    In a classic group the epochs are None, and the subscription is the members' own business. In a consumer
    group (KIP-848) `target` is the assignment that the member moves to, and `is_classic` marks members that
    use the classic protocol during an upgrade.
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    assignment: tuple[TopicPartition, ...]
    target: tuple[TopicPartition, ...] | None = None
    epoch: int | None = None
    rack: str | None = None
    topics: tuple[str, ...] = ()
    topic_pattern: str | None = None
    is_classic: bool | None = None


@attrs.define(frozen=True)
class GroupDescription:
    """A group as its coordinator describes it.

    `type` is "Classic", "Consumer" or "Share"; `protocol` is the members' kind ("consumer" for consumers),
    `assignor` the chosen assignor. The epochs are None in classic groups. `authorized_operations` are the
    operations that the principal may perform ("READ", "DELETE", "DESCRIBE" ...), or None unless they were
    requested.
    """

    group_id: str
    state: str
    type: str
    assignor: str
    coordinator: Node | None
    members: tuple[MemberDescription, ...]
    protocol: str = "consumer"
    epoch: int | None = None
    assignment_epoch: int | None = None
    authorized_operations: tuple[str, ...] | None = None

    @property
    def is_simple(self) -> bool:
        """Whether the group only has committed offsets and never had members."""
        return self.type == "Classic" and self.protocol == ""


@attrs.define(frozen=True)
class PartitionLag:
    """A group's lag in one partition: in records that it can read, and in seconds if requested.

    `committed` is -1 without a committed offset; then the whole log counts. `lag_time` is the age of the
    oldest record that is not committed yet (0.0 without a lag, None if unknown), `member_id` the owner of the
    partition, if it has one.
    """

    committed: int
    end: int
    lag: int
    lag_time: float | None = None
    start: int = 0
    member_id: str | None = None
    client_id: str | None = None


@attrs.define(frozen=True)
class ShareGroupOffset:
    """The progress of a share group in one partition (KIP-932).

    All records before `offset` are done. `lag` is the number of those from it on that are not (KIP-1226);
    None if it is unknown, as with brokers before Kafka 4.2. `leader_epoch` is that of the partition's leader
    when the offset was stored.
    """

    offset: int
    leader_epoch: int = -1
    lag: int | None = None


@attrs.define(frozen=True)
class MemberToRemove:
    """A member to remove from a group: by its static `group_instance_id`, or by its `member_id`."""

    member_id: str | None = None
    group_instance_id: str | None = None
    reason: str | None = None


@attrs.define(frozen=True)
class OffsetReset:
    """A partition's offset before and after `reset_group_offsets`; `before` is None if there was none."""

    before: OffsetAndMetadata | None
    after: OffsetAndMetadata
