"""A broker lies about what a log holds: nothing is lost, nothing is made up, other partitions go on."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from pykafka2.errors import CorruptData, CorruptMessage, KafkaError, UnsupportedCompressionType
from pykafka2.protocol.messages.fetch import (
    AbortedTransaction,
    EpochEndOffset,
    LeaderIdAndEpoch,
    NodeEndpoint,
)
from pykafka2.records.varint import varint
from pykafka2.testing import Simulation
from tests.gate import rest_in_gate
from tests.hostile_brokers.batches import GOOD as GOOD_RECORD
from tests.hostile_brokers.batches import batch, bomb, record, records
from tests.hostile_brokers.lies import Lie, body, body_of, changing, setting
from tests.hostile_brokers.worlds import BAD, GOOD, LIES_LAST, World, check, poll_for

pytestmark = pytest.mark.slow

VALUES = [b"%d" % number for number in range(6)]
DAMAGE = (CorruptData, CorruptMessage, UnsupportedCompressionType)


def of_partition_0(**fields: Any) -> Any:
    """Fields of the response about partition 0."""

    def edit(answer: Any) -> None:
        for topic in answer.responses:
            for partition in topic.partitions:
                if partition.partition_index == 0:
                    for name, value in fields.items():
                        setattr(partition, name, value)

    return changing(edit)


def twice(answer: Any) -> None:
    for topic in answer.responses:
        topic.partitions += topic.partitions


def moves_on_and_on(answer: Any, count: list[int] = [0]) -> None:  # noqa: B006
    """It leads since a later epoch each time, and is not the leader."""
    count[0] += 1
    for topic in answer.responses:
        for partition in topic.partitions:
            if partition.partition_index == 0:
                partition.error_code, partition.records = 6, None
                partition.current_leader = LeaderIdAndEpoch(leader_id=0, leader_epoch=100 + count[0])


def numbered(number: int) -> Any:
    def edit(answer: Any) -> None:
        for topic in answer.responses:
            for partition in topic.partitions:
                partition.partition_index = number

    return changing(edit)


def damaged(name: str, *blobs: bytes, words: str = "", **more: Any) -> Lie:
    """Records that are no records: the error describes the bytes, with their position."""
    return Lie(
        f"records: {name}",
        "Fetch",
        records(lambda whole: b"".join(blobs)),
        more.pop("raises", DAMAGE),
        words or "orders-0",
        **more,
    )


def harmless(name: str, *blobs: bytes, denies: int = 0) -> Lie:
    """Records that bring nothing."""
    return Lie(f"records: {name}", "Fetch", records(lambda whole: b"".join(blobs)), denies=denies)


def flipped(whole: bytes) -> bytes:
    return whole[:-1] + bytes([whole[-1] ^ 1])


LONG = varint(2**31 - 1)

LIES = [
    # The answer as a whole.
    Lie("fetch: nothing is answered", "Fetch", setting(("responses", []))),
    Lie("fetch: another topic", "Fetch", setting(("responses.*.topic_id", b"x" * 16))),
    Lie("fetch: a partition that was not requested", "Fetch", numbered(9)),
    Lie("fetch: a negative partition", "Fetch", numbered(-1)),
    Lie("fetch: every partition twice", "Fetch", changing(twice)),
    Lie("fetch: an unknown error", "Fetch", setting(("error_code", 12_345)), KafkaError, "12345"),
    Lie("fetch: no such session for ever", "Fetch", setting(("error_code", 70), ("responses", []))),
    Lie("fetch: a wrong session epoch for ever", "Fetch", setting(("error_code", 71), ("responses", []))),
    Lie("fetch: a negative session", "Fetch", setting(("session_id", -5))),
    Lie("fetch: another session", "Fetch", setting(("session_id", 2**31 - 1))),
    Lie("fetch: 24 days of throttling", "Fetch", setting(("throttle_time_ms", 2**31 - 1))),
    Lie("fetch: an answer cut short", "Fetch", body_of(lambda data: data[:-3])),
    Lie("fetch: an answer that goes on after its end", "Fetch", body_of(lambda data: data + b"more")),
    Lie(
        "fetch: 2**31 - 2 topics in twenty bytes",
        "Fetch",
        body(bytes(10) + b"\xff\xff\xff\xff\x07" + bytes(5)),
    ),
    Lie(
        "fetch: a leader at port 0",
        "Fetch",
        setting(
            ("node_endpoints", [NodeEndpoint(node_id=0, host="", port=0)]),
        ),
    ),
    # Fields of a partition in the response.
    Lie(
        "fetch: a partition's unknown error",
        "Fetch",
        of_partition_0(error_code=12_345),
        KafkaError,
        "12345",
    ),
    Lie("fetch: a partition's negative error", "Fetch", of_partition_0(error_code=-9), KafkaError, "-9"),
    Lie("fetch: a high watermark of -1", "Fetch", of_partition_0(high_watermark=-1)),
    Lie("fetch: the last high watermark there is", "Fetch", of_partition_0(high_watermark=2**63 - 1)),
    Lie("fetch: the last stable offset there is", "Fetch", of_partition_0(last_stable_offset=2**63 - 1)),
    Lie("fetch: a last stable offset of -2", "Fetch", of_partition_0(last_stable_offset=-2)),
    Lie("fetch: a log that begins behind its end", "Fetch", of_partition_0(log_start_offset=2**62)),
    Lie("fetch: a negative beginning", "Fetch", of_partition_0(log_start_offset=-(2**63))),
    Lie(
        "fetch: an unknown nearer replica",
        "Fetch",
        of_partition_0(preferred_read_replica=99, records=None),
    ),
    Lie("fetch: a negative nearer replica", "Fetch", of_partition_0(preferred_read_replica=-7, records=None)),
    Lie(
        "fetch: itself as the nearer replica", "Fetch", of_partition_0(preferred_read_replica=0, records=None)
    ),
    Lie(
        "fetch: a nearer replica that has none",
        "Fetch",
        of_partition_0(preferred_read_replica=1, records=None),
    ),
    Lie("fetch: not the leader, and there is none", "Fetch", of_partition_0(error_code=6, records=None)),
    Lie(
        "fetch: an unknown leader",
        "Fetch",
        of_partition_0(
            error_code=6, records=None, current_leader=LeaderIdAndEpoch(leader_id=99, leader_epoch=2**31 - 1)
        ),
    ),
    Lie(
        "fetch: another leader of the last epoch there is",
        "Fetch",
        of_partition_0(
            error_code=6, records=None, current_leader=LeaderIdAndEpoch(leader_id=1, leader_epoch=2**31 - 1)
        ),
    ),
    Lie(
        "fetch: another leader of an epoch that never comes",
        "Fetch",
        of_partition_0(
            error_code=6, records=None, current_leader=LeaderIdAndEpoch(leader_id=1, leader_epoch=50)
        ),
    ),
    Lie("fetch: a new epoch each time", "Fetch", changing(moves_on_and_on)),
    Lie("fetch: an epoch from the future for ever", "Fetch", of_partition_0(error_code=75, records=None)),
    Lie("fetch: fenced for ever", "Fetch", of_partition_0(error_code=74, records=None)),
    Lie("fetch: no such topic id for ever", "Fetch", of_partition_0(error_code=100, records=None)),
    Lie("fetch: another topic id for ever", "Fetch", of_partition_0(error_code=103, records=None)),
    Lie("fetch: storage error for ever", "Fetch", of_partition_0(error_code=56, records=None)),
    Lie("fetch: corrupt message for ever", "Fetch", of_partition_0(error_code=2, records=None), KafkaError),
    Lie("fetch: out of range although it is not", "Fetch", of_partition_0(error_code=1, records=None)),
    Lie(
        "fetch: diverged at offset -1 of epoch 0",
        "Fetch",
        of_partition_0(diverging_epoch=EpochEndOffset(epoch=0, end_offset=-1), records=None),
    ),
    Lie(
        "fetch: diverged at a negative offset",
        "Fetch",
        of_partition_0(diverging_epoch=EpochEndOffset(epoch=5, end_offset=-9), records=None),
    ),
    Lie(
        "fetch: diverged at the last offset there is",
        "Fetch",
        of_partition_0(diverging_epoch=EpochEndOffset(epoch=2**31 - 1, end_offset=2**63 - 1), records=None),
    ),
    Lie(
        "fetch: 50,000 aborted transactions, of negative producers",
        "Fetch",
        of_partition_0(
            aborted_transactions=[
                AbortedTransaction(producer_id=-number, first_offset=-number) for number in range(50_000)
            ]
        ),
    ),
    Lie(
        "fetch: aborted transactions out of order, twice",
        "Fetch",
        of_partition_0(
            aborted_transactions=[
                AbortedTransaction(producer_id=number % 3, first_offset=9 - number % 5)
                for number in range(40)
            ]
        ),
    ),
    # The batches.
    Lie("records: null", "Fetch", of_partition_0(records=None)),
    Lie("records: empty", "Fetch", of_partition_0(records=b"")),
    damaged("61 bytes of zero", bytes(61)),
    damaged("bytes of anything", bytes(range(256)), raises=KafkaError),
    Lie(
        "records: a batch cut short, always the same", "Fetch", records(lambda whole: whole[:30]), KafkaError
    ),
    damaged("a negative length", batch(length=-1)),
    damaged("a length of 0", batch(length=0)),
    damaged("a length below the header's", batch(length=40)),
    Lie("records: a length of 2 GiB", "Fetch", records(lambda whole: batch(length=2**31 - 1)), KafkaError),
    damaged("magic 3", batch(magic=3)),
    damaged("magic -1", batch(magic=-1)),
    damaged("magic 0 around a batch of magic 2", batch(magic=0)),
    damaged("magic 1 around a batch of magic 2", batch(magic=1)),
    Lie(
        "records: a checksum that does not fit", "Fetch", records(flipped), DAMAGE, "orders-0 at offset [01]"
    ),
    damaged("a checksum of zero", batch(crc=0), words="checksum"),
    damaged("count -1", batch(count=-1, last=0)),
    damaged("count 2**31 - 1", batch(count=2**31 - 1, last=0)),
    damaged("count 2 around one record", batch(count=2)),
    damaged("count 1 around two records", batch(GOOD_RECORD * 2, 1), denies=1),
    damaged("count 0 around a record", batch(count=0, last=0)),
    damaged("a last offset before its first", batch(last=-1)),
    damaged("a last offset of 2**31 - 1 at the last offset there is", batch(base=2**63 - 1, last=2**31 - 1)),
    damaged("a negative first offset", batch(base=-5)),
    damaged("a record before its batch", batch(record(offset_delta=-3), last=5)),
    damaged("a record behind its batch", batch(record(offset_delta=7), last=5)),
    damaged("a record of negative length", batch(record(length=-1))),
    damaged("a record of 2 GiB", batch(LONG + GOOD_RECORD[1:])),
    damaged("a key of negative length", batch(record(key=-2))),
    damaged("a key of 2 GiB", batch(record(key=2**31 - 1))),
    damaged("a value of negative length", batch(record(value=-2))),
    damaged("a value of 2 GiB", batch(record(value=2**31 - 1))),
    damaged("a negative number of headers", batch(record(headers=-1))),
    damaged("2**31 - 1 headers", batch(record(headers=2**31 - 1))),
    damaged("an endless varint", batch(b"\xff" * 30)),
    damaged("an unknown codec", batch(attributes=7)),
    damaged("gzip that is not gzip", batch(attributes=1)),
    damaged("snappy that is not snappy", batch(attributes=2)),
    damaged("lz4 that is not lz4", batch(attributes=3)),
    damaged("zstd that is not zstd", batch(attributes=4)),
    damaged("a gzip bomb of 8 MiB", bomb("gzip"), words="max_decompressed_bytes"),
    damaged("a snappy bomb of 8 MiB", bomb("snappy"), words="max_decompressed_bytes"),
    damaged("an lz4 bomb of 8 MiB", bomb("lz4"), words="max_decompressed_bytes"),
    damaged("a zstd bomb of 8 MiB", bomb("zstd"), words="max_decompressed_bytes"),
    harmless("a control record without a key", batch(attributes=0x30, producer_id=5), denies=1),
    harmless(
        "a control record of no known kind",
        batch(record(4, 1, rest=b"\0\0\0\x63a"), attributes=0x30),
        denies=1,
    ),
    Lie(
        "records: the good ones, then bytes of anything",
        "Fetch",
        records(lambda whole: whole + struct.pack(">qi", 6, -3) + bytes(70)),
        CorruptData,
        "orders-0 at offset 6",
    ),
]


@pytest.mark.parametrize("lie", rest_in_gate(LIES), ids=str)
def test_a_lie_about_a_log_loses_nothing_and_makes_up_nothing(simulation: Simulation, lie: Lie) -> None:
    world = World(simulation)
    with world.producer() as producer:
        for partition in (0, 1):
            producer.send("orders", VALUES[0], partition=partition).result(5)
            for value in VALUES[1:]:
                producer.send("orders", value, partition=partition)
        producer.flush()
    consumer = world.consumer(max_decompressed_bytes=1 << 20, isolation_level="read_committed")
    consumer.assign([BAD, GOOD])
    for partition in (BAD, GOOD):
        consumer.seek(partition, 0)
    with world.lied_to(lie):
        errors = poll_for(world, consumer, LIES_LAST)
        assert world.read[GOOD] == VALUES
    check(lie, [*errors])
    poll_for(world, consumer, 8.0)
    assert world.read[BAD][-len(VALUES) + lie.denies :] == VALUES[lie.denies :]
    assert len(world.read[BAD]) == len(VALUES) or lie.denies
    assert world.read[GOOD] == VALUES
    consumer.close()
