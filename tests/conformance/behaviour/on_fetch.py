"""Fetch: bounds, odd limits, sessions (KIP-227), epochs, topic ids."""

from __future__ import annotations

from typing import Any

from tests.broker.support.batches import batch

from .on_produce import produce
from .side import Side, scenario


def fill(side: Side, topic: str, *sizes: int, partition: int = 0) -> None:
    """One batch of one record for each size; not written down."""
    for number, size in enumerate(sizes):
        records = batch([bytes([65 + number]) * size])
        answer = side.quietly(
            "Produce",
            12,
            acks=-1,
            timeout_ms=5000,
            topic_data=[{"name": topic, "partition_data": [{"index": partition, "records": records}]}],
        )
        assert answer.responses[0].partition_responses[0].error_code == 0, answer


def fetch(side: Side, label: str, topic: str, offset: int = 0, version: int = 12, **options: Any) -> Any:
    """Partition 0 by default; options of the partition and of the request alike."""
    keys = (
        "partition",
        "current_leader_epoch",
        "last_fetched_epoch",
        "log_start_offset",
        "partition_max_bytes",
    )
    one = {"partition_max_bytes": 1 << 20, "partition": 0, "fetch_offset": offset}
    one |= {key: options.pop(key) for key in keys if key in options}
    named = {"topic_id": side.id_of(topic)} if version >= 13 else {"topic": topic}
    fields = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 1 << 20, **options}
    return side.ask(label, "Fetch", version, topics=[{**named, "partitions": [one]}], **fields)


def fetch_from_follower(side: Side, label: str, topic: str, end: int, version: int) -> None:
    """All of partition 0 from broker 1, once it has learned of the high watermark."""
    named = {"topic_id": side.id_of(topic)} if version >= 13 else {"topic": topic}
    requested = [{"partition": 0, "partition_max_bytes": 1 << 20}]
    side.eventually(
        label,
        lambda answer: answer.responses[0].partitions[0].high_watermark == end,
        "Fetch",
        version,
        1,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1 << 20,
        topics=[{**named, "partitions": requested}],
    )


@scenario
def fetch_bounds(side: Side) -> None:
    topic = side.topic("fetch-bounds")
    fetch(side, "an empty log", topic)
    fetch(side, "above the end of an empty log", topic, 1)
    produce(side, "three in one batch", topic, batch([b"a", b"b", b"c"]))
    fill(side, topic, 10)
    for offset in (0, 1, 3, 4, 5, -1, -2):
        fetch(side, f"from {offset}", topic, offset)
    for version in (4, 5, 7, 9, 11, 13, 15, 17, 18):
        fetch(side, "all", topic, 0, version)
    fetch(side, "unknown topic", "fetch-unknown")
    fetch(side, "unknown partition", topic, partition=5)
    fetch(side, "negative partition", topic, partition=-1)
    side.ask(
        "unknown id",
        "Fetch",
        13,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1 << 20,
        topics=[{"topic_id": bytes(range(16)), "partitions": [{"partition_max_bytes": 1 << 20}]}],
    )
    fetch_from_follower(side, "from a follower", topic, 4, 12)
    fetch_from_follower(side, "from a follower", topic, 4, 16)
    fetch(side, "from a follower, before that was allowed", topic, 0, 10, broker=1)
    fetch(side, "read committed", topic, isolation_level=1)
    fetch(side, "isolation level 7", topic, isolation_level=7)
    fetch(side, "no partitions of a topic", topic)
    side.ask("no topics", "Fetch", 12, max_wait_ms=10, min_bytes=1, max_bytes=1000)


@scenario
def fetch_limits(side: Side) -> None:
    topic = side.topic("fetch-limits", partitions=2)
    fill(side, topic, 1000, 1000, 1000)
    fill(side, topic, 500, 500, partition=1)
    for limit in (0, -1, 1, 1068, 1069, 2138, 2**31 - 1, -(2**31)):
        fetch(side, f"partition maximum {limit}", topic, partition_max_bytes=limit)
    for limit in (0, -1, 1, 1068, 2138, 2**31 - 1, -(2**31)):
        fetch(side, f"request maximum {limit}", topic, max_bytes=limit)
    fetch(side, "minimum above the maximum", topic, min_bytes=100_000, max_bytes=1000, max_wait_ms=50)
    fetch(side, "negative minimum", topic, min_bytes=-5, max_wait_ms=50)
    fetch(side, "negative wait", topic, min_bytes=100_000, max_wait_ms=-1)
    fetch(side, "negative wait at the end", topic, 3, min_bytes=1, max_wait_ms=-7)
    fetch(side, "a short wait at the end", topic, 3, min_bytes=1, max_wait_ms=20)

    def both(label: str, request_maximum: int, partition_maximum: int) -> None:
        requested = [{"partition": index, "partition_max_bytes": partition_maximum} for index in (0, 1)]
        side.ask(
            label,
            "Fetch",
            12,
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=request_maximum,
            topics=[{"topic": topic, "partitions": requested}],
        )

    both("two partitions, room for the first batch only", 1, 1)
    both("two partitions, room for one each", 1 << 20, 1)
    both("two partitions, no room", 0, 0)
    both("two partitions, room for a few", 2500, 1 << 20)
    both("two partitions, room for all", 1 << 20, 1 << 20)


@scenario
def fetch_epochs(side: Side) -> None:
    topic = side.topic("fetch-epochs")
    fill(side, topic, 10, 10)
    for epoch in (-1, 0, 1, 7, -2):
        fetch(side, f"current leader epoch {epoch}", topic, current_leader_epoch=epoch)
    for epoch in (-1, 0, 1, 7):
        fetch(side, f"last fetched epoch {epoch}", topic, 1, last_fetched_epoch=epoch)
    fetch(side, "both", topic, 1, current_leader_epoch=0, last_fetched_epoch=0)
    fetch(
        side, "an epoch later than the request's own", topic, 1, current_leader_epoch=0, last_fetched_epoch=3
    )


@scenario
def fetch_sessions(side: Side) -> None:
    topic = side.topic("fetch-sessions", partitions=3)
    fill(side, topic, 10)

    def ask(
        label: str, session: int, epoch: int, partitions: dict[int, int] | None = None, **options: Any
    ) -> Any:
        requested = [
            {"partition": index, "fetch_offset": offset, "partition_max_bytes": 1000}
            for index, offset in (partitions or {}).items()
        ]
        forgotten = options.pop("forgotten", None)
        return side.ask(
            label,
            "Fetch",
            12,
            max_wait_ms=10,
            min_bytes=0,
            max_bytes=1 << 20,
            session_id=session,
            session_epoch=epoch,
            topics=[{"topic": topic, "partitions": requested}] if requested else [],
            forgotten_topics_data=[{"topic": topic, "partitions": forgotten}] if forgotten else [],
            **options,
        )

    ask("without a session", 0, -1, {0: 0, 1: 0})
    session = ask("a new session", 0, 0, {0: 0, 1: 0}).session_id
    ask("nothing has changed", session, 1, {0: 1})
    ask("still nothing", session, 2)
    fill(side, topic, 10, partition=1)
    ask("partition 1 has grown", session, 3)
    ask("partition 1 goes on", session, 4, {1: 1})
    ask("partition 2 joins", session, 5, {2: 0})
    fill(side, topic, 10, partition=2)
    ask("partition 0 is forgotten", session, 6, forgotten=[0])
    fill(side, topic, 10)
    ask("and tells no more", session, 7, {2: 1})
    ask("an epoch again", session, 7)
    ask("an epoch skipped", session, 9)
    ask("the right one still works", session, 8)
    ask("unknown session", 123_456_789, 1)
    ask("unknown session to close", 123_456_789, -1)
    ask("session 0, epoch 5", 0, 5, {0: 0})
    ask("closing the session", session, -1)
    ask("it is closed", session, 10)
    session = ask("another", 0, 0, {0: 0}).session_id
    ask("an unknown partition joins", session, 1, {9: 0})
    ask("and is told again", session, 2)
    replacement = ask("a full request replaces it", session, 0, {1: 0}).session_id
    ask("the old one is gone", session, 3)
    ask("the new one lives", replacement, 1)


@scenario
def fetch_sessions_by_id(side: Side) -> None:
    """Names and ids do not mix in a session."""
    topic = side.topic("fetch-sessions-ids")
    fill(side, topic, 10)
    common = {"max_wait_ms": 10, "min_bytes": 0, "max_bytes": 1 << 20}
    one = {"partition": 0, "partition_max_bytes": 1000}
    by_id = [{"topic_id": side.id_of(topic), "partitions": [one]}]
    by_name = [{"topic": topic, "partitions": [one]}]
    session = side.ask("by id", "Fetch", 13, session_epoch=0, topics=by_id, **common).session_id
    side.ask("goes on by id", "Fetch", 13, session_id=session, session_epoch=1, **common)
    side.ask("goes on by name", "Fetch", 12, session_id=session, session_epoch=2, **common)
    side.ask("by id again", "Fetch", 13, session_id=session, session_epoch=2, **common)
    session = side.ask("by name", "Fetch", 12, session_epoch=0, topics=by_name, **common).session_id
    side.ask("goes on by id", "Fetch", 13, session_id=session, session_epoch=1, topics=by_id, **common)
    unknown = [{"topic_id": bytes(range(16)), "partitions": [one]}]
    session = side.ask("an unknown id", "Fetch", 13, session_epoch=0, topics=unknown, **common).session_id
    side.ask("told again", "Fetch", 13, session_id=session, session_epoch=1, **common)


@scenario
def fetch_waits(side: Side) -> None:
    """A fetch with too little to read waits for what is written meanwhile, or for its time."""
    topic = side.topic("fetch-waits", partitions=2)

    def waiting(label: str, min_bytes: int, **options: Any) -> tuple[Any, ...]:
        requested = [{"partition": index, "partition_max_bytes": 1 << 20} for index in (0, 1)]
        return side.send(
            "Fetch",
            12,
            client="waiter",
            max_wait_ms=5000,
            min_bytes=min_bytes,
            max_bytes=1 << 20,
            topics=[{"topic": topic, "partitions": requested}],
            **options,
        )

    sent = waiting("one byte is enough", 1)
    fill(side, topic, 10)
    side.receive("woken by partition 0", sent)
    sent = waiting("more than there is", 200)
    fill(side, topic, 200, partition=1)
    side.receive("woken by enough", sent)
    requested = {"partition": 0, "partition_max_bytes": 1 << 20, "fetch_offset": 1}
    sent = side.send(
        "Fetch",
        12,
        client="waiter",
        max_wait_ms=5000,
        min_bytes=1,
        max_bytes=1 << 20,
        topics=[{"topic": topic, "partitions": [requested]}],
    )
    side.quietly("DeleteTopics", 6, topics=[{"name": topic, "topic_id": bytes(16)}], timeout_ms=5000)
    side.receive("woken by the end of the topic", sent)


@scenario
def fetch_as_replica(side: Side) -> None:
    """A client that claims to be a follower and is none; and the debugging consumer, which reads to the log's
    end.
    """
    topic = side.topic("fetch-as-replica", replicas=[0, 1])
    fill(side, topic, 10, 10)
    fetch(side, "broker 2 has no replica", topic, replica_id=2)
    fetch(side, "broker 77 does not exist", topic, replica_id=77)
    fetch(side, "broker 77, by its state", topic, 0, 15, replica_state={"replica_id": 77, "replica_epoch": 0})
    fetch(side, "broker 77, told of the leader", topic, 0, 16, replica_state={"replica_id": 77})
    fetch(
        side,
        "a wrong epoch of broker 1",
        topic,
        0,
        15,
        replica_state={"replica_id": 1, "replica_epoch": 10**12},
    )
    fetch(side, "the debugging consumer", topic, replica_id=-2)
    fetch(side, "replica -3", topic, replica_id=-3)
