"""What the controller knows and every broker is told: brokers, topics, partitions.  Immutable values.

The controller makes a new image for each change and publishes it; a broker answers from the one that it was
given last.  An image shares every topic that did not change with the image before, so two images are
compared topic by topic with `is`.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from pykafka2.broker.base.endpoints import Endpoint
from pykafka2.broker.base.features import LATEST, TRANSACTION_VERSION
from pykafka2.broker.config.configs import TopicConfig
from pykafka2.broker.security.acls import NO_ACLS, Acls
from pykafka2.broker.security.delegation import DelegationToken
from pykafka2.broker.security.scram import ScramCredential, ScramMechanism

NO_LEADER = -1

TOPIC_RESOURCE, BROKER_RESOURCE, LOGGER_RESOURCE, METRICS_RESOURCE, GROUP_RESOURCE = 2, 4, 8, 16, 32
"""What may be configured, as DescribeConfigs numbers it."""

ConfigResource = tuple[int, str]
"""Type and name."""

ALL_BROKERS: ConfigResource = (BROKER_RESOURCE, "")
"""What is set for all brokers together."""


@attrs.define(frozen=True)
class BrokerImage:
    """A registered broker; `epoch` grows with each registration, fenced ones do not count as alive.

    One that is shutting down in good order still serves, but leads nothing and is in sync nowhere.
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
    """Of all its listeners, where it has several; `host` and `port` are those of the first."""

    def address_by(self, listener: str) -> tuple[str, int]:
        """Host and port for a client that came by this listener of a broker."""
        for one in self.endpoints:
            if one.listener == listener:
                return one.host, one.port
        return self.host, self.port


@attrs.define(frozen=True)
class PartitionImage:
    """One partition: its replicas in order of preference, those in sync, and who leads since which epoch."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int = 0
    partition_epoch: int = 0
    adding: tuple[int, ...] = ()
    """Replicas that a reassignment brings; among `replicas` already, in sync when they have caught up."""
    removing: tuple[int, ...] = ()
    """Replicas that go when those that come are in sync; still among `replicas`."""

    @property
    def is_reassigned(self) -> bool:
        return bool(self.adding or self.removing)


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
    """The whole cluster as of one offset of the metadata log (`version`); `features` are finalised levels."""

    version: int
    cluster_id: str
    brokers: Mapping[int, BrokerImage]
    topics: Mapping[str, TopicImage]
    topic_names: Mapping[bytes, str]
    features: Mapping[str, int] = LATEST
    """Finalised features by name; one that is not there has level 0."""
    configs: Mapping[ConfigResource, Mapping[str, str]] = attrs.field(factory=dict)
    """What is set on brokers, groups and subscriptions of client metrics; a topic has its own."""
    acls: Acls = NO_ACLS
    """Access rules; the same object as in the image before where none has changed."""
    scram_users: Mapping[str, Mapping[ScramMechanism, ScramCredential]] = attrs.field(factory=dict)
    """What is kept of users' passwords, by user and mechanism."""
    tokens: Mapping[str, DelegationToken] = attrs.field(factory=dict)
    """Delegation tokens by id."""

    @property
    def transaction_version(self) -> int:
        """2: every transaction has an epoch of its own (KIP-890)."""
        return self.features.get(TRANSACTION_VERSION, 0)

    def configs_of(self, resource_type: int, name: str) -> Mapping[str, str]:
        """What is set on a resource that is not a topic."""
        return self.configs.get((resource_type, name), {})

    def without_metadata(self) -> ClusterImage:
        """The same cluster as a broker sees it before its first metadata."""
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
        """Whether a broker may lead or be in sync."""
        broker = self.brokers.get(broker_id)
        return broker is not None and not broker.is_fenced and not broker.is_shutting_down

    def changed_since(self, older: ClusterImage) -> dict[str, TopicImage | None]:
        """The topics that differ, None for those that are gone."""
        changed: dict[str, TopicImage | None] = {
            name: topic for name, topic in self.topics.items() if older.topics.get(name) is not topic
        }
        changed.update((name, None) for name in older.topics if name not in self.topics)
        return changed
