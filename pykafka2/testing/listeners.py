"""The listeners of a cluster's brokers: names, security protocols, addresses.

Pure: checks arguments and converts them to the brokers' configuration.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

import attrs

from pykafka2.broker.base.image import PROTOCOLS
from pykafka2.broker.config.keys import nearest
from pykafka2.broker.security.authentication import MECHANISMS
from pykafka2.errors import ConfigurationError

CLIENT_AUTH = ("none", "requested", "required")
_NAME = re.compile(r"[A-Za-z0-9._-]+")


@attrs.define(frozen=True)
class Listener:
    """One listener of every broker; None uses the cluster's default.

    Attributes:
        protocol: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL; default: the listener's name.
        host: where brokers listen, default the cluster's; "{id}" is replaced by the broker's id.
        ports: one for each broker; default: free ports.
        advertised_host: the host that brokers advertise to clients of this listener; default: `host`.
        advertised_ports: the ports that brokers advertise; default: `ports`.
        mechanisms: its SASL mechanisms; default: sasl.enabled.mechanisms.
        client_auth: whether clients must show a certificate ("none", "requested", "required"); default:
            ssl.client.auth.
        max_reauth_ms: lifetime of a session; default: connections.max.reauth.ms.
    """

    protocol: str | None = None
    host: str | None = None
    ports: Sequence[int] | None = None
    advertised_host: str | None = None
    advertised_ports: Sequence[int] | None = None
    mechanisms: Sequence[str] | None = None
    client_auth: str | None = None
    max_reauth_ms: int | None = None

    @property
    def uses_tls(self) -> bool:
        """Whether its protocol uses TLS; False if the listener's name is the protocol."""
        return self.protocol in ("SSL", "SASL_SSL")

    @property
    def uses_sasl(self) -> bool:
        """Whether its protocol uses SASL; False if the listener's name is the protocol."""
        return self.protocol in ("SASL_PLAINTEXT", "SASL_SSL")

    def host_of(self, broker_id: int, default: str) -> str:
        """Return the host name or address where this broker listens."""
        return (self.host or default).replace("{id}", str(broker_id))

    def advertised_of(self, broker_id: int, default: str | None) -> str | None:
        """Return the advertised host name or address, None without one."""
        host = self.advertised_host or default
        return None if host is None else host.replace("{id}", str(broker_id))


Listeners = Mapping[str, "Listener | Mapping[str, object] | None"] | Sequence[str]
"""Listeners by name (a `Listener`, its arguments, or None), or just names that are security protocols."""


def described_listeners(listeners: Listeners, brokers: int) -> dict[str, Listener]:
    """Return the listeners of an argument, by name, each with its protocol.  Raise `ConfigurationError`."""
    described: dict[str, Listener] = {}
    named = listeners if isinstance(listeners, Mapping) else dict.fromkeys(_names(listeners))
    for name, listener in named.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ConfigurationError(f"listeners: {name!r} is no name. Set a name, such as 'SASL_SSL'.")
        described[name] = _described(name, listener, brokers)
    if not described:
        raise ConfigurationError("listeners is empty. Set at least one, such as ['PLAINTEXT'].")
    return described


def _names(listeners: object) -> list[str]:
    if isinstance(listeners, str) or not isinstance(listeners, Sequence):
        raise ConfigurationError(
            f"listeners={listeners!r} is illegal. Set a dict {{'SASL_SSL': Listener(...)}} or a list of "
            "protocols."
        )
    for number, name in enumerate(listeners):
        if name in listeners[:number]:
            raise ConfigurationError(f"listeners={listeners!r} names {name!r} twice")
    return list(listeners)


def _described(name: str, value: object, brokers: int) -> Listener:
    if isinstance(value, Mapping):
        known = [field.name for field in attrs.fields(Listener)]
        for key in value:
            if key not in known:
                raise ConfigurationError(
                    f"listeners[{name!r}] has no argument {key!r}{nearest(str(key), known)}"
                )
        value = Listener(**value)
    if value is not None and not isinstance(value, Listener):
        raise ConfigurationError(
            f"listeners[{name!r}]={value!r} is illegal. Set a Listener, its arguments, or None."
        )
    listener = value or Listener()
    protocol = listener.protocol or name
    if protocol not in PROTOCOLS:
        which = "protocol" if listener.protocol else "listener"
        raise ConfigurationError(
            f"listeners[{name!r}]: {which} {protocol!r} is not a security protocol. Use one of "
            f"{', '.join(PROTOCOLS)}{nearest(protocol, PROTOCOLS)}"
        )
    listener = attrs.evolve(listener, protocol=protocol)
    _check_numbers(name, listener, brokers)
    _check_security(name, listener)
    return listener


def _check_numbers(name: str, listener: Listener, brokers: int) -> None:
    for which in ("ports", "advertised_ports"):
        ports = getattr(listener, which)
        if ports is None:
            continue
        if isinstance(ports, str) or not isinstance(ports, Sequence) or len(ports) != brokers:
            raise ConfigurationError(
                f"listeners[{name!r}]: {which}={ports!r}: {brokers} brokers need {brokers} of them"
            )
    max_reauth_ms = listener.max_reauth_ms
    if max_reauth_ms is not None and not (isinstance(max_reauth_ms, int) and max_reauth_ms >= 0):
        raise ConfigurationError(
            f"listeners[{name!r}]: max_reauth_ms={max_reauth_ms!r} is illegal. Set milliseconds, or 0 "
            "for no limit."
        )


def _check_security(name: str, listener: Listener) -> None:
    if listener.mechanisms is not None:
        if not listener.uses_sasl:
            raise ConfigurationError(
                f"listeners[{name!r}]: mechanisms are for SASL_PLAINTEXT and SASL_SSL, not "
                f"{listener.protocol}"
            )
        check_mechanisms(f"listeners[{name!r}]: mechanisms", listener.mechanisms)
    if listener.client_auth is not None:
        if not listener.uses_tls:
            raise ConfigurationError(
                f"listeners[{name!r}]: client_auth is for SSL and SASL_SSL, not {listener.protocol}"
            )
        if listener.client_auth not in CLIENT_AUTH:
            raise ConfigurationError(
                f"listeners[{name!r}]: client_auth={listener.client_auth!r} is illegal. Choose one of "
                f"{', '.join(CLIENT_AUTH)}{nearest(str(listener.client_auth), CLIENT_AUTH)}"
            )


def check_mechanisms(where: str, names: Iterable[str]) -> None:
    """Raise `ConfigurationError` that names the nearest, for an unsupported mechanism."""
    if isinstance(names, str):
        raise ConfigurationError(f"{where}={names!r} is illegal. Set a list, such as ['PLAIN'].")
    for one in names:
        if one not in MECHANISMS:
            raise ConfigurationError(
                f"{where}: {one!r} is none of {', '.join(MECHANISMS)}{nearest(str(one), MECHANISMS)}"
            )
