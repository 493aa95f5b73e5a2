"""Sends ready batches to the leaders of their partitions, and passes the responses to results.py.

A `Pollable`; everything here runs on the IO thread. The accumulator has the batches, idempotence.py their
order and numbers, and the cluster the leaders and connections.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Protocol

from pykafka2.clock import FOREVER
from pykafka2.driver.pollable import NOTHING, PollResult, Send, ToNode
from pykafka2.errors import (
    ClientFailed,
    CorruptResponse,
    KafkaError,
    RecordPurged,
)
from pykafka2.producer.accumulator.batch import BatchState, ProducerBatch
from pykafka2.producer.accumulator.batch_records import NO_IDENTITY, Identity
from pykafka2.producer.accumulator.partition_queue import PartitionQueue
from pykafka2.producer.idempotence import ProducerIdentity, policy_of
from pykafka2.producer.partitioning.sticky import NodeDelays
from pykafka2.producer.sending.results import Outcomes, SenderParts
from pykafka2.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from pykafka2.protocol.primitives import ZERO_UUID
from pykafka2.records.batch import HEADER_BYTES
from pykafka2.slotted import slotted
from pykafka2.types import NO_OFFSET, NO_TIMESTAMP, Node

if TYPE_CHECKING:
    from pykafka2.producer.transactions.manager import TransactionManager

FIRST_VERSION_OF_FORMAT_2 = 3
FIRST_VERSION_WITH_ZSTD = 7
FIRST_VERSION_WITH_TOPIC_IDS = 13
PRODUCER_ID = "a producer id"
"""Value in `waiting_for` until InitProducerId has succeeded."""


class Readiness(Protocol):
    """The part of the router that the sender uses (cluster/router.py)."""

    def is_ready(self, node_id: int, now: float) -> bool:
        """Return whether a request can be sent at once; if not, request a connection."""
        ...

    def throttled_for(self, node_id: int, now: float) -> float:
        """Return the seconds for which the node still throttles this client."""
        ...

    def connection_to(self, node_id: int, now: float) -> str:
        """Explain what the connection to the node waits for, with the reason for the delay."""
        ...


@slotted(eq=False)
class _ProduceInFlight:
    """A Produce request on the wire, with the identity of each of its batches."""

    node_id: int
    sent_at: float
    batches: list[tuple[ProducerBatch, Identity]]
    topic_names: dict[bytes, str]
    """Topic names by the ids in the response; the metadata can have forgotten them by then."""


class Sender:
    """Drains, sends, retries and expires batches."""

    def __init__(self, parts: SenderParts, router: Readiness, delays: NodeDelays) -> None:
        self._options = options = parts.options
        self._accumulator = parts.accumulator
        self._metadata = parts.metadata
        self._router = router
        self._delays = delays
        metrics, transactions = parts.metrics, parts.transactions
        self._of_requests = metrics.series("records-per-request")
        self._of_unanswered = metrics.series("request-latency")
        self._in_flight: dict[int, int] = {}
        self._drain_start: dict[int, int] = {}
        self._is_compressing = options.compression_type != "none"
        is_zstd = options.compression_type == "zstd"
        self._min_version = FIRST_VERSION_WITH_ZSTD if is_zstd else FIRST_VERSION_OF_FORMAT_2
        self._timeout_ms = int(options.request_timeout * 1000)
        # Without sequence numbers only one request at a time keeps a partition's order through retries.
        self._mutes = not options.enable_idempotence and options.max_in_flight == 1
        policy = policy_of(options)
        self.identity: ProducerIdentity | None = None
        if transactions is not None:
            self.identity = transactions.identity
        elif options.enable_idempotence:
            self.identity = ProducerIdentity(options, parts.random, policy)
        self._sequences = self.identity.sequences if self.identity is not None else None
        self._transactions = transactions
        self._outcomes = Outcomes(parts, self.identity, policy)
        self.shares = self._outcomes.shares
        self._expire_at = 0.0
        """The earliest time at which an unfinished batch can expire."""
        self.waiting_for: dict[str, str] = {}
        """Reason why each partition's batches wait, as of the last poll; for `explain`."""

    def poll(self, now: float) -> PollResult:
        if not self._accumulator.incomplete:
            # No batch waits or is in flight.
            self.waiting_for = {}
            self._delays.note((), now)
            return NOTHING
        result = PollResult([], self._expire_at if now < self._expire_at else self._expire(now))
        if self._transactions is not None:
            self._fail_aborted_batches(self._transactions)
        queues = self._accumulator.active_queues()
        if not queues:
            self.waiting_for = {}
            self._delays.note((), now)
            return result
        sequences = self._sequences
        if sequences is not None and sequences.identity == NO_IDENTITY:
            self._request_identity(now, result)
            self.waiting_for = dict.fromkeys(map(str, queues), PRODUCER_ID)
            return result
        identity = None if sequences is None else sequences.identity
        is_flushing = self._accumulator.is_flushing
        for node_id, ready in self._ready_by_node(queues, is_flushing, now, result).items():
            self._send_to(node_id, ready, is_flushing, now, result)
        if sequences is not None and sequences.identity is not identity and sequences.identity == NO_IDENTITY:
            # The epochs of the producer id are exhausted, so waiting batches need another id.
            self._request_identity(now, result)
        return result

    @property
    def requests_in_flight(self) -> int:
        return sum(self._in_flight.values())

    def abort(self, error: KafkaError) -> None:
        """Fail all unfinished batches with this error, which warns that they can be in the log."""
        for leaf in self._open_batches():
            self._outcomes.fail(leaf, error)

    def _refuse(self, error: KafkaError) -> None:
        """Fail all unfinished batches; the error of a batch in flight warns that it can be in the log."""
        for leaf in self._open_batches():
            is_on_the_wire = leaf.state is BatchState.IN_FLIGHT
            self._outcomes.fail_with_producer(leaf, error, is_on_the_wire=is_on_the_wire)

    def _open_batches(self) -> Iterator[ProducerBatch]:
        for batch in self._accumulator.open_batches():
            yield from [] if batch.is_done else batch.leaves

    def purge(self) -> int:
        """Fail the batches that were never sent. Return the number of their records.

        A batch that was sent stays: it can be in the log, and later batches follow its numbers.
        """
        purged = 0
        for queue in self._accumulator.active_queues():
            for batch in queue.snapshot():
                if batch.attempts or not self._accumulator.remove(batch):
                    continue
                batch.mark_reported()
                purged += batch.count
                error = RecordPurged(f"{queue}: purged before it was sent; it is not in the log")
                self._outcomes.fail(batch, error)
        return purged

    def on_loop_failed(self, error: ClientFailed, now: float) -> None:
        """Fail all unfinished batches, as the IO thread ends with this error."""
        self._refuse(error)

    # ------------------------------------------------------------------ batches that can be sent

    def _request_identity(self, now: float, result: PollResult) -> None:
        identity = self.identity
        if identity is None:
            return
        polled = identity.poll(now)
        result.sends += polled.sends
        result.wake_at = min(result.wake_at, polled.wake_at)
        if identity.refusal is not None:
            self._refuse(identity.refusal)

    def _ready_by_node(
        self, queues: list[PartitionQueue], is_flushing: bool, now: float, result: PollResult
    ) -> dict[int, list[PartitionQueue]]:
        """Return the queues that are ready, by leader; sets `wake_at` for the others."""
        by_node: dict[int, list[PartitionQueue]] = {}
        waiting_for: dict[str, str] = {}
        slow: set[int] = set()
        for queue in queues:
            ready_at = self._accumulator.ready_at(queue, now, is_flushing)
            if ready_at > now:
                result.wake_at = min(result.wake_at, ready_at)
                continue
            leader = self._metadata.leader_of(queue.topic, queue.partition)
            if leader is None:
                # It stays queued; the metadata has its own backoff.
                self._metadata.want_topic(queue.topic, now)
                self._metadata.request_update(f"no leader of {queue} is known")
                waiting_for[str(queue)] = "a leader"
            elif leader.leader in by_node:
                by_node[leader.leader].append(queue)
            elif not self._router.is_ready(leader.leader, now):
                waiting_for[str(queue)] = self._router.connection_to(leader.leader, now)
                slow.add(leader.leader)
            else:
                by_node[leader.leader] = [queue]
                if self._in_flight.get(leader.leader, 0) >= self._options.max_in_flight:
                    slow.add(leader.leader)
        self.waiting_for = waiting_for
        self._delays.note(slow, now)
        return by_node

    def _send_to(
        self,
        node_id: int,
        queues: list[PartitionQueue],
        is_flushing: bool,
        now: float,
        result: PollResult,
    ) -> None:
        """Send as many requests as possible; the first batch of each queue is ready."""
        in_flight = self._in_flight.get(node_id, 0)
        are_ready = True
        while in_flight < self._options.max_in_flight:
            drained = self._drain(node_id, queues, is_flushing, now, result, are_ready=are_ready)
            if not drained:
                return
            are_ready = False
            in_flight += 1
            self._in_flight[node_id] = in_flight
            if self._transactions is not None:
                self._transactions.on_request_sent()
            result.sends.append(self._produce(node_id, drained, now))
            for queue in queues:
                if queue.batches:
                    break
            else:
                return
        for queue in queues:
            if queue.batches:
                self.waiting_for[str(queue)] = f"responses of node {node_id} to {in_flight} requests"

    def _drain(
        self,
        node_id: int,
        queues: list[PartitionQueue],
        is_flushing: bool,
        now: float,
        result: PollResult,
        *,
        are_ready: bool,
    ) -> list[tuple[ProducerBatch, bytes]]:
        """Take at most one batch per partition, up to max_request_size; at least one if any is ready.

        Return them with their bytes.
        """
        if len(queues) > 1:
            # Each round starts at the next queue, so that large batches do not starve the others.
            start = self._drain_start[node_id] = (self._drain_start.get(node_id, -1) + 1) % len(queues)
            queues = queues[start:] + queues[:start]
        taken: list[tuple[ProducerBatch, bytes]] = []
        room_bytes = self._options.max_request_size
        sequences, transactions = self._sequences, self._transactions
        for queue in queues:
            if queue.is_muted or not queue.batches:
                continue
            first = queue.batches[0]
            if not are_ready and self._accumulator.ready_at(queue, now, is_flushing) > now:
                continue
            if taken and first.size_estimate > room_bytes:
                break
            if sequences is not None and not sequences.may_send(first):
                continue
            if transactions is not None and not transactions.may_send(queue.topic, queue.partition):
                continue
            batch = queue.take()
            if sequences is not None:
                sequences.assign(batch)
            try:
                encoded = batch.bytes()
            except MemoryError:
                result.wake_at = min(result.wake_at, self._outcomes.requeue_unencoded(batch, now))
                continue
            room_bytes -= len(encoded)
            queue.is_muted = self._mutes
            taken.append((batch, encoded))
            if self._is_compressing and not batch.attempts:
                self._accumulator.update_compression_estimate(batch)
        return taken

    def _produce(
        self, node_id: int, drained: list[tuple[ProducerBatch, bytes]], now: float
    ) -> Send[ProduceResponse]:
        topics: dict[str, TopicProduceData] = {}
        names: dict[bytes, str] = {}
        sent: list[tuple[ProducerBatch, Identity]] = []
        topics_sent = self._outcomes.topics
        records = 0
        for batch, encoded in drained:
            batch.move_to(BatchState.IN_FLIGHT)
            batch.attempts += 1
            batch.sent_at = now
            records += batch.count
            topic = batch.topic
            if topic not in topics:
                topic_id = self._metadata.topic_id(topic)
                topics[topic] = TopicProduceData(name=topic, topic_id=topic_id, partition_data=[])
                names[topic_id] = topic
            data = PartitionProduceData(index=batch.partition, records=encoded)
            topics[topic].partition_data.append(data)
            sent.append((batch, batch.identity))
            topics_sent[topic].batches.add(_measured(batch, len(encoded), now))
        self._of_requests.add((records,))
        request = ProduceRequest(
            transactional_id=self._options.transactional_id,
            acks=self._options.acks,
            timeout_ms=self._timeout_ms,
            topic_data=[*topics.values()],
        )
        flight = _ProduceInFlight(node_id, now, sent, names)
        low, high = self._min_version, None if ZERO_UUID not in names else FIRST_VERSION_WITH_TOPIC_IDS - 1
        if self._transactions is not None:
            first, last = self._transactions.produce_versions
            low = max(low, first or low)
            if last is not None:
                high = last if high is None else min(high, last)
        return Send(
            request,
            ToNode(node_id),
            partial(self._on_response, flight),
            partial(self._on_failure, flight),
            expects_response=self._options.acks != 0,
            min_version=low,
            max_version=high,
        )

    # ------------------------------------------------------------------ responses

    def _on_response(self, flight: _ProduceInFlight, response: ProduceResponse | None, now: float) -> None:
        if response is None:  # acks=0: there is no response
            self._of_unanswered.add(((now - flight.sent_at) * 1000,))
            self._on_request_ended(flight)
            for batch, _ in flight.batches:
                self._outcomes.written(batch, NO_OFFSET, NO_TIMESTAMP, now)
            return
        self._on_request_ended(flight)
        endpoints: list[Node] = []
        if response.node_endpoints:
            endpoints = [
                Node(node.node_id, node.host, node.port, node.rack) for node in response.node_endpoints
            ]
        answers = _answers(response, flight.topic_names)
        for batch, sent_as in flight.batches:
            answer = answers.get((batch.topic, batch.partition))
            if answer is None:
                # A missing partition is not a rejection: retry.
                error: KafkaError = CorruptResponse(
                    f"node {flight.node_id} sent a response without {batch.topic}-{batch.partition}"
                )
                self._outcomes.attempt_failed(batch, sent_as, error, now)
            elif answer.error_code:
                self._outcomes.rejected(batch, sent_as, answer, endpoints, now)
            else:
                self._outcomes.written(batch, answer.base_offset, answer.log_append_time_ms, now)

    def _on_failure(self, flight: _ProduceInFlight, error: KafkaError, now: float) -> None:
        self._on_request_ended(flight)
        for batch, sent_as in flight.batches:
            self._outcomes.attempt_failed(batch, sent_as, error, now)

    def _on_request_ended(self, flight: _ProduceInFlight) -> None:
        """Count the request as ended, and free what waited for it."""
        self._in_flight[flight.node_id] -= 1
        if self._transactions is not None:
            self._transactions.on_request_ended()
        for batch, _ in flight.batches:
            if self._mutes:
                self._accumulator.queue(batch.topic, batch.partition).is_muted = False
            if batch.is_done:  # it expired meanwhile and kept its memory until now
                self._accumulator.pool.deallocate(batch.permit)

    def _fail_aborted_batches(self, transactions: TransactionManager) -> None:
        """Fail the queued batches of a transaction that can only be aborted."""
        error = transactions.error_of_unsendable()
        if error is None:
            return
        for queue in self._accumulator.active_queues():
            for batch in queue.snapshot():
                self._outcomes.fail_with_producer(batch, error, is_on_the_wire=False)

    def _expire(self, now: float) -> float:
        """Fail the batches that are older than delivery_timeout. Return the time of the next check."""
        timeout = self._options.delivery_timeout
        while (oldest := self._accumulator.oldest()) is not None and not oldest.is_done:
            if now < oldest.created_at + timeout:
                self._expire_at = oldest.created_at + timeout
                return self._expire_at
            waited_for = self._waited_for(oldest, now)
            for leaf in oldest.leaves:
                is_on_the_wire = leaf.state is BatchState.IN_FLIGHT
                expired = self._outcomes.expired(leaf, waited_for)
                self._outcomes.fail(leaf, expired, is_on_the_wire=is_on_the_wire)
        return FOREVER

    def _waited_for(self, batch: ProducerBatch, now: float) -> str:
        leader = self._metadata.leader_of(batch.topic, batch.partition)
        seconds = 0.0 if leader is None else self._router.throttled_for(leader.leader, now)
        if leader is None or not seconds:
            waited_for = self.waiting_for.get(f"{batch.topic}-{batch.partition}", "its turn")
            if (
                waited_for == PRODUCER_ID
                and leader is not None
                and not self._router.is_ready(leader.leader, now)
            ):
                waited_for += f" and for {self._router.connection_to(leader.leader, now)}"
            return waited_for
        return f"{self._router.connection_to(leader.leader, now)} ({seconds:.1f} s remain)"


def _measured(batch: ProducerBatch, size_bytes: int, now: float) -> tuple[float | None, ...]:
    raw_bytes = 0 if batch.records is None else batch.records.raw_bytes
    waited_ms = (now - batch.created_at) * 1000
    if not raw_bytes:
        return size_bytes, waited_ms, None, None
    return size_bytes, waited_ms, size_bytes / (raw_bytes + HEADER_BYTES), raw_bytes / batch.count


def _answers(
    response: ProduceResponse, names: Mapping[bytes, str]
) -> dict[tuple[str, int], PartitionProduceResponse]:
    """Return the broker's responses by topic and partition."""
    answers = {}
    for topic in response.responses:
        name = topic.name or names.get(topic.topic_id, "")
        for answer in topic.partition_responses:
            answers[name, answer.index] = answer
    return answers
