"""Offsets by time and the first and last offsets of partitions (ListOffsets).

`OffsetLookups` runs on the driver's thread and retries each lookup until it succeeds, fails or times out;
resets use it, too. `OffsetQueries` blocks the caller's thread for `beginning_offsets`, `end_offsets` and
`offsets_for_times`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial

from pykafka2.backoff import Backoff
from pykafka2.clock import FOREVER
from pykafka2.cluster.client import ClusterClient
from pykafka2.driver.pollable import PollResult, Send, ToNode
from pykafka2.driver.wait_queue import WaitQueue
from pykafka2.errors import (
    KafkaError,
    KafkaTimeoutError,
    LeaderNotAvailable,
    RequestTimeout,
    UnknownLeaderEpoch,
    UnknownServerError,
    UnknownTopicOrPartition,
    UnknownUntilTimeout,
    error_of,
)
from pykafka2.protocol.messages.offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from pykafka2.protocol.primitives import ZERO_UUID
from pykafka2.slotted import slotted
from pykafka2.text import counted
from pykafka2.types import OffsetAndTimestamp, TopicPartition

UNKNOWN_OFFSET = -1


@slotted(eq=False)
class OffsetLookup:
    """A request for one partition's offset at a timestamp (in milliseconds, or -2 and -1 for the log's ends).

    `on_found` receives None if no record has that or a later timestamp. Either `on_found` or `on_failed` is
    called once, on the driver's thread.
    """

    partition: TopicPartition
    timestamp: int
    on_found: Callable[[OffsetAndTimestamp | None, float], None]
    on_failed: Callable[[KafkaError, float], None]
    deadline: float = FOREVER
    is_of_read_topic: bool = False
    """Whether the consumer reads this topic, so that its metadata is requested anyway."""
    backoff: Backoff | None = None
    not_before: float = -FOREVER
    is_in_flight: bool = False
    is_over: bool = False
    last_error: KafkaError | None = None


class OffsetLookups:
    """The lookups in progress of one consumer (a `Pollable`)."""

    def __init__(self, cluster: ClusterClient, isolation: int) -> None:
        self._cluster = cluster
        self._isolation = isolation
        # In order; removal from a list would take linear time.
        self.work = self._lookups = dict[OffsetLookup, None]()

    def add(self, lookup: OffsetLookup) -> None:
        options = self._cluster.options
        random = self._cluster.driver.entropy.random
        lookup.backoff = Backoff(options.retry_backoff, options.retry_backoff_max, random)
        self._lookups[lookup] = None

    def cancel(self, lookup: OffsetLookup) -> None:
        """Cancel a lookup: it is not retried, and neither callback is called."""
        if not lookup.is_over:
            lookup.is_over = True
            self._lookups.pop(lookup, None)  # a Ctrl-C can come before `add`

    def last_error_of(self, partition: TopicPartition) -> str | None:
        """Return the error of the last attempt for this partition; None without a lookup.  Any thread."""
        for lookup in tuple(self._lookups):
            if lookup.partition == partition and lookup.last_error is not None:
                return str(lookup.last_error)
        return None

    def poll(self, now: float) -> PollResult:
        """Send the lookups that are due, and fail those that have timed out, also in flight."""
        result = PollResult([])
        by_node: dict[int, list[OffsetLookup]] = {}
        for lookup in list(self._lookups):
            if now >= lookup.deadline:
                self._end(lookup, self._timed_out(lookup), now)
                continue
            result.wake_at = min(result.wake_at, lookup.deadline)
            if lookup.is_in_flight:
                continue
            leader = self._leader(lookup, now) if now >= lookup.not_before else None
            if leader is not None:
                by_node.setdefault(leader, []).append(lookup)
            elif lookup.not_before > now:
                result.wake_at = min(result.wake_at, lookup.not_before)
        for node_id in sorted(by_node):
            result.sends.append(self._send(node_id, by_node[node_id]))
        return result

    def _leader(self, lookup: OffsetLookup, now: float) -> int | None:
        """Return the leader's id; None if it is unknown, or the lookup has just failed."""
        topic, number = lookup.partition
        metadata = self._cluster.metadata
        if not lookup.is_of_read_topic:
            metadata.want_topic(topic, now)
        error = metadata.topic_error(topic)
        if error is not None and not error.retriable:
            self._end(lookup, error, now)
            return None
        info = metadata.leader_of(topic, number)
        if info is not None:
            return info.leader
        known = metadata.topic(topic)
        if known is not None:  # otherwise its metadata is being fetched, and its arrival wakes the driver
            is_missing = known.is_usable and number not in known.partitions
            lookup.last_error = (
                _no_partition(lookup, len(known.partitions))
                if is_missing
                else error or LeaderNotAvailable(f"{lookup.partition} has no leader")
            )
            metadata.request_update()
            self._delay(lookup, now)
        return None

    def _send(self, node_id: int, lookups: list[OffsetLookup]) -> Send[ListOffsetsResponse]:
        by_topic: dict[str, list[ListOffsetsPartition]] = {}
        in_flight: dict[TopicPartition, list[OffsetLookup]] = {}
        for lookup in lookups:
            lookup.is_in_flight = True
            same = in_flight.setdefault(lookup.partition, [])
            if same and same[0].timestamp != lookup.timestamp:
                # Another timestamp of the same partition goes into the next request.
                lookup.is_in_flight = False
                continue
            same.append(lookup)
            if len(same) == 1:
                topic, number = lookup.partition
                info = self._cluster.metadata.partition(topic, number)
                by_topic.setdefault(topic, []).append(
                    ListOffsetsPartition(
                        partition_index=number,
                        current_leader_epoch=info.leader_epoch if info is not None else -1,
                        timestamp=lookup.timestamp,
                    )
                )
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=self._isolation,
            topics=[
                ListOffsetsTopic(name=topic, partitions=partitions) for topic, partitions in by_topic.items()
            ],
            timeout_ms=int(self._cluster.options.request_timeout * 1000),
        )
        return Send(
            request,
            ToNode(node_id),
            partial(self._on_response, in_flight),
            partial(self._on_failure, in_flight),
            min_version=1,  # before KIP-79 the response was a list of segments
        )

    def _on_response(
        self, in_flight: dict[TopicPartition, list[OffsetLookup]], response: ListOffsetsResponse, now: float
    ) -> None:
        results = {
            TopicPartition(topic.name, result.partition_index): result
            for topic in response.topics
            for result in topic.partitions
        }
        for partition, lookups in in_flight.items():
            for lookup in lookups:
                lookup.is_in_flight = False
                result = results.get(partition)
                if lookup.is_over:
                    continue
                if result is None:
                    self._delay(lookup, now)
                elif result.error_code:
                    words = f"{partition}: {error_of(result.error_code)}"
                    self._on_error(lookup, error_of(result.error_code, words), now)
                else:
                    self._complete(lookup, result, now)

    def _on_failure(
        self, in_flight: dict[TopicPartition, list[OffsetLookup]], error: KafkaError, now: float
    ) -> None:
        for lookups in in_flight.values():
            for lookup in lookups:
                lookup.is_in_flight = False
                if not lookup.is_over:
                    self._on_error(lookup, error, now)

    def _complete(self, lookup: OffsetLookup, result: ListOffsetsPartitionResponse, now: float) -> None:
        lookup.is_over = True
        del self._lookups[lookup]
        found = None
        if result.offset > UNKNOWN_OFFSET:
            found = OffsetAndTimestamp(result.offset, result.timestamp, result.leader_epoch)
        lookup.on_found(found, now)

    def _on_error(self, lookup: OffsetLookup, error: KafkaError, now: float) -> None:
        # An unknown server error can be transient; the Java client retries it, too.
        if not error.retriable and not isinstance(error, UnknownServerError):
            self._end(lookup, error, now)
            return
        lookup.last_error = error
        if error.refresh_metadata or isinstance(error, UnknownLeaderEpoch):
            self._cluster.metadata.request_update(error)
        self._delay(lookup, now)

    def _delay(self, lookup: OffsetLookup, now: float) -> None:
        if lookup.backoff is not None:
            lookup.not_before = now + lookup.backoff.next()

    def _end(self, lookup: OffsetLookup, error: KafkaError, now: float) -> None:
        if lookup.is_over:
            return
        lookup.is_over = True
        del self._lookups[lookup]
        lookup.on_failed(error, now)

    def _timed_out(self, lookup: OffsetLookup) -> KafkaError:
        error = lookup.last_error
        if isinstance(error, UnknownTopicOrPartition):
            return UnknownUntilTimeout(str(error))
        # A request that timed out has closed its connection, but its broker was reached.
        if not self._cluster.nodes.has_connection and not isinstance(error, RequestTimeout):
            return self._cluster.nodes.unreachable()
        reason = f"; the last attempt failed: {error}" if error is not None else ""
        if lookup.is_in_flight:
            reason = f"; its leader has not responded{reason}"
        return KafkaTimeoutError(f"looking up an offset of {lookup.partition} timed out{reason}")


def _no_partition(lookup: OffsetLookup, count: int) -> UnknownTopicOrPartition:
    topic, number = lookup.partition
    return UnknownTopicOrPartition(
        f"topic {topic!r} has {counted(count, 'partition')} and no partition {number}"
    )


# The driver fails lookups at their deadline, with a better message than the waiting thread has.
GRACE = 1.0


class _LookupResults:
    """Results that the driver's thread collects and the caller's thread waits for."""

    def __init__(self, wanted: int) -> None:
        self.wanted = wanted
        self.found: dict[TopicPartition, OffsetAndTimestamp | None] = {}
        self.error: KafkaError | None = None
        self.waiters = WaitQueue()

    def on_found(self, partition: TopicPartition, found: OffsetAndTimestamp | None, now: float) -> None:
        self.found[partition] = found
        if self.is_over():
            self.waiters.wake()

    def on_failed(self, error: KafkaError, now: float) -> None:
        self.error = self.error or error
        self.waiters.wake()

    def is_over(self) -> bool:
        return self.error is not None or len(self.found) == self.wanted


class OffsetQueries:
    """The blocking lookups of a consumer for offsets and partitions."""

    def __init__(self, cluster: ClusterClient, lookups: OffsetLookups) -> None:
        self._cluster = cluster
        self._lookups = lookups

    def ends(
        self, partitions: Iterable[TopicPartition], timestamp: int, timeout: float
    ) -> dict[TopicPartition, int]:
        """Return the offset at one end of each partition; see `KafkaConsumer.beginning_offsets`."""
        found = self.at_times({TopicPartition(*one): timestamp for one in partitions}, timeout)
        return {partition: one.offset if one is not None else 0 for partition, one in found.items()}

    def at_times(
        self, timestamps: Mapping[TopicPartition, int], timeout: float
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """See `KafkaConsumer.offsets_for_times`."""
        if not timestamps:
            return {}
        driver = self._cluster.driver
        results = _LookupResults(len(timestamps))
        deadline = driver.clock.monotonic() + timeout
        lookups = [
            OffsetLookup(
                partition,
                timestamp,
                on_found=partial(results.on_found, partition),
                on_failed=results.on_failed,
                deadline=deadline,
            )
            for partition, timestamp in timestamps.items()
        ]

        def add_all(now: float) -> None:
            for lookup in lookups:
                self._lookups.add(lookup)

        def cancel_all(now: float) -> None:
            for lookup in lookups:
                self._lookups.cancel(lookup)

        try:
            driver.call_soon(add_all)
            driver.wait_until(results.is_over, timeout + GRACE, results.waiters)
        finally:
            # After an error or a Ctrl-C the others would be retried until the deadline.
            if len(results.found) < results.wanted:
                with suppress(KafkaError):  # a signal handler can have closed the client and then raised
                    driver.call_soon(cancel_all)
        if results.error is not None:
            raise results.error
        if not results.is_over():
            raise KafkaTimeoutError(f"looking up offsets took longer than {timeout:g} s")
        return {partition: results.found[partition] for partition in timestamps}

    def topic_id(self, topic: str, timeout: float) -> bytes | None:
        """See `KafkaConsumer.topic_id`."""
        is_missing = self.partition_numbers(topic, timeout) is None
        found = self._cluster.metadata.topic_id(topic)
        return None if is_missing or found == ZERO_UUID else found

    def partition_numbers(self, topic: str, timeout: float) -> set[int] | None:
        """See `KafkaConsumer.partitions_for_topic`."""
        cluster, metadata = self._cluster, self._cluster.metadata
        metadata.want_topic(topic, cluster.driver.clock.monotonic())
        version = metadata.version

        def is_known() -> bool:
            known = metadata.topic(topic)
            if known is not None and (known.is_usable or metadata.version > version):
                return True
            return metadata.last_error is not None and not metadata.last_error.retriable

        if metadata.topic(topic) is not None:
            metadata.request_update()
        cluster.driver.wait_until(is_known, timeout, metadata.waiters)
        known = metadata.topic(topic)
        if known is not None and known.is_usable:
            return set(known.partitions)
        error = cluster.topic_failure(topic, timeout)
        if isinstance(error, UnknownTopicOrPartition):
            return None
        raise error
