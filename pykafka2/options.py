"""Typed option tables: Kafka's names and defaults, declared once beside the field that holds the value.

An options class is its own table: each field has an `Option` (option_fields.py) with the public name, the
valid values and their conversion. Durations are milliseconds in the API (`linger_ms`) and seconds inside
(`linger`). refused_options.py lists the names that are refused or ignored. Pure data; read on the caller's
thread when a client is created. Producer and consumer add fields in producer/options.py and
consumer/options.py.
"""

# ruff: noqa: RUF009 (the calls in the class bodies declare attrs fields)
from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Generic, Literal, Self, TypeVar, get_args

import attrs

from pykafka2.addresses import Addresses, BadAddress, parse_addresses
from pykafka2.errors import ConfigurationError, UnknownOption
from pykafka2.option_fields import (
    OPTION,
    Because,
    Option,
    choice,
    custom,
    duration,
    flag,
    integer,
    text,
)
from pykafka2.other_clients import instead_of_option
from pykafka2.refused_options import COMMON_IGNORED, COMMON_REFUSED
from pykafka2.refused_options import Refused as Refused
from pykafka2.security_options import TLS_SOURCES, SecurityConfig, SecurityOptions, check_security
from pykafka2.text import is_like_a_name, type_of, without_secrets


class IgnoredOption(UserWarning):
    """An option of another client has no effect here; it was ignored."""


def _read_addresses(value: Any) -> Addresses:
    try:
        return parse_addresses(value)
    except BadAddress as error:
        raise Because(str(error)) from None


# ---------------------------------------------------------------------------------------------------
# Options of all clients
# ---------------------------------------------------------------------------------------------------

DnsLookup = Literal["use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"]
RecoveryStrategy = Literal["rebootstrap", "none"]

LONGEST_SHOWN = 300
"""Characters of a value in an error."""

LEAST_ALIKE = 0.6
"""Least similarity of a name that an error suggests."""

_CREDENTIALS = ("sasl_mechanism", "sasl_username", "sasl_password", "sasl_jaas_config")

BOOTSTRAP_LEGAL = "'host:port', several separated by commas, or a list of them"


@attrs.define(kw_only=True, frozen=True)
class ClientOptions(SecurityOptions):
    """Options of every client. Durations are seconds; the table has the public names and units."""

    bootstrap_servers: Addresses = custom(
        "bootstrap_servers",
        "localhost:9092",
        _read_addresses,
        BOOTSTRAP_LEGAL,
        "The brokers that the client connects to first, to fetch the list of all brokers.",
    )
    client_id: str = text(
        "client_id", "pykafka2", "The name of the client in broker logs and quotas.", is_sent=True
    )
    client_dns_lookup: str = choice(
        "client_dns_lookup",
        "use_all_dns_ips",
        get_args(DnsLookup),
        "Whether to try all addresses of a host name, or to resolve bootstrap names to canonical ones first.",
    )
    request_timeout: float = duration(
        "request_timeout_ms", 30_000, "How long to wait for the response to a request.", is_sent=True
    )
    default_api_timeout: float = 60.0
    """For blocking calls without a timeout of their own; a producer's max_block_ms."""
    retry_backoff: float = duration("retry_backoff_ms", 100, "The wait before the first retry of a request.")
    retry_backoff_max: float = duration("retry_backoff_max_ms", 1_000, "The maximum wait before a retry.")
    reconnect_backoff: float = duration(
        "reconnect_backoff_ms", 50, "The wait before the first reconnect to a broker."
    )
    reconnect_backoff_max: float = duration(
        "reconnect_backoff_max_ms", 1_000, "The maximum wait before a reconnect."
    )
    connections_max_idle: float = duration(
        "connections_max_idle_ms", 540_000, "Idle connections are closed after this time.", minimum_ms=1
    )
    socket_connection_setup_timeout: float = duration(
        "socket_connection_setup_timeout_ms", 10_000, "The timeout for establishing a connection."
    )
    socket_connection_setup_timeout_max: float = duration(
        "socket_connection_setup_timeout_max_ms",
        30_000,
        "The maximum of socket_connection_setup_timeout_ms, which doubles with each attempt that times out.",
    )
    metadata_max_age: float = duration(
        "metadata_max_age_ms", 300_000, "Metadata is refreshed at this age, even without changes."
    )
    metadata_max_idle: float = 300.0
    """Time after which an unused topic is forgotten; a producer's metadata_max_idle_ms."""
    metadata_recovery_strategy: str = choice(
        "metadata_recovery_strategy",
        "rebootstrap",
        get_args(RecoveryStrategy),
        "Whether to reconnect to bootstrap_servers if no known broker can be reached.",
    )
    metadata_recovery_rebootstrap_trigger: float = duration(
        "metadata_recovery_rebootstrap_trigger_ms",
        300_000,
        "The client starts again from bootstrap_servers after this time without metadata.",
    )
    metadata_cluster_check_enable: bool = flag(
        "metadata_cluster_check_enable",
        True,
        "Whether brokers check that a new connection has reached the broker and the cluster of the metadata.",
    )
    enable_metrics_push: bool = flag(
        "enable_metrics_push",
        True,
        "Whether to push the client's metrics to brokers that ask for them (KIP-714).",
    )
    bootstrap_resolve_timeout: float = duration(
        "bootstrap_resolve_timeout_ms",
        0,
        "How long DNS can fail for all bootstrap_servers before calls raise BootstrapResolutionFailed; "
        "0: calls only end with their own timeouts.",
    )
    allow_auto_create_topics: bool = flag(
        "allow_auto_create_topics",
        True,
        "Whether a metadata request can create a missing topic on the broker.",
    )
    send_buffer_bytes: int = integer(
        "send_buffer_bytes", -1, "The socket's SO_SNDBUF; -1 leaves it to the kernel.", minimum=-1
    )
    receive_buffer_bytes: int = integer(
        "receive_buffer_bytes", -1, "The socket's SO_RCVBUF; -1 leaves it to the kernel.", minimum=-1
    )
    max_frame_bytes: int = integer(
        "receive_message_max_bytes",
        100 * 1024 * 1024,
        "The maximum size in bytes of a response; a larger one closes the connection.",
        minimum=1024,
    )

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> Self:
        """Create the options from the values that were passed, by field name; checks their consistency."""
        options = cls(**check_security(values))
        if not options.uses_tls:
            _warn_of_ignored(
                options, sorted(name for name in values if name in TLS_SOURCES), "does not encrypt", "SSL"
            )
        if not options.uses_sasl:
            _warn_of_ignored(
                options,
                [name for name in _CREDENTIALS if values.get(name)],
                "does not authenticate",
                "SASL_SSL",
            )
        return options


def _warn_of_ignored(options: ClientOptions, names: list[str], what: str, protocol: str) -> None:
    if names:
        verb = "is" if len(names) == 1 else "are"
        warn_caller(
            f"{', '.join(names)} {verb} ignored: security_protocol={options.security_protocol!r} {what}; "
            f"set security_protocol={protocol!r}",
            IgnoredOption,
        )


def warn_caller(message: str, category: type[Warning]) -> None:
    """Issue a warning for the line that called the client: the nearest frame outside this package."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] == "pykafka2":
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


O = TypeVar("O", bound=ClientOptions)  # noqa: E741

_warned: set[str] = set()


def _shown_argument(config: object) -> str:
    """Return an argument in the place of the options, unless it is the content of a file of options."""
    return type_of(config) if "=" in str(config) else without_secrets(repr(config))


class OptionTable(Generic[O]):
    """All options of one kind of client; converts a user's values into an options object.

    `refused` and `ignored` extend the common ones; options with a field take precedence over them.
    """

    def __init__(
        self,
        options_class: type[O],
        *,
        refused: Mapping[str, Refused] | None = None,
        ignored: Mapping[str, str] | None = None,
    ) -> None:
        self.options_class = options_class
        self.fields: dict[str, str] = {}
        """Field name by public name (aliases included)."""
        self.options: dict[str, Option] = {}
        """Option by field name, in order of declaration."""
        for attribute in attrs.fields(options_class):
            option: Option | None = attribute.metadata.get(OPTION)
            if option is not None:
                self.options[attribute.name] = option
                self.fields.update(dict.fromkeys(option.names, attribute.name))
        self.refused = {**COMMON_REFUSED, **(refused or {})}
        self.ignored = {**COMMON_IGNORED, **(ignored or {})}
        for name in self.fields:
            self.refused.pop(name, None)
            self.ignored.pop(name, None)

    def parse(self, config: Mapping[str, object] | None, kwargs: Mapping[str, object]) -> O:
        """Return the options for a dict (dotted or underscored names) and keyword arguments.

        None means the default. Raise UnknownOption with the nearest name, and ConfigurationError with the
        option, its value and the valid values.
        """
        if config is not None and not isinstance(config, Mapping):
            raise ConfigurationError(
                f"the first argument must be a mapping of options, not {_shown_argument(config)}; "
                "pass options by name: bootstrap_servers='localhost:9092'"
            )
        values: dict[str, object] = {}
        seen: dict[str, str] = {}
        for written, value in [*(config or {}).items(), *kwargs.items()]:
            name = self._name(written)
            field = self.fields.get(name)
            if field is None:
                self._without_field(written, name, value)
                continue
            if field in seen:
                raise ConfigurationError(
                    f"{written!r} is set twice (also as {seen[field]!r}); remove one of the two"
                )
            seen[field] = written
            if value is not None:
                values[field] = self._read(self.options[field], value)
        return self.options_class.from_values(values)

    def _name(self, written: object) -> str:
        if not isinstance(written, str):
            raise UnknownOption(f"an option's name must be a str, not {written!r}")
        return written.replace(".", "_")

    def _without_field(self, written: str, name: str, value: object) -> None:
        if name in self.refused:
            refused = self.refused[name]
            if value is not None and value not in refused.harmless:
                raise ConfigurationError(f"{name} is not supported: {refused.reason}")
        elif name in self.ignored:
            if value is not None and name not in _warned:
                _warned.add(name)
                warn_caller(f"{name} is ignored: {self.ignored[name]}", IgnoredOption)
        else:
            advice = instead_of_option(name)
            more = self._nearest(written, name) if advice is None else f"; {advice}"
            if not is_like_a_name(written):  # such as a line of a private key in a file of options
                raise UnknownOption(
                    f"there is no option of this name, which has {len(written)} characters and is not shown, "
                    "because it can be a part of a secret"
                )
            raise UnknownOption(f"there is no option {written!r}{more}")

    def _nearest(self, written: str, name: str) -> str:
        from difflib import get_close_matches

        known = [*self.fields, *self.refused, *self.ignored]
        nearest = get_close_matches(name, known, n=1, cutoff=LEAST_ALIKE)
        if not nearest:
            return "; see the option reference"
        spelled = nearest[0].replace("_", ".") if "." in written else nearest[0]
        return f"; the nearest is {spelled!r}"

    def _read(self, option: Option, value: object) -> object:
        try:
            return option.read(value)
        except (ValueError, TypeError, OverflowError) as error:
            is_hidden = option.secret or (isinstance(error, Because) and error.hides_value)
            shown = "[hidden]" if is_hidden else without_secrets(repr(value))
            shown = shown if len(shown) <= LONGEST_SHOWN else shown[: LONGEST_SHOWN - 3] + "..."
            more = f" ({without_secrets(str(error))})" if isinstance(error, Because) else ""
            raise ConfigurationError(
                f"{option.name}={shown} is not valid; use {option.legal}{more}"
            ) from None


class ClientConfig(SecurityConfig, total=False):
    """The keyword options of every client, for type checkers."""

    bootstrap_servers: str | Sequence[str] | Sequence[tuple[str, int]]
    client_id: str | None
    client_dns_lookup: DnsLookup
    request_timeout_ms: float
    retry_backoff_ms: float
    retry_backoff_max_ms: float
    reconnect_backoff_ms: float
    reconnect_backoff_max_ms: float
    connections_max_idle_ms: float
    socket_connection_setup_timeout_ms: float
    socket_connection_setup_timeout_max_ms: float
    metadata_max_age_ms: float
    metadata_recovery_strategy: RecoveryStrategy
    metadata_recovery_rebootstrap_trigger_ms: float
    metadata_cluster_check_enable: bool
    enable_metrics_push: bool
    bootstrap_resolve_timeout_ms: float
    allow_auto_create_topics: bool
    send_buffer_bytes: int | None
    receive_buffer_bytes: int | None
    receive_message_max_bytes: int
