"""Consumer groups and their offsets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pykafka2.admin.outcomes import Outcomes
from pykafka2.admin.unavailable import not_yet
from pykafka2.admin.values import GroupDescription, GroupListing, PartitionLag
from pykafka2.types import OffsetAndMetadata, TopicPartition


class GroupsAdmin:
    """The part of `KafkaAdminClient` that is about groups.  Timeouts are seconds; thread-safe."""

    def list_groups(
        self, *, states: Iterable[str] = (), types: Iterable[str] = (), timeout: float | None = None
    ) -> list[GroupListing]:
        """All groups of all coordinators, of the states and types given (none: all)."""
        not_yet("KafkaAdminClient.list_groups")

    def describe_groups(
        self, group_ids: Iterable[str], *, timeout: float | None = None, raise_errors: bool = True
    ) -> Outcomes[str, GroupDescription]:
        """State, assignor, coordinator and members of groups, classic and KIP-848."""
        not_yet("KafkaAdminClient.describe_groups")

    def delete_groups(
        self, group_ids: Iterable[str], *, timeout: float | None = None, raise_errors: bool = True
    ) -> Outcomes[str, None]:
        """Delete groups without members; `NonEmptyGroup` for others."""
        not_yet("KafkaAdminClient.delete_groups")

    def remove_members(
        self, group_id: str, members: Iterable[str], *, reason: str = "", timeout: float | None = None
    ) -> Outcomes[str, None]:
        """Have members (ids or static instance ids) leave the group."""
        not_yet("KafkaAdminClient.remove_members")

    def list_group_offsets(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        require_stable: bool = False,
        timeout: float | None = None,
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return a group's committed offsets, without partitions that have none."""
        not_yet("KafkaAdminClient.list_group_offsets")

    def alter_group_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
        *,
        timeout: float | None = None,
        raise_errors: bool = True,
    ) -> Outcomes[TopicPartition, None]:
        """Commit offsets for a group that has no members."""
        not_yet("KafkaAdminClient.alter_group_offsets")

    def reset_group_offsets(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        to: str = "earliest",
        timestamp_ms: int | None = None,
        shift: int | None = None,
        timeout: float | None = None,
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Commit the earliest or latest offsets, those of a time, or the present ones shifted."""
        not_yet("KafkaAdminClient.reset_group_offsets")

    def delete_group_offsets(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition],
        *,
        timeout: float | None = None,
        raise_errors: bool = True,
    ) -> Outcomes[TopicPartition, None]:
        """Forget commits; `GroupSubscribedToTopic` while a member reads the topic."""
        not_yet("KafkaAdminClient.delete_group_offsets")

    def group_lag(self, group_id: str, *, timeout: float | None = None) -> dict[TopicPartition, PartitionLag]:
        """How far a group is behind, to the last stable offset, in records and in time."""
        not_yet("KafkaAdminClient.group_lag")
