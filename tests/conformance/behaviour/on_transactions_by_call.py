"""Every transaction API in every version, and its response to each caller."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import attrs

from tests.broker.support.batches import batch

from .on_fetch import fetch
from .on_groups_by_call import committing
from .on_offsets import list_offsets
from .on_produce import produce
from .on_transactions import TRANSACTIONAL, Producer, add, await_state, producer, read_both_ways
from .side import BUSY, TIMEOUT, Side, scenario


def fenced(side: Side, name: str) -> tuple[Producer, Producer]:
    """A producer, and the one that was there before it."""
    who = producer(side, name)
    who.init("an id")
    before = attrs.evolve(who)
    who.init("its next epoch")
    return who, before


@scenario
def transaction_calls_in_every_version(side: Side) -> None:
    """PRODUCER_FENCED is INVALID_PRODUCER_EPOCH for older clients."""
    topic = side.topic("transaction-calls")
    who, before = fenced(side, "transaction-calls")
    group_node = side.coordinator("transaction-calls")
    ask = partial(side.ask, broker=who.node)
    own = {"transactional_id": who.id, "transaction_timeout_ms": 60_000}
    for version in range(6):
        ask("without an id", "InitProducerId", version, transactional_id=None, transaction_timeout_ms=1)
        if version >= 3:
            past = {"producer_id": before.producer_id, "producer_epoch": before.epoch}
            ask("fenced", "InitProducerId", version, **own, **past)
            stranger = {"producer_id": before.producer_id + 1, "producer_epoch": 0}
            ask("a stranger", "InitProducerId", version, **own, **stranger)
    for version in range(4):
        for label, one in (("fenced", before), ("its own", who)):
            named = {f"v3_and_below_{key}": value for key, value in one.own().items()}
            topics = [{"name": topic, "partitions": [0]}]
            ask(label, "AddPartitionsToTxn", version, v3_and_below_topics=topics, **named)
    for version in range(5):
        for label, one in (("fenced", before), ("its own", who)):
            ask(label, "AddOffsetsToTxn", version, **one.own(), group_id="transaction-calls")
    for version in range(6):
        for label, one in (("fenced", before), ("its own", who)):
            committed = [{"name": topic, "partitions": [{"committed_offset": version}]}]
            fields = {**one.own(), "group_id": "transaction-calls", "topics": committed}
            side.when_ready(label, "TxnOffsetCommit", version, group_node, **fields)
    for version in range(6):
        for committed in (True, False):
            ask("fenced", "EndTxn", version, **before.own(), committed=committed)
        ask("a stranger", "EndTxn", version, **{**who.own(), "producer_id": 77}, committed=True)
        ask("nobody", "EndTxn", version, **{**who.own(), "transactional_id": "nobody"}, committed=True)
        ask("no name", "EndTxn", version, **{**who.own(), "transactional_id": ""}, committed=True)
        who.end("commits", committed=True, version=version)
        await_state(side, who, "CompleteCommit")
        if version < 5:
            add(side, "begins the next", who, topic, [0])
    again = attrs.evolve(who, epoch=who.epoch - 1)
    for committed in (True, False):
        ask("a retry", "EndTxn", 5, **again.own(), committed=committed)
    wanted = [{"group_id": "transaction-calls", "topics": None}]
    side.eventually(
        "committed",
        lambda answer: answer.groups[0].topics and not answer.groups[0].topics[0].partitions[0].error_code,
        "OffsetFetch",
        9,
        group_node,
        groups=wanted,
        require_stable=True,
    )


@scenario
def transaction_partitions_of_many(side: Side) -> None:
    """AddPartitionsToTxn as brokers ask it: many transactions, adding or only verifying."""
    topic = side.topic("transaction-many", partitions=2)
    who, before = fenced(side, "transaction-many")

    def one(of: Producer, *partitions: int, verify: bool = False, name: str = topic, **changed: Any) -> Any:
        topics = [{"name": name, "partitions": [*partitions]}]
        return {**of.own(), "verify_only": verify, "topics": topics, **changed}

    def ask(label: str, *transactions: Any) -> None:
        for version in (4, 5):
            side.ask(label, "AddPartitionsToTxn", version, who.node, transactions=list(transactions))

    nobody = attrs.evolve(who, id="transaction-many-nobody")
    ask("looks: nothing was begun", one(who, 0, verify=True))
    ask("adds", one(who, 0))
    ask("looks", one(who, 0, 1, verify=True))
    ask("looks, fenced", one(before, 0, verify=True))
    ask("looks, another producer", one(who, 0, verify=True, producer_id=who.producer_id + 1))
    ask("looks, nobody", one(nobody, 0, verify=True))
    ask("unknown partition", one(who, 0, 7))
    ask("unknown topic", one(who, 0, name="transaction-many-unknown", verify=True))
    ask("no name", one(attrs.evolve(who, id=""), 0))
    ask("some are wrong", one(who, 1), one(nobody, 0))
    who.end("aborts", committed=False, version=4)
    await_state(side, who, "CompleteAbort")
    ask("looks: it has ended", one(who, 0, verify=True))


@scenario
def transaction_while_it_ends(side: Side) -> None:
    """A transaction that the next incarnation has aborted: its producer may do no more."""
    topic = side.topic("transaction-ends", partitions=2)
    who = producer(side, "transaction-ends")
    who.init("an id")
    who.write("opens one", topic, b"a")
    next_one = attrs.evolve(who)
    deadline = time.monotonic() + TIMEOUT
    own = {"transactional_id": who.id, "transaction_timeout_ms": 60_000}
    side.ask("the next one asks", "InitProducerId", 4, who.node, **own)
    while side.quietly("InitProducerId", 5, who.node, **own).error_code in BUSY:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    who.write("fenced: writes", topic, b"x")
    who.write("fenced: writes elsewhere", topic, b"x", partition=1)
    who.write("fenced: writes, older client", topic, b"x", version=11)
    who.end("fenced: commits", committed=True)
    who.end("fenced: aborts", committed=False)
    next_one.init("the next one again")
    next_one.write("writes", topic, b"b", partition=1)
    next_one.end("commits", committed=True)
    read_both_ways(side, topic, 2)


@scenario
def transaction_holds_readers_back(side: Side) -> None:
    """Reads while two transactions are open, and the aborted transactions in each response."""
    topic = side.topic("transaction-readers")
    produce(side, "before", topic, batch([b"plain"]))
    one, two = producer(side, "transaction-reader-1"), producer(side, "transaction-reader-2")
    one.init("one")
    two.init("two")
    two.write("two opens", topic, b"t")
    one.write("one opens", topic, b"o")
    produce(side, "between", topic, batch([b"plain"]))
    for level in (0, 1):
        for timestamp in (-1, -3, 0, 10**12):
            list_offsets(
                side, f"isolation {level}, time {timestamp}", topic, timestamp, isolation_level=level
            )
    started = time.monotonic()
    fetch(
        side,
        "above what it may read: told at once",
        topic,
        3,
        isolation_level=1,
        max_wait_ms=3000,
        min_bytes=1,
    )
    side.note("at once", str(time.monotonic() - started < 1.5))
    one.end("one aborts", committed=False)
    await_state(side, one, "CompleteAbort")
    one.write("one again", topic, b"o")
    fetch(side, "all that is committed", topic, 0, isolation_level=1)
    two.end("two commits", committed=True)
    side.eventually(
        "both ended once",
        lambda answer: answer.responses[0].partitions[0].last_stable_offset == 5,
        "Fetch",
        12,
        topics=[{"topic": topic, "partitions": [{"partition": 0, "partition_max_bytes": 1 << 20}]}],
        isolation_level=1,
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1 << 20,
    )
    for offset in (1, 2, 3, 4, 5):
        fetch(side, f"from {offset}", topic, offset, isolation_level=1)
    fetch(side, "one batch of it", topic, 2, isolation_level=1, partition_max_bytes=1)
    known = side.quietly("DescribeProducers", 0, topics=[{"name": topic, "partition_indexes": [0]}])
    known.topics[0].partitions[0].active_producers.sort(key=lambda each: each.producer_id)
    side.note("who has what open: DescribeProducers v0", known)
    one.end("one commits", committed=True)
    read_both_ways(side, topic, 8)


@scenario
def transaction_epochs_at_a_partition(side: Side) -> None:
    """Markers of both transaction versions and the epochs they leave behind."""
    topic = side.topic("transaction-epochs", partitions=2)
    who = producer(side, "transaction-epochs")
    who.init("an id")

    def write(label: str, epoch: int, version: int = 2, partition: int = 0, **changed: Any) -> None:
        marker = {
            "producer_id": 555_000,
            "producer_epoch": epoch,
            "transaction_result": True,
            "coordinator_epoch": 3,
            "topics": [{"name": topic, "partition_indexes": [partition]}],
            **changed,
        }
        side.ask(label, "WriteTxnMarkers", version, markers=[marker])

    def append(label: str, epoch: int, sequence: int, partition: int = 0, attributes: int = 0) -> None:
        records = batch(
            [b"v"],
            producer_id=555_000,
            producer_epoch=epoch,
            base_sequence=sequence,
            attributes=attributes,
        )
        produce(side, label, topic, records, partition=partition)

    write("of nobody", 5)
    append("after a marker not from 0", 5, 3)
    append("after a marker from 0", 5, 0)
    append("a later epoch not from 0", 7, 4)
    append("a later epoch from 0", 7, 0)
    write("an older epoch", 6)
    write("the same epoch, version 1", 7, version=1)
    write("the same epoch, of transaction version 2", 7, transaction_version=2)
    write("a later epoch, of transaction version 2", 8, transaction_version=2)
    write("once more", 8, transaction_version=2)
    append("the epoch before the marker", 7, 1)
    append("the epoch of the marker, going on", 8, 1)
    append("the epoch of the marker, from 0", 8, 0)
    write("an older coordinator", 9, coordinator_epoch=2)
    write("a later coordinator", 9, coordinator_epoch=4)
    append("any sequence of a new one", 2, 40, partition=1)
    write("and its marker", 2, partition=1)
    append("goes on after a marker of its own epoch", 2, 41, partition=1)
    requested = [{"name": topic, "partition_indexes": [0, 1]}]
    side.ask("what is known", "DescribeProducers", 0, topics=requested)
    unverified = partial(append, attributes=TRANSACTIONAL)
    unverified("transactional without a transactional id", 9, 0)


@scenario
def transactions_listed(side: Side) -> None:
    """Filters of ListTransactions in every version."""
    topic = side.topic("transactions-listed")
    names = [f"listed-{number}" for number in range(3)]
    found = {name: producer(side, name) for name in names}
    for who in found.values():
        who.init(who.id)
    found["listed-1"].write("ongoing", topic, b"a")
    found["listed-2"].write("begins", topic, b"b")
    found["listed-2"].end("commits", committed=True)
    node = found["listed-0"].node

    def ask(label: str, version: int, **filters: Any) -> None:
        answer = side.quietly("ListTransactions", version, node, **filters)
        answer.transaction_states = [
            one for one in answer.transaction_states if one.transactional_id.startswith("listed-")
        ]
        side.note(f"{label}: ListTransactions v{version}", answer)

    side.when_ready("it is complete", "EndTxn", 4, node, **found["listed-2"].own(), committed=True)
    for version in range(3):
        ask("all", version)
        for states in (["Empty"], ["Ongoing", "Empty"], ["ongoing"], ["CompleteCommit"], ["Dead"]):
            ask(f"in {states}", version, state_filters=states)
        ask("of nobody", version, producer_id_filters=[1])
    for duration in (0, 3_600_000, -1, -5):
        ask(f"for {duration} ms", 1, duration_filter=duration)
    for pattern in (None, "", "listed-[01]", "listed", ".*-2", "(", "listed-(?=1)"):
        ask(f"called {pattern}", 2, transactional_id_pattern=pattern)
    found["listed-1"].end("ends", committed=False)


@scenario
def transaction_offsets_overtaken(side: Side) -> None:
    """Offsets that a transaction has yet to commit, and what comes between: commits and deletions."""
    topic, gone = side.topic("transaction-overtaken", partitions=2), side.topic("transaction-overtaken-2")
    group = "overtaken"
    at = side.coordinator(group)
    who = producer(side, "transaction-overtaken")
    who.init("an id")

    def pending(label: str, *places: tuple[str, int, int], of: str = group) -> None:
        topics = [
            {"name": name, "partitions": [{"partition_index": index, "committed_offset": offset}]}
            for name, index, offset in places
        ]
        side.when_ready(label, "TxnOffsetCommit", 5, at, **who.own(), group_id=of, topics=topics)

    def fetched(label: str, of: str = group, **options: Any) -> None:
        side.ask(label, "OffsetFetch", 9, at, groups=[{"group_id": of, "topics": None}], **options)

    def settled(label: str, of: str = group) -> None:
        def is_stable(answer: Any) -> bool:
            return all(not one.error_code for each in answer.groups[0].topics for one in each.partitions)

        await_state(side, who, "CompleteCommit")
        requested = [{"group_id": of, "topics": [{"name": topic, "partition_indexes": [0, 1]}]}]
        side.eventually(label, is_stable, "OffsetFetch", 9, at, groups=requested, require_stable=True)

    pending("in a transaction", (topic, 0, 5), (topic, 1, 6))
    side.ask("overtaken", "OffsetCommit", 9, at, **committing(group, topic, 0, offset=9))
    fetched("overtaken")
    fetched("overtaken, stable", require_stable=True)
    who.end("commits", committed=True)
    settled("the later one stays")
    pending("in another", (topic, 0, 15), (topic, 1, 16))
    one = [{"name": topic, "partitions": [{"partition_index": 1}]}]
    side.ask("deletes one", "OffsetDelete", 0, at, group_id=group, topics=one)
    who.end("commits", committed=True)
    settled("it stays deleted")
    fresh = "overtaken-fresh"
    pending("in a group of its own", (topic, 0, 25), (gone, 0, 26), of=fresh)
    fetched("nothing yet", fresh)
    side.ask("the group", "DescribeGroups", 6, at, groups=[fresh])
    one = [{"name": topic, "partitions": [{"partition_index": 0}]}]
    side.ask("deletes one", "OffsetDelete", 0, at, group_id=fresh, topics=one)
    side.quietly("DeleteTopics", 6, topics=[{"name": gone, "topic_id": bytes(16)}], timeout_ms=5000)
    deadline = time.monotonic() + TIMEOUT
    requested = {"topics": [{"name": gone, "partition_indexes": [0]}], "group_id": fresh}
    while time.monotonic() < deadline:
        found = side.quietly("OffsetFetch", 9, at, groups=[requested], require_stable=True).groups[0]
        if not found.topics[0].partitions[0].error_code:
            break
        time.sleep(0.02)
    who.end("commits", committed=True)
    settled("the group is empty", fresh)
    fetched("the group is empty", fresh)
    last = "overtaken-last"
    pending("in a group of its own", (topic, 0, 35), of=last)
    side.ask("deletes the group", "DeleteGroups", 2, at, groups_names=[last])
    side.ask("the group", "DescribeGroups", 6, at, groups=[last])
    who.end("commits", committed=True)
    settled("the group is gone", last)
    side.ask("the group", "DescribeGroups", 6, at, groups=[last])
