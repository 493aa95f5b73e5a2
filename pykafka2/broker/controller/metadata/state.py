"""The cluster's metadata, changed only by replaying records.

After each replay `image` is the value for brokers; it is immutable and shares all unchanged parts with the
previous image.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import attrs

from pykafka2.broker.base.features import LATEST
from pykafka2.broker.base.image import (
    ALL_BROKERS,
    BrokerImage,
    ClusterImage,
    ConfigResource,
    PartitionImage,
    TopicImage,
)
from pykafka2.broker.config.configs import BrokerConfig, TopicConfig
from pykafka2.broker.controller.metadata.records import (
    AclCreated,
    AclRemoved,
    BrokerRemoved,
    BrokerSet,
    ClientQuotaSet,
    ConfigsSet,
    ControllerElected,
    DelegationTokenRemoved,
    DelegationTokenSet,
    FeatureSet,
    PartitionSet,
    ProducerIdsAllocated,
    Record,
    ScramUserSet,
    TopicConfigured,
    TopicCreated,
    TopicDeleted,
)
from pykafka2.broker.quotas.entities import QuotaEntity, Quotas
from pykafka2.broker.security.acls import NO_ACLS, Acl, Acls
from pykafka2.broker.security.delegation_tokens import DelegationToken
from pykafka2.broker.security.scram import ScramCredential, ScramMechanism

Changes = Mapping[str, "TopicImage | None"]
"""Topics that changed, by name; None: deleted."""


class State:
    """The state after the records replayed so far."""

    def __init__(self, cluster_id: str, config: BrokerConfig, features: Mapping[str, int] = LATEST) -> None:
        self._config = config
        self.brokers: dict[int, BrokerImage] = {}
        self.topics: dict[str, TopicImage] = {}
        self.topic_names: dict[bytes, str] = {}
        self.features: dict[str, int] = dict(features)
        self.configs: Mapping[ConfigResource, Mapping[str, str]] = {}
        self.acls: Acls = NO_ACLS
        self.scram_users: Mapping[str, Mapping[ScramMechanism, ScramCredential]] = {}
        self.tokens: Mapping[str, DelegationToken] = {}
        self.quotas: Quotas = {}
        self.next_producer_id = 0
        self.first_host = 0
        """The host at which placement starts, from the cluster's seed."""
        self.image = ClusterImage(0, cluster_id, {}, {}, {}, features)
        self._partition_count = 0  # of all topics
        self._changed: dict[str, TopicImage | None] = {}
        self._partitions: dict[str, list[PartitionImage]] = {}  # topics changed by this replay
        self._acls: dict[Acl, bytes] | None = None  # if this replay changes them
        self._quotas: dict[QuotaEntity, Mapping[str, float]] | None = None  # likewise
        self._replayers: dict[type[Record], Callable[[Any], None]] = {
            ControllerElected: self._controller_elected,
            BrokerSet: self._broker_set,
            ConfigsSet: self._configs_set,
            BrokerRemoved: self._broker_removed,
            TopicCreated: self._topic_created,
            TopicDeleted: self._topic_deleted,
            TopicConfigured: self._topic_configured,
            PartitionSet: self._partition_set,
            FeatureSet: self._feature_set,
            ProducerIdsAllocated: self._producer_ids_allocated,
            AclCreated: self._acl_created,
            AclRemoved: self._acl_removed,
            DelegationTokenSet: self._delegation_token_set,
            DelegationTokenRemoved: self._delegation_token_removed,
            ScramUserSet: self._scram_user_set,
            ClientQuotaSet: self._client_quota_set,
        }

    @property
    def next_host(self) -> int:
        """The host at which the next placement starts: leaders are assigned round-robin over all topics."""
        return self.first_host + self._partition_count

    def copy(self) -> State:
        """Return a copy that shares the immutable parts."""
        other = State(self.image.cluster_id, self._config, self.features)
        other.brokers = dict(self.brokers)
        other.topics = dict(self.topics)
        other.topic_names = dict(self.topic_names)
        other._partition_count = self._partition_count
        other.configs = self.configs
        other.acls = self.acls
        other.scram_users = self.scram_users
        other.tokens = self.tokens
        other.quotas = self.quotas
        other.next_producer_id = self.next_producer_id
        other.first_host = self.first_host
        other.image = self.image
        return other

    def replay(self, records: Iterable[Record], end_offset: int) -> Changes:
        """Replay records, after which the log ends at `end_offset`. Return the topics that changed."""
        self._changed = {}
        for record in records:
            self._replayers[type(record)](record)
        for name, partitions in self._partitions.items():
            self._set_topic(attrs.evolve(self.topics[name], partitions=tuple(partitions)))
        self._partitions = {}
        if self._acls is not None:
            self.acls, self._acls = self._acls, None
        if self._quotas is not None:
            self.quotas, self._quotas = self._quotas, None
        self.image = ClusterImage(
            end_offset,
            self.image.cluster_id,
            dict(self.brokers),
            dict(self.topics),
            dict(self.topic_names),
            dict(self.features),
            self.configs,
            self.acls,
            self.scram_users,
            self.tokens,
            self.quotas,
        )
        return self._changed

    # ------------------------------------------------------------------ replay by type

    def _controller_elected(self, record: ControllerElected) -> None:
        pass

    def _broker_set(self, record: BrokerSet) -> None:
        self.brokers[record.broker.id] = record.broker

    def _broker_removed(self, record: BrokerRemoved) -> None:
        self.brokers.pop(record.broker_id, None)

    def _topic_created(self, record: TopicCreated) -> None:
        config = TopicConfig(record.configs, self._config)
        self._set_topic(TopicImage(record.name, record.topic_id, (), config, record.is_internal))
        self.topic_names[record.topic_id] = record.name

    def _topic_deleted(self, record: TopicDeleted) -> None:
        self._partitions.pop(record.name, None)
        topic = self.topics.pop(record.name)
        self._partition_count -= len(topic.partitions)
        self.topic_names.pop(topic.id, None)
        self._changed[record.name] = None

    def _topic_configured(self, record: TopicConfigured) -> None:
        config = TopicConfig(record.configs, self._config)
        self._set_topic(attrs.evolve(self.topics[record.name], config=config))

    def _configs_set(self, record: ConfigsSet) -> None:
        resource = (record.resource_type, record.name)
        configs = {other: known for other, known in self.configs.items() if other != resource}
        if record.configs:
            configs[resource] = dict(record.configs)
        self.configs = configs
        if resource == ALL_BROKERS:
            # These are the defaults of topics.
            self._config.set_dynamic({}, record.configs)
            for topic in self.topics.values():
                self._set_topic(attrs.evolve(topic, config=topic.config.over(self._config)))

    def _partition_set(self, record: PartitionSet) -> None:
        partitions = self._partitions.get(record.topic)
        if partitions is None:
            partitions = self._partitions[record.topic] = list(self.topics[record.topic].partitions)
        partitions[record.partition : record.partition + 1] = [record.image]

    def _set_topic(self, topic: TopicImage) -> None:
        before = self.topics.get(topic.name)
        self._partition_count += len(topic.partitions) - (0 if before is None else len(before.partitions))
        self.topics[topic.name] = self._changed[topic.name] = topic

    def _feature_set(self, record: FeatureSet) -> None:
        if record.level:
            self.features[record.name] = record.level
        else:
            self.features.pop(record.name, None)

    def _producer_ids_allocated(self, record: ProducerIdsAllocated) -> None:
        self.next_producer_id = record.next_id

    def _acl_created(self, record: AclCreated) -> None:
        self._changed_acls()[record.acl] = record.id

    def _acl_removed(self, record: AclRemoved) -> None:
        self._changed_acls().pop(record.acl, None)

    def _changed_acls(self) -> dict[Acl, bytes]:
        if self._acls is None:
            self._acls = dict(self.acls)
        return self._acls

    def _delegation_token_set(self, record: DelegationTokenSet) -> None:
        self.tokens = {**self.tokens, record.token.id: record.token}

    def _delegation_token_removed(self, record: DelegationTokenRemoved) -> None:
        self.tokens = {name: token for name, token in self.tokens.items() if name != record.token_id}

    def _scram_user_set(self, record: ScramUserSet) -> None:
        users = {name: known for name, known in self.scram_users.items() if name != record.user}
        if record.credentials:
            users[record.user] = record.credentials
        self.scram_users = users

    def _client_quota_set(self, record: ClientQuotaSet) -> None:
        if self._quotas is None:  # copied once for all entities of a request
            self._quotas = dict(self.quotas)
        known = self._quotas.pop(record.entity, {})
        values = {key: value for key, value in known.items() if key != record.key}
        if record.value is not None:
            values[record.key] = record.value
        if values:
            self._quotas[record.entity] = values
