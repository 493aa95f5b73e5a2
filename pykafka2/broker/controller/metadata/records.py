"""Records of the metadata log: replayed in order, they produce the cluster's state.

They correspond to Kafka's metadata records (RegisterBrokerRecord, TopicRecord, PartitionRecord ...), as plain
values, because they never leave the process. To add a type: a class here, and its replay in state.py.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from pykafka2.broker.base.image import BrokerImage, PartitionImage
from pykafka2.broker.quotas.entities import QuotaEntity
from pykafka2.broker.security.acls import Acl
from pykafka2.broker.security.delegation_tokens import DelegationToken
from pykafka2.broker.security.scram import ScramCredential, ScramMechanism


class Record:
    """Base class of all records."""

    __slots__ = ()


@attrs.define(frozen=True)
class ControllerElected(Record):
    """Starts an epoch: from here on the log accepts records of this epoch only."""

    controller_id: int
    epoch: int


@attrs.define(frozen=True)
class BrokerSet(Record):
    """A broker was registered, or its registration changed."""

    broker: BrokerImage


@attrs.define(frozen=True)
class BrokerRemoved(Record):
    """A broker's registration was removed."""

    broker_id: int


@attrs.define(frozen=True)
class TopicCreated(Record):
    """A topic was created; its partitions follow as `PartitionSet`, from 0."""

    name: str
    topic_id: bytes
    configs: Mapping[str, str]
    is_internal: bool = False


@attrs.define(frozen=True)
class TopicDeleted(Record):
    """A topic and its partitions were deleted."""

    name: str


@attrs.define(frozen=True)
class TopicConfigured(Record):
    """All options of a topic from now on, by Kafka's names."""

    name: str
    configs: Mapping[str, str]


@attrs.define(frozen=True)
class ConfigsSet(Record):
    """All options of another resource from now on: a broker, all brokers (""), a group."""

    resource_type: int
    name: str
    configs: Mapping[str, str]


@attrs.define(frozen=True)
class PartitionSet(Record):
    """A partition was created (its number is the next one) or changed."""

    topic: str
    partition: int
    image: PartitionImage


@attrs.define(frozen=True)
class FeatureSet(Record):
    """A feature is finalized at this level; 0 disables it."""

    name: str
    level: int


@attrs.define(frozen=True)
class ProducerIdsAllocated(Record):
    """All producer ids below this one are allocated."""

    next_id: int


@attrs.define(frozen=True)
class AclCreated(Record):
    """An ACL with its own id."""

    id: bytes
    acl: Acl


@attrs.define(frozen=True)
class AclRemoved(Record):
    """An ACL was removed."""

    acl: Acl


@attrs.define(frozen=True)
class DelegationTokenSet(Record):
    """A delegation token was created, or its expiry changed."""

    token: DelegationToken


@attrs.define(frozen=True)
class DelegationTokenRemoved(Record):
    """A delegation token was removed."""

    token_id: str


@attrs.define(frozen=True)
class ScramUserSet(Record):
    """All SCRAM credentials of a user from now on; empty if it has none any more."""

    user: str
    credentials: Mapping[ScramMechanism, ScramCredential]


@attrs.define(frozen=True)
class ClientQuotaSet(Record):
    """A quota of an entity was set, or removed (None)."""

    entity: QuotaEntity
    key: str
    value: float | None
