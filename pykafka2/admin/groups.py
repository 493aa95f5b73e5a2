"""Consumer groups and their offsets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pykafka2.admin.outcomes import Outcomes
from pykafka2.admin.unavailable import not_yet
from pykafka2.admin.values import GroupDescription, GroupListing, PartitionLag
from pykafka2.types import OffsetAndMetadata, TopicPartition


class GroupsAdmin:
    """The group calls of `KafkaAdminClient`. Timeouts are seconds; thread-safe."""

    def list_groups(
        self, *, states: Iterable[str] = (), types: Iterable[str] = (), timeout: float | None = None
    ) -> list[GroupListing]:
        """Returns the groups of all coordinators with these states and types (all if empty)."""
        not_yet("KafkaAdminClient.list_groups")

    def describe_groups(
        self, group_ids: Iterable[str], *, timeout: float | None = None, raise_errors: bool = True
    ) -> Outcomes[str, GroupDescription]:
        """Returns state, assignor, coordinator and members of groups, classic and KIP-848."""
        not_yet("KafkaAdminClient.describe_groups")

    def delete_groups(
        self, group_ids: Iterable[str], *, timeout: float | None = None, raise_errors: bool = True
    ) -> Outcomes[str, None]:
        """Delete groups without members; others fail with `NonEmptyGroup`."""
        not_yet("KafkaAdminClient.delete_groups")

    def remove_members(
        self, group_id: str, members: Iterable[str], *, reason: str = "", timeout: float | None = None
    ) -> Outcomes[str, None]:
        """Remove members (ids or static instance ids) from the group."""
        not_yet("KafkaAdminClient.remove_members")

    def list_group_offsets(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        require_stable: bool = False,
        timeout: float | None = None,
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Returns a group's committed offsets, without partitions that have none."""
        not_yet("KafkaAdminClient.list_group_offsets")

    def alter_group_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
        *,
        timeout: float | None = None,
        raise_errors: bool = True,
    ) -> Outcomes[TopicPartition, None]:
        """Commit offsets for a group without members."""
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
        """Commit the earliest or latest offsets, those of a timestamp, or the current ones shifted."""
        not_yet("KafkaAdminClient.reset_group_offsets")

    def delete_group_offsets(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition],
        *,
        timeout: float | None = None,
        raise_errors: bool = True,
    ) -> Outcomes[TopicPartition, None]:
        """Delete committed offsets; fails with `GroupSubscribedToTopic` while a member reads the topic."""
        not_yet("KafkaAdminClient.delete_group_offsets")

    def group_lag(self, group_id: str, *, timeout: float | None = None) -> dict[TopicPartition, PartitionLag]:
        """Returns a group's lag behind the last stable offset, in records and in time."""
        not_yet("KafkaAdminClient.group_lag")
