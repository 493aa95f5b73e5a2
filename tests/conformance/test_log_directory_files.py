"""The files that Apache Kafka writes beside a segment: read, compared with the segment, and written again."""

from __future__ import annotations

import os
import time
from pathlib import Path

import attrs

from pykafka2 import KafkaAdminClient, KafkaProducer, NewTopic
from pykafka2.broker.controller.metadata.batches import decode_metadata_record, encode_metadata_record
from pykafka2.broker.log.disk.index_files import (
    OFFSET_ENTRY,
    TIME_ENTRY,
    decode_producer_snapshot,
    decode_transaction_index,
    encode_producer_snapshot,
    encode_transaction_index,
)
from pykafka2.broker.log.disk.text_files import (
    decode_epochs,
    decode_properties,
    decode_topic_id,
    encode_epochs,
    encode_topic_id,
)
from pykafka2.protocol.messages.metadata_records import (
    ConfigRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
)
from pykafka2.records.batch import batches as batches_of
from pykafka2.records.decoder import decode_tuples

from .brokers import Cluster
from .real_kafka import RealKafka


def write_two_segments(apache: Cluster, topic: str) -> None:
    """Six transactions, of which two are aborted, then another producer until the segment rolls."""
    with KafkaAdminClient(bootstrap_servers=apache.bootstrap_servers) as admin:
        configs = {"segment.bytes": str(1 << 20), "index.interval.bytes": "4096"}
        admin.create_topics([NewTopic(topic, 1, replication_factor=1, configs=configs)])
        admin.wait_for_topics([topic])
    with KafkaProducer(
        bootstrap_servers=apache.bootstrap_servers, transactional_id=topic, compression_type="lz4"
    ) as producer:
        producer.init_transactions()
        for number in range(6):
            producer.begin_transaction()
            for _ in range(100):
                producer.send(topic, os.urandom(1000))
            producer.flush()
            if number % 3 == 2:
                producer.abort_transaction()
            else:
                producer.commit_transaction()
    with KafkaProducer(bootstrap_servers=apache.bootstrap_servers, linger_ms=5) as producer:
        for _ in range(800):
            producer.send(topic, os.urandom(1000))


def wait_for(path: Path) -> Path:
    deadline = time.monotonic() + 30
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} was not written"
        time.sleep(0.05)
    return path


def test_files_of_apache_are_read_and_written_to_the_byte(real_kafka: RealKafka, apache: Cluster) -> None:
    topic = attrs.evolve(apache, replicas=1).new_topic() + "-files"
    write_two_segments(apache, topic)
    segment = real_kafka.segment(topic, 0)
    batches = [*batches_of(segment.read_bytes(), str(segment))]
    rolled = batches[-1].next_offset
    positions, position = {}, 0
    for batch in batches:
        positions[position] = batch
        position += len(batch.buffer)

    data = segment.with_suffix(".index").read_bytes()
    offsets = [*OFFSET_ENTRY.iter_unpack(data)]
    assert len(offsets) > 10
    assert all(positions[position].last_offset == offset for offset, position in offsets)

    data = segment.with_suffix(".timeindex").read_bytes()
    times = [*TIME_ENTRY.iter_unpack(data)]
    assert times[-1][0] == max(batch.max_timestamp for batch in batches)

    data = segment.with_suffix(".txnindex").read_bytes()
    aborted = decode_transaction_index(data, "txnindex")
    assert encode_transaction_index(aborted) == data
    markers = [batch.base_offset for batch in batches if batch.is_control]
    assert [entry.last_offset for entry in aborted] == [markers[2], markers[5]]

    data = wait_for(segment.with_name(f"{rolled:020d}.snapshot")).read_bytes()
    producers = decode_producer_snapshot(data, "snapshot")
    assert encode_producer_snapshot(producers) == data
    assert {entry.producer_id for entry in producers} == {batch.producer_id for batch in batches}
    assert max(entry.last_offset for entry in producers) == rolled - 1
    assert [entry.first_transaction_offset for entry in producers] == [-1, -1]

    text = (segment.parent / "leader-epoch-checkpoint").read_text()
    assert encode_epochs(decode_epochs(text, "epochs")) == text
    text = (segment.parent / "partition.metadata").read_text()
    assert encode_topic_id(decode_topic_id(text, "metadata")) == text
    properties = decode_properties((segment.parent.parent / "meta.properties").read_text(), "properties")
    assert {"cluster.id", "node.id", "directory.id"} <= set(properties)


def test_metadata_log_of_apache_is_read_and_written_to_the_byte(
    real_kafka: RealKafka, apache: Cluster
) -> None:
    topic = attrs.evolve(apache, replicas=1).new_topic() + "-in-metadata"
    with KafkaAdminClient(bootstrap_servers=apache.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(topic, 2, replication_factor=1, configs={"retention.ms": "12345"})])
        admin.wait_for_topics([topic])
    records = []
    for segment in sorted(real_kafka.segment("__cluster_metadata", 0).parent.glob("*.log")):
        for batch in batches_of(segment.read_bytes(), str(segment)):
            if not batch.is_control:
                for _, _, _, value, _ in decode_tuples(batch, str(segment), keeps_headers=False):
                    record, version = decode_metadata_record(value, str(segment))
                    assert encode_metadata_record(record, version) == value
                    records.append(record)
    [topic_id] = [one.topic_id for one in records if isinstance(one, TopicRecord) and one.name == topic]
    partitions = [one for one in records if isinstance(one, PartitionRecord) and one.topic_id == topic_id]
    assert [one.partition_id for one in partitions] == [0, 1]
    [value] = [one.value for one in records if isinstance(one, ConfigRecord) and one.resource_name == topic]
    assert value == "12345"
    assert any(isinstance(one, RegisterBrokerRecord) for one in records)
