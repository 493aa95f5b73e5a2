"""Fetches a group's committed offsets from its coordinator (OffsetFetch).

Used on the caller's thread; the driver sends the requests and retries retriable errors. An error never counts
as "no committed offset", because the reset policy could then skip records. The offsets of an open transaction
are waited for, as in Java (KIP-447): a start before its end could read records twice. Brokers before 2.5 do
not report open transactions. Neighbor: start_positions.py.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from enum import Enum

from pykafka2.cluster.client import ClusterClient
from pykafka2.consumer.commit.errors import MembershipMoved
from pykafka2.consumer.commit.topic_ids import TopicIds
from pykafka2.consumer.state.group_identity import GroupStatus, Rejection
from pykafka2.driver.completion import Completion
from pykafka2.driver.pollable import GROUP, ToCoordinator
from pykafka2.errors import (
    CorruptResponse,
    KafkaError,
    StaleMemberEpoch,
    UnknownMemberId,
    UnsupportedVersion,
    error_of,
)
from pykafka2.protocol.messages.committed_offsets import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
)
from pykafka2.text import named
from pykafka2.types import NO_OFFSET, OffsetAndMetadata, TopicPartition

Found = dict[TopicPartition, OffsetAndMetadata | None]
_MEMBERSHIP_ERRORS = (StaleMemberEpoch, UnknownMemberId)


class RequestFormat(Enum):
    """Formats of OffsetFetch, newest first. An older one follows when the coordinator rejects the version."""

    GROUPS = None
    """Several groups in one request (KIP-709)."""
    STABLE_OFFSETS = 7
    """One group; the offsets of open transactions are waited for (KIP-447)."""
    ONE_GROUP = 6
    """One group; offsets of open transactions are not reported."""

    @property
    def max_version(self) -> int | None:
        """The highest version, also for newer brokers: the next coordinator can be an older one."""
        version: int | None = self.value
        return version

    @property
    def older(self) -> RequestFormat | None:
        return {
            RequestFormat.GROUPS: RequestFormat.STABLE_OFFSETS,
            RequestFormat.STABLE_OFFSETS: RequestFormat.ONE_GROUP,
        }.get(self)


class CommittedOffsets:
    """Fetches the committed offsets of one group."""

    def __init__(self, cluster: ClusterClient, group_status: GroupStatus) -> None:
        self.clock = cluster.driver.clock
        self._cluster = cluster
        self._group_status = group_status
        self._group_id = group_status.group_id
        self.request_format = RequestFormat.GROUPS

    def of(self, partitions: Collection[TopicPartition], timeout: float) -> Found:
        """Wait for the committed offsets; None for a partition without one.

        Raises:
            KafkaTimeoutError, NoBrokersAvailable: no response within `timeout` seconds.
            GroupAuthorizationFailed, TopicAuthorizationFailed: raised at once, without a retry.
        """
        if not partitions:
            return {}
        fetch = _OffsetFetch(self, self._cluster, partitions)
        try:
            response = self._cluster.request(
                fetch.request(),
                self._to,
                timeout,
                fetch.refusal,
                fetch.max_version,
                fetch.request,
            )
        except UnsupportedVersion as error:
            if not self.falls_back(error, fetch.request_format):
                raise
            return self.of(partitions, timeout)
        return self.read(response, partitions)

    def start(self, partitions: Collection[TopicPartition]) -> Completion[OffsetFetchResponse]:
        """Start an OffsetFetch without waiting, for default_api_timeout_ms; `read` decodes the response."""
        fetch = _OffsetFetch(self, self._cluster, partitions)
        return self._cluster.start(
            fetch.request(), self._to, None, fetch.refusal, fetch.max_version, fetch.request
        )

    def falls_back(self, error: BaseException, used: RequestFormat) -> bool:
        """Return whether to retry in an older format after this error of a request in the format `used`."""
        if not isinstance(error, UnsupportedVersion) or used.older is None:
            return False
        if used is self.request_format:  # otherwise another request has fallen back already
            self.request_format = used.older
        return True

    def read(self, response: OffsetFetchResponse, partitions: Iterable[TopicPartition]) -> Found:
        by_partition = self._partitions_of(response)
        found: Found = {}
        for partition in partitions:
            committed = by_partition[partition]
            if committed.committed_offset < 0:
                found[partition] = None
            else:
                found[partition] = OffsetAndMetadata(
                    committed.committed_offset, committed.metadata or "", committed.committed_leader_epoch
                )
        return found

    # ------------------------------------------------------------------ for one OffsetFetch

    @property
    def _to(self) -> ToCoordinator:
        return ToCoordinator(GROUP, self._group_id)

    def request(
        self, partitions: Iterable[TopicPartition], ids: TopicIds, request_format: RequestFormat
    ) -> OffsetFetchRequest:
        numbers: dict[str, list[int]] = {}
        for topic, number in partitions:
            numbers.setdefault(topic, []).append(number)
        if request_format is RequestFormat.GROUPS:
            topics = [
                OffsetFetchRequestTopics(name=name, topic_id=ids.of_topic(name), partition_indexes=some)
                for name, some in numbers.items()
            ]
            group = OffsetFetchRequestGroup(group_id=self._group_id, topics=topics)
            identity = self._group_status.identity
            if identity.membership:  # so that the coordinator rejects a stale epoch
                group.member_id, group.member_epoch = identity.member_id, identity.generation_id
            return OffsetFetchRequest(groups=[group], require_stable=True)
        return OffsetFetchRequest(
            group_id=self._group_id,
            topics=[
                OffsetFetchRequestTopic(name=name, partition_indexes=some) for name, some in numbers.items()
            ],
            require_stable=request_format is RequestFormat.STABLE_OFFSETS,
        )

    def _partitions_of(
        self, response: OffsetFetchResponse
    ) -> dict[TopicPartition, OffsetFetchResponsePartition | OffsetFetchResponsePartitions]:
        by_partition: dict[TopicPartition, OffsetFetchResponsePartition | OffsetFetchResponsePartitions] = {}
        for group in response.groups:
            if group.group_id == self._group_id:
                for topic in group.topics:
                    for partition in topic.partitions:
                        by_partition[TopicPartition(topic.name, partition.partition_index)] = partition
        for old_topic in response.topics:  # of the formats with one group
            for old_partition in old_topic.partitions:
                by_partition[TopicPartition(old_topic.name, old_partition.partition_index)] = old_partition
        return by_partition

    def refusal(
        self, response: OffsetFetchResponse, partitions: Collection[TopicPartition], ids: TopicIds
    ) -> KafkaError | None:
        for group in response.groups:
            ids.give_names(group.topics)
        codes = [response.error_code, *(group.error_code for group in response.groups)]
        for code in codes:
            if code:
                error = error_of(code, f"group {self._group_id!r}: {error_of(code)}")
                return self._moved(error) if isinstance(error, _MEMBERSHIP_ERRORS) else error
        by_partition = self._partitions_of(response)
        missing = [partition for partition in partitions if partition not in by_partition]
        if missing:
            return CorruptResponse(f"the OffsetFetch response lacks {named(missing)}")
        failed = [partition for partition in partitions if by_partition[partition].error_code]
        if not failed:
            # -1 means no committed offset. A smaller number is invalid and must not reset the position.
            offsets = {partition: by_partition[partition].committed_offset for partition in partitions}
            invalid = [
                f"{partition} at {offset}" for partition, offset in offsets.items() if offset < NO_OFFSET
            ]
            if not invalid:
                return None
            return CorruptResponse(f"the OffsetFetch response has invalid offsets: {named(invalid)}")
        worst = min(failed, key=lambda partition: error_of(by_partition[partition].error_code).retriable)
        code = by_partition[worst].error_code
        return error_of(code, f"the committed offset of {worst}: {error_of(code)}")

    def _moved(self, error: KafkaError) -> KafkaError:
        """Return `MembershipMoved` for an error that is about the member and not about the offsets."""
        identity = self._group_status.identity
        if isinstance(error, UnknownMemberId) and identity.membership:
            self._group_status.rejection = Rejection(identity, error)
        moved = MembershipMoved(str(error))
        moved.__cause__ = error
        return moved


class _OffsetFetch:
    """An OffsetFetch for some partitions, in one or more attempts."""

    def __init__(
        self, committed: CommittedOffsets, cluster: ClusterClient, partitions: Collection[TopicPartition]
    ) -> None:
        self._committed = committed
        self._metadata = cluster.metadata
        self._partitions = partitions
        self._topics = {topic for topic, _ in partitions}
        self.request_format = committed.request_format
        self.ids = TopicIds.of(self._topics, cluster.metadata)

    @property
    def max_version(self) -> int | None:
        """The highest version that all attempts can use."""
        of_format = self.request_format.max_version
        return self.ids.max_version if of_format is None else of_format

    def request(self) -> OffsetFetchRequest:
        """Return the request of the next attempt, with the current identity and topic ids."""
        if self.ids.by_name:  # otherwise the version was negotiated for names
            known = TopicIds.of(self._topics, self._metadata)
            self.ids = known if known.by_name else self.ids
        return self._committed.request(self._partitions, self.ids, self.request_format)

    def refusal(self, response: OffsetFetchResponse) -> KafkaError | None:
        return self._committed.refusal(response, self._partitions, self.ids)
