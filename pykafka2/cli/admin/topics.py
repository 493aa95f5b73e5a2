"""List, describe, create, alter, delete and truncate topics, add partitions, and list offsets.

examples:
  pykafka2 topics list
  pykafka2 topics create orders --partitions 6 --setting retention.ms=86400000
  pykafka2 topics ACTION --help            what an action does, with examples
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from pykafka2.cli.admin import topic_changes
from pykafka2.cli.common import connection
from pykafka2.cli.common.changes import (
    add_isolation_level,
    checked,
    found,
    matching,
)
from pykafka2.cli.common.output import Output, time_or_none, true_is_bad
from pykafka2.cli.common.parsing import Parser
from pykafka2.cli.common.partitions import resolved, selection
from pykafka2.cli.common.positions import NAMES, offset
from pykafka2.cli.common.verbs import Action, add_actions, run_action
from pykafka2.errors import UnknownTopicOrPartition

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pykafka2 import TopicPartition
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
        quiet=("internal",),
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
        help="only partitions whose replicas are not all in sync, and their topics",
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
    from base64 import urlsafe_b64encode

    replication_factor = _replication_factor(topic)
    fields = {
        "topic": topic.name,
        "topic_id": urlsafe_b64encode(topic.topic_id).decode().rstrip("="),
        "internal": topic.is_internal,
        "partition_count": len(topic.partitions),
        "replication_factor": replication_factor,
        "configs": configs,
    }
    if output.is_json:
        output.json({**fields, "partitions": partitions})
        return
    output.item(fields)
    output.line("")
    columns = ["partition", "leader", "replicas", "isr", "offline_replicas"]
    output.table(
        columns,
        [[one[name] for name in columns] for one in partitions],
        styles={
            "leader": lambda leader: "bad" if leader is None else "",
            "isr": lambda isr: "warning" if len(isr) < (replication_factor or 0) else "",
            "offline_replicas": true_is_bad,
        },
        quiet=("offline_replicas",),
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
    from pykafka2.cli.common.parsing import nearest

    close = nearest([text], SPECS)
    raise argparse.ArgumentTypeError(
        f"{text!r} is not valid; use {', '.join(SPECS)} or @TIME"
        + (f"; did you mean {close[0]}?" if close else "")
    )


def _offsets(arguments: argparse.Namespace, output: Output) -> int:
    from pykafka2.admin import Outcomes

    with connection.connected_admin(arguments) as client:
        partitions, code = resolved(client, output, arguments.selections)

        def offsets(some: Iterable[TopicPartition], at: str | int) -> Outcomes[TopicPartition, Any]:
            isolation: str = arguments.isolation_level
            return client.list_offsets(dict.fromkeys(some, at), isolation_level=isolation, raise_errors=False)

        first = offsets(partitions, "earliest" if arguments.at is None else arguments.at)
        # No second request to leaders that did not respond.
        last = offsets(first.succeeded, "latest") if arguments.at is None else None
    errors = {**first.errors, **(last.errors if last else {})}
    _, failed = found(output, Outcomes({}, errors))
    shown = [one for one in partitions if not isinstance(errors.get(one), UnknownTopicOrPartition)]
    if not shown and (code or failed):
        return 1
    if last is None:
        known = first.succeeded
        rows = [
            [one.topic, one.partition, _or_none(known[one].offset), time_or_none(known[one].timestamp)]
            if one in known
            else [one.topic, one.partition, None, None]
            for one in shown
        ]
        output.table(["topic", "partition", "offset", "timestamp"], rows)
    else:
        starts, ends = ({one: at.offset for one, at in part.succeeded.items()} for part in (first, last))
        columns = ["topic", "partition", "earliest", "latest", "offsets"]
        output.table(columns, [_offset_row(one, starts.get(one), ends.get(one)) for one in shown])
    return code or failed


def _offset_row(one: TopicPartition, start: int | None, end: int | None) -> list[Any]:
    return [one.topic, one.partition, start, end, None if start is None or end is None else end - start]


def _or_none(number: int) -> int | None:
    return None if number < 0 else number


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
        topic_changes.create,
        topic_changes.configure_create,
        "  pykafka2 topics create orders payments --partitions 6 --replication-factor 3\n"
        "  pykafka2 topics create audit -c cleanup.policy=compact --if-not-exists\n"
        "  pykafka2 topics create orders --assignment 0:1,1:2,2:0 --dry-run",
    ),
    Action(
        "alter",
        "alter the settings of topics; other settings stay",
        topic_changes.alter,
        topic_changes.configure_alter,
        "`pykafka2 configs set topic` does the same.\n\n"
        "  pykafka2 topics alter orders --set retention.ms=86400000 --reset max.message.bytes\n"
        "  pykafka2 topics alter orders payments --append cleanup.policy=compact --dry-run",
    ),
    Action(
        "add-partitions",
        "add partitions; afterwards keys map to other partitions",
        topic_changes.add_partitions,
        topic_changes.configure_add_partitions,
        "  pykafka2 topics add-partitions orders --total 12\n"
        "  pykafka2 topics add-partitions orders payments --count 2 --dry-run",
    ),
    Action(
        "delete",
        "delete topics with all records",
        topic_changes.delete,
        topic_changes.configure_delete,
        "In a terminal it asks first, unless --yes is typed.\n\n"
        "  pykafka2 topics delete orders\n"
        "  pykafka2 topics list 'test-*' --names | xargs pykafka2 topics delete --yes",
    ),
    Action(
        "truncate",
        "delete records, the oldest first; the topics stay",
        topic_changes.truncate,
        topic_changes.configure_truncate,
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
