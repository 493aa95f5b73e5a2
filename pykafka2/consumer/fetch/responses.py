"""Applies the response for one partition of a fetch: data or an error.

Driver's thread, within fetcher.py; data and problems go to the fetch buffer, the partition's place to
partitions.py.
"""

from __future__ import annotations

from pykafka2.cluster.client import ClusterClient
from pykafka2.consumer.fetch.buffer import FetchBuffer
from pykafka2.consumer.fetch.fetched_data import FetchedData, log_truncated
from pykafka2.consumer.fetch.partitions import FetchState, FetchTable
from pykafka2.consumer.options import ConsumerOptions
from pykafka2.errors import (
    CorruptMessage,
    OffsetOutOfRange,
    UnknownLeaderEpoch,
    UnknownServerError,
    error_of,
)
from pykafka2.protocol.messages.fetch import NodeEndpoint, PartitionData
from pykafka2.types import Node

# How long a broker is not believed that may not have heard that it was replaced: a leader that cannot reach
# its cluster is fenced long before (broker.session.timeout.ms, 9 s).
DOUBT = 30.0


class FetchAnswers:
    """Takes in what brokers say of partitions."""

    def __init__(
        self, options: ConsumerOptions, cluster: ClusterClient, buffer: FetchBuffer, table: FetchTable
    ) -> None:
        self._options = options
        self._is_committed_only = bool(options.isolation)
        self._cluster = cluster
        self._metadata = cluster.metadata
        self._buffer = buffer
        self._table = table

    def take_in(
        self, state: FetchState, offset: int, told: PartitionData, endpoints: list[NodeEndpoint], now: float
    ) -> None:
        if told.error_code:
            self._table.changes += 1
            self._on_error(state, offset, told, endpoints, now)
            return
        if told.diverging_epoch.end_offset >= 0:
            error = log_truncated(state.partition, offset, state.epoch, told.diverging_epoch)
            self._table.stop(state, error)
            return
        if told.preferred_read_replica >= 0 and not told.records:
            self._table.changes += 1
            self._read_from(state, told.preferred_read_replica, now)
            return
        state.doubted_since = None
        self._table.high_watermarks[state.partition] = told.high_watermark
        is_bounded = self._is_committed_only and told.last_stable_offset >= 0
        self._table.readable_ends[state.partition] = (
            told.last_stable_offset if is_bounded else told.high_watermark
        )
        if not told.records:
            state.backoff.reset()
            if told.high_watermark <= offset:
                self._table.troubles.pop(state.partition, None)
            else:
                self._table.troubles[state.partition] = f"the broker sends no records from offset {offset} on"
            return
        self._table.troubles.pop(state.partition, None)
        aborted = told.aborted_transactions if self._is_committed_only else None
        records = _apart(memoryview(told.records))
        data = FetchedData(state.partition, state.generation, offset, records, aborted)
        if data.next_offset <= offset and data.error is None:
            self._table.troubles[state.partition] = f"the broker sends only records before offset {offset}"
            self._table.delay(state, now)
            return
        self._table.misses.pop(state.partition, None)
        if data.next_offset > offset:
            state.backoff.reset()
        state.offset, state.epoch = data.next_offset, data.last_epoch
        self._table.moved[state] = None
        # Nothing can be fetched behind what cannot be read: the application must decide.
        state.is_stopped = data.error is not None
        self._table.changes += state.is_stopped
        self._buffer.put(data)

    def _on_error(
        self, state: FetchState, offset: int, told: PartitionData, endpoints: list[NodeEndpoint], now: float
    ) -> None:
        error = error_of(
            told.error_code, f"{state.partition} at offset {offset}: {error_of(told.error_code)}"
        )
        self._table.troubles[state.partition] = str(error)
        if state.leave_replica() and not isinstance(error, CorruptMessage):
            return  # a follower may be behind, or none any more: the leader is asked
        if isinstance(error, CorruptMessage):
            # The broker's own copy is damaged; asking again gives the same.
            self._table.delay(state, now)
            self._table.stop(state, error)
            return
        doubted = self._replaced_leader(state, now) if isinstance(error, OffsetOutOfRange) else None
        if doubted is not None:
            # It would be asked first, as it is connected and has just answered.
            self._metadata.request_update(error, doubted=doubted)
            self._table.delay(state, now)
            return
        if isinstance(error, OffsetOutOfRange) and state.epoch >= 0:
            # The broker may only know nothing of that epoch: then the offset alone is good enough.
            state.epoch = -1
            return
        if not error.retriable and not isinstance(error, UnknownServerError):
            if isinstance(error, OffsetOutOfRange):
                self._table.misses.setdefault(state.partition, self._table.new_backoff()).next()
            else:
                self._table.delay(state, now)
            self._table.stop(state, error)
            return
        hint = told.current_leader
        is_news = hint.leader_id >= 0 and self._metadata.update_leader(
            *state.partition,
            hint.leader_id,
            hint.leader_epoch,
            [Node(one.node_id, one.host, one.port, one.rack) for one in endpoints],
        )
        # A leader that moves again and again is waited for: who says so may say it as often as it is asked.
        if is_news and now - state.moved_at >= self._options.retry_backoff:
            state.moved_at = now
            return
        # An epoch that the broker does not know may be a wrong hint's, and never come.
        if not is_news and (error.refresh_metadata or isinstance(error, UnknownLeaderEpoch)):
            self._metadata.request_update(error)
        self._table.delay(state, now)

    def _replaced_leader(self, state: FetchState, now: float) -> int | None:
        """The leader that was asked, if the place that it was asked for may be of a newer one.

        So it is after a commit was read that another member made with newer metadata (Java's client ignores
        metadata older than the epoch of a commit): the old leader does not have that offset yet, and the
        reset policy would read records again or skip them.
        """
        info = self._metadata.snapshot.partition(*state.partition)
        if info is None or not 0 <= info.leader_epoch < state.epoch:
            return None
        if state.doubted_since is None:
            state.doubted_since = now
        self._table.troubles[state.partition] = (
            f"broker {info.leader} has no offset {state.offset}, but may have been replaced: it leads in "
            f"epoch {info.leader_epoch}, the record before that offset is of epoch {state.epoch}; newer "
            "metadata are waited for"
        )
        return info.leader if now - state.doubted_since < DOUBT else None

    def _read_from(self, state: FetchState, node_id: int, now: float) -> None:
        """The leader says that another replica is nearer, for as long as metadata is believed."""
        if self._metadata.node(node_id) is None or self._cluster.router.connection_failed_recently(node_id):
            self._metadata.request_update()
            self._table.delay(state, now)
            return
        state.backoff.reset()
        state.replica, state.replica_until = node_id, now + self._options.metadata_max_age


def _apart(records: memoryview) -> memoryview:
    """Copy the records if they are a small part of the frame, so that the frame can be freed."""
    frame_bytes = memoryview(records.obj).nbytes
    return memoryview(bytes(records)) if 2 * len(records) < frame_bytes else records
