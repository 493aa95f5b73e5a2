"""Topics with everything that a log can have, and their contents as clients see them."""

from __future__ import annotations

import time
from typing import Any

from pykafka2 import KafkaAdminClient, KafkaConsumer, KafkaProducer, NewTopic, TopicPartition
from pykafka2.protocol.messages.offsets import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.broker.support.raw_client import RawClient

from .brokers import eventually

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
COMPACTED = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "segment.ms": "100",
    "delete.retention.ms": "86400000",
}
TOPICS: dict[str, dict[str, str]] = {
    **{f"codec-{codec}": {} for codec in CODECS},
    "stamped": {"message.timestamp.type": "LogAppendTime"},
    "transactions": {},
    "rolled": {"segment.bytes": str(1 << 20), "index.interval.bytes": "4096"},
    "compacted": COMPACTED,
    "epochs": {},
}
GROUP = "readers"


def write_everything(bootstrap_servers: str) -> None:
    """Create and fill the topics, each with two replicas; the cleaner has not run yet."""
    with KafkaAdminClient(bootstrap_servers=bootstrap_servers) as admin:
        admin.create_topics([NewTopic(name, 1, 2, configs=configs) for name, configs in TOPICS.items()])
        admin.wait_for_topics([*TOPICS])
        for codec in CODECS:
            _write_codec(bootstrap_servers, codec)
        _write_plain(bootstrap_servers)
        _write_transactions(bootstrap_servers)
        _write_epochs(bootstrap_servers, admin)
    options: dict[str, Any] = {
        "group_id": GROUP,
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
    }
    with KafkaConsumer("transactions", bootstrap_servers=bootstrap_servers, **options) as consumer:
        next(iter(consumer))
        consumer.commit({TopicPartition("transactions", 0): 3})


def _write_codec(bootstrap_servers: str, codec: str) -> None:
    compression = None if codec == "none" else codec
    hour_ago = int(time.time() * 1000) - 3_600_000  # a server forgets producers of more than a day ago
    with KafkaProducer(
        bootstrap_servers=bootstrap_servers, compression_type=compression, linger_ms=20
    ) as producer:
        for number in range(60):
            producer.send(
                f"codec-{codec}",
                None if number % 10 == 3 else (b"value %d " % number) * (number % 30),
                key=None if number % 7 == 2 else b"key %d" % (number % 5),
                headers=[("number", str(number).encode()), ("empty", b""), ("none", None)][: number % 4],
                timestamp_ms=hour_ago + number * 37 % 1000,
            )
            if number % 20 == 19:
                producer.flush()


def _write_plain(bootstrap_servers: str) -> None:
    with KafkaProducer(bootstrap_servers=bootstrap_servers, linger_ms=5) as producer:
        for number in range(20):
            producer.send("stamped", b"%d" % number)
        for number in range(2600):
            producer.send("rolled", (b"%06d" % number) * 160)
        for number in range(200):
            value = None if number % 9 == 0 else b"%d" % number
            producer.send("compacted", value, key=b"key %d" % (number % 20))
            if number % 50 == 49:
                producer.flush()
                time.sleep(0.15)  # the next record rolls the segment


def _write_transactions(bootstrap_servers: str) -> None:
    for codec, name in ((None, "first"), ("lz4", "second")):
        with KafkaProducer(
            bootstrap_servers=bootstrap_servers, transactional_id=name, compression_type=codec
        ) as producer:
            producer.init_transactions()
            for number in range(5):
                producer.begin_transaction()
                for index in range(4):
                    producer.send("transactions", b"%s %d %d" % (name.encode(), number, index))
                producer.flush()  # otherwise records of an aborted transaction are not sent
                if number % 2:
                    producer.abort_transaction()
                else:
                    producer.commit_transaction()


def _write_epochs(bootstrap_servers: str, admin: KafkaAdminClient) -> None:
    place = TopicPartition("epochs", 0)
    for number in range(3):
        with KafkaProducer(bootstrap_servers=bootstrap_servers) as producer:
            for index in range(4):
                producer.send("epochs", b"%d %d" % (number, index)).get(30)
        replicas = admin.describe_topics(["epochs"])["epochs"].partitions[0].replicas

        def has_moved(wanted: int = replicas[1]) -> bool:
            partition = admin.describe_topics(["epochs"])["epochs"].partitions[0]
            if partition.leader != wanted and set(partition.isr) == set(partition.replicas):
                admin.elect_leaders([place], raise_errors=False)
            return partition.leader == wanted

        admin.alter_partition_reassignments({place: [replicas[1], replicas[0]]})
        eventually(has_moved, "the leader did not move")


def contents(bootstrap_servers: str) -> dict[str, Any]:
    """Return records, aborted records, offsets, producers and epochs of all topics."""
    places = [TopicPartition(name, 0) for name in TOPICS]
    found: dict[str, Any] = {}
    with KafkaAdminClient(bootstrap_servers=bootstrap_servers) as admin:
        admin.wait_for_topics([*TOPICS])
        producers = admin.describe_producers(places)
        found["group"] = {place: one.offset for place, one in admin.list_group_offsets(GROUP).items()}
        found["transactional ids"] = sorted(one.transactional_id for one in admin.list_transactions())
        leaders = {name: one.partitions[0].leader for name, one in admin.describe_topics([*TOPICS]).items()}
        addresses = {node.id: f"{node.host}:{node.port}" for node in admin.describe_cluster().nodes}
    for place in places:
        name = place.topic
        found[name] = {
            "producers": [
                (one.producer_id, one.producer_epoch, one.last_sequence, one.last_timestamp)
                for one in producers[place]
            ],
            "epochs": _epoch_ends(addresses[leaders[name]], name),
        }
        for isolation in ("read_uncommitted", "read_committed"):
            found[name][isolation] = _records(bootstrap_servers, place, isolation)
    return found


def _records(bootstrap_servers: str, place: TopicPartition, isolation: str) -> list[tuple[Any, ...]]:
    records: list[tuple[Any, ...]] = []
    with KafkaConsumer(
        bootstrap_servers=bootstrap_servers, group_id=None, isolation_level=isolation
    ) as consumer:
        first, end = consumer.beginning_offsets([place])[place], consumer.end_offsets([place])[place]
        consumer.assign([place])
        consumer.seek(place, first)
        while consumer.position(place) < end:
            for batch in consumer.poll(timeout_ms=500).values():
                records += [
                    (one.offset, one.timestamp, one.timestamp_type, one.key, one.value, tuple(one.headers))
                    for one in batch
                ]
    return [(first, end), *records]


def _epoch_ends(address: str, name: str) -> list[tuple[int, int]]:
    """Return the ends of the epochs in which there are records."""
    ends: list[tuple[int, int]] = []
    with RawClient(address) as wire:
        for epoch in range(20):
            requested = OffsetForLeaderPartition(partition=0, leader_epoch=epoch)
            request = OffsetForLeaderEpochRequest(
                topics=[OffsetForLeaderTopic(topic=name, partitions=[requested])]
            )
            [one] = wire.call(request, 4).topics[0].partitions
            if one.end_offset >= 0 and (not ends or ends[-1][1] != one.end_offset):
                ends.append((one.leader_epoch, one.end_offset))
    return ends


def is_cleaned(bootstrap_servers: str) -> bool:
    """Whether records of the compacted topic are gone."""
    return len(_records(bootstrap_servers, TopicPartition("compacted", 0), "read_uncommitted")) < 150
