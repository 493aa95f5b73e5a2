"""The cluster's metadata, changed only by replaying Kafka's metadata records.

`apply` and `replay` take records in the order of the metadata log, `derive` makes the immutable
`ClusterImage` for brokers, which shares all unchanged parts with the previous one. `snapshot` returns the
records that produce the same metadata. What only Apache Kafka uses, such as registered controllers, is kept
as well, so that a data directory loses nothing here. Sans-IO.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy
from typing import Any, Final

import attrs

from pykafka2.broker.base.features import IMPLEMENTED, LATEST, METADATA_VERSION, SUPPORTED, Levels
from pykafka2.broker.base.image import (
    ALL_BROKERS,
    INTERNAL_TOPICS,
    TOPIC_RESOURCE,
    BrokerImage,
    ClusterImage,
    ConfigResource,
    PartitionImage,
    TopicImage,
)
from pykafka2.broker.config.configs import BrokerConfig, TopicConfig
from pykafka2.broker.controller.metadata import records as values
from pykafka2.broker.quotas.entities import Quotas
from pykafka2.broker.security.acls import NO_ACLS, Acl, Acls
from pykafka2.broker.security.delegation_tokens import DelegationToken, TokenCredentials, hmac_of
from pykafka2.broker.security.scram import KINDS, SALT_BYTES, ScramCredential, ScramMechanism
from pykafka2.clock import Entropy
from pykafka2.errors import CorruptData
from pykafka2.protocol.messages import metadata_records as kafka
from pykafka2.protocol.primitives import uuid_to_text
from pykafka2.protocol.struct import MetadataRecord

Changes = Mapping[str, "TopicImage | None"]
"""Topics that changed, by name; None: deleted."""

_PARTS: Final = [part.name for part in attrs.fields(ClusterImage)[2:]]
"""The parts of the image, which are mappings here as well."""


class MetadataImage:
    """The metadata after the records applied so far.

    Its mappings are never changed in place once `derive` has passed them on: the first change after that
    copies them.
    """

    def __init__(
        self, cluster_id: str, config: BrokerConfig, entropy: Entropy, features: Mapping[str, int] = LATEST
    ) -> None:
        self.features: Mapping[str, int] = dict(features)
        self.other_features: dict[str, int] = {}
        """Levels of features that this release does not have."""
        self.brokers: Mapping[int, BrokerImage] = {}
        self.registrations: dict[int, kafka.RegisterBrokerRecord] = {}
        self.controllers: dict[int, kafka.RegisterControllerRecord] = {}
        self.topics: Mapping[str, TopicImage] = {}
        self.topic_names: Mapping[bytes, str] = {}
        self.extras: dict[tuple[bytes, int], values.Extras] = {}
        """Fields of partitions that only Apache Kafka uses, by topic id and number; most have none."""
        self.configs: Mapping[ConfigResource, Mapping[str, str]] = {}
        """Configuration of resources other than topics."""
        self.quotas: Quotas = {}
        self.producer_ids: kafka.ProducerIdsRecord | None = None
        self.acls: Acls = NO_ACLS
        self.scram_users: Mapping[str, Mapping[ScramMechanism, ScramCredential]] = {}
        self.tokens: Mapping[str, DelegationToken] = {}
        self.token_records: dict[str, kafka.DelegationTokenRecord] = {}
        """The records of all tokens; without delegation.token.secret.key they are not usable."""
        self.first_host = 0
        """The host at which placement starts, from the cluster's seed."""
        self.supported: Mapping[str, Levels] = SUPPORTED
        """The levels of features that brokers register, those of the release that the cluster imitates."""
        self.image = ClusterImage(0, cluster_id, {}, {}, {}, self.features)
        self._config = config
        self._entropy = entropy
        self._acls_by_id: dict[bytes, Acl] = {}
        self._changed: dict[str, TopicImage | None] = {}
        self._partitions: dict[str, dict[int, PartitionImage]] = {}  # changed since the last image, by topic
        self._configs: dict[ConfigResource, dict[str, str]] = {}  # likewise, all options of a resource
        self._copied: set[str] = set()  # the mappings that have been copied since then
        self._appliers: dict[type[MetadataRecord], Callable[[Any], object]] = {
            kafka.RegisterBrokerRecord: self._registered,
            kafka.UnregisterBrokerRecord: self._unregister_broker,
            kafka.TopicRecord: self._topic,
            kafka.PartitionRecord: self._partition,
            kafka.ConfigRecord: self._config_record,
            kafka.PartitionChangeRecord: self._partition_change,
            kafka.FenceBrokerRecord: lambda record: self._set_fenced(record.id, fenced=True),
            kafka.UnfenceBrokerRecord: lambda record: self._set_fenced(record.id, fenced=False),
            kafka.RemoveTopicRecord: self._remove_topic,
            kafka.DelegationTokenRecord: self._delegation_token,
            kafka.UserScramCredentialRecord: self._user_scram_credential,
            kafka.FeatureLevelRecord: self._feature_level,
            kafka.ClientQuotaRecord: self._client_quota,
            kafka.ProducerIdsRecord: lambda record: setattr(self, "producer_ids", record),
            kafka.BrokerRegistrationChangeRecord: self._broker_registration_change,
            kafka.AccessControlEntryRecord: self._access_control_entry,
            kafka.RemoveAccessControlEntryRecord: self._remove_access_control_entry,
            kafka.NoOpRecord: lambda record: None,
            # ZooKeeper ended with Kafka 4.0, which ignores this state as well.
            kafka.ZkMigrationStateRecord: lambda record: None,
            kafka.RemoveUserScramCredentialRecord: self._remove_user_scram_credential,
            kafka.RemoveDelegationTokenRecord: self._remove_delegation_token,
            kafka.RegisterControllerRecord: lambda one: self.controllers.update({one.controller_id: one}),
            kafka.UnregisterControllerRecord: lambda one: self.controllers.pop(one.controller_id, None),
            kafka.ClearElrRecord: self._clear_elr,
        }

    def empty(self) -> MetadataImage:
        """Return the metadata of the same cluster before its first record."""
        other = MetadataImage(self.image.cluster_id, self._config, self._entropy, {})
        other.first_host, other.supported = self.first_host, self.supported
        return other

    @property
    def metadata_version(self) -> int:
        """The level of metadata.version, which determines the versions of records."""
        return self.features.get(METADATA_VERSION, IMPLEMENTED[METADATA_VERSION].lowest)

    @property
    def next_host(self) -> int:
        """The host at which the next placement starts: leaders are assigned round-robin over all topics."""
        return self.first_host + sum([len(topic.partitions) for topic in self.topics.values()])

    @property
    def next_producer_id(self) -> int:
        """All producer ids below this one are allocated."""
        return 0 if self.producer_ids is None else self.producer_ids.next_producer_id

    # ------------------------------------------------------------------ replay

    def replay(self, records: Iterable[MetadataRecord], end_offset: int) -> Changes:
        """Apply records, after which the log ends at `end_offset`. Return the topics that changed."""
        for record in records:
            self.apply(record)
        return self.derive(end_offset)

    def apply(self, record: MetadataRecord) -> None:
        """Apply one record; `image` has it after the next `derive`.

        Raise `CorruptData` if it contradicts the metadata, or is of a type that cannot be replayed.
        """
        apply = self._appliers.get(type(record))
        if apply is None:
            raise CorruptData(f"{record.NAME} is not expected here")
        apply(record)

    def derive(self, end_offset: int) -> Changes:
        """Make the image at this end of the log. Return the topics that changed since the last one.

        Raise `CorruptData` for a topic without some of its partitions, and `InvalidConfig`.
        """
        self._derive_configs()
        for name, partitions in self._partitions.items():
            self._set_topic(
                attrs.evolve(self.topics[name], partitions=self._all_partitions(name, partitions))
            )
        changed, self._changed, self._partitions = self._changed, {}, {}
        self._copied.clear()
        parts: dict[str, Any] = {name: getattr(self, name) for name in _PARTS}
        self.image = ClusterImage(end_offset, self.image.cluster_id, **parts)
        return changed

    def _all_partitions(self, name: str, changed: Mapping[int, PartitionImage]) -> tuple[PartitionImage, ...]:
        partitions = [*self.topics[name].partitions]
        for number in sorted(changed):
            if not 0 <= number <= len(partitions):
                raise CorruptData(
                    f"topic {name!r} has the partitions {sorted({*range(len(partitions)), *changed})}"
                )
            partitions[number : number + 1] = [changed[number]]
        return tuple(partitions)

    def _derive_configs(self) -> None:
        configs, self._configs = self._configs, {}
        if ALL_BROKERS in configs:
            # These are the defaults of topics.
            self._config.set_dynamic({}, configs[ALL_BROKERS])
            for topic in [*self.topics.values()]:
                self._set_topic(attrs.evolve(topic, config=topic.config.over(self._config)))
        for resource, options in configs.items():
            kind, name = resource
            if kind == TOPIC_RESOURCE:
                self._set_topic(attrs.evolve(self.topics[name], config=TopicConfig(options, self._config)))
                continue
            known = self._own("configs")
            known.pop(resource, None)
            if options:
                known[resource] = options

    def _own(self, name: str) -> dict[Any, Any]:
        """Return a mapping to change: copied once for all records until the next image."""
        if name not in self._copied:
            self._copied.add(name)
            setattr(self, name, dict(getattr(self, name)))
        mapping: dict[Any, Any] = getattr(self, name)
        return mapping

    # ------------------------------------------------------------------ brokers and controllers

    def _registered(self, record: kafka.RegisterBrokerRecord) -> None:
        self.registrations[record.broker_id] = record
        self._own("brokers")[record.broker_id] = values.broker_of(record)

    def _unregister_broker(self, record: kafka.UnregisterBrokerRecord) -> None:
        self.registrations.pop(record.broker_id, None)
        self._own("brokers").pop(record.broker_id, None)

    def _set_fenced(self, broker_id: int, *, fenced: bool) -> None:
        changed = copy(self._registration(broker_id))
        changed.fenced = fenced
        self._registered(changed)

    def _broker_registration_change(self, record: kafka.BrokerRegistrationChangeRecord) -> None:
        self._registered(values.registration_after(self._registration(record.broker_id), record))

    def _registration(self, broker_id: int) -> kafka.RegisterBrokerRecord:
        known = self.registrations.get(broker_id)
        if known is None:
            raise CorruptData(f"broker {broker_id} changes, but is not registered")
        return known

    # ------------------------------------------------------------------ topics and partitions

    def _topic(self, record: kafka.TopicRecord) -> None:
        name = record.name
        if record.topic_id in self.topic_names or name in self.topics:
            raise CorruptData(f"topic {name!r} with id {uuid_to_text(record.topic_id)} is created twice")
        self._own("topic_names")[record.topic_id] = name
        config = TopicConfig({}, self._config)
        self._set_topic(TopicImage(name, record.topic_id, (), config, name in INTERNAL_TOPICS))

    def _remove_topic(self, record: kafka.RemoveTopicRecord) -> None:
        name = self._name_of(record.topic_id)
        del self._own("topic_names")[record.topic_id]
        del self._own("topics")[name]
        self._changed[name] = None
        self._partitions.pop(name, None)
        self._configs.pop((TOPIC_RESOURCE, name), None)
        self.extras = {key: kept for key, kept in self.extras.items() if key[0] != record.topic_id}

    def _set_topic(self, topic: TopicImage) -> None:
        self._own("topics")[topic.name] = self._changed[topic.name] = topic

    def _name_of(self, topic_id: bytes) -> str:
        name = self.topic_names.get(topic_id)
        if name is None:
            raise CorruptData(f"there is no topic with id {uuid_to_text(topic_id)}")
        return name

    def _partition(self, record: kafka.PartitionRecord) -> None:
        name, number = self._name_of(record.topic_id), record.partition_id
        self._set_partition(name, number, values.partition_of(record))
        self._set_extras(record.topic_id, number, values.extras_of(record))

    def _partition_change(self, record: kafka.PartitionChangeRecord) -> None:
        name, number = self._name_of(record.topic_id), record.partition_id
        known = self._partitions.get(name, {}).get(number)
        if known is None:
            partitions = self.topics[name].partitions
            if not 0 <= number < len(partitions):
                raise CorruptData(f"partition {name}-{number} changes, but does not exist")
            known = partitions[number]
        self._set_partition(name, number, values.partition_after(known, record))
        extras = self.extras.get((record.topic_id, number), values.NO_EXTRAS)
        self._set_extras(record.topic_id, number, values.extras_after(extras, record))

    def _set_partition(self, name: str, number: int, partition: PartitionImage) -> None:
        if len(partition.directories) not in (0, len(partition.replicas)):
            raise CorruptData(f"partition {name}-{number} has another number of directories than of replicas")
        self._partitions.setdefault(name, {})[number] = partition

    def _set_extras(self, topic_id: bytes, number: int, extras: values.Extras) -> None:
        if extras:
            self.extras[topic_id, number] = extras
        elif self.extras:
            self.extras.pop((topic_id, number), None)

    def _clear_elr(self, record: kafka.ClearElrRecord) -> None:
        for name, topic in self.topics.items():
            if record.topic_name not in ("", None, name):
                continue
            changed = self._partitions.setdefault(name, {})
            for number, partition in {**dict(enumerate(topic.partitions)), **changed}.items():
                if partition.elr or partition.last_known_elr:
                    changed[number] = attrs.evolve(partition, elr=(), last_known_elr=())

    # ------------------------------------------------------------------ configuration and quotas

    def _config_record(self, record: kafka.ConfigRecord) -> None:
        resource = (record.resource_type, record.resource_name)
        options = self._configs.get(resource)
        if options is None:
            if record.resource_type != TOPIC_RESOURCE:
                options = dict(self.configs.get(resource, {}))
            elif record.resource_name in self.topics:
                options = dict(self.topics[record.resource_name].config.overrides)
            else:
                return  # of a deleted topic
            self._configs[resource] = options
        if record.value is None:
            options.pop(record.name, None)
        else:
            options[record.name] = record.value

    def _client_quota(self, record: kafka.ClientQuotaRecord) -> None:
        entity = values.entity_in(record)
        quotas = self._own("quotas")
        kept = {key: value for key, value in quotas.pop(entity, {}).items() if key != record.key}
        if not record.remove:
            kept[record.key] = record.value
        if kept:
            quotas[entity] = kept

    def _feature_level(self, record: kafka.FeatureLevelRecord) -> None:
        features = self._own("features") if record.name in IMPLEMENTED else self.other_features
        if record.feature_level:
            features[record.name] = record.feature_level
        else:
            features.pop(record.name, None)

    # ------------------------------------------------------------------ security

    def _access_control_entry(self, record: kafka.AccessControlEntryRecord) -> None:
        acl = self._acls_by_id[record.id] = values.acl_of(record)
        self._own("acls")[acl] = record.id

    def _remove_access_control_entry(self, record: kafka.RemoveAccessControlEntryRecord) -> None:
        acl = self._acls_by_id.pop(record.id, None)
        if acl is not None:
            self._own("acls").pop(acl, None)

    def _user_scram_credential(self, record: kafka.UserScramCredentialRecord) -> None:
        user, number = record.name, record.mechanism
        if number not in KINDS.values():
            raise CorruptData(f"user {user!r} has a credential of the unknown SCRAM mechanism {number}")
        credential = ScramCredential(
            bytes(record.salt), bytes(record.stored_key), bytes(record.server_key), record.iterations
        )
        known = self.scram_users.get(user, {})
        self._own("scram_users")[user] = {**known, ScramMechanism(number): credential}

    def _remove_user_scram_credential(self, record: kafka.RemoveUserScramCredentialRecord) -> None:
        users = self._own("scram_users")
        left = {kind: one for kind, one in users.pop(record.name, {}).items() if kind != record.mechanism}
        if left:
            users[record.name] = left

    def _delegation_token(self, record: kafka.DelegationTokenRecord) -> None:
        """Keep a token; a new one gets its HMAC from the secret key, and salts for its credentials."""
        self.token_records[record.token_id] = record
        secret_key = self._config.text("delegation.token.secret.key")
        if not secret_key:
            return
        known = self.tokens.get(record.token_id)
        if known is not None:
            token_hmac, credentials = known.hmac, known.credentials
        else:
            token_hmac = hmac_of(secret_key, record.token_id)
            salts = {kind: self._entropy.token_bytes(SALT_BYTES) for kind in KINDS.values()}
            credentials = TokenCredentials(token_hmac, salts)
        self._own("tokens")[record.token_id] = values.token_of(record, token_hmac, credentials)

    def _remove_delegation_token(self, record: kafka.RemoveDelegationTokenRecord) -> None:
        self.token_records.pop(record.token_id, None)
        self._own("tokens").pop(record.token_id, None)

    # ------------------------------------------------------------------ snapshot

    def snapshot(self) -> Iterator[MetadataRecord]:
        """Iterate over the records that produce this metadata; metadata.version is the first one."""
        features = {**self.features, **self.other_features}
        for name in sorted(features, key=lambda name: (name != METADATA_VERSION, name)):
            yield kafka.FeatureLevelRecord(name=name, feature_level=features[name])
        yield from self.registrations.values()
        yield from self.controllers.values()
        for topic in self.topics.values():
            yield kafka.TopicRecord(name=topic.name, topic_id=topic.id)
            for number, partition in enumerate(topic.partitions):
                extras = self.extras.get((topic.id, number), values.NO_EXTRAS)
                yield values.partition_record(topic.id, number, partition, extras)
        for topic in self.topics.values():
            yield from values.config_changes(TOPIC_RESOURCE, topic.name, {}, topic.config.overrides)
        for (kind, name), options in self.configs.items():
            yield from values.config_changes(kind, name, {}, options)
        for entity, quotas in self.quotas.items():
            for key, value in quotas.items():
                yield values.quota_record(entity, key, value)
        if self.producer_ids is not None:
            yield self.producer_ids
        for acl, acl_id in self.acls.items():
            yield values.acl_record(acl_id, acl)
        for user, credentials in self.scram_users.items():
            yield from values.scram_records(user, credentials)
        yield from self.token_records.values()
