"""Produce requests that a leader accepts and rejects, and its responses, over real sockets.

The table of tests/broker/support/produce_cases.py has the requests whose validation Apache Kafka judged.
"""

from __future__ import annotations

import pytest

from pykafka2 import errors
from pykafka2.broker.handlers.produce import is_transactional
from pykafka2.errors import for_code
from pykafka2.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from pykafka2.records.batch import TRANSACTIONAL_FLAG, crc32c
from pykafka2.testing.cluster import KafkaCluster, Topic
from tests.broker.support.batches import NOW_MS, batch
from tests.broker.support.data_requests import partition_of, produce, produce_request
from tests.broker.support.raw_client import RawClient
from tests.connections import LiveCluster

GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4

one_broker = pytest.mark.kafka(brokers=1, topics={"t": 1})


def error_of(wire: RawClient, records: bytes | None, **options: int) -> str:
    response = produce(wire, "t", 0, records, **options)
    if not response.error_code:
        return "none"
    # An error carries no offset.
    assert (response.base_offset, response.log_append_time_ms) == (-1, -1)
    assert response.error_message
    return for_code(response.error_code).__name__


@one_broker
def test_produce_with_null_records_is_rejected(live: LiveCluster) -> None:
    assert error_of(live.leader(), None) == "InvalidRecord"


@pytest.mark.parametrize("place", [0, 1, 2, 3])
def test_request_is_transactional_if_any_of_its_batches_is(place: int) -> None:
    records: list[bytes | None] = [batch(), None, batch(), batch()]
    data = [PartitionProduceData(index=at, records=one) for at, one in enumerate(records)]
    topics = [
        TopicProduceData(name=name, partition_data=data[at : at + 2]) for name, at in (("t", 0), ("u", 2))
    ]
    request = ProduceRequest(acks=-1, timeout_ms=5000, topic_data=topics)
    assert not is_transactional(request)
    data[place].records = batch(attributes=TRANSACTIONAL_FLAG)
    assert is_transactional(request)


@one_broker
def test_incomplete_second_batch_is_dropped(live: LiveCluster) -> None:
    assert error_of(live.leader(), batch() + batch()[:-1]) == "none"
    assert live.cluster.log("t", 0).values() == [b"value"]


@pytest.mark.kafka(brokers=1, topics={"t": 1}, config={"log.validate": "strict"})
def test_strict_validation_reads_every_record(live: LiveCluster) -> None:
    whole = bytearray(batch([b"aaaa", b"bbbb"]))
    whole[-2] ^= 0x55  # inside the last record
    whole[17:21] = crc32c(bytes(whole[21:])).to_bytes(4, "big")
    whole[61] = 0x7F  # the first record's length
    whole[17:21] = crc32c(bytes(whole[21:])).to_bytes(4, "big")
    assert error_of(live.leader(), bytes(whole)) == "InvalidRecord"
    assert error_of(live.leader(), batch([b"aaaa", b"bbbb"])) == "none"


@one_broker
def test_log_append_time_flag_is_cleared_in_topics_with_create_time(live: LiveCluster) -> None:
    """Kafka 4.3 does the same; older descriptions say that the batch is rejected."""
    assert error_of(live.leader(), batch(attributes=0x08)) == "none"
    (stored,) = live.cluster.log("t", 0).batches()
    stored.verify_crc()
    assert (stored.timestamp_type, stored.max_timestamp) == (0, NOW_MS)


@pytest.mark.kafka(brokers=1, topics={"t": Topic(configs={"message.timestamp.type": "LogAppendTime"})})
def test_log_append_time_is_written_and_returned(live: LiveCluster) -> None:
    before = live.cluster.runtime.clock.wall_ms()
    response = produce(live.leader(), "t", 0, batch([b"a", b"b"]))
    after = live.cluster.runtime.clock.wall_ms()
    assert before <= response.log_append_time_ms <= after
    (stored,) = live.cluster.log("t", 0).batches()
    stored.verify_crc()
    assert stored.timestamp_type == 1
    assert {record.timestamp for record in live.cluster.log("t", 0).records()} == {
        response.log_append_time_ms
    }


@one_broker
def test_produce_response_has_log_append_time_minus_1_with_create_time(live: LiveCluster) -> None:
    assert produce(live.leader(), "t", 0, batch()).log_append_time_ms == -1


@pytest.mark.parametrize(
    ("wanted", "codec"),
    [("gzip", GZIP), ("snappy", SNAPPY), ("lz4", LZ4), ("zstd", ZSTD), ("uncompressed", 0)],
)
def test_topic_compression_type_recompresses_batches(wanted: str, codec: int) -> None:
    topic = Topic(configs={"compression.type": wanted})
    with (
        KafkaCluster(brokers=1, topics={"t": topic}) as cluster,
        RawClient(cluster.brokers[0].address) as wire,
    ):
        for sent in (0, GZIP):
            assert produce(wire, "t", 0, batch([b"value" * 20], codec=sent)).error_code == 0
        assert {stored.codec_id for stored in cluster.log("t", 0).batches()} == {codec}
        for stored in cluster.log("t", 0).batches():
            stored.verify_crc()
        assert cluster.log("t", 0).values() == [b"value" * 20] * 2


@one_broker
def test_compression_type_producer_keeps_the_bytes(live: LiveCluster) -> None:
    sent = batch([b"value" * 20], codec=LZ4)
    produce(live.leader(), "t", 0, sent)
    (stored,) = live.cluster.log("t", 0).batches()
    assert bytes(stored.buffer[16:]) == sent[16:]


@pytest.mark.parametrize(("codec", "low", "high"), [("gzip", 1, 9), ("lz4", 1, 17), ("zstd", -50, 19)])
def test_topic_compression_level_is_applied(codec: str, low: int, high: int) -> None:
    values = [b"%d, %d and once more %d" % (n, n * n, n) for n in range(400)]
    topics = {
        name: Topic(configs={"compression.type": codec, f"compression.{codec}.level": level})
        for name, level in (("low", low), ("high", high))
    }
    sizes = {}
    with KafkaCluster(brokers=1, topics=topics) as cluster, RawClient(cluster.bootstrap_servers) as wire:
        for name in topics:
            assert produce(wire, name, 0, batch(values)).error_code == 0
            assert cluster.log(name, 0).values() == values
            sizes[name] = cluster.log(name, 0).batches()[0].size_bytes
    assert sizes["high"] < sizes["low"]


@pytest.mark.kafka(brokers=2, topics={"t": Topic(configs={"max.message.bytes": 200})})
def test_produce_error_has_no_offset_and_the_log_start_offset_if_known(live: LiveCluster) -> None:
    leading = live.leader_id()
    wire = live.connect(leading)
    produce(wire, "t", 0, batch([b"a", b"b"]))
    with live.cluster.lock:
        live.cluster.broker(leading).replicas.replicas["t", 0].log.advance_log_start(1)
    cases = [
        (wire, "t", batch(attributes=0x20), 87, 1),
        (wire, "t", batch(producer_id=1, producer_epoch=0, base_sequence=-1), 87, 1),
        (wire, "t", batch(timestamp=NOW_MS * 2), 32, 1),
        (wire, "t", batch(corrupt=True), 2, -1),
        (wire, "t", batch([b"x" * 300]), 10, -1),
        (wire, "t", b"", 87, -1),
        (wire, "nosuch", batch(), 3, -1),
        (live.connect(1 - leading), "t", batch(), 6, -1),
    ]
    for broker, topic, records, code, start in cases:
        response = produce(broker, topic, 0, records)
        assert (response.error_code, response.base_offset, response.log_append_time_ms) == (code, -1, -1)
        assert response.log_start_offset == start, response


@pytest.mark.kafka(brokers=3, topics={"t": 1})
def test_not_leader_response_names_the_current_leader(live: LiveCluster) -> None:
    leading = live.leader_id()
    wire = live.connect((leading + 1) % 3)
    response = wire.call(produce_request("t", 0, batch()), 12)
    answer = partition_of(response)
    assert for_code(answer.error_code).__name__ == "NotLeaderOrFollower"
    assert (answer.current_leader.leader_id, answer.current_leader.leader_epoch) == (leading, 0)
    assert [(node.node_id, node.port) for node in response.node_endpoints] == [
        (leading, live.cluster.brokers[leading].port)
    ]


@pytest.mark.kafka(brokers=2, topics={"t": 1})
@pytest.mark.parametrize("version", range(3, 13))
def test_every_produce_version_by_name_returns_success_and_errors(live: LiveCluster, version: int) -> None:
    leading = live.leader_id()
    assert (
        partition_of(live.connect(leading).call(produce_request("t", 0, batch()), version)).base_offset == 0
    )
    response = partition_of(live.connect(1 - leading).call(produce_request("t", 0, batch()), version))
    assert for_code(response.error_code).__name__ == "NotLeaderOrFollower"
    assert response.current_leader.leader_id == (leading if version >= 10 else -1)


@pytest.mark.kafka(brokers=1, topics={"__consumer_offsets": 1})
def test_produce_to_internal_topics_is_rejected(live: LiveCluster) -> None:
    response = produce(live.connect(), "__consumer_offsets", 0, batch())
    assert for_code(response.error_code).__name__ == "InvalidTopicException"


@pytest.mark.kafka(brokers=1, topics={"__consumer_offsets": 1})
def test_admin_client_id_can_produce_to_internal_topics(kafka_cluster: KafkaCluster) -> None:
    with RawClient(kafka_cluster.brokers[0].address, client_id="__admin_client") as wire:
        assert produce(wire, "__consumer_offsets", 0, batch(keys=[b"k"])).error_code == 0


@pytest.mark.kafka(brokers=3, topics={"t": Topic(configs={"min.insync.replicas": 3})})
def test_acks_all_below_min_isr_is_rejected_and_appends_nothing(live: LiveCluster) -> None:
    leading = live.leader_id()
    live.controls.crash_broker((leading + 1) % 3)
    wire = live.leader()
    assert error_of(wire, batch()) == "NotEnoughReplicas"
    assert live.cluster.log("t", 0).values() == []
    assert error_of(wire, batch([b"one is enough"]), acks=1) == "none"


@pytest.mark.kafka(brokers=1, topics={"t": Topic(replication_factor=1, configs={"min.insync.replicas": 2})})
def test_min_isr_above_the_replication_factor_does_not_reject_acks_all(live: LiveCluster) -> None:
    assert error_of(live.leader(), batch()) == "none"


@pytest.mark.kafka(brokers=3, topics={"t": Topic(configs={"min.insync.replicas": 2})})
def test_high_watermark_does_not_advance_below_min_isr(live: LiveCluster) -> None:
    """Both followers crash while an acks=all produce waits: one replica must not be enough (4.x)."""
    leading = live.leader_id()
    live.controls.pause_followers()
    wire = live.leader()
    wire.send(produce_request("t", 0, batch([b"kept"]), timeout_ms=300), 12)
    live.wait_for(lambda: live.cluster.log("t", 0).values() == [b"kept"])
    for follower in {0, 1, 2} - {leading}:
        live.controls.crash_broker(follower)
    response = partition_of(wire.receive(ProduceRequest, 12)[1])
    assert for_code(response.error_code).__name__ == "RequestTimedOut"
    assert live.cluster.log("t", 0).values() == [b"kept"]
    assert live.cluster.partition("t", 0).isr == (leading,)
    assert live.cluster.partition("t", 0).high_watermark == 0


@pytest.mark.kafka(brokers=2, topics={"t": 1})
def test_acks_all_times_out_if_followers_lag_and_the_batch_stays(live: LiveCluster) -> None:
    live.controls.pause_followers()
    wire = live.leader()
    for offset, timeout_ms in enumerate((50, 0, -1)):
        request = produce_request("t", 0, batch([b"kept"]), timeout_ms=timeout_ms)
        response = partition_of(wire.call(request, 12))
        assert for_code(response.error_code).__name__ == "RequestTimedOut"
        # The response has the offset: the batch was appended, unlike a rejected one.
        assert (response.base_offset, response.log_start_offset) == (offset, 0)
    assert live.cluster.log("t", 0).values() == [b"kept"] * 3


@pytest.mark.kafka(brokers=2, topics={"t": 1})
def test_leader_change_ends_a_waiting_acks_all_produce_at_once(live: LiveCluster) -> None:
    live.controls.pause_followers()
    leading = live.leader_id()
    wire = live.leader()
    wire.send(produce_request("t", 0, batch(), timeout_ms=60_000), 12)
    live.wait_for(lambda: live.cluster.log("t", 0).log_end_offset == 1)
    live.controls.move_leader(("t", 0), 1 - leading)
    response = partition_of(wire.receive(ProduceRequest, 12)[1])
    assert for_code(response.error_code).__name__ == "NotLeaderOrFollower"
    assert response.current_leader.leader_id == 1 - leading


@one_broker
def test_produce_to_a_missing_partition_is_unknown_topic_or_partition(wire: RawClient) -> None:
    for topic, partition in (("t", 7), ("t", -1), ("other", 0)):
        assert produce(wire, topic, partition, batch()).error_code == errors.UnknownTopicOrPartition.code


# ---------------------------------------------------------------------- several batches of one partition


@pytest.mark.parametrize("version", [12, 13])
@pytest.mark.parametrize("is_apart", [False, True], ids=["in one topic", "in two"])
@pytest.mark.kafka(brokers=1, topics={"t": 2})
def test_only_the_last_of_several_batches_of_a_partition_is_appended(
    live: LiveCluster, version: int, is_apart: bool
) -> None:
    """Kafka responds the same, as it keeps the batches of a request in maps; both were appended once."""
    topic_id = live.cluster.controller.image.topics["t"].id
    wire = live.leader()

    def twice(*records: bytes, acks: int = -1) -> list[tuple[int, int, str]]:
        data = [PartitionProduceData(index=0, records=one) for one in records]
        data.append(PartitionProduceData(index=1, records=batch([b"other"])))
        topics = [
            TopicProduceData(name="t", topic_id=topic_id, partition_data=own)
            for own in ([[one] for one in data] if is_apart else [data])
        ]
        request = ProduceRequest(acks=acks, timeout_ms=5000, topic_data=topics)
        response = wire.call(request, version)
        return [
            (one.index, one.base_offset, for_code(one.error_code).__name__ if one.error_code else "")
            for topic in response.responses
            for one in topic.partition_responses
        ]

    first, last, nothing, damaged = batch([b"a", b"b"]), batch([b"c"]), b"", batch([b"x"], corrupt=True)
    assert twice(first, last) == [(0, 0, ""), (1, 0, "")]
    assert twice(last, first, acks=1) == [(0, 1, ""), (1, 1, "")]
    assert live.cluster.log("t", 0).values() == [b"c", b"a", b"b"]
    # Bytes that are no batch decide the response, although the other batch is appended.
    assert twice(nothing, last) == [(0, -1, "InvalidRecord"), (1, 2, "")]
    assert twice(last, nothing) == [(0, -1, "InvalidRecord"), (1, 3, "")]
    assert live.cluster.log("t", 0).values()[3:] == [b"c", b"c"]
    # The checksum is checked later, when only the last batch is left.
    assert twice(last, damaged) == [(0, -1, "CorruptMessage"), (1, 4, "")]
    assert twice(damaged, last) == [(0, 5, ""), (1, 5, "")]
