"""ListOffsets, OffsetForLeaderEpoch, DeleteRecords."""

from __future__ import annotations

from typing import Any

from tests.broker.support.batches import NOW_MS, batch

from .on_fetch import fetch, fill
from .on_produce import produce
from .side import Side, scenario


def list_offsets(
    side: Side, label: str, topic: str, timestamp: int, version: int = 7, **options: Any
) -> None:
    one = {"partition_index": options.pop("partition", 0), "timestamp": timestamp}
    one["current_leader_epoch"] = options.pop("epoch", -1)
    side.ask(
        label,
        "ListOffsets",
        version,
        **{"replica_id": -1, **options},
        topics=[{"name": topic, "partitions": [one]}],
    )


@scenario
def offsets_by_time(side: Side) -> None:
    topic = side.topic("offsets-by-time", partitions=2)
    for number in range(4):
        produce(side, "a batch", topic, batch([b"a", b"b"], timestamp=NOW_MS + number * 1000))
    produce(side, "an older one", topic, batch([b"c"], timestamp=NOW_MS + 500))
    for version in (1, 2, 4, 6, 7, 8, 9, 10, 11):
        list_offsets(side, "the end", topic, -1, version)
    for timestamp in (
        -2,
        -3,
        0,
        1,
        NOW_MS,
        NOW_MS + 1,
        NOW_MS + 500,
        NOW_MS + 1000,
        NOW_MS + 2999,
        NOW_MS + 3000,
    ):
        list_offsets(side, f"time {timestamp}", topic, timestamp)
    list_offsets(side, "after all", topic, NOW_MS + 3001)
    for timestamp, version in ((-4, 8), (-5, 9), (-6, 11), (-7, 11), (-3, 6), (-4, 7), (-9, 7)):
        list_offsets(side, f"special time {timestamp}", topic, timestamp, version)
    for timestamp in (-1, -2, -3, 5):
        list_offsets(side, f"an empty partition, time {timestamp}", topic, timestamp, partition=1)
    list_offsets(side, "unknown topic", "offsets-unknown", -1)
    list_offsets(side, "unknown partition", topic, -1, partition=6)
    list_offsets(side, "a follower", topic, -1, broker=1)
    for epoch in (0, 1, 9):
        list_offsets(side, f"leader epoch {epoch}", topic, -1, epoch=epoch)
    list_offsets(side, "read committed", topic, -1, isolation_level=1)
    list_offsets(side, "debugging replica", topic, -1, replica_id=-2)
    twice = [{"partition_index": 0, "timestamp": -1}, {"partition_index": 0, "timestamp": -2}]
    side.ask(
        "one partition twice", "ListOffsets", 7, replica_id=-1, topics=[{"name": topic, "partitions": twice}]
    )


@scenario
def offsets_for_leader_epochs(side: Side) -> None:
    topic = side.topic("offsets-epochs")
    fill(side, topic, 10, 10)

    def ask(
        label: str, epoch: int, current: int = -1, name: str = topic, partition: int = 0, **options: Any
    ) -> None:
        one = {"partition": partition, "current_leader_epoch": current, "leader_epoch": epoch}
        side.ask(
            label,
            "OffsetForLeaderEpoch",
            options.pop("version", 4),
            **{"replica_id": -1, **options},
            topics=[{"topic": name, "partitions": [one]}],
        )

    for epoch in (-2, -1, 0, 1, 100):
        ask(f"epoch {epoch}", epoch)
    ask("current epoch 0", 0, 0)
    ask("current epoch 5", 0, 5)
    ask("version 2", 0, version=2)
    ask("version 3", 0, version=3)
    ask("unknown topic", 0, name="offsets-epochs-unknown")
    ask("unknown partition", 0, partition=4)
    ask("a follower", 0, broker=1)


@scenario
def delete_records(side: Side) -> None:
    topic = side.topic("delete-records", partitions=2)
    produce(side, "three in one batch", topic, batch([b"a", b"b", b"c"]))
    fill(side, topic, 10, 10)

    def ask(label: str, offset: int, name: str = topic, partition: int = 0, **options: Any) -> None:
        one = {"partition_index": partition, "offset": offset}
        side.ask(
            label,
            "DeleteRecords",
            options.pop("version", 2),
            **{"timeout_ms": 5000, **options},
            topics=[{"name": name, "partitions": [one]}],
        )

    ask("inside a batch", 1)
    list_offsets(side, "the beginning", topic, -2)
    fetch(side, "before it", topic, 0)
    fetch(side, "from it", topic, 1)
    ask("again", 1)
    ask("below", 0)
    ask("above the end", 99)
    ask("another negative", -3)
    ask("to the high watermark", -1)
    list_offsets(side, "the beginning", topic, -2)
    list_offsets(side, "the end", topic, -1)
    fetch(side, "from the end", topic, 5)
    ask("an empty partition", -1, partition=1)
    ask("unknown topic", 0, "delete-records-unknown")
    ask("unknown partition", 0, partition=7)
    ask("a follower", 0, broker=1)
    ask("version 0", -1, version=0)
    compacted = side.topic("delete-records-compacted", configs={"cleanup.policy": "compact"})
    ask("a compacted topic", -1, compacted)
    both = side.topic("delete-records-both", configs={"cleanup.policy": "compact,delete"})
    ask("compacted and deleted", -1, both)
    alone = side.topic("delete-records-alone", replicas=[0])
    fill(side, alone, 10, 10)
    ask("without followers, without waiting", 1, alone, timeout_ms=0)
    produce(side, "goes on", topic, batch([b"next"]))
