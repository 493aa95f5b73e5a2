"""The lag of a group: how far its committed offsets are behind the ends of the partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pykafka2.admin.arguments import text
from pykafka2.admin.group_offsets import GroupOffsetsAdmin
from pykafka2.admin.group_values import GroupDescription, MemberDescription, PartitionLag
from pykafka2.admin.groups import GroupsAdmin
from pykafka2.admin.offsets import FROM_A_CLIENT, OffsetsAdmin
from pykafka2.admin.outcomes import Outcomes
from pykafka2.admin.places import at_leaders, time_left
from pykafka2.admin.rounds import Results
from pykafka2.errors import GroupIdNotFound, KafkaError, error_of
from pykafka2.types import NO_OFFSET, IsolationLevel, TopicPartition

if TYPE_CHECKING:
    from pykafka2.cluster.client import ClusterClient
    from pykafka2.protocol.messages.fetch import FetchRequest

LAST_FETCH_WITH_NAMES = 12
"""Later versions of Fetch name topics by their ids."""
ONE_BATCH = 1
"""Bytes to fetch: brokers return at least one whole batch."""


class GroupLagAdmin(GroupsAdmin, GroupOffsetsAdmin, OffsetsAdmin):
    """`KafkaAdminClient.group_lag`."""

    _cluster: ClusterClient

    def group_lag(
        self,
        group_id: str,
        *,
        isolation_level: str | IsolationLevel = "read_committed",
        with_time: bool = False,
        timeout: float | None = None,
        raise_errors: bool = True,
    ) -> Outcomes[TopicPartition, PartitionLag]:
        """Return a group's lag by partition, in records and, if requested, in time.

        All partitions count that have a committed offset or belong to a member. Offsets that were deleted
        from the log are no lag; without a committed offset the whole log is.

        Args:
            isolation_level: with "read_committed" the end is the last stable offset, so that records of an
                open transaction, which consumers cannot read yet, are no lag; with "read_uncommitted" it is
                the high watermark.
            with_time: fetch the oldest record that is not committed from each partition with a lag, and
                return its age as `lag_time`.
            raise_errors: if False, a partition that has no leader, or whose leader cannot be reached, is not
                waited for: it is in `errors` of the result, which has the lag of the others.

        Raises:
            GroupIdNotFound: the group does not exist.
            ItemsFailed: the offsets of some partitions could not be listed (unless `raise_errors` is False);
                `outcomes` has the lag of the others.
            GroupAuthorizationFailed, TopicAuthorizationFailed: the principal lacks DESCRIBE.
        """
        text("group_id", group_id)
        left = time_left(self._cluster, timeout)
        committed = self._offsets_of_groups([group_id], False, left(), waits=raise_errors)[group_id]
        owners = _owners(self._group(group_id, bool(committed), left(), raise_errors))
        earliest = dict.fromkeys(sorted({*committed, *owners}), "earliest")
        first = self._listed_offsets(earliest, "read_uncommitted", left(), waits=raise_errors)
        latest = dict.fromkeys(first.succeeded, "latest")
        last = self._listed_offsets(latest, isolation_level, left(), waits=raise_errors)
        lags: dict[TopicPartition, PartitionLag] = {}
        for partition, end in last.succeeded.items():
            offset = committed[partition].offset if partition in committed else NO_OFFSET
            start = first[partition].offset
            owner = owners.get(partition)
            lags[partition] = PartitionLag(
                offset,
                end.offset,
                max(0, end.offset - max(offset, start)),
                start=start,
                member_id=None if owner is None else owner.member_id,
                client_id=None if owner is None else owner.client_id,
            )
        if with_time:
            lags = self._with_times(lags, left(), raise_errors)
        errors = {**first.errors, **last.errors}
        return Outcomes(lags, errors).checked("group_lag", raise_errors)

    def _group(
        self, group_id: str, has_offsets: bool, timeout: float | None, waits: bool
    ) -> GroupDescription | None:
        described = self._described([group_id], timeout, waits=waits)
        error = described.errors.get(group_id)
        if isinstance(error, GroupIdNotFound) and has_offsets:
            return None  # deleted a moment ago
        return described[group_id]

    def _with_times(
        self, lags: dict[TopicPartition, PartitionLag], timeout: float | None, waits: bool
    ) -> dict[TopicPartition, PartitionLag]:
        from attrs import evolve

        behind = {partition: max(lag.committed, lag.start) for partition, lag in lags.items() if lag.lag > 0}
        times = self._oldest_times(behind, timeout, waits)
        now = self._cluster.driver.clock.wall_ms()
        timed: dict[TopicPartition, PartitionLag] = {}
        for partition, lag in lags.items():
            oldest = times.get(partition)
            if lag.lag == 0:
                timed[partition] = evolve(lag, lag_time=0.0)
            elif oldest is None or oldest < 0:
                timed[partition] = lag
            else:
                timed[partition] = evolve(lag, lag_time=max(0, now - oldest) / 1000)
        return timed

    def _oldest_times(
        self, offsets: dict[TopicPartition, int], timeout: float | None, waits: bool
    ) -> dict[TopicPartition, int]:
        """Return the timestamp of the first record at or after each offset, if it can be fetched."""
        if not offsets:
            return {}

        def read(response: Any, partitions: list[TopicPartition]) -> Results[TopicPartition, int]:
            (partition,) = partitions
            for topic in response.responses:
                for entry in topic.partitions:
                    if entry.error_code:
                        return {}, {partition: error_of(entry.error_code)}
                    timestamp = _first_timestamp(entry.records, partition, offsets[partition])
                    return {partition: timestamp}, {}
            return {}, {}

        outcomes = at_leaders(
            self._cluster,
            "group_lag",
            offsets,
            lambda partitions: _fetch_request(partitions[0], offsets[partitions[0]]),
            read,
            timeout,
            max_version=LAST_FETCH_WITH_NAMES,
            most=1,
            waits=waits,
        )
        # The time is an extra: a partition that cannot be fetched from keeps its lag in records.
        return {partition: outcomes[partition] for partition in offsets if partition not in outcomes.errors}


def _owners(group: GroupDescription | None) -> dict[TopicPartition, MemberDescription]:
    return {
        partition: member for member in (group.members if group else ()) for partition in member.assignment
    }


def _fetch_request(partition: TopicPartition, offset: int) -> FetchRequest:
    from pykafka2.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic

    return FetchRequest(
        replica_id=FROM_A_CLIENT,
        max_wait_ms=0,
        min_bytes=0,
        topics=[
            FetchTopic(
                topic=partition.topic,
                partitions=[
                    FetchPartition(
                        partition=partition.partition, fetch_offset=offset, partition_max_bytes=ONE_BATCH
                    )
                ],
            )
        ],
    )


def _first_timestamp(data: bytes | memoryview | None, partition: TopicPartition, offset: int) -> int:
    """Return the timestamp of the first record at or after the offset; -1 without one."""
    from pykafka2.records.batch_reader import any_batches, decode_any_records

    try:
        for batch in any_batches(memoryview(data or b"")):
            if getattr(batch, "is_control", False):
                continue
            for record in decode_any_records(batch, partition.topic, partition.partition, offset):
                return record.timestamp
    except KafkaError:  # a damaged batch, or one of a codec that is not installed
        pass
    return -1
