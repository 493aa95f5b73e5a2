"""Offsets of partitions by time and kind (ListOffsets), and the deletion of records (DeleteRecords)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from pykafka2.admin.arguments import partition_keys, request_timeout_ms, seconds_of
from pykafka2.admin.group_values import OffsetSpec
from pykafka2.admin.outcomes import Outcomes
from pykafka2.admin.places import at_leaders
from pykafka2.admin.rounds import Results
from pykafka2.errors import IllegalArgument, KafkaError, error_of
from pykafka2.option_fields import INT64_MAX
from pykafka2.types import IsolationLevel, OffsetAndTimestamp, TopicPartition

if TYPE_CHECKING:
    from pykafka2.cluster.client import ClusterClient

FROM_A_CLIENT = -1
"""The replica id of requests that no follower sends."""
MIN_VERSIONS = {
    OffsetSpec.MAX_TIMESTAMP: 7,
    OffsetSpec.EARLIEST_LOCAL: 8,
    OffsetSpec.LATEST_TIERED: 9,
    OffsetSpec.EARLIEST_PENDING_UPLOAD: 11,
}
"""Versions of ListOffsets before these would take the number for a time."""
SPECS = {spec.name.lower(): spec for spec in OffsetSpec}
ISOLATION = {
    "read_uncommitted": IsolationLevel.READ_UNCOMMITTED,
    "read_committed": IsolationLevel.READ_COMMITTED,
}


class OffsetsAdmin:
    """The offset and record calls of `KafkaAdminClient`. Timeouts are seconds; thread-safe."""

    _cluster: ClusterClient

    def list_offsets(
        self,
        specs: Mapping[TopicPartition, str | int],
        *,
        isolation_level: str | IsolationLevel = "read_uncommitted",
        timeout: float | None = None,
        raise_errors: bool = True,
    ) -> Outcomes[TopicPartition, OffsetAndTimestamp]:
        """Return an offset of each partition from its leader.

        Args:
            specs: by partition "earliest", "latest" (the high watermark, or the last stable offset with
                "read_committed"), "max_timestamp" (KIP-734), "earliest_local", "latest_tiered",
                "earliest_pending_upload" (tiered storage), an `OffsetSpec`, or a time in milliseconds since
                the epoch: the first record that is not older.
            isolation_level: "read_committed" ignores records after the last stable offset.

        The timestamp is -1 unless a time or "max_timestamp" was requested. The offset is -1 if no record
        matches. With `raise_errors=False` a partition that has no leader, or whose leader cannot be
        reached, is not waited for.

        Raises:
            ItemsFailed: some failed (unless `raise_errors` is False): `UnknownTopicOrPartition`,
                `TopicAuthorizationFailed`, `UnsupportedVersion` if the broker does not know the kind.
            IllegalArgument: an argument is not valid; no request was sent.
        """
        outcomes = self._listed_offsets(specs, isolation_level, timeout, waits=raise_errors)
        return outcomes.checked("list_offsets", raise_errors)

    def _listed_offsets(
        self,
        specs: Mapping[TopicPartition, str | int],
        isolation_level: str | IsolationLevel,
        timeout: float | None,
        *,
        waits: bool,
    ) -> Outcomes[TopicPartition, OffsetAndTimestamp]:
        """Return the outcomes of `list_offsets`."""
        from pykafka2.protocol.messages.offsets import (
            ListOffsetsPartition,
            ListOffsetsRequest,
            ListOffsetsTopic,
        )

        times = {
            partition: offset_time(partition, specs[partition])
            for partition in partition_keys("specs", specs)
        }
        isolation = isolation_number(isolation_level)
        timeout_ms = request_timeout_ms(self._cluster, timeout)

        def request(partitions: list[TopicPartition]) -> ListOffsetsRequest:
            topics = [
                ListOffsetsTopic(
                    name=name,
                    partitions=[
                        ListOffsetsPartition(
                            partition_index=number, timestamp=times[TopicPartition(name, number)]
                        )
                        for number in numbers
                    ],
                )
                for name, numbers in by_topic(partitions).items()
            ]
            return ListOffsetsRequest(
                replica_id=FROM_A_CLIENT, isolation_level=isolation, topics=topics, timeout_ms=timeout_ms
            )

        def read(
            response: Any, partitions: list[TopicPartition]
        ) -> Results[TopicPartition, OffsetAndTimestamp]:
            found: dict[TopicPartition, OffsetAndTimestamp] = {}
            errors: dict[TopicPartition, KafkaError] = {}
            for topic in response.topics:
                for entry in topic.partitions:
                    partition = TopicPartition(topic.name, entry.partition_index)
                    if entry.error_code:
                        errors[partition] = error_of(entry.error_code)
                    else:
                        found[partition] = OffsetAndTimestamp(
                            entry.offset, entry.timestamp, entry.leader_epoch
                        )
            return found, errors

        return at_leaders(
            self._cluster,
            "list_offsets",
            times,
            request,
            read,
            timeout,
            min_version=lambda partition: _min_version(times[partition]),
            waits=waits,
        )

    def delete_records(
        self,
        before_offsets: Mapping[TopicPartition, int],
        *,
        timeout: float | None = None,
        timeout_ms: float | None = None,
        raise_errors: bool = True,
    ) -> Outcomes[TopicPartition, int]:
        """Delete the records before these offsets (-1: all); return the new log start offsets.

        Raises:
            ItemsFailed: some failed (unless `raise_errors` is False): `OffsetOutOfRange` above the high
                watermark, `PolicyViolation` for a topic that is only compacted, `UnknownTopicOrPartition`,
                `TopicAuthorizationFailed`.
            IllegalArgument: an argument is not valid; no request was sent.
        """
        from pykafka2.protocol.messages.topics import (
            DeleteRecordsPartition,
            DeleteRecordsRequest,
            DeleteRecordsTopic,
        )

        timeout = seconds_of(timeout, timeout_ms)
        offsets = {
            partition: _before(partition, before_offsets[partition])
            for partition in partition_keys("before_offsets", before_offsets)
        }
        milliseconds = request_timeout_ms(self._cluster, timeout)

        def request(partitions: list[TopicPartition]) -> DeleteRecordsRequest:
            topics = [
                DeleteRecordsTopic(
                    name=name,
                    partitions=[
                        DeleteRecordsPartition(
                            partition_index=number, offset=offsets[TopicPartition(name, number)]
                        )
                        for number in numbers
                    ],
                )
                for name, numbers in by_topic(partitions).items()
            ]
            return DeleteRecordsRequest(topics=topics, timeout_ms=milliseconds)

        def read(response: Any, partitions: list[TopicPartition]) -> Results[TopicPartition, int]:
            found: dict[TopicPartition, int] = {}
            errors: dict[TopicPartition, KafkaError] = {}
            for topic in response.topics:
                for entry in topic.partitions:
                    partition = TopicPartition(topic.name, entry.partition_index)
                    if entry.error_code:
                        errors[partition] = error_of(entry.error_code)
                    else:
                        found[partition] = entry.low_watermark
            return found, errors

        outcomes = at_leaders(self._cluster, "delete_records", offsets, request, read, timeout)
        return outcomes.checked("delete_records", raise_errors)


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Return the numbers of the partitions by topic."""
    topics: dict[str, list[int]] = {}
    for topic, number in partitions:
        topics.setdefault(topic, []).append(number)
    return topics


def offset_time(partition: TopicPartition, spec: object) -> int:
    """Return the number of a spec in requests. Raise IllegalArgument."""
    if isinstance(spec, str) and spec in SPECS:
        return SPECS[spec].value
    if isinstance(spec, int) and not isinstance(spec, bool) and min(OffsetSpec) <= spec <= INT64_MAX:
        return int(spec)
    raise IllegalArgument(
        f"{partition}: {spec!r} is not valid; use a time in milliseconds or one of {', '.join(SPECS)}"
    )


def _min_version(time: int) -> int | None:
    return None if time >= 0 else MIN_VERSIONS.get(OffsetSpec(time))


def isolation_number(level: object) -> int:
    """Return the number of an isolation level in requests. Raise IllegalArgument for any other value."""
    if isinstance(level, str) and level in ISOLATION:
        return ISOLATION[level].value
    if isinstance(level, int) and level in tuple(IsolationLevel):
        return int(level)
    raise IllegalArgument(f"isolation_level={level!r} is not valid; use one of {', '.join(ISOLATION)}")


def _before(partition: TopicPartition, offset: object) -> int:
    offset = getattr(offset, "before_offset", offset)
    if isinstance(offset, bool) or not isinstance(offset, int) or not -1 <= offset <= INT64_MAX:
        raise IllegalArgument(f"{partition}: the offset must be an int from 0, or -1 for all, not {offset!r}")
    return offset
