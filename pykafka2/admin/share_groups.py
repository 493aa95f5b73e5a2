"""Share groups (KIP-932): describe and delete them, and list, alter and delete their start offsets.

ShareGroupDescribe, DeleteGroups, DescribeShareGroupOffsets (with the lag, KIP-1226),
AlterShareGroupOffsets, DeleteShareGroupOffsets. All of them go to the coordinator of the group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from pykafka2.admin.arguments import partition_keys, partitions_of, text, texts, whole_number
from pykafka2.admin.group_values import GroupDescription, ShareGroupOffset
from pykafka2.admin.groups import GroupsAdmin
from pykafka2.admin.offsets import by_topic
from pykafka2.admin.outcomes import Outcomes
from pykafka2.admin.places import at_coordinators, at_group, time_left
from pykafka2.admin.rounds import Results
from pykafka2.driver.pollable import GROUP
from pykafka2.errors import KafkaError, UnknownTopicOrPartition, error_of
from pykafka2.option_fields import INT64_MAX
from pykafka2.types import TopicPartition

if TYPE_CHECKING:
    from pykafka2.cluster.client import ClusterClient
    from pykafka2.protocol.messages.share_offsets import (
        AlterShareGroupOffsetsRequest,
        DescribeShareGroupOffsetsRequest,
    )

K = TypeVar("K", TopicPartition, str)

ShareOffsets = Outcomes[TopicPartition, ShareGroupOffset]


class ShareGroupsAdmin(GroupsAdmin):
    """The share group calls of `KafkaAdminClient`. Timeouts are seconds; thread-safe."""

    _cluster: ClusterClient

    def describe_share_groups(
        self,
        group_ids: Iterable[str],
        *,
        include_authorized_operations: bool = False,
        timeout: float | None = None,
        raise_errors: bool = True,
    ) -> Outcomes[str, GroupDescription]:
        """Return state, coordinator and members of share groups.

        With `raise_errors=False` a group whose coordinator cannot be reached is not waited for.

        Raises:
            ItemsFailed: some failed (unless `raise_errors` is False): `GroupIdNotFound`, also for a group of
                another type, `GroupAuthorizationFailed`, `UnsupportedVersion` before Kafka 4.1.
            IllegalArgument: an argument is not valid; no request was sent.
        """
        names = texts("group_ids", group_ids)
        outcomes = self._described_share_groups(
            "describe_share_groups", names, include_authorized_operations, timeout, raise_errors
        )
        return outcomes.checked("describe_share_groups", raise_errors)

    def delete_share_groups(
        self, group_ids: Iterable[str], *, timeout: float | None = None, raise_errors: bool = True
    ) -> Outcomes[str, None]:
        """Delete share groups without members, with their offsets and the states of their records.

        Raises:
            ItemsFailed: some failed (unless `raise_errors` is False): `NonEmptyGroup` with members,
                `GroupIdNotFound`, also for a group of another type, `GroupAuthorizationFailed`.
            IllegalArgument: `group_ids` is not a list of names; no request was sent.
        """
        names = texts("group_ids", group_ids)
        operation = "delete_share_groups"
        left = time_left(self._cluster, timeout)
        refused = self._described_share_groups(operation, names, False, left()).errors
        return self._deleted(operation, names, refused, left()).checked(operation, raise_errors)

    def list_share_group_offsets(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        timeout: float | None = None,
        raise_errors: bool = True,
    ) -> ShareOffsets:
        """Return a share group's start offsets with the lag, without partitions that have none.

        Args:
            partitions: None for all partitions with an offset.
            raise_errors: if False, a partition with an error is not waited for: it is in `errors` of the
                result, which has the other partitions.

        A group that does not exist has no offsets.

        The group's coordinator reads the state of each partition, and responds once it has read all of them.
        It retries while a state is loaded or moves to another broker; the bundled broker responds at most a
        second after the state is there. A coordinator gives up after 15 s (in Apache Kafka after half a
        minute): the partition is then missing in the result, like one without an offset.

        Raises:
            ItemsFailed: the offsets of some partitions could not be read (unless `raise_errors` is False).
            KafkaTimeoutError: the offsets could not be read within `timeout`.
            RequestTimeout: `raise_errors` is False, and the coordinator did not respond within 10 s.
            GroupAuthorizationFailed: the principal lacks DESCRIBE on the group.
            IllegalArgument: an argument is not valid; no request was sent.
        """
        text("group_id", group_id)
        wanted = None if partitions is None else partitions_of("partitions", partitions)

        def read(response: Any, groups: list[str]) -> Results[str, ShareOffsets]:
            for group in response.groups:
                if group.error_code:
                    return {}, {group_id: error_of(group.error_code, group.error_message)}
                outcomes = _read_offsets(group)
                passing = [error for error in outcomes.errors.values() if error.retriable]
                if passing and raise_errors:
                    return {}, {group_id: passing[0]}
                return {group_id: outcomes}, {}
            return {}, {}

        found = at_coordinators(
            self._cluster,
            "list_share_group_offsets",
            GROUP,
            [group_id],
            lambda groups: _describe_request(group_id, wanted),
            read,
            timeout,
            waits=raise_errors,
        )
        return found[group_id].checked("list_share_group_offsets", raise_errors)

    def alter_share_group_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, int],
        *,
        timeout: float | None = None,
        raise_errors: bool = True,
    ) -> Outcomes[TopicPartition, None]:
        """Set start offsets of a share group without members; the records from there on are delivered again.

        Creates the group if it does not exist.

        Raises:
            ItemsFailed: some were not set (unless `raise_errors` is False): `UnknownTopicOrPartition`,
                `TopicAuthorizationFailed`.
            NonEmptyGroup, GroupAuthorizationFailed, GroupIdNotFound: the group has members, the principal
                lacks READ, or the group is of another type.
            IllegalArgument: an argument is not valid; no request was sent.
        """
        wanted = {
            partition: whole_number(f"offsets[{partition}]", offsets[partition], 0, INT64_MAX)
            for partition in partition_keys("offsets", offsets)
        }
        return self._at_group(
            "alter_share_group_offsets",
            group_id,
            wanted,
            lambda some: _alter_request(group_id, {partition: wanted[partition] for partition in some}),
            lambda topic: [
                (TopicPartition(topic.topic_name, one.partition_index), one) for one in topic.partitions
            ],
            timeout,
            raise_errors,
        )

    def delete_share_group_offsets(
        self,
        group_id: str,
        topics: Iterable[str],
        *,
        timeout: float | None = None,
        raise_errors: bool = True,
    ) -> Outcomes[str, None]:
        """Delete the start offsets of whole topics, and the states of their records.

        The group must not have members. It starts again by its option share.auto.offset.reset.

        Raises:
            ItemsFailed: some were not deleted (unless `raise_errors` is False): `UnknownTopicOrPartition`,
                also for a topic without offsets, `TopicAuthorizationFailed`.
            GroupIdNotFound, NonEmptyGroup, GroupAuthorizationFailed: the coordinator rejected the request.
            IllegalArgument: an argument is not valid; no request was sent.
        """
        from pykafka2.protocol.messages.share_offsets import (
            DeleteShareGroupOffsetsRequest,
            DeleteShareGroupOffsetsRequestTopic,
        )

        return self._at_group(
            "delete_share_group_offsets",
            group_id,
            texts("topics", topics),
            lambda some: DeleteShareGroupOffsetsRequest(
                group_id=group_id,
                topics=[DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in some],
            ),
            lambda topic: [(topic.topic_name, topic)],
            timeout,
            raise_errors,
        )

    def _at_group(
        self,
        operation: str,
        group_id: str,
        items: Iterable[K],
        request: Callable[[list[K]], Any],
        results: Callable[[Any], Iterable[tuple[K, Any]]],
        timeout: float | None,
        raise_errors: bool,
    ) -> Outcomes[K, None]:
        """Send items to the coordinator; `results` returns those of a topic with their error codes."""
        text("group_id", group_id)

        def read(response: Any, some: list[K]) -> Results[K, None]:
            entries = {item: one for topic in response.responses for item, one in results(topic)}
            errors = {
                item: error_of(one.error_code, one.error_message)
                for item, one in entries.items()
                if one.error_code
            }
            # A group without any offsets responds with no entries.
            missing = [item for item in some if item not in entries]
            errors.update({item: UnknownTopicOrPartition(f"{item} has no offset") for item in missing})
            return dict.fromkeys(item for item in some if item not in errors), {**errors}

        outcomes = at_group(self._cluster, operation, group_id, items, request, read, timeout)
        return outcomes.checked(operation, raise_errors)


def _describe_request(
    group_id: str, partitions: list[TopicPartition] | None
) -> DescribeShareGroupOffsetsRequest:
    from pykafka2.protocol.messages.share_offsets import (
        DescribeShareGroupOffsetsRequest,
        DescribeShareGroupOffsetsRequestGroup,
        DescribeShareGroupOffsetsRequestTopic,
    )

    topics = None
    if partitions is not None:
        topics = [
            DescribeShareGroupOffsetsRequestTopic(topic_name=name, partitions=numbers)
            for name, numbers in by_topic(partitions).items()
        ]
    group = DescribeShareGroupOffsetsRequestGroup(group_id=group_id, topics=topics)
    return DescribeShareGroupOffsetsRequest(groups=[group])


def _read_offsets(group: Any) -> ShareOffsets:
    offsets: dict[TopicPartition, ShareGroupOffset] = {}
    errors: dict[TopicPartition, KafkaError] = {}
    for topic in group.topics:
        for one in topic.partitions:
            partition = TopicPartition(topic.topic_name, one.partition_index)
            if one.error_code:
                errors[partition] = error_of(one.error_code, one.error_message)
            elif one.start_offset >= 0:
                lag = one.lag if one.lag >= 0 else None
                offsets[partition] = ShareGroupOffset(one.start_offset, one.leader_epoch, lag)
    return Outcomes({partition: offsets[partition] for partition in sorted(offsets)}, errors)


def _alter_request(group_id: str, offsets: Mapping[TopicPartition, int]) -> AlterShareGroupOffsetsRequest:
    from pykafka2.protocol.messages.share_offsets import (
        AlterShareGroupOffsetsRequest,
        AlterShareGroupOffsetsRequestPartition,
        AlterShareGroupOffsetsRequestTopic,
    )

    return AlterShareGroupOffsetsRequest(
        group_id=group_id,
        topics=[
            AlterShareGroupOffsetsRequestTopic(
                topic_name=name,
                partitions=[
                    AlterShareGroupOffsetsRequestPartition(
                        partition_index=number, start_offset=offsets[TopicPartition(name, number)]
                    )
                    for number in numbers
                ],
            )
            for name, numbers in by_topic(offsets).items()
        ],
    )
