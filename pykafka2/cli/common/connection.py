"""The options of the clients, shared by all verbs that need a cluster, and the clients made of them.

Sources, from the weakest to the strongest: the profile of PYKAFKA2_PROFILE, environment variables
(PYKAFKA2_BOOTSTRAP_SERVERS, PYKAFKA2_SASL_PASSWORD, ...), --profile, --config, -X, -b. No message shows a
value that can be a secret.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

from pykafka2.cli.common.output import note
from pykafka2.cli.common.parsing import AddSetting, UsageError, nearest

if TYPE_CHECKING:
    from pykafka2 import KafkaAdminClient, KafkaConsumer, KafkaProducer, KafkaShareConsumer
    from pykafka2.options import OptionTable

Kind = Literal["admin", "consumer", "producer", "share_consumer"]
ENVIRONMENT = "PYKAFKA2_"
NOT_OPTIONS = ("PROFILE", "PROFILES")
CLIENT_ID = "pykafka2"
BY_TYPING_ONLY = frozenset(
    {
        "auto_offset_reset",
        "enable_auto_commit",
        "enable_auto_offset_store",
        "group_id",
        "group_instance_id",
        "transactional_id",
    }
)
"""Options that are left out of shared sources: with those of an application, a command would commit its
offsets, or fence its members and its producer."""
CONNECT_TIMEOUT_MS = 10_000
"""How long a verb waits for the first broker; later outages are ridden out for default.api.timeout.ms."""
OF_GROUPS = (
    "group_protocol",
    "group_remote_assignor",
    "heartbeat_interval_ms",
    "max_poll_interval_ms",
    "partition_assignment_strategy",
    "session_timeout_ms",
)
"""Options that a consumer without a group rejects."""
OF_JAVA = re.compile(
    r"(?:.*_)?(?:de)?serializer(?:_.*)?|.*interceptor_classes|metric_reporters"
    r"|(?:confluent|schema_registry|basic_auth|bearer_auth|rule|avro|specific|json|protobuf)_.*"
    r"|auto_register_schemas|normalize_schemas|use_latest_.*|use_schema_id|latest_(?:cache|compatibility)_.*"
    r"|id_compatibility_strict|max_schemas_per_subject|.*(?:subject|context)_name_strategy"
    r"|schema_(?:reflection|format)|propagate_schema_tags|proxy_(?:host|port)"
    r"|derive_type|type_property|reference_lookup_only|skip_known_types"
)
"""Options for classes of Java programs, and settings of these classes such as serializers that use a schema
registry: ignored in sources that are shared with Java programs. Names have underscores."""
named_settings: set[str] = set()
"""Those of OF_JAVA that a note has named."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add -b, -X, --config, --profile and --verbose."""
    group = parser.add_argument_group("connection")
    group.add_argument(
        "-b",
        "--bootstrap-servers",
        metavar="HOST:PORT,...",
        help="the brokers to connect to first (localhost:9092)",
    )
    group.add_argument(
        "-X",
        dest="settings",
        action=AddSetting,
        default=[],
        metavar="NAME=VALUE",
        help="a client option by Kafka's name, such as security.protocol=SSL; can be repeated",
    )
    group.add_argument(
        "-F", "--config", metavar="FILE", help="client options in a Java properties file; - reads stdin"
    )
    group.add_argument(
        "--profile",
        metavar="NAME",
        help="client options from a section of ~/.config/pykafka2/profiles.toml (PYKAFKA2_PROFILE)",
    )
    group.add_argument(
        "-v",
        "--verbose",
        action="count",
        default=0,
        help="log rebalances and resets of positions to stderr; -vv logs more",
    )


# ---------------------------------------------------------------------------------------------------
# The clients
# ---------------------------------------------------------------------------------------------------


def admin(arguments: argparse.Namespace, **defaults: Any) -> KafkaAdminClient:
    """Return an admin client; the options that were typed take precedence over `defaults`."""
    from pykafka2 import KafkaAdminClient

    return KafkaAdminClient(client_options(arguments, "admin", **defaults))


@contextmanager
def connected_admin(arguments: argparse.Namespace) -> Iterator[KafkaAdminClient]:
    """Return an admin client that has reached a broker, as a context manager which closes it."""
    with admin(arguments) as client:
        limit_ms = connect_timeout_ms(arguments)
        client.describe_cluster(timeout=None if limit_ms is None else limit_ms / 1000)
        yield client


def producer(arguments: argparse.Namespace, **defaults: Any) -> KafkaProducer[Any, Any]:
    """Return a producer; the options that were typed take precedence over `defaults`."""
    from pykafka2 import KafkaProducer

    return KafkaProducer(client_options(arguments, "producer", **defaults))


def consumer(arguments: argparse.Namespace, **defaults: Any) -> KafkaConsumer[Any, Any]:
    """Return a consumer; the options that were typed take precedence over `defaults`."""
    from pykafka2 import KafkaConsumer

    return KafkaConsumer(client_options(arguments, "consumer", **defaults))


def share_consumer(arguments: argparse.Namespace, **defaults: Any) -> KafkaShareConsumer[Any, Any]:
    """Return a share consumer; the options that were typed take precedence over `defaults`."""
    from pykafka2 import KafkaShareConsumer

    return KafkaShareConsumer(client_options(arguments, "share_consumer", **defaults))


def with_settings_of(arguments: argparse.Namespace, kind: Kind) -> argparse.Namespace:
    """Return the arguments with those options of -X that this kind of client has, too."""
    fields = option_table(kind).fields
    settings = [text for text in arguments.settings if _name(text.partition("=")[0]) in fields]
    return argparse.Namespace(**{**vars(arguments), "settings": settings})


def connect_timeout_ms(arguments: argparse.Namespace) -> float | None:
    """Return the timeout of the first connection; None, for the client's own, if -X sets that one."""
    is_set = "default_api_timeout_ms" in typed_options(arguments.settings)
    return None if is_set else CONNECT_TIMEOUT_MS


def api_timeout(arguments: argparse.Namespace, **defaults: Any) -> float:
    """Return default_api_timeout_ms of a consumer, in seconds."""
    from pykafka2.consumer.options import CONSUMER_OPTIONS

    return CONSUMER_OPTIONS.parse(client_options(arguments, "consumer", **defaults), {}).default_api_timeout


def client_options(
    arguments: argparse.Namespace,
    kind: Kind,
    environment: Mapping[str, str] = os.environ,
    /,
    *,
    typed: Mapping[str, object] | None = None,
    **defaults: object,
) -> dict[str, object]:
    """Return the options of a client by name with underscores.

    Options of -X are passed on as they are, so that the client rejects a wrong one. From the other sources,
    options of other kinds of clients are left out, because one file or profile serves all verbs. `typed` has
    the options that arguments of the verb set; no source changes them.
    """
    shared: dict[str, object] = {}
    for options in _shared_sources(arguments, environment):
        shared.update(options)
    shared = _without_settings_of_java(shared)
    settings = typed_options(arguments.settings)
    if arguments.bootstrap_servers is not None:
        settings["bootstrap_servers"] = arguments.bootstrap_servers
    settings.update(typed or {})
    if shared:
        shared = _of_kind(shared, kind)
        if "group_id" not in settings and "group_id" not in defaults:
            shared = {name: value for name, value in shared.items() if name not in OF_GROUPS}
    return {"client_id": CLIENT_ID, **defaults, **shared, **_as_typed(settings, arguments.settings, kind)}


def _shared_sources(
    arguments: argparse.Namespace, environment: Mapping[str, str]
) -> Iterator[Mapping[str, object]]:
    """Iterate over the sources that all verbs share, the weakest first; names have underscores."""
    if arguments.profile is None and environment.get(f"{ENVIRONMENT}PROFILE"):
        yield _profile(environment[f"{ENVIRONMENT}PROFILE"], environment)
    variables = {
        name.removeprefix(ENVIRONMENT).lower(): value
        for name, value in environment.items()
        if name.startswith(ENVIRONMENT) and name.removeprefix(ENVIRONMENT) not in NOT_OPTIONS
    }
    if variables:
        yield _known_variables(variables)
    if arguments.profile is not None:
        yield _profile(arguments.profile, environment)
    if arguments.config is not None:
        from pykafka2.cli.common.properties import read_properties

        found = read_properties(arguments.config)
        yield {_name(name): value for name, value in found.items()}


def _without_settings_of_java(options: dict[str, object]) -> dict[str, object]:
    """Return the options of Kafka's clients; a note on stderr names the others once, without values."""
    others = [name for name in options if OF_JAVA.fullmatch(name)]
    new = [name for name in others if name not in named_settings]
    if new:
        named_settings.update(new)
        shown = ", ".join(name.replace("_", ".") for name in new)
        note(f"Ignored options that only Java clients have: {shown}")
    return {name: value for name, value in options.items() if name not in others}


def _profile(name: str, environment: Mapping[str, str]) -> dict[str, object]:
    from pykafka2.cli.common.profiles import profiles_path, read_profile

    return {_name(key): value for key, value in read_profile(profiles_path(environment), name).items()}


def _name(written: str) -> str:
    return written.strip().replace(".", "_")


def typed_options(settings: list[str]) -> dict[str, object]:
    """Return the options of -X by name with underscores. Raise `UsageError`, which shows no value."""
    options: dict[str, object] = {}
    for text in settings:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            shown = re.match(r"[\w.-]*", text)
            raise UsageError(f"-X {shown[0] if shown else ''}: write name=value, such as -X client.id=my-app")
        options[_name(name)] = value
    return options


def _as_typed(settings: Mapping[str, object], texts: list[str], kind: Kind) -> dict[str, object]:
    """Return the options of -X; unknown ones by the name that was typed, which the client's error shows."""
    table = option_table(kind)
    written = {_name(name): name.strip() for name in (text.partition("=")[0] for text in texts)}
    return {
        name if _is_known(name, table) else written.get(name, name): value for name, value in settings.items()
    }


# ---------------------------------------------------------------------------------------------------
# Which options are whose
# ---------------------------------------------------------------------------------------------------


def option_table(kind: Kind) -> OptionTable[Any]:
    """Return the table of a client's options."""
    if kind == "consumer":
        from pykafka2.consumer.options import CONSUMER_OPTIONS

        return CONSUMER_OPTIONS
    if kind == "producer":
        from pykafka2.producer.options import PRODUCER_OPTIONS

        return PRODUCER_OPTIONS
    if kind == "share_consumer":
        from pykafka2.share.options import SHARE_CONSUMER_OPTIONS

        return SHARE_CONSUMER_OPTIONS
    from pykafka2.admin.options import ADMIN_OPTIONS

    return ADMIN_OPTIONS


def _is_known(name: str, table: OptionTable[Any]) -> bool:
    return name in table.fields or name in table.refused or name in table.ignored


def _of_kind(options: Mapping[str, object], kind: Kind) -> dict[str, object]:
    """Return the options of this kind of client, and those of no kind, which the client rejects by name."""
    table = option_table(kind)
    options = {name: value for name, value in options.items() if name not in BY_TYPING_ONLY}
    if kind == "share_consumer":  # which refuses options of consumers, such as isolation.level
        of_consumers = option_table("consumer").fields
        options = {
            name: value
            for name, value in options.items()
            if name not in table.refused or name not in of_consumers
        }
    found = {name: value for name, value in options.items() if _is_known(name, table)}
    rest = [name for name in options if name not in found]
    if rest:
        others = [option_table(other) for other in ("admin", "consumer", "producer") if other != kind]
        found.update(
            {name: options[name] for name in rest if not any(_is_known(name, other) for other in others)}
        )
    return found


def _known_variables(variables: dict[str, str]) -> dict[str, str]:
    """Return the variables that name an option; reject one that is a misspelt option, and skip others."""
    tables = [option_table(kind) for kind in ("admin", "consumer", "producer")]
    known = {
        name: value
        for name, value in variables.items()
        if OF_JAVA.fullmatch(name) or any(_is_known(name, table) for table in tables)
    }
    for name in variables.keys() - known.keys():
        close = nearest([name], (field for table in tables for field in table.fields))
        if close:
            written = f"{ENVIRONMENT}{name}".upper()
            meant = f"{ENVIRONMENT}{close[0]}".upper()
            raise UsageError(f"environment variable {written} names no option; did you mean {meant}?")
    return known
