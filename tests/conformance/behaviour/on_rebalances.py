"""Timeouts of classic groups: members that come too late, leave or are replaced while others wait."""

from __future__ import annotations

from functools import partial
from typing import Any

from .on_groups_by_call import committing, joining, member_of, syncing
from .side import Side, scenario

QUICKLY = {"rebalance_timeout_ms": 600}
"""Soon, and long enough for the few requests that have to come within it on a busy machine."""


def describe(side: Side, label: str, at: int, group: str) -> None:
    side.ask(label, "DescribeGroups", 6, at, groups=[group])


def heartbeat(side: Side, label: str, at: int, group: str, member: str, generation: int) -> None:
    """Wait until the member's heartbeat returns an error."""
    side.eventually(
        label,
        lambda answer: answer.error_code,
        "Heartbeat",
        4,
        at,
        member,
        group_id=group,
        member_id=member,
        generation_id=generation,
    )


def two_joined(side: Side, at: int, group: str, **options: Any) -> tuple[str, str, Any]:
    """Two dynamic members at generation 2, CompletingRebalance: the leader, the other, and how it joined."""
    first = member_of(side, at, group, "a", **options)
    side.ask("the first joins", "JoinGroup", 9, at, "a", **joining(group, member_id=first, **options))
    side.ask("and syncs", "SyncGroup", 5, at, "a", **syncing(group, first, 1, assigned_to=[first]))
    second = member_of(side, at, group, "b", **options)
    waiting = side.send("JoinGroup", 9, at, "b", **joining(group, member_id=second, **options))
    side.ask("the first again", "JoinGroup", 9, at, "a", **joining(group, member_id=first, **options))
    return first, second, side.receive("the second", waiting)


@scenario
def rebalance_without_one(side: Side) -> None:
    """A member that does not rejoin within the rebalance timeout is removed."""
    group = "without-one"
    at = side.coordinator(group)
    first = member_of(side, at, group, "a", **QUICKLY)
    side.ask("joins", "JoinGroup", 9, at, "a", **joining(group, member_id=first, **QUICKLY))
    side.ask("syncs", "SyncGroup", 5, at, "a", **syncing(group, first, 1, assigned_to=[first]))
    second = member_of(side, at, group, "b", **QUICKLY)
    waiting = side.send("JoinGroup", 9, at, "b", **joining(group, member_id=second, **QUICKLY))
    side.receive("the second waits for the first in vain", waiting)
    describe(side, "without the first", at, group)
    beat = {"group_id": group, "member_id": first}
    side.ask("is out", "Heartbeat", 4, at, **beat, generation_id=1)
    side.ask("is out", "JoinGroup", 9, at, **joining(group, member_id=first, **QUICKLY))
    side.ask("is out", "SyncGroup", 5, at, **syncing(group, first, 1))
    commit = committing(group, "t", 0, generation_id_or_member_epoch=1, member_id=first)
    side.ask("is out", "LeaveGroup", 5, at, group_id=group, members=[{"member_id": first}])
    side.ask("is out", "OffsetCommit", 9, at, **commit)
    side.ask("leaves", "LeaveGroup", 5, at, group_id=group, members=[{"member_id": second}])


@scenario
def rebalance_without_a_sync(side: Side) -> None:
    """A member that does not sync within the rebalance timeout is removed, even the leader."""
    group = "without-a-sync"
    at = side.coordinator(group)
    first, second, _ = two_joined(side, at, group, **QUICKLY)
    waiting = side.send("SyncGroup", 5, at, "b", **syncing(group, second, 2))
    side.receive("the second waits for the leader in vain", waiting)
    describe(side, "without the leader", at, group)
    side.ask("the leader is out", "Heartbeat", 4, at, group_id=group, member_id=first, generation_id=2)
    again = joining(group, member_id=second, **QUICKLY)
    side.ask("the second leads", "JoinGroup", 9, at, "b", **again)
    third = member_of(side, at, group, "c", **QUICKLY)
    side.ask("leads", "SyncGroup", 5, at, "b", **syncing(group, second, 3, assigned_to=[second]))
    coming = side.send("JoinGroup", 9, at, "c", **joining(group, member_id=third, **QUICKLY))
    side.ask("joins, too", "JoinGroup", 9, at, "b", **again)
    side.receive("the third", coming)
    side.ask("assigns", "SyncGroup", 5, at, "b", **syncing(group, second, 4, assigned_to=[second, third]))
    describe(side, "the third has not asked", at, group)
    heartbeat(side, "told of its end", at, group, second, 4)
    side.ask("joins alone", "JoinGroup", 9, at, "b", **again)
    side.ask("the third is out", "SyncGroup", 5, at, "c", **syncing(group, third, 4))
    side.ask("leaves", "LeaveGroup", 5, at, group_id=group, members=[{"member_id": second}])


@scenario
def rebalance_of_an_absent_static_member(side: Side) -> None:
    """Absent static members delay the group only until the rebalance timeout, and stay in it."""
    group = "absent-static"
    at = side.coordinator(group)
    static = {"group_instance_id": "i", **QUICKLY}
    first = side.ask("joins", "JoinGroup", 9, at, "a", **joining(group, **static)).member_id
    sync = syncing(group, first, 1, assigned_to=[first], group_instance_id="i")
    side.ask("syncs", "SyncGroup", 5, at, "a", **sync)
    second = side.send("JoinGroup", 9, at, "b", **joining(group, **{**static, "group_instance_id": "j"}))
    answer = side.receive("another comes, it stays away", second)
    describe(side, "both are in it", at, group)
    beat = {"group_id": group, "member_id": first, "group_instance_id": "i"}
    side.ask("the old generation", "Heartbeat", 4, at, **beat, generation_id=1)
    side.ask("the new generation", "Heartbeat", 4, at, **beat, generation_id=2)
    leader = syncing(group, answer.member_id, 2, assigned_to=[answer.member_id, first], group_instance_id="j")
    side.ask("assigns for both", "SyncGroup", 5, at, "b", **leader)
    again = side.ask("is back under a new id", "JoinGroup", 9, at, "a", **joining(group, **static))
    describe(side, "after that", at, group)
    gone = [{"member_id": "", "group_instance_id": one} for one in ("i", "j")]
    side.ask("removed", "LeaveGroup", 5, at, group_id=group, members=gone)
    assert again is not None


@scenario
def rebalance_replaces_a_static_member(side: Side) -> None:
    """In every state: the replaced one's own request is answered with FENCED_INSTANCE_ID."""
    group = "replaced-static"
    at = side.coordinator(group)
    one = {"group_instance_id": "one"}
    first = side.ask("joins", "JoinGroup", 9, at, "a", **joining(group, **one)).member_id
    side.ask("replaced before it has synced", "JoinGroup", 9, at, "a2", **joining(group, **one))
    side.ask("the old one", "SyncGroup", 5, at, "a", **syncing(group, first, 1, group_instance_id="one"))
    describe(side, "a new generation", at, group)
    second = side.quietly("JoinGroup", 9, at, "a3", **joining(group, **one)).member_id
    waiting = side.send("SyncGroup", 5, at, "a3", **syncing(group, second, 3, group_instance_id="one"))
    side.receive("the leader alone", waiting)
    two = {"group_instance_id": "two"}
    joins = side.send("JoinGroup", 9, at, "b", **joining(group, **two))
    replacing = side.send("JoinGroup", 9, at, "b2", **joining(group, **two))
    side.receive("replaced while it joins", joins)
    side.ask("the first follows", "JoinGroup", 9, at, "a3", **joining(group, member_id=second, **one))
    latest = side.receive("the one that replaced it", replacing).member_id
    waits = side.send("SyncGroup", 5, at, "b2", **syncing(group, latest, 4, group_instance_id="two"))
    third = side.send("JoinGroup", 9, at, "b3", **joining(group, **two))
    side.receive("replaced while it waits for its part", waits)
    heartbeat(side, "the first is told", at, group, second, 4)
    side.ask("and follows", "JoinGroup", 9, at, "a3", **joining(group, member_id=second, **one))
    side.receive("the third of its name", third)
    for instance, member in (("one", first), ("two", latest), ("none", second)):
        side.ask(
            f"old id of {instance}",
            "JoinGroup",
            9,
            at,
            **joining(group, member_id=member, group_instance_id=instance),
        )
    gone = [{"member_id": "", "group_instance_id": instance} for instance in ("one", "two")]
    side.ask("removed", "LeaveGroup", 5, at, group_id=group, members=gone)


@scenario
def rebalance_while_members_leave(side: Side) -> None:
    """A LeaveGroup may be what the others waited for; an id that was given out may leave, too."""
    group = "leaving"
    at = side.coordinator(group)
    first, second, _ = two_joined(side, at, group)
    third = member_of(side, at, group, "c")
    leave = partial(side.ask, api="LeaveGroup", version=5, broker=at, group_id=group)
    sync = side.send("SyncGroup", 5, at, "b", **syncing(group, second, 2))
    side.ask(
        "the leader assigns", "SyncGroup", 5, at, "a", **syncing(group, first, 2, assigned_to=[first, second])
    )
    side.receive("the second", sync)
    waiting = side.send("JoinGroup", 9, at, "b", **joining(group, member_id=second, session_timeout_ms=7000))
    side.ask(
        "nothing has changed for a follower",
        "Heartbeat",
        4,
        at,
        group_id=group,
        member_id=first,
        generation_id=2,
    )
    side.receive("told of its generation", waiting)
    waiting = side.send("JoinGroup", 9, at, "a", **joining(group, member_id=first))
    follows = side.send("JoinGroup", 9, at, "b", **joining(group, member_id=second))
    describe(side, "an id that was given out is waited for", at, group)
    leave("the id leaves", members=[{"member_id": third}])
    side.receive("the leader has joined", waiting)
    side.receive("the follower, too", follows)
    sync = side.send("SyncGroup", 5, at, "b", **syncing(group, second, 3))
    leave("the leader leaves before it assigns", members=[{"member_id": first}])
    side.receive("the second waited for it", sync)
    waiting = side.send("JoinGroup", 9, at, "b", **joining(group, member_id=second))
    side.receive("is left alone", waiting)
    leave("twice the same", members=[{"member_id": second}, {"member_id": second}])
    describe(side, "nobody", at, group)
    fourth = member_of(side, at, group, "d")
    leave("the only id leaves", members=[{"member_id": fourth}])
    describe(side, "nobody", at, group)


@scenario
def rebalance_changes_the_protocol(side: Side) -> None:
    """The protocol that most name first; INCONSISTENT_GROUP_PROTOCOL where nothing is common."""
    group = "protocols"
    at = side.coordinator(group)

    def protocols(*names: str) -> dict[str, Any]:
        return {"protocols": [{"name": name, "metadata": name.encode()} for name in names]}

    kind = {"protocol_type": "custom"}
    ids: dict[str, str] = {}
    choices = {"a": ("x", "y", "z"), "b": ("y", "x"), "c": ("y", "z", "x")}
    for client, names in choices.items():
        ids[client] = member_of(side, at, group, client, **kind, **protocols(*names))
        if client == "a":
            side.ask(
                "a",
                "JoinGroup",
                9,
                at,
                "a",
                **joining(group, member_id=ids["a"], **kind, **protocols(*names)),
            )
            sync = syncing(
                group, ids["a"], 1, assigned_to=[ids["a"]], protocol_type="custom", protocol_name="x"
            )
            side.ask("a", "SyncGroup", 5, at, "a", **sync)
    sent = {
        client: side.send(
            "JoinGroup", 9, at, client, **joining(group, member_id=ids[client], **kind, **protocols(*names))
        )
        for client, names in reversed(choices.items())
    }
    for client in choices:
        side.receive(f"{client}: y has two votes", sent[client])
    side.ask("only z", "JoinGroup", 9, at, "d", **joining(group, **kind, **protocols("z")))
    side.ask("of type consumer", "JoinGroup", 9, at, "d", **joining(group, **protocols("x")))
    side.ask(
        "changes to z alone",
        "JoinGroup",
        9,
        at,
        "c",
        **joining(group, member_id=ids["c"], **kind, **protocols("z")),
    )
    describe(side, "as before", at, group)
    leave = [{"member_id": one} for one in ids.values()]
    side.ask("all leave", "LeaveGroup", 5, at, group_id=group, members=leave)
    side.ask("deleted", "OffsetDelete", 0, at, group_id=group, topics=[])
    side.ask("deleted", "DeleteGroups", 2, at, groups_names=[group])
