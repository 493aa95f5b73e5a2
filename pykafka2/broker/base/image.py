"""Immutable cluster metadata that the controller publishes to every broker: brokers, topics, partitions.

The controller makes a new image for each change and publishes it; a broker responds from the latest image it
has received. An image shares every unchanged topic with its predecessor, so two images are compared topic by
topic with `is`.

A listener's default name is that of its security protocol. Clients connected by a listener receive the
addresses of the same listener of every broker. The only state is the port assigned to a listener.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from ipaddress import IPv6Address, ip_address
from typing import Final

import attrs

from pykafka2.broker.base.features import ELR_VERSION, LATEST, METADATA_VERSION, TRANSACTION_VERSION
from pykafka2.broker.config.configs import TopicConfig
from pykafka2.broker.quotas.entities import Quotas
from pykafka2.broker.security.acls import NO_ACLS, Acls
from pykafka2.broker.security.delegation_tokens import DelegationToken
from pykafka2.broker.security.scram import ScramCredential, ScramMechanism
from pykafka2.errors import InvalidTopicException

UNASSIGNED: Final = bytes(16)
"""The directory of a replica whose broker has not placed it yet."""
LOST: Final = bytes(15) + b"\1"
"""The directory of a replica in a directory without an id that has failed."""
MIGRATING: Final = bytes(15) + b"\2"
"""The directory of a replica from before directories had ids."""


def is_online(directory: bytes, online: Collection[bytes]) -> bool:
    """Return whether a directory works; a broker without directories has not reported them."""
    return directory in (UNASSIGNED, MIGRATING) or not online or directory in online


PROTOCOLS: Final = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}
"""Kafka's numbers of the security protocols."""

_ZEROS: Final = re.compile(r"0[xX0]?0*(\.0[xX0]?0*){0,3}", re.ASCII)
"""0.0.0.0 in the forms that the system's resolver accepts, such as 0, 0.0, 000.0 and 0x0."""


def is_every_interface(host: str) -> bool:
    """Return whether a server at this host, such as 0.0.0.0, listens on every interface."""
    return loopback_of(host) != host


def loopback_of(host: str) -> str:
    """Return an address at which this machine reaches a server at `host`: loopback, for all interfaces."""
    if not host or _ZEROS.fullmatch(host):
        return "127.0.0.1"
    try:
        address = ip_address(host)
    except ValueError:
        return host  # a name
    if address.is_unspecified:
        return "::1"
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return "127.0.0.1" if mapped is not None and mapped.is_unspecified else host


def address_text(host: str, port: int) -> str:
    """Return a bootstrap address, which has an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


@attrs.define(frozen=True)
class Endpoint:
    """One listener in a broker's registration."""

    listener: str
    host: str
    port: int
    protocol: int = 0


@attrs.define
class ListenerAddress:
    """A listener of one broker: its bind address, and its advertised address if that differs."""

    name: str
    protocol: str
    host: str
    port: int
    """0 binds a free port at the first start and keeps it."""
    advertised_host: str | None = None
    advertised_port: int = 0

    @property
    def address(self) -> str:
        """The bind address, or with all interfaces that of loopback."""
        return address_text(loopback_of(self.host), self.port)

    @property
    def advertised(self) -> tuple[str, int]:
        """The advertised host and port."""
        return self.advertised_host or self.host, self.advertised_port or self.port

    @property
    def endpoint(self) -> Endpoint:
        """The endpoint as the broker registers it."""
        return Endpoint(self.name, *self.advertised, PROTOCOLS[self.protocol])


NO_LEADER = -1

FIRST_WITH_ELR = 23
"""The first level of metadata.version whose records have eligible leader replicas, 4.0-IV1."""

TOPIC_RESOURCE, BROKER_RESOURCE, LOGGER_RESOURCE, METRICS_RESOURCE, GROUP_RESOURCE = 2, 4, 8, 16, 32
"""Resource types in DescribeConfigs."""

ConfigResource = tuple[int, str]
"""Resource type and name."""

ALL_BROKERS: ConfigResource = (BROKER_RESOURCE, "")
"""The resource for the dynamic configuration of all brokers."""


@attrs.define(frozen=True)
class BrokerImage:
    """A registered broker. `epoch` grows with each registration; a fenced broker is not alive.

    A broker in controlled shutdown still serves requests, but leads no partition and is in no ISR.
    """

    id: int
    host: str
    port: int
    rack: str | None
    epoch: int
    is_fenced: bool
    is_shutting_down: bool = False
    incarnation_id: bytes = b""
    endpoints: tuple[Endpoint, ...] = ()
    """Endpoints of all listeners, if there are several; `host` and `port` are those of the first."""
    directories: tuple[bytes, ...] = ()
    """The ids of its log directories that work (KIP-858); empty if it has none on disk."""

    def address_by(self, listener: str) -> tuple[str, int]:
        """Return the host and port of a listener, for a client connected by the same listener."""
        for endpoint in self.endpoints:
            if endpoint.listener == listener:
                return endpoint.host, endpoint.port
        return self.host, self.port


@attrs.define(frozen=True)
class PartitionImage:
    """One partition: its replicas in order of preference, the ISR, the leader and its epoch."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int = 0
    partition_epoch: int = 0
    adding: tuple[int, ...] = ()
    """Replicas that a reassignment adds. They are in `replicas` already, and join the ISR once they have
    caught up.
    """
    removing: tuple[int, ...] = ()
    """Replicas that a reassignment removes once the added ones are in sync. They are still in `replicas`."""
    directories: tuple[bytes, ...] = ()
    """The id of the log directory of each replica, UNASSIGNED until its broker reports it.

    Empty if none was written, before metadata.version 3.7-IV2.
    """
    elr: tuple[int, ...] = ()
    """Eligible leader replicas: outside an ISR smaller than min.insync.replicas, but with all committed
    records (KIP-966).
    """
    last_known_elr: tuple[int, ...] = ()
    """The last leader, while there is none."""

    @property
    def is_reassigned(self) -> bool:
        return bool(self.adding or self.removing)

    def directory_of(self, broker_id: int) -> bytes:
        """Return the id of the log directory of a replica, UNASSIGNED if it is unknown."""
        for replica, directory in zip(self.replicas, self.directories, strict=False):
            if replica == broker_id:
                return directory
        return UNASSIGNED

    def directories_of(self, replicas: tuple[int, ...]) -> tuple[bytes, ...]:
        """Return the directories of these replicas; those that the partition has keep theirs."""
        if replicas == self.replicas or not self.directories:
            return self.directories
        return tuple(map(self.directory_of, replicas))


@attrs.define(frozen=True)
class TopicImage:
    """A topic with its id, partitions by number, and configuration."""

    name: str
    id: bytes
    partitions: tuple[PartitionImage, ...]
    config: TopicConfig
    is_internal: bool = False


@attrs.define(frozen=True)
class ClusterImage:
    """The whole cluster at one offset of the metadata log (`version`); `features` are finalized levels."""

    version: int
    cluster_id: str
    brokers: Mapping[int, BrokerImage]
    topics: Mapping[str, TopicImage]
    topic_names: Mapping[bytes, str]
    features: Mapping[str, int] = LATEST
    """Finalized features by name; a missing feature has level 0."""
    configs: Mapping[ConfigResource, Mapping[str, str]] = attrs.field(factory=dict)
    """Configuration of brokers, groups and client metrics subscriptions; topics hold their own."""
    acls: Acls = NO_ACLS
    """ACLs; the same object as in the previous image if none has changed."""
    scram_users: Mapping[str, Mapping[ScramMechanism, ScramCredential]] = attrs.field(factory=dict)
    """Stored SCRAM credentials, by user and mechanism."""
    tokens: Mapping[str, DelegationToken] = attrs.field(factory=dict)
    """Delegation tokens by id."""
    quotas: Quotas = attrs.field(factory=dict)
    """Client quotas; the same object as in the previous image if none has changed."""

    @property
    def transaction_version(self) -> int:
        """The level of transaction.version; 2 means that every transaction has its own epoch (KIP-890)."""
        return self.features.get(TRANSACTION_VERSION, 0)

    @property
    def has_eligible_replicas(self) -> bool:
        """Whether replicas outside a small ISR are eligible as leaders (KIP-966)."""
        has_fields = self.features.get(METADATA_VERSION, 0) >= FIRST_WITH_ELR
        return has_fields and self.features.get(ELR_VERSION, 0) > 0

    def configs_of(self, resource_type: int, name: str) -> Mapping[str, str]:
        """Return the configuration of a resource that is not a topic."""
        return self.configs.get((resource_type, name), {})

    def without_metadata(self) -> ClusterImage:
        """Return the cluster as a broker sees it before its first metadata."""
        return ClusterImage(-1, self.cluster_id, {}, {}, {}, self.features)

    def topic_by_id(self, topic_id: bytes) -> TopicImage | None:
        name = self.topic_names.get(topic_id)
        return None if name is None else self.topics.get(name)

    def partition(self, topic: str, partition: int) -> PartitionImage | None:
        image = self.topics.get(topic)
        if image is None or not 0 <= partition < len(image.partitions):
            return None
        return image.partitions[partition]

    def live_brokers(self) -> list[BrokerImage]:
        return [broker for broker in self.brokers.values() if not broker.is_fenced]

    def is_alive(self, broker_id: int) -> bool:
        broker = self.brokers.get(broker_id)
        return broker is not None and not broker.is_fenced

    def is_eligible(self, broker_id: int) -> bool:
        """Return whether a broker can be a leader or in the ISR."""
        broker = self.brokers.get(broker_id)
        return broker is not None and not broker.is_fenced and not broker.is_shutting_down

    def has_directory(self, partition: PartitionImage, broker_id: int) -> bool:
        """Return whether the log directory of a replica works, as reported by its broker (KIP-858)."""
        broker = self.brokers.get(broker_id)
        if broker is None or not broker.directories:
            return True
        return is_online(partition.directory_of(broker_id), broker.directories)

    def is_online(self, partition: PartitionImage, broker_id: int) -> bool:
        """Return whether a replica is online: its broker is alive, and its log directory works."""
        return self.is_alive(broker_id) and self.has_directory(partition, broker_id)

    def may_lead(self, partition: PartitionImage, broker_id: int) -> bool:
        """Return whether a replica of this partition can lead or be in the ISR. Kafka's LeaderAcceptor."""
        broker = self.brokers.get(broker_id)
        if broker is None or broker.is_fenced or broker.is_shutting_down:
            return False
        return not broker.directories or is_online(partition.directory_of(broker_id), broker.directories)

    def eligible_in(self, partition: PartitionImage) -> Callable[[int], bool]:
        """Return `may_lead` for one partition."""
        return partial(self.may_lead, partition)

    def changed_since(self, older: ClusterImage) -> dict[str, TopicImage | None]:
        """Return the topics that differ; the value is None for deleted topics."""
        changed: dict[str, TopicImage | None] = {
            name: topic for name, topic in self.topics.items() if older.topics.get(name) is not topic
        }
        changed.update((name, None) for name in older.topics if name not in self.topics)
        return changed


MAX_TOPIC_NAME: Final = 249
METADATA_TOPIC: Final = "__cluster_metadata"
LEGAL_TOPIC_NAME: Final = re.compile(r"[a-zA-Z0-9._-]+\Z")
INTERNAL_TOPICS: Final = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})


def check_topic_name(name: str) -> None:
    """Raise `InvalidTopicException` unless the name is legal."""
    if not name:
        raise InvalidTopicException("Topic name is invalid: the empty string is not allowed")
    if name in (".", ".."):
        raise InvalidTopicException(f"Topic name is invalid: '{name}' is not allowed")
    if len(name) > MAX_TOPIC_NAME:
        raise InvalidTopicException(
            f"Topic name is invalid: the length of '{name}' is longer than the max allowed length "
            f"{MAX_TOPIC_NAME}"
        )
    if not LEGAL_TOPIC_NAME.match(name):
        raise InvalidTopicException(
            f"Topic name is invalid: '{name}' contains one or more characters other than ASCII "
            "alphanumerics, '.', '_' and '-'"
        )


def collision(name: str, known: Iterable[str]) -> str | None:
    """Return another topic whose metric names would collide: '.' and '_' are equal there."""
    if "." not in name and "_" not in name:
        return None
    plain = name.replace(".", "_")
    return next((other for other in known if other.replace(".", "_") == plain), None)


Key = tuple[str, int]
"""Topic and partition."""
