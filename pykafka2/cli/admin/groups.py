"""List and describe groups and share groups with their lag, reset their offsets, delete groups and offsets.

examples:
  pykafka2 groups describe billing --watch
  pykafka2 groups reset billing --to earliest            shows the new offsets
  pykafka2 groups reset billing --to earliest --execute  commits them
  pykafka2 groups ACTION --help                          what an action does, with examples
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from pykafka2.cli.admin import group_offsets
from pykafka2.cli.admin.share_groups import (
    SHARE,
    SHARE_COLUMNS,
    deleted_groups,
    described_groups,
    share_rows,
)
from pykafka2.cli.common import connection
from pykafka2.cli.common.changes import (
    add_isolation_level,
    add_yes,
    change,
    checked,
    described,
    found,
    is_confirmed,
    listed,
    matching,
)
from pykafka2.cli.common.output import Change, Output, positive_is_warning
from pykafka2.cli.common.parsing import Parser, UsageError
from pykafka2.cli.common.verbs import Action, add_actions, run_action
from pykafka2.cli.common.watch import add_watch, watched
from pykafka2.errors import KafkaError
from pykafka2.text import counted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pykafka2 import KafkaAdminClient, OffsetAndMetadata, TopicPartition
    from pykafka2.admin import GroupDescription, MemberDescription, Outcomes, PartitionLag

    Rows = dict[TopicPartition, dict[str, Any]]

SUMMARY = "list and describe groups with their lag, reset offsets, delete groups"
NO_OFFSET = -1
STATE_STYLES = {
    "Stable": "good",
    "PreparingRebalance": "warning",
    "CompletingRebalance": "warning",
    "Assigning": "warning",
    "Reconciling": "warning",
    "Dead": "bad",
}
GROUP_TYPES = ("Classic", "Consumer", SHARE)
"""Types of groups that `groups describe` describes; streams groups are only listed."""


def configure(parser: Parser) -> None:
    """Add the actions."""
    add_actions(parser, *ACTIONS)


run = checked(run_action)


# ---------------------------------------------------------------------------------------------------
# list, describe
# ---------------------------------------------------------------------------------------------------


def _state_style(state: str) -> str:
    return STATE_STYLES.get(state, "")


def _configure_list(parser: Parser) -> None:
    parser.add_argument("patterns", nargs="*", metavar="PATTERN", help="only groups that match, such as 'a*'")
    parser.add_argument(
        "--state",
        action="append",
        default=[],
        help="only groups in this state, such as Stable or Empty; can be repeated",
    )
    parser.add_argument(
        "--type",
        action="append",
        default=[],
        help="only groups of this type: Classic, Consumer, Share or Streams; can be repeated",
    )
    add_watch(parser)


def _list(arguments: argparse.Namespace, output: Output) -> int:
    with connection.connected_admin(arguments) as client:
        return watched(arguments, output, lambda: _print_groups(client, arguments, output))


def _print_groups(client: KafkaAdminClient, arguments: argparse.Namespace, output: Output) -> int:
    listings = client.list_groups(states=arguments.state, types=arguments.type, raise_errors=False)
    every, code = listed(output, listings)
    groups = {one.group_id: one for one in every}
    output.table(
        ["group", "state", "type", "protocol"],
        [
            [name, groups[name].state, groups[name].type or None, groups[name].protocol or None]
            for name in matching(groups, arguments.patterns + arguments.after_watch)
        ],
        styles={"state": _state_style},
        quiet=("protocol",),
    )
    return code


def _configure_describe(parser: Parser) -> None:
    parser.add_argument("groups", nargs="*", metavar="GROUP", help="group ids; all if none is named")
    parser.add_argument("--members", action="store_true", help="print the members instead of the partitions")
    parser.add_argument(
        "--lag-time",
        action="store_true",
        help="add LAG SECONDS, the age of the oldest uncommitted record",
    )
    add_isolation_level(parser, "read_committed")
    add_watch(parser)


def _describe(arguments: argparse.Namespace, output: Output) -> int:
    before: dict[tuple[str, TopicPartition], int] = {}
    with connection.connected_admin(arguments) as client:
        return watched(arguments, output, lambda: _print_descriptions(client, arguments, output, before))


def _print_descriptions(
    client: KafkaAdminClient,
    arguments: argparse.Namespace,
    output: Output,
    before: dict[tuple[str, TopicPartition], int],
) -> int:
    """Print the groups; `before` has the lags that --watch printed last."""
    names, code = arguments.groups + arguments.after_watch, 0
    if not names:
        every, code = listed(output, client.list_groups(types=GROUP_TYPES, raise_errors=False))
        names = sorted(one.group_id for one in every)
    groups, failed = found(output, described_groups(client, names))
    code = code or failed
    has_printed = False
    for name, group in groups.items():
        try:
            if group.type == SHARE:
                rows, failures = share_rows(client, group)
            else:
                rows, failures = _lag_rows(client, arguments, group)
        except KafkaError as error:
            output.error(f"{name}: {described(error)}")
            code = 1
            continue
        for partition, failure in failures.items():
            output.error(f"{name}: {partition}: {described(failure)}")
            code = 1
        if has_printed:
            output.line("")
        has_printed = True
        lags = {one: row["lag"] for one, row in rows.items() if row["lag"] is not None}
        changes = {one: Change(lag - before[name, one]) for one, lag in lags.items() if (name, one) in before}
        before.update({(name, one): lag for one, lag in lags.items()})
        _print_group(arguments, output, group, rows, changes)
    return code


def _lag_rows(
    client: KafkaAdminClient, arguments: argparse.Namespace, group: GroupDescription
) -> tuple[Rows, dict[TopicPartition, KafkaError]]:
    """Return the fields of each partition of a group, and the errors of partitions whose lag is unknown."""
    lags = client.group_lag(
        group.group_id,
        with_time=arguments.lag_time,
        isolation_level=arguments.isolation_level,
        raise_errors=False,
    )
    committed = client.list_group_offsets(group.group_id, list(lags.errors)) if lags.errors else {}
    owners = {one: member for member in group.members for one in member.assignment}
    rows = {
        one: _lag_fields(one, lags.succeeded.get(one), committed.get(one), owners.get(one))
        for one in sorted(lags)
    }
    return rows, lags.errors


def _print_group(
    arguments: argparse.Namespace,
    output: Output,
    group: GroupDescription,
    partitions: Rows,
    changes: Mapping[TopicPartition, Change],
) -> None:
    """Print a group; `changes` has those of lags since --watch printed them last."""
    coordinator = group.coordinator
    fields = {
        "group": group.group_id,
        "state": group.state,
        "type": group.type,
        "assignor": group.assignor or None,
        "coordinator": None if coordinator is None else coordinator.id,
        "member_count": len(group.members),
        "lag": sum(row["lag"] or 0 for row in partitions.values()),
    }
    members = [
        {
            "member_id": member.member_id,
            "instance_id": member.group_instance_id,
            "client_id": member.client_id,
            "host": member.client_host,
            "partitions": [str(one) for one in member.assignment],
        }
        for member in group.members
    ]
    if output.is_json:
        output.json({**fields, "partitions": [*partitions.values()], "members": members})
        return
    styles = {"state": _state_style, "lag": positive_is_warning}
    total = Change(sum(changes.values())) if changes else None
    of_watch = {} if arguments.watch is None else {"change": total}
    output.item({**fields, **of_watch}, styles)
    if group.type == SHARE:
        columns = [*SHARE_COLUMNS, *of_watch]
    else:
        columns = ["topic", "partition", "committed", "latest", "lag", *of_watch]
        columns += ["lag_seconds"] if arguments.lag_time else []
        columns += ["client_id", "host"]
    rows = [{**row, "change": changes.get(one)} for one, row in partitions.items()]
    if arguments.members:
        columns, rows = ["member_id", "instance_id", "client_id", "host", "partitions"], members
    if rows:
        output.line("")
        output.table(
            columns,
            [[row[column] for column in columns] for row in rows],
            styles=styles,
            quiet=("client_id", "host", "instance_id"),
            can_be_cut=("partitions",),
        )


def _lag_fields(
    partition: TopicPartition,
    lag: PartitionLag | None,
    unknown: OffsetAndMetadata | None,
    owner: MemberDescription | None,
) -> dict[str, Any]:
    committed = lag.committed if lag is not None else NO_OFFSET if unknown is None else unknown.offset
    time = None if lag is None else lag.lag_time
    return {
        "topic": partition.topic,
        "partition": partition.partition,
        "committed": None if committed == NO_OFFSET else committed,
        "earliest": None if lag is None else lag.start,
        "latest": None if lag is None else lag.end,
        "lag": None if lag is None else lag.lag,
        "lag_seconds": None if time is None else round(time, 3),
        "member_id": None if owner is None else owner.member_id,
        "client_id": None if owner is None else owner.client_id,
        "host": None if owner is None else owner.client_host,
    }


# ---------------------------------------------------------------------------------------------------
# delete, remove-members
# ---------------------------------------------------------------------------------------------------


def _configure_delete(parser: Parser) -> None:
    parser.add_argument("groups", nargs="+", metavar="GROUP", help="group ids")
    add_yes(parser)


def _delete(arguments: argparse.Namespace, output: Output) -> int:
    question = f"Delete {counted(set(arguments.groups), 'group')} with all offsets"
    if not is_confirmed(arguments, output, question, arguments.groups):
        return 1
    with connection.connected_admin(arguments) as client:
        return change(
            output,
            arguments.groups,
            lambda names: deleted_groups(client, names),
            "deleted",
            lambda name: {"group": name},
        )


def _configure_remove_members(parser: Parser) -> None:
    parser.add_argument("group", metavar="GROUP", help="group id")
    parser.add_argument("members", nargs="*", metavar="MEMBER", help="member ids or instance ids")
    parser.add_argument("--all", action="store_true", help="all members")
    parser.add_argument("--reason", default="", help="the reason, for the coordinator's log")
    add_yes(parser)


def _remove_members(arguments: argparse.Namespace, output: Output) -> int:
    if bool(arguments.members) == arguments.all:
        raise UsageError("name the members, or use --all")
    with connection.connected_admin(arguments) as client:
        (group,) = client.describe_groups([arguments.group]).values()
        members = arguments.members or [member.member_id for member in group.members]
        question = f"Remove {counted(members, 'member')} from group {arguments.group}"
        if not is_confirmed(arguments, output, question, members):
            return 1

        def call(some: list[str]) -> Outcomes[str, None]:
            return client.remove_members(arguments.group, some, reason=arguments.reason, raise_errors=False)

        return change(
            output, members, call, "removed", lambda name: {"group": arguments.group, "member_id": name}
        )


ACTIONS = (
    Action(
        "list",
        "list groups with their states",
        _list,
        _configure_list,
        "  pykafka2 groups list\n"
        "  pykafka2 groups list 'billing*' --state Stable --state Empty\n"
        "  pykafka2 groups list --watch 5",
    ),
    Action(
        "describe",
        "describe groups: state, coordinator, lag of each partition, members",
        _describe,
        _configure_describe,
        "Records of open transactions do not count as lag: read_committed consumers cannot read them yet.\n"
        "START is the start offset of a share group: all records before it are done. LAG counts the\n"
        "records from there on that are not done. Streams groups are only listed.\n\n"
        "  pykafka2 groups describe billing\n"
        "  pykafka2 groups describe billing --members\n"
        "  pykafka2 groups describe billing --lag-time --watch\n"
        "  pykafka2 groups describe billing --json | jq .lag\n"
        "  pykafka2 groups describe --json | jq -r 'select(.lag > 1000) | [.group, .lag] | @tsv'",
    ),
    group_offsets.RESET,
    Action(
        "delete",
        "delete groups without members, with their offsets",
        _delete,
        _configure_delete,
        "In a terminal it asks first, unless --yes is typed.\n\n"
        "  pykafka2 groups delete billing\n"
        "  pykafka2 groups list 'test-*' --json | jq -r .group | xargs pykafka2 groups delete --yes",
    ),
    group_offsets.DELETE,
    Action(
        "remove-members",
        "remove members from a classic group, such as static ones that will not return",
        _remove_members,
        _configure_remove_members,
        "  pykafka2 groups remove-members billing host-7\n"
        "  pykafka2 groups remove-members billing --all --yes",
    ),
)
