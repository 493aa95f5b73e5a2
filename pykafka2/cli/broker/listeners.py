"""Listeners, users and secrets of `pykafka2 broker`: texts into what a cluster takes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import attrs

from pykafka2.cli.common.parsing import UsageError
from pykafka2.cli.common.secrets import first_line, lines
from pykafka2.errors import ConfigurationError

if TYPE_CHECKING:
    from pykafka2.testing.listeners import Listener

MAX_PORT = 65535
VARIABLES = "PYKAFKA2_BROKER_"
"""The beginning of the environment variables that have secrets."""

_LISTENER = re.compile(r"(?P<name>[^=:/]+)(?:=(?P<protocol>\w+))?://(?P<host>\[[^]]+\]|[^:]*):(?P<port>\d+)")


def ports_from(option: str, first: int, brokers: int) -> list[int]:
    """Return one port for each broker, from the first on; 0 takes free ones.  Raise `ConfigurationError`."""
    if first == 0:
        return [0] * max(brokers, 0)
    if not 0 < first <= MAX_PORT - brokers + 1:
        raise ConfigurationError(f"{option} {first}: use a number from 1 to {MAX_PORT - brokers + 1}, or 0")
    return list(range(first, first + brokers))


def parsed_listeners(
    texts: Sequence[str], advertised: Sequence[str], brokers: int
) -> dict[str, Listener] | None:
    """Return the listeners by name; None where none was named.  Raise `ConfigurationError`."""
    from pykafka2.testing.listeners import Listener

    listeners: dict[str, Listener] = {}
    for text in texts:
        found = _matched("--listener", text)
        name = found["name"]
        if name in listeners:
            raise ConfigurationError(f"--listener {text}: {name} is set twice")
        ports = ports_from(f"--listener {text}: port", int(found["port"]), brokers)
        host = found["host"].strip("[]") or None
        on_this_host = {name: other for name, other in listeners.items() if other.host == host}
        _check_apart(text, ports, on_this_host)
        listeners[name] = Listener(found["protocol"], host, ports)
    for text in advertised:
        found = _matched("--advertised-listener", text)
        name = found["name"]
        if name not in listeners or found["protocol"]:
            known = ", ".join(listeners) or "none"
            raise ConfigurationError(f"--advertised-listener {text}: use the name of a listener: {known}")
        if listeners[name].advertised_ports is not None:
            raise ConfigurationError(f"--advertised-listener {text}: {name} is set twice")
        listeners[name] = attrs.evolve(
            listeners[name],
            advertised_host=found["host"].strip("[]") or None,
            advertised_ports=ports_from(f"--advertised-listener {text}: port", int(found["port"]), brokers),
        )
    return listeners or None


def _check_apart(text: str, ports: Sequence[int], others: Mapping[str, Listener]) -> None:
    """Raise `ConfigurationError` for ports that are another listener's, of another broker perhaps."""
    for name, other in others.items():
        taken = other.ports or ()
        if any(port and port in taken for port in ports):
            raise ConfigurationError(
                f"--listener {text}: its ports, {ports[0]} to {ports[-1]}, meet those of {name}, "
                f"{taken[0]} to {taken[-1]}; say some that lie further apart, or fewer --brokers"
            )


def listener_names(texts: Sequence[str]) -> list[str]:
    """Return the names alone, of texts that could be read."""
    return [_matched("--listener", text)["name"] for text in texts]


def parsed_users(
    texts: Sequence[str], path: str | None = None, environment: Mapping[str, str] | None = None
) -> dict[str, str] | None:
    """Passwords by user, of --user, --user-file and PYKAFKA2_BROKER_USERS; None without any.

    Raise `ConfigurationError`, which shows no password, or `UsageError`.
    """
    sources = [("--user", text) for text in texts]
    for name, found in (
        (f"--user-file {path}", lines(f"--user-file {path}", path) if path is not None else []),
        (f"{VARIABLES}USERS", (environment or {}).get(f"{VARIABLES}USERS", "").splitlines()),
    ):
        sources += [(f"{name}, line {number}, user", text) for number, text in enumerate(found, 1) if text]
    users: dict[str, str] = {}
    for source, text in sources:
        name, colon, password = text.partition(":")
        if not colon or not name or not password:
            shown = f" {name}" if colon and name else ""
            raise ConfigurationError(f"{source}{shown}: write name:password, such as ann:secret")
        if name in users:
            raise ConfigurationError(f"{source} {name}: is set twice; give each user one password")
        users[name] = password
    return users or None


def secret(option: str, typed: str | None, path: str | None, environment: Mapping[str, str]) -> str | None:
    """Return --token-key or --admin-token, from option, file or variable.  Raise `UsageError`."""
    if path is None:
        variable = f"{VARIABLES}{option.strip('-').replace('-', '_').upper()}"
        return typed if typed is not None else environment.get(variable) or None
    name = f"{option}-file {path}"
    found = first_line(name, path)
    if not found:
        raise UsageError(f"{name}: the first line is empty; write the value there")
    return found


def _matched(option: str, text: str) -> re.Match[str]:
    found = _LISTENER.fullmatch(text)
    if found is None:
        raise ConfigurationError(
            f"{option} {text}: write name://host:port, such as SASL_SSL://127.0.0.1:9095, or name=protocol://..."
        )
    return found
