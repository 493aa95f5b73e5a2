"""List, add and delete access control lists (ACLs).

examples:
  pykafka2 acls list --topic orders
  pykafka2 acls add --principal User:ann --operation READ --topic orders --group billing
  pykafka2 acls ACTION --help              what an action does, with examples
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import product
from typing import TYPE_CHECKING, Any

from pykafka2.admin import ACLOperation
from pykafka2.cli.common import connection
from pykafka2.cli.common.changes import add_dry_run, add_yes, change, checked, is_confirmed
from pykafka2.cli.common.output import Output
from pykafka2.cli.common.parsing import Parser, UsageError, nearest
from pykafka2.cli.common.verbs import Action, add_actions, run_action
from pykafka2.text import counted

if TYPE_CHECKING:
    from pykafka2 import KafkaAdminClient
    from pykafka2.admin import AclBinding

SUMMARY = "list, add and delete access control lists"
CLUSTER_NAME = "kafka-cluster"
NAMED = {
    "topic": "TOPIC",
    "group": "GROUP",
    "transactional_id": "TRANSACTIONAL_ID",
    "delegation_token": "DELEGATION_TOKEN",
    "user": "USER",
}
"""Resource types by option."""
OPERATIONS = tuple(
    operation.name for operation in ACLOperation if operation not in (ACLOperation.UNKNOWN, ACLOperation.ANY)
)
COLUMNS = (
    "resource_type",
    "resource_name",
    "pattern_type",
    "principal",
    "host",
    "operation",
    "permission",
)


def configure(parser: Parser) -> None:
    """Add the actions."""
    add_actions(parser, *ACTIONS)


run = checked(run_action)


# ---------------------------------------------------------------------------------------------------
# Arguments
# ---------------------------------------------------------------------------------------------------


def _operations(text: str) -> list[str]:
    names = [part.strip().upper().replace("-", "_") for part in text.split(",")]
    for name in names:
        if name not in OPERATIONS:
            close = nearest([name], OPERATIONS)
            more = f"; did you mean {close[0]}?" if close else ""
            raise argparse.ArgumentTypeError(f"{name!r} is not valid; use {', '.join(OPERATIONS)}{more}")
    return names


def _principal(text: str) -> str:
    kind, colon, name = text.partition(":")
    if not (kind and colon and name):
        raise argparse.ArgumentTypeError(f"{text!r} is not valid; use TYPE:NAME, such as User:ann or User:*")
    return text


def _add_resources(parser: Parser, verb: str) -> None:
    group = parser.add_argument_group("resources")
    for option, kafka in NAMED.items():
        group.add_argument(
            f"--{option.replace('_', '-')}",
            action="append",
            default=[],
            metavar="NAME",
            help=f"{verb} this {kafka.lower().replace('_', ' ')}; can be repeated",
        )
    group.add_argument("--cluster", action="store_true", help=f"{verb} the cluster")


def _add_matching(parser: Parser) -> None:
    _add_resources(parser, "only ACLs of")
    parser.add_argument(
        "--principal", type=_principal, metavar="TYPE:NAME", help="only ACLs of this principal"
    )
    parser.add_argument("--host", help="only ACLs of this host")
    parser.add_argument(
        "--operation",
        action="extend",
        type=_operations,
        metavar="OPERATION,...",
        help="only ACLs of these operations; can be repeated",
    )
    parser.add_argument(
        "--permission", type=str.upper, choices=["ALLOW", "DENY"], help="only ACLs with this permission"
    )
    parser.add_argument(
        "--pattern-type",
        type=str.upper,
        choices=["ANY", "MATCH", "LITERAL", "PREFIXED"],
        default="ANY",
        help="how names match; MATCH finds all ACLs that apply to a resource, also * and prefixes (ANY)",
    )


def _resources(arguments: argparse.Namespace) -> Iterator[tuple[str, str]]:
    for option, kafka in NAMED.items():
        for name in getattr(arguments, option):
            yield kafka, name
    if arguments.cluster:
        yield "CLUSTER", CLUSTER_NAME


def _found(client: KafkaAdminClient, arguments: argparse.Namespace) -> list[AclBinding]:
    every: dict[AclBinding, None] = {}
    resources: list[tuple[str, str | None]] = [*_resources(arguments)] or [("ANY", None)]
    for (kind, name), operation in product(resources, arguments.operation or ["ANY"]):
        matches = client.describe_acls(
            resource_type=kind,
            resource_name=name,
            pattern_type=arguments.pattern_type,
            principal=arguments.principal,
            host=arguments.host,
            operation=operation,
            permission=arguments.permission or "ANY",
        )
        every.update(dict.fromkeys(matches))
    return list(every)


class _Shown:
    """An ACL as the item of a change, with a text for people."""

    def __init__(self, acl: AclBinding) -> None:
        self.acl = acl

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Shown) and other.acl == self.acl

    def __hash__(self) -> int:
        return hash(self.acl)

    def __str__(self) -> str:
        acl = self.acl
        return (
            f"{acl.permission} {acl.principal} {acl.operation} on {acl.pattern_type} {acl.resource_type} "
            f"{acl.resource_name} from {acl.host}"
        )


def _fields(shown: _Shown) -> dict[str, Any]:
    return {column: getattr(shown.acl, column) for column in COLUMNS}


def _change(output: Output, acls: list[AclBinding], call: Any, done: str) -> int:
    from pykafka2.admin import Outcomes

    def call_shown(some: list[_Shown]) -> Outcomes[_Shown, None]:
        outcomes = call([one.acl for one in some], raise_errors=False)
        return Outcomes(
            dict.fromkeys(map(_Shown, outcomes.succeeded)),
            {_Shown(acl): error for acl, error in outcomes.errors.items()},
        )

    return change(output, map(_Shown, acls), call_shown, done, _fields)


# ---------------------------------------------------------------------------------------------------
# list, add, delete
# ---------------------------------------------------------------------------------------------------


def _list(arguments: argparse.Namespace, output: Output) -> int:
    with connection.connected_admin(arguments) as client:
        acls = _found(client, arguments)
    output.table(COLUMNS, [[getattr(acl, column) for column in COLUMNS] for acl in acls])
    return 0


def _configure_add(parser: Parser) -> None:
    parser.add_argument(
        "--principal",
        action="append",
        type=_principal,
        required=True,
        metavar="TYPE:NAME",
        help="the principal, such as User:ann; User:* means all users; can be repeated",
    )
    parser.add_argument(
        "--operation",
        action="extend",
        type=_operations,
        required=True,
        metavar="OPERATION,...",
        help=f"the operations; can be repeated: {', '.join(OPERATIONS)}",
    )
    parser.add_argument("--deny", action="store_true", help="deny the operations instead of allowing them")
    parser.add_argument("--host", action="append", help="only from this address; can be repeated (*)")
    parser.add_argument(
        "--prefixed", action="store_true", help="the names are prefixes: all resources that start with them"
    )
    _add_resources(parser, "the ACLs are for")


def _add(arguments: argparse.Namespace, output: Output) -> int:
    from pykafka2.admin import AclBinding

    resources = list(_resources(arguments))
    if not resources:
        options = [f"--{option.replace('_', '-')}" for option in NAMED]
        raise UsageError(f"no resource is named; use {', '.join(options)} or --cluster")
    if arguments.prefixed and arguments.cluster:
        raise UsageError("--prefixed cannot be combined with --cluster, which has one name")
    acls = [
        AclBinding(
            kind,
            name,
            "PREFIXED" if arguments.prefixed else "LITERAL",
            principal,
            host,
            operation,
            "DENY" if arguments.deny else "ALLOW",
        )
        for (kind, name), principal, host, operation in product(
            resources, arguments.principal, arguments.host or ["*"], arguments.operation
        )
    ]
    with connection.connected_admin(arguments) as client:
        return _change(output, acls, client.create_acls, "added")


def _configure_delete(parser: Parser) -> None:
    _add_matching(parser)
    parser.add_argument("--all", action="store_true", help="all ACLs; without it a filter must be typed")
    add_dry_run(parser)
    add_yes(parser)


def _delete(arguments: argparse.Namespace, output: Output) -> int:
    is_filtered = any(
        (
            [*_resources(arguments)],
            arguments.principal,
            arguments.host,
            arguments.operation,
            arguments.permission,
        )
    )
    if is_filtered == arguments.all:
        raise UsageError("name what the ACLs to delete have in common, such as --topic, or use --all")
    with connection.connected_admin(arguments) as client:
        acls = _found(client, arguments)
        if arguments.dry_run:
            output.table(COLUMNS, [[getattr(acl, column) for column in COLUMNS] for acl in acls])
            output.note("Dry run: no ACL was deleted.")
            return 0
        if not acls:
            output.note("No ACL matches.")
            return 0
        if not is_confirmed(arguments, output, f"Delete {counted(acls, 'ACL')}", map(_Shown, acls)):
            return 1
        return _change(output, acls, client.delete_acls, "deleted")


ACTIONS = (
    Action(
        "list",
        "list ACLs",
        _list,
        _add_matching,
        "  pykafka2 acls list\n"
        "  pykafka2 acls list --topic orders --pattern-type MATCH     all that apply to orders\n"
        "  pykafka2 acls list --principal User:ann --json",
    ),
    Action(
        "add",
        "add ACLs: one for each combination of principal, host, operation and resource",
        _add,
        _configure_add,
        "ACLs that exist already stay unchanged.\n\n"
        "  pykafka2 acls add --principal User:ann --operation READ --topic orders --group billing\n"
        "  pykafka2 acls add --principal User:ann --operation WRITE,DESCRIBE --topic app- --prefixed\n"
        "  pykafka2 acls add --principal User:* --operation ALL --cluster --deny --host 10.0.0.7",
    ),
    Action(
        "delete",
        "delete the ACLs that match",
        _delete,
        _configure_delete,
        "In a terminal it asks first, unless --yes is typed.\n\n"
        "  pykafka2 acls delete --principal User:ann --dry-run\n"
        "  pykafka2 acls delete --topic orders --operation WRITE",
    ),
)
