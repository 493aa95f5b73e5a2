"""Effects of a leader change: epochs, diverging logs, waiting requests, moved coordinators."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

from tests.broker.support.batches import NOW_MS, batch

from .on_fetch import fetch, fill
from .on_groups_by_call import assign_every, committing, joining, member_of, stable_of_one, syncing
from .on_offsets import list_offsets
from .on_produce import produce
from .on_transactions import Producer, add, producer, read_both_ways
from .side import TIMEOUT, Side, scenario


def lead(side: Side, topic: str, broker: int) -> None:
    """Have this broker lead partition 0: made the first replica, then elected as such (a new epoch)."""
    found = side.quietly("Metadata", 12, topics=[{"name": topic}]).topics[0].partitions[0]
    before = found.leader_id
    replicas = [broker, *(one for one in sorted(found.replica_nodes) if one != broker)]
    moved = {"name": topic, "partitions": [{"partition_index": 0, "replicas": replicas}]}
    side.quietly("AlterPartitionReassignments", 1, timeout_ms=10_000, topics=[moved])
    requested = [{"topic": topic, "partitions": [0]}]
    side.quietly("ElectLeaders", 2, election_type=0, timeout_ms=10_000, topic_partitions=requested)
    side.await_topic(topic, replicas)
    end = {"name": topic, "partitions": [{"partition_index": 0, "timestamp": -1}]}
    deadline = time.monotonic() + TIMEOUT
    while before != broker and time.monotonic() < deadline:
        answer = side.quietly("ListOffsets", 7, before, replica_id=-1, topics=[end])
        if answer.topics[0].partitions[0].error_code:
            return  # the former leader knows it, too
        time.sleep(0.01)


def four_epochs(side: Side, topic: str) -> None:
    """Epoch 0 writes 0 to 2, epoch 1 writes 3, epoch 2 nothing, epoch 3 (broker 0 again) writes 4 and 5."""
    for broker, sizes in ((0, (10, 10, 10)), (1, (10,)), (2, ()), (0, (10, 10))):
        if sizes != (10, 10, 10):
            lead(side, topic, broker)
        for size in sizes:
            produce_quietly(side, topic, bytes(size), broker)


def produce_quietly(side: Side, topic: str, value: bytes, broker: int) -> None:
    data = [{"index": 0, "records": batch([value])}]
    fields = {"acks": -1, "timeout_ms": 5000, "topic_data": [{"name": topic, "partition_data": data}]}
    answer = side.quietly("Produce", 12, broker, **fields)
    assert answer.responses[0].partition_responses[0].error_code == 0, answer


def epoch_end(side: Side, label: str, topic: str, epoch: int, current: int = -1, **options: Any) -> None:
    one = {"partition": 0, "current_leader_epoch": current, "leader_epoch": epoch}
    fields = {"replica_id": -1, **options}
    side.ask(label, "OffsetForLeaderEpoch", 4, topics=[{"topic": topic, "partitions": [one]}], **fields)


@scenario
def leader_epochs_of_a_log(side: Side) -> None:
    """A log of several epochs, one of which wrote nothing."""
    topic = side.topic("leader-epochs")
    four_epochs(side, topic)
    for epoch in range(-1, 6):
        epoch_end(side, f"epoch {epoch}", topic, epoch)
    for timestamp in (-1, -2, -3, NOW_MS):
        list_offsets(side, f"time {timestamp}", topic, timestamp)
    for epoch in (0, 2, 3, 4, -2):
        list_offsets(side, f"leader epoch {epoch}", topic, -1, epoch=epoch)
        fetch(side, f"leader epoch {epoch}", topic, 5, current_leader_epoch=epoch)
        epoch_end(side, f"leader epoch {epoch}", topic, 0, epoch)
    fetch(side, "told where the leader is", topic, 0, 16, current_leader_epoch=1)
    for epoch, offset in ((0, 2), (0, 3), (0, 4), (1, 4), (1, 5), (2, 4), (3, 5), (3, 7), (4, 6), (7, 2)):
        fetch(side, f"epoch {epoch} up to {offset}", topic, offset, last_fetched_epoch=epoch)
    both = {"current_leader_epoch": 3, "last_fetched_epoch": 1}
    fetch(side, "of both epochs", topic, 5, **both)

    def delete_up_to(offset: int) -> None:
        one = {"partition_index": 0, "offset": offset}
        side.ask(
            "deletes", "DeleteRecords", 2, timeout_ms=5000, topics=[{"name": topic, "partitions": [one]}]
        )

    delete_up_to(3)
    fetch(side, "parted below the log's start", topic, 2, last_fetched_epoch=2)
    fetch(side, "parted above it", topic, 3, last_fetched_epoch=2)
    delete_up_to(4)
    for epoch in range(-1, 5):
        epoch_end(side, f"epoch {epoch} after that", topic, epoch)
    for epoch, offset in ((0, 3), (0, 4), (0, 5), (1, 4), (2, 3), (2, 4)):
        fetch(side, f"epoch {epoch} up to {offset} after that", topic, offset, last_fetched_epoch=epoch)
    list_offsets(side, "the beginning", topic, -2)
    fetch(side, "all", topic, 4)


@scenario
def leader_elsewhere(side: Side) -> None:
    """The former leader's response to each kind of request and version that names the new leader."""
    topic = side.topic("leader-elsewhere")
    fill(side, topic, 10)
    lead(side, topic, 1)
    for version in (9, 10, 11, 12, 13):
        produce(side, "not any more", topic, batch([b"x"]), version)
        produce(side, "nor with acks=1", topic, batch([b"x"]), version, acks=1)
    for version in (4, 6, 8, 10):
        fetch(side, "not any more", topic, 0, version)
    for version in (12, 14, 16, 18):
        fetch(side, "of epoch 0", topic, 0, version, current_leader_epoch=0)
        fetch(side, "of epoch 1", topic, 0, version, current_leader_epoch=1)
        fetch(side, "of epoch 2", topic, 0, version, current_leader_epoch=2)
    for version in (1, 3, 4, 5, 7):
        list_offsets(side, "not any more", topic, -1, version)
    list_offsets(side, "of epoch 0", topic, -1, epoch=0)
    list_offsets(side, "of epoch 1", topic, -1, epoch=1)
    list_offsets(side, "for debugging", topic, -1, replica_id=-2)
    list_offsets(side, "for debugging, the beginning", topic, -2, replica_id=-2)
    list_offsets(side, "as a replica", topic, -1, replica_id=1)
    for current in (-1, 0, 1, 2):
        epoch_end(side, f"current epoch {current}", topic, 0, current)
    epoch_end(side, "for debugging", topic, 0, replica_id=-2)
    one = {"partition_index": 0, "offset": 1}
    side.ask("deletes", "DeleteRecords", 2, timeout_ms=5000, topics=[{"name": topic, "partitions": [one]}])
    fetch(side, "the new one", topic, 0, broker=1)


@scenario
def leader_changes_under_a_fetch(side: Side) -> None:
    """A waiting fetch is answered when the leader changes, unless it may read from a follower."""

    def waiting(topic: str, version: int, epoch: int = -1, **options: Any) -> tuple[Any, ...]:
        one = {"partition": 0, "partition_max_bytes": 1 << 20, "current_leader_epoch": epoch}
        named = {"topic_id": side.id_of(topic)} if version >= 13 else {"topic": topic}
        return side.send(
            "Fetch",
            version,
            client=f"waiter-{version}-{epoch}-{len(options)}",
            max_wait_ms=3000,
            min_bytes=1,
            max_bytes=1 << 20,
            topics=[{**named, "partitions": [one]}],
            **options,
        )

    topic = side.topic("leader-changes")
    labels = {
        "version 10": waiting(topic, 10),
        "epoch 0": waiting(topic, 12, 0),
        "epoch 0, version 16": waiting(topic, 16, 0),
        "in a session": waiting(topic, 12, 0, session_epoch=0),
    }
    reads_on = waiting(topic, 11)
    lead(side, topic, 2)
    for label, sent in labels.items():
        side.receive(f"the leader changes: {label}", sent)
    data = [{"index": 0, "records": batch([b"after"])}]
    fields = {"acks": -1, "timeout_ms": 5000, "topic_data": [{"name": topic, "partition_data": data}]}
    side.quietly("Produce", 12, 2, **fields)
    side.receive("who may read from a follower waits on", reads_on)


@scenario
def replicas_by_epoch(side: Side) -> None:
    """A client that claims to be a follower and is none, with the leader's epoch: it may become one soon."""
    topic = side.topic("replicas-by-epoch", replicas=[0, 1])
    fill(side, topic, 10)
    for version in (9, 12, 14):
        fetch(side, "broker 2", topic, 0, version, replica_id=2)
        fetch(side, "broker 2 in epoch 0", topic, 0, version, replica_id=2, current_leader_epoch=0)
        fetch(side, "broker 2 in epoch 1", topic, 0, version, replica_id=2, current_leader_epoch=1)
    state = {"replica_id": 2, "replica_epoch": -1}
    fetch(side, "broker 2 by its state", topic, 0, 17, replica_state=state, current_leader_epoch=0)


@scenario
def group_coordinator_moves(side: Side) -> None:
    """Waiting members are sent away, a Stable group continues, a joining member starts over."""
    topic, group = side.topic("coordinator-moves"), "moves"
    at = side.coordinator(group)
    options = {"protocols": joining(group)["protocols"]}
    first = member_of(side, at, group, "a", **options)
    side.ask("joins", "JoinGroup", 9, at, "a", **joining(group, member_id=first))
    side.ask("syncs", "SyncGroup", 5, at, "a", **syncing(group, first, 1, assigned_to=[first]))
    commit = committing(group, topic, 0, generation_id_or_member_epoch=1, member_id=first)
    side.ask("commits", "OffsetCommit", 9, at, "a", **commit)
    second = member_of(side, at, group, "b", **options)
    waiting = side.send("JoinGroup", 9, at, "b", **joining(group, member_id=second))
    other = "moves-too"
    third = member_of(side, at, other, "c")
    side.ask("joins another", "JoinGroup", 9, at, "c", **joining(other, member_id=third))
    fourth = member_of(side, at, other, "d")
    joining_too = side.send("JoinGroup", 9, at, "d", **joining(other, member_id=fourth))
    side.ask("joins it again", "JoinGroup", 9, at, "c", **joining(other, member_id=third))
    side.receive("both have joined", joining_too)
    syncing_too = side.send("SyncGroup", 5, at, "d", **syncing(other, fourth, 2))
    then = (at + 1) % 3
    lead(side, "__consumer_offsets", then)
    side.receive("waited to join", waiting)
    side.receive("waited for its part", syncing_too)
    beat = {"group_id": group, "member_id": first, "generation_id": 1}
    side.ask("not here any more", "Heartbeat", 4, at, "a", **beat)
    assert side.coordinator(group) == then
    side.ask("goes on there", "Heartbeat", 4, then, "a", **beat)
    side.ask("goes on there", "DescribeGroups", 6, then, groups=[group])
    side.ask("goes on there", "OffsetCommit", 9, then, "a", **commit)
    side.ask("is unknown", "JoinGroup", 9, then, "b", **joining(group, member_id=second))
    side.ask("never was stable", "DescribeGroups", 6, then, groups=[other])
    side.ask("is unknown", "Heartbeat", 4, then, group_id=other, member_id=third, generation_id=2)
    side.ask("what was committed", "OffsetFetch", 9, then, groups=[{"group_id": group, "topics": None}])
    side.ask("leaves", "LeaveGroup", 5, then, group_id=group, members=[{"member_id": first}])


@scenario
def group_of_the_new_protocol_moves(side: Side) -> None:
    """A KIP-848 group and a half-finished rebalance under the next coordinator."""
    topic, group = side.topic("coordinator-moves-modern", partitions=2), "moves-modern"
    at = side.coordinator(group)
    side.await_topic_in_groups(topic, at)
    ids = side.id_of(topic)
    # However slow the machine, the member that joins again does so within the interval of its first time.
    assign_every(side, group, 15_000)

    def beat(label: str, member: str, epoch: int, node: int, **options: Any) -> Any:
        if epoch == 0:
            first = {
                "rebalance_timeout_ms": 10_000,
                "subscribed_topic_names": [topic],
                "topic_partitions": [],
            }
            options = {**first, **options}
        fields = {"group_id": group, "member_id": member, "member_epoch": epoch, **options}
        return side.ask(label, "ConsumerGroupHeartbeat", 1, node, **fields)

    epoch = beat("joins", "a", 0, at).member_epoch
    owned = [{"topic_id": ids, "partitions": [0, 1]}]
    beat("owns", "a", epoch, at, topic_partitions=owned)
    then = (at + 1) % 3
    lead(side, "__consumer_offsets", then)
    beat("not here any more", "a", epoch, at)
    assert side.coordinator(group) == then
    beat("goes on there", "a", epoch, then)
    side.ask("goes on there", "ConsumerGroupDescribe", 1, then, group_ids=[group])
    beat("an old epoch", "a", epoch - 1, then)
    beat("leaves", "a", -1, then)


@scenario
def transaction_coordinator_moves(side: Side) -> None:
    """An open transaction is committed by the next coordinator, or aborted there."""
    topic = side.topic("transaction-moves")
    who = producer(side, "transaction-moves")
    who.init("an id")
    who.write("in a transaction", topic, b"a")
    open_still = Producer(side, "transaction-moves-too", who.node)
    open_still.init("another", version=3)
    add(side, "added", open_still, topic, [0])
    before = who.node
    who.node = (before + 1) % 3
    lead(side, "__transaction_state", who.node)
    old = {"transactional_id": who.id, "producer_id": who.producer_id, "producer_epoch": who.epoch}
    side.ask("not here any more", "EndTxn", 5, before, committed=True, **old)
    side.ask("not here any more", "InitProducerId", 4, before, transaction_timeout_ms=60_000, **old)
    assert side.coordinator(who.id, 1) == who.node
    described = partial(side.ask, api="DescribeTransactions", version=0, broker=who.node)
    described("goes on there", transactional_ids=[who.id])
    who.write("more", topic, b"b")
    who.end("commits there", committed=True)
    read_both_ways(side, topic, 3)
    open_still.node = who.node
    open_still.init("begins anew: aborted first", version=4)
    described("aborted", transactional_ids=[open_still.id])


@scenario
def groups_of_one_that_moves_back(side: Side) -> None:
    """A coordinator that comes back has read the log again."""
    topic, group = side.topic("coordinator-returns"), "returns"
    at = side.coordinator(group)
    member = stable_of_one(side, at, group, topic)
    for then in ((at + 1) % 3, at):
        lead(side, "__consumer_offsets", then)
        assert side.coordinator(group) == then
        beat = {"group_id": group, "member_id": member, "generation_id": 1}
        side.ask("goes on", "Heartbeat", 4, then, **beat)
    side.ask("goes on", "DescribeGroups", 6, at, groups=[group])
    side.ask("leaves", "LeaveGroup", 5, at, group_id=group, members=[{"member_id": member}])
