"""List, set and reset client quotas: limits of users, client ids and IP addresses on each broker.

examples:
  pykafka2 quotas list
  pykafka2 quotas set --client-id app producer_byte_rate=1000000
  pykafka2 quotas ACTION --help            what an action does, with examples
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from pykafka2.cli.common import connection
from pykafka2.cli.common.changes import add_dry_run, add_yes, change, checked, is_confirmed
from pykafka2.cli.common.output import Output
from pykafka2.cli.common.parsing import Parser, UsageError
from pykafka2.cli.common.verbs import Action, add_actions, run_action

if TYPE_CHECKING:
    from pykafka2 import KafkaAdminClient
    from pykafka2.admin import Outcomes, QuotaEntity

SUMMARY = "list, set and reset client quotas"
KINDS = {"user": "user", "client_id": "client id", "ip": "IP address"}
"""Attributes of `QuotaEntity`, with their names for people."""
DEFAULTS = {"user": "--user-defaults", "client_id": "--client-defaults", "ip": "--ip-defaults"}

OF_CLIENTS = ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate")
OF_ADDRESSES = ("connection_creation_rate",)


def configure(parser: Parser) -> None:
    """Add the actions."""
    add_actions(parser, *ACTIONS)


run = checked(run_action)


# ---------------------------------------------------------------------------------------------------
# Entities
# ---------------------------------------------------------------------------------------------------


def _add_entity(parser: Parser, verb: str) -> None:
    group = parser.add_argument_group("entity: a user, a client id, both, or an IP address")
    for attribute, kind in KINDS.items():
        group.add_argument(
            f"--{attribute.replace('_', '-')}",
            dest=attribute,
            metavar="ADDRESS" if attribute == "ip" else "NAME",
            help=f"{verb} this {kind}",
        )
        group.add_argument(
            DEFAULTS[attribute],
            dest=f"default_{attribute}",
            action="store_true",
            help=f"{verb} the default for each {kind} without quotas of its own",
        )


def _entity(arguments: argparse.Namespace) -> QuotaEntity | None:
    """Return the entity that was typed; None without one. Raise `UsageError`."""
    from pykafka2.admin import QuotaEntity

    names: dict[str, str] = {}
    for attribute in KINDS:
        name = getattr(arguments, attribute)
        if getattr(arguments, f"default_{attribute}"):
            if name is not None:
                raise UsageError(
                    f"--{attribute.replace('_', '-')} cannot be combined with {DEFAULTS[attribute]}"
                )
            name = QuotaEntity.DEFAULT
        if name == "":
            raise UsageError(
                f"--{attribute.replace('_', '-')} is empty; use {DEFAULTS[attribute]} for defaults"
            )
        if name is not None:
            names[attribute] = name
    if "ip" in names and len(names) > 1:
        raise UsageError("an IP address cannot be combined with a user or client id")
    return QuotaEntity(**names) if names else None


def _required_entity(arguments: argparse.Namespace) -> QuotaEntity:
    entity = _entity(arguments)
    if entity is None:
        raise UsageError("no entity is named; use --user, --client-id, both, or --ip, or their defaults")
    return entity


def _check_names(entity: QuotaEntity, quotas: Iterable[str]) -> None:
    """Raise `UsageError` unless the entity has these quotas."""
    known = OF_CLIENTS if entity.ip is None else OF_ADDRESSES
    for name in quotas:
        if name not in known:
            raise UsageError(f"{_Shown(entity)} has no quota {name!r}; use {', '.join(known)}")


class _Shown:
    """An entity as the item of a change, with a text for people."""

    def __init__(self, entity: QuotaEntity) -> None:
        self.entity = entity

    def __str__(self) -> str:
        names = ((kind, getattr(self.entity, attribute)) for attribute, kind in KINDS.items())
        return ", ".join(
            f"default {kind}" if name == self.entity.DEFAULT else f"{kind} {name!r}"
            for kind, name in names
            if name is not None
        )


def _names(entity: QuotaEntity) -> dict[str, str | None]:
    return {attribute: getattr(entity, attribute) for attribute in KINDS}


def _alter(
    client: KafkaAdminClient,
    arguments: argparse.Namespace,
    output: Output,
    entity: QuotaEntity,
    quotas: Mapping[str, float | None],
    done: str,
) -> int:
    from pykafka2.admin import Outcomes

    def call(items: list[_Shown]) -> Outcomes[_Shown, None]:
        outcomes = client.alter_client_quotas(
            {entity: quotas}, validate_only=arguments.dry_run, raise_errors=False
        )
        return Outcomes(
            dict.fromkeys(items) if entity in outcomes.succeeded else {},
            dict(zip(items, outcomes.errors.values(), strict=False)),
        )

    return change(
        output,
        [_Shown(entity)],
        call,
        "valid" if arguments.dry_run else done,
        lambda item: _names(item.entity),
        lambda _: {"quotas": list(quotas)},
    )


# ---------------------------------------------------------------------------------------------------
# list, set, reset
# ---------------------------------------------------------------------------------------------------


def _configure_list(parser: Parser) -> None:
    _add_entity(parser, "only quotas of")
    parser.add_argument(
        "--strict", action="store_true", help="only quotas of exactly this entity, without further names"
    )


def _list(arguments: argparse.Namespace, output: Output) -> int:
    entity = _entity(arguments)
    if arguments.strict and entity is None:
        raise UsageError("--strict needs an entity, such as --user ann")
    with connection.connected_admin(arguments) as client:
        found = client.describe_client_quotas(entity, strict=arguments.strict)
    rows = [
        [*_names(one).values(), quota, int(value) if value.is_integer() else value]
        for one, quotas in found.items()
        for quota, value in quotas.items()
    ]
    rows.sort(key=lambda row: [cell or "" for cell in row[:4]])
    output.table([*KINDS, "quota", "value"], rows, quiet=KINDS)
    return 0


def _configure_set(parser: Parser) -> None:
    parser.add_argument("quotas", nargs="+", metavar="QUOTA=NUMBER", help="the quotas")
    _add_entity(parser, "set quotas of")
    add_dry_run(parser)


def _set(arguments: argparse.Namespace, output: Output) -> int:
    entity = _required_entity(arguments)
    quotas: dict[str, float | None] = {}
    for text in arguments.quotas:
        name, _, number = text.partition("=")
        if name in quotas:
            raise UsageError(f"quota {name} is set twice; set it once")
        try:
            quotas[name] = value = float(number)
        except ValueError:
            raise UsageError(f"{text!r} is not valid; write QUOTA=NUMBER") from None
        if not 0 < value < math.inf:
            raise UsageError(f"{text!r} must be a number above 0; `quotas reset` removes a quota")
    _check_names(entity, quotas)
    with connection.connected_admin(arguments) as client:
        return _alter(client, arguments, output, entity, quotas, "set")


def _configure_reset(parser: Parser) -> None:
    parser.add_argument("quotas", nargs="*", metavar="QUOTA", help="the quotas to remove")
    parser.add_argument("--all", action="store_true", help="all quotas of the entity")
    _add_entity(parser, "remove quotas of")
    add_dry_run(parser)
    add_yes(parser)


def _reset(arguments: argparse.Namespace, output: Output) -> int:
    entity = _required_entity(arguments)
    if bool(arguments.quotas) == arguments.all:
        raise UsageError("name the quotas, or use --all")
    _check_names(entity, arguments.quotas)
    with connection.connected_admin(arguments) as client:
        names = arguments.quotas
        if arguments.all:
            names = client.describe_client_quotas(entity, strict=True).get(entity, {})
            if not names:
                output.note(f"No quota is set for {_Shown(entity)}.")
                return 0
            question = f"Remove {', '.join(names)} of"
            if not arguments.dry_run and not is_confirmed(arguments, output, question, [_Shown(entity)]):
                return 1
        return _alter(client, arguments, output, entity, dict.fromkeys(names), "reset")


ACTIONS = (
    Action(
        "list",
        "list quotas, of all entities or of those that match",
        _list,
        _configure_list,
        "  pykafka2 quotas list\n"
        "  pykafka2 quotas list --user ann            also those of ann with a client id\n"
        "  pykafka2 quotas list --client-defaults --json",
    ),
    Action(
        "set",
        "set quotas of an entity; its other quotas do not change",
        _set,
        _configure_set,
        "Users and client ids have producer_byte_rate and consumer_byte_rate (bytes per second),\n"
        "request_percentage (of a request handler thread) and controller_mutation_rate (partitions per\n"
        "second); IP addresses have connection_creation_rate (connections per second).\n\n"
        "  pykafka2 quotas set --user ann producer_byte_rate=1000000 consumer_byte_rate=5000000\n"
        "  pykafka2 quotas set --user ann --client-id app request_percentage=50 --dry-run\n"
        "  pykafka2 quotas set --ip-defaults connection_creation_rate=10",
    ),
    Action(
        "reset",
        "remove quotas of an entity",
        _reset,
        _configure_reset,
        "In a terminal --all asks first, unless --yes is typed.\n\n"
        "  pykafka2 quotas reset --user ann producer_byte_rate\n"
        "  pykafka2 quotas reset --client-id app --all",
    ),
)
