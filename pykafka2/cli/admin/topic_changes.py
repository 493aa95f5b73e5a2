"""The actions of `pykafka2 topics` that change something: create, alter, add-partitions, delete, truncate."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from pykafka2.cli.common import connection
from pykafka2.cli.common.changes import add_dry_run, add_yes, change, integers, is_confirmed, settings
from pykafka2.cli.common.output import Output
from pykafka2.cli.common.parsing import AddSetting, Parser, UsageError, partition_count, replica_count
from pykafka2.cli.common.partitions import resolved, selection
from pykafka2.cli.common.positions import Position, offset
from pykafka2.text import counted

if TYPE_CHECKING:
    from pykafka2 import KafkaAdminClient, TopicPartition
    from pykafka2.admin import TopicDescription


# ---------------------------------------------------------------------------------------------------
# create, alter, add-partitions
# ---------------------------------------------------------------------------------------------------


def configure_create(parser: Parser) -> None:
    """Add the arguments of `topics create`."""
    parser.add_argument("topics", nargs="+", metavar="TOPIC", help="names of topics")
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
        action=AddSetting,
        default=[],
        metavar="NAME=VALUE",
        help="a setting of the topics, such as retention.ms=86400000; can be repeated",
    )
    parser.add_argument("--if-not-exists", action="store_true", help="do not fail if a topic exists")
    add_dry_run(parser)


def _assignment(text: str) -> dict[int, list[int]]:
    parts = [integers(part.replace(":", ",")) for part in text.split(",")]
    return dict(enumerate(parts))


def create(arguments: argparse.Namespace, output: Output) -> int:
    """Create topics."""
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


def configure_alter(parser: Parser) -> None:
    """Add the arguments of `topics alter`."""
    parser.add_argument("topics", nargs="+", metavar="TOPIC", help="names of topics")
    for option, summary in (
        ("--set", "set this value"),
        ("--append", "append these items to a list, such as cleanup.policy=compact"),
        ("--subtract", "remove these items from a list"),
    ):
        parser.add_argument(
            option, action=AddSetting, default=[], metavar="NAME=VALUE", help=f"{summary}; can be repeated"
        )
    parser.add_argument(
        "--reset", action="append", default=[], metavar="NAME", help="restore the default; can be repeated"
    )
    add_dry_run(parser)


def alter(arguments: argparse.Namespace, output: Output) -> int:
    """Alter the settings of topics."""
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


def configure_add_partitions(parser: Parser) -> None:
    """Add the arguments of `topics add-partitions`."""
    parser.add_argument("topics", nargs="+", metavar="TOPIC", help="names of topics")
    group = parser.add_mutually_exclusive_group(required=True)
    group.add_argument("-n", "--count", type=partition_count, metavar="N", help="add N partitions")
    group.add_argument(
        "--total", type=partition_count, metavar="N", help="add partitions until the topic has N"
    )
    add_dry_run(parser)


def add_partitions(arguments: argparse.Namespace, output: Output) -> int:
    """Add partitions to topics."""
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


def configure_delete(parser: Parser) -> None:
    """Add the arguments of `topics delete`."""
    parser.add_argument("topics", nargs="+", metavar="TOPIC", help="names of topics")
    parser.add_argument("--if-exists", action="store_true", help="do not fail if a topic does not exist")
    add_yes(parser)


def delete(arguments: argparse.Namespace, output: Output) -> int:
    """Delete topics with all records."""
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


def configure_truncate(parser: Parser) -> None:
    """Add the arguments of `topics truncate`."""
    parser.add_argument(
        "selections", nargs="+", type=selection, metavar="TOPIC[:PARTITIONS]", help="such as orders:0,2-4"
    )
    parser.add_argument(
        "--before",
        type=offset,
        default=Position("latest"),
        metavar="POSITION",
        help="delete records before latest, N, +N (after the start), -N (before the end) or @TIME (latest)",
    )
    add_yes(parser)


def truncate(arguments: argparse.Namespace, output: Output) -> int:
    """Delete the records before a position."""
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
