"""Descriptions of groups: DescribeGroups, ListGroups, ConsumerGroupDescribe; and DeleteGroups.

Reads only the state of one shard; service.py merges the responses of shards.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from pykafka2.broker.coordinators.groups.classic.rebalance import AnyGroup, Groups
from pykafka2.broker.coordinators.groups.classic.state import ClassicGroup, GroupState
from pykafka2.broker.coordinators.groups.consumer import records as consumer_records
from pykafka2.broker.coordinators.groups.consumer.state import ConsumerGroup, ConsumerMember
from pykafka2.broker.coordinators.groups.offset_requests import Offsets
from pykafka2.broker.coordinators.refusals import REFUSAL
from pykafka2.broker.coordinators.replay import Caller, Deferred, Result
from pykafka2.broker.coordinators.settings import Topics
from pykafka2.errors import BrokerError, GroupIdNotFound, InvalidGroupId, NonEmptyGroup
from pykafka2.protocol.messages import consumer_group, group_admin
from pykafka2.protocol.messages.group_records import GroupMetadataKey

if TYPE_CHECKING:
    from pykafka2.broker.coordinators.groups.share.group import ShareGroups

FIRST_DESCRIBE_WITH_ERRORS = 6

# Without an authorizer all operations are allowed: READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS.
ALL_GROUP_OPERATIONS = sum(1 << code for code in (3, 6, 8, 10, 11))
# Without the two for options of groups, which 4.0 added.
GROUP_OPERATIONS_BEFORE_4_0 = sum(1 << code for code in (3, 6, 8))


def describe(
    groups: Groups, caller: Caller, deferred: Deferred[Any], out: Result, *, is_before_4_0: bool = False
) -> None:
    request = cast("group_admin.DescribeGroupsRequest", deferred.request)
    described = [_described(groups.get(group_id), group_id, caller.version) for group_id in request.groups]
    if request.include_authorized_operations:
        _authorize(described, GROUP_OPERATIONS_BEFORE_4_0 if is_before_4_0 else ALL_GROUP_OPERATIONS)
    if is_before_4_0:
        _hide_old_assignments(described)
    out.respond(deferred, group_admin.DescribeGroupsResponse(groups=described))


def _hide_old_assignments(described: Iterable[group_admin.DescribedGroup]) -> None:
    """Remove the assignments of groups that are not stable, as releases before 4.0 do."""
    for group in described:
        if group.group_state != GroupState.STABLE.value:
            for member in group.members:
                member.member_assignment = b""


def _authorize(
    described: Sequence[group_admin.DescribedGroup | consumer_group.DescribedGroup],
    operations: int = ALL_GROUP_OPERATIONS,
) -> None:
    """Set the authorized operations of the groups that were found (KIP-430)."""
    for group in described:
        if not group.error_code:
            group.authorized_operations = operations


def _described(group: AnyGroup | None, group_id: str, version: int) -> group_admin.DescribedGroup:
    if not isinstance(group, ClassicGroup):
        has_error = version >= FIRST_DESCRIBE_WITH_ERRORS  # old clients get only a dead group
        code = GroupIdNotFound.code if has_error else 0
        dead = REFUSAL.entry(group_admin.DescribedGroup, group_id, version, code)
        dead.group_state = "Dead"
        if has_error:
            reason = "not found" if group is None else "is not a classic group"
            dead.error_message = f"Group {group_id} {reason}."
        return dead
    is_stable = group.state is GroupState.STABLE
    protocol = (group.protocol or "") if is_stable else ""
    return group_admin.DescribedGroup(
        group_id=group.id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=protocol,
        members=[
            group_admin.DescribedGroupMember(
                member_id=member.id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata(protocol) if is_stable else b"",
                member_assignment=member.assignment,  # the latest one, also during a rebalance
            )
            for member in group.members.values()
        ],
    )


def list_groups(groups: Groups, caller: Caller, deferred: Deferred[Any], out: Result) -> None:
    request = cast("group_admin.ListGroupsRequest", deferred.request)
    states = {state.lower() for state in request.states_filter}
    types = {kind.lower() for kind in request.types_filter}
    listed = []
    for group_id, group in sorted(groups.items()):
        kind = group.kind
        if (states and group.state.value.lower() not in states) or (types and kind not in types):
            continue
        protocol_type = (
            (group.protocol_type or "") if isinstance(group, ClassicGroup) else group.protocol_type
        )
        listed.append(
            group_admin.ListedGroup(
                group_id=group_id,
                protocol_type=protocol_type,
                group_state=group.state.value,
                group_type=kind,
            )
        )
    out.respond(deferred, group_admin.ListGroupsResponse(groups=listed))


def describe_consumer_groups(
    groups: Groups, topics: Topics, default_assignor: str, deferred: Deferred[Any], out: Result
) -> None:
    request = cast("consumer_group.ConsumerGroupDescribeRequest", deferred.request)
    described = []
    for group_id in request.group_ids:
        group = groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            described.append(_consumer_described(group, topics, default_assignor))
            continue
        code = GroupIdNotFound.code if group_id else InvalidGroupId.code
        missing = REFUSAL.entry(consumer_group.DescribedGroup, group_id, deferred.version, code)
        if group_id:
            reason = "is not a consumer group" if group is not None else "not found"
            missing.error_message = f"Group {group_id} {reason}."
        described.append(missing)
    if request.include_authorized_operations:
        _authorize(described)
    out.respond(deferred, consumer_group.ConsumerGroupDescribeResponse(groups=described))


def _consumer_described(
    group: ConsumerGroup, topics: Topics, default_assignor: str
) -> consumer_group.DescribedGroup:
    return consumer_group.DescribedGroup(
        group_id=group.id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.preferred_assignor(default_assignor),
        members=[_consumer_member(group, member, topics) for member in group.members.values()],
    )


def _consumer_member(group: ConsumerGroup, member: ConsumerMember, topics: Topics) -> consumer_group.Member:
    return consumer_group.Member(
        member_id=member.id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        subscribed_topic_regex=member.regex or "",
        assignment=_named(_held(member), topics),
        target_assignment=_named(group.targets.get(member.id, {}), topics),
        member_type=0 if member.classic is not None else 1,
    )


def _held(member: ConsumerMember) -> dict[bytes, set[int]]:
    """Return the partitions it can still read, including those it must revoke, as in Apache."""
    held: dict[bytes, set[int]] = {}
    for assignment in (member.assigned, member.pending_revocation):
        for topic_id, partitions in assignment.items():
            held.setdefault(topic_id, set()).update(partitions)
    return held


def _named(
    assignment: Mapping[bytes, Iterable[int]], topics: Topics
) -> consumer_group.ConsumerGroupDescribeResponseAssignment:
    """Convert an assignment; deleted topics are left out, as in Apache."""
    return consumer_group.ConsumerGroupDescribeResponseAssignment(
        topic_partitions=[
            consumer_group.ConsumerGroupDescribeResponseTopicPartitions(
                topic_id=topic_id, topic_name=name, partitions=sorted(assignment[topic_id])
            )
            for topic_id in sorted(assignment)
            if (name := topics.name_of(topic_id)) is not None
        ]
    )


def delete_groups(
    groups: Groups, offsets: Offsets, shares: ShareGroups | None, deferred: Deferred[Any], out: Result
) -> None:
    """Delete groups without members, with their offsets (rule groups-in-use-are-not-deleted).

    A request about a share group names no other one (service.py).
    """
    request = cast("group_admin.DeleteGroupsRequest", deferred.request)
    results = []
    for group_id in dict.fromkeys(request.groups_names):
        group = groups.get(group_id)
        if shares is not None and group is not None and group.kind == "share":
            shares.states.delete_group(shares.get(group_id), deferred, out)
            return
        code = 0
        try:
            check_deletable(groups.get(group_id), group_id)
            offsets.forget_all(group_id, out)
            write_group_removal(groups[group_id], out)
        except BrokerError as error:
            code = error.code or 0
        results.append(group_admin.DeletableGroupResult(group_id=group_id, error_code=code))
    out.respond(deferred, group_admin.DeleteGroupsResponse(results=results))


def check_deletable(group: AnyGroup | None, group_id: str) -> None:
    """Raise GROUP_ID_NOT_FOUND or NON_EMPTY_GROUP if the group cannot be deleted."""
    if group is None or group.state is GroupState.DEAD:
        raise GroupIdNotFound(f"group {group_id} does not exist")
    is_empty = group.state is GroupState.EMPTY if isinstance(group, ClassicGroup) else not group.members
    if not is_empty:
        raise NonEmptyGroup(f"{group_id} has members")


def write_group_removal(group: AnyGroup, out: Result) -> None:
    """Write the removal of a group; of a share group see share/partition_states.py."""
    if isinstance(group, ClassicGroup):
        out.write(GroupMetadataKey(group=group.id), None)
    elif isinstance(group, ConsumerGroup):
        consumer_records.write_group_removal(out, group)
