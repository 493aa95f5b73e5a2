"""KIP-848 groups step by step: epochs of commits, growing topics, the slow, both protocols."""

from __future__ import annotations

import time
from typing import Any

from .on_groups_by_call import (
    assign_every,
    beating,
    committing,
    joining,
    leave,
    member_of,
    share_of,
    subscribed_to,
    syncing,
)
from .side import TIMEOUT, Side, scenario


class Members:
    """The heartbeats of one group, written down."""

    def __init__(self, side: Side, group: str, topic: str) -> None:
        self.side, self.group, self.topic = side, group, topic
        self.at = side.coordinator(group)
        self.topic_id = side.id_of(topic)
        side.await_topic_in_groups(topic, self.at)
        assign_every(side, group, 0)

    def beat(self, label: str, member: str, epoch: int, *topics: str, **options: Any) -> Any:
        fields = beating(self.group, member, epoch, *topics, **options)
        return self.side.ask(label, "ConsumerGroupHeartbeat", 1, self.at, f"client-{member}", **fields)

    def joins(self, label: str, member: str, **options: Any) -> Any:
        return self.beat(label, member, 0, self.topic, **options)

    def owning(self, *partitions: int) -> dict[str, Any]:
        return {"topic_partitions": [{"topic_id": self.topic_id, "partitions": [*partitions]}]}

    def until(self, label: str, member: str, epoch: int, **options: Any) -> Any:
        """Send heartbeats until one brings an assignment, or an error."""
        return self.side.eventually(
            label,
            lambda answer: answer.assignment is not None or answer.error_code,
            "ConsumerGroupHeartbeat",
            1,
            self.at,
            f"client-{member}",
            **beating(self.group, member, epoch, **options),
        )

    def describe(self, label: str) -> None:
        self.side.ask(label, "ConsumerGroupDescribe", 1, self.at, group_ids=[self.group])

    def commit(self, label: str, member: str, epoch: int, *partitions: int, version: int = 9) -> None:
        fields = committing(self.group, self.topic, *partitions, member_id=member)
        fields["generation_id_or_member_epoch"] = epoch
        self.side.ask(label, "OffsetCommit", version, self.at, **fields)

    def fetch(self, label: str, member: str | None, epoch: int) -> None:
        wanted = [{"name": self.topic, "partition_indexes": [0]}]
        fields = {"group_id": self.group, "member_id": member, "member_epoch": epoch, "topics": wanted}
        self.side.ask(label, "OffsetFetch", 9, self.at, groups=[fields])


def partitions_of(answer: Any) -> list[int]:
    return [index for one in answer.assignment.topic_partitions for index in one.partitions]


@scenario
def consumer_group_commits_by_epoch(side: Side) -> None:
    """KIP-848 and KIP-1251: an older epoch may commit what the member has had since then."""
    group = Members(side, "by-epoch", side.topic("consumer-by-epoch", partitions=4))
    first = group.joins("joins", "a").member_epoch
    group.beat("owns", "a", first, **group.owning(0, 1, 2, 3))
    second = group.joins("another", "b").member_epoch
    response = group.until("told to give up", "a", first)
    kept = partitions_of(response)
    group.commit("while it gives up: what it keeps", "a", first, *kept)
    group.commit("while it gives up: all", "a", first, 0, 1, 2, 3)
    gave = group.beat("gave up", "a", first, **group.owning(*kept))
    group.commit("an epoch late: what it kept", "a", first, *kept)
    group.commit("an epoch late: what it gave up", "a", first, *(one for one in range(4) if one not in kept))
    group.commit("an epoch late: one of each", "a", first, 0, 1, 2, 3)
    group.commit("an epoch early", "a", gave.member_epoch + 1, *kept)
    group.commit("at its epoch: all", "a", gave.member_epoch, 0, 1, 2, 3)
    new = group.until("is given", "b", second)
    group.commit("what it was given, by its epoch before", "b", second - 1, *partitions_of(new))
    group.commit("what it was given", "b", second, *partitions_of(new))
    for version in (2, 5, 8):
        group.commit("an older client", "b", second, 0, version=version)
    for member in ("a", "", None, "x"):
        for epoch in (gave.member_epoch, first, -1, 0):
            group.fetch(f"{member!r} at {epoch - first:+}", member, epoch)
    group.commit("nobody", "", -1, 0)
    group.beat("leaves", "a", -1)
    group.beat("leaves", "b", -1)
    group.commit("nobody, as it is empty", "", -1, 0)
    group.commit("somebody, as it is empty", "a", gave.member_epoch, 0)


@scenario
def consumer_group_reads_more(side: Side) -> None:
    """A topic grows, a subscription changes, a topic goes: each brings a new epoch."""
    topic, other = side.topic("consumer-grows", partitions=2), side.topic("consumer-grows-2")
    group = Members(side, "reads-more", topic)
    side.await_topic_in_groups(other, group.at)
    epoch = group.joins("joins", "a").member_epoch
    group.beat("owns", "a", epoch, **group.owning(0, 1))
    grown = {"name": topic, "count": 3, "assignments": [{"broker_ids": [0, 1, 2]}]}
    side.quietly("CreatePartitions", 3, timeout_ms=10_000, topics=[grown])
    side.await_topic(topic)
    epoch = group.until("the topic has grown", "a", epoch).member_epoch
    group.describe("after that")
    names = {"subscribed_topic_names": [topic, other]}
    fields = beating("reads-more", "a", epoch, **names)
    said = side.quietly("ConsumerGroupHeartbeat", 1, group.at, "client-a", **fields)
    assigned = sorted(len(one.partitions) for one in said.assignment.topic_partitions)
    side.note("reads another, too", [said.member_epoch - epoch, assigned])
    group.describe("after that")
    said = group.beat("reads the other only", "a", said.member_epoch, subscribed_topic_names=[other])
    group.beat("still owns the first", "a", said.member_epoch, **group.owning(0, 1, 2))
    group.describe("on the way")
    said = group.beat("owns nothing", "a", said.member_epoch, topic_partitions=[])
    group.describe("after that")
    said = group.beat("reads nothing", "a", said.member_epoch, subscribed_topic_names=[])
    said = group.beat("owns nothing", "a", said.member_epoch, topic_partitions=[])
    group.describe("after that")
    group.beat("leaves", "a", -1)


@scenario
def consumer_group_waits_for_the_slow(side: Side) -> None:
    """A member that does not give up its partitions within its rebalance timeout is fenced."""
    group = Members(side, "slow", side.topic("consumer-slow", partitions=2))
    slow = group.joins("joins", "a", rebalance_timeout_ms=500).member_epoch
    group.beat("owns", "a", slow, **group.owning(0, 1))
    second = group.joins("another", "b").member_epoch
    group.until("told to give up", "a", slow)
    deadline = time.monotonic() + TIMEOUT
    while time.monotonic() < deadline:
        answer = side.quietly("ConsumerGroupHeartbeat", 1, group.at, **beating("slow", "a", slow))
        if answer.error_code:
            break
        time.sleep(0.05)
    side.note("is fenced: ConsumerGroupHeartbeat v1", answer)
    assigned = group.until("is given all", "b", second)
    side.note("all", partitions_of(assigned))
    side.ask(
        "once more",
        "OffsetCommit",
        9,
        group.at,
        **committing("slow", group.topic, 0, member_id="a", generation_id_or_member_epoch=slow),
    )
    group.joins("comes again", "a")
    group.beat("leaves", "a", -1)
    group.beat("leaves", "b", -1)


@scenario
def consumer_group_of_both_protocols(side: Side) -> None:
    """A classic group is upgraded under its member, goes on in both protocols, and is downgraded again."""
    topic = side.topic("consumer-both", partitions=2)
    group = Members(side, "both", topic)
    said = {"protocols": subscribed_to(topic)}
    classic = member_of(side, group.at, "both", "solo", **said)
    side.ask("joins", "JoinGroup", 9, group.at, "solo", **joining("both", member_id=classic, **said))
    everything = [{"member_id": classic, "assignment": share_of(topic, 0, 1)}]
    sync = {**syncing("both", classic, 1), "assignments": everything}
    side.ask("syncs", "SyncGroup", 5, group.at, "solo", **sync)
    side.ask(
        "commits",
        "OffsetCommit",
        9,
        group.at,
        **committing("both", topic, 0, generation_id_or_member_epoch=1, member_id=classic),
    )
    modern = group.joins("a new member", "m")
    group.describe("upgraded")
    side.ask("as a classic one", "DescribeGroups", 6, group.at, groups=["both"])
    beat = {"group_id": "both", "member_id": classic}
    side.ask("told to rejoin", "Heartbeat", 4, group.at, "solo", **beat, generation_id=1)
    side.ask("a generation too far", "Heartbeat", 4, group.at, "solo", **beat, generation_id=9)
    side.ask(
        "the new one by the old calls",
        "Heartbeat",
        4,
        group.at,
        group_id="both",
        member_id="m",
        generation_id=1,
    )
    side.ask(
        "by another protocol",
        "JoinGroup",
        9,
        group.at,
        "solo",
        **joining("both", member_id=classic, protocols=subscribed_to(topic, protocol="sticky")),
    )
    side.ask(
        "of another type",
        "JoinGroup",
        9,
        group.at,
        "solo",
        **joining("both", member_id=classic, protocol_type="connect"),
    )
    again = joining("both", member_id=classic, protocols=subscribed_to(topic))
    joined = side.ask("rejoins", "JoinGroup", 9, group.at, "solo", **again)
    side.ask(
        "another protocol",
        "SyncGroup",
        5,
        group.at,
        "solo",
        **syncing("both", classic, joined.generation_id, protocol_name="sticky"),
    )
    side.ask(
        "an old generation",
        "SyncGroup",
        5,
        group.at,
        "solo",
        **syncing("both", classic, joined.generation_id - 1),
    )
    side.ask(
        "has its part", "SyncGroup", 5, group.at, "solo", **syncing("both", classic, joined.generation_id)
    )
    commit = committing(
        "both", topic, 0, generation_id_or_member_epoch=joined.generation_id, member_id=classic
    )
    side.ask("commits", "OffsetCommit", 8, group.at, **commit)
    side.ask(
        "commits at an old generation",
        "OffsetCommit",
        8,
        group.at,
        **{**commit, "generation_id_or_member_epoch": 0},
    )
    group.until("the new member has its part", "m", modern.member_epoch)
    bad = joining("both", session_timeout_ms=100, protocols=subscribed_to(topic))
    side.ask("too short a session", "JoinGroup", 9, group.at, "third", **bad)
    stranger = joining("both", member_id="stranger", protocols=subscribed_to(topic))
    side.ask("a stranger", "JoinGroup", 9, group.at, "third", **stranger)
    static = {"group_instance_id": "i", "protocols": subscribed_to(topic)}
    side.ask(
        "a stranger's instance",
        "JoinGroup",
        9,
        group.at,
        "third",
        **joining("both", member_id="stranger", **static),
    )
    side.ask(
        "an id first", "JoinGroup", 9, group.at, "third", **joining("both", protocols=subscribed_to(topic))
    )
    group.describe("both")
    side.ask("has members", "DeleteGroups", 2, group.at, groups_names=["both"])
    group.beat("the new member leaves", "m", -1)
    side.ask("a classic group", "DescribeGroups", 6, group.at, groups=["both"])
    side.ask("told to rejoin", "Heartbeat", 4, group.at, "solo", **beat, generation_id=joined.generation_id)
    leave(side, group.at, "both", classic)


@scenario
def consumer_group_with_patterns(side: Side) -> None:
    """Subscriptions by pattern, with names and without."""
    topic = side.topic("pattern-one")
    side.topic("pattern-two")
    group = Members(side, "patterns", topic)

    pattern = {"subscribed_topic_names": None, "subscribed_topic_regex": "pattern-.*"}
    first = side.quietly(
        "ConsumerGroupHeartbeat", 1, group.at, "client-a", **beating("patterns", "a", 0, **pattern)
    )
    deadline = time.monotonic() + TIMEOUT
    answer = first
    while time.monotonic() < deadline and not (
        answer.assignment and len(answer.assignment.topic_partitions) == 2
    ):
        time.sleep(0.1)
        answer = side.quietly(
            "ConsumerGroupHeartbeat", 1, group.at, "client-a", **beating("patterns", "a", answer.member_epoch)
        )
    side.note("both", len(answer.assignment.topic_partitions))
    described = side.quietly("ConsumerGroupDescribe", 1, group.at, group_ids=["patterns"]).groups[0]
    side.note("its pattern", described.members[0].subscribed_topic_regex)
    side.note("its names", list(described.members[0].subscribed_topic_names))
    side.note("its state", described.group_state)
    side.ask(
        "a broken one",
        "ConsumerGroupHeartbeat",
        1,
        group.at,
        **beating("patterns", "a", answer.member_epoch, subscribed_topic_regex="["),
    )
    group.beat("leaves", "a", -1)
