"""Describe, set and reset the settings of topics, brokers, groups and other resources.

examples:
  pykafka2 configs describe topic orders
  pykafka2 configs set topic orders retention.ms=86400000 cleanup.policy+=compact
  pykafka2 configs ACTION --help           what an action does, with examples
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pykafka2.cli.common import connection
from pykafka2.cli.common.changes import add_dry_run, add_yes, change, checked, found, is_confirmed
from pykafka2.cli.common.live_brokers import at_live_brokers
from pykafka2.cli.common.output import Output
from pykafka2.cli.common.parsing import MAX_INT32, Parser, UsageError
from pykafka2.cli.common.verbs import Action, add_actions, run_action
from pykafka2.text import counted

if TYPE_CHECKING:
    from pykafka2.admin import ConfigEntry, ConfigResource

SUMMARY = "describe, set and reset settings of topics, brokers and groups"
TYPES = {
    "topic": "TOPIC",
    "broker": "BROKER",
    "broker-logger": "BROKER_LOGGER",
    "group": "GROUP",
    "client-metrics": "CLIENT_METRICS",
}
OWN_SOURCES = {
    "topic": ("DYNAMIC_TOPIC_CONFIG",),
    "broker": ("DYNAMIC_BROKER_CONFIG", "DYNAMIC_DEFAULT_BROKER_CONFIG", "STATIC_BROKER_CONFIG"),
    "broker-logger": ("DYNAMIC_BROKER_LOGGER_CONFIG",),
    "group": ("DYNAMIC_GROUP_CONFIG",),
    "client-metrics": ("DYNAMIC_CLIENT_METRICS_CONFIG",),
}
"""Sources of values that are set for the resource; `describe` omits the others unless --all is typed."""
EVERY_BROKER = "default"


def configure(parser: Parser) -> None:
    """Add the actions."""
    add_actions(parser, *ACTIONS)


run = checked(run_action)


def _add_resource(parser: Parser) -> None:
    parser.add_argument("type", choices=list(TYPES), metavar="TYPE", help=", ".join(TYPES))
    parser.add_argument(
        "name", metavar="NAME", help=f"the name or the broker's id; broker {EVERY_BROKER} means all brokers"
    )


def _resource(arguments: argparse.Namespace, name: str) -> ConfigResource:
    from pykafka2.admin import ConfigResource

    if arguments.type == "broker" and name == EVERY_BROKER:
        return ConfigResource("BROKER", "")
    is_number = name.isascii() and name.isdigit() and len(name) <= len(str(MAX_INT32))
    if arguments.type.startswith("broker") and not (is_number and int(name) <= MAX_INT32):
        legal = "a broker's id" + (f" or {EVERY_BROKER}" if arguments.type == "broker" else "")
        raise UsageError(f"argument NAME: {name!r} is not valid; use {legal}")
    return ConfigResource(TYPES[arguments.type], name)


def _broker_of(resource: ConfigResource) -> int | None:
    """Return the id of the broker that the request must go to."""
    return int(resource.name) if resource.type.name.startswith("BROKER") and resource.name else None


def _fields(resource: ConfigResource) -> dict[str, Any]:
    kind = next(name for name, kafka in TYPES.items() if kafka == resource.type.name)
    is_every_broker = kind == "broker" and not resource.name
    return {"type": kind, "name": EVERY_BROKER if is_every_broker else resource.name}


# ---------------------------------------------------------------------------------------------------
# list, describe
# ---------------------------------------------------------------------------------------------------


def _configure_list(parser: Parser) -> None:
    parser.add_argument("types", nargs="*", metavar="TYPE", help=f"only these types: {', '.join(TYPES)}")


def _list(arguments: argparse.Namespace, output: Output) -> int:
    for kind in arguments.types:
        if kind not in TYPES:
            raise UsageError(f"argument TYPE: {kind!r} is not valid; use {', '.join(TYPES)}")
    with connection.connected_admin(arguments) as client:
        resources = client.list_config_resources([TYPES[kind] for kind in arguments.types])
    rows = [_fields(resource) for resource in resources]
    output.table(["type", "name"], [list(row.values()) for row in rows])
    return 0


def _configure_describe(parser: Parser) -> None:
    parser.add_argument("type", choices=list(TYPES), metavar="TYPE", help=", ".join(TYPES))
    parser.add_argument(
        "names",
        nargs="+",
        metavar="NAME",
        help=f"names or brokers' ids; broker {EVERY_BROKER} means all brokers",
    )
    parser.add_argument(
        "-a", "--all", action="store_true", help="defaults, too, not only values that are set"
    )
    parser.add_argument(
        "--setting", action="append", default=[], metavar="NAME", help="only this setting; can be repeated"
    )
    parser.add_argument(
        "--synonyms", action="store_true", help="also the values that would apply without the value in effect"
    )
    parser.add_argument("--docs", action="store_true", help="also what the settings mean")


def _describe(arguments: argparse.Namespace, output: Output) -> int:
    resources = [_resource(arguments, name) for name in arguments.names]
    with connection.connected_admin(arguments) as client:
        described, code = found(
            output,
            at_live_brokers(
                client,
                resources,
                _broker_of,
                lambda some: client.describe_configs(
                    some,
                    include_synonyms=arguments.synonyms,
                    include_documentation=arguments.docs,
                    raise_errors=False,
                ),
            ),
        )
    rows = []
    for resource, entries in described.items():
        unknown = [name for name in arguments.setting if name not in entries]
        for name in unknown:
            output.error(f"{resource}: there is no setting {name}{_suggestion(name, entries)}")
            code = 1
        for name, entry in sorted(entries.items()):
            if name in arguments.setting or (
                not arguments.setting and (arguments.all or entry.source in OWN_SOURCES[arguments.type])
            ):
                rows.append({**_fields(resource), **_entry_fields(entry, arguments)})
    columns = [*(["name"] if len(described) > 1 else []), "setting", "value", "source"]
    columns += ["read_only", "sensitive"]
    if output.is_json:
        for row in rows:
            output.json(row)
        return code
    if rows:
        columns += [name for name in ("synonyms", "documentation") if name in rows[0]]
        output.table(
            columns,
            [[_for_people(row[name]) for name in columns] for row in rows],
            quiet=("read_only", "sensitive"),
            can_be_cut=("value", "synonyms", "documentation"),
        )
    elif not code:
        output.note("Nothing is set; --all also shows the defaults.")
    return code


def _suggestion(name: str, known: Iterable[str]) -> str:
    from pykafka2.cli.common.parsing import nearest

    close = nearest([name], known)
    return f"; did you mean {close[0]}?" if close else ""


def _entry_fields(entry: ConfigEntry, arguments: argparse.Namespace) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "setting": entry.name,
        "value": entry.value,
        "source": entry.source,
        "config_type": entry.type,
        "read_only": entry.is_read_only,
        "sensitive": entry.is_sensitive,
    }
    if arguments.synonyms:
        fields["synonyms"] = [
            {"setting": one.name, "value": one.value, "source": one.source} for one in entry.synonyms
        ]
    if arguments.docs:
        fields["documentation"] = entry.documentation
    return fields


def _for_people(value: Any) -> Any:
    if isinstance(value, list):
        return [f"{one['source']}:{one['setting']}={one['value']}" for one in value]
    return value


# ---------------------------------------------------------------------------------------------------
# set, reset
# ---------------------------------------------------------------------------------------------------


def _configure_set(parser: Parser) -> None:
    _add_resource(parser)
    parser.add_argument(
        "changes",
        nargs="+",
        metavar="NAME=VALUE",
        help="set a value; NAME+=ITEMS and NAME-=ITEMS change the items of a list",
    )
    add_dry_run(parser)


def _set(arguments: argparse.Namespace, output: Output) -> int:
    changes = _changes(arguments.changes)
    resource = _resource(arguments, arguments.name)
    done = "valid" if arguments.dry_run else "set"
    with connection.connected_admin(arguments) as client:
        return change(
            output,
            [resource],
            lambda some: at_live_brokers(
                client,
                some,
                _broker_of,
                lambda live: client.alter_configs(
                    dict.fromkeys(live, changes), validate_only=arguments.dry_run, raise_errors=False
                ),
            ),
            done,
            _fields,
            lambda _: {"settings": list(changes)},
        )


def _changes(texts: Iterable[str]) -> dict[str, Any]:
    """Return the changes; an error shows no value, which can be a secret."""
    changes: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        operation = {"+": "APPEND", "-": "SUBTRACT"}.get(name[-1:])
        name = (name[:-1] if operation else name).strip()
        if not equals or not name:
            shown = name if re.fullmatch(r"[\w.-]+", name) else ""
            raise UsageError(f"argument NAME=VALUE: {shown} has no value; write retention.ms=3600000")
        if name in changes:
            raise UsageError(f"setting {name} is changed twice; change it once")
        changes[name] = value if operation is None else (operation, value)
    return changes


def _configure_reset(parser: Parser) -> None:
    _add_resource(parser)
    parser.add_argument("names", nargs="*", metavar="SETTING", help="settings whose defaults to restore")
    parser.add_argument("--all", action="store_true", help="all settings of the resource")
    add_dry_run(parser)
    add_yes(parser)


def _reset(arguments: argparse.Namespace, output: Output) -> int:
    if bool(arguments.names) == arguments.all:
        raise UsageError("name the settings, or use --all")
    resource = _resource(arguments, arguments.name)
    names = None if arguments.all else arguments.names
    if arguments.all and not arguments.dry_run:
        question = f"Restore the defaults of {counted([resource], 'resource')}"
        if not is_confirmed(arguments, output, question, [resource]):
            return 1
    done = "valid" if arguments.dry_run else "reset"
    with connection.connected_admin(arguments) as client:
        return change(
            output,
            [resource],
            lambda some: at_live_brokers(
                client,
                some,
                _broker_of,
                lambda live: client.reset_configs(
                    dict.fromkeys(live, names), validate_only=arguments.dry_run, raise_errors=False
                ),
            ),
            done,
            _fields,
            lambda restored: {"settings": list(restored)},
        )


ACTIONS = (
    Action(
        "list",
        "list the resources that can have settings",
        _list,
        _configure_list,
        "Groups and client metrics are listed only if they have settings.\n\n"
        "  pykafka2 configs list\n"
        "  pykafka2 configs list group client-metrics",
    ),
    Action(
        "describe",
        "describe settings with their sources; by default those that are set",
        _describe,
        _configure_describe,
        "The values of sensitive settings are never shown.\n\n"
        "  pykafka2 configs describe topic orders payments\n"
        "  pykafka2 configs describe topic orders --setting retention.ms --synonyms --docs\n"
        "  pykafka2 configs describe broker 1 --all\n"
        "  pykafka2 configs describe broker default",
    ),
    Action(
        "set",
        "set values; other settings stay",
        _set,
        _configure_set,
        "  pykafka2 configs set topic orders retention.ms=86400000 cleanup.policy+=compact\n"
        "  pykafka2 configs set broker default log.cleaner.threads=2\n"
        "  pykafka2 configs set group billing consumer.session.timeout.ms=60000 --dry-run",
    ),
    Action(
        "reset",
        "restore defaults",
        _reset,
        _configure_reset,
        "With --all in a terminal it asks first, unless --yes is typed.\n\n"
        "  pykafka2 configs reset topic orders retention.ms\n"
        "  pykafka2 configs reset broker 1 --all",
    ),
)
