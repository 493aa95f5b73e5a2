"""What the metadata log holds: each record is a fact; replayed in order they give the cluster's state.

They carry what Kafka's metadata records carry (RegisterBrokerRecord, TopicRecord, PartitionRecord ...), as
plain values: nobody outside this process reads them.  To add a kind: a class here, and how it is replayed
in state.py.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from pykafka2.broker.base.image import BrokerImage, PartitionImage
from pykafka2.broker.security.acls import Acl
from pykafka2.broker.security.delegation import DelegationToken
from pykafka2.broker.security.scram import ScramCredential, ScramMechanism


class Record:
    """Base of all records."""

    __slots__ = ()


@attrs.define(frozen=True)
class ControllerElected(Record):
    """From here on the log takes records of this epoch only."""

    controller_id: int
    epoch: int


@attrs.define(frozen=True)
class BrokerSet(Record):
    """A broker was registered, or something about its registration changed."""

    broker: BrokerImage


@attrs.define(frozen=True)
class BrokerRemoved(Record):
    """A broker's registration is gone."""

    broker_id: int


@attrs.define(frozen=True)
class TopicCreated(Record):
    """A topic; its partitions follow as `PartitionSet`, from 0."""

    name: str
    topic_id: bytes
    configs: Mapping[str, str]
    is_internal: bool = False


@attrs.define(frozen=True)
class TopicDeleted(Record):
    """A topic and its partitions are gone."""

    name: str


@attrs.define(frozen=True)
class TopicConfigured(Record):
    """All that is set on a topic from now on, by Kafka's names."""

    name: str
    configs: Mapping[str, str]


@attrs.define(frozen=True)
class ConfigsSet(Record):
    """All that is set on a resource other than a topic: a broker, all brokers (""), a group."""

    resource_type: int
    name: str
    configs: Mapping[str, str]


@attrs.define(frozen=True)
class PartitionSet(Record):
    """A partition is new (its number is the next one) or changed."""

    topic: str
    partition: int
    image: PartitionImage


@attrs.define(frozen=True)
class FeatureSet(Record):
    """A feature is finalised at this level; 0 takes it back."""

    name: str
    level: int


@attrs.define(frozen=True)
class ProducerIdsAllocated(Record):
    """All producer ids below this one have been given out."""

    next_id: int


@attrs.define(frozen=True)
class AclCreated(Record):
    """An access rule, under an id of its own."""

    id: bytes
    acl: Acl


@attrs.define(frozen=True)
class AclRemoved(Record):
    """An access rule is gone."""

    acl: Acl


@attrs.define(frozen=True)
class DelegationTokenSet(Record):
    """A delegation token is new, or expires at another time."""

    token: DelegationToken


@attrs.define(frozen=True)
class DelegationTokenRemoved(Record):
    """A delegation token is gone."""

    token_id: str


@attrs.define(frozen=True)
class ScramUserSet(Record):
    """All that is kept of a user's passwords from now on; nothing: the user has no SCRAM credentials."""

    user: str
    credentials: Mapping[ScramMechanism, ScramCredential]
