"""Move replicas of partitions to other brokers: start, list and cancel reassignments.

examples:
  pykafka2 reassign start orders:0=2,0,1 --wait
  pykafka2 reassign list
  pykafka2 reassign ACTION --help          what an action does, with examples
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pykafka2.cli.common import connection
from pykafka2.cli.common.changes import add_yes, change, checked, integers, is_confirmed
from pykafka2.cli.common.output import Output
from pykafka2.cli.common.parsing import Parser, UsageError
from pykafka2.cli.common.partitions import Selection, resolved, selection
from pykafka2.cli.common.verbs import Action, add_actions, run_action
from pykafka2.text import counted

if TYPE_CHECKING:
    from pykafka2 import KafkaAdminClient, TopicPartition
    from pykafka2.admin import Outcomes

SUMMARY = "move replicas to other brokers: start, list and cancel"
POLL_SECONDS = 1.0


def configure(parser: Parser) -> None:
    """Add the actions."""
    add_actions(parser, *ACTIONS)


run = checked(run_action)


def _fields(partition: TopicPartition) -> dict[str, Any]:
    return {"topic": partition.topic, "partition": partition.partition}


# ---------------------------------------------------------------------------------------------------
# list
# ---------------------------------------------------------------------------------------------------


def _add_selections(parser: Parser) -> None:
    parser.add_argument(
        "selections", nargs="*", type=selection, metavar="TOPIC[:PARTITIONS]", help="such as orders:0,2-4"
    )


def _list(arguments: argparse.Namespace, output: Output) -> int:
    code = 0
    with connection.connected_admin(arguments) as client:
        partitions = None
        if arguments.selections:
            partitions, code = resolved(client, output, arguments.selections)
        moving = {} if partitions == [] else client.list_partition_reassignments(partitions)
    output.table(
        ["topic", "partition", "replicas", "adding", "removing"],
        [
            [*partition, one.replicas, one.adding_replicas, one.removing_replicas]
            for partition, one in moving.items()
        ],
    )
    if not moving and not code:
        output.note("No partition is moving.")
    return code


# ---------------------------------------------------------------------------------------------------
# start
# ---------------------------------------------------------------------------------------------------


def _configure_start(parser: Parser) -> None:
    parser.add_argument(
        "targets",
        nargs="*",
        type=_target,
        metavar="TOPIC[:PARTITIONS]=BROKERS",
        help="the brokers of these partitions, the preferred leader first, such as orders:0,2-4=2,0,1",
    )
    parser.add_argument(
        "--plan", metavar="FILE", help="a JSON file, as kafka-reassign-partitions.sh reads and prints it"
    )
    parser.add_argument(
        "--keep-replication-factor",
        action="store_true",
        help="reject a change of the number of replicas (Kafka 4.1 and newer)",
    )
    parser.add_argument("--wait", action="store_true", help="wait until all replicas are moved")


def _target(text: str) -> tuple[Selection, list[int]]:
    partitions, equals, brokers = text.rpartition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not valid; write orders:0=2,0,1")
    return selection(partitions), integers(brokers)


def _start(arguments: argparse.Namespace, output: Output) -> int:
    if bool(arguments.targets) == bool(arguments.plan):
        raise UsageError("name the targets, such as orders:0=2,0,1, or use --plan FILE")
    targets: list[tuple[Selection, list[int]]] = arguments.targets or list(_planned(arguments.plan))
    with connection.connected_admin(arguments) as client:
        wanted: dict[TopicPartition, list[int]] = {}
        for chosen, brokers in targets:
            partitions, code = resolved(client, output, [chosen])
            if code:
                output.error("nothing was moved")
                return code
            for partition in partitions:
                if partition in wanted:
                    raise UsageError(f"{partition} has two targets; name it once")
                wanted[partition] = brokers
        started: list[TopicPartition] = []

        def start(some: list[TopicPartition]) -> Outcomes[TopicPartition, None]:
            outcomes = client.alter_partition_reassignments(
                {one: wanted[one] for one in some},
                allow_replication_factor_change=not arguments.keep_replication_factor,
                raise_errors=False,
            )
            started.extend(outcomes.succeeded)
            return outcomes

        code = change(output, wanted, start, "started", lambda one: {**_fields(one), "brokers": wanted[one]})
        if arguments.wait and started:
            _wait(client, output, started)
            output.note(f"{counted(started, 'partition')} moved." if code else "All replicas are moved.")
    return code


def _planned(path: str) -> Iterator[tuple[Selection, list[int]]]:
    """Return the targets of a file. Raise `UsageError` and OSError."""
    import json

    with open(path, encoding="utf-8-sig") as file:  # PowerShell writes a byte order mark
        try:
            entries = json.load(file)["partitions"]
            if not entries:
                raise ValueError("the file names no partition")
            for entry in entries:
                topic, number, brokers = entry["topic"], entry["partition"], entry["replicas"]
                if not isinstance(topic, str) or type(number) is not int or not isinstance(brokers, list):
                    raise TypeError(f"{entry!r} is not valid")
                if any(log_dir != "any" for log_dir in entry.get("log_dirs", ())):
                    raise TypeError(
                        f"log_dirs of {topic}-{number} must be 'any': directories cannot be chosen"
                    )
                yield Selection(topic, (number,)), brokers
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise UsageError(
                f"--plan {path}: {type(error).__name__}: {error}; write "
                '{"partitions": [{"topic": "orders", "partition": 0, "replicas": [2, 0, 1]}]}'
            ) from None


def _wait(client: KafkaAdminClient, output: Output, every: list[TopicPartition]) -> None:
    with output.progress(len(every), "moved", unit=" partitions") as bar:
        left = len(every)
        while moving := len(client.list_partition_reassignments(every)):
            bar.update(left - moving)
            left = moving
            time.sleep(POLL_SECONDS)


# ---------------------------------------------------------------------------------------------------
# cancel
# ---------------------------------------------------------------------------------------------------


def _configure_cancel(parser: Parser) -> None:
    _add_selections(parser)
    parser.add_argument("--all", action="store_true", help="all reassignments that are not done")
    add_yes(parser)


def _cancel(arguments: argparse.Namespace, output: Output) -> int:
    if bool(arguments.selections) == arguments.all:
        raise UsageError("name the partitions, such as orders:0, or use --all")
    with connection.connected_admin(arguments) as client:
        if arguments.all:
            partitions = list(client.list_partition_reassignments())
            if not partitions:
                output.note("No partition is moving.")
                return 0
        else:
            partitions, code = resolved(client, output, arguments.selections)
            if code:
                output.error("nothing was cancelled")
                return code
        question = f"Cancel the reassignment of {counted(partitions, 'partition')}"
        if not is_confirmed(arguments, output, question, partitions):
            return 1
        return change(
            output,
            partitions,
            lambda some: client.alter_partition_reassignments(dict.fromkeys(some), raise_errors=False),
            "cancelled",
            _fields,
        )


ACTIONS = (
    Action(
        "list",
        "list the partitions that are moving",
        _list,
        _add_selections,
        "  pykafka2 reassign list\n  pykafka2 reassign list orders:0 --json",
    ),
    Action(
        "start",
        "move partitions to these brokers",
        _start,
        _configure_start,
        "The brokers copy the replicas in the background. --wait returns once they are moved; then\n"
        "`pykafka2 elect preferred` gives each partition its preferred leader.\n\n"
        "  pykafka2 reassign start orders=1,2,0 billing:0-3=2,0,1\n"
        "  pykafka2 reassign start --plan plan.json --wait",
    ),
    Action(
        "cancel",
        "cancel reassignments: the replicas stay on their former brokers",
        _cancel,
        _configure_cancel,
        "In a terminal it asks first, unless --yes is typed.\n\n"
        "  pykafka2 reassign cancel orders:0\n"
        "  pykafka2 reassign cancel --all",
    ),
)
