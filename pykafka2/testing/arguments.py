"""What a cluster is made of, as it was asked for: arguments checked, and turned into what brokers take.

Knows nothing that runs; `KafkaCluster` (cluster.py) starts from it in this process, `ProcessCluster`
(remote/cluster.py) sends it to a child.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from inspect import Parameter, signature

import attrs

from pykafka2.broker.base.features import finalised
from pykafka2.broker.config.configs import BrokerConfig
from pykafka2.broker.config.keys import nearest
from pykafka2.broker.controller import NewTopic
from pykafka2.broker.observed.history import MAX_ENTRIES
from pykafka2.driver.runtime import Runtime
from pykafka2.errors import ConfigurationError
from pykafka2.network.tls import TlsContext

MAX_BROKERS = 1000
TLS_ARGUMENTS = ("_file", "_data", "_password", "ciphers")
MAPPINGS = {
    "config": "{'message.max.bytes': 2000}",
    "features": "{'transaction.version': 2}",
}
SEQUENCES = {
    "racks": "['a', 'b', 'c']",
    "ports": "[9092, 9093, 9094]",
    "advertised_ports": "[19092, 19093, 19094]",
}
LAST_BROKER_ID = 2**31 - 1


@attrs.define(frozen=True)
class Topic:
    """A topic to create: None takes the cluster's default; configs by Kafka's names, such as
    "retention.ms".

    `assignment` says where replicas live, a list of brokers for each partition, the first of which leads; it
    replaces both numbers.
    """

    partitions: int = 1
    replication_factor: int | None = None
    configs: Mapping[str, object] = attrs.field(factory=dict)
    assignment: Sequence[Sequence[int]] = ()

    def described(self, name: str) -> NewTopic:
        """As the controller creates it, under this name."""
        factor = -1 if self.replication_factor is None else self.replication_factor
        replicas = {number: tuple(brokers) for number, brokers in enumerate(self.assignment)}
        partitions, factor = (-1, -1) if replicas else (self.partitions, factor)
        return NewTopic(name, partitions, factor, self.configs, replicas)


def topic_of(name: str, topic: int | Topic) -> Topic:
    """The topic that an argument means; all but a number or a `Topic` raises `ConfigurationError`."""
    if isinstance(topic, Topic):
        return topic
    if isinstance(topic, int):
        return Topic(topic)
    raise ConfigurationError(f"topic {name!r}: say its number of partitions, or a Topic, not {topic!r}")


Topics = Mapping[str, int | Topic] | Sequence[str]
"""The topics to create: partitions (or a `Topic`) by name, or names of topics with one partition each."""


def described_topics(topics: Topics | None) -> dict[str, Topic]:
    """The topics that an argument means, by name.  Raises `ConfigurationError` for anything else."""
    if isinstance(topics, Mapping):
        return {name: topic_of(name, topic) for name, topic in topics.items()}
    names = () if topics is None else topics
    if (
        isinstance(names, str)
        or not isinstance(names, Sequence)
        or not all(isinstance(name, str) for name in names)
    ):
        raise ConfigurationError(
            f"topics={topics!r}: say a list of names ['orders'] or a dict {{'orders': 3}}"
        )
    found: dict[str, Topic] = {}
    for name in names:
        if name in found:
            raise ConfigurationError(f"topics={topics!r} names {name!r} twice")
        found[name] = Topic()
    return found


def check_names(cls: type, options: Mapping[str, object]) -> None:
    """Raises `TypeError` for an argument that `cls` does not take; names the nearest."""
    taken = signature(cls.__init__).parameters  # type: ignore[misc]
    if any(one.kind is Parameter.VAR_KEYWORD for one in taken.values()):
        return
    for name in options:
        if name not in taken:
            close = nearest(name, taken)
            raise TypeError(f"{cls.__name__}() got an unexpected keyword argument {name!r}{close}")


@attrs.define(frozen=True)
class ClusterArguments:
    """The arguments of `KafkaCluster`, which says what each of them means."""

    brokers: int = 3
    topics: Topics | None = None
    config: Mapping[str, object] | None = attrs.field(default=None, kw_only=True)
    pipelined: bool | None = attrs.field(default=None, kw_only=True)
    seed: int | str = attrs.field(default=0, kw_only=True)
    racks: Sequence[str] | None = attrs.field(default=None, kw_only=True)
    host: str = attrs.field(default="127.0.0.1", kw_only=True)
    ports: Sequence[int] | None = attrs.field(default=None, kw_only=True)
    tls: TlsContext | Mapping[str, str] | bool | None = attrs.field(default=None, kw_only=True)
    runtime: Runtime | None = attrs.field(default=None, kw_only=True)
    features: Mapping[str, int] | None = attrs.field(default=None, kw_only=True)
    history_entries: int = attrs.field(default=MAX_ENTRIES, kw_only=True)
    controller: int | None = attrs.field(default=None, kw_only=True)
    first_broker_id: int = attrs.field(default=0, kw_only=True)
    advertised_host: str | None = attrs.field(default=None, kw_only=True)
    advertised_ports: Sequence[int] | None = attrs.field(default=None, kw_only=True)

    def check(self) -> None:
        """Raises `ConfigurationError` for what no cluster can have."""
        if not isinstance(self.brokers, int) or not 1 <= self.brokers <= MAX_BROKERS:
            raise ConfigurationError(f"brokers={self.brokers!r}: say a number from 1 to {MAX_BROKERS}")
        self._check_kinds()
        for name in ("ports", "advertised_ports"):
            ports = getattr(self, name)
            if ports is not None and len(ports) != self.brokers:
                raise ConfigurationError(
                    f"{self.brokers} brokers need {self.brokers} {name}, not {len(ports)}"
                )
        last = LAST_BROKER_ID - self.brokers + 1
        if not 0 <= self.first_broker_id <= last:
            raise ConfigurationError(f"first_broker_id={self.first_broker_id}: say a number from 0 to {last}")
        ids = self.broker_ids
        if self.controller is not None and self.controller not in ids:
            raise ConfigurationError(f"controller={self.controller}: say a broker from {ids[0]} to {ids[-1]}")
        self.finalised_features()
        self.described_topics()

    def _check_kinds(self) -> None:
        """What annotations say is said to those who run no type checker, too."""
        for name, example in MAPPINGS.items():
            value = getattr(self, name)
            if value is not None and not isinstance(value, Mapping):
                raise ConfigurationError(f"{name}={value!r}: say a dict, such as {example}")
        for name, example in SEQUENCES.items():
            value = getattr(self, name)
            if value is not None and (isinstance(value, str) or not isinstance(value, Sequence)):
                raise ConfigurationError(f"{name}={value!r}: say a list, such as {example}")
        for name in ("history_entries", "controller", "first_broker_id"):
            value = getattr(self, name)
            if not isinstance(value, int) and (name, value) != ("controller", None):
                raise ConfigurationError(f"{name}={value!r}: say a number")
        if self.advertised_host is not None and not isinstance(self.advertised_host, str):
            raise ConfigurationError(f"advertised_host={self.advertised_host!r}: say a name or an address")
        if self.tls is not None and not isinstance(self.tls, (bool, Mapping, TlsContext)):
            raise ConfigurationError(
                f"tls={self.tls!r}: say True, {{'cert_file': ..., 'key_file': ...}} or a TlsContext"
            )

    def broker_config(self) -> BrokerConfig:
        """The brokers' configuration, `pipelined` in it under the name that they read.

        Raises `UnknownOption` for a misspelt name, and `ConfigurationError` if the two contradict each other.
        """
        if self.pipelined is None:
            return BrokerConfig(self.config)
        config = self.config or {}
        mode = "pipelined" if self.pipelined else "serial"
        if config.get("channel.mode", mode) != mode:
            raise ConfigurationError(
                f"pipelined={self.pipelined} and channel.mode={config['channel.mode']}: say one"
            )
        return BrokerConfig({**config, "channel.mode": mode})

    def described_topics(self) -> dict[str, Topic]:
        """The topics to create, by name."""
        return described_topics(self.topics)

    def finalised_features(self) -> Mapping[str, int]:
        """All features with their levels."""
        return finalised(self.features)

    @property
    def broker_ids(self) -> range:
        """The brokers' ids."""
        return range(self.first_broker_id, self.first_broker_id + self.brokers)

    @property
    def first_controller(self) -> int:
        """The broker that is the controller at first."""
        return self.first_broker_id if self.controller is None else self.controller

    def hosts(self) -> list[str]:
        """By which names brokers are known, one of each."""
        ids = self.broker_ids
        advertised = [self.advertised_of(number)[0] for number in ids]
        return [*dict.fromkeys([*map(self.host_of, ids), *filter(None, advertised)])]

    def tls_context(self, cert_file: str | None = None) -> TlsContext | None:
        """What brokers listen with; `cert_file` is that of tls=True.  A misspelt argument raises."""
        if self.tls is None or self.tls is False:
            return None
        if isinstance(self.tls, TlsContext):
            return self.tls
        files = {"cert_file": cert_file or ""} if self.tls is True else self.tls
        names = [name for name in signature(TlsContext.__init__).parameters if name.endswith(TLS_ARGUMENTS)]
        for name in files:
            if name not in names:
                raise ConfigurationError(f"tls= has no {name!r}{nearest(name, names)}")
        # Clients show no certificate unless they are asked for one.
        return TlsContext(**files, verify="ca_file" in files, server_side=True)  # type: ignore[arg-type]

    def rack_of(self, broker_id: int) -> str | None:
        """The broker's rack; None where no racks were given."""
        return self.racks[self._place(broker_id) % len(self.racks)] if self.racks else None

    def host_of(self, broker_id: int) -> str:
        """The host name or address at which this broker listens."""
        return self.host.replace("{id}", str(broker_id))

    def port_of(self, broker_id: int) -> int:
        """The port at which this broker listens; 0 for a free one."""
        return self.ports[self._place(broker_id)] if self.ports else 0

    def advertised_of(self, broker_id: int) -> tuple[str | None, int]:
        """What clients are told instead: None and 0 where that is what the broker listens at."""
        host = self.advertised_host
        ports = self.advertised_ports
        return (
            None if host is None else host.replace("{id}", str(broker_id)),
            ports[self._place(broker_id)] if ports else 0,
        )

    def _place(self, broker_id: int) -> int:
        return broker_id - self.first_broker_id
