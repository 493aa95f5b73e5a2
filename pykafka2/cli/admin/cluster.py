"""Describe the cluster: brokers, features, quorum, log directories, API versions.

examples:
  pykafka2 cluster describe
  pykafka2 cluster log-dirs --broker 1
  pykafka2 cluster ACTION --help           what an action does, with examples
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from pykafka2.cli.common import connection
from pykafka2.cli.common.changes import add_dry_run, add_yes, change, checked, described, found, is_confirmed
from pykafka2.cli.common.live_brokers import at_live_brokers
from pykafka2.cli.common.output import Output, positive_is_warning, time_or_none, true_is_bad
from pykafka2.cli.common.parsing import AddSetting, Parser, UsageError, natural
from pykafka2.cli.common.verbs import Action, add_actions, run_action
from pykafka2.errors import ClusterAuthorizationFailed, IllegalArgument, KafkaError, UnsupportedVersion

if TYPE_CHECKING:
    from pykafka2 import KafkaAdminClient
    from pykafka2.admin import ClusterDescription, Outcomes

V = TypeVar("V")

SUMMARY = "describe brokers, features, quorum, log directories, API versions"


def configure(parser: Parser) -> None:
    """Add the actions."""
    add_actions(parser, *ACTIONS)


run = checked(run_action)


# ---------------------------------------------------------------------------------------------------
# describe, brokers
# ---------------------------------------------------------------------------------------------------


def _describe(arguments: argparse.Namespace, output: Output) -> int:
    with connection.connected_admin(arguments) as client:
        cluster = client.describe_cluster(include_authorized_operations=True)
        controller = _controller_id(client, cluster)
        topics = client.list_topics(include_internal=True)
    output.item(
        {
            "cluster_id": cluster.cluster_id,
            "controller": controller,
            "broker_count": len(cluster.nodes),
            "topic_count": len(topics),
            "authorized_operations": list(cluster.authorized_operations or ()),
        }
    )
    return 0


def _controller_id(client: KafkaAdminClient, cluster: ClusterDescription) -> int | None:
    """Return the id of the active controller: with KRaft, `cluster` names any live broker instead."""
    try:
        return client.describe_metadata_quorum().leader_id
    except UnsupportedVersion:  # ZooKeeper
        return None if cluster.controller is None else cluster.controller.id
    except ClusterAuthorizationFailed:
        return None


def _brokers(arguments: argparse.Namespace, output: Output) -> int:
    with connection.connected_admin(arguments) as client:
        try:
            cluster = client.describe_cluster(include_fenced_brokers=True)
        except UnsupportedVersion:  # before Kafka 4.0
            cluster = client.describe_cluster()
        controller = _controller_id(client, cluster)
    output.table(
        ["broker", "host", "port", "rack", "controller", "fenced"],
        [
            [node.id, node.host, node.port, node.rack, node.id == controller, node.id in cluster.fenced]
            for node in sorted(cluster.nodes, key=lambda node: node.id)
        ],
        styles={"fenced": true_is_bad},
        quiet=("rack", "fenced"),
    )
    return 0


# ---------------------------------------------------------------------------------------------------
# features, quorum
# ---------------------------------------------------------------------------------------------------


def _configure_features(parser: Parser) -> None:
    parser.add_argument(
        "--set",
        action=AddSetting,
        default=[],
        metavar="FEATURE=LEVEL",
        help="change the level of a feature; can be repeated: either all levels change or none",
    )
    parser.add_argument(
        "--downgrade",
        nargs="?",
        const="safe",
        choices=["safe", "unsafe"],
        help="with --set: the new level is lower; an unsafe downgrade can lose metadata (safe)",
    )
    add_dry_run(parser)


def _features(arguments: argparse.Namespace, output: Output) -> int:
    levels = _levels(arguments.set)
    with connection.connected_admin(arguments) as client:
        if levels:
            return _update_features(client, arguments, output, levels)
        if arguments.downgrade or arguments.dry_run:
            raise UsageError("--downgrade and --dry-run need --set FEATURE=LEVEL")
        features = client.describe_features()
    rows = []
    for name in sorted({*features.supported, *features.finalized}):
        supported = features.supported.get(name)
        level = features.finalized.get(name)
        rows.append(
            [
                name,
                0 if level is None else level.max_version,
                None if supported is None else supported.min_version,
                None if supported is None else supported.max_version,
            ]
        )
    output.table(["feature", "level", "supported_min", "supported_max"], rows)
    return 0


def _levels(texts: list[str]) -> dict[str, int]:
    levels: dict[str, int] = {}
    for text in texts:
        name, equals, level = text.partition("=")
        if not (name and equals and level.isascii() and level.isdigit()):
            raise UsageError(f"--set {text}: write FEATURE=LEVEL, such as transaction.version=2")
        levels[name] = int(level)
    return levels


def _update_features(
    client: Any, arguments: argparse.Namespace, output: Output, levels: dict[str, int]
) -> int:
    from pykafka2.admin import FeatureUpdate, UpdateFeatureType

    kinds = {"safe": UpdateFeatureType.SAFE_DOWNGRADE, "unsafe": UpdateFeatureType.UNSAFE_DOWNGRADE}
    kind = kinds.get(arguments.downgrade, UpdateFeatureType.UPGRADE)
    return change(
        output,
        levels,
        lambda names: client.update_features(
            {name: FeatureUpdate(levels[name], kind) for name in names},
            validate_only=arguments.dry_run,
            raise_errors=False,
        ),
        "valid" if arguments.dry_run else "updated",
        lambda name: {"feature": name, "level": levels[name]},
        batch=len(levels),  # all change or none does
    )


def _quorum(arguments: argparse.Namespace, output: Output) -> int:
    with connection.connected_admin(arguments) as client:
        quorum = client.describe_metadata_quorum()
    leader = next((one for one in quorum.voters if one.replica_id == quorum.leader_id), None)
    rows = []
    for role, replicas in (("voter", quorum.voters), ("observer", quorum.observers)):
        for one in replicas:
            lag = None if leader is None else leader.log_end_offset - one.log_end_offset
            rows.append(
                [
                    one.replica_id,
                    "leader" if one.replica_id == quorum.leader_id and role == "voter" else role,
                    one.log_end_offset,
                    lag,
                    time_or_none(one.last_fetch_time_ms),
                    time_or_none(one.last_caught_up_time_ms),
                ]
            )
    columns = ["replica", "role", "log_end_offset", "lag", "last_fetch_time", "last_caught_up_time"]
    fields = {
        "leader": quorum.leader_id,
        "leader_epoch": quorum.leader_epoch,
        "high_watermark": quorum.high_watermark,
    }
    if output.is_json:
        output.json({**fields, "replicas": [dict(zip(columns, row, strict=True)) for row in rows]})
        return 0
    output.item(fields)
    output.line("")
    output.table(columns, rows, styles={"lag": positive_is_warning})
    return 0


# ---------------------------------------------------------------------------------------------------
# log-dirs, api-versions, unregister
# ---------------------------------------------------------------------------------------------------


def _add_brokers(parser: Parser) -> None:
    parser.add_argument(
        "--broker", action="append", type=natural, metavar="ID", help="only this broker; can be repeated"
    )


def _at_brokers(
    client: KafkaAdminClient, arguments: argparse.Namespace, call: Callable[..., Outcomes[int, V]]
) -> Outcomes[int, V]:
    """Call at the brokers that were typed, or at all."""
    if arguments.broker is None:
        return call(None, raise_errors=False)
    typed = list(dict.fromkeys(arguments.broker))
    return at_live_brokers(client, typed, lambda broker: broker, lambda some: call(some, raise_errors=False))


def _configure_log_dirs(parser: Parser) -> None:
    _add_brokers(parser)
    parser.add_argument("--topic", action="append", metavar="TOPIC", help="only this topic; can be repeated")
    parser.add_argument(
        "--replicas", action="store_true", help="a row for each replica instead of each directory"
    )


def _log_dirs(arguments: argparse.Namespace, output: Output) -> int:
    with connection.connected_admin(arguments) as client:
        brokers, code = found(output, _at_brokers(client, arguments, client.describe_log_dirs))
    directories, replicas = [], []
    for broker, paths in sorted(brokers.items()):
        for path, log_dir in sorted(paths.items()):
            if log_dir.error is not None:
                output.error(f"broker {broker}, {path}: {described(log_dir.error)}")
                code = 1
            chosen = {
                partition: replica
                for partition, replica in sorted(log_dir.replicas.items())
                if arguments.topic is None or partition.topic in arguments.topic
            }
            directories.append(
                [
                    broker,
                    path,
                    len(chosen),
                    sum(replica.size_bytes for replica in chosen.values()),
                    None if log_dir.total_bytes < 0 else log_dir.total_bytes,
                    None if log_dir.usable_bytes < 0 else log_dir.usable_bytes,
                    None if log_dir.error is None else described(log_dir.error),
                ]
            )
            replicas += [
                [
                    broker,
                    path,
                    partition.topic,
                    partition.partition,
                    replica.size_bytes,
                    replica.offset_lag,
                    replica.is_future,
                ]
                for partition, replica in chosen.items()
            ]
    if arguments.replicas:
        output.table(
            ["broker", "path", "topic", "partition", "size_bytes", "offset_lag", "future"],
            replicas,
            styles={"offset_lag": positive_is_warning},
            quiet=("future",),
        )
    else:
        columns = ["broker", "path", "replica_count", "size_bytes", "total_bytes", "usable_bytes", "error"]
        output.table(
            columns,
            directories,
            styles={"error": true_is_bad},
            quiet=("total_bytes", "usable_bytes", "error"),
            can_be_cut=("error",),
        )
    return code


def _api_versions(arguments: argparse.Namespace, output: Output) -> int:
    with connection.connected_admin(arguments) as client:
        brokers, code = found(output, _at_brokers(client, arguments, client.api_versions))
    output.table(
        ["broker", "api", "api_key", "min_version", "max_version"],
        [
            [broker, name, *version]
            for broker, apis in sorted(brokers.items())
            for name, version in sorted(apis.items(), key=lambda one: one[1].api_key)
        ],
    )
    return code


def _configure_unregister(parser: Parser) -> None:
    parser.add_argument("broker", type=natural, metavar="ID", help="the broker's id")
    add_yes(parser)


def _unregister(arguments: argparse.Namespace, output: Output) -> int:
    from pykafka2.admin import Outcomes

    if not is_confirmed(
        arguments, output, "Remove from the cluster's metadata", [f"broker {arguments.broker}"]
    ):
        return 1

    def call(brokers: list[int]) -> Outcomes[int, None]:
        try:
            client.unregister_broker(arguments.broker)
        except IllegalArgument:
            raise
        except KafkaError as error:
            return Outcomes({}, {arguments.broker: error})
        return Outcomes({arguments.broker: None})

    with connection.connected_admin(arguments) as client:
        return change(output, [arguments.broker], call, "unregistered", lambda broker: {"broker": broker})


ACTIONS = (
    Action(
        "describe",
        "describe the cluster: id, controller, numbers of brokers and topics",
        _describe,
        text="  pykafka2 cluster describe\n  pykafka2 cluster describe --json | jq -r .cluster_id",
    ),
    Action(
        "brokers",
        "list the brokers, also fenced ones",
        _brokers,
        text="  pykafka2 cluster brokers\n  pykafka2 cluster brokers --json | jq 'select(.fenced)'",
    ),
    Action(
        "features",
        "list the levels of features, or change them",
        _features,
        _configure_features,
        "  pykafka2 cluster features\n  pykafka2 cluster features --set transaction.version=2 --dry-run",
    ),
    Action(
        "quorum",
        "describe the quorum of controllers",
        _quorum,
        text="  pykafka2 cluster quorum",
    ),
    Action(
        "log-dirs",
        "list the log directories of brokers, with sizes in bytes",
        _log_dirs,
        _configure_log_dirs,
        "  pykafka2 cluster log-dirs\n  pykafka2 cluster log-dirs --broker 1 --topic orders --replicas",
    ),
    Action(
        "api-versions",
        "list the APIs of brokers with their versions",
        _api_versions,
        _add_brokers,
        "  pykafka2 cluster api-versions --broker 1",
    ),
    Action(
        "unregister",
        "remove a broker that was shut down for good",
        _unregister,
        _configure_unregister,
        "Move its replicas away first. In a terminal it asks first, unless --yes is typed.\n\n"
        "  pykafka2 cluster unregister 7",
    ),
)
