"""Transactions: the happy path in both versions of KIP-890, and what is refused."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import attrs

from tests.broker.support.batches import batch

from .on_fetch import fetch, fetch_from_follower
from .on_offsets import list_offsets
from .on_produce import produce
from .side import BUSY, TIMEOUT, Side, scenario

TRANSACTIONAL = 0x10


@attrs.define
class Producer:
    """A producer by hand: what it was given last."""

    side: Side
    id: str
    node: int
    producer_id: int = -1
    epoch: int = -1
    sequence: int = 0

    def init(self, label: str, version: int = 4, **fields: Any) -> None:
        assigned = self.side.when_ready(
            label,
            "InitProducerId",
            version,
            self.node,
            **{"transactional_id": self.id, "transaction_timeout_ms": 60_000, **fields},
        )
        if assigned.error_code == 0:
            self.producer_id, self.epoch, self.sequence = assigned.producer_id, assigned.producer_epoch, 0

    def own(self) -> dict[str, Any]:
        return {
            "transactional_id": self.id,
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
        }

    def write(self, label: str, topic: str, value: bytes, version: int = 12, **options: Any) -> Any:
        changed = {key: options.pop(key) for key in ("producer_id", "producer_epoch") if key in options}
        fields = {"producer_id": self.producer_id, "producer_epoch": self.epoch, **changed}
        records = batch([value], base_sequence=self.sequence, attributes=TRANSACTIONAL, **fields)
        options.setdefault("transactional_id", self.id)
        answer = produce(self.side, label, topic, records, version, **options)
        if answer and answer.responses[0].partition_responses[0].error_code == 0:
            self.sequence += 1
        return answer

    def end(self, label: str, committed: bool, version: int = 5, **changed: Any) -> None:
        answer = self.side.when_ready(
            label,
            "EndTxn",
            version,
            self.node,
            **{**self.own(), "committed": committed, **changed},
        )
        if answer.error_code == 0 and version >= 5:
            self.producer_id, self.epoch, self.sequence = answer.producer_id, answer.producer_epoch, 0


def producer(side: Side, name: str) -> Producer:
    return Producer(side, name, side.coordinator(name, kind=1))


def add(side: Side, label: str, who: Producer, topic: str, partitions: list[int], **changed: Any) -> None:
    """Once the transaction before is complete: until then its end determines the response."""
    own = {f"v3_and_below_{key}": value for key, value in {**who.own(), **changed}.items()}
    side.eventually(
        label,
        lambda answer: all(
            one.partition_error_code not in BUSY
            for result in answer.results_by_topic_v3_and_below
            for one in result.results_by_partition
        ),
        "AddPartitionsToTxn",
        3,
        who.node,
        v3_and_below_topics=[{"name": topic, "partitions": partitions}],
        **own,
    )


def read_both_ways(side: Side, topic: str, end: int) -> None:
    """Reads with read_committed and read_uncommitted, once the markers are there."""
    done = lambda answer: answer.responses[0].partitions[0].last_stable_offset >= end  # noqa: E731
    requested = {"topic": topic, "partitions": [{"partition": 0, "partition_max_bytes": 1 << 20}]}
    limits = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 1 << 20}
    for level in (1, 0):
        side.eventually(
            f"isolation {level}", done, "Fetch", 12, topics=[requested], isolation_level=level, **limits
        )


def await_state(side: Side, who: Producer, state: str) -> None:
    """Wait until the coordinator knows that the markers are written, which readers see before."""
    deadline = time.monotonic() + TIMEOUT
    while True:
        found = side.quietly("DescribeTransactions", 0, who.node, transactional_ids=[who.id])
        if found.transaction_states[0].transaction_state == state:
            return
        assert time.monotonic() < deadline, found
        time.sleep(0.01)


@scenario
def transaction_of_version_2(side: Side) -> None:
    """Clients of KIP-890: partitions are added by producing, each end bumps the epoch."""
    topic = side.topic("transaction-2")
    who = producer(side, "transaction-2")
    who.init("an id")
    who.write("in a transaction", topic, b"a")
    who.write("more", topic, b"b")
    fetch(side, "open: read committed", topic, isolation_level=1)
    fetch(side, "open: read uncommitted", topic)
    described = partial(side.ask, api="DescribeTransactions", version=0, broker=who.node)
    described("ongoing", transactional_ids=[who.id])
    side.ask("its state here", "DescribeProducers", 0, topics=[{"name": topic, "partition_indexes": [0]}])
    who.end("commits", committed=True)
    read_both_ways(side, topic, 3)
    await_state(side, who, "CompleteCommit")
    who.write("the next transaction", topic, b"c")
    who.end("aborts", committed=False)
    read_both_ways(side, topic, 5)
    who.end("an empty one aborts", committed=False)
    who.end("an empty one commits", committed=True)
    await_state(side, who, "CompleteAbort")
    who.write("after that", topic, b"d")
    who.end("commits", committed=True)
    before = attrs.evolve(who, epoch=who.epoch - 1)
    before.end("commits with the epoch before: a retry", committed=True)
    before.end("aborts with the epoch before", committed=False)
    old = attrs.evolve(who, epoch=who.epoch - 2)
    old.end("an older epoch", committed=True)
    before.write("writes with the epoch before", topic, b"x")
    described("after all that", transactional_ids=[who.id])
    described("unknown", transactional_ids=["transaction-unknown"])
    described("empty", transactional_ids=[""])
    listed = partial(side.ask, api="ListTransactions", version=1, broker=who.node)
    listed("by producer", producer_id_filters=[who.producer_id])
    listed("by an unknown state", state_filters=["Dreaming"], producer_id_filters=[who.producer_id])
    read_both_ways(side, topic, 7)


@scenario
def transaction_of_version_1(side: Side) -> None:
    """Clients before KIP-890: AddPartitionsToTxn, the epoch stays."""
    topic = side.topic("transaction-1", partitions=2)
    who = producer(side, "transaction-1")
    who.init("an id", version=3)
    who.write("before it was added", topic, b"x", version=11)
    add(side, "added", who, topic, [0])
    who.write("now it may", topic, b"a", version=11)
    who.write("not added", topic, b"x", version=11, partition=1)
    who.end("commits", committed=True, version=4)
    who.end("commits again: a retry", committed=True, version=4)
    who.end("aborts after that", committed=False, version=4)
    read_both_ways(side, topic, 2)
    who.end("nothing was begun", committed=True, version=4)
    add(side, "added", who, topic, [0])
    who.write("to be aborted", topic, b"b", version=11)
    who.end("aborts", committed=False, version=4)
    read_both_ways(side, topic, 4)
    add(side, "unknown partition", who, topic, [9])
    add(side, "unknown topic", who, "transaction-1-unknown", [0])
    add(side, "wrong epoch", who, topic, [0], producer_epoch=who.epoch + 1)
    add(side, "wrong producer id", who, topic, [0], producer_id=who.producer_id + 1)
    add(side, "unknown id", who, topic, [0], transactional_id="transaction-unknown")
    add(side, "no id", who, topic, [0], transactional_id="")


@scenario
def transaction_refusals(side: Side) -> None:
    topic = side.topic("transaction-refusals")
    who = producer(side, "transaction-refusals")
    ask = partial(side.ask, api="InitProducerId", version=4, broker=who.node)
    ask("empty id", transactional_id="", transaction_timeout_ms=1000)
    ask("timeout too long", transactional_id=who.id, transaction_timeout_ms=900_001)
    ask("timeout 0", transactional_id=who.id, transaction_timeout_ms=0)
    ask("an epoch without an id", transactional_id=who.id, transaction_timeout_ms=1000, producer_epoch=3)
    ask(
        "an id that it never had",
        transactional_id="transaction-refusals-2",
        transaction_timeout_ms=1000,
        producer_id=123_456_789,
        producer_epoch=3,
    )
    side.ask(
        "not the coordinator",
        "InitProducerId",
        4,
        (who.node + 1) % 3,
        transactional_id=who.id,
        transaction_timeout_ms=1000,
    )
    who.init("an id")
    first = attrs.evolve(who)
    who.init("the next incarnation: the epoch goes up")
    first.write("fenced: writes", topic, b"x")
    first.end("fenced: commits", committed=True)
    first.end("fenced: commits, older client", committed=True, version=1)
    add(side, "fenced: adds", first, topic, [0])
    ask(
        "fenced: asks again",
        transactional_id=who.id,
        transaction_timeout_ms=60_000,
        producer_id=first.producer_id,
        producer_epoch=first.epoch,
    )
    ask(
        "fenced: asks again, older client",
        version=3,
        transactional_id=who.id,
        transaction_timeout_ms=60_000,
        producer_id=first.producer_id,
        producer_epoch=first.epoch,
    )
    who.init("asks with its own epoch: a bump", producer_id=who.producer_id, producer_epoch=who.epoch)
    who.write("opens one", topic, b"a")
    produce(
        side,
        "not transactional inside a transaction",
        topic,
        batch([b"x"], producer_id=who.producer_id, producer_epoch=who.epoch, base_sequence=1),
    )
    who.write("transactional without the id", topic, b"x", transactional_id=None)
    second = attrs.evolve(who)
    ask("another one asks while it is open", transactional_id=who.id, transaction_timeout_ms=60_000)
    who.init("until it is aborted")
    second.write("the old one is fenced", topic, b"x")
    read_both_ways(side, topic, 2)
    produce(
        side,
        "an id that nobody was given",
        topic,
        batch([b"x"], producer_id=987_654_321, producer_epoch=0, base_sequence=0, attributes=TRANSACTIONAL),
        transactional_id="transaction-refusals-3",
    )


@scenario
def transaction_offsets(side: Side) -> None:
    """Offsets of a group inside a transaction: invisible until the commit."""
    topic = side.topic("transaction-offsets")
    group = "transaction-offsets"
    group_node = side.coordinator(group)
    who = producer(side, "transaction-offsets")
    who.init("an id")
    wanted = {"group_id": group, "topics": [{"name": topic, "partition_indexes": [0]}]}
    fetched = partial(side.ask, api="OffsetFetch", version=8, broker=group_node, groups=[wanted])

    def commit(label: str, offset: int, version: int = 5, **changed: Any) -> None:
        side.when_ready(
            label,
            "TxnOffsetCommit",
            version,
            group_node,
            **{**who.own(), "group_id": group, **changed},
            topics=[{"name": topic, "partitions": [{"committed_offset": offset}]}],
        )

    commit("version 5 adds the group", 5)
    fetched("invisible")
    fetched("and unstable", require_stable=True)
    who.end("commits", committed=True)
    side.eventually(
        "visible",
        lambda one: one.groups[0].topics[0].partitions[0].committed_offset == 5,
        "OffsetFetch",
        8,
        group_node,
        groups=[wanted],
    )
    commit("older client, group not added", 6, 3)
    side.when_ready("adds the group", "AddOffsetsToTxn", 3, who.node, **who.own(), group_id=group)
    commit("older client, group added", 7, 3)
    commit("unknown member", 8, 3, member_id="nobody", generation_id_or_member_epoch=1)
    commit("a generation without members", 8, 3, generation_id_or_member_epoch=1)
    commit("wrong epoch", 8, 3, producer_epoch=who.epoch + 1)
    who.end("aborts", committed=False)
    side.eventually(
        "as before",
        lambda one: one.groups[0].topics[0].partitions[0].error_code == 0,
        "OffsetFetch",
        8,
        group_node,
        groups=[wanted],
        require_stable=True,
    )
    side.when_ready(
        "wrong epoch", "AddOffsetsToTxn", 3, who.node, **{**who.own(), "producer_epoch": 99}, group_id=group
    )
    side.when_ready("empty group", "AddOffsetsToTxn", 3, who.node, **who.own(), group_id="")


@scenario
def transaction_open_to_replicas(side: Side) -> None:
    """Records behind the last stable offset: the debugging consumer and other replica ids read further."""
    topic = side.topic("transaction-replicas")
    who = producer(side, "transaction-replicas")
    who.init("an id")
    who.write("opens one", topic, b"a")
    fetch_from_follower(side, "a follower has learned of it", topic, 1, 12)
    for level in (0, 1):
        for replica in (-1, -2, -3, 0, 1, 2, 77):
            for timestamp in (-1, -2, -3, 5):
                label = f"replica {replica}, isolation {level}, time {timestamp}"
                list_offsets(side, label, topic, timestamp, replica_id=replica, isolation_level=level)
        for replica in (-1, -2, -3, 1):
            label = f"a follower, replica {replica}, isolation {level}"
            list_offsets(side, label, topic, -1, replica_id=replica, isolation_level=level, broker=1)
            fetch(side, label, topic, broker=1, version=4, replica_id=replica, isolation_level=level)
            fetch(side, label, topic, broker=1, replica_id=replica, isolation_level=level)
        for replica in (-1, -2, -3):
            label = f"replica {replica}, isolation {level}"
            for version in (4, 12):
                fetch(side, label, topic, 0, version, replica_id=replica, isolation_level=level)
            state = {"replica_id": replica, "replica_epoch": -1}
            fetch(side, label, topic, 0, 15, replica_state=state, isolation_level=level)
    list_offsets(side, "no such epoch", topic, -1, epoch=-2)
    list_offsets(side, "no such epoch, in debugging", topic, -1, epoch=-2, replica_id=-2)
    list_offsets(side, "an epoch to come, in debugging", topic, -1, epoch=5, replica_id=-2, broker=1)
    list_offsets(side, "the epoch, in debugging", topic, -1, epoch=0, replica_id=-2, broker=1)
    who.end("aborts", committed=False)


@scenario
def transaction_markers(side: Side) -> None:
    """WriteTxnMarkers as an administrator may send it."""
    topic = side.topic("transaction-markers")
    who = producer(side, "transaction-markers")
    who.init("an id")
    who.init("and a later epoch")
    who.write("opens one", topic, b"a")

    def write(label: str, version: int = 1, partition: int = 0, name: str = topic, **changed: Any) -> None:
        marker = {
            "producer_id": who.producer_id,
            "producer_epoch": who.epoch,
            "transaction_result": False,
            "coordinator_epoch": 7,
            "topics": [{"name": name, "partition_indexes": [partition]}],
            **changed,
        }
        side.ask(label, "WriteTxnMarkers", version, markers=[marker])

    write("an old epoch", producer_epoch=0)
    write("aborts")
    write("an older coordinator", coordinator_epoch=6)
    write("unknown partition", partition=5)
    write("unknown topic", name="transaction-markers-unknown")
    read_both_ways(side, topic, 2)
    side.ask("its state here", "DescribeProducers", 0, topics=[{"name": topic, "partition_indexes": [0, 5]}])
    side.ask("not the leader", "DescribeProducers", 0, 1, topics=[{"name": topic, "partition_indexes": [0]}])
