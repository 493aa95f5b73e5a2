"""List, describe, create, alter, delete and truncate topics, add partitions, and list offsets.

examples:
  pykafka2 topics list
  pykafka2 topics create orders --partitions 6 --setting retention.ms=86400000
  pykafka2 topics ACTION --help            what an action does, with examples
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from pykafka2.cli import connection
from pykafka2.cli.changes import (
    add_dry_run,
    add_isolation_level,
    add_yes,
    change,
    checked,
    counted,
    found,
    integers,
    is_confirmed,
    matching,
    settings,
)
from pykafka2.cli.output import Output, time_or_none
from pykafka2.cli.parsing import Parser, UsageError, partition_count, replica_count
from pykafka2.cli.partitions import resolved, selection
from pykafka2.cli.positions import NAMES, Position, offset
from pykafka2.cli.verbs import Action, add_actions, run_action

if TYPE_CHECKING:
    from pykafka2 import KafkaAdminClient, TopicPartition
    from pykafka2.admin import TopicDescription

SUMMARY = "list, describe, create, alter, delete and truncate topics"
SPECS = {
    "earliest": "earliest",
    "latest": "latest",
    "max-timestamp": "max_timestamp",
    "earliest-local": "earliest_local",
    "latest-tiered": "latest_tiered",
}
"""Offsets of `topics offsets --at`, by what is typed."""


def configure(parser: Parser) -> None:
    """Add the actions."""
    add_actions(parser, *ACTIONS)


run = checked(run_action)


# ---------------------------------------------------------------------------------------------------
# list, describe, offsets
# ---------------------------------------------------------------------------------------------------


def _configure_list(parser: Parser) -> None:
    parser.add_argument("patterns", nargs="*", metavar="PATTERN", help="only topics that match, such as 'a*'")
    parser.add_argument("--internal", action="store_true", help="list internal topics, too")
    parser.add_argument("--names", action="store_true", help="print only the names, one per line")


def _list(arguments: argparse.Namespace, output: Output) -> int:
    with connection.connected_admin(arguments) as client:
        names = matching(client.list_topics(include_internal=arguments.internal), arguments.patterns)
        if arguments.names:
            for name in names:
                if output.is_json:
                    output.json({"topic": name})
                else:
                    output.line(name)
            return 0
        topics, code = found(output, client.describe_topics(names, raise_errors=False))
    output.table(
        ["topic", "partition_count", "replication_factor", "internal"],
        [
            [name, len(topic.partitions), _replication_factor(topic), topic.is_internal]
            for name, topic in sorted(topics.items())
        ],
    )
    return code


def _replication_factor(topic: TopicDescription) -> int | None:
    return max((len(one.replicas) for one in topic.partitions), default=None)


def _configure_describe(parser: Parser) -> None:
    parser.add_argument("topics", nargs="*", metavar="TOPIC", help="topics; all if none is named")
    parser.add_argument("--internal", action="store_true", help="with no TOPIC: internal topics, too")
    parser.add_argument(
        "--under-replicated",
        action="store_true",
        help="only partitions with replicas that are not in sync, and topics with such partitions",
    )
    parser.add_argument(
        "--without-leader", action="store_true", help="only partitions without a leader, and their topics"
    )


def _describe(arguments: argparse.Namespace, output: Output) -> int:
    from pykafka2.admin import ConfigResource

    with connection.connected_admin(arguments) as client:
        names = arguments.topics or client.list_topics(include_internal=arguments.internal)
        topics, code = found(output, client.describe_topics(names, raise_errors=False))
        resources = {name: ConfigResource("TOPIC", name) for name in topics}
        configs, failed = found(output, client.describe_configs(resources.values(), raise_errors=False))
    is_filtered = arguments.under_replicated or arguments.without_leader
    shown = 0
    for name, topic in topics.items():
        partitions = [
            _partition_fields(one)
            for one in topic.partitions
            if not is_filtered
            or (arguments.under_replicated and len(one.isr) < len(one.replicas))
            or (arguments.without_leader and one.leader < 0)
        ]
        if is_filtered and not partitions:
            continue
        entries = configs.get(resources[name], {})
        changed = {
            entry.name: entry.value for entry in entries.values() if entry.source == "DYNAMIC_TOPIC_CONFIG"
        }
        if shown:
            output.line("")
        shown += 1
        _print_topic(output, topic, partitions, changed)
    return code or failed


def _partition_fields(partition: Any) -> dict[str, Any]:
    return {
        "partition": partition.partition,
        "leader": None if partition.leader < 0 else partition.leader,
        "leader_epoch": partition.leader_epoch,
        "replicas": list(partition.replicas),
        "isr": list(partition.isr),
        "offline_replicas": list(partition.offline_replicas),
    }


def _print_topic(
    output: Output, topic: TopicDescription, partitions: list[dict[str, Any]], configs: dict[str, Any]
) -> None:
    from uuid import UUID

    fields = {
        "topic": topic.name,
        "topic_id": str(UUID(bytes=topic.topic_id)),
        "internal": topic.is_internal,
        "partition_count": len(topic.partitions),
        "replication_factor": _replication_factor(topic),
        "configs": configs,
    }
    if output.is_json:
        output.json({**fields, "partitions": partitions})
        return
    output.item(fields)
    columns = ["partition", "leader", "replicas", "isr", "offline_replicas"]
    output.table(
        columns,
        [[one[name] for name in columns] for one in partitions],
    )


def _configure_offsets(parser: Parser) -> None:
    parser.add_argument(
        "selections", nargs="+", type=selection, metavar="TOPIC[:PARTITIONS]", help="such as orders:0,2-4"
    )
    parser.add_argument(
        "--at",
        type=_spec,
        metavar="POSITION",
        help=f"{', '.join(SPECS)} or @TIME; without it earliest, latest and their difference",
    )
    add_isolation_level(parser, "read_uncommitted")


def _spec(text: str) -> str | int:
    if text.startswith("@"):
        return offset(text).number
    if text in SPECS or text in NAMES:
        return SPECS.get(text) or NAMES[text]
    from pykafka2.cli.parsing import nearest

    close = nearest([text], SPECS)
    raise argparse.ArgumentTypeError(
        f"{text!r} is not valid; use {', '.join(SPECS)} or @TIME"
        + (f"; did you mean {close[0]}?" if close else "")
    )


def _offsets(arguments: argparse.Namespace, output: Output) -> int:
    from pykafka2.admin import Outcomes

    isolation: str = arguments.isolation_level
    with connection.connected_admin(arguments) as client:
        partitions, code = resolved(client, output, arguments.selections)
        if arguments.at is not None:
            at, failed = found(
                output,
                client.list_offsets(
                    dict.fromkeys(partitions, arguments.at),
                    isolation_level=isolation,
                    raise_errors=False,
                ),
            )
            output.table(
                ["topic", "partition", "offset", "timestamp"],
                [
                    [one.topic, one.partition, _or_none(at[one].offset), time_or_none(at[one].timestamp)]
                    for one in partitions
                    if one in at
                ],
            )
            return code or failed
        starts = client.list_offsets(dict.fromkeys(partitions, "earliest"), raise_errors=False)
        ends = client.list_offsets(
            dict.fromkeys(partitions, "latest"), isolation_level=isolation, raise_errors=False
        )
    known, failed = found(
        output, Outcomes({one: one for one in partitions}, {**starts.errors, **ends.errors})
    )
    rows = [(one, starts[one].offset, ends[one].offset) for one in known]
    if rows or not (code or failed):
        output.table(
            ["topic", "partition", "earliest", "latest", "offsets"],
            [[one.topic, one.partition, start, end, end - start] for one, start, end in rows],
        )
    return code or failed


def _or_none(number: int) -> int | None:
    return None if number < 0 else number


# ---------------------------------------------------------------------------------------------------
# create, alter, add-partitions
# ---------------------------------------------------------------------------------------------------


def _configure_create(parser: Parser) -> None:
    parser.add_argument("topics", nargs="+", metavar="TOPIC", help="the names")
    parser.add_argument(
        "-p",
        "--partitions",
        type=partition_count,
        metavar="N",
        help="number of partitions (the brokers' default)",
    )
    parser.add_argument(
        "-r",
        "--replication-factor",
        type=replica_count,
        metavar="N",
        help="number of replicas of each partition (the brokers' default)",
    )
    parser.add_argument(
        "--assignment",
        type=_assignment,
        metavar="A:B,C:D",
        help="the brokers of each partition, the preferred leader first, such as 0:1,1:0",
    )
    parser.add_argument(
        "-c",
        "--setting",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a setting; can be repeated",
    )
    parser.add_argument("--if-not-exists", action="store_true", help="do not fail if a topic exists")
    add_dry_run(parser)


def _assignment(text: str) -> dict[int, list[int]]:
    parts = [integers(part.replace(":", ",")) for part in text.split(",")]
    return dict(enumerate(parts))


def _create(arguments: argparse.Namespace, output: Output) -> int:
    from pykafka2.admin import NewTopic, Outcomes
    from pykafka2.errors import TopicAlreadyExists

    if arguments.assignment and (arguments.partitions or arguments.replication_factor):
        raise UsageError("--assignment cannot be combined with --partitions or --replication-factor")
    configs = settings("--setting", arguments.setting)

    def call(names: list[str]) -> Outcomes[str, Any]:
        topics = [
            NewTopic(
                name,
                arguments.partitions or -1,
                arguments.replication_factor or -1,
                configs,
                arguments.assignment,
            )
            for name in names
        ]
        outcomes = client.create_topics(
            topics,
            validate_only=arguments.dry_run,
            wait_for_metadata=not arguments.dry_run,
            raise_errors=False,
        )
        if not arguments.if_not_exists:
            return outcomes
        errors = {
            name: error
            for name, error in outcomes.errors.items()
            if not isinstance(error, TopicAlreadyExists)
        }
        existing = dict.fromkeys(outcomes.errors.keys() - errors.keys())
        return Outcomes({**outcomes.succeeded, **existing}, errors)

    def values(topic: TopicDescription | None) -> dict[str, Any]:
        if topic is None:
            return {"existing": True}
        return {} if not arguments.if_not_exists else {"existing": False}

    with connection.connected_admin(arguments) as client:
        done = "valid" if arguments.dry_run else "created"
        return change(output, arguments.topics, call, done, _topic_fields, values)


def _topic_fields(name: str) -> dict[str, Any]:
    return {"topic": name}


def _configure_alter(parser: Parser) -> None:
    parser.add_argument("topics", nargs="+", metavar="TOPIC", help="the names")
    for option, summary in (
        ("--set", "set this value"),
        ("--append", "append these items to a list, such as cleanup.policy=compact"),
        ("--subtract", "remove these items from a list"),
    ):
        parser.add_argument(
            option, action="append", default=[], metavar="NAME=VALUE", help=f"{summary}; can be repeated"
        )
    parser.add_argument(
        "--reset", action="append", default=[], metavar="NAME", help="restore the default; can be repeated"
    )
    add_dry_run(parser)


def _alter(arguments: argparse.Namespace, output: Output) -> int:
    from pykafka2.admin import ConfigResource, Outcomes

    changes: dict[str, Any] = {}
    for name, value in [
        *settings("--set", arguments.set).items(),
        *((name, ("APPEND", value)) for name, value in settings("--append", arguments.append).items()),
        *((name, ("SUBTRACT", value)) for name, value in settings("--subtract", arguments.subtract).items()),
        *((name, None) for name in arguments.reset),
    ]:
        if name in changes:
            raise UsageError(f"setting {name} is changed twice; change it once")
        changes[name] = value
    if not changes:
        raise UsageError("nothing to alter; use --set, --append, --subtract or --reset")

    def call(names: list[str]) -> Outcomes[str, None]:
        outcomes = client.alter_configs(
            {ConfigResource("TOPIC", name): changes for name in names},
            validate_only=arguments.dry_run,
            raise_errors=False,
        )
        return Outcomes(
            {resource.name: None for resource in outcomes.succeeded},
            {resource.name: error for resource, error in outcomes.errors.items()},
        )

    with connection.connected_admin(arguments) as client:
        done = "valid" if arguments.dry_run else "altered"
        return change(
            output, arguments.topics, call, done, _topic_fields, lambda _: {"settings": list(changes)}
        )


def _configure_add_partitions(parser: Parser) -> None:
    parser.add_argument("topics", nargs="+", metavar="TOPIC", help="the names")
    group = parser.add_mutually_exclusive_group(required=True)
    group.add_argument("-n", "--count", type=partition_count, metavar="N", help="add N partitions")
    group.add_argument(
        "--total", type=partition_count, metavar="N", help="add partitions until the topic has N"
    )
    add_dry_run(parser)


def _add_partitions(arguments: argparse.Namespace, output: Output) -> int:
    from pykafka2.admin import Outcomes

    def call(names: list[str]) -> Outcomes[str, int]:
        totals = dict.fromkeys(names, arguments.total)
        errors: dict[str, Any] = {}
        if arguments.count is not None:
            topics = client.describe_topics(names, raise_errors=False)
            errors = topics.errors
            totals = {
                name: len(topic.partitions) + arguments.count for name, topic in topics.succeeded.items()
            }
        if not totals:
            return Outcomes({}, errors)
        outcomes = client.create_partitions(totals, validate_only=arguments.dry_run, raise_errors=False)
        return Outcomes({name: totals[name] for name in outcomes.succeeded}, {**errors, **outcomes.errors})

    with connection.connected_admin(arguments) as client:
        done = "valid" if arguments.dry_run else "partitions added"
        return change(
            output, arguments.topics, call, done, _topic_fields, lambda total: {"partition_count": total}
        )


# ---------------------------------------------------------------------------------------------------
# delete, truncate
# ---------------------------------------------------------------------------------------------------


def _configure_delete(parser: Parser) -> None:
    parser.add_argument("topics", nargs="+", metavar="TOPIC", help="the names")
    parser.add_argument("--if-exists", action="store_true", help="do not fail if a topic does not exist")
    add_yes(parser)


def _delete(arguments: argparse.Namespace, output: Output) -> int:
    from pykafka2.admin import Outcomes
    from pykafka2.errors import UnknownTopicOrPartition

    def call(names: list[str]) -> Outcomes[str, bool]:
        outcomes = client.delete_topics(names, raise_errors=False)
        deleted = dict.fromkeys(outcomes.succeeded, True)
        if not arguments.if_exists:
            return Outcomes(deleted, outcomes.errors)
        errors = {
            name: error
            for name, error in outcomes.errors.items()
            if not isinstance(error, UnknownTopicOrPartition)
        }
        return Outcomes({**deleted, **dict.fromkeys(outcomes.errors.keys() - errors.keys(), False)}, errors)

    question = f"Delete {counted(set(arguments.topics), 'topic')} with all records"
    if not is_confirmed(arguments, output, question, arguments.topics):
        return 1
    with connection.connected_admin(arguments) as client:
        return change(
            output,
            arguments.topics,
            call,
            "deleted",
            _topic_fields,
            lambda existed: {"existed": existed} if arguments.if_exists else {},
        )


def _configure_truncate(parser: Parser) -> None:
    parser.add_argument(
        "selections", nargs="+", type=selection, metavar="TOPIC[:PARTITIONS]", help="such as orders:0,2-4"
    )
    parser.add_argument(
        "--before",
        type=offset,
        default=Position("latest"),
        metavar="POSITION",
        help="delete what is before latest, N, +N (after the start), -N (before the end) or @TIME (latest)",
    )
    add_yes(parser)


def _truncate(arguments: argparse.Namespace, output: Output) -> int:
    with connection.connected_admin(arguments) as client:
        partitions, code = resolved(client, output, arguments.selections)
        if code:
            output.error("nothing was deleted")
            return code
        targets = _offsets_before(client, partitions, arguments.before)
        before = arguments.before.text or "the end"
        question = f"Delete the records before {before} of {counted(partitions, 'partition')}"
        if not is_confirmed(arguments, output, question, partitions):
            return 1
        return change(
            output,
            partitions,
            lambda some: client.delete_records({one: targets[one] for one in some}, raise_errors=False),
            "truncated",
            lambda one: {"topic": one.topic, "partition": one.partition},
            lambda start: {"earliest": start},
        )


def _offsets_before(
    client: KafkaAdminClient, partitions: list[TopicPartition], position: Position
) -> dict[TopicPartition, int]:
    """Return the offset of a position in each partition; records that arrive later are not before it."""
    if position.kind == "offset":
        return dict.fromkeys(partitions, position.number)
    end = client.list_offsets(dict.fromkeys(partitions, "latest"))
    if position.kind == "latest":
        return {one: at.offset for one, at in end.items()}
    if position.kind == "time":
        found = client.list_offsets(dict.fromkeys(partitions, position.number))
        return {one: end[one].offset if at.offset < 0 else at.offset for one, at in found.items()}
    first = client.list_offsets(dict.fromkeys(partitions, "earliest"))
    distance = {"after_start": position.number, "before_end": -position.number}.get(position.kind, 0)
    return {
        one: max(
            first[one].offset,
            min(end[one].offset, (end if position.kind == "before_end" else first)[one].offset + distance),
        )
        for one in partitions
    }


ACTIONS = (
    Action(
        "list",
        "list topics with partitions and replication factor",
        _list,
        _configure_list,
        "  pykafka2 topics list\n"
        "  pykafka2 topics list 'orders*' --internal\n"
        "  pykafka2 topics list --names | xargs -n1 echo",
    ),
    Action(
        "describe",
        "describe partitions, leaders, replicas and the settings of topics",
        _describe,
        _configure_describe,
        "  pykafka2 topics describe orders\n"
        "  pykafka2 topics describe --under-replicated\n"
        "  pykafka2 topics describe orders --json | jq '.partitions[].leader'",
    ),
    Action(
        "create",
        "create topics",
        _create,
        _configure_create,
        "  pykafka2 topics create orders payments --partitions 6 --replication-factor 3\n"
        "  pykafka2 topics create audit -c cleanup.policy=compact --if-not-exists\n"
        "  pykafka2 topics create orders --assignment 0:1,1:2,2:0 --dry-run",
    ),
    Action(
        "alter",
        "alter the settings of topics; other settings stay",
        _alter,
        _configure_alter,
        "  pykafka2 topics alter orders --set retention.ms=86400000 --reset max.message.bytes\n"
        "  pykafka2 topics alter orders payments --append cleanup.policy=compact --dry-run",
    ),
    Action(
        "add-partitions",
        "add partitions; records with a key go to other partitions afterwards",
        _add_partitions,
        _configure_add_partitions,
        "  pykafka2 topics add-partitions orders --total 12\n"
        "  pykafka2 topics add-partitions orders payments --count 2 --dry-run",
    ),
    Action(
        "delete",
        "delete topics with all records",
        _delete,
        _configure_delete,
        "In a terminal it asks first, unless --yes is typed.\n\n"
        "  pykafka2 topics delete orders\n"
        "  pykafka2 topics list 'test-*' --names | xargs pykafka2 topics delete --yes",
    ),
    Action(
        "truncate",
        "delete records, the oldest first; the topics stay",
        _truncate,
        _configure_truncate,
        "In a terminal it asks first, unless --yes is typed.\n\n"
        "  pykafka2 topics truncate orders                   all records\n"
        "  pykafka2 topics truncate orders:0 --before 1000   those of partition 0 before offset 1000\n"
        "  pykafka2 topics truncate orders --before @-7d     those older than seven days",
    ),
    Action(
        "offsets",
        "list the offsets of partitions, and count their records",
        _offsets,
        _configure_offsets,
        "OFFSETS is LATEST - EARLIEST: the number of records, unless the topic is compacted or has\n"
        "transactions.\n\n"
        "  pykafka2 topics offsets orders\n"
        "  pykafka2 topics offsets orders:0,2-4 --at @2026-11-30T08:15:00Z\n"
        "  pykafka2 topics offsets orders --at max-timestamp --json",
    ),
)
