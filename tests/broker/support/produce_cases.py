"""Produce requests with Apache Kafka 4.3.1's outcome of each.

Records that are null are left out, as Kafka 4.3.1 does not respond to them.
tests/acceptance/test_produce_validation.py runs the table against the bundled broker, the conformance stage
against Apache Kafka too.
Times are relative to `now`, so that both judge the same.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

import attrs

from pykafka2 import errors
from pykafka2.protocol.messages.metadata import MetadataRequest
from pykafka2.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from pykafka2.protocol.messages.topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from pykafka2.records.batch import RecordBatch, batches
from tests.broker.support.batches import batch
from tests.broker.support.data_requests import data_of, fetch_request, partition_of
from tests.broker.support.raw_client import RawClient

GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
LOG_APPEND_TIME, TRANSACTIONAL, CONTROL = 0x08, 0x10, 0x20
HOUR: Final = 3_600_000

TOPICS: Final[dict[str, dict[str, str]]] = {
    "plain": {},
    "compacted": {"cleanup.policy": "compact"},
    "both": {"cleanup.policy": "compact,delete"},
    "stamped": {"message.timestamp.type": "LogAppendTime"},
    "bounded": {"message.timestamp.before.max.ms": "3600000", "message.timestamp.after.max.ms": "60000"},
    "small": {"max.message.bytes": "200"},
    "small-raw": {"max.message.bytes": "200", "compression.type": "uncompressed"},
    "segment": {"internal.segment.bytes": "300", "max.message.bytes": "100000"},
    "segment-small": {"internal.segment.bytes": "300", "max.message.bytes": "200"},
    "zipped": {"compression.type": "gzip", "compression.gzip.level": "9"},
    "zstd": {"compression.type": "zstd"},
    "raw": {"compression.type": "uncompressed"},
}
"""Topics by name, with their configurations."""


@attrs.define(frozen=True)
class Case:
    """One request with its error code and the indices of its invalid records."""

    name: str
    topic: str
    records: bytes | None
    code: int = 0
    wrong: tuple[int, ...] = ()
    version: int = 12
    acks: int = -1
    partition: int = 0


def cases(now: int) -> list[Case]:
    """Return the table; `now` is the wall clock in milliseconds."""

    def b(values: tuple[bytes | None, ...] = (b"v",), **fields: Any) -> bytes:
        fields.setdefault("timestamp", now)
        return batch(values, **fields)

    keyed = {"keys": (b"k", None, b"k")}
    three = (b"a", b"b", b"c")
    moved = bytearray(b())
    moved[7] = 5  # base offset 5
    return [
        Case("good", "plain", b()),
        Case("acks 7", "plain", b(), 21, acks=7),
        Case("acks -2", "plain", b(), 21, acks=-2),
        Case("no topic", "nosuch", b(), 3),
        Case("no partition", "plain", b(), 3, partition=9),
        Case("partition -1", "plain", b(), 3, partition=-1),
        Case("no batch", "plain", b"", 87),
        Case("two batches", "plain", b() + b(), 87),
        Case("magic 1", "plain", b(magic=1), 87),
        Case("magic 0", "plain", b(magic=0), 87),
        Case("magic 3", "plain", b(magic=3), 2),
        Case("torn", "plain", b()[:-3], 87),
        Case("torn header", "plain", b()[:30], 87),
        Case("a byte too many", "plain", b() + b"x"),
        Case("bad checksum", "plain", b(corrupt=True), 2),
        Case("base offset 5", "plain", bytes(moved), 87),
        Case("zstd in version 6", "plain", b(codec=ZSTD), 76, version=6),
        Case("zstd in version 7", "plain", b(codec=ZSTD), version=7),
        Case("codec 5", "plain", b(attributes=5), -1),
        Case("a control batch", "plain", b(attributes=CONTROL), 87),
        Case("too few records", "plain", b(three, count=4, last_offset_delta=3), 87),
        Case("too many records", "plain", b(three, count=2, last_offset_delta=1), 87),
        Case("count and delta differ", "plain", b(three, count=3, last_offset_delta=1), 87),
        Case("no records", "plain", b((), count=0, last_offset_delta=0), 87),
        Case("negative count", "plain", b(count=-1), 87),
        Case("producer without sequence", "plain", b(producer_id=9, producer_epoch=0), 87),
        Case(
            "producer, negative sequence", "plain", b(producer_id=9, producer_epoch=0, base_sequence=-2), 87
        ),
        Case("too large", "small", b((b"x" * 300,)), 10),
        Case("small when compressed", "small", b((b"x" * 300,), codec=GZIP)),
        Case("too large when decompressed", "small-raw", b((b"x" * 300,), codec=GZIP), 10),
        Case("larger than a segment", "segment", b((b"x" * 300,)), 18),
        Case("larger than a segment and the limit", "segment-small", b((b"x" * 300,)), 10),
        Case("corrupt and larger than a segment", "segment", b((b"x" * 300,), corrupt=True), 2),
        Case("no key on a compacted topic", "compacted", b(three, **keyed), 87, (1,)),
        Case("no keys on a compacted topic", "compacted", b(three), 87, (0, 1, 2)),
        Case("no keys where both policies are", "both", b(three), 87, (0, 1, 2)),
        Case("keys on a compacted topic", "compacted", b(three, keys=(b"k",) * 3)),
        Case("compressed, no key, compacted", "compacted", b(three, codec=GZIP, **keyed), 87, (1,)),
        Case("an hour and more ahead", "plain", b(three, timestamp=now + 2 * HOUR), 32, (0, 1, 2)),
        Case("half an hour ahead", "plain", b(timestamp=now + HOUR // 2)),
        Case("in 1970", "plain", b(timestamp=0)),
        Case("without a time", "plain", b(timestamp=-1)),
        Case("before the bound", "bounded", b(three, timestamp=now - 2 * HOUR), 32, (0, 1, 2)),
        Case("after the bound", "bounded", b(timestamp=now + 120_000), 32, (0,)),
        Case("within the bounds", "bounded", b(timestamp=now - HOUR // 2)),
        Case("before the bound, compressed", "bounded", b(timestamp=now - 2 * HOUR, codec=GZIP), 32, (0,)),
        Case(
            "one of them before the bound",
            "bounded",
            b(three, timestamp=now, deltas=(0, -2 * HOUR, 0)),
            32,
            (1,),
        ),
        Case(
            "one of them after the bound", "bounded", b(three, timestamp=now, deltas=(0, 0, HOUR)), 32, (2,)
        ),
        Case("bounds do not matter to a stamped topic", "stamped", b(timestamp=now + 9 * HOUR)),
        Case("marked as stamped", "plain", b(attributes=LOG_APPEND_TIME)),
        Case("marked as stamped, stamped topic", "stamped", b(attributes=LOG_APPEND_TIME), 32, (0,)),
        Case("to be zipped", "zipped", b(three)),
        Case("zipped already", "zipped", b(three, codec=GZIP)),
        Case("recompressed", "zipped", b(three, codec=LZ4)),
        Case("version 6, topic in zstd", "zstd", b(three), version=6),
        Case("to be unzipped", "raw", b(three, codec=SNAPPY)),
        Case("damaged gzip", "raw", b(three, codec=GZIP, damage=True), -1),
        Case("damaged gzip kept as it is", "plain", b(three, codec=GZIP, damage=True), -1),
    ]


def create_topics(
    wire: RawClient, prefix: str = "", topics: Mapping[str, Mapping[str, str]] = TOPICS
) -> None:
    """Create the table's topics on the broker of the connection; on either kind of cluster."""
    port = wire.socket.getpeername()[1]
    brokers = wire.call(MetadataRequest(topics=[]), 12).brokers
    here = [
        CreatableReplicaAssignment(partition_index=0, broker_ids=[one.node_id])
        for one in brokers
        if one.port == port
    ]
    wanted = [
        CreatableTopic(
            name=prefix + name,
            num_partitions=-1,
            replication_factor=-1,
            assignments=here,
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
        )
        for name, configs in topics.items()
    ]
    response = wire.call(CreateTopicsRequest(topics=wanted, timeout_ms=10_000), 5)
    assert {one.error_code for one in response.topics} <= {0, errors.TopicAlreadyExists.code}, response
    for name in topics:  # the controller has them; the broker learns of them a moment later
        for _ in range(3000):
            if data_of(wire.call(fetch_request(prefix + name, 0, 0), 12)).error_code == 0:
                break
            time.sleep(0.01)
        else:
            raise AssertionError(f"{prefix + name} got no leader within half a minute")


def ask(wire: RawClient, case: Case) -> PartitionProduceResponse:
    data = PartitionProduceData(index=case.partition, records=case.records)
    topic = TopicProduceData(name=case.topic, partition_data=[data])
    request = ProduceRequest(acks=case.acks, timeout_ms=5000, topic_data=[topic])
    return partition_of(wire.call(request, case.version))


def stored(wire: RawClient, case: Case, offset: int, now: int) -> tuple[object, ...]:
    """Return the codec, times and size of the stored batch at that offset."""
    request = fetch_request(case.topic, case.partition, offset, max_bytes=1, partition_max_bytes=1)
    (one,) = batches(data_of(wire.call(request, 12)).records or b"")
    one.verify_crc(case.name)
    sent = RecordBatch(memoryview(case.records or b""))
    times = (one.base_timestamp - now, one.max_timestamp - now)
    return (
        one.codec_id,
        one.attributes & ~7,
        "stamped" if one.timestamp_type else times,
        one.count,
        one.size_bytes == sent.size_bytes,
        (one.producer_id, one.producer_epoch, one.base_sequence),
    )


def judged(answer: PartitionProduceResponse) -> tuple[int, tuple[int, ...], bool, bool]:
    """Return the parts of a response that are equal for both brokers."""
    return (
        answer.error_code,
        tuple(sorted(one.batch_index for one in answer.record_errors)),
        answer.base_offset >= 0,
        answer.log_append_time_ms >= 0,
    )


def main(address: str) -> None:
    """Print the responses of a broker: `python -m tests.broker.support.produce_cases HOST:PORT`."""
    with RawClient(address) as wire:
        create_topics(wire)
        wire.socket.settimeout(3)
        now = int(time.time() * 1000)
        for case in cases(now):
            try:
                response = ask(wire, case)
            except (ConnectionError, TimeoutError) as error:
                print(f"{case.name:45} {type(error).__name__}")
                wire.reopen()
                continue
            same = (response.error_code, judged(response)[1]) == (case.code, case.wrong)
            if not response.error_code:
                print(f"{case.name:45}  stored {stored(wire, case, response.base_offset, now)}")
            messages = [one.batch_index_error_message for one in response.record_errors]
            print(
                f"{case.name:45} {'' if same else '<<<'} {judged(response)} "
                f"start={response.log_start_offset} {response.error_message} {messages}"
            )


if __name__ == "__main__":
    import sys

    main(sys.argv[1])
