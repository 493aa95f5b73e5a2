"""Produce: what is refused, with which code, and what a refusal leaves unchanged."""

from __future__ import annotations

from typing import Any

from tests.broker.support.batches import NOW_MS, batch

from .side import Side, scenario


def produce(
    side: Side, label: str, topic: str, records: bytes | None, version: int = 12, **options: Any
) -> Any:
    """One batch, to partition 0 by default."""
    data = {"index": options.pop("partition", 0), "records": records}
    fields = {"acks": -1, "timeout_ms": 5000, **options}
    named = {"topic_id": side.id_of(topic)} if version >= 13 else {"name": topic}
    return side.ask(label, "Produce", version, topic_data=[{**named, "partition_data": [data]}], **fields)


def the_log(side: Side, topic: str, partition: int = 0, end: int = 0) -> None:
    """Write down all that the partition holds, once it holds that many records."""
    requested = {"partition": partition, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
    side.eventually(
        "the log",
        lambda answer: answer.responses[0].partitions[0].high_watermark >= end,
        "Fetch",
        12,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1 << 20,
        topics=[{"topic": topic, "partitions": [requested]}],
    )


@scenario
def produce_accepts(side: Side) -> None:
    topic = side.topic("produce-accepts")
    for acks in (-1, 1):
        produce(side, f"acks={acks}", topic, batch([b"a", b"b"]), acks=acks)
    for version in (3, 5, 7, 8, 9, 10, 11, 12, 13):
        produce(side, "one batch", topic, batch([b"v%d" % version]), version)
    for codec in (1, 2, 3, 4):
        produce(side, f"codec {codec}", topic, batch([b"compressed"] * 3, codec=codec))
    produce(side, "null and empty", topic, batch([None, b""], keys=[b"", None]))
    produce(side, "nothing is due: acks=0 is not answered, this is", topic, batch([b"last"]))
    the_log(side, topic)


@scenario
def produce_refuses(side: Side) -> None:
    topic = side.topic("produce-refuses", partitions=2, configs={"max.message.bytes": "2000"})
    good = batch([b"good"])
    produce(side, "acks=7", topic, good, acks=7)
    produce(side, "acks=-2", topic, good, acks=-2)
    produce(side, "unknown topic", "produce-unknown", good)
    produce(side, "unknown partition", topic, good, partition=9)
    produce(side, "negative partition", topic, good, partition=-1)
    side.ask(
        "unknown id",
        "Produce",
        13,
        acks=-1,
        timeout_ms=5000,
        topic_data=[{"topic_id": bytes(range(16)), "partition_data": [{"index": 0, "records": good}]}],
    )
    produce(side, "too large", topic, batch([bytes(3000)]))
    produce(side, "damaged", topic, batch([b"damaged"], corrupt=True))
    produce(side, "no records", topic, None, patience=1.0)
    produce(side, "empty records", topic, b"")
    produce(side, "two batches", topic, good + good)
    produce(side, "zstd in version 6", topic, batch([b"z"], codec=4), 6)
    produce(side, "control batch", topic, batch([b"c"], keys=[b"\0\0\0\0"], attributes=0x20))
    produce(side, "count above the records", topic, batch([b"c"], count=2))
    produce(side, "last delta below the records", topic, batch([b"c", b"d"], last_offset_delta=0))
    produce(side, "no such codec", topic, batch([b"c"], attributes=5))
    produce(side, "producer id without sequence", topic, batch([b"c"], producer_id=1, producer_epoch=0))
    produce(side, "LogAppendTime from a client", topic, batch([b"c"], attributes=0x08))
    produce(side, "magic 1", topic, batch([b"c"], magic=1))
    produce(side, "magic 3", topic, batch([b"c"], magic=3))
    produce(side, "cut short", topic, good[:-3])
    produce(side, "rubbish", topic, b"rubbish that is not a batch at all" * 3)
    the_log(side, topic)
    the_log(side, topic, partition=1)


@scenario
def produce_serves_the_others(side: Side) -> None:
    """A refused partition does not keep the others from being written."""
    topic = side.topic("produce-others", partitions=3)
    data = [
        {"index": 0, "records": batch([b"zero"])},
        {"index": 1, "records": batch([b"one"], corrupt=True)},
        {"index": 2, "records": batch([b"two"])},
        {"index": 7, "records": batch([b"seven"])},
    ]
    unknown = {"name": "produce-others-unknown", "partition_data": [{"index": 0, "records": batch()}]}
    side.ask(
        "five partitions",
        "Produce",
        12,
        acks=-1,
        timeout_ms=5000,
        topic_data=[{"name": topic, "partition_data": data}, unknown],
    )
    for partition in range(3):
        the_log(side, topic, partition)


@scenario
def produce_twice_to_one_partition(side: Side) -> None:
    """A request that names a partition more than once: which of its batches counts, and what is answered."""
    topic = side.topic("produce-twice", partitions=2)
    good, other, third = batch([b"good"]), batch([b"other", b"one"]), batch([b"third"])
    bad = batch([b"bad"], corrupt=True)

    def twice(label: str, *records: bytes | None, acks: int = -1, version: int = 12, **own: Any) -> None:
        named = {"topic_id": side.id_of(topic)} if version >= 13 else {"name": topic}
        data = [{"index": 0, "records": one} for one in records]
        topics = [{**named, "partition_data": data}]
        if own.get("is_apart"):
            topics = [{**named, "partition_data": [one]} for one in data]
        side.ask(label, "Produce", version, acks=acks, timeout_ms=5000, topic_data=topics)

    for acks in (-1, 1):
        twice(f"two batches, acks={acks}", good, other, acks=acks)
    twice("by id", good, other, version=13)
    twice("three", good, other, third)
    twice("in two topics of one name", good, other, is_apart=True)
    twice("in two topics of one id", good, other, version=13, is_apart=True)
    twice("the first is damaged", bad, good)
    twice("the last is damaged", good, bad)
    twice("the first is empty", b"", good)
    twice("the last is empty", good, b"")
    twice("the first has another magic", batch([b"m"], magic=1), good)
    twice("the last has another magic", good, batch([b"m"], magic=1))
    twice("the first holds two", good + good, other)
    twice("the last holds two", other, good + good)
    data = [{"index": index, "records": good} for index in (1, 0, 9, 1, 9)]
    unknown = [{"name": "produce-unknown", "partition_data": [{"index": 0, "records": good}] * 2}]
    fields = {"acks": -1, "timeout_ms": 5000}
    side.ask("unknown ones", "Produce", 12, topic_data=unknown, **fields)
    side.ask("among others", "Produce", 12, topic_data=[{"name": topic, "partition_data": data}], **fields)
    the_log(side, topic)
    the_log(side, topic, partition=1)


@scenario
def produce_to_a_follower(side: Side) -> None:
    topic = side.topic("produce-follower")
    for version in (9, 12):
        produce(side, "not the leader", topic, batch(), version, broker=1)


@scenario
def produce_without_acknowledgement(side: Side) -> None:
    """acks=0: success is silent, an error closes the connection."""
    topic = side.topic("produce-silent")

    def silently(records: bytes, name: str = topic) -> None:
        side.send(
            "Produce",
            12,
            acks=0,
            timeout_ms=5000,
            topic_data=[{"name": name, "partition_data": [{"index": 0, "records": records}]}],
        )

    silently(batch([b"silent"]))
    side.ask("the next request is answered", "Metadata", 12, topics=[{"name": topic}])
    the_log(side, topic, end=1)
    silently(batch([b"damaged"], corrupt=True))
    side.ask("after an error", "Metadata", 12, topics=[{"name": topic}])
    silently(batch([b"unknown"]), "produce-silent-unknown")
    side.ask("after an unknown topic", "Metadata", 12, topics=[{"name": topic}])
    the_log(side, topic)


@scenario
def produce_timestamps(side: Side) -> None:
    bounded = side.topic(
        "produce-bounded",
        configs={"message.timestamp.before.max.ms": "3600000", "message.timestamp.after.max.ms": "3600000"},
    )
    produce(side, "long ago", bounded, batch([b"a", b"b"], timestamp=NOW_MS - 40_000_000_000))
    produce(side, "far ahead", bounded, batch([b"a"], timestamp=NOW_MS + 400_000_000_000))
    produce(side, "no time", bounded, batch([b"a"], timestamp=-1))
    free = side.topic("produce-free")
    produce(side, "long ago, unbounded", free, batch([b"a"], timestamp=1000))
    produce(side, "no time, unbounded", free, batch([b"a"], timestamp=-1))
    produce(side, "far ahead, by default", free, batch([b"a"], timestamp=NOW_MS + 400_000_000_000))
    stamped = side.topic("produce-stamped", configs={"message.timestamp.type": "LogAppendTime"})
    produce(side, "the broker's time", stamped, batch([b"a", b"b"]))
    produce(side, "the broker's time, compressed", stamped, batch([b"a", b"b"], codec=3))
    for topic in (bounded, free, stamped):
        the_log(side, topic)


@scenario
def produce_to_a_compacted_topic(side: Side) -> None:
    topic = side.topic("produce-compacted", configs={"cleanup.policy": "compact"})
    produce(side, "with keys", topic, batch([b"a", b"b"], keys=[b"k", b"l"]))
    produce(side, "one without a key", topic, batch([b"a", b"b", b"c"], keys=[b"k", None, None]))
    produce(side, "one without a key, compressed", topic, batch([b"a", b"b"], keys=[b"k", None], codec=3))
    produce(side, "one without a key, version 7", topic, batch([b"a"]), 7)
    the_log(side, topic)


@scenario
def produce_recompressed(side: Side) -> None:
    topic = side.topic("produce-lz4", configs={"compression.type": "lz4"})
    for codec in (0, 1, 3, 4):
        produce(side, f"codec {codec}", topic, batch([b"v" * 100] * 5, codec=codec))
    plain = side.topic(
        "produce-uncompressed", configs={"compression.type": "uncompressed", "max.message.bytes": "2000"}
    )
    produce(side, "gzip", plain, batch([b"v" * 100] * 5, codec=1))
    produce(side, "too large once unpacked", plain, batch([bytes(4000)], codec=1))
    the_log(side, topic)
    the_log(side, plain)


@scenario
def produce_larger_than_a_segment(side: Side) -> None:
    topic = side.topic(
        "produce-segment", configs={"segment.bytes": "1048576", "max.message.bytes": "4000000"}
    )
    produce(side, "larger than a segment", topic, batch([bytes(2_000_000)]))
    produce(side, "just below", topic, batch([bytes(1_000_000)]))


@scenario
def produce_to_internal_topics(side: Side) -> None:
    side.coordinator("produce-internal")
    side.await_topic_everywhere("__consumer_offsets")
    leader = side.leader_of("__consumer_offsets")
    produce(side, "to the offsets topic", "__consumer_offsets", batch([b"v"], keys=[b"k"]), broker=leader)


@scenario
def produce_below_min_isr(side: Side) -> None:
    topic = side.topic("produce-min-isr", configs={"min.insync.replicas": "2"}, replicas=[0])
    produce(side, "min ISR above the replicas", topic, batch([b"a"]))
    produce(side, "acks=1", topic, batch([b"b"]), acks=1)
    the_log(side, topic)


@scenario
def produce_idempotent(side: Side) -> None:
    """Duplicates, gaps, epochs, wrap."""
    topic = side.topic("produce-idempotent")
    allocated = side.eventually(
        "an id",
        lambda answer: answer.error_code == 0,
        "InitProducerId",
        4,
        transactional_id=None,
        transaction_timeout_ms=60_000,
    )
    producer = {"producer_id": allocated.producer_id, "producer_epoch": allocated.producer_epoch}

    def numbered(label: str, sequence: int, values: list[bytes], **changed: int) -> None:
        produce(side, label, topic, batch(values, base_sequence=sequence, **{**producer, **changed}))

    numbered("first", 0, [b"a", b"b"])
    numbered("next", 2, [b"c"])
    numbered("the first again", 0, [b"a", b"b"])
    numbered("the second again", 2, [b"c"])
    numbered("a gap", 5, [b"x"])
    numbered("part of an old one", 1, [b"b"])
    for sequence in range(3, 9):
        numbered(f"sequence {sequence}", sequence, [b"s%d" % sequence])
    numbered("older than the last five", 0, [b"a", b"b"])
    numbered("higher epoch, not from 0", 9, [b"x"], producer_epoch=1)
    numbered("higher epoch from 0", 0, [b"y"], producer_epoch=1)
    numbered("the old epoch", 1, [b"z"], producer_epoch=0)
    numbered("an id nobody was given, any sequence", 77, [b"u"], producer_id=allocated.producer_id + 500_000)
    numbered("and its next", 78, [b"u"], producer_id=allocated.producer_id + 500_000)
    numbered("up to the last sequence", 2**31 - 2, [b"m", b"n"], producer_id=allocated.producer_id + 500_001)
    numbered("wraps to 0", 0, [b"o"], producer_id=allocated.producer_id + 500_001)
    numbered("across the wrap", 2**31 - 1, [b"p", b"q"], producer_id=allocated.producer_id + 500_002)
    numbered("after it", 1, [b"r"], producer_id=allocated.producer_id + 500_002)
    the_log(side, topic)
