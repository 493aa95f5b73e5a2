"""The sender alone: which batches it drains, for which broker, and which requests it sends."""

from __future__ import annotations

import random
from typing import Any
from unittest.mock import Mock

import pytest

from pykafka2.cluster.metadata import Metadata
from pykafka2.cluster.snapshot import ClusterSnapshot, TopicSnapshot, without_topics
from pykafka2.driver.pollable import PollResult, Send, ToNode
from pykafka2.errors import (
    ClientFailed,
    DeliveryTimeout,
    Disconnected,
    InvalidRecord,
    InvalidTimestamp,
    MessageTooLarge,
    NotEnoughReplicas,
    OutOfOrderSequenceNumber,
    ProducerFenced,
    UnknownServerError,
)
from pykafka2.events import BatchCompleted, BatchRetried, Event, EventSink
from pykafka2.metrics import Metrics
from pykafka2.producer.accumulator.accumulator import Accumulator
from pykafka2.producer.accumulator.batch import ProducerBatch
from pykafka2.producer.delivery.delivery import Delivery
from pykafka2.producer.idempotence import LAST_EPOCH
from pykafka2.producer.options import PRODUCER_OPTIONS
from pykafka2.producer.partitioning.sticky import NodeDelays
from pykafka2.producer.sending.results import LEADER_CHANGES_WITHOUT_BACKOFF, SenderParts
from pykafka2.producer.sending.sender import Sender
from pykafka2.producer.transactions.manager import TransactionManager
from pykafka2.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from pykafka2.protocol.messages.transaction import InitProducerIdRequest, InitProducerIdResponse
from pykafka2.protocol.primitives import ZERO_UUID
from pykafka2.types import Node, PartitionInfo
from tests.producer.rows import a_row

TOPIC_ID = b"\1" * 16


class Connections:
    """Which nodes can be sent to."""

    def __init__(self) -> None:
        self.down: set[int] = set()

    def is_ready(self, node_id: int, now: float) -> bool:
        return node_id not in self.down

    def connection_to(self, node_id: int, now: float) -> str:
        return f"a connection to node {node_id}"

    def throttled_for(self, node_id: int, now: float) -> float:
        return 0.0


class Bench:
    """A sender between an accumulator and a cluster of two nodes; partition n of `orders` is led by n % 2."""

    def __init__(self, topic_id: bytes = TOPIC_ID, partitions: int = 4, **options: Any) -> None:
        parsed = PRODUCER_OPTIONS.parse(None, {"batch_size": 0, "linger_ms": 0, **options})
        event_sink = EventSink()
        self.events: list[Event] = []
        event_sink.subscribe(self.events.append)
        chance = random.Random(7)
        self.now = 0.0
        self.metadata = Metadata(parsed, chance, event_sink, wake=lambda: None)
        self.metadata.snapshot = ClusterSnapshot(
            version=1,
            nodes={0: Node(0, "h", 1), 1: Node(1, "h", 2)},
            topics={
                "orders": TopicSnapshot(
                    "orders",
                    topic_id,
                    {
                        number: PartitionInfo("orders", number, number % 2, 5, (0, 1), (0, 1))
                        for number in range(partitions)
                    },
                )
            },
            names_by_id={TOPIC_ID: "orders"},
        )
        self.accumulator = Accumulator(
            parsed,
            monotonic=lambda: self.now,
            wait_until=lambda predicate, timeout, *queues: predicate(),
            wake=lambda: None,
        )
        self.connections = Connections()
        self.delays = NodeDelays()
        parts = SenderParts(parsed, self.accumulator, self.metadata, chance, event_sink, Metrics())
        self.sender = Sender(parts, self.connections, self.delays)
        if self.sender.identity is not None:
            self.sender.identity.sequences.on_identity(7, 0)

    def append(self, partition: int = 0, value: bytes = b"v") -> Delivery:
        queue = self.accumulator.queue("orders", partition)
        return self.accumulator.append_waiting(queue, *a_row(value), timeout=0)

    def poll(self) -> PollResult:
        return self.sender.poll(self.now)

    def produce(self) -> list[Send[Any]]:
        return self.poll().sends

    def answer(self, send: Send[Any], **fields: Any) -> None:
        """Answer every partition of a request alike."""
        answers = [
            PartitionProduceResponse(**{"index": data.index, "base_offset": 0, **fields})
            for topic in send.request.topic_data  # type: ignore[attr-defined]
            for data in topic.partition_data
        ]
        topic = TopicProduceResponse(topic_id=TOPIC_ID, partition_responses=answers)
        send.on_response(ProduceResponse(responses=[topic]), self.now)


def partitions_of(send: Send[Any]) -> list[int]:
    return [data.index for topic in send.request.topic_data for data in topic.partition_data]  # type: ignore[attr-defined]


def test_each_node_gets_one_request_with_a_batch_of_each_of_its_partitions() -> None:
    bench = Bench()
    for partition in range(4):
        bench.append(partition)
    sends = bench.produce()
    assert [(send.to, sorted(partitions_of(send))) for send in sends] == [
        (ToNode(0), [0, 2]),
        (ToNode(1), [1, 3]),
    ]


def test_unreachable_node_gets_no_request_and_is_named_in_waiting_for() -> None:
    bench = Bench()
    bench.connections.down.add(0)
    bench.append(0)
    bench.append(1)
    assert [send.to for send in bench.produce()] == [ToNode(1)]
    assert bench.sender.waiting_for == {"orders-0": "a connection to node 0"}


def test_a_request_stays_within_max_request_size_and_no_partition_starves() -> None:
    bench = Bench(
        partitions=6, max_request_size=1000, max_in_flight_requests_per_connection=1, enable_idempotence=False
    )
    for _ in range(3):
        for partition in (0, 2, 4):
            bench.append(partition, b"x" * 400)
    seen = []
    for _ in range(5):
        [send] = bench.produce()
        seen.append(partitions_of(send))
        bench.answer(send)
    assert all(len(partitions) <= 2 for partitions in seen)
    assert {partition for partitions in seen[:2] for partition in partitions} == {0, 2, 4}


def test_no_partition_of_either_node_starves_behind_large_batches() -> None:
    bench = Bench(
        partitions=8, max_request_size=1000, max_in_flight_requests_per_connection=1, enable_idempotence=False
    )
    rounds = 8
    for _ in range(rounds):
        for partition in range(8):
            bench.append(partition, b"x" * 700)
    seen: dict[object, list[int]] = {}
    for _ in range(rounds):
        for send in bench.produce():
            seen.setdefault(send.to, []).extend(partitions_of(send))
            bench.answer(send)
    assert [sorted(partitions) for partitions in seen.values()] == [
        sorted([0, 2, 4, 6] * 2),
        sorted([1, 3, 5, 7] * 2),
    ]


def test_behind_full_batches_the_open_ones_of_two_partitions_linger() -> None:
    bench = Bench(enable_idempotence=False, batch_size=1000, linger_ms=5000, buffer_memory=100_000)
    for partition in (0, 2):
        for _ in range(3):
            queue = bench.accumulator.queue("orders", partition)
            row = a_row(b"x" * 400)
            queue.try_append(*row) or bench.append(partition, b"x" * 400)
    [send] = bench.produce()
    assert sorted(partitions_of(send)) == [0, 2]
    assert bench.poll().wake_at == 5.0
    bench.now = 5.0
    [send] = bench.produce()
    assert sorted(partitions_of(send)) == [0, 2]


def test_partitions_with_batches_expired_in_flight_are_sent_again() -> None:
    bench = Bench(
        max_in_flight_requests_per_connection=1,
        enable_idempotence=False,
        linger_ms=0,
        request_timeout_ms=1000,
        delivery_timeout_ms=2000,
    )
    expired = [bench.append(partition) for partition in (0, 2)]
    [send] = bench.produce()
    bench.now += 3
    assert bench.produce() == []
    assert all(delivery.failed() for delivery in expired)
    bench.answer(send)
    later = [bench.append(partition) for partition in (0, 2)]
    [send] = bench.produce()
    bench.answer(send)
    assert all(delivery.succeeded() for delivery in later)


def test_no_more_requests_than_max_in_flight_wait_for_answers() -> None:
    bench = Bench(enable_idempotence=False, max_in_flight_requests_per_connection=3)
    for _ in range(5):
        bench.append()
    sends = bench.produce()
    assert len(sends) == 3
    assert bench.produce() == []
    bench.answer(sends[0])
    assert len(bench.produce()) == 1


@pytest.mark.parametrize(
    ("topic_id", "codec", "versions"),
    [(TOPIC_ID, "none", (3, None)), (TOPIC_ID, "zstd", (7, None)), (ZERO_UUID, "lz4", (3, 12))],
)
def test_the_version_must_carry_format_2_the_codec_and_the_topics_id(
    topic_id: bytes, codec: str, versions: tuple[int, int | None]
) -> None:
    bench = Bench(topic_id, compression_type=codec)
    bench.append()
    [send] = bench.produce()
    assert (send.min_version, send.max_version) == versions


@pytest.mark.parametrize(
    ("topic_id", "of_transaction", "versions"),
    [
        (TOPIC_ID, (None, 11), (3, 11)),
        (ZERO_UUID, (None, 11), (3, 11)),
        (TOPIC_ID, (12, None), (12, None)),
        (ZERO_UUID, (12, None), (12, 12)),
    ],
)
def test_produce_version_is_one_of_the_transaction_version(
    topic_id: bytes, of_transaction: tuple[int | None, int | None], versions: tuple[int, int | None]
) -> None:
    bench = Bench(topic_id)
    transactions = Mock(TransactionManager, produce_versions=of_transaction)
    transactions.error_of_unsendable.return_value = None
    bench.sender._transactions = transactions
    bench.append()
    [send] = bench.produce()
    assert (send.min_version, send.max_version) == versions


def test_unknown_server_error_of_code_minus_one_fails_the_batch() -> None:
    bench = Bench()
    delivery = bench.append()
    [send] = bench.produce()
    bench.answer(send, error_code=UnknownServerError.code, base_offset=-1)
    assert isinstance(delivery.exception(0), UnknownServerError)


def test_produce_request_has_acks_and_request_timeout() -> None:
    bench = Bench(request_timeout_ms=7000)
    bench.append()
    [send] = bench.produce()
    assert (send.request.acks, send.request.timeout_ms) == (-1, 7000)  # type: ignore[attr-defined]


def test_producer_id_is_requested_once_before_the_first_produce() -> None:
    bench = Bench()
    assert bench.sender.identity is not None
    bench.sender.identity.sequences.identity = (-1, -1)
    assert bench.produce() == []
    bench.append()
    [ask] = bench.produce()
    assert bench.produce() == []
    ask.on_response(InitProducerIdResponse(producer_id=9, producer_epoch=0), bench.now)
    [send] = bench.produce()
    assert partitions_of(send) == [0]


def test_each_producer_id_request_has_its_own_backoff() -> None:
    """Failures before the first id do not slow down the request for the next one."""
    bench = Bench(retry_backoff_ms=100, retry_backoff_max_ms=10_000)
    identity = bench.sender.identity
    assert identity is not None
    identity.sequences.on_refusal()
    bench.append()
    for _ in range(6):
        [send] = bench.produce()
        send.on_failure(Disconnected("gone"), bench.now)
        bench.now = bench.poll().wake_at
    [send] = bench.produce()
    send.on_response(InitProducerIdResponse(producer_id=8, producer_epoch=0), bench.now)
    identity.sequences.on_refusal()
    [send] = bench.produce()
    send.on_failure(Disconnected("gone"), bench.now)
    assert bench.poll().wake_at - bench.now < 0.2


def test_exhausted_epochs_request_a_new_producer_id() -> None:
    bench = Bench()
    assert bench.sender.identity is not None
    bench.sender.identity.sequences.on_identity(7, LAST_EPOCH)
    bench.append()
    [send] = bench.produce()
    bench.answer(send, error_code=MessageTooLarge.code)
    bench.append()
    [ask] = bench.produce()
    assert isinstance(ask.request, InitProducerIdRequest)


def test_sender_wakes_when_the_first_batch_has_lingered() -> None:
    bench = Bench(linger_ms=500, batch_size=1000)
    bench.append()
    assert bench.poll().wake_at == 0.5


def test_sender_wakes_when_the_first_batch_expires() -> None:
    bench = Bench(delivery_timeout_ms=40_000)
    delivery = bench.append()
    bench.produce()
    assert bench.poll().wake_at == 40
    bench.now = 40.0
    bench.poll()
    with pytest.raises(DeliveryTimeout, match="after 1 attempt;"):
        delivery.result(0)
    # The bytes of a request on the wire stay accounted for until its answer.
    assert bench.accumulator.pool.available_bytes < bench.accumulator.pool.total_bytes


def test_a_late_answer_to_an_expired_batch_only_frees_its_memory() -> None:
    bench = Bench()
    delivery = bench.append()
    [send] = bench.produce()
    bench.now = 121.0
    bench.poll()
    bench.answer(send)
    assert isinstance(delivery.exception(0), DeliveryTimeout)
    assert bench.accumulator.pool.available_bytes == bench.accumulator.pool.total_bytes


def test_expired_batch_that_was_never_sent_names_its_blocker() -> None:
    bench = Bench()
    bench.connections.down.add(0)
    delivery = bench.append()
    bench.poll()
    bench.now = 121.0
    bench.poll()
    with pytest.raises(DeliveryTimeout, match="it was never sent, it waited for a connection to node 0"):
        delivery.result(0)


@pytest.mark.parametrize("ends_by", ["a refusal", "a bug"])
def test_record_on_the_wire_failed_with_all_others_may_be_in_the_log(
    ends_by: str,
) -> None:
    bench = Bench()
    on_the_wire, refused = bench.append(0), bench.append(1)
    sends = {partitions_of(send)[0]: send for send in bench.produce()}
    never_sent = bench.append(1)
    if ends_by == "a refusal":
        bench.answer(sends[1], error_code=ProducerFenced.code)
        bench.poll()
        assert isinstance(refused.exception(0), ProducerFenced)
    else:
        bench.sender.on_loop_failed(ClientFailed("it stopped"), bench.now)
    error = on_the_wire.exception(0)
    assert isinstance(error, ProducerFenced | ClientFailed)
    assert "may or may not be in the log" in str(error)
    assert "in the log" not in str(never_sent.exception(0))
    if ends_by == "a refusal":
        # The bytes on the wire stay accounted for until their answer.
        assert bench.accumulator.pool.available_bytes < bench.accumulator.pool.total_bytes
        bench.answer(sends[0])
        assert bench.accumulator.pool.available_bytes == bench.accumulator.pool.total_bytes


def moved(leader_id: int, leader_epoch: int) -> ProduceResponse:
    """An answer that names the new leader (KIP-951)."""
    hint = LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=leader_epoch)
    hinted = PartitionProduceResponse(index=0, base_offset=-1, error_code=6, current_leader=hint)
    return ProduceResponse(
        responses=[TopicProduceResponse(topic_id=TOPIC_ID, partition_responses=[hinted])],
        node_endpoints=[NodeEndpoint(node_id=leader_id, host="h", port=3)],
    )


def test_a_hint_at_the_new_leader_is_followed_at_once() -> None:
    bench = Bench()
    delivery = bench.append()
    [send] = bench.produce()
    send.on_response(moved(2, 6), bench.now)
    [again] = bench.produce()
    assert again.to == ToNode(2)
    bench.answer(again)
    assert delivery.result(0).offset == 0


def test_a_leader_that_moves_with_every_answer_is_followed_after_a_wait() -> None:
    bench = Bench()
    bench.append()
    for epoch in range(6, 6 + LEADER_CHANGES_WITHOUT_BACKOFF):
        [send] = bench.produce()
        send.on_response(moved(epoch, epoch), bench.now)
    [send] = bench.produce()
    send.on_response(moved(99, 99), bench.now)
    assert bench.produce() == []
    bench.now += 1.5
    [send] = bench.produce()
    assert send.to == ToNode(99)


def test_a_duplicate_counts_as_written_with_an_unknown_offset() -> None:
    bench = Bench()
    delivery = bench.append()
    [send] = bench.produce()
    bench.answer(send, error_code=46)
    assert delivery.result(0).offset == -1


@pytest.mark.parametrize("is_lost_on_the_way", [True, False])
def test_batch_behind_a_lost_batch_is_not_renumbered_while_its_bytes_can_arrive(
    is_lost_on_the_way: bool,
) -> None:
    """Two batches were on a connection that broke, and the first was refused when it was retried. The second,
    out of order by that, was renumbered. Then the bytes of the broken connection arrived after all, both
    batches in order, and the second was in the log twice.
    """
    bench = Bench(enable_idempotence=True, retry_backoff_ms=0)
    bench.append()
    [warm] = bench.produce()
    bench.answer(warm)
    lost, following = bench.append(), bench.append()
    sends = bench.produce()
    for send in sends:
        if is_lost_on_the_way:
            send.on_failure(Disconnected("reset"), bench.now)
        else:
            bench.answer(send, error_code=NotEnoughReplicas.code)
    [again] = bench.produce()
    bench.answer(again, error_code=MessageTooLarge.code)
    [again] = bench.produce()
    bench.answer(again, error_code=OutOfOrderSequenceNumber.code)
    with pytest.raises(MessageTooLarge):
        lost.result(0)
    if is_lost_on_the_way:
        with pytest.raises(OutOfOrderSequenceNumber, match="may or may not be in the log"):
            following.result(0)
        assert bench.produce() == []
    else:
        assert not following.done()
        bench.answer(bench.produce()[0])
        assert following.result(0).offset == 0


def two_of_a_batch(bench: Bench) -> tuple[Delivery, Delivery]:
    first = bench.append()
    second = bench.accumulator.queue("orders", 0).try_append(*a_row(b"w"))
    assert second is not None
    return first, second


def test_records_that_the_broker_names_get_their_own_words() -> None:
    # KIP-467.
    bench = Bench(linger_ms=100, batch_size=1000)
    first, second = two_of_a_batch(bench)
    bench.now = 1.0
    [send] = bench.produce()
    named = [BatchIndexAndErrorMessage(batch_index=1, batch_index_error_message="no key")]
    bench.answer(send, error_code=87, error_message="of the whole batch", record_errors=named)
    assert second is not None
    assert (type(second.exception(0)), type(first.exception(0))) == (InvalidRecord, InvalidRecord)
    assert "record 1 of the batch: no key" in str(second.exception(0))
    assert "because of other records in its batch: [1]" in str(first.exception(0))


def test_records_named_beside_a_retriable_error_are_resent_with_the_others() -> None:
    # As Java does: all of the batch, in its place, as often as any other that comes back.
    bench = Bench(linger_ms=100, batch_size=1000, retries=1)
    first, second = two_of_a_batch(bench)
    named = [BatchIndexAndErrorMessage(batch_index=1, batch_index_error_message="no key")]
    bench.now = 1.0
    [send] = bench.produce()
    bench.answer(send, error_code=NotEnoughReplicas.code, record_errors=named)
    assert not first.done()
    assert not second.done()
    bench.now = 2.0
    [again] = bench.produce()
    assert partitions_of(again) == [0]
    bench.answer(again, error_code=NotEnoughReplicas.code, record_errors=named)
    assert (type(second.exception(0)), type(first.exception(0))) == (NotEnoughReplicas, InvalidRecord)


def test_record_errors_of_a_retry_warn_that_an_earlier_attempt_may_be_in_the_log() -> None:
    bench = Bench(linger_ms=100, batch_size=1000)
    both = two_of_a_batch(bench)
    bench.now = 1.0
    [send] = bench.produce()
    send.on_failure(Disconnected("gone"), bench.now)
    bench.now = 2.0
    [again] = bench.produce()
    named = [BatchIndexAndErrorMessage(batch_index=1, batch_index_error_message="no key")]
    bench.answer(again, error_code=87, record_errors=named)
    for one in both:
        assert "may or may not be in the log" in str(one.exception(0))


def test_message_too_large_splits_the_batch_despite_record_errors() -> None:
    bench = Bench(linger_ms=100, batch_size=1000)
    first, second = two_of_a_batch(bench)
    named = [BatchIndexAndErrorMessage(batch_index=1, batch_index_error_message="too large")]
    bench.now = 1.0
    [send] = bench.produce()
    bench.answer(send, error_code=MessageTooLarge.code, record_errors=named)
    assert not first.done()
    for offset in range(2):
        [half] = bench.produce()
        bench.answer(half, base_offset=offset)
    assert [one.result(0).offset for one in (first, second)] == [0, 1]


def test_several_records_that_are_named_get_no_error_of_one() -> None:
    bench = Bench(linger_ms=100, batch_size=1000)
    first, second = two_of_a_batch(bench)
    named = [BatchIndexAndErrorMessage(batch_index=index) for index in (0, 1)]
    bench.now = 1.0
    [send] = bench.produce()
    bench.answer(send, error_code=InvalidTimestamp.code, record_errors=named)
    assert (type(second.exception(0)), type(first.exception(0))) == (InvalidRecord, InvalidRecord)


def test_partition_missing_from_the_response_is_resent_until_the_delivery_timeout() -> None:
    # It says neither that it was refused nor that it was written.
    bench = Bench(delivery_timeout_ms=40_000, request_timeout_ms=30_000)
    delivery = bench.append()
    [send] = bench.produce()
    send.on_response(ProduceResponse(responses=[]), bench.now)
    assert not delivery.done()
    bench.now += 1
    [again] = bench.produce()
    assert partitions_of(again) == partitions_of(send) == [0]
    again.on_response(ProduceResponse(responses=[]), bench.now)
    bench.now += 40
    bench.produce()
    with pytest.raises(
        DeliveryTimeout, match=r"sent a response without orders-0.* may or may not be in the log"
    ):
        delivery.result(0)


def test_an_answer_is_understood_though_the_topic_was_forgotten_meanwhile() -> None:
    # It names the topic by its id alone, which is lost after metadata_max_idle_ms, or if the topic is created
    # again.
    bench = Bench()
    delivery = bench.append()
    [send] = bench.produce()
    bench.metadata.snapshot = without_topics(bench.metadata.snapshot, ["orders"])
    bench.answer(send, base_offset=5)
    assert delivery.result(0).offset == 5


def test_events_report_retries_and_outcomes() -> None:
    bench = Bench()
    bench.append()
    [send] = bench.produce()
    bench.answer(send, error_code=19)
    bench.now = 1.0
    [send] = bench.produce()
    bench.answer(send, base_offset=40)
    retried, completed = bench.events
    assert isinstance(retried, BatchRetried)
    assert retried.error.startswith("NotEnoughReplicas: orders-0:")
    assert completed == BatchCompleted(1.0, "orders", 0, 1, 40, 2)


def test_a_partition_without_a_leader_stays_queued_and_forces_a_refresh() -> None:
    bench = Bench()
    bench.append(partition=9)
    before = bench.metadata._update_requested
    assert bench.produce() == []
    assert (before, bench.metadata._update_requested) == (False, True)
    assert bench.sender.waiting_for == {"orders-9": "a leader"}


def test_batch_without_memory_is_retried_and_blocks_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = Bench()
    large, small, made = bench.append(0), bench.append(2), ProducerBatch.bytes

    def refuse_large(batch: ProducerBatch) -> bytes:
        if batch.partition == 0:
            raise MemoryError
        return made(batch)

    with monkeypatch.context() as patch:
        patch.setattr(ProducerBatch, "bytes", refuse_large)
        turn = bench.poll()
        assert [partitions_of(send) for send in turn.sends] == [[2]]
        assert bench.now < turn.wake_at < bench.now + 1
        bench.answer(turn.sends[0])
        assert small.result(0).partition == 2
    bench.now += 1
    [send] = bench.produce()
    assert partitions_of(send) == [0]
    bench.answer(send)
    assert large.result(0).partition == 0
