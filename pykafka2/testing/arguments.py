"""The arguments of a cluster: checks, and conversion to the brokers' configuration.

Pure.  `KafkaCluster` (cluster.py) starts from it in this process; `ProcessCluster` (remote/cluster.py) sends
it to a child.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from inspect import Parameter, signature
from typing import Any

import attrs

from pykafka2.broker.base.features import Release, finalised, release_of
from pykafka2.broker.base.image import ListenerAddress, is_every_interface
from pykafka2.broker.config.configs import BrokerConfig
from pykafka2.broker.config.keys import BROKER_KEYS, nearest
from pykafka2.broker.controller import NewTopic
from pykafka2.broker.observed.history import MAX_ENTRIES
from pykafka2.broker.security.listeners import ListenerSecurity, client_auth
from pykafka2.broker.security.oauthbearer import WebKeys
from pykafka2.broker.security.principal_mapping import PrincipalMapping
from pykafka2.driver.runtime import Runtime
from pykafka2.errors import ConfigurationError
from pykafka2.network.tls import TlsContext
from pykafka2.testing.authority import Authority
from pykafka2.testing.listeners import Listener, Listeners, described_listeners
from pykafka2.text import shown

MAX_BROKERS = 1000
TLS_ARGUMENTS = ("_file", "_data", "_password", "ciphers")
MAPPINGS = {
    "config": "{'message.max.bytes': 2000}",
    "features": "{'transaction.version': 2}",
    "users": "{'alice': 'secret'}",
}
SEQUENCES = {
    "racks": "['a', 'b', 'c']",
    "ports": "[9092, 9093, 9094]",
    "advertised_ports": "[19092, 19093, 19094]",
}
LAST_BROKER_ID = 2**31 - 1
MOST_RACK_BYTES = 2**15 - 1


@attrs.define(frozen=True)
class Topic:
    """A topic to create.  None uses the cluster's default; configs have Kafka's names, such as
    "retention.ms".

    `assignment` is a list of brokers for each partition, the leader first; it overrides both numbers.
    """

    partitions: int = 1
    replication_factor: int | None = None
    configs: Mapping[str, object] = attrs.field(factory=dict)
    assignment: Sequence[Sequence[int]] = ()

    def described(self, name: str) -> NewTopic:
        """Return the controller's request to create the topic with this name."""
        factor = -1 if self.replication_factor is None else self.replication_factor
        replicas = {number: tuple(brokers) for number, brokers in enumerate(self.assignment)}
        partitions, factor = (-1, -1) if replicas else (self.partitions, factor)
        return NewTopic(name, partitions, factor, self.configs, replicas)


def _is_rack(rack: object) -> bool:
    """Return whether brokers can register with this rack."""
    if not isinstance(rack, str):
        return False
    try:
        return 0 < len(rack.encode()) <= MOST_RACK_BYTES
    except UnicodeEncodeError:
        return False


def topic_of(name: str, topic: int | Topic) -> Topic:
    """Return the topic of an argument.  Raise `ConfigurationError` unless it is a number or a `Topic`."""
    if isinstance(topic, Topic):
        return topic
    if isinstance(topic, int):
        return Topic(topic)
    raise ConfigurationError(f"topic {name!r} is {topic!r}. Set its number of partitions, or a Topic.")


Topics = Mapping[str, int | Topic] | Sequence[str]
"""Topics to create: partitions (or a `Topic`) by name, or names of topics with one partition each."""


def described_topics(topics: Topics | None) -> dict[str, Topic]:
    """Return the topics of an argument, by name.  Raise `ConfigurationError` for any other type."""
    if isinstance(topics, Mapping):
        return {name: topic_of(name, topic) for name, topic in topics.items()}
    names = () if topics is None else topics
    if (
        isinstance(names, str)
        or not isinstance(names, Sequence)
        or not all(isinstance(name, str) for name in names)
    ):
        raise ConfigurationError(
            f"topics={topics!r} is illegal. Set a list of names ['orders'] or a dict {{'orders': 3}}."
        )
    found: dict[str, Topic] = {}
    for name in names:
        if name in found:
            raise ConfigurationError(f"topics={topics!r} names {name!r} twice")
        found[name] = Topic()
    return found


def check_names(cls: type, options: Mapping[str, object]) -> None:
    """Raise `TypeError` that names the nearest argument, if `cls` does not have this one."""
    taken = signature(cls.__init__).parameters  # type: ignore[misc]
    if any(one.kind is Parameter.VAR_KEYWORD for one in taken.values()):
        return
    for name in options:
        if name not in taken:
            close = nearest(name, taken)
            raise TypeError(f"{cls.__name__}() got an unexpected keyword argument {name!r}{close}")


def _shown_config(config: Mapping[str, object] | None) -> str:
    """Hide Kafka's secret options in a `repr`."""
    if not isinstance(config, Mapping):
        return repr(config)
    secret = {name for name in config if name in BROKER_KEYS and BROKER_KEYS[name].is_sensitive}
    return repr({name: "..." if name in secret else value for name, value in config.items()})


def _shown_tls(tls: object) -> str:
    """Hide the key's password in a `repr`."""
    if not isinstance(tls, Mapping):
        return repr(tls)
    return repr({name: "..." if str(name).endswith("_password") else value for name, value in tls.items()})


def _path_text(path: str | os.PathLike[str] | None) -> str | os.PathLike[str] | None:
    """Return a path as text, which can be sent to a child process."""
    return os.fspath(path) if isinstance(path, os.PathLike) else path


@attrs.define(frozen=True)
class ClusterArguments:
    """The arguments of `KafkaCluster`, where they are documented."""

    brokers: int = 3
    topics: Topics | None = None
    config: Mapping[str, object] | None = attrs.field(default=None, kw_only=True, repr=_shown_config)
    pipelined: bool | None = attrs.field(default=None, kw_only=True)
    seed: int | str = attrs.field(default=0, kw_only=True)
    racks: Sequence[str] | None = attrs.field(default=None, kw_only=True)
    host: str = attrs.field(default="127.0.0.1", kw_only=True)
    ports: Sequence[int] | None = attrs.field(default=None, kw_only=True)
    tls: TlsContext | Mapping[str, str] | bool | None = attrs.field(
        default=None, kw_only=True, repr=_shown_tls
    )
    runtime: Runtime | None = attrs.field(default=None, kw_only=True)
    features: Mapping[str, int] | None = attrs.field(default=None, kw_only=True)
    as_version: str | None = attrs.field(default=None, kw_only=True)
    history_entries: int = attrs.field(default=MAX_ENTRIES, kw_only=True)
    controller: int | None = attrs.field(default=None, kw_only=True)
    first_broker_id: int = attrs.field(default=0, kw_only=True)
    advertised_host: str | None = attrs.field(default=None, kw_only=True)
    advertised_ports: Sequence[int] | None = attrs.field(default=None, kw_only=True)
    listeners: Listeners | None = attrs.field(default=None, kw_only=True)
    users: Mapping[str, str] | None = attrs.field(default=None, kw_only=True, repr=False)
    token_key: str | Mapping[str, Any] | None = attrs.field(default=None, kw_only=True, repr=False)
    data_dir: str | os.PathLike[str] | None = attrs.field(default=None, kw_only=True, converter=_path_text)

    def check(self) -> None:
        """Raise `ConfigurationError` for illegal arguments."""
        if not isinstance(self.brokers, int) or not 1 <= self.brokers <= MAX_BROKERS:
            raise ConfigurationError(
                f"brokers={self.brokers!r} is illegal. Set a number from 1 to {MAX_BROKERS}."
            )
        self._check_kinds()
        for name in ("ports", "advertised_ports"):
            ports = getattr(self, name)
            if ports is not None and len(ports) != self.brokers:
                raise ConfigurationError(
                    f"{self.brokers} brokers need {self.brokers} {name}, not {len(ports)}"
                )
        last = LAST_BROKER_ID - self.brokers + 1
        if not 0 <= self.first_broker_id <= last:
            raise ConfigurationError(
                f"first_broker_id={self.first_broker_id} is illegal. Set a number from 0 to {last}."
            )
        ids = self.broker_ids
        if self.controller is not None and self.controller not in ids:
            raise ConfigurationError(
                f"controller={self.controller} is no broker. Set an id from {ids[0]} to {ids[-1]}."
            )
        self.finalised_features()
        self.described_topics()
        self._check_advertised()
        self._check_security()

    def _check_advertised(self) -> None:
        """Refuse addresses that clients of every broker would take for their own machine."""
        for address in self.addresses_of(self.first_broker_id):
            host, _ = address.advertised
            if is_every_interface(host):
                raise ConfigurationError(
                    f"Listener {address.name} would advertise {host!r}, which clients cannot connect to. Set "
                    "its advertised_host (--advertised-host, or --advertised-listener with --listener) to a "
                    "name or address that clients can reach, such as 'localhost'."
                )

    def _check_security(self) -> None:
        for user, password in (self.users or {}).items():
            if not isinstance(user, str) or not user or not isinstance(password, str) or not password:
                raise ConfigurationError(f"users: {user!r} needs a name and a password, both text")
        self.signing_key()
        # Check rules now: otherwise the first client that connects would get the error of an illegal rule.
        PrincipalMapping(BrokerConfig(self.config).get("ssl.principal.mapping.rules"))
        listeners = self.described_listeners()
        if self.tls is False and any(one.uses_tls for one in listeners.values()):
            raise ConfigurationError("tls=False, but there are listeners with TLS")
        if self.listeners is not None and self.tls and not any(one.uses_tls for one in listeners.values()):
            raise ConfigurationError(
                f"tls={_shown_tls(self.tls)}, but none of the listeners {', '.join(listeners)} has TLS"
            )

    def signing_key(self) -> str | WebKeys | None:
        """Return the verifier of OAUTHBEARER tokens.  Raise `ConfigurationError` for an illegal key."""
        key = self.token_key
        if isinstance(key, Mapping):
            return WebKeys.of(key)
        if key is not None and (not isinstance(key, str) or not key):
            raise ConfigurationError(
                "token_key is illegal. Set the text that signs OAUTHBEARER tokens, or a JWKS."
            )
        return key

    def _check_kinds(self) -> None:
        """Check types at run time, for users without a type checker."""
        for name, example in MAPPINGS.items():
            value = getattr(self, name)
            if value is not None and not isinstance(value, Mapping):
                shown_value = "" if name == "users" else f"={value!r}"  # it may be a password
                raise ConfigurationError(f"{name}{shown_value} is illegal. Set a dict, such as {example}.")
        for name, example in SEQUENCES.items():
            value = getattr(self, name)
            if value is not None and (isinstance(value, str) or not isinstance(value, Sequence)):
                raise ConfigurationError(f"{name}={value!r} is illegal. Set a list, such as {example}.")
        for rack in self.racks or ():
            if not _is_rack(rack):
                raise ConfigurationError(
                    f"rack {shown(repr(rack))} is illegal. Set a name of 1 to {MOST_RACK_BYTES} bytes."
                )
        for name in ("history_entries", "controller", "first_broker_id"):
            value = getattr(self, name)
            if not isinstance(value, int) and (name, value) != ("controller", None):
                raise ConfigurationError(f"{name}={value!r} is illegal. Set a number.")
        if self.history_entries < 0:
            raise ConfigurationError(
                f"history_entries={self.history_entries} is illegal. Set a number of at least 0."
            )
        if not isinstance(self.seed, int | str):
            raise ConfigurationError(f"seed={self.seed!r} is illegal. Set a number or text.")
        if not isinstance(self.pipelined, bool | None):
            raise ConfigurationError(f"pipelined={self.pipelined!r} is illegal. Set True or False.")
        if self.advertised_host is not None and not isinstance(self.advertised_host, str):
            raise ConfigurationError(
                f"advertised_host={self.advertised_host!r} is illegal. Set a name or an address."
            )
        if self.data_dir is not None and not isinstance(self.data_dir, str):
            raise ConfigurationError(f"data_dir={self.data_dir!r} is illegal. Set the path of a directory.")
        if self.tls is not None and not isinstance(self.tls, (bool, Mapping, TlsContext)):
            raise ConfigurationError(
                f"tls={self.tls!r} is illegal. Set True, {{'cert_file': ..., 'key_file': ...}} or a "
                "TlsContext"
            )

    def broker_config(self) -> BrokerConfig:
        """Return the brokers' configuration, which includes `pipelined` as channel.mode.

        Raise `UnknownOption` for a misspelt name, and `ConfigurationError` if the two contradict each other.
        """
        release = self.release
        if self.pipelined is None:
            return BrokerConfig(self.config, defaults=release.defaults, lacks=release.lacks)
        config = self.config or {}
        mode = "pipelined" if self.pipelined else "serial"
        if config.get("channel.mode", mode) != mode:
            raise ConfigurationError(
                f"pipelined={self.pipelined} contradicts channel.mode={config['channel.mode']}. Set only one."
            )
        config = {**config, "channel.mode": mode}
        return BrokerConfig(config, defaults=release.defaults, lacks=release.lacks)

    def described_topics(self) -> dict[str, Topic]:
        """Return the topics to create, by name."""
        return described_topics(self.topics)

    def finalised_features(self) -> Mapping[str, int]:
        """Return all features with their levels."""
        release = self.release
        name = "" if release.is_default else release.name
        return finalised(self.features, release.supported, release.finalized, name)

    @property
    def release(self) -> Release:
        """The release of Apache Kafka that clients see.  Raises `ConfigurationError` for an unknown one."""
        return release_of(self.as_version)

    @property
    def broker_ids(self) -> range:
        """Ids of the brokers."""
        return range(self.first_broker_id, self.first_broker_id + self.brokers)

    @property
    def first_controller(self) -> int:
        """Id of the first controller."""
        return self.first_broker_id if self.controller is None else self.controller

    def hosts(self) -> list[str]:
        """Return the host names of the brokers, without duplicates."""
        addresses = [address for number in self.broker_ids for address in self.addresses_of(number)]
        advertised = [one.advertised_host for one in addresses]
        return [*dict.fromkeys([*(one.host for one in addresses), *filter(None, advertised)])]

    # ------------------------------------------------------------------ listeners

    def described_listeners(self) -> dict[str, Listener]:
        """Return the listeners of each broker by name, in order, each with its protocol."""
        if self.listeners is not None:
            return described_listeners(self.listeners, self.brokers)
        name = "SSL" if self.tls else "PLAINTEXT"
        return {name: Listener(name)}

    def addresses_of(self, broker_id: int) -> list[ListenerAddress]:
        """Return where a broker listens; `ports` and `advertised_ports` are those of its first listener."""
        place = broker_id - self.first_broker_id
        addresses: list[ListenerAddress] = []
        for name, listener in self.described_listeners().items():
            own, advertised = listener.ports, listener.advertised_ports
            if not addresses:
                own, advertised = own or self.ports, advertised or self.advertised_ports
            addresses.append(
                ListenerAddress(
                    name,
                    listener.protocol or name,
                    listener.host_of(broker_id, self.host),
                    own[place] if own else 0,
                    listener.advertised_of(broker_id, self.advertised_host),
                    advertised[place] if advertised else 0,
                )
            )
        return addresses

    @property
    def needs_authority(self) -> bool:
        """Whether a throw-away authority creates the brokers' certificates."""
        with_tls = any(one.uses_tls for one in self.described_listeners().values())
        return self.tls is True or (self.tls is None and with_tls)

    def client_auth_of(self, listener: Listener) -> str:
        """Return whether clients must show a certificate at a listener with TLS."""
        if listener.client_auth is not None:
            return listener.client_auth
        # Kafka requires this option per listener for SASL_SSL.
        requested = client_auth(BrokerConfig(self.config)) if listener.protocol == "SSL" else "none"
        # The default of KafkaCluster(tls={"ca_file": ...}).
        has_ca = isinstance(self.tls, Mapping) and "ca_file" in self.tls
        return "required" if has_ca and requested == "none" else requested

    def listener_security(self, authority: Authority | None) -> dict[str, ListenerSecurity]:
        """Return the security of each listener by name; a misspelt argument of tls= raises."""
        found = {}
        for name, listener in self.described_listeners().items():
            tls = self._tls_context(listener, authority) if listener.uses_tls else None
            found[name] = ListenerSecurity(
                tls,
                tls is not None and tls.asks_for_certificate,
                None if listener.mechanisms is None else tuple(listener.mechanisms),
                listener.max_reauth_ms,
            )
        return found

    def _tls_context(self, listener: Listener, authority: Authority | None) -> TlsContext:
        client_auth = self.client_auth_of(listener)
        if isinstance(self.tls, TlsContext):
            if client_auth != "none" and not self.tls.asks_for_certificate:
                raise ConfigurationError(
                    f"client_auth={client_auth!r}, but the TlsContext of tls= asks for no certificate; "
                    "say TlsContext(verify=True, ...)"
                )
            return self.tls
        if authority is not None:
            files: Mapping[str, str] = {"cert_file": authority.cert_file, "ca_file": authority.ca_file}
        else:
            files = self.tls if isinstance(self.tls, Mapping) else {}
        names = [name for name in signature(TlsContext.__init__).parameters if name.endswith(TLS_ARGUMENTS)]
        for name in files:
            if name not in names:
                raise ConfigurationError(f"tls= has no argument {name!r}{nearest(name, names)}")
        if client_auth != "none" and "ca_file" not in files:
            raise ConfigurationError(f"client_auth={client_auth!r} needs tls={{'ca_file': ...}}, too")
        # Clients show a certificate only on request.
        tls = TlsContext(**files, verify=client_auth != "none", server_side=True)  # type: ignore[arg-type]
        if client_auth == "requested":
            tls.accept_no_certificate()
        return tls

    def rack_of(self, broker_id: int) -> str | None:
        """Return the broker's rack, None without racks."""
        return self.racks[(broker_id - self.first_broker_id) % len(self.racks)] if self.racks else None
