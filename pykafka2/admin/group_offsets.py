"""Committed offsets of groups: list, alter, delete (OffsetFetch, OffsetCommit, OffsetDelete)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, overload

from pykafka2.admin.arguments import partitions_of, text, texts
from pykafka2.admin.offsets import by_topic
from pykafka2.admin.outcomes import ItemsFailed, Outcomes
from pykafka2.admin.places import at_coordinators, at_group, at_one
from pykafka2.admin.rounds import Results
from pykafka2.cluster.offset_arguments import checked_offsets
from pykafka2.driver.pollable import GROUP, ToCoordinator
from pykafka2.errors import (
    KafkaError,
    RebalanceInProgress,
    UnknownMemberId,
    UnsupportedVersion,
    error_of,
)
from pykafka2.types import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from pykafka2.cluster.client import ClusterClient
    from pykafka2.protocol.messages.committed_offsets import OffsetFetchRequest

LAST_WITH_NAMES = 9
"""Later versions of OffsetCommit and OffsetFetch name topics by their ids."""
LAST_WITH_ONE_GROUP = 7
"""The last version of OffsetFetch that takes one group per request."""
HAS_MEMBERS = (
    "the group has members, and only they may commit; stop them, then alter the offsets of the empty group"
)

GroupOffsets = dict[TopicPartition, OffsetAndMetadata]
"""The committed offsets of a group, by partition."""


class GroupOffsetsAdmin:
    """The calls of `KafkaAdminClient` about committed offsets. Timeouts are seconds; thread-safe."""

    _cluster: ClusterClient

    @overload
    def list_group_offsets(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        require_stable: bool = False,
        timeout: float | None = None,
    ) -> GroupOffsets: ...

    @overload
    def list_group_offsets(
        self,
        group_id: list[str] | tuple[str, ...] | Mapping[str, Iterable[TopicPartition] | None],
        *,
        require_stable: bool = False,
        timeout: float | None = None,
    ) -> Outcomes[str, GroupOffsets]: ...

    def list_group_offsets(
        self,
        group_id: str | list[str] | tuple[str, ...] | Mapping[str, Iterable[TopicPartition] | None],
        partitions: Iterable[TopicPartition] | None = None,
        *,
        require_stable: bool = False,
        timeout: float | None = None,
    ) -> GroupOffsets | Outcomes[str, GroupOffsets]:
        """Return a group's committed offsets, without partitions that have none.

        Args:
            group_id: the group; a list or dict is for `list_offsets_of_groups`, as in kafka-python.
            partitions: None for all partitions with an offset.
            require_stable: wait for open transactions that commit offsets (KIP-447), instead of returning
                the offsets before them.

        A group that does not exist has no offsets. Raise the group's error of `list_offsets_of_groups`.
        """
        if not isinstance(group_id, str):
            return self.list_offsets_of_groups(group_id, require_stable=require_stable, timeout=timeout)
        wanted = {text("group_id", group_id): partitions}
        return self._offsets_of_groups(wanted, require_stable, timeout)[group_id]

    def list_offsets_of_groups(
        self,
        groups: Iterable[str] | Mapping[str, Iterable[TopicPartition] | None],
        *,
        require_stable: bool = False,
        timeout: float | None = None,
        raise_errors: bool = True,
    ) -> Outcomes[str, GroupOffsets]:
        """Return the committed offsets of many groups, one request for each coordinator (KIP-709).

        With `raise_errors=False` a group whose coordinator cannot be reached is not waited for.

        Args:
            groups: group ids, or a dict of partitions by group id (None: all with an offset).
            require_stable: see `list_group_offsets`.

        Raises:
            ItemsFailed: some failed (unless `raise_errors` is False): `GroupAuthorizationFailed`,
                `KafkaTimeoutError` while a transaction is open.
            IllegalArgument: an argument is not valid; no request was sent.
        """
        outcomes = self._offsets_of_groups(groups, require_stable, timeout, waits=raise_errors)
        return outcomes.checked("list_offsets_of_groups", raise_errors)

    def _offsets_of_groups(
        self,
        groups: Iterable[str] | Mapping[str, Iterable[TopicPartition] | None],
        require_stable: bool,
        timeout: float | None,
        *,
        waits: bool = True,
    ) -> Outcomes[str, GroupOffsets]:
        """Return the outcomes of `list_offsets_of_groups`."""
        wanted: dict[str, list[TopicPartition] | None]
        if isinstance(groups, Mapping):
            names = texts("groups", groups)
            wanted = {
                name: None if groups[name] is None else partitions_of("partitions", groups[name] or ())
                for name in names
            }
        else:
            wanted = dict.fromkeys(texts("groups", groups))

        def fetch(names: Iterable[str], *, batched: bool) -> Outcomes[str, GroupOffsets]:
            return at_coordinators(
                self._cluster,
                "list_group_offsets",
                GROUP,
                names,
                lambda some: _fetch_request({name: wanted[name] for name in some}, require_stable, batched),
                _read_offsets,
                timeout,
                max_version=LAST_WITH_NAMES if batched else LAST_WITH_ONE_GROUP,
                most=None if batched else 1,
                waits=waits,
            )

        outcomes = fetch(wanted, batched=True)
        old = [name for name, error in outcomes.errors.items() if isinstance(error, UnsupportedVersion)]
        if old:  # coordinators before Kafka 3.0
            found = fetch(old, batched=False)
            errors = {name: error for name, error in outcomes.errors.items() if name not in found}
            outcomes = Outcomes(outcomes.succeeded | found.succeeded, errors | found.errors)
        return outcomes

    def alter_group_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, OffsetAndMetadata | int],
        *,
        timeout: float | None = None,
        raise_errors: bool = True,
    ) -> Outcomes[TopicPartition, None]:
        """Commit offsets for a group without members; creates the group if it does not exist.

        Raises:
            ItemsFailed: some were not committed (unless `raise_errors` is False): `UnknownMemberId` if the
                group has members, `UnknownTopicOrPartition`, `GroupAuthorizationFailed`,
                `TopicAuthorizationFailed`.
            IllegalArgument: an argument is not valid; no request was sent.
        """
        from pykafka2.protocol.messages.committed_offsets import (
            OffsetCommitRequest,
            OffsetCommitRequestPartition,
            OffsetCommitRequestTopic,
        )

        text("group_id", group_id)
        wanted = checked_offsets(offsets)

        def request(partitions: list[TopicPartition]) -> OffsetCommitRequest:
            topics = [
                OffsetCommitRequestTopic(
                    name=name,
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=number,
                            committed_offset=wanted[TopicPartition(name, number)].offset,
                            committed_leader_epoch=wanted[TopicPartition(name, number)].leader_epoch,
                            committed_metadata=wanted[TopicPartition(name, number)].metadata,
                        )
                        for number in numbers
                    ],
                )
                for name, numbers in by_topic(partitions).items()
            ]
            return OffsetCommitRequest(group_id=group_id, topics=topics)

        outcomes = at_one(
            self._cluster,
            "alter_group_offsets",
            wanted,
            request,
            lambda response, partitions: _read_by_partition(response, _error_of_commit),
            timeout,
            to=ToCoordinator(GROUP, group_id),
            retries=_is_worth_retrying,
            max_version=LAST_WITH_NAMES,
        )
        return outcomes.checked("alter_group_offsets", raise_errors)

    def delete_group_offsets(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition],
        *,
        timeout: float | None = None,
        raise_errors: bool = True,
    ) -> Outcomes[TopicPartition, None]:
        """Delete committed offsets (KIP-496); a partition without one is no error.

        Raises:
            ItemsFailed: some failed (unless `raise_errors` is False): `GroupSubscribedToTopic` while a member
                reads the topic, `UnknownTopicOrPartition`.
            GroupIdNotFound, NonEmptyGroup, GroupAuthorizationFailed: the coordinator refused the request.
            IllegalArgument: an argument is not valid; no request was sent.
        """
        from pykafka2.protocol.messages.committed_offsets import (
            OffsetDeleteRequest,
            OffsetDeleteRequestPartition,
            OffsetDeleteRequestTopic,
        )

        text("group_id", group_id)
        wanted = partitions_of("partitions", partitions)

        def request(some: list[TopicPartition]) -> OffsetDeleteRequest:
            return OffsetDeleteRequest(
                group_id=group_id,
                topics=[
                    OffsetDeleteRequestTopic(
                        name=name,
                        partitions=[
                            OffsetDeleteRequestPartition(partition_index=number) for number in numbers
                        ],
                    )
                    for name, numbers in by_topic(some).items()
                ],
            )

        outcomes = at_group(
            self._cluster,
            "delete_group_offsets",
            group_id,
            wanted,
            request,
            lambda response, some: _read_by_partition(response, error_of),
            timeout,
        )
        return outcomes.checked("delete_group_offsets", raise_errors)


def raise_single(outcomes: Outcomes[Any, Any], operation: str) -> None:
    """Raise the error that all items share, or ItemsFailed if they differ; return if none failed."""
    kinds = {(type(error), str(error)) for error in outcomes.errors.values()}
    if len(kinds) == 1 and len(outcomes.errors) == len(outcomes):
        raise next(iter(outcomes.errors.values()))
    if kinds:
        raise ItemsFailed(operation, outcomes)


def _fetch_request(
    groups: Mapping[str, list[TopicPartition] | None], require_stable: bool, batched: bool
) -> OffsetFetchRequest:
    from pykafka2.protocol.messages.committed_offsets import (
        OffsetFetchRequest,
        OffsetFetchRequestGroup,
        OffsetFetchRequestTopic,
        OffsetFetchRequestTopics,
    )

    if batched:
        return OffsetFetchRequest(
            groups=[
                OffsetFetchRequestGroup(
                    group_id=name,
                    topics=None
                    if partitions is None
                    else [
                        OffsetFetchRequestTopics(name=topic, partition_indexes=numbers)
                        for topic, numbers in by_topic(partitions).items()
                    ],
                )
                for name, partitions in groups.items()
            ],
            require_stable=require_stable,
        )
    ((name, partitions),) = groups.items()
    return OffsetFetchRequest(
        group_id=name,
        topics=None
        if partitions is None
        else [
            OffsetFetchRequestTopic(name=topic, partition_indexes=numbers)
            for topic, numbers in by_topic(partitions).items()
        ],
        require_stable=require_stable,
    )


def _read_offsets(response: Any, names: list[str]) -> Results[str, GroupOffsets]:
    found: dict[str, GroupOffsets] = {}
    errors: dict[str, KafkaError] = {}
    groups = {group.group_id: group for group in response.groups}
    if not groups:  # a version with one group
        groups = {names[0]: response}
    for name, group in groups.items():
        if group.error_code:
            errors[name] = error_of(group.error_code)
            continue
        offsets: GroupOffsets = {}
        for topic in group.topics:
            for entry in topic.partitions:
                if entry.error_code:
                    # Such as UNSTABLE_OFFSET_COMMIT: the group's other offsets are requested again, too.
                    text = f"{topic.name}-{entry.partition_index}: {error_of(entry.error_code)}"
                    errors[name] = error_of(entry.error_code, text)
                elif entry.committed_offset >= 0:
                    offsets[TopicPartition(topic.name, entry.partition_index)] = OffsetAndMetadata(
                        entry.committed_offset, entry.metadata or "", entry.committed_leader_epoch
                    )
        if name not in errors:
            found[name] = {partition: offsets[partition] for partition in sorted(offsets)}
    return found, errors


def _read_by_partition(response: Any, error: Any) -> Results[TopicPartition, None]:
    done: dict[TopicPartition, None] = {}
    errors: dict[TopicPartition, KafkaError] = {}
    for topic in response.topics:
        for entry in topic.partitions:
            partition = TopicPartition(topic.name, entry.partition_index)
            if entry.error_code:
                errors[partition] = error(entry.error_code)
            else:
                done[partition] = None
    return done, errors


def _error_of_commit(code: int) -> KafkaError:
    error = error_of(code)
    return UnknownMemberId(HAS_MEMBERS) if isinstance(error, UnknownMemberId) else error


def _is_worth_retrying(error: KafkaError) -> bool:
    """Return True also during a rebalance, after which the group can be empty, as in Java."""
    return error.retriable or isinstance(error, RebalanceInProgress)
