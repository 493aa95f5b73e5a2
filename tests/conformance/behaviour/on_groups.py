"""Groups, classic and KIP-848, and their offsets: the happy path and what is refused."""

from __future__ import annotations

from functools import partial
from typing import Any

from .side import Side, scenario

RANGE = [{"name": "range", "metadata": b"\0\1"}]
UNKNOWN_ID = "wire-00000000-0000-0000-0000-000000000000"


def join(side: Side, label: str, group: str, member: str = "", version: int = 9, **options: Any) -> Any:
    fields = {
        "session_timeout_ms": 30_000,
        "rebalance_timeout_ms": 30_000,
        "protocol_type": "consumer",
        "protocols": RANGE,
        **options,
    }
    return side.ask(label, "JoinGroup", version, group_id=group, member_id=member, **fields)


def member_of(side: Side, group: str, node: int, label: str = "joins") -> tuple[str, int]:
    """A new member alone in its group, up to Stable: id and generation."""
    reply = join(side, f"{label}: an id first", group, broker=node)
    joined = join(side, label, group, reply.member_id, broker=node)
    side.ask(
        f"{label}: syncs",
        "SyncGroup",
        5,
        node,
        group_id=group,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[{"member_id": joined.member_id, "assignment": b"mine"}],
    )
    return joined.member_id, joined.generation_id


@scenario
def group_classic(side: Side) -> None:
    group = "group-classic"
    node = side.coordinator(group)
    describe = partial(side.ask, "described", "DescribeGroups", 6, node, groups=[group])
    member, generation = member_of(side, group, node)
    describe()
    beat = partial(side.ask, api="Heartbeat", version=4, broker=node, group_id=group)
    beat("alive", generation_id=generation, member_id=member)
    beat("old generation", generation_id=generation - 1, member_id=member)
    beat("later generation", generation_id=generation + 1, member_id=member)
    beat("unknown member", generation_id=generation, member_id=UNKNOWN_ID)
    beat("no member", generation_id=generation, member_id="")
    sync = partial(side.ask, api="SyncGroup", version=5, broker=node, group_id=group)
    sync("again", generation_id=generation, member_id=member, protocol_type="consumer", protocol_name="range")
    sync("old generation", generation_id=generation - 1, member_id=member)
    sync("unknown member", generation_id=generation, member_id=UNKNOWN_ID)
    sync("another type", generation_id=generation, member_id=member, protocol_type="connect")
    sync(
        "another protocol",
        generation_id=generation,
        member_id=member,
        protocol_type="consumer",
        protocol_name="sticky",
    )
    join(side, "again, unchanged: the leader rebalances", group, member, broker=node)
    describe()
    sync(
        "the new generation",
        generation_id=generation + 1,
        member_id=member,
        assignments=[{"member_id": member, "assignment": b"again"}],
    )
    leave = partial(side.ask, api="LeaveGroup", version=5, broker=node, group_id=group)
    leave("unknown member", members=[{"member_id": UNKNOWN_ID}])
    leave("leaves", members=[{"member_id": member, "reason": "done"}])
    leave("has left", members=[{"member_id": member}])
    describe()
    beat("no member any more", generation_id=generation, member_id=member)


@scenario
def group_refusals(side: Side) -> None:
    group = "group-refusals"
    node = side.coordinator(group)
    join(side, "empty group id", "", broker=node)
    join(side, "session timeout below the minimum", group, session_timeout_ms=100, broker=node)
    join(side, "session timeout above the maximum", group, session_timeout_ms=10_000_000, broker=node)
    join(side, "unknown member", group, UNKNOWN_ID, broker=node)
    join(side, "no protocols", group, protocols=[], broker=node)
    join(side, "no protocol type", group, protocol_type="", broker=node)
    for version in (0, 3):
        reply = join(side, "without an id, at once", f"{group}-{version}", version=version, broker=node)
        side.quietly("LeaveGroup", 1, node, group_id=f"{group}-{version}", member_id=reply.member_id)
    member, generation = member_of(side, group, node)
    join(side, "another type", group, protocol_type="connect", broker=node)
    join(side, "no protocol in common", group, protocols=[{"name": "other", "metadata": b""}], broker=node)
    other = (node + 1) % 3
    join(side, "not the coordinator", group, broker=other)
    common = {"group_id": group, "generation_id": generation, "member_id": member}
    side.ask("not the coordinator", "Heartbeat", 4, other, **common)
    synced = {**common, "protocol_type": "consumer", "protocol_name": "range"}
    side.ask("not the coordinator", "SyncGroup", 5, other, **synced)
    side.ask("not the coordinator", "LeaveGroup", 5, other, group_id=group, members=[{"member_id": member}])
    side.ask("not the coordinator", "DescribeGroups", 6, other, groups=[group])
    side.ask("not the coordinator", "DeleteGroups", 2, other, groups_names=[group])
    side.ask("not the coordinator", "OffsetFetch", 8, other, groups=[{"group_id": group, "topics": None}])
    for version in (0, 4, 5, 6):
        side.ask("unknown group", "DescribeGroups", version, node, groups=["group-unknown"])
    side.ask("empty id", "DescribeGroups", 5, node, groups=[""])
    side.ask("unknown group", "Heartbeat", 4, node, group_id="group-unknown", member_id="x", generation_id=1)
    side.ask("unknown group", "SyncGroup", 5, node, group_id="group-unknown", member_id="x", generation_id=1)
    side.ask("unknown group", "LeaveGroup", 5, node, group_id="group-unknown", members=[{"member_id": "x"}])
    side.ask(
        "deletes a group with members", "DeleteGroups", 2, node, groups_names=[group, "group-unknown", ""]
    )
    side.ask("leaves", "LeaveGroup", 5, node, group_id=group, members=[{"member_id": member}])
    side.ask("deletes it", "DeleteGroups", 2, node, groups_names=[group])
    side.ask("deletes it again", "DeleteGroups", 2, node, groups_names=[group])


@scenario
def group_static_members(side: Side) -> None:
    group = "group-static"
    node = side.coordinator(group)
    first = join(side, "joins at once", group, group_instance_id="one", broker=node)
    sync = partial(side.ask, api="SyncGroup", version=5, broker=node, group_id=group)
    assignment = [{"member_id": first.member_id, "assignment": b"mine"}]
    sync("syncs", generation_id=1, member_id=first.member_id, group_instance_id="one", assignments=assignment)
    again = join(side, "comes back without its id: no rebalance", group, group_instance_id="one", broker=node)
    sync("gets what it had", generation_id=1, member_id=again.member_id, group_instance_id="one")
    beat = partial(side.ask, api="Heartbeat", version=4, broker=node, group_id=group)
    beat("the new one", generation_id=1, member_id=again.member_id, group_instance_id="one")
    beat("the old one", generation_id=1, member_id=first.member_id, group_instance_id="one")
    beat("an unknown instance", generation_id=1, member_id=again.member_id, group_instance_id="two")
    commit = partial(side.ask, api="OffsetCommit", version=8, broker=node, group_id=group)
    commit(
        "the old one commits",
        generation_id_or_member_epoch=1,
        member_id=first.member_id,
        group_instance_id="one",
        topics=[{"name": "t", "partitions": [{"committed_offset": 1}]}],
    )
    side.ask("described", "DescribeGroups", 6, node, groups=[group])
    leave = partial(side.ask, api="LeaveGroup", version=5, broker=node, group_id=group)
    leave("by another id", members=[{"member_id": first.member_id, "group_instance_id": "one"}])
    leave("an unknown instance", members=[{"member_id": "", "group_instance_id": "two"}])
    leave("by instance alone", members=[{"member_id": "", "group_instance_id": "one"}])


def commit(
    side: Side, label: str, group: str, offset: int, node: int, version: int = 8, **options: Any
) -> None:
    one = {"partition_index": options.pop("partition", 0), "committed_offset": offset}
    one["committed_metadata"] = options.pop("metadata", "")
    topic = {"name": options.pop("topic", "group-offsets"), "partitions": [one]}
    side.ask(label, "OffsetCommit", version, node, group_id=group, topics=[topic], **options)


def listed(side: Side, group: str, node: int, **filters: Any) -> None:
    """ListGroups' entry for this one group: the others are those of scenarios before."""
    answer = side.quietly("ListGroups", 5, node, **filters)
    answer.groups = [one for one in answer.groups if one.group_id == group]
    side.note("listed: ListGroups v5", answer)


@scenario
def group_offsets(side: Side) -> None:
    topic = side.topic("group-offsets", partitions=2)
    group = "group-offsets"
    node = side.coordinator(group)
    fetch = partial(side.ask, api="OffsetFetch", broker=node)
    both = [{"name": topic, "partition_indexes": [0, 1]}]
    fetch("of a group that does not exist", version=8, groups=[{"group_id": group, "topics": both}])
    fetch("all of a group that does not exist", version=8, groups=[{"group_id": group, "topics": None}])
    for version in (2, 6, 8, 9):
        commit(side, "without a group", group, 10 + version, node, version)
    commit(side, "metadata of 4096 bytes", group, 21, node, metadata="x" * 4096, partition=1)
    commit(side, "metadata of 4097 bytes", group, 22, node, metadata="x" * 4097)
    commit(side, "null metadata", group, 23, node, metadata=None)
    commit(side, "negative offset", group, -5, node)
    commit(side, "unknown topic", group, 1, node, topic="group-offsets-unknown")
    commit(side, "unknown partition", group, 1, node, partition=9)
    commit(side, "a generation outside of a group", group, 1, node, generation_id_or_member_epoch=3)
    commit(side, "a member outside of a group", group, 1, node, member_id=UNKNOWN_ID)
    commit(side, "empty group id", "", 1, node)
    for version in (1, 2, 5, 6, 7):
        fetch("old form", version=version, group_id=group, topics=both)
    fetch("old form, all", version=7, group_id=group, topics=None)
    for version in (8, 9):
        fetch("new form", version=version, groups=[{"group_id": group, "topics": both}])
    ids = [{"topic_id": side.id_of(topic), "partition_indexes": [0, 1]}]
    fetch("by id", version=10, groups=[{"group_id": group, "topics": ids}])
    unknown = [{"topic_id": bytes(range(16)), "partition_indexes": [0]}]
    fetch("by an unknown id", version=10, groups=[{"group_id": group, "topics": unknown}])
    fetch("all", version=8, groups=[{"group_id": group, "topics": None}])
    fetch(
        "an unknown partition",
        version=8,
        groups=[{"group_id": group, "topics": [{"name": topic, "partition_indexes": [7]}]}],
    )
    fetch("stable", version=8, require_stable=True, groups=[{"group_id": group, "topics": both}])
    side.ask(
        "by id",
        "OffsetCommit",
        10,
        node,
        group_id=group,
        topics=[{"topic_id": side.id_of(topic), "partitions": [{"committed_offset": 30}]}],
    )
    side.ask(
        "by an unknown id",
        "OffsetCommit",
        10,
        node,
        group_id=group,
        topics=[{"topic_id": bytes(range(16)), "partitions": [{"committed_offset": 30}]}],
    )
    listed(side, group, node, states_filter=["Empty"], types_filter=["classic"])
    delete = partial(side.ask, api="OffsetDelete", version=0, broker=node)
    one = [{"name": topic, "partitions": [{"partition_index": 1}]}]
    delete("one offset", group_id=group, topics=one)
    delete("again", group_id=group, topics=one)
    delete("of an unknown group", group_id="group-unknown", topics=one)
    delete(
        "of an unknown topic",
        group_id=group,
        topics=[{"name": "group-offsets-unknown", "partitions": [{"partition_index": 0}]}],
    )
    fetch("what is left", version=8, groups=[{"group_id": group, "topics": both}])
    side.ask("the group", "DeleteGroups", 2, node, groups_names=[group])
    fetch("nothing is left", version=8, groups=[{"group_id": group, "topics": both}])


@scenario
def group_commits_of_members(side: Side) -> None:
    topic = side.topic("group-commits")
    group = "group-commits"
    node = side.coordinator(group)
    member, generation = member_of(side, group, node)
    own = {"topic": topic, "node": node, "member_id": member}
    commit(side, "its own", group, 5, generation_id_or_member_epoch=generation, **own)
    commit(side, "an old generation", group, 6, generation_id_or_member_epoch=generation - 1, **own)
    commit(side, "a later generation", group, 6, generation_id_or_member_epoch=generation + 1, **own)
    commit(side, "nobody's, while it has members", group, 7, node, topic=topic)
    commit(
        side,
        "an unknown member's",
        group,
        7,
        node,
        topic=topic,
        member_id=UNKNOWN_ID,
        generation_id_or_member_epoch=generation,
    )
    side.ask(
        "deletes a subscribed topic's offset",
        "OffsetDelete",
        0,
        node,
        group_id=group,
        topics=[{"name": topic, "partitions": [{"partition_index": 0}]}],
    )
    side.ask(
        "fetched",
        "OffsetFetch",
        8,
        node,
        groups=[{"group_id": group, "topics": [{"name": topic, "partition_indexes": [0]}]}],
    )
    side.ask("leaves", "LeaveGroup", 5, node, group_id=group, members=[{"member_id": member}])
    commit(side, "nobody's, now that it is empty", group, 8, node, topic=topic)


@scenario
def group_of_the_new_protocol(side: Side) -> None:
    """KIP-848: joining, epochs, what is refused, offsets with epochs."""
    topic = side.topic("group-modern", partitions=3)
    group = "group-modern"
    node = side.coordinator(group)
    side.await_topic_in_groups(topic, node)
    beat = partial(side.ask, api="ConsumerGroupHeartbeat", version=1, broker=node, group_id=group)
    member = "00000000-0000-0000-0000-000000000001"
    joining = {"rebalance_timeout_ms": 5000, "subscribed_topic_names": [topic], "topic_partitions": []}
    first = beat("joins", member_id=member, member_epoch=0, **joining)
    beat("is alive", member_id=member, member_epoch=first.member_epoch)
    owned = [{"topic_id": side.id_of(topic), "partitions": [0, 1, 2]}]
    beat("owns what it was given", member_id=member, member_epoch=first.member_epoch, topic_partitions=owned)
    side.ask("described", "ConsumerGroupDescribe", 1, node, group_ids=[group, "group-unknown", ""])
    side.ask("described as a classic one", "DescribeGroups", 6, node, groups=[group])
    beat("a later epoch", member_id=member, member_epoch=first.member_epoch + 5)
    beat("unknown member", member_id="00000000-0000-0000-0000-000000000002", member_epoch=1)
    beat("no member id", member_id="", member_epoch=0, **joining)
    beat(
        "no topics when joining",
        member_id="00000000-0000-0000-0000-000000000003",
        member_epoch=0,
        rebalance_timeout_ms=5000,
        topic_partitions=[],
    )
    beat(
        "no timeout when joining",
        member_id="00000000-0000-0000-0000-000000000003",
        member_epoch=0,
        subscribed_topic_names=[topic],
        topic_partitions=[],
    )
    beat(
        "unknown assignor",
        member_id="00000000-0000-0000-0000-000000000003",
        member_epoch=0,
        server_assignor="none",
        **joining,
    )
    beat("epoch -3", member_id=member, member_epoch=-3)
    beat("static leave without an instance", member_id=member, member_epoch=-2)
    beat(
        "a bad expression",
        member_id="00000000-0000-0000-0000-000000000003",
        member_epoch=0,
        subscribed_topic_regex="[",
        rebalance_timeout_ms=5000,
        topic_partitions=[],
    )
    side.ask("empty group id", "ConsumerGroupHeartbeat", 1, node, group_id="", member_id=member, **joining)
    join(side, "a classic member joins", group, broker=node, protocols=RANGE)
    own = {"topic": topic, "node": node, "member_id": member, "version": 9}
    commit(side, "its own epoch", group, 5, generation_id_or_member_epoch=first.member_epoch, **own)
    commit(side, "an old epoch", group, 6, generation_id_or_member_epoch=first.member_epoch - 1, **own)
    commit(side, "a later epoch", group, 6, generation_id_or_member_epoch=first.member_epoch + 1, **own)
    fetched = partial(side.ask, api="OffsetFetch", version=9, broker=node)
    wanted = {"group_id": group, "topics": [{"name": topic, "partition_indexes": [0]}], "member_id": member}
    fetched("its epoch", groups=[{**wanted, "member_epoch": first.member_epoch}])
    fetched("an old epoch", groups=[{**wanted, "member_epoch": first.member_epoch - 1}])
    fetched("unknown member", groups=[{**wanted, "member_id": "nobody", "member_epoch": 1}])
    listed(side, group, node, types_filter=["consumer"])
    side.ask("deleted while it has members", "DeleteGroups", 2, node, groups_names=[group])
    beat("leaves", member_id=member, member_epoch=-1)
    beat("has left", member_id=member, member_epoch=first.member_epoch)
    side.ask("described", "ConsumerGroupDescribe", 1, node, group_ids=[group])
    side.ask("deleted", "DeleteGroups", 2, node, groups_names=[group])


@scenario
def coordinators_found(side: Side) -> None:
    side.coordinator("coordinators-found")
    side.coordinator("coordinators-found", kind=1)

    def found(label: str, version: int, **fields: Any) -> None:
        """Without saying where it is: a cluster places its coordinators as it likes."""
        answer = side.quietly("FindCoordinator", version, **fields)
        for one in [answer, *answer.coordinators]:
            if one.node_id >= 0 and one.host:
                one.node_id, one.host, one.port = 0, "somewhere", 0
        side.note(f"{label}: FindCoordinator v{version}", answer)

    for version in (0, 1, 2, 3):
        found("a group's", version, key="coordinators-found")
    found("a transaction's", 3, key="coordinators-found", key_type=1)
    found("unknown kind", 3, key="coordinators-found", key_type=7)
    found("no key", 3, key="")
    for version in (4, 5, 6):
        found("two", version, coordinator_keys=["coordinators-found", "another"])
    found("of unknown kind", 4, coordinator_keys=["coordinators-found"], key_type=7)
    found("none", 4, coordinator_keys=[])
    found("an empty key", 4, coordinator_keys=[""])


@scenario
def group_classic_of_two(side: Side) -> None:
    """A second member joins: the first learns it by heartbeat, both rejoin, the leader assigns."""
    topic = side.topic("group-classic-of-two")
    group = "group-classic-of-two"
    node = side.coordinator(group)
    first, generation = member_of(side, group, node, "the first")
    reply = join(side, "the second: an id first", group, broker=node, client="second")
    common = {"session_timeout_ms": 30_000, "rebalance_timeout_ms": 30_000, "protocol_type": "consumer"}
    protocols = [{"name": "sticky", "metadata": b"s"}, *RANGE]
    second = side.send(
        "JoinGroup",
        9,
        node,
        "second",
        group_id=group,
        member_id=reply.member_id,
        protocols=protocols,
        **common,
    )
    beat = partial(side.ask, api="Heartbeat", version=4, broker=node, group_id=group)
    side.eventually(
        "the first learns of it",
        lambda one: one.error_code,
        "Heartbeat",
        4,
        node,
        group_id=group,
        generation_id=generation,
        member_id=first,
    )
    join(side, "the first joins anew", group, first, broker=node)
    joined = side.receive("the second has joined", second)
    waiting = side.send(
        "SyncGroup",
        5,
        node,
        "second",
        group_id=group,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        protocol_type="consumer",
        protocol_name="range",
    )
    beat("while it waits for the leader", generation_id=joined.generation_id, member_id=first)
    commit(
        side,
        "a commit meanwhile",
        group,
        3,
        node,
        topic=topic,
        member_id=first,
        generation_id_or_member_epoch=joined.generation_id,
    )
    assignments = [
        {"member_id": first, "assignment": b"a"},
        {"member_id": joined.member_id, "assignment": b"b"},
    ]
    side.ask(
        "the leader assigns",
        "SyncGroup",
        5,
        node,
        group_id=group,
        generation_id=joined.generation_id,
        member_id=first,
        protocol_type="consumer",
        protocol_name="range",
        assignments=assignments,
    )
    side.receive("the second has its part", waiting)
    side.ask("described", "DescribeGroups", 6, node, groups=[group])
    side.ask("the leader leaves", "LeaveGroup", 5, node, group_id=group, members=[{"member_id": first}])
    beat("the other learns it", generation_id=joined.generation_id, member_id=joined.member_id)
