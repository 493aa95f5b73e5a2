"""Resets offsets of a group or share group: to the start, the end, a time, an offset, or by a distance."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

import attrs

from pykafka2.admin.arguments import text, whole_number
from pykafka2.admin.group_offsets import GroupOffsetsAdmin, raise_single
from pykafka2.admin.group_values import GroupDescription
from pykafka2.admin.offsets import OffsetsAdmin
from pykafka2.admin.outcomes import Outcomes
from pykafka2.admin.places import time_left
from pykafka2.admin.share_groups import ShareGroupsAdmin
from pykafka2.cluster.arguments import checked_partition
from pykafka2.errors import (
    GroupIdNotFound,
    IllegalArgument,
    KafkaError,
    NonEmptyGroup,
    UnknownTopicOrPartition,
    error_of,
)
from pykafka2.option_fields import INT64_MAX
from pykafka2.text import counted
from pykafka2.types import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from pykafka2.cluster.client import ClusterClient

RESETTABLE = ("Empty", "Dead")
"""States of groups whose offsets may be altered."""


class GroupResetsAdmin(ShareGroupsAdmin, GroupOffsetsAdmin, OffsetsAdmin):
    """`reset_group_offsets` and `reset_share_group_offsets` of `KafkaAdminClient`."""

    _cluster: ClusterClient

    def reset_group_offsets(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition | str] | None = None,
        *,
        to: str | None = None,
        timestamp_ms: int | None = None,
        shift: int | None = None,
        offset: int | None = None,
        dry_run: bool = False,
        timeout: float | None = None,
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Commit other offsets for a group without members; return the new offsets.

        Offsets are limited to those that the partition has: from its log start offset to its high watermark.

        Args:
            partitions: partitions, and names of topics for all their partitions; None for all partitions
                with a committed offset.
            to: "earliest" (the default), "latest", or "current" (the committed offset, brought into the
                limits).
            timestamp_ms: the first record that is not older than this time, in milliseconds since the
                epoch; the end if there is none.
            shift: records to skip (or, if negative, to read again) from the committed offset.
            offset: the same offset in each partition.
            dry_run: return the offsets without committing them; allowed while the group has members.

        Raises:
            NonEmptyGroup: the group has members; no offset was changed.
            ItemsFailed: some partitions failed, each with its error; the others were reset.
            UnknownTopicOrPartition: a topic does not exist; no offset was changed.
            IllegalArgument: an argument is not valid, two targets were given, or `shift` or "current" meets a
                partition without a committed offset; no offset was changed.
        """
        text("group_id", group_id)
        target = _Target.of(to, timestamp_ms, shift, offset)
        left = time_left(self._cluster, timeout)
        if not dry_run:
            self._check_empty(group_id, self._described([group_id], left()))
        committed = self.list_group_offsets(group_id, timeout=left())
        chosen = list(committed) if partitions is None else self._chosen(partitions, left())
        before = {partition: committed[partition].offset for partition in committed}
        new = {
            partition: OffsetAndMetadata(at)
            for partition, at in self._resolved(target, group_id, chosen, before, left).items()
        }
        if new and not dry_run:
            raise_single(
                self.alter_group_offsets(group_id, new, timeout=left(), raise_errors=False),
                "reset_group_offsets",
            )
        return new

    def reset_share_group_offsets(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition | str] | None = None,
        *,
        to: str | None = None,
        timestamp_ms: int | None = None,
        shift: int | None = None,
        offset: int | None = None,
        dry_run: bool = False,
        timeout: float | None = None,
    ) -> dict[TopicPartition, int]:
        """Set other start offsets for a share group without members; return the new ones.

        Arguments, limits and errors are those of `reset_group_offsets`. The records from the new offset on
        are delivered again, also those that were done; the records before it are not.
        """
        text("group_id", group_id)
        operation = "reset_share_group_offsets"
        target = _Target.of(to, timestamp_ms, shift, offset)
        left = time_left(self._cluster, timeout)
        described = self._described_share_groups(operation, [group_id], False, left())
        is_missing = isinstance(described.errors.get(group_id), GroupIdNotFound)
        if not dry_run:
            self._check_empty(group_id, described)
        before: dict[TopicPartition, int] = {}
        if not is_missing:
            known = self.list_share_group_offsets(group_id, timeout=left())
            before = {partition: known[partition].offset for partition in known}
        chosen = list(before) if partitions is None else self._chosen(partitions, left())
        new = self._resolved(target, group_id, chosen, before, left)
        if new and not dry_run:
            raise_single(
                self.alter_share_group_offsets(group_id, new, timeout=left(), raise_errors=False), operation
            )
        return new

    def _resolved(
        self,
        target: _Target,
        group_id: str,
        chosen: list[TopicPartition],
        before: Mapping[TopicPartition, int],
        left: Callable[[], float],
    ) -> dict[TopicPartition, int]:
        """Return the offsets of a target, limited to those that the partitions have."""
        if not chosen:
            return {}
        first = self.list_offsets(dict.fromkeys(chosen, "earliest"), timeout=left())
        last = self.list_offsets(dict.fromkeys(chosen, "latest"), timeout=left())
        wanted: Mapping[TopicPartition, int]
        if target.timestamp_ms is not None:
            at = self.list_offsets(dict.fromkeys(chosen, target.timestamp_ms), timeout=left())
            wanted = {
                partition: at[partition].offset if at[partition].offset >= 0 else last[partition].offset
                for partition in chosen
            }
        elif target.offset is not None:
            wanted = dict.fromkeys(chosen, target.offset)
        elif target.shift is not None or target.to == "current":
            without = [str(partition) for partition in chosen if partition not in before]
            if without:
                raise IllegalArgument(
                    f"group {group_id!r} has no offset of {', '.join(without)} yet; use "
                    "to='earliest' or 'latest'"
                )
            wanted = {partition: before[partition] + (target.shift or 0) for partition in chosen}
        else:
            source = last if target.to == "latest" else first
            wanted = {partition: source[partition].offset for partition in chosen}
        return {
            partition: min(max(wanted[partition], first[partition].offset), last[partition].offset)
            for partition in chosen
        }

    def _check_empty(self, group_id: str, described: Outcomes[str, GroupDescription]) -> None:
        error = described.errors.get(group_id)
        if isinstance(error, GroupIdNotFound):
            return  # the commit creates it
        if described[group_id].state not in RESETTABLE:
            state, members = described[group_id].state, counted(described[group_id].members, "member")
            raise NonEmptyGroup(
                f"group {group_id!r} is {state} with {members}; stop all members, then reset its offsets"
            )

    def _chosen(
        self, partitions: Iterable[TopicPartition | str], timeout: float | None
    ) -> list[TopicPartition]:
        if isinstance(partitions, str | TopicPartition):
            raise IllegalArgument(f"partitions={partitions!r} must be a list")
        chosen: list[TopicPartition] = []
        topics: list[str] = []
        for item in partitions:
            if isinstance(item, str):
                topics.append(item)
                continue
            try:
                chosen.append(checked_partition(item))
            except (TypeError, ValueError) as error:
                raise IllegalArgument(f"partitions: {error}") from None
        if topics:
            numbers, errors = self._partitions_of_topics(topics, timeout)
            for failure in errors.values():
                raise failure
            chosen += numbers
        return list(dict.fromkeys(chosen))

    def _partitions_of_topics(
        self, topics: list[str], timeout: float | None
    ) -> tuple[list[TopicPartition], dict[str, KafkaError]]:
        from pykafka2.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

        request = MetadataRequest(
            topics=[MetadataRequestTopic(name=name) for name in topics], allow_auto_topic_creation=False
        )
        found: list[TopicPartition] = []
        errors: dict[str, KafkaError] = {}
        for topic in self._cluster.request(request, timeout=timeout).topics:
            name = topic.name or ""
            if topic.error_code:
                error = error_of(topic.error_code)
                missing = isinstance(error, UnknownTopicOrPartition)
                errors[name] = UnknownTopicOrPartition(f"topic {name!r} does not exist") if missing else error
            found += [TopicPartition(name, info.partition_index) for info in topic.partitions]
        return sorted(found), errors


@attrs.define(frozen=True)
class _Target:
    """The target of a reset; at most one is set, and without one it is the earliest offset."""

    to: str | None
    timestamp_ms: int | None
    shift: int | None
    offset: int | None

    @classmethod
    def of(cls, to: object, timestamp_ms: object, shift: object, offset: object) -> _Target:
        """Return the checked target. Raise IllegalArgument."""
        targets = {"to": to, "timestamp_ms": timestamp_ms, "shift": shift, "offset": offset}
        named = [name for name, value in targets.items() if value is not None]
        if len(named) > 1:
            raise IllegalArgument(f"{' and '.join(named)} exclude each other; give one of them")
        if to is not None and to not in ("earliest", "latest", "current"):
            raise IllegalArgument(f"to={to!r} is not valid; use 'earliest', 'latest' or 'current'")
        return cls(
            to=None if to is None else str(to),
            timestamp_ms=_number("timestamp_ms", timestamp_ms, 0),
            shift=_number("shift", shift, -INT64_MAX),
            offset=_number("offset", offset, 0),
        )


def _number(argument: str, value: object, least: int) -> int | None:
    return None if value is None else whole_number(argument, value, least, INT64_MAX)
