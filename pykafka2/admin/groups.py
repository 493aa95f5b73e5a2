"""Groups and their members: list, describe, delete, remove members, wait (ListGroups, DescribeGroups ...)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import attrs

from pykafka2.admin.arguments import one_of, text, texts, whole_number
from pykafka2.admin.group_descriptions import classic_group, consumer_group, share_group
from pykafka2.admin.group_values import GroupDescription, GroupListing, MemberToRemove
from pykafka2.admin.outcomes import Listings, Outcomes
from pykafka2.admin.places import at_all_brokers, at_coordinators, time_left
from pykafka2.admin.rounds import Results
from pykafka2.driver.pollable import GROUP
from pykafka2.errors import (
    BrokerError,
    GroupIdNotFound,
    IllegalArgument,
    KafkaError,
    KafkaTimeoutError,
    UnsupportedVersion,
    error_of,
)
from pykafka2.types import Node

if TYPE_CHECKING:
    from pykafka2.cluster.client import ClusterClient

STATES = (
    "PreparingRebalance",
    "CompletingRebalance",
    "Stable",
    "Dead",
    "Empty",
    "Assigning",
    "Reconciling",
    "NotReady",
)
TYPES = ("Classic", "Consumer", "Share", "Streams")
STREAMS = {"Streams": "a streams group; pykafka2 only lists such groups"}
REFUSED = {
    "Share": "a share group; use describe_share_groups and the other calls for share groups",
    **STREAMS,
}
"""Types of groups that these calls list, but do not describe, alter or delete."""
POLL_SECONDS = 0.25
"""How often `wait_for_group` describes the group."""
ADMIN_REASON = "member was removed by an admin"
"""Kafka's text at the beginning of each reason for a removal (KIP-800)."""


class GroupsAdmin:
    """The group calls of `KafkaAdminClient`. Timeouts are seconds; thread-safe."""

    _cluster: ClusterClient

    def list_groups(
        self,
        *,
        states: Iterable[str] = (),
        types: Iterable[str] = (),
        protocols: Iterable[str] = (),
        timeout: float | None = None,
        raise_errors: bool = True,
    ) -> Listings[GroupListing]:
        """Return the groups of all coordinators with these states and types (all if empty), sorted.

        Args:
            states: such as "Stable" and "Empty" (KIP-518).
            types: "Classic", "Consumer" (KIP-848), "Share", "Streams" (KIP-848, KIP-1043).
            protocols: the members' kind, such as "consumer" and "connect"; "" for groups that never had
                members.
            raise_errors: if False, the groups of brokers that fail or cannot be reached are missing, without
                waiting for these brokers, and `errors` of the result has the brokers.

        Raises:
            UnsupportedVersion: a broker before Kafka 2.6 cannot filter by state, or one before 3.8 by type.
            IllegalArgument: an argument is not one of Kafka's values; no request was sent.
            KafkaError: a broker failed; the result would be incomplete without it. With `raise_errors=False`
                only if all brokers failed.
        """
        from pykafka2.protocol.messages.group_admin import ListGroupsRequest

        wanted_states = [one_of("states", state, STATES) for state in texts("states", states)]
        # Brokers expect the types in lower case.
        wanted_types = [one_of("types", kind, TYPES).lower() for kind in texts("types", types)]
        kinds = texts("protocols", protocols)

        def read(response: Any, broker: int) -> list[GroupListing]:
            if response.error_code:
                raise error_of(response.error_code)
            return [
                GroupListing(
                    group.group_id, group.protocol_type, group.group_state, group.group_type.capitalize()
                )
                for group in response.groups
            ]

        lists = at_all_brokers(
            self._cluster,
            "list_groups",
            lambda broker: ListGroupsRequest(states_filter=wanted_states, types_filter=wanted_types),
            read,
            timeout,
            waits=raise_errors,
        )
        # A group whose coordinator moves meanwhile can be in two lists.
        found = {group.group_id: group for groups in lists.succeeded.values() for group in groups}
        chosen = [found[name] for name in sorted(found) if not kinds or found[name].protocol in kinds]
        return Listings(chosen, lists.errors)

    def describe_groups(
        self,
        group_ids: Iterable[str],
        *,
        include_authorized_operations: bool = False,
        timeout: float | None = None,
        raise_errors: bool = True,
    ) -> Outcomes[str, GroupDescription]:
        """Return state, assignor, coordinator and members of groups, classic and KIP-848.

        With `raise_errors=False` a group whose coordinator cannot be reached is not waited for.

        Raises:
            ItemsFailed: some failed (unless `raise_errors` is False): `GroupIdNotFound`,
                `GroupAuthorizationFailed`, `IllegalArgument` for a share or streams group.
            IllegalArgument: an argument is not valid; no request was sent.
        """
        names = texts("group_ids", group_ids)
        outcomes = self._described(
            names, timeout, operations=include_authorized_operations, waits=raise_errors
        )
        return outcomes.checked("describe_groups", raise_errors)

    def delete_groups(
        self, group_ids: Iterable[str], *, timeout: float | None = None, raise_errors: bool = True
    ) -> Outcomes[str, None]:
        """Delete groups without members, with their offsets.

        Raises:
            ItemsFailed: some failed (unless `raise_errors` is False): `NonEmptyGroup` with members,
                `GroupIdNotFound`, `GroupAuthorizationFailed`, `IllegalArgument` for a share or streams group.
            IllegalArgument: `group_ids` is not a list of names; no request was sent.
        """
        names = texts("group_ids", group_ids)
        left = time_left(self._cluster, timeout)
        refused = self._refusals(names, left())
        return self._deleted("delete_groups", names, refused, left()).checked("delete_groups", raise_errors)

    def _deleted(
        self, operation: str, names: list[str], refused: dict[str, KafkaError], timeout: float | None
    ) -> Outcomes[str, None]:
        """Delete the groups that are not refused; return the outcomes of all names."""
        from pykafka2.protocol.messages.group_admin import DeleteGroupsRequest

        def read(response: Any, groups: list[str]) -> Results[str, None]:
            errors = {
                result.group_id: error_of(result.error_code, result.error_message or "")
                for result in response.results
                if result.error_code
            }
            done = {result.group_id: None for result in response.results if result.group_id not in errors}
            return done, dict(errors)

        outcomes = at_coordinators(
            self._cluster,
            operation,
            GROUP,
            [name for name in names if name not in refused],
            lambda groups: DeleteGroupsRequest(groups_names=groups),
            read,
            timeout,
        )
        outcomes.errors.update(refused)
        return outcomes

    def remove_members(
        self,
        group_id: str,
        members: Iterable[str | MemberToRemove] | None = None,
        *,
        reason: str = "",
        timeout: float | None = None,
        raise_errors: bool = True,
    ) -> Outcomes[str, None]:
        """Remove members from a group; their partitions are assigned to the others at once.

        A dynamic member rejoins by itself; a static one is fenced. Members of a KIP-848 group cannot be
        removed.

        Args:
            members: member ids or static instance ids; None removes all.
            reason: appears in the coordinator's log (KIP-800).

        Raises:
            ItemsFailed: some were not removed (unless `raise_errors` is False), with `UnknownMemberId`.
            GroupIdNotFound, GroupAuthorizationFailed: the group cannot be described.
            IllegalArgument: an argument is not valid; no request was sent.
        """
        from pykafka2.protocol.messages.group import LeaveGroupRequest, MemberIdentity

        text("group_id", group_id)
        chosen = None if members is None else [_removal(member) for member in members]
        left = time_left(self._cluster, timeout)
        described = self._described([group_id], left())[group_id]
        static = {
            member.group_instance_id: member.member_id
            for member in described.members
            if member.group_instance_id is not None
        }
        if chosen is None:
            chosen = [
                MemberToRemove(
                    None if member.group_instance_id else member.member_id, member.group_instance_id
                )
                for member in described.members
            ]
        identities: dict[str, MemberIdentity] = {}
        for member in chosen:
            name = member.group_instance_id or member.member_id or ""
            is_static = member.group_instance_id is not None or name in static
            why = member.reason or reason
            identities[name] = MemberIdentity(
                member_id="" if is_static else name,
                group_instance_id=name if is_static else None,
                reason=f"{ADMIN_REASON}: {why}" if why else ADMIN_REASON,
            )
        if not identities:
            return Outcomes({})

        def read(response: Any, groups: list[str]) -> Results[str, Outcomes[str, None]]:
            if response.error_code:
                return {}, {group_id: error_of(response.error_code)}
            done: dict[str, None] = {}
            errors: dict[str, KafkaError] = {}
            for member in response.members:
                name = member.group_instance_id or member.member_id
                if member.error_code:
                    errors[name] = error_of(member.error_code)
                else:
                    done[name] = None
            return {group_id: Outcomes.of_all(identities, done, errors)}, {}

        request = LeaveGroupRequest(group_id=group_id, members=list(identities.values()))
        outcomes = at_coordinators(
            self._cluster, "remove_members", GROUP, [group_id], lambda groups: request, read, left()
        )
        return outcomes[group_id].checked("remove_members", raise_errors)

    def wait_for_group(
        self,
        group_id: str,
        *,
        state: str = "Stable",
        members: int | None = None,
        timeout: float | None = None,
    ) -> GroupDescription:
        """Block until a group has this state and, if given, exactly so many members; return its description.

        The group can be a classic group, a group of KIP-848, or a share group. A share group is Stable while
        it has members, even before they get partitions, and Empty otherwise.

        Also waits for a group that does not exist yet. `state="Dead"` waits until the group does not exist.

        Raises:
            KafkaTimeoutError: the group did not become so within `timeout`; the message contains its last
                state, or the error that hid it.
            GroupAuthorizationFailed: the principal lacks DESCRIBE on the group.
            IllegalArgument: an argument is not valid, and no request was sent; or it is a streams group.
        """
        text("group_id", group_id)
        wanted = one_of("state", state, STATES)
        if members is not None:
            whole_number("members", members, 0)
        seconds = self._cluster.seconds_of(timeout)
        left = time_left(self._cluster, seconds)
        while True:
            try:
                found = self._described_of_any_type(group_id, lambda: max(left(), POLL_SECONDS))
            except GroupIdNotFound:
                if wanted == "Dead" and not members:
                    return GroupDescription(group_id, "Dead", "", "", None, ())
                seen = "does not exist"
            except KafkaError as error:
                if not error.retriable:
                    raise
                seen = f"cannot be described: {error}"
            else:
                if found.state == wanted and members in (None, len(found.members)):
                    return found
                seen = f"is {found.state} with {len(found.members)} members"
            if not left():
                what = wanted if members is None else f"{wanted} with {members} members"
                raise KafkaTimeoutError(
                    f"group {group_id!r} did not become {what} within {seconds:g} s; it {seen}"
                )
            self._cluster.pause(min(POLL_SECONDS, left()))

    # ------------------------------------------------------------------ inside

    def _described(
        self, names: list[str], timeout: float | None, *, operations: bool = False, waits: bool = True
    ) -> Outcomes[str, GroupDescription]:
        """Return the outcomes of `describe_groups`."""
        left = time_left(self._cluster, timeout)
        outcomes = self._described_consumers(names, left, operations, waits)
        missing = [name for name, error in outcomes.errors.items() if isinstance(error, GroupIdNotFound)]
        outcomes.errors.update(self._refusals(missing, left(), waits))
        return outcomes

    def _described_of_any_type(self, group_id: str, left: Callable[[], float]) -> GroupDescription:
        """Describe a group, also a share group, without waiting for its coordinator; raise its error."""
        outcomes = self._described_consumers([group_id], left, operations=False, waits=False)
        if isinstance(outcomes.errors.get(group_id), GroupIdNotFound):
            shares = self._described_share_groups("wait_for_group", [group_id], False, left(), waits=False)
            if not isinstance(shares.errors.get(group_id), GroupIdNotFound | UnsupportedVersion):
                return shares[group_id]
            outcomes.errors.update(self._refusals([group_id], left(), waits=False, refused=STREAMS))
        return outcomes[group_id]

    def _described_consumers(
        self, names: list[str], left: Callable[[], float], operations: bool, waits: bool
    ) -> Outcomes[str, GroupDescription]:
        """Describe groups of consumers, KIP-848 and classic."""
        from pykafka2.protocol.messages.consumer_group import ConsumerGroupDescribeRequest
        from pykafka2.protocol.messages.group_admin import DescribeGroupsRequest

        outcomes = self._described_by(
            "describe_groups",
            names,
            lambda groups: ConsumerGroupDescribeRequest(
                group_ids=groups, include_authorized_operations=operations
            ),
            consumer_group,
            left(),
            waits,
        )
        others = [
            name
            for name, error in outcomes.errors.items()
            if isinstance(error, GroupIdNotFound | UnsupportedVersion)
        ]
        if not others:
            return outcomes
        classic = self._described_by(
            "describe_groups",
            others,
            lambda groups: DescribeGroupsRequest(groups=groups, include_authorized_operations=operations),
            classic_group,
            left(),
            waits,
        )
        found = outcomes.succeeded | classic.succeeded
        errors = outcomes.errors | classic.errors
        return Outcomes(
            {name: found[name] for name in names if name in found},
            {name: errors[name] for name in names if name not in found},
        )

    def _described_share_groups(
        self, operation: str, names: list[str], operations: bool, timeout: float | None, waits: bool = True
    ) -> Outcomes[str, GroupDescription]:
        from pykafka2.protocol.messages.share_group import ShareGroupDescribeRequest

        return self._described_by(
            operation,
            names,
            lambda groups: ShareGroupDescribeRequest(
                group_ids=groups, include_authorized_operations=operations
            ),
            share_group,
            timeout,
            waits,
        )

    def _described_by(
        self,
        operation: str,
        names: list[str],
        request: Callable[[list[str]], Any],
        describe: Callable[[Any], GroupDescription],
        timeout: float | None,
        waits: bool,
    ) -> Outcomes[str, GroupDescription]:
        """Describe groups by one API, whose responses `describe` reads."""
        return at_coordinators(
            self._cluster,
            operation,
            GROUP,
            names,
            request,
            lambda response, groups: _read_groups(response, describe),
            timeout,
            with_node=_with_coordinator,
            waits=waits,
        )

    def _refusals(
        self,
        names: list[str],
        timeout: float | None,
        waits: bool = True,
        refused: Mapping[str, str] = REFUSED,
    ) -> dict[str, KafkaError]:
        """Return an error for each group among these names whose type is refused."""
        if not names:
            return {}
        try:
            listed = self.list_groups(types=refused, timeout=timeout, raise_errors=waits)
        except KafkaError as error:
            # A broker before Kafka 3.8 has no such groups, and one can refuse the list.
            if isinstance(error, BrokerError) or (error.retriable and not waits):
                return {}
            raise
        return {
            group.group_id: IllegalArgument(f"group {group.group_id!r} is {refused[group.type]}")
            for group in listed
            if group.group_id in names and group.type in refused
        }


def _removal(member: object) -> MemberToRemove:
    if isinstance(member, MemberToRemove):
        if bool(member.member_id) == bool(member.group_instance_id):
            raise IllegalArgument(f"members contains {member}; set either member_id or group_instance_id")
        return member
    return MemberToRemove(member_id=text("members", member))


def _read_groups(
    response: Any, describe: Callable[[Any], GroupDescription]
) -> Results[str, GroupDescription]:
    found: dict[str, GroupDescription] = {}
    errors: dict[str, KafkaError] = {}
    for group in response.groups:
        if group.error_code:
            errors[group.group_id] = error_of(group.error_code, group.error_message)
        elif group.group_state == "Dead":  # of brokers before DescribeGroups 6
            errors[group.group_id] = GroupIdNotFound(f"group {group.group_id!r} does not exist")
        else:
            found[group.group_id] = describe(group)
    return found, errors


def _with_coordinator(group: GroupDescription, node: Node) -> GroupDescription:
    return attrs.evolve(group, coordinator=node)
