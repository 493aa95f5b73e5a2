"""Reset and delete the offsets of groups and share groups, for `pykafka2 groups`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from pykafka2.cli.admin.share_groups import is_share_group
from pykafka2.cli.common import connection
from pykafka2.cli.common.changes import add_yes, change, found, is_confirmed
from pykafka2.cli.common.output import Change, Output
from pykafka2.cli.common.parsing import Parser, UsageError, nearest, time_ms
from pykafka2.cli.common.partitions import resolved, selection
from pykafka2.cli.common.positions import NAMES
from pykafka2.cli.common.verbs import Action
from pykafka2.errors import KafkaTimeoutError
from pykafka2.text import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pykafka2 import KafkaAdminClient, TopicPartition
    from pykafka2.admin import Outcomes

LEGAL_TARGETS = "earliest, latest, current (the committed offset), an offset or @TIME"


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
    if arguments.execute and arguments.dry_run:
        raise UsageError("--execute cannot be combined with --dry-run")
    with connection.connected_admin(arguments) as client:
        partitions = None
        if arguments.selections:
            partitions, code = resolved(client, output, arguments.selections)
            if code:
                output.error("nothing was changed")
                return code
        is_share = is_share_group(client, arguments.group)
        before, after, code = _set_offsets(client, arguments, output, partitions, is_share=is_share)
    rows = []
    for partition, reached in sorted(after.items()):
        new: Any = getattr(reached, "offset", reached)
        old = before[partition].offset if partition in before else None
        difference = None if old is None else Change(new - old)
        rows.append([arguments.group, partition.topic, partition.partition, old, new, difference])
    if not rows:
        if not code:
            offsets = "start offsets" if is_share else "committed offsets"
            output.error(f"group {arguments.group} has no {offsets}; name the partitions with --topic")
        return 1
    output.table(["group", "topic", "partition", "before", "after", "change"], rows, json_only=("group",))
    if arguments.execute:
        output.note(
            f"{counted(rows, 'start offset')} set." if is_share else f"{counted(rows, 'offset')} committed."
        )
    elif is_share:
        output.note("Dry run: no start offset was set. Add --execute to set them.")
    else:
        output.note("Dry run: no offset was committed. Add --execute to commit them.")
    return code


def _set_offsets(
    client: KafkaAdminClient,
    arguments: argparse.Namespace,
    output: Output,
    partitions: list[TopicPartition] | None,
    *,
    is_share: bool,
) -> tuple[Mapping[TopicPartition, Any], Mapping[TopicPartition, Any], int]:
    """Set offsets, or in a dry run only calculate them. Return those before and after, and the exit code."""
    from pykafka2.admin import ItemsFailed

    group = arguments.group
    target = arguments.to if arguments.to is not None else {"shift": arguments.shift_by}
    before: Mapping[TopicPartition, Any]
    if is_share:
        before = client.list_share_group_offsets(group)
        reset: Callable[..., Mapping[TopicPartition, Any]] = client.reset_share_group_offsets
    else:
        before, reset = client.list_group_offsets(group), client.reset_group_offsets
    try:
        return before, dict(reset(group, partitions, dry_run=not arguments.execute, **target)), 0
    except ItemsFailed as error:
        outcomes: Outcomes[TopicPartition, Any] = error.outcomes  # type: ignore[assignment]
        return before, *found(output, outcomes)
    except (KeyboardInterrupt, KafkaTimeoutError):
        if arguments.execute:
            output.error(f"the offsets of {group} were reset or not; look with groups describe")
        raise


def _configure_delete(parser: Parser) -> None:
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


def _delete(arguments: argparse.Namespace, output: Output) -> int:
    with connection.connected_admin(arguments) as client:
        if is_share_group(client, arguments.group):
            return _delete_share(client, arguments, output)
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


def _delete_share(client: KafkaAdminClient, arguments: argparse.Namespace, output: Output) -> int:
    """Delete the start offsets of whole topics."""
    for one in arguments.selections:
        if one.numbers is not None:
            raise UsageError(
                f"{arguments.group} is a share group, whose offsets are deleted for whole topics; write "
                f"--topic {one.topic}"
            )
    topics = list(dict.fromkeys(one.topic for one in arguments.selections))
    question = f"Delete the offsets of {counted(topics, 'topic')} of share group {arguments.group}"
    if not is_confirmed(arguments, output, question, topics):
        return 1
    return change(
        output,
        topics,
        lambda some: client.delete_share_group_offsets(arguments.group, some, raise_errors=False),
        "deleted",
        lambda name: {"group": arguments.group, "topic": name, "partition": None},
    )


RESET = Action(
    "reset",
    "commit other offsets for a group without members; a dry run without --execute",
    _reset,
    _configure_reset,
    "An offset outside the log is moved to the nearest end of the log. Add --execute to commit.\n"
    "A share group has no committed offsets: the command sets its start offsets.\n\n"
    "  pykafka2 groups reset billing --to earliest\n"
    "  pykafka2 groups reset billing --to @2026-11-30T08:15:00Z --topic orders --execute\n"
    "  pykafka2 groups reset billing --shift-by -10 --topic orders:0 --execute",
)

DELETE = Action(
    "delete-offsets",
    "delete the committed offsets of partitions that no member reads",
    _delete,
    _configure_delete,
    "It deletes the start offsets of a share group for whole topics.\n\n"
    "  pykafka2 groups delete-offsets billing --topic old-orders",
)
