"""Applies the response for one partition of a fetch: data or an error.

Used on the driver's thread by fetcher.py. Data and problems go to the fetch buffer, the partition's offset to
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
from pykafka2.types import Node, TopicPartition

# How long an outdated leader is distrusted.  A leader that cannot reach its cluster is fenced long before
# that (broker.session.timeout.ms, 9 s).
DOUBT = 30.0


class FetchResponses:
    """Applies the brokers' responses for single partitions."""

    def __init__(
        self, options: ConsumerOptions, cluster: ClusterClient, buffer: FetchBuffer, table: FetchTable
    ) -> None:
        self._options = options
        self._is_committed_only = bool(options.isolation)
        self._cluster = cluster
        self._metadata = cluster.metadata
        self._buffer = buffer
        self._table = table

    def apply(
        self,
        state: FetchState,
        offset: int,
        response: PartitionData,
        endpoints: list[NodeEndpoint],
        now: float,
    ) -> None:
        """Apply the response for one partition to a fetch from this offset."""
        if response.error_code:
            self._table.changes += 1
            self._on_error(state, offset, response, endpoints, now)
            return
        if response.diverging_epoch.end_offset >= 0:
            error = log_truncated(state.partition, offset, state.epoch, response.diverging_epoch)
            self._table.stop(state, error)
            return
        if response.preferred_read_replica >= 0 and not response.records:
            self._table.changes += 1
            self._read_from(state, response.preferred_read_replica, now)
            return
        state.doubted_since = None
        self.note_ends(state.partition, response.high_watermark, response.last_stable_offset, now)
        self._table.log_starts[state.partition] = response.log_start_offset
        if not response.records:
            state.backoff.reset()
            if response.high_watermark <= offset:
                self._table.troubles.pop(state.partition, None)
            else:
                self._table.troubles[state.partition] = f"the broker sends no records from offset {offset} on"
            return
        self._table.troubles.pop(state.partition, None)
        aborted = response.aborted_transactions if self._is_committed_only else None
        records = _apart(memoryview(response.records))
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
        # After unreadable data nothing more is fetched until the application has decided what to do.
        state.is_stopped = data.error is not None
        self._table.changes += state.is_stopped
        self._buffer.put(data)

    def note_ends(
        self, partition: TopicPartition, high_watermark: int, last_stable_offset: int, now: float
    ) -> None:
        """Store up to which offset a partition can be read."""
        table = self._table
        table.high_watermarks[partition] = high_watermark
        table.ends_as_of[partition] = now
        is_bounded = self._is_committed_only and last_stable_offset >= 0
        table.readable_ends[partition] = last_stable_offset if is_bounded else high_watermark
        if table.without_end:
            table.without_end.pop(partition, None)

    def _on_error(
        self,
        state: FetchState,
        offset: int,
        response: PartitionData,
        endpoints: list[NodeEndpoint],
        now: float,
    ) -> None:
        error = error_of(
            response.error_code, f"{state.partition} at offset {offset}: {error_of(response.error_code)}"
        )
        self._table.troubles[state.partition] = str(error)
        if state.leave_replica() and not isinstance(error, CorruptMessage):
            return  # the follower can be behind or no longer a replica, so fetch from the leader
        if isinstance(error, CorruptMessage):
            # The broker's copy is damaged, so a retry would fail, too.
            self._table.delay(state, now)
            self._table.stop(state, error)
            return
        doubted = self._replaced_leader(state, now) if isinstance(error, OffsetOutOfRange) else None
        if doubted is not None:
            # Metadata must come from another broker; the connected one would otherwise be preferred.
            self._metadata.request_update(error, doubted=doubted)
            self._table.delay(state, now)
            return
        if isinstance(error, OffsetOutOfRange) and state.epoch >= 0:
            # Perhaps only the epoch is unknown to the broker: retry with the offset alone.
            state.epoch = -1
            return
        if not error.retriable and not isinstance(error, UnknownServerError):
            if isinstance(error, OffsetOutOfRange):
                self._table.misses.setdefault(state.partition, self._table.new_backoff()).next()
            else:
                self._table.delay(state, now)
            self._table.stop(state, error)
            return
        hint = response.current_leader
        is_news = hint.leader_id >= 0 and self._metadata.update_leader(
            *state.partition,
            hint.leader_id,
            hint.leader_epoch,
            [Node(node.node_id, node.host, node.port, node.rack) for node in endpoints],
        )
        # If the hints keep changing, back off: brokers with wrong hints could otherwise cause a busy loop.
        if is_news and now - state.moved_at >= self._options.retry_backoff:
            state.moved_at = now
            return
        # An epoch that is unknown to the broker can come from a wrong hint, and then never become known.
        if not is_news and (error.refresh_metadata or isinstance(error, UnknownLeaderEpoch)):
            self._metadata.request_update(error)
        self._table.delay(state, now)

    def _replaced_leader(self, state: FetchState, now: float) -> int | None:
        """Return the leader's id if it may have been replaced by a newer leader that has this offset.

        This happens if the position comes from a commit of another member with newer metadata (the Java
        client ignores metadata older than the epoch of a commit). The old leader does not have that offset,
        and the reset policy would re-read or skip records.
        """
        info = self._metadata.snapshot.partition(*state.partition)
        if info is None or not 0 <= info.leader_epoch < state.epoch:
            return None
        if state.doubted_since is None:
            state.doubted_since = now
        self._table.troubles[state.partition] = (
            f"broker {info.leader} has no offset {state.offset}, but may have been replaced: its leader "
            f"epoch is {info.leader_epoch}, and the record before that offset has epoch {state.epoch}; "
            "waiting for newer metadata"
        )
        return info.leader if now - state.doubted_since < DOUBT else None

    def _read_from(self, state: FetchState, node_id: int, now: float) -> None:
        """Fetch from the replica that the leader prefers, for metadata_max_age_ms at most."""
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
