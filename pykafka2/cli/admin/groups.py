"""List and describe consumer groups with their lag, reset their offsets, and delete groups and offsets.

examples:
  pykafka2 groups describe billing --watch
  pykafka2 groups reset billing --to earliest            shows the new offsets
  pykafka2 groups reset billing --to earliest --execute  commits them
  pykafka2 groups ACTION --help                          what an action does, with examples
"""

from __future__ import annotations

import argparse
import io
import re
import shutil
import sys
from contextlib import redirect_stderr, redirect_stdout
from typing import TYPE_CHECKING, Any

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
from pykafka2.cli.common.output import Change, Output, is_terminal, positive_is_warning
from pykafka2.cli.common.parsing import Parser, UsageError, nearest, positive, rate, time_ms
from pykafka2.cli.common.partitions import resolved, selection
from pykafka2.cli.common.positions import NAMES
from pykafka2.cli.common.tables import columns_of
from pykafka2.cli.common.verbs import Action, add_actions, run_action
from pykafka2.errors import KafkaError, KafkaTimeoutError, RetriableError
from pykafka2.text import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pykafka2 import KafkaAdminClient, OffsetAndMetadata, TopicPartition
    from pykafka2.admin import GroupDescription, MemberDescription, Outcomes, PartitionLag

SUMMARY = "list and describe groups with their lag, reset offsets, delete groups"
HOME, CLEAR_LINE, CLEAR_BELOW = "\x1b[H", "\x1b[K", "\x1b[J"
STYLE = re.compile(r"\x1b\[\d+m")
LEGAL_TARGETS = "earliest, latest, current (the committed offset), an offset or @TIME"
NO_OFFSET = -1
WATCH_SECONDS = 2.0
STATE_STYLES = {
    "Stable": "good",
    "PreparingRebalance": "warning",
    "CompletingRebalance": "warning",
    "Assigning": "warning",
    "Reconciling": "warning",
    "Dead": "bad",
}
GROUP_TYPES = ("Classic", "Consumer")
"""Types of groups that `groups describe` describes; share and streams groups are only listed."""


def configure(parser: Parser) -> None:
    """Add the actions."""
    add_actions(parser, *ACTIONS)


run = checked(run_action)


# ---------------------------------------------------------------------------------------------------
# list, describe
# ---------------------------------------------------------------------------------------------------


def _state_style(state: str) -> str:
    return STATE_STYLES.get(state, "")


class _Watch(argparse.Action):
    """Stores the interval of `--watch [SECONDS]`; a word that is not a number is the name after it."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        value: object,
        option: str | None = None,
    ) -> None:
        namespace.watch = WATCH_SECONDS
        if isinstance(value, str):
            try:
                float(value)
            except ValueError:
                namespace.after_watch = [value]
                return
            try:
                namespace.watch = rate(value)
            except argparse.ArgumentTypeError as error:
                raise argparse.ArgumentError(self, str(error)) from None


def _add_watch(parser: Parser) -> None:
    parser.set_defaults(after_watch=[])
    parser.add_argument(
        "--watch",
        nargs="?",
        action=_Watch,
        metavar="SECONDS",
        help="print again every SECONDS (2) until Ctrl-C",
    )
    parser.add_argument("--times", type=positive, metavar="N", help="with --watch: print N times, then end")


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
    _add_watch(parser)


def _list(arguments: argparse.Namespace, output: Output) -> int:
    with connection.connected_admin(arguments) as client:
        return _watched(arguments, output, lambda: _print_groups(client, arguments, output))


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
    _add_watch(parser)


def _describe(arguments: argparse.Namespace, output: Output) -> int:
    before: dict[tuple[str, TopicPartition], int] = {}
    with connection.connected_admin(arguments) as client:
        return _watched(arguments, output, lambda: _print_descriptions(client, arguments, output, before))


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
    groups, failed = found(output, client.describe_groups(names, raise_errors=False))
    code = code or failed
    has_printed = False
    for name, group in groups.items():
        try:
            lags = client.group_lag(
                name,
                with_time=arguments.lag_time,
                isolation_level=arguments.isolation_level,
                raise_errors=False,
            )
            unknown = client.list_group_offsets(name, list(lags.errors)) if lags.errors else {}
        except KafkaError as error:
            output.error(f"{name}: {described(error)}")
            code = 1
            continue
        for partition, failure in lags.errors.items():
            output.error(f"{name}: {partition}: {described(failure)}")
            code = 1
        if has_printed:
            output.line("")
        has_printed = True
        changes = {
            one: Change(lag.lag - before[name, one])
            for one, lag in lags.succeeded.items()
            if (name, one) in before
        }
        before.update({(name, one): lag.lag for one, lag in lags.succeeded.items()})
        _print_group(arguments, output, group, lags, unknown, changes)
    return code


def _print_group(
    arguments: argparse.Namespace,
    output: Output,
    group: GroupDescription,
    lags: Outcomes[TopicPartition, PartitionLag],
    unknown: Mapping[TopicPartition, OffsetAndMetadata],
    changes: Mapping[TopicPartition, Change],
) -> None:
    """Print a group.

    `unknown` has the committed offsets of partitions whose lag is unknown, `changes` those of lags since
    --watch printed them last.
    """
    coordinator = group.coordinator
    fields = {
        "group": group.group_id,
        "state": group.state,
        "type": group.type,
        "assignor": group.assignor or None,
        "coordinator": None if coordinator is None else coordinator.id,
        "member_count": len(group.members),
        "lag": sum(lag.lag for lag in lags.succeeded.values()),
    }
    owners = {one: member for member in group.members for one in member.assignment}
    partitions = [
        _lag_fields(one, lags.succeeded.get(one), unknown.get(one), owners.get(one)) for one in sorted(lags)
    ]
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
        output.json({**fields, "partitions": partitions, "members": members})
        return
    styles = {"state": _state_style, "lag": positive_is_warning}
    change = Change(sum(changes.values())) if changes else None
    watched = {} if arguments.watch is None else {"change": change}
    output.item({**fields, **watched}, styles)
    columns = ["topic", "partition", "committed", "latest", "lag", *watched]
    if arguments.lag_time:
        columns.append("lag_seconds")
    columns += ["client_id", "host"]
    rows = [{**row, "change": changes.get(one)} for one, row in zip(sorted(lags), partitions, strict=True)]
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


def _watched(arguments: argparse.Namespace, output: Output, show: Callable[[], int]) -> int:
    """Print once, or with --watch until Ctrl-C, which is the usual end and no error."""
    if arguments.watch is None:
        if arguments.times is not None:
            raise UsageError("--times needs --watch")
        return show()
    import time

    def title() -> str:
        return f"{time.strftime('%Y-%m-%d %H:%M:%S')}, every {arguments.watch:g} s"

    code, count = 0, 0
    is_screen = is_terminal(sys.stdout) and not output.is_json
    try:
        while True:
            if is_screen:
                frame = io.StringIO()
                with redirect_stdout(frame), redirect_stderr(frame):
                    code = _shown_again(show, output) if count else show()
                _draw([title(), *frame.getvalue().splitlines()])
            else:
                if count:
                    output.line("")
                output.line(title())
                code = _shown_again(show, output) if count else show()
                sys.stdout.flush()
            count += 1
            if count == arguments.times:
                return code
            time.sleep(arguments.watch)
    except KeyboardInterrupt as error:
        if type(error) is not KeyboardInterrupt:  # SIGTERM
            raise
        return code


def _shown_again(show: Callable[[], int], output: Output) -> int:
    """Print again. Errors that can pass, such as those of a restart of all brokers, do not end --watch."""
    try:
        return show()
    except RetriableError as error:
        output.error(described(error))
        return 1


def _draw(lines: list[str]) -> None:
    """Draw over the last frame in one piece, so that the screen is never blank; cut what is below it."""
    size = shutil.get_terminal_size()
    heights = [max(1, -(-columns_of(STYLE.sub("", line)) // size.columns)) for line in lines]
    if sum(heights) >= size.lines:
        fitting = [end for end in range(len(lines)) if sum(heights[:end]) <= size.lines - 2]
        end = max(fitting, default=0)
        lines = [*lines[:end], f"... {counted(lines[end:], 'more line')}"]
        heights[end:] = [1]
    drawn = (
        (CLEAR_LINE + "\n") * height + f"\x1b[{height}A{line}\n"  # a long line fills several rows
        for height, line in zip(heights, lines, strict=True)
    )
    sys.stdout.write(HOME + "".join(drawn) + CLEAR_BELOW)
    sys.stdout.flush()


# ---------------------------------------------------------------------------------------------------
# reset
# ---------------------------------------------------------------------------------------------------


def _configure_reset(parser: Parser) -> None:
    parser.add_argument("group", metavar="GROUP", help="group id")
    parser.add_argument(
        "--topic",
        dest="selections",
        action="append",
        type=selection,
        metavar="TOPIC[:PARTITIONS]",
        help="only these partitions, such as orders:0,2-4; can be repeated (all with a committed offset)",
    )
    target = parser.add_mutually_exclusive_group(required=True)
    target.add_argument("--to", type=_target, metavar="POSITION", help=LEGAL_TARGETS)
    target.add_argument(
        "--shift-by", type=_shift, metavar="N", help="skip N records, or read N again if negative"
    )
    parser.add_argument("--dry-run", action="store_true", help="only print the new offsets (the default)")
    parser.add_argument("--execute", action="store_true", help="commit the new offsets")


def _target(text: str) -> dict[str, Any]:
    if text in NAMES or text == "current":
        return {"to": NAMES.get(text, text)}
    if text.startswith("@"):
        return {"timestamp_ms": time_ms(text[1:])}
    if text.isascii() and text.isdigit():
        return {"offset": int(text)}
    close = nearest([text], ("earliest", "latest", "current"))
    more = f"; did you mean {close[0]}?" if close else ""
    raise argparse.ArgumentTypeError(f"{text!r} is not valid; use {LEGAL_TARGETS}{more}")


def _shift(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not valid; use a number such as 10 or -10") from None


def _reset(arguments: argparse.Namespace, output: Output) -> int:
    from pykafka2.admin import ItemsFailed

    if arguments.execute and arguments.dry_run:
        raise UsageError("--execute cannot be combined with --dry-run")
    target = arguments.to if arguments.to is not None else {"shift": arguments.shift_by}
    with connection.connected_admin(arguments) as client:
        partitions = None
        if arguments.selections:
            partitions, code = resolved(client, output, arguments.selections)
            if code:
                output.error("nothing was changed")
                return code
        before = client.list_group_offsets(arguments.group)
        code = 0
        try:
            after: dict[TopicPartition, Any] = dict(
                client.reset_group_offsets(
                    arguments.group, partitions, dry_run=not arguments.execute, **target
                )
            )
        except ItemsFailed as error:
            outcomes: Outcomes[TopicPartition, Any] = error.outcomes  # type: ignore[assignment]
            after, code = found(output, outcomes)
        except (KeyboardInterrupt, KafkaTimeoutError):
            if arguments.execute:
                output.error(f"the offsets of {arguments.group} were reset or not; look with groups describe")
            raise
    rows = []
    for partition, offset in sorted(after.items()):
        old = before[partition].offset if partition in before else None
        change = None if old is None else Change(offset.offset - old)
        rows.append([arguments.group, partition.topic, partition.partition, old, offset.offset, change])
    if not rows:
        if not code:
            output.error(
                f"group {arguments.group} has no committed offsets; name the partitions with --topic"
            )
        return 1
    output.table(["group", "topic", "partition", "before", "after", "change"], rows, json_only=("group",))
    if arguments.execute:
        output.note(f"{counted(rows, 'offset')} committed.")
    else:
        output.note("Dry run: no offset was committed. Add --execute to commit them.")
    return code


# ---------------------------------------------------------------------------------------------------
# delete, delete-offsets, remove-members
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
            lambda names: client.delete_groups(names, raise_errors=False),
            "deleted",
            lambda name: {"group": name},
        )


def _configure_delete_offsets(parser: Parser) -> None:
    parser.add_argument("group", metavar="GROUP", help="group id")
    parser.add_argument(
        "--topic",
        dest="selections",
        action="append",
        required=True,
        type=selection,
        metavar="TOPIC[:PARTITIONS]",
        help="the partitions, such as orders:0,2-4; can be repeated",
    )
    add_yes(parser)


def _delete_offsets(arguments: argparse.Namespace, output: Output) -> int:
    with connection.connected_admin(arguments) as client:
        partitions, code = resolved(client, output, arguments.selections)
        if code:
            output.error("nothing was deleted")
            return code
        question = f"Delete {counted(partitions, 'offset')} of group {arguments.group}"
        if not is_confirmed(arguments, output, question, partitions):
            return 1
        return change(
            output,
            partitions,
            lambda some: client.delete_group_offsets(arguments.group, some, raise_errors=False),
            "deleted",
            lambda one: {"group": arguments.group, "topic": one.topic, "partition": one.partition},
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
        "Share and streams groups are only listed.\n\n"
        "  pykafka2 groups describe billing\n"
        "  pykafka2 groups describe billing --members\n"
        "  pykafka2 groups describe billing --lag-time --watch\n"
        "  pykafka2 groups describe billing --json | jq .lag\n"
        "  pykafka2 groups describe --json | jq -r 'select(.lag > 1000) | [.group, .lag] | @tsv'",
    ),
    Action(
        "reset",
        "commit other offsets for a group without members; a dry run without --execute",
        _reset,
        _configure_reset,
        "An offset outside the log is moved to the nearest end of the log. Add --execute to commit.\n\n"
        "  pykafka2 groups reset billing --to earliest\n"
        "  pykafka2 groups reset billing --to @2026-11-30T08:15:00Z --topic orders --execute\n"
        "  pykafka2 groups reset billing --shift-by -10 --topic orders:0 --execute",
    ),
    Action(
        "delete",
        "delete groups without members, with their offsets",
        _delete,
        _configure_delete,
        "In a terminal it asks first, unless --yes is typed.\n\n"
        "  pykafka2 groups delete billing\n"
        "  pykafka2 groups list 'test-*' --json | jq -r .group | xargs pykafka2 groups delete --yes",
    ),
    Action(
        "delete-offsets",
        "delete the committed offsets of partitions that no member reads",
        _delete_offsets,
        _configure_delete_offsets,
        "  pykafka2 groups delete-offsets billing --topic old-orders",
    ),
    Action(
        "remove-members",
        "remove members from a classic group, such as static ones that will not return",
        _remove_members,
        _configure_remove_members,
        "  pykafka2 groups remove-members billing host-7\n"
        "  pykafka2 groups remove-members billing --all --yes",
    ),
)
