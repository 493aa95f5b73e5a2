"""One share session: the requests to one broker, one at a time, and their responses.

Owned by the driver's thread. A session (KIP-932) starts with epoch 0, and each later request names only
changes. Brokers end it with its connection, and release its records; so every failed request and every closed
connection ends it here, too, and its records are settled as lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from pykafka2.backoff import Backoff
from pykafka2.clock import FOREVER
from pykafka2.cluster.client import ClusterClient
from pykafka2.driver.pollable import PollResult, Send, ToNode
from pykafka2.errors import (
    ClientClosed,
    Disconnected,
    InvalidShareSessionEpoch,
    KafkaError,
    ShareSessionNotFound,
    UnknownServerError,
    error_of,
    error_or_none,
)
from pykafka2.protocol.messages.share_fetch import (
    ShareAcknowledgeResponse,
    ShareFetchResponse,
    ShareFetchResponsePartitionData,
)
from pykafka2.share.decoding import AcquiredData, ShareBuffer
from pykafka2.share.lock import Lock, Place
from pykafka2.share.locks import STALE_METADATA, Locks
from pykafka2.share.membership import ShareMembership, explained
from pykafka2.share.options import ShareConsumerOptions
from pykafka2.share.records import AcknowledgeType
from pykafka2.share.requests import (
    Errors,
    acknowledge_request,
    acquired_in,
    errors_in,
    fetch_request,
    results,
)
from pykafka2.types import Node, TopicPartition

INITIAL_EPOCH, FINAL_EPOCH, LAST_EPOCH = 0, -1, 2**31 - 1
FIRST_VERSION_WITH_RENEW = 2


def next_epoch(epoch: int) -> int:
    return 1 if epoch == LAST_EPOCH else epoch + 1


class SessionContext:
    """The parts of a consumer that all of its share sessions use, and the state that they share."""

    def __init__(
        self,
        options: ShareConsumerOptions,
        cluster: ClusterClient,
        membership: ShareMembership,
        locks: Locks,
        buffer: ShareBuffer,
    ) -> None:
        self.options = options
        self.cluster = cluster
        self.membership = membership
        self.locks = locks
        self.buffer = buffer
        self.wants_records = False
        """Whether the application waits for records; the first ones that arrive reset it."""
        self.wanted_records = options.max_poll_records
        """How many it waits for; with `record_limit` no broker acquires more of them at once."""
        self.fetches_ahead = False
        """Whether the next records are requested while the application handles the last ones."""
        self.lock_timeout: float | None = None
        """Seconds, from the last response."""
        self.failure: KafkaError | None = None
        """The error that the next poll() raises."""
        self.troubles: dict[TopicPartition, str] = {}
        """The errors of partitions that could not be fetched last."""
        self.on_closed: Callable[[], object] | None = None
        """Called when all sessions have ended; None unless they are being closed."""
        self.fetches = 0
        metrics = cluster.metrics
        self.sizes = metrics.series("fetch-size")
        self.counts = metrics.series("records-per-request")
        metrics.counter("fetch-total", lambda: self.fetches)
        metrics.counter("acknowledgements-send-total", lambda: locks.totals.sent)
        metrics.counter("acknowledgements-error-total", lambda: locks.totals.failed)

    def fail(self, error: KafkaError) -> None:
        """Have the next poll() raise an error."""
        self.failure = error
        self.cluster.driver.notify()

    def partition_of(self, place: Place) -> TopicPartition | None:
        topic = self.cluster.metadata.topic_name(place[0])
        return None if topic is None else TopicPartition(topic, place[1])

    def forget_troubles(self, fetched: set[Place]) -> None:
        """Forget the errors of partitions that were fetched since, or are not assigned any more."""
        if self.troubles:
            failing = {self.partition_of(place) for place in self.membership.assigned - fetched}
            self.troubles = {one: trouble for one, trouble in self.troubles.items() if one in failing}


class NodeSession:
    """The share session with one broker."""

    def __init__(self, node_id: int, context: SessionContext) -> None:
        self.node_id = node_id
        self.epoch = INITIAL_EPOCH
        self.in_flight = ""
        """The request in flight: 'fetch', 'acknowledge', 'close', or nothing."""
        self.sent_at = -FOREVER
        """When it was sent."""
        self.last_error: KafkaError | None = None
        self.is_closed = False
        self.is_ahead = False
        """Whether the next fetch can be sent before the application waits for its records."""
        self._context = context
        self._cluster = context.cluster
        self._locks = context.locks
        options, random = context.options, context.cluster.driver.entropy.random
        self._backoff = Backoff(options.retry_backoff, options.retry_backoff_max, random)
        self._known: set[Place] = set()
        """The partitions that the broker has in the session."""
        self._not_before = -FOREVER
        self._connection: object | None = None
        """The connection of the last response; the session ends with it."""

    # ------------------------------------------------------------------ the driver's turn

    def next_send(self, wanted: set[Place], result: PollResult, now: float) -> Send[Any] | None:
        """Return the next request, if there is something to send and it can be sent now."""
        if self.in_flight:
            return None
        if self.epoch == INITIAL_EPOCH:
            if self.last_error is not None and self._locks.has_ready(self.node_id):
                # The session ended while another thread was about to return or acknowledge its records.
                self._locks.lose(self.node_id, self.last_error)
            if not self._context.wants_records or not wanted:
                return None
            return self._fetch(wanted, [], now) if self._is_free(result, now) else None
        lock_timeout = self._context.lock_timeout or 0.0
        renewals, next_at = self._locks.take_renewals(self.node_id, lock_timeout, now)
        if next_at is not None:
            result.wake_at = min(result.wake_at, next_at)
        is_ready = self._locks.has_ready(self.node_id)
        can_fetch = bool(wanted) and (self._context.wants_records or self.is_ahead)
        if not (renewals or is_ready or can_fetch):
            return None
        if not self._is_free(result, now):
            self._locks.postpone(renewals)
            return None
        needs_acknowledge = bool(renewals) or not can_fetch
        if not needs_acknowledge:
            needs_acknowledge = self._locks.has_ready(
                self.node_id, lambda lock: lock.place not in wanted or lock.type == AcknowledgeType.RENEW
            )
        locks = self._locks.take_ready(self.node_id)
        if needs_acknowledge:
            return self._acknowledge(locks, renewals, now)
        return self._fetch(wanted, locks, now)

    def check_connection(self, now: float) -> None:
        """End the session if its connection was closed, also if no request was in flight."""
        if self.epoch == INITIAL_EPOCH or self.in_flight:
            return
        if self._connection is not self._cluster.router.connection(self.node_id):
            self._end(Disconnected(f"the connection to node {self.node_id} was closed"), now)

    def _is_free(self, result: PollResult, now: float) -> bool:
        if now < self._not_before:
            result.wake_at = min(result.wake_at, self._not_before)
            return False
        return self._cluster.router.is_ready(self.node_id, now)

    def next_close(self, now: float) -> Send[Any] | None:
        """Return the request that ends the session, once it can be sent; it carries what is due."""
        if self.in_flight or self.is_closed:
            return None
        if self.epoch == INITIAL_EPOCH:
            self.is_closed = True
        elif self._cluster.router.is_ready(self.node_id, now):
            return self._acknowledge(self._locks.take_ready(self.node_id), [], now, is_last=True)
        return None

    # ------------------------------------------------------------------ requests

    def _fetch(self, wanted: set[Place], locks: list[Lock], now: float) -> Send[ShareFetchResponse]:
        options = self._context.options
        request = fetch_request(
            options,
            self._context.membership.member_id,
            self.epoch,
            wanted,
            self._known,
            locks,
            most_records=self._context.wanted_records if options.is_strict else options.max_poll_records,
            waits=self._context.wants_records,
        )
        self._known = wanted
        self.in_flight, self.sent_at = "fetch", now
        self.is_ahead = False
        self._context.fetches += 1
        return Send(
            request,
            ToNode(self.node_id),
            partial(self._on_fetched, locks),
            self._on_failure,
            timeout=options.request_timeout + options.fetch_max_wait,
            min_version=FIRST_VERSION_WITH_RENEW if options.is_strict else None,
        )

    def _acknowledge(
        self,
        locks: list[Lock],
        renewals: list[Lock],
        now: float,
        *,
        is_last: bool = False,
    ) -> Send[ShareAcknowledgeResponse]:
        epoch = FINAL_EPOCH if is_last else self.epoch
        member_id = self._context.membership.member_id
        request = acknowledge_request(self._context.options, member_id, epoch, locks, renewals)
        self.in_flight, self.sent_at = "close" if is_last else "acknowledge", now
        return Send(
            request,
            ToNode(self.node_id),
            partial(self._on_acknowledged, locks, renewals),
            self._on_failure,
            min_version=FIRST_VERSION_WITH_RENEW if request.is_renew_ack else None,
        )

    # ------------------------------------------------------------------ responses

    def _on_fetched(self, locks: list[Lock], response: ShareFetchResponse, now: float) -> None:
        if not self._continue(response, now):
            return
        errors: Errors = {}
        failed: set[Place] = set()
        until = now + (self._context.lock_timeout or 0.0)
        size_bytes = count = 0
        for topic in response.responses:
            for data in topic.partitions:
                acquired = acquired_in(data)
                count += sum(last - first + 1 for first, last, _ in acquired)
                place = (topic.topic_id, data.partition_index)
                errors[place] = error_or_none(data.acknowledge_error_code, data.acknowledge_error_message)
                if data.error_code:
                    failed.add(place)
                    self._on_partition_error(place, data, response.node_endpoints, now)
                elif acquired:
                    records = memoryview(bytes(data.records or b""))
                    size_bytes += len(records)
                    self._receive(place, acquired, records, now, until)
        self._context.forget_troubles(self._known - failed)
        if size_bytes:
            self._context.sizes.add((size_bytes,))
            self._context.counts.add((count,))
        self._settle(locks, errors, now, until)

    def _receive(
        self,
        place: Place,
        acquired: list[tuple[int, int, int]],
        records: memoryview,
        now: float,
        until: float,
    ) -> None:
        partition = self._context.partition_of(place)
        if partition is None:  # deleted meanwhile; the locks expire
            return
        if self._context.wants_records and self._context.fetches_ahead:
            self.is_ahead = True
        self._context.wants_records = False
        self._context.buffer.put(AcquiredData(place, partition, self.node_id, acquired, records, now, until))
        self._cluster.driver.tell_waiters()

    def _on_acknowledged(
        self,
        locks: list[Lock],
        renewals: list[Lock],
        response: ShareAcknowledgeResponse,
        now: float,
    ) -> None:
        if self.in_flight == "close":
            self.is_closed = True
        if not self._continue(response, now):
            return
        errors = errors_in(response)
        if any(isinstance(error, STALE_METADATA) for error in errors.values()):
            self._cluster.metadata.request_update()
        until = self.sent_at + (self._context.lock_timeout or 0.0)
        self._settle(locks, errors, now, until)
        for of_place, error in results(renewals, errors):
            if _passes(error):
                self._back_off(now)
            self._locks.renewed(of_place, until, error)

    def _settle(
        self,
        locks: list[Lock],
        errors: Errors,
        now: float,
        until: float,
    ) -> None:
        for of_place, error in results(locks, errors):
            if _passes(error):
                self._back_off(now)
                waiting = [lock for lock in of_place if now < lock.until]
                self._locks.retry(waiting)
                of_place = [lock for lock in of_place if now >= lock.until]
            self._locks.settle(of_place, error, until, now - self.sent_at)

    def _continue(self, response: ShareFetchResponse | ShareAcknowledgeResponse, now: float) -> bool:
        """Handle the response's common part. Return False if the session has ended."""
        self.in_flight = ""
        if response.error_code:
            self._end(error_or_none(response.error_code, response.error_message), now)
            return False
        if response.acquisition_lock_timeout_ms > 0:
            self._context.lock_timeout = response.acquisition_lock_timeout_ms / 1000
        self.epoch = next_epoch(self.epoch)
        self._backoff.reset()
        self.last_error = None
        self._connection = self._cluster.router.connection(self.node_id)
        return True

    def _on_partition_error(
        self,
        place: Place,
        data: ShareFetchResponsePartitionData,
        endpoints: Iterable[Any],
        now: float,
    ) -> None:
        error = error_or_none(data.error_code, data.error_message)
        partition = self._context.partition_of(place)
        if error is None or partition is None:
            return
        self._context.troubles[partition] = str(error)
        self._known.discard(place)  # so that the next fetch names it again
        self._back_off(now)
        hint = data.current_leader
        nodes = [Node(node.node_id, node.host, node.port, node.rack) for node in endpoints]
        if hint.leader_id >= 0 and nodes:
            self._cluster.metadata.update_leader(*partition, hint.leader_id, hint.leader_epoch, nodes)
        elif error.refresh_metadata or isinstance(error, STALE_METADATA):
            self._cluster.metadata.request_update(error)
        elif not error.retriable:
            self._context.fail(error_of(data.error_code, f"{partition}: {error}"))

    def _on_failure(self, error: KafkaError, now: float) -> None:
        self.in_flight = ""
        self._end(error, now)

    def _end(self, error: KafkaError | None, now: float) -> None:
        """End the session after an error: the broker releases its records, or their locks expire."""
        error = error or UnknownServerError()
        self.epoch, self._known, self.is_ahead = INITIAL_EPOCH, set(), False
        self.last_error = error
        self._context.buffer.drop(self.node_id)
        self._locks.lose(self.node_id, error)
        if self._context.on_closed is not None:
            self.is_closed = True
            return
        is_stale = isinstance(error, ShareSessionNotFound | InvalidShareSessionEpoch)
        if not is_stale or self._backoff.attempts:
            self._back_off(now)
        elif is_stale:
            self._backoff.next()  # open a new session at once, but only once in a row
        if error.refresh_metadata:
            self._cluster.metadata.request_update(error)
        if not error.retriable and not isinstance(error, UnknownServerError | ClientClosed):
            membership = self._context.membership
            self._context.fail(explained(error, self._context.options.group_id, membership.topics))

    def _back_off(self, now: float) -> None:
        """Send nothing for a while."""
        self._not_before = now + self._backoff.next()


def _passes(error: KafkaError | None) -> bool:
    """Whether the same request to the same broker can succeed later."""
    return error is not None and error.retriable and not isinstance(error, STALE_METADATA)
