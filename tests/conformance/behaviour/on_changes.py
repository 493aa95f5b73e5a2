"""Changes under requests: recreated topics, options, timeouts of zero."""

from __future__ import annotations

import time
from typing import Any

from tests.broker.support.batches import NOW_MS, batch

from .on_fetch import fetch, fill
from .on_groups_by_call import committing
from .on_offsets import list_offsets
from .on_produce import produce, the_log
from .side import TIMEOUT, Side, scenario


@scenario
def topics_made_anew(side: Side) -> None:
    """The old id is unknown, in requests, in sessions and in offsets that were committed."""
    topic = side.topic("made-anew", partitions=2)
    group = "made-anew"
    at = side.coordinator(group)
    old = side.id_of(topic)
    fill(side, topic, 10, 10)
    side.ask("commits", "OffsetCommit", 9, at, **committing(group, topic, 0))
    common = {"max_wait_ms": 10, "min_bytes": 0, "max_bytes": 1 << 20}
    one = {"partition": 0, "partition_max_bytes": 1000}
    by_id = [{"topic_id": old, "partitions": [one]}]
    by_name = [{"topic": topic, "partitions": [one]}]
    ids = side.ask("a session by id", "Fetch", 13, session_epoch=0, topics=by_id, **common).session_id
    names = side.ask("a session by name", "Fetch", 12, session_epoch=0, topics=by_name, **common).session_id
    side.quietly("DeleteTopics", 6, topics=[{"name": topic, "topic_id": bytes(16)}], timeout_ms=5000)
    deadline = time.monotonic() + TIMEOUT
    for broker in range(3):
        while side.quietly("Metadata", 12, broker, topics=[{"name": topic}]).topics[0].error_code != 3:
            assert time.monotonic() < deadline
            time.sleep(0.01)
    side.ask("gone: by id", "Fetch", 13, session_id=ids, session_epoch=1, **common)
    side.ask("gone: by name", "Fetch", 12, session_id=names, session_epoch=1, **common)
    side.ask("gone: by id", "Fetch", 13, topics=by_id, session_epoch=-1, **common)
    side.eventually(
        "its offsets are gone",
        lambda answer: not answer.groups[0].topics,
        "OffsetFetch",
        9,
        at,
        groups=[{"group_id": group, "topics": None}],
    )
    side.topic(topic, partitions=2)
    assert side.id_of(topic) != old
    for version in (13, 17):
        side.ask("the old id", "Fetch", version, topics=by_id, session_epoch=-1, **common)
    side.ask("the session by id", "Fetch", 13, session_id=ids, session_epoch=2, **common)
    side.ask("the session by name", "Fetch", 12, session_id=names, session_epoch=2, **common)
    data = {"topic_id": old, "partition_data": [{"index": 0, "records": batch()}]}
    side.ask("the old id", "Produce", 13, acks=-1, timeout_ms=5000, topic_data=[data])
    side.ask("the old id", "Metadata", 12, topics=[{"name": None, "topic_id": old}])
    side.ask("the old id", "OffsetCommit", 10, at, **committing(group, "", 0, topic_id=old))
    wanted = [{"topic_id": old, "partition_indexes": [0]}]
    side.ask("the old id", "OffsetFetch", 10, at, groups=[{"group_id": group, "topics": wanted}])
    list_offsets(side, "a new log", topic, -1)
    fetch(side, "a new log", topic, 0, 13)
    side.ask("the old id", "DeleteTopics", 6, topics=[{"name": None, "topic_id": old}], timeout_ms=5000)


@scenario
def options_at_work(side: Side) -> None:
    """A topic's options act on the next append."""
    topic = side.topic("options-at-work", configs={"retention.ms": "-1"})

    def change(name: str, value: str | None) -> None:
        config = {"name": name, "config_operation": 1 if value is None else 0, "value": value}
        resource = {"resource_type": 2, "resource_name": topic, "configs": [config]}
        side.quietly("IncrementalAlterConfigs", 1, resources=[resource], validate_only=False)
        requested = {"resource_type": 2, "resource_name": topic, "configuration_keys": [name]}
        deadline = time.monotonic() + TIMEOUT
        while time.monotonic() < deadline:
            found = side.quietly("DescribeConfigs", 4, resources=[requested]).results[0].configs[0]
            if (found.config_source == 1) == (value is not None):
                break
            time.sleep(0.01)
        time.sleep(0.03)  # brokers tell of it a moment before it acts

    produce(side, "before", topic, batch([bytes(500)]))
    change("max.message.bytes", "400")
    produce(side, "max.message.bytes", topic, batch([bytes(500)]))
    change("max.message.bytes", None)
    change("compression.type", "gzip")
    produce(side, "compression.type", topic, batch([b"v" * 50] * 3))
    change("compression.type", None)
    change("message.timestamp.type", "LogAppendTime")
    produce(side, "message.timestamp.type", topic, batch([b"stamped"]))
    change("message.timestamp.type", None)
    change("message.timestamp.before.max.ms", "1000")
    produce(side, "message.timestamp.before.max.ms", topic, batch([b"old"], timestamp=NOW_MS))
    change("message.timestamp.before.max.ms", None)
    change("cleanup.policy", "compact")
    produce(side, "cleanup.policy", topic, batch([b"no key"]))
    one = {"partition_index": 0, "offset": 1}
    deleting = {"timeout_ms": 5000, "topics": [{"name": topic, "partitions": [one]}]}
    side.ask("compacted", "DeleteRecords", 2, **deleting)
    change("cleanup.policy", "")
    produce(side, "no cleanup.policy", topic, batch([b"no key"]))
    side.ask("neither compacted nor deleted", "DeleteRecords", 2, **deleting)
    change("cleanup.policy", None)
    change("min.insync.replicas", "3")
    produce(side, "as many as there are", topic, batch([b"min"]))
    change("min.insync.replicas", "7")
    produce(side, "more than there are", topic, batch([b"min"]))
    fetch(side, "what is there", topic, 1)


@scenario
def time_that_is_up(side: Side) -> None:
    """A timeout of nothing, and negative ones: what can be answered at once is."""
    alone = side.topic("time-alone", replicas=[0])
    shared = side.topic("time-shared")
    for timeout in (0, -1, -(2**31)):
        produce(side, f"alone, {timeout}", alone, batch([b"a"]), timeout_ms=timeout)
        produce(side, f"alone with acks=1, {timeout}", alone, batch([b"a"]), timeout_ms=timeout, acks=1)
        produce(side, f"shared, {timeout}", shared, batch([b"a"]), timeout_ms=timeout)
        produce(side, f"shared with acks=1, {timeout}", shared, batch([b"a"]), timeout_ms=timeout, acks=1)
    the_log(side, shared, end=6)
    for number, timeout in enumerate((0, -1)):
        one = {"partition_index": 0, "offset": number + 1}
        for topic in (alone, shared):
            side.ask(
                f"{topic} deletes, {timeout}",
                "DeleteRecords",
                2,
                timeout_ms=timeout,
                topics=[{"name": topic, "partitions": [one]}],
            )
        list_offsets(side, "the beginning", shared, -2)
    one = {"partition_index": 0, "offset": 99}
    wrong = [{"name": shared, "partitions": [one]}, {"name": "time-nowhere", "partitions": [one]}]
    side.ask("all are wrong", "DeleteRecords", 2, timeout_ms=5000, topics=wrong)
    right = [{"name": alone, "partitions": [{"partition_index": 0, "offset": -1}]}, *wrong]
    side.ask("one is right", "DeleteRecords", 2, timeout_ms=5000, topics=right)
    side.ask("none", "DeleteRecords", 2, timeout_ms=5000, topics=[])
    twice = [{"partition_index": 0, "offset": 2}, {"partition_index": 0, "offset": 3}]
    side.ask("twice", "DeleteRecords", 2, timeout_ms=5000, topics=[{"name": alone, "partitions": twice}])


@scenario
def produced_twice_over(side: Side) -> None:
    """Retries of every shape, with acks of every kind."""
    topic = side.topic("twice-over", configs={"message.timestamp.type": "LogAppendTime"})

    def numbered(label: str, sequence: int, count: int, epoch: int = 0, **options: Any) -> None:
        records = batch([b"v"] * count, producer_id=777_000, producer_epoch=epoch, base_sequence=sequence)
        produce(side, label, topic, records, **options)

    numbered("first", 0, 2)
    numbered("again", 0, 2)
    numbered("again with acks=1", 0, 2, acks=1)
    numbered("shorter", 0, 1)
    numbered("longer", 0, 3)
    numbered("next", 2, 1)
    numbered("the one before", 0, 2)
    numbered("of a later epoch", 0, 2, epoch=1)
    numbered("again, of the epoch before", 2, 1)
    for sequence in range(2, 8):
        numbered("more", sequence, 1, epoch=1)
    numbered("the fifth last", 3, 1, epoch=1)
    numbered("the sixth last", 2, 1, epoch=1)
