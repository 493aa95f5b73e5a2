"""List and describe transactions, find hanging ones, and abort them.

A hanging transaction is open in a partition, but no coordinator will end it: read_committed consumers wait at
its first record.

examples:
  pykafka2 transactions list --state Ongoing
  pykafka2 transactions find-hanging
  pykafka2 transactions ACTION --help      what an action does, with examples
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from pykafka2.cli.common import connection
from pykafka2.cli.common.changes import add_yes, change, checked, found, is_confirmed, listed
from pykafka2.cli.common.output import Output, time_or_none
from pykafka2.cli.common.parsing import Parser, UsageError, natural, nearest, rate
from pykafka2.cli.common.partitions import one_partition
from pykafka2.cli.common.verbs import Action, add_actions, run_action
from pykafka2.errors import IllegalArgument, KafkaError
from pykafka2.text import counted

if TYPE_CHECKING:
    from pykafka2.admin import TransactionDescription

SUMMARY = "list, describe and abort transactions, find hanging ones"

STATES = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
    "PrepareEpochFence",
)


def configure(parser: Parser) -> None:
    """Add the actions."""
    add_actions(parser, *ACTIONS)


run = checked(run_action)


# ---------------------------------------------------------------------------------------------------
# list, describe, find-hanging
# ---------------------------------------------------------------------------------------------------


def _configure_list(parser: Parser) -> None:
    parser.add_argument(
        "--state",
        action="append",
        type=_state,
        default=[],
        metavar="STATE",
        help=f"only this state; can be repeated: {', '.join(STATES)}",
    )
    parser.add_argument(
        "--producer-id", action="append", type=natural, default=[], metavar="ID", help="only this producer id"
    )
    parser.add_argument(
        "--longer-than",
        type=rate,
        metavar="SECONDS",
        help="only transactions that have been open longer than this",
    )
    parser.add_argument(
        "--pattern", metavar="REGEX", help="only transactional ids that match (RE2; Kafka 4.1 and newer)"
    )


def _state(text: str) -> str:
    """Return the state; brokers without transactions would not reject an unknown one."""
    for state in STATES:
        if state.lower() == text.lower():
            return state
    close = nearest([text], STATES)
    more = f"; did you mean {close[0]}?" if close else ""
    raise argparse.ArgumentTypeError(f"{text!r} is not valid; use {', '.join(STATES)}{more}")


def _list(arguments: argparse.Namespace, output: Output) -> int:
    with connection.connected_admin(arguments) as client:
        listings = client.list_transactions(
            states=arguments.state,
            producer_ids=arguments.producer_id,
            longer_than=arguments.longer_than,
            pattern=arguments.pattern,
            raise_errors=False,
        )
    every, code = listed(output, listings)
    output.table(
        ["transactional_id", "producer_id", "state"],
        [[one.transactional_id, one.producer_id, one.state] for one in every],
    )
    return code


def _configure_describe(parser: Parser) -> None:
    parser.add_argument("ids", nargs="+", metavar="TRANSACTIONAL_ID", help="transactional ids")


def _describe(arguments: argparse.Namespace, output: Output) -> int:
    with connection.connected_admin(arguments) as client:
        every, code = found(output, client.describe_transactions(arguments.ids, raise_errors=False))
    columns = [
        "transactional_id",
        "state",
        "producer_id",
        "producer_epoch",
        "coordinator",
        "timeout_seconds",
        "start_time",
        "partitions",
    ]
    if every or not code:
        output.table(columns, [_fields(one) for one in every.values()], can_be_cut=("partitions",))
    return code


def _fields(one: TransactionDescription) -> list[Any]:
    return [
        one.transactional_id,
        one.state,
        one.producer_id,
        one.producer_epoch,
        one.coordinator_id,
        one.timeout,
        time_or_none(one.start_time_ms),
        [str(partition) for partition in one.partitions],
    ]


def _configure_find_hanging(parser: Parser) -> None:
    parser.add_argument(
        "--older-than",
        type=rate,
        default=900.0,
        metavar="SECONDS",
        help="only if the last record is older than this plus five minutes; use the largest "
        "transaction.max.timeout.ms of the brokers (900)",
    )
    parser.add_argument("--topic", action="append", metavar="TOPIC", help="only this topic; can be repeated")


def _find_hanging(arguments: argparse.Namespace, output: Output) -> int:
    with connection.connected_admin(arguments) as client:
        every = client.find_hanging_transactions(older_than=arguments.older_than, topics=arguments.topic)
    output.table(
        [
            "topic",
            "partition",
            "producer_id",
            "producer_epoch",
            "coordinator_epoch",
            "start_offset",
            "last_timestamp",
            "transactional_id",
        ],
        [
            [
                one.partition.topic,
                one.partition.partition,
                one.producer_id,
                one.producer_epoch,
                one.coordinator_epoch,
                one.start_offset,
                time_or_none(one.last_timestamp),
                one.transactional_id,
            ]
            for one in every
        ],
    )
    if not every:
        output.note("No transaction hangs.")
    return 0


# ---------------------------------------------------------------------------------------------------
# abort
# ---------------------------------------------------------------------------------------------------


def _configure_abort(parser: Parser) -> None:
    parser.add_argument(
        "ids",
        nargs="*",
        metavar="TRANSACTIONAL_ID",
        help="abort their transactions and fence their producers",
    )
    hanging = parser.add_argument_group("a hanging transaction, as find-hanging prints it")
    hanging.add_argument("--partition", type=one_partition, metavar="TOPIC:N", help="the partition")
    hanging.add_argument("--producer-id", type=natural, metavar="ID", help="the producer id")
    hanging.add_argument("--producer-epoch", type=natural, metavar="N", help="the producer epoch")
    hanging.add_argument(
        "--coordinator-epoch", type=natural, metavar="N", help="the coordinator's epoch (looked up)"
    )
    add_yes(parser)


def _abort(arguments: argparse.Namespace, output: Output) -> int:
    from pykafka2.admin import Outcomes

    hanging = (arguments.partition, arguments.producer_id, arguments.producer_epoch)
    if arguments.ids:
        if any(value is not None for value in (*hanging, arguments.coordinator_epoch)):
            raise UsageError("TRANSACTIONAL_ID cannot be combined with --partition and --producer-id")
        question = f"Abort the transactions of {counted(set(arguments.ids), 'transactional id')}"
        if not is_confirmed(arguments, output, question, arguments.ids):
            return 1

        def terminate(names: list[str]) -> Outcomes[str, None]:
            (name,) = names
            # The call would register an unknown id.
            known = client.describe_transactions([name], raise_errors=False)
            if not known.errors:
                try:
                    client.force_terminate_transaction(name)
                except KafkaError as error:
                    return Outcomes({}, {name: error})
            return Outcomes(dict.fromkeys(known.succeeded), known.errors)

        with connection.connected_admin(arguments) as client:
            return change(
                output, arguments.ids, terminate, "aborted", lambda name: {"transactional_id": name}, batch=1
            )
    if any(value is None for value in hanging):
        raise UsageError(
            "name TRANSACTIONAL_ID, or a hanging transaction by --partition, --producer-id and "
            "--producer-epoch"
        )
    partition = arguments.partition
    question = f"Abort the transaction of producer {arguments.producer_id} in"
    if not is_confirmed(arguments, output, question, [partition]):
        return 1

    def write_marker(_: object) -> Outcomes[Any, None]:
        try:
            client.abort_transaction(
                partition,
                arguments.producer_id,
                arguments.producer_epoch,
                coordinator_epoch=arguments.coordinator_epoch,
            )
        except IllegalArgument:
            raise
        except KafkaError as error:
            return Outcomes({}, {partition: error})
        return Outcomes({partition: None})

    with connection.connected_admin(arguments) as client:
        return change(
            output,
            [partition],
            write_marker,
            "aborted",
            lambda one: {
                "topic": one.topic,
                "partition": one.partition,
                "producer_id": arguments.producer_id,
            },
        )


ACTIONS = (
    Action(
        "list",
        "list transactional ids with the states of their transactions",
        _list,
        _configure_list,
        "  pykafka2 transactions list\n"
        "  pykafka2 transactions list --state Ongoing --longer-than 60\n"
        "  pykafka2 transactions list --pattern 'billing-.*' --json",
    ),
    Action(
        "describe",
        "describe transactions: state, producer, timeout, partitions",
        _describe,
        _configure_describe,
        "  pykafka2 transactions describe billing-1",
    ),
    Action(
        "find-hanging",
        "find transactions that are open in a partition, but that no coordinator will end",
        _find_hanging,
        _configure_find_hanging,
        "  pykafka2 transactions find-hanging\n"
        "  pykafka2 transactions find-hanging --topic orders --older-than 3600",
    ),
    Action(
        "abort",
        "abort the transactions of transactional ids, or a hanging one",
        _abort,
        _configure_abort,
        "The records of an aborted transaction are lost to read_committed consumers.\n"
        "In a terminal it asks first, unless --yes is typed.\n\n"
        "  pykafka2 transactions abort billing-1\n"
        "  pykafka2 transactions abort --partition orders:0 --producer-id 4001 --producer-epoch 0",
    ),
)
