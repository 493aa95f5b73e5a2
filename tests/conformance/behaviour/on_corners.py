"""Corners: times inside batches, segments, options of one broker, assignors, transactions where topics go."""

from __future__ import annotations

import time
from typing import Any

from tests.broker.support.batches import NOW_MS, batch

from .on_consumer_groups import Members
from .on_fetch import fetch
from .on_offsets import list_offsets
from .on_produce import produce, the_log
from .on_transactions import TRANSACTIONAL, add, await_state, producer, read_both_ways
from .side import TIMEOUT, Side, scenario

BY_DEFAULT = "1048588"
"""max.message.bytes."""


@scenario
def times_inside_batches(side: Side) -> None:
    """The first record of that time or later, wherever in a batch it is, from the log's start on."""
    topic = side.topic("times-inside", replicas=[0])
    for number, (codec, deltas) in enumerate(((0, [0, 30, 10]), (1, [50, 20, 50]), (3, [5, 5, 5]))):
        start = NOW_MS + 1000 * number
        produce(side, f"codec {codec}", topic, batch([b"v"] * 3, timestamp=start, codec=codec, deltas=deltas))

    def ask() -> None:
        for after in (-1, 0, 1, 11, 30, 31, 999, 1021, 1050, 1051, 2004, 2005, 2006):
            list_offsets(side, f"{after} ms", topic, NOW_MS + after)
        list_offsets(side, "the latest", topic, -3)

    ask()
    for offset in (1, 4, 8):
        one = {"partition_index": 0, "offset": offset}
        side.ask(
            "deletes", "DeleteRecords", 2, timeout_ms=5000, topics=[{"name": topic, "partitions": [one]}]
        )
        ask()


@scenario
def segments_roll(side: Side) -> None:
    """A fetch in a segment that is not the last one does not wait for more."""
    topic = side.topic("segments-roll", replicas=[0], configs={"segment.bytes": "1048576"})
    for number in range(3):
        records = batch([bytes(700_000)], timestamp=NOW_MS + number)
        produce(side, "a large one", topic, records)
    patient = {"min_bytes": 10_000_000, "max_bytes": 20_000_000, "max_wait_ms": 300}
    for offset, limit in ((0, 100), (1, 1 << 20), (2, 100), (3, 100)):
        started = time.monotonic()
        answer = side.quietly(
            "Fetch",
            12,
            topics=[
                {
                    "topic": topic,
                    "partitions": [{"partition": 0, "fetch_offset": offset, "partition_max_bytes": limit}],
                }
            ],
            **patient,
        )
        found = answer.responses[0].partitions[0]
        waited = time.monotonic() - started > 0.2
        outcome = "waited" if waited else "at once"
        side.note(f"from {offset}", [found.error_code, len(found.records or b""), outcome])
    for number in range(4):
        list_offsets(side, f"{number} ms", topic, NOW_MS + number)


@scenario
def options_of_one_broker(side: Side) -> None:
    """A broker's own options act on what it leads, those of all on the rest; topics' go before them."""
    mine, other = side.topic("options-mine", replicas=[0, 1]), side.topic("options-other", replicas=[1, 0])
    own = side.topic("options-own", replicas=[0, 1], configs={"max.message.bytes": "5000"})

    def shown(broker: int, topic: str) -> str:
        requested = {"resource_type": 2, "resource_name": topic, "configuration_keys": ["max.message.bytes"]}
        found = side.quietly("DescribeConfigs", 4, broker, resources=[requested])
        return str(found.results[0].configs[0].value)

    def change(name: str, value: str | None, at_mine: str, at_other: str) -> None:
        """Set the option of one broker or all, and wait until both show what their topics have."""
        config = {"name": "message.max.bytes", "config_operation": 1 if value is None else 0, "value": value}
        resource = {"resource_type": 4, "resource_name": name, "configs": [config]}
        side.quietly("IncrementalAlterConfigs", 1, 0, resources=[resource], validate_only=False)
        side.until(lambda: (shown(0, mine), shown(1, other)) == (at_mine, at_other), f"{name!r}: {value}")
        time.sleep(0.05)  # brokers tell of it a moment before it acts

    def ask(label: str, size: int) -> None:
        for topic, broker in ((mine, 0), (other, 1), (own, 0)):
            produce(side, f"{label}: {topic}", topic, batch([bytes(size)]), broker=broker)

    change("0", "1000", "1000", BY_DEFAULT)
    ask("one broker's", 2000)
    change("", "3000", "1000", "3000")
    ask("one broker's, and all brokers'", 2000)
    change("0", None, "3000", "3000")
    ask("all brokers'", 4000)
    requested = {"resource_type": 2, "resource_name": own, "configuration_keys": ["max.message.bytes"]}
    for topic in (mine, own):
        one = {**requested, "resource_name": topic}
        side.ask(topic, "DescribeConfigs", 4, 0, resources=[one], include_synonyms=True)
    change("", None, BY_DEFAULT, BY_DEFAULT)
    ask("by default", 4000)


@scenario
def consumer_group_by_range(side: Side) -> None:
    """The range assignor of the server, members joining one by one, one of them static."""
    topic = side.topic("by-range", partitions=5)
    other = side.topic("by-range-2", partitions=3)
    group = Members(side, "by-range", topic)
    side.await_topic_in_groups(other, group.at)
    _grow(group, ("a", "b", "c"), server_assignor="range", subscribed_topic_names=[topic, other])


@scenario
def consumer_group_uniformly(side: Side) -> None:
    """The uniform assignor, which moves as little as it can."""
    topic = side.topic("uniformly", partitions=7)
    group = Members(side, "uniformly", topic)
    _grow(group, ("a", "b", "c", "d"))


def _grow(group: Members, members: tuple[str, ...], **options: Any) -> None:
    """Members join one after the other, each gives up what it must; then they leave in the same order.

    The third is static.
    """
    side = group.side
    epochs: dict[str, int] = {}
    has: dict[str, list[dict[str, Any]]] = {}

    def beat(member: str, epoch: int, **fields: Any) -> None:
        if member == members[2] and epoch <= 0:
            fields["instance_id"] = "static"
        fields |= {"group_id": group.group, "member_id": member, "member_epoch": epoch}
        answer = side.quietly("ConsumerGroupHeartbeat", 1, group.at, **fields)
        epochs[member] = answer.member_epoch
        if answer.assignment is not None:
            assigned = answer.assignment.topic_partitions
            has[member] = [{"topic_id": one.topic_id, "partitions": [*one.partitions]} for one in assigned]

    def tell(label: str) -> None:
        for _ in range(3):
            for member in list(epochs):
                beat(member, epochs[member], topic_partitions=has[member])
        found = side.quietly("ConsumerGroupDescribe", 1, group.at, group_ids=[group.group]).groups[0]
        shares = {}
        for one in sorted(found.members, key=lambda one: one.member_id):
            held = {each.topic_name: [*each.partitions] for each in one.assignment.topic_partitions}
            shares[one.member_id] = dict(sorted(held.items()))
        side.note(label, shares)
        side.note(f"{label}: the group", [found.group_state, found.group_epoch, found.assignor_name])

    first = {"rebalance_timeout_ms": 10_000, "subscribed_topic_names": [group.topic], "topic_partitions": []}
    for member in members:
        beat(member, 0, **{**first, **options})
        tell(f"{member} has joined")
    for member in members[:-1]:
        beat(member, -1)
        del epochs[member]
        tell(f"{member} has left")
    beat(members[-1], -1)


@scenario
def transaction_over_a_topic_that_goes(side: Side) -> None:
    """A transaction ends although one of its topics was deleted, or deleted and created again."""
    stays, goes = side.topic("transaction-stays"), side.topic("transaction-goes")
    who = producer(side, "transaction-goes")
    who.init("an id")
    who.write("here", stays, b"a")
    who.sequence = 0
    who.write("there", goes, b"b")
    side.quietly("DeleteTopics", 6, topics=[{"name": goes, "topic_id": bytes(16)}], timeout_ms=5000)
    deadline = time.monotonic() + TIMEOUT
    while side.quietly("Metadata", 12, topics=[{"name": goes}]).topics[0].error_code != 3:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    who.end("commits", committed=True)
    await_state(side, who, "CompleteCommit")
    read_both_ways(side, stays, 2)
    who.write("the next one", stays, b"c")
    who.end("commits", committed=True)
    read_both_ways(side, stays, 4)


@scenario
def transaction_written_oddly(side: Side) -> None:
    """Transactional batches with other acks, of two producers, or beside plain ones."""
    topic = side.topic("transaction-oddly", partitions=3)
    one, two = producer(side, "transaction-odd-1"), producer(side, "transaction-odd-2")
    one.init("one")
    two.init("two")
    one.write("acks=1", topic, b"a", acks=1)
    one.write("acks=7", topic, b"x", acks=7)
    one.write("the other's id", topic, b"x", partition=1, transactional_id=two.id)
    one.write("an older client", topic, b"x", version=11, partition=1)

    def both(label: str, version: int, first: bytes, second: bytes, of: str | None) -> None:
        data = [{"index": 1, "records": first}, {"index": 2, "records": second}]
        side.ask(
            label,
            "Produce",
            version,
            acks=-1,
            timeout_ms=5000,
            transactional_id=of,
            topic_data=[{"name": topic, "partition_data": data}],
        )

    def records(who: Any, attributes: int = TRANSACTIONAL) -> bytes:
        ids = {"producer_id": who.producer_id, "producer_epoch": who.epoch, "base_sequence": 0}
        return batch([b"v"], attributes=attributes, **ids)

    both("two producers", 12, records(one), records(two), one.id)
    both("one plain", 12, records(one), batch([b"plain"]), one.id)
    both("both plain", 12, batch([b"plain"]), batch([b"plain"]), one.id)
    both("no producer id", 12, batch([b"v"], attributes=TRANSACTIONAL), batch([b"plain"]), one.id)
    both("not named", 12, records(one), batch([b"plain"]), None)
    one.sequence = 1
    one.write("goes on", topic, b"b")
    one.end("commits", committed=True)
    await_state(side, one, "CompleteCommit")
    add(side, "an older client adds", two, topic, [2])
    two.write("writes", topic, b"c", version=11, partition=2)
    two.end("aborts", committed=False, version=4)
    await_state(side, two, "CompleteAbort")
    for partition in range(3):
        the_log(side, topic, partition)
    fetch(side, "read committed", topic, 0, partition=2, isolation_level=1)


@scenario
def leaders_elected_everywhere(side: Side) -> None:
    """ElectLeaders of all topics tells only of those that it elected."""
    topic, well = side.topic("elected-everywhere", partitions=2), side.topic("elected-well")
    moved = {"name": topic, "partitions": [{"partition_index": 1, "replicas": [2, 0, 1]}]}
    side.quietly("AlterPartitionReassignments", 1, timeout_ms=10_000, topics=[moved])
    answer = side.quietly("ElectLeaders", 2, election_type=0, timeout_ms=10_000, topic_partitions=None)
    outcome = {
        one.topic: [(each.partition_id, each.error_code) for each in one.partition_result]
        for one in answer.replica_election_results
    }
    side.note("the error", answer.error_code)
    side.note("of the topic", [list(one) for one in outcome.get(topic, [])])
    side.note("of one that its preferred replica leads", [list(one) for one in outcome.get(well, ["none"])])
    for kind in (0, 1):
        requested = [{"topic": topic, "partitions": [0, 1]}]
        side.ask(
            f"again, of type {kind}",
            "ElectLeaders",
            2,
            election_type=kind,
            timeout_ms=10_000,
            topic_partitions=requested,
        )
    side.ask("none", "ElectLeaders", 2, election_type=0, timeout_ms=10_000, topic_partitions=[])
