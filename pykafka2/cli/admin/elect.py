"""Elect leaders of partitions: the preferred replicas, or replicas that are out of sync.

examples:
  pykafka2 elect preferred --all
  pykafka2 elect unclean orders:0          loses the records that the elected replica has not copied
  pykafka2 elect ACTION --help             what an action does, with examples
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import TYPE_CHECKING

from pykafka2.cli.common import connection
from pykafka2.cli.common.changes import add_yes, change, checked, is_confirmed
from pykafka2.cli.common.output import Output
from pykafka2.cli.common.parsing import Parser, UsageError
from pykafka2.cli.common.partitions import resolved, selection
from pykafka2.cli.common.verbs import Action, add_actions, run_action

if TYPE_CHECKING:
    from pykafka2 import TopicPartition
    from pykafka2.admin import Outcomes

SUMMARY = "elect leaders of partitions: preferred or unclean"


def configure(parser: Parser) -> None:
    """Add the actions."""
    add_actions(parser, *ACTIONS)


run = checked(run_action)


def _configure(parser: Parser) -> None:
    parser.add_argument(
        "selections", nargs="*", type=selection, metavar="TOPIC[:PARTITIONS]", help="such as orders:0,2-4"
    )
    parser.add_argument("--all", action="store_true", help="all partitions of the cluster that need it")


def _configure_unclean(parser: Parser) -> None:
    _configure(parser)
    add_yes(parser)


def _preferred(arguments: argparse.Namespace, output: Output) -> int:
    return _elect(arguments, output, unclean=False)


def _unclean(arguments: argparse.Namespace, output: Output) -> int:
    return _elect(arguments, output, unclean=True)


def _elect(arguments: argparse.Namespace, output: Output, *, unclean: bool) -> int:
    if bool(arguments.selections) == arguments.all:
        raise UsageError("name the partitions, such as orders:0, or use --all")
    with connection.connected_admin(arguments) as client:
        partitions, code = resolved(client, output, arguments.selections)
        if code:
            output.error("no leader was elected")
            return code
        if unclean:
            question = "Lose the records that were not copied, and elect a leader of"
            items: Iterable[object] = partitions or ["all partitions without a leader"]
            if not is_confirmed(arguments, output, question, items):
                return 1

        every: Outcomes[TopicPartition, bool] | None = None
        if arguments.all:
            every = client.elect_leaders(unclean=unclean, raise_errors=False)
            partitions = sorted(every)
            if not partitions:
                output.note("No election was needed.")
        return change(
            output,
            partitions,
            lambda some: every or client.elect_leaders(some, unclean=unclean, raise_errors=False),
            "elected",
            lambda one: {"topic": one.topic, "partition": one.partition},
            result=lambda is_new: "elected" if is_new else "not needed",
        )


ACTIONS = (
    Action(
        "preferred",
        "make the preferred replica (the first one) the leader",
        _preferred,
        _configure,
        "  pykafka2 elect preferred orders:0,2-4 billing\n  pykafka2 elect preferred --all",
    ),
    Action(
        "unclean",
        "make any live replica the leader of partitions without one",
        _unclean,
        _configure_unclean,
        "It loses the records that the elected replica has not copied. In a terminal it asks first, unless\n"
        "--yes is typed.\n\n"
        "  pykafka2 elect unclean orders:0",
    ),
)
