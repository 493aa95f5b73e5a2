"""Every call of consumer groups in every version, in both protocols, right and wrong."""

from __future__ import annotations

import time
from typing import Any

from pykafka2.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from pykafka2.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignmentTopicPartition as TopicAssignment,
)

from .side import TIMEOUT, Side, scenario

GROUP = 32
"""The type of resource that a group's options belong to."""

CONSUMER = [{"name": "range", "metadata": b"\0\0" + ConsumerProtocolSubscription(topics=["t"]).encode(0)}]
NOTHING = b"\0\0" + ConsumerProtocolAssignment(assigned_partitions=[]).encode(0)


def assign_every(side: Side, group: str, interval_ms: int) -> None:
    """Have the coordinator make a target for this group at most so often, not once in a second (KIP-1263).

    0 means whenever one is due; a long interval is for scenarios that must not depend on their speed.
    """
    wanted = {"name": "consumer.assignment.interval.ms", "value": str(interval_ms)}
    resource = {"resource_type": GROUP, "resource_name": group}
    altered = {**resource, "configs": [{**wanted, "config_operation": 0}]}
    side.quietly("IncrementalAlterConfigs", 1, resources=[altered], validate_only=False)
    requested = {**resource, "configuration_keys": None}
    deadline = time.monotonic() + TIMEOUT
    for broker in range(3):
        while time.monotonic() < deadline:
            found = side.quietly("DescribeConfigs", 4, broker, resources=[requested]).results[0].configs
            if any((one.name, one.value) == (wanted["name"], wanted["value"]) for one in found):
                break
            time.sleep(0.01)


def subscribed_to(*topics: str, protocol: str = "range") -> list[dict[str, Any]]:
    """The protocols of a member that reads these topics."""
    metadata = b"\0\1" + ConsumerProtocolSubscription(topics=[*topics]).encode(1)
    return [{"name": protocol, "metadata": metadata}]


def joining(group: str, **options: Any) -> dict[str, Any]:
    """The fields of a JoinGroup."""
    return {
        "group_id": group,
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 20_000,
        "member_id": "",
        "protocol_type": "consumer",
        "protocols": CONSUMER,
        **options,
    }


def syncing(group: str, member: str, generation: int, **options: Any) -> dict[str, Any]:
    """The fields of a SyncGroup; with assignments for the members in `assigned_to`."""
    assigned_to = options.pop("assigned_to", [])
    return {
        "group_id": group,
        "generation_id": generation,
        "member_id": member,
        "protocol_type": "consumer",
        "protocol_name": "range",
        "assignments": [{"member_id": one, "assignment": NOTHING} for one in assigned_to],
        **options,
    }


def committing(group: str, topic: str, *partitions: int, **options: Any) -> dict[str, Any]:
    """The fields of an OffsetCommit of offset 5."""
    offset = options.pop("offset", 5)
    metadata = options.pop("metadata", "noted")
    topic_id = options.pop("topic_id", None)
    named = {"name": topic} if topic_id is None else {"topic_id": topic_id}
    return {
        "group_id": group,
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "retention_time_ms": -1,
        "topics": [
            {
                **named,
                "partitions": [
                    {
                        "partition_index": index,
                        "committed_offset": offset,
                        "committed_leader_epoch": -1,
                        "committed_metadata": metadata,
                    }
                    for index in partitions
                ],
            }
        ],
        **options,
    }


def member_of(side: Side, at: int, group: str, client: str, **options: Any) -> str:
    """The id that a new dynamic member is given."""
    answer = side.quietly("JoinGroup", 9, at, client, **joining(group, **options))
    assert answer.error_code == 79, answer
    member: str = answer.member_id
    return member


def stable_of_one(side: Side, at: int, group: str, topic: str) -> str:
    """A Stable classic group at generation 1; its member."""
    options = {"protocols": subscribed_to(topic)}
    member = member_of(side, at, group, "solo", **options)
    side.ask("joins", "JoinGroup", 9, at, "solo", **joining(group, member_id=member, **options))
    side.ask("syncs", "SyncGroup", 5, at, "solo", **syncing(group, member, 1, assigned_to=[member]))
    return member


def leave(side: Side, at: int, group: str, *members: str) -> None:
    leaving = [{"member_id": one} for one in members]
    side.quietly("LeaveGroup", 5, at, group_id=group, members=leaving)


def find(side: Side, label: str, version: int, **fields: Any) -> None:
    """Ask for coordinators; which broker it is differs from cluster to cluster."""
    answer = side.quietly("FindCoordinator", version, **fields)
    for one in (answer, *answer.coordinators):
        if one.node_id >= 0 and one.port > 0:
            one.node_id, one.port = 0, 0
    side.note(f"{label}: FindCoordinator v{version}", answer)


@scenario
def coordinator_lookups(side: Side) -> None:
    at = side.coordinator("found")
    for version in range(4):
        find(side, "a group", version, key="found")
    for version in range(4, 7):
        find(side, "groups", version, key_type=0, coordinator_keys=["found", "", "other"])
    find(side, "no key", 4, key_type=0, coordinator_keys=[])
    find(side, "an empty key", 3, key_type=0, key="")
    side.coordinator("found", 1)
    find(side, "a transactional id", 4, key_type=1, coordinator_keys=["found"])
    for kind in (2, 3, -1):
        find(side, f"kind {kind}", 5, key_type=kind, coordinator_keys=["found"])
        find(side, f"kind {kind}", 3, key_type=kind, key="found")
    elsewhere = (at + 1) % 3
    group = "found"
    side.ask("elsewhere", "JoinGroup", 9, elsewhere, **joining(group))
    side.ask("elsewhere", "JoinGroup", 3, elsewhere, **joining(group))
    side.ask("elsewhere", "SyncGroup", 5, elsewhere, **syncing(group, "m", 1))
    side.ask("elsewhere", "Heartbeat", 4, elsewhere, group_id=group, member_id="m", generation_id=1)
    side.ask("elsewhere", "LeaveGroup", 5, elsewhere, group_id=group, members=[{"member_id": "m"}])
    side.ask("elsewhere", "LeaveGroup", 2, elsewhere, group_id=group, member_id="m")
    side.ask("elsewhere", "OffsetCommit", 9, elsewhere, **committing(group, "t", 0))
    wanted = [{"name": "t", "partition_indexes": [0]}]
    for version in (1, 2, 5, 7):
        side.ask("elsewhere", "OffsetFetch", version, elsewhere, group_id=group, topics=wanted)
    requested = [{"group_id": group, "topics": wanted}, {"group_id": "other", "topics": None}]
    side.ask("elsewhere", "OffsetFetch", 8, elsewhere, groups=requested)
    side.ask("elsewhere", "OffsetDelete", 0, elsewhere, group_id=group, topics=[])
    side.ask("elsewhere", "DescribeGroups", 6, elsewhere, groups=[group])
    side.ask("elsewhere", "DescribeGroups", 5, elsewhere, groups=[group])
    side.ask("elsewhere", "DeleteGroups", 2, elsewhere, groups_names=[group])
    side.ask("elsewhere", "ConsumerGroupHeartbeat", 1, elsewhere, **beating(group, "m", 0))
    side.ask("elsewhere", "ConsumerGroupDescribe", 1, elsewhere, group_ids=[group])


@scenario
def groups_refused(side: Side) -> None:
    """Requests that no client may send, or not for a group that does not exist."""
    topic, group = side.topic("groups-refused", partitions=2), "refused"
    at = side.coordinator(group)
    for session in (0, 1, 5999, 1_800_001, -1):
        side.ask(f"session of {session}", "JoinGroup", 9, at, **joining(group, session_timeout_ms=session))
    side.ask("no name", "JoinGroup", 9, at, **joining(""))
    for version in (0, 3, 4, 7, 9):
        side.ask("stranger", "JoinGroup", version, at, **joining(group, member_id="stranger"))
    side.ask("no protocols", "JoinGroup", 9, at, **joining(group, protocols=[]))
    side.ask("no type", "JoinGroup", 9, at, **joining(group, protocol_type=""))
    for version in range(5):
        side.ask("nobody", "Heartbeat", version, at, group_id=group, member_id="m", generation_id=1)
    side.ask("no name", "Heartbeat", 4, at, group_id="", member_id="m", generation_id=1)
    for version in range(6):
        side.ask("nobody", "SyncGroup", version, at, **syncing(group, "m", 1))
    side.ask("no name", "SyncGroup", 5, at, **syncing("", "m", 1))
    side.ask("no type", "SyncGroup", 5, at, **syncing(group, "m", 1, protocol_type=None))
    for version in range(3):
        side.ask("nobody", "LeaveGroup", version, at, group_id=group, member_id="m")
    for version in range(3, 6):
        leaving = [{"member_id": "m"}, {"member_id": "", "group_instance_id": "i"}]
        side.ask("nobody", "LeaveGroup", version, at, group_id=group, members=leaving)
    side.ask("no name", "LeaveGroup", 5, at, group_id="", members=[{"member_id": "m"}])
    side.ask("no members", "LeaveGroup", 5, at, group_id=group, members=[])
    for version in (2, 5, 7, 8, 9):
        side.ask(
            "a generation of nobody",
            "OffsetCommit",
            version,
            at,
            **committing(group, topic, 0, generation_id_or_member_epoch=3, member_id="m"),
        )
    side.ask("no name", "OffsetCommit", 9, at, **committing("", topic, 0))
    for version in range(7):
        side.ask("unknown", "DescribeGroups", version, at, groups=[group, ""])
    side.ask("twice", "DescribeGroups", 6, at, groups=[group, group])
    side.ask("none", "DescribeGroups", 6, at, groups=[])
    for version in range(3):
        side.ask("unknown", "DeleteGroups", version, at, groups_names=[group, group])
    side.ask("none", "DeleteGroups", 2, at, groups_names=[])
    requested = [{"name": topic, "partitions": [{"partition_index": 0}]}]
    side.ask("unknown", "OffsetDelete", 0, at, group_id=group, topics=requested)
    side.ask("no name", "OffsetDelete", 0, at, group_id="", topics=requested)
    side.ask("unknown", "ConsumerGroupDescribe", 1, at, group_ids=[group, ""])
    wanted = [
        {"name": topic, "partition_indexes": [0, 9]},
        {"name": "groups-nowhere", "partition_indexes": [0]},
    ]
    for version in range(1, 8):
        side.ask("unknown", "OffsetFetch", version, at, group_id=group, topics=wanted)
        if version >= 2:
            side.ask("all of unknown", "OffsetFetch", version, at, group_id=group, topics=None)
    for version in (8, 9):
        both = [{"group_id": group, "topics": wanted}, {"group_id": "refused", "topics": None}]
        side.ask("unknown", "OffsetFetch", version, at, groups=both)
        side.ask("no group", "OffsetFetch", version, at, groups=[])
    named = [{"group_id": group, "member_id": "m", "member_epoch": 3, "topics": wanted}]
    side.ask("a member of nobody", "OffsetFetch", 9, at, groups=named)
    side.ask("no name", "OffsetFetch", 7, at, group_id="", topics=wanted)


@scenario
def group_of_one(side: Side) -> None:
    """Every version of every call, in a classic group with one member."""
    topic = side.topic("group-of-one", partitions=2)
    for version in range(10):
        group = f"one-v{version}"
        at = side.coordinator(group)
        answer = side.ask("joins", "JoinGroup", version, at, **joining(group))
        member = answer.member_id
        if version >= 4:
            side.ask("joins", "JoinGroup", version, at, **joining(group, member_id=member))
        side.eventually(  # Apache shows what is committed
            "not synced yet",
            lambda answer: answer.groups[0].group_state != "Dead",
            "DescribeGroups",
            5,
            at,
            groups=[group],
        )
        commit = committing(group, topic, 0, generation_id_or_member_epoch=1, member_id=member)
        side.ask("not synced yet", "OffsetCommit", 8, at, **commit)
        sync = syncing(group, member, 1, assigned_to=[member])
        side.ask("syncs", "SyncGroup", min(version, 5), at, **sync)
        side.ask("syncs again", "SyncGroup", min(version, 5), at, **syncing(group, member, 1))
        beat = {"group_id": group, "member_id": member}
        for generation in (1, 0, 2, -1):
            side.ask(f"at {generation}", "Heartbeat", min(version, 4), at, **beat, generation_id=generation)
        if version >= 2:
            side.ask("commits", "OffsetCommit", version, at, **commit)
        side.ask("in it", "DescribeGroups", min(version, 6), at, groups=[group])
        if version >= 3:
            side.ask(
                "in it",
                "DescribeGroups",
                min(version, 6),
                at,
                groups=[group],
                include_authorized_operations=True,
            )
        side.ask("has members", "DeleteGroups", min(version, 2), at, groups_names=[group])
        if version < 3:
            side.ask("leaves", "LeaveGroup", version, at, group_id=group, member_id=member)
        else:
            gone = [{"member_id": member}, {"member_id": "stranger"}]
            side.ask("leaves", "LeaveGroup", min(version, 5), at, group_id=group, members=gone)
        side.ask("empty", "DescribeGroups", min(version, 6), at, groups=[group])
        side.ask("empty", "DeleteGroups", min(version, 2), at, groups_names=[group])


@scenario
def groups_listed(side: Side) -> None:
    group = "listed-classic"
    at = side.coordinator(group)
    topic = side.topic("groups-listed")
    side.quietly("OffsetCommit", 8, at, **committing(group, topic, 0))
    side.quietly("ConsumerGroupHeartbeat", 1, at, **beating("listed-consumer", "m", 0, topic))

    def ask(label: str, version: int, **filters: Any) -> None:
        answer = side.quietly("ListGroups", version, at, **filters)
        answer.groups = [one for one in answer.groups if one.group_id.startswith("listed-")]
        side.note(f"{label}: ListGroups v{version}", answer)

    for version in range(6):
        ask("all", version)
    for states in (["Empty"], ["empty"], ["Stable"], ["Dead"], ["Nonsense"], ["Stable", "Empty"]):
        ask(f"in {states}", 5, states_filter=states)
    for types in (["classic"], ["Consumer"], ["share"], ["nonsense"], ["classic", "consumer"]):
        ask(f"of {types}", 5, types_filter=types)
    ask("both", 5, states_filter=["Empty"], types_filter=["consumer"])
    side.quietly("ConsumerGroupHeartbeat", 1, at, **beating("listed-consumer", "m", -1))


@scenario
def group_of_two(side: Side) -> None:
    """Two members of a classic group: which one waits for which, and their responses."""
    group = "two"
    at = side.coordinator(group)
    first = member_of(side, at, group, "a-first")
    side.ask("the first", "JoinGroup", 9, at, "a-first", **joining(group, member_id=first))
    side.ask("the first", "SyncGroup", 5, at, "a-first", **syncing(group, first, 1, assigned_to=[first]))
    second = member_of(side, at, group, "b-second")
    side.ask("an id was given out", "DescribeGroups", 6, at, groups=[group])
    waiting = side.send("JoinGroup", 9, at, "b-second", **joining(group, member_id=second))
    side.eventually(
        "told to rejoin",
        lambda answer: answer.error_code,
        "Heartbeat",
        4,
        at,
        group_id=group,
        member_id=first,
        generation_id=1,
    )
    side.ask("while joining", "DescribeGroups", 6, at, groups=[group])
    side.ask("while joining", "SyncGroup", 5, at, **syncing(group, first, 1))
    commit = committing(group, "group-of-two", 0, generation_id_or_member_epoch=1, member_id=first)
    side.ask("of another type", "JoinGroup", 9, at, **joining(group, protocol_type="connect"))
    strange = [{"name": "strange", "metadata": b""}]
    side.ask("of another protocol", "JoinGroup", 9, at, **joining(group, protocols=strange))
    side.ask("the first again", "JoinGroup", 9, at, "a-first", **joining(group, member_id=first))
    side.receive("the second", waiting)
    side.ask("not synced yet", "Heartbeat", 4, at, group_id=group, member_id=first, generation_id=2)
    side.ask("an old generation", "SyncGroup", 5, at, **syncing(group, first, 1))
    side.ask("another name", "SyncGroup", 5, at, **syncing(group, first, 2, protocol_name="sticky"))
    side.ask("another type", "SyncGroup", 5, at, **syncing(group, first, 2, protocol_type="connect"))
    waiting = side.send("SyncGroup", 5, at, "b-second", **syncing(group, second, 2))
    side.ask("the leader", "SyncGroup", 5, at, "a-first", **syncing(group, first, 2, assigned_to=[first]))
    side.receive("forgotten by the leader", waiting)
    side.ask("in it", "DescribeGroups", 6, at, groups=[group])
    side.ask("a follower's same join", "JoinGroup", 9, at, "b-second", **joining(group, member_id=second))
    outside = committing(group, "group-of-two", 0)
    side.ask("from outside", "OffsetCommit", 8, at, **outside)
    side.ask("at an old generation", "OffsetCommit", 8, at, **commit)
    gone = [{"member_id": first, "reason": "bored"}]
    side.ask("the leader leaves", "LeaveGroup", 5, at, group_id=group, members=gone)
    side.ask("is told", "Heartbeat", 4, at, group_id=group, member_id=second, generation_id=2)
    side.ask("is left", "JoinGroup", 9, at, "b-second", **joining(group, member_id=second))
    side.ask("is left", "DescribeGroups", 6, at, groups=[group])
    leave(side, at, group, second)


def share_of(topic: str, *partitions: int) -> bytes:
    """The leader's assignment for a member: these partitions."""
    owned = [TopicAssignment(topic=topic, partitions=[*partitions])] if partitions else []
    return b"\0\0" + ConsumerProtocolAssignment(assigned_partitions=owned).encode(0)


@scenario
def group_of_three_and_a_fourth(side: Side) -> None:
    """Three members share three partitions, each has one owner; a fourth idles."""
    topic, group = side.topic("group-of-three", partitions=3), "three"
    at = side.coordinator(group)
    options = {"protocols": subscribed_to(topic)}

    def rebalance(label: str, generation: int, ids: dict[str, str], new: list[str]) -> None:
        """The new members join and wait, the old ones follow; then all sync, the leader last."""
        waiting = {
            client: side.send("JoinGroup", 9, at, client, **joining(group, member_id=ids[client], **options))
            for client in new
        }
        leader, *others = ids
        if generation > 1:
            side.eventually(
                f"{label}: told to rejoin",
                lambda answer: answer.error_code,
                "Heartbeat",
                4,
                at,
                leader,
                group_id=group,
                member_id=ids[leader],
                generation_id=generation - 1,
            )
            for client in ids:
                if client not in new:
                    again = joining(group, member_id=ids[client], **options)
                    waiting[client] = side.send("JoinGroup", 9, at, client, **again)
        for client in ids:
            side.receive(f"{label}: {client}", waiting[client])
        shares = {
            client: share_of(topic, *([place] if place < 3 else [])) for place, client in enumerate(ids)
        }
        assigned = [{"member_id": ids[client], "assignment": shares[client]} for client in ids]
        syncs = {
            client: side.send("SyncGroup", 5, at, client, **syncing(group, ids[client], generation))
            for client in others
        }
        last = {**syncing(group, ids[leader], generation), "assignments": assigned}
        side.ask(f"{label}: leader", "SyncGroup", 5, at, leader, **last)
        for client in others:
            side.receive(f"{label}: {client}", syncs[client])
        side.ask(label, "DescribeGroups", 6, at, groups=[group])

    ids: dict[str, str] = {}
    for count, new in enumerate((["a"], ["b", "c"], ["d"]), start=1):
        for client in new:
            ids[client] = member_of(side, at, group, client, **options)
        rebalance(f"generation {count}", count, ids, new)
    for client, member in ids.items():
        beat = {"group_id": group, "member_id": member, "generation_id": 3}
        side.ask(f"{client} goes on", "Heartbeat", 4, at, client, **beat)
    leave(side, at, group, *ids.values())


@scenario
def group_with_static_members(side: Side) -> None:
    group = "static"
    at = side.coordinator(group)
    static = {"group_instance_id": "i", "protocols": [*CONSUMER, {"name": "sticky", "metadata": b""}]}
    first = side.ask("joins", "JoinGroup", 9, at, "a", **joining(group, **static)).member_id
    sync = syncing(group, first, 1, assigned_to=[first], group_instance_id="i")
    side.ask("syncs", "SyncGroup", 5, at, "a", **sync)
    again = side.ask("comes back", "JoinGroup", 9, at, "b", **joining(group, **static)).member_id
    side.ask("syncs", "SyncGroup", 5, at, "b", **syncing(group, again, 1, group_instance_id="i"))
    beat = {"group_id": group, "generation_id": 1}
    for label, member, instance in (
        ("is fenced", first, "i"),
        ("is unknown", first, None),
        ("is known", again, "i"),
        ("needs no instance", again, None),
        ("another instance", again, "j"),
        ("no member", "", "i"),
    ):
        side.ask(label, "Heartbeat", 4, at, **beat, member_id=member, group_instance_id=instance)
        commit = committing(group, "t", 0, generation_id_or_member_epoch=1, member_id=member)
        side.ask(label, "OffsetCommit", 8, at, **commit, group_instance_id=instance)
    side.ask("in it", "DescribeGroups", 6, at, groups=[group])
    # Its changed metadata is kept from the others until a rebalance; other protocols make one.
    fewer = {**static, "protocols": [{"name": "sticky", "metadata": b""}]}
    side.ask("with fewer protocols", "JoinGroup", 9, at, "b", **joining(group, member_id=again, **fewer))
    side.ask("in it", "DescribeGroups", 6, at, groups=[group])
    gone = [{"member_id": "", "group_instance_id": "i"}, {"member_id": "", "group_instance_id": "j"}]
    side.ask("is removed", "LeaveGroup", 5, at, group_id=group, members=gone)
    side.ask("is empty", "DescribeGroups", 6, at, groups=[group])


@scenario
def offsets_committed(side: Side) -> None:
    topic, group = side.topic("offsets-committed", partitions=3), "committed"
    at, topic_id = side.coordinator(group), side.id_of("offsets-committed")
    for version in range(2, 10):
        side.ask("from outside", "OffsetCommit", version, at, **committing(group, topic, 0, offset=version))
    side.ask("by id", "OffsetCommit", 10, at, **committing(group, "", 1, topic_id=topic_id))
    side.ask("unknown id", "OffsetCommit", 10, at, **committing(group, "", 1, topic_id=b"x" * 16))
    side.ask("unknown partition", "OffsetCommit", 9, at, **committing(group, topic, 0, 3, -1))
    side.ask("unknown topic", "OffsetCommit", 9, at, **committing(group, "offsets-nowhere", 0))
    side.ask("an illegal topic", "OffsetCommit", 9, at, **committing(group, "a b", 0))
    for size in (4096, 4097):
        commit = committing(group, topic, 2, metadata="x" * size)
        side.ask(f"metadata of {size}", "OffsetCommit", 9, at, **commit)
    side.ask("no metadata", "OffsetCommit", 9, at, **committing(group, topic, 2, metadata=None))
    side.ask("a negative offset", "OffsetCommit", 9, at, **committing(group, topic, 2, offset=-7))
    side.ask("no topics", "OffsetCommit", 9, at, **{**committing(group, topic), "topics": []})
    side.ask(
        "a generation", "OffsetCommit", 9, at, **committing(group, topic, 0, generation_id_or_member_epoch=0)
    )
    side.ask("a member", "OffsetCommit", 9, at, **committing(group, topic, 0, member_id="m"))
    side.ask("an instance", "OffsetCommit", 9, at, **committing(group, topic, 0, group_instance_id="i"))
    wanted = [{"name": topic, "partition_indexes": [0, 1, 2, 7]}]
    for version in range(1, 8):
        side.ask("some", "OffsetFetch", version, at, group_id=group, topics=wanted)
        if version >= 2:
            side.ask("all", "OffsetFetch", version, at, group_id=group, topics=None)
            side.ask("none", "OffsetFetch", version, at, group_id=group, topics=[])
    for version in (8, 9):
        for topics in (wanted, None, []):
            requested = [{"group_id": group, "topics": topics}]
            side.ask(
                f"{topics and 'some'}", "OffsetFetch", version, at, groups=requested, require_stable=True
            )
    by_id = [{"topic_id": one, "partition_indexes": [0, 1]} for one in (topic_id, b"x" * 16)]
    side.ask("by id", "OffsetFetch", 10, at, groups=[{"group_id": group, "topics": by_id}])
    side.ask("all, by id", "OffsetFetch", 10, at, groups=[{"group_id": group, "topics": None}])
    twice = [{"group_id": group, "topics": None}, {"group_id": group, "topics": wanted}]
    side.ask("twice", "OffsetFetch", 9, at, groups=twice)
    requested = [
        {"name": topic, "partitions": [{"partition_index": index} for index in (0, 9)]},
        {"name": "offsets-nowhere", "partitions": [{"partition_index": 0}]},
    ]
    side.ask("deletes", "OffsetDelete", 0, at, group_id=group, topics=requested)
    side.ask("what is left", "OffsetFetch", 9, at, groups=[{"group_id": group, "topics": None}])
    side.ask("deletes all", "DeleteGroups", 2, at, groups_names=[group])
    side.ask("what is left", "OffsetFetch", 9, at, groups=[{"group_id": group, "topics": None}])


@scenario
def offsets_deleted(side: Side) -> None:
    topic, other = side.topic("offsets-deleted"), side.topic("offsets-deleted-too")
    group = "deleting"
    at = side.coordinator(group)
    member = stable_of_one(side, at, group, topic)
    for name in (topic, other):
        commit = committing(group, name, 0, generation_id_or_member_epoch=1, member_id=member)
        side.ask("commits", "OffsetCommit", 9, at, **commit)
    requested = [{"name": name, "partitions": [{"partition_index": 0}]} for name in (topic, other)]
    side.ask("of a live group", "OffsetDelete", 0, at, group_id=group, topics=requested)
    side.ask("what is left", "OffsetFetch", 9, at, groups=[{"group_id": group, "topics": None}])
    leave(side, at, group, member)
    side.ask("of an empty group", "OffsetDelete", 0, at, group_id=group, topics=requested)
    side.ask("what is left", "OffsetFetch", 9, at, groups=[{"group_id": group, "topics": None}])
    side.ask("the group", "DescribeGroups", 6, at, groups=[group])


def beating(group: str, member: str, epoch: int, *topics: str, **options: Any) -> dict[str, Any]:
    """The fields of a ConsumerGroupHeartbeat; one with epoch 0 has what it must have."""
    joins = {
        "rebalance_timeout_ms": 10_000,
        "subscribed_topic_names": [*topics] or ["t"],
        "topic_partitions": [],
    }
    rests = {"rebalance_timeout_ms": -1, "subscribed_topic_names": None, "topic_partitions": None}
    return {
        "group_id": group,
        "member_id": member,
        "member_epoch": epoch,
        **(joins if epoch == 0 else rests),
        **options,
    }


@scenario
def consumer_groups_refused(side: Side) -> None:
    """KIP-848: heartbeats that make no sense."""
    topic, group = side.topic("consumer-refused"), "consumer-refused"
    at = side.coordinator(group)

    def beat(label: str, *arguments: Any, version: int = 1, **options: Any) -> None:
        side.ask(label, "ConsumerGroupHeartbeat", version, at, **beating(*arguments, **options))

    beat("no group", "", "m", 0, topic)
    beat("no member", group, "", 0, topic)
    beat("no member, leaving", group, "", -1)
    beat("nobody", group, "m", 3)
    beat("nobody leaves", group, "m", -1)
    beat("nobody leaves for a while", group, "m", -2, instance_id="i")
    beat("leaves without instance", group, "m", -2)
    beat("an unknown epoch", group, "m", -3)
    beat("no rebalance timeout", group, "m", 0, topic, rebalance_timeout_ms=-1)
    beat("owns already", group, "m", 0, topic, topic_partitions=[{"topic_id": b"x" * 16, "partitions": [0]}])
    beat("says not what it owns", group, "m", 0, topic, topic_partitions=None)
    beat("no topics", group, "m", 0, subscribed_topic_names=None)
    beat("empty topics", group, "m", 0, subscribed_topic_names=[])
    beat("empty instance", group, "m", 0, topic, instance_id="")
    beat("empty rack", group, "m", 0, topic, rack_id="")
    beat("empty pattern", group, "m", 0, subscribed_topic_names=None, subscribed_topic_regex="")
    beat("a broken pattern", group, "m", 0, subscribed_topic_names=None, subscribed_topic_regex="(")
    beat("unknown assignor", group, "m", 0, topic, server_assignor="best")
    beat("empty assignor", group, "m", 0, topic, server_assignor="")
    side.ask("still nobody", "ConsumerGroupDescribe", 1, at, group_ids=[group])


@scenario
def consumer_group_of_two(side: Side) -> None:
    """KIP-848: partitions move from one member to another, step by step."""
    topic, group = side.topic("consumer-two", partitions=4), "consumer-two"
    at, topic_id = side.coordinator(group), side.id_of("consumer-two")
    side.await_topic_in_groups(topic, at)

    def beat(label: str, *arguments: Any, **options: Any) -> Any:
        client = f"client-{arguments[0]}"
        return side.ask(
            label, "ConsumerGroupHeartbeat", 1, at, client, **beating(group, *arguments, **options)
        )

    def owning(*partitions: int) -> dict[str, Any]:
        return {"topic_partitions": [{"topic_id": topic_id, "partitions": [*partitions]}]}

    def describe(label: str) -> None:
        side.ask(label, "ConsumerGroupDescribe", 1, at, group_ids=[group], include_authorized_operations=True)

    epoch = beat("joins", "a", 0, topic).member_epoch
    beat("rests", "a", epoch)
    beat("says what it owns", "a", epoch, **owning(0, 1, 2, 3))
    describe("one member")
    beat("an epoch too far", "a", epoch + 1)
    beat("an epoch too old", "a", epoch - 1)
    beat("of no member", "x", epoch)
    wanted = {"group_id": group, "topics": [{"name": topic, "partition_indexes": [0, 1]}]}
    for at_epoch in (epoch, epoch + 1, epoch - 1, -1):
        commit = committing(group, topic, 0, generation_id_or_member_epoch=at_epoch, member_id="a")
        side.ask(f"at {at_epoch - epoch:+}", "OffsetCommit", 9, at, **commit)
        member = {"member_id": "a", "member_epoch": at_epoch}
        side.ask(f"at {at_epoch - epoch:+}", "OffsetFetch", 9, at, groups=[{**wanted, **member}])
    old = committing(group, topic, 0, generation_id_or_member_epoch=epoch, member_id="a")
    side.ask("in an old version", "OffsetCommit", 8, at, **old)
    side.ask("from outside", "OffsetCommit", 9, at, **committing(group, topic, 1))
    side.ask("by a stranger", "OffsetFetch", 9, at, groups=[{**wanted, "member_id": "x", "member_epoch": 1}])
    side.ask("from outside", "OffsetFetch", 9, at, groups=[wanted])
    side.ask("as a classic one", "DescribeGroups", 6, at, groups=[group])
    side.ask("as a classic one", "DescribeGroups", 5, at, groups=[group])
    side.ask("has members", "DeleteGroups", 2, at, groups_names=[group])

    wait_for_the_next_assignment()
    second = beat("the second joins", "b", 0, topic)
    response = side.eventually(
        "told to give up",
        lambda answer: answer.assignment is not None,
        "ConsumerGroupHeartbeat",
        1,
        at,
        **beating(group, "a", epoch),
    )
    describe("two members, on the way")
    beat("waits", "b", second.member_epoch)
    assigned = [index for one in response.assignment.topic_partitions for index in one.partitions]
    beat("gave up", "a", epoch, **owning(*assigned))
    side.eventually(
        "is given",
        lambda answer: answer.assignment is not None,
        "ConsumerGroupHeartbeat",
        1,
        at,
        **beating(group, "b", second.member_epoch),
    )
    describe("two members")
    beat("leaves", "a", -1)
    beat("is gone", "a", epoch)
    describe("one is left")
    beat("leaves", "b", -1)
    describe("nobody is left")
    side.ask("nobody is left", "DeleteGroups", 2, at, groups_names=[group])


def wait_for_the_next_assignment() -> None:
    """Targets are made at most once an interval, which is a second."""
    time.sleep(1.1)


@scenario
def consumer_group_with_static_members(side: Side) -> None:
    topic, group = side.topic("consumer-static", partitions=2), "consumer-static"
    at = side.coordinator(group)
    side.await_topic_in_groups(topic, at)

    def beat(label: str, *arguments: Any, **options: Any) -> Any:
        fields = beating(group, *arguments, instance_id="i", **options)
        return side.ask(label, "ConsumerGroupHeartbeat", 1, at, "static", **fields)

    epoch = beat("joins", "a", 0, topic).member_epoch
    beat("is in use", "b", 0, topic)
    beat("under another name", "b", epoch)
    beat("leaves for a while", "a", -2)
    side.ask("is away", "ConsumerGroupDescribe", 1, at, group_ids=[group])
    beat("comes back", "b", 0, topic)
    side.ask("is back", "ConsumerGroupDescribe", 1, at, group_ids=[group])
    beat("is fenced", "a", epoch)
    beat("is fenced, leaving", "a", -1)
    beat("leaves", "b", -1)


@scenario
def groups_change_their_protocol(side: Side) -> None:
    """KIP-848: empty groups in place, others by the policy (bidirectional)."""
    topic, group = side.topic("groups-change", partitions=2), "changing"
    at = side.coordinator(group)
    side.await_topic_in_groups(topic, at)
    side.ask("commits", "OffsetCommit", 9, at, **committing(group, topic, 0))
    epoch = side.ask(
        "an empty classic group", "ConsumerGroupHeartbeat", 1, at, "m", **beating(group, "m", 0, topic)
    ).member_epoch
    side.ask("as a classic one", "DescribeGroups", 6, at, groups=[group])
    side.ask("keeps offsets", "OffsetFetch", 9, at, groups=[{"group_id": group, "topics": None}])
    side.ask("of another type", "JoinGroup", 9, at, **joining(group, protocol_type="connect"))
    side.ask("classic calls", "Heartbeat", 4, at, group_id=group, member_id="m", generation_id=epoch)
    side.ask("classic calls", "SyncGroup", 5, at, **syncing(group, "m", epoch))
    side.ask("classic calls", "LeaveGroup", 5, at, group_id=group, members=[{"member_id": "x"}])
    for label, metadata in (("nothing", b""), ("half", b"\0"), ("no topics", b"\0\1\xff\xff\xff\xff\0\0")):
        broken = [{"name": "range", "metadata": metadata}]
        side.ask(f"a subscription of {label}", "JoinGroup", 3, at, **joining(group, protocols=broken))
    side.ask("leaves", "ConsumerGroupHeartbeat", 1, at, **beating(group, "m", -1))
    member = stable_of_one(side, at, group, topic)
    side.ask("classic again", "DescribeGroups", 6, at, groups=[group])
    side.ask("classic again", "ConsumerGroupDescribe", 1, at, group_ids=[group])
    leave(side, at, group, member)
    other = "connecting"
    at = side.coordinator(other)
    connect = {"protocol_type": "connect", "protocols": [{"name": "sessioned", "metadata": b"x"}]}
    member = member_of(side, at, other, "worker", **connect)
    side.ask("no consumers", "JoinGroup", 9, at, "worker", **joining(other, member_id=member, **connect))
    side.ask("meet one", "ConsumerGroupHeartbeat", 1, at, **beating(other, "m", 0, topic))
    leave(side, at, other, member)
