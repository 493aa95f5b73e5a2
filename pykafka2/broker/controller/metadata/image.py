"""The cluster's metadata in Kafka's own records: what the metadata log on disk and its snapshots contain.

Beside the controller's state (state.py) it keeps what only Apache Kafka uses, such as registered controllers,
so that a data directory loses nothing here. `replay` applies records in order, `snapshot` returns the records
that produce the same metadata, in the order of Kafka's snapshots. Sans-IO.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

from pykafka2.broker.base.features import METADATA_VERSION, SUPPORTED
from pykafka2.broker.controller.metadata.partitions import merged
from pykafka2.errors import CorruptData
from pykafka2.protocol.messages.metadata_records import (
    AccessControlEntryRecord,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ClientQuotaRecord,
    ConfigRecord,
    DelegationTokenRecord,
    EntityData,
    FeatureLevelRecord,
    FenceBrokerRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
    UserScramCredentialRecord,
    ZkMigrationStateRecord,
)
from pykafka2.protocol.primitives import uuid_to_text
from pykafka2.protocol.struct import MetadataRecord, Struct

TOPIC_RESOURCE: Final = 2
FENCED, UNFENCED, UNCHANGED = 1, -1, 0
"""Values of `fenced` in changes of a registration; `in_controlled_shutdown` only has 1."""

T = TypeVar("T", bound=Struct)
Entity = tuple[tuple[str, "str | None"], ...]


def evolved(record: T, **changes: Any) -> T:
    """Return a copy of a record with some fields changed."""
    fields = {entry.name: getattr(record, entry.name) for entry in type(record)._fields}
    return type(record)(**{**fields, **changes})


class MetadataImage:
    """The metadata after the records replayed so far."""

    def __init__(self) -> None:
        self.features: dict[str, int] = {}
        self.brokers: dict[int, RegisterBrokerRecord] = {}
        self.controllers: dict[int, RegisterControllerRecord] = {}
        self.topics: dict[bytes, str] = {}
        self.topic_ids: dict[str, bytes] = {}
        self.partitions: dict[bytes, dict[int, PartitionRecord]] = {}
        self.configs: dict[tuple[int, str], dict[str, str]] = {}
        self.quotas: dict[Entity, dict[str, float]] = {}
        self.producer_ids: ProducerIdsRecord | None = None
        self.acls: dict[bytes, AccessControlEntryRecord] = {}
        self.users: dict[tuple[str, int], UserScramCredentialRecord] = {}
        """SCRAM credentials by user and mechanism."""
        self.tokens: dict[str, DelegationTokenRecord] = {}
        self._replayers: dict[type[MetadataRecord], Callable[[Any], object]] = {
            RegisterBrokerRecord: self._register_broker,
            UnregisterBrokerRecord: self._unregister_broker,
            TopicRecord: self._topic,
            PartitionRecord: self._partition,
            ConfigRecord: self._config,
            PartitionChangeRecord: self._partition_change,
            FenceBrokerRecord: lambda record: self._set_fenced(record.id, is_fenced=True),
            UnfenceBrokerRecord: lambda record: self._set_fenced(record.id, is_fenced=False),
            RemoveTopicRecord: self._remove_topic,
            DelegationTokenRecord: self._delegation_token,
            UserScramCredentialRecord: self._user_scram_credential,
            FeatureLevelRecord: self._feature_level,
            ClientQuotaRecord: self._client_quota,
            ProducerIdsRecord: self._producer_ids,
            BrokerRegistrationChangeRecord: self._broker_registration_change,
            AccessControlEntryRecord: self._access_control_entry,
            RemoveAccessControlEntryRecord: lambda record: self.acls.pop(record.id, None),
            NoOpRecord: lambda record: None,
            # ZooKeeper ended with Kafka 4.0, which ignores this state as well.
            ZkMigrationStateRecord: lambda record: None,
            RemoveUserScramCredentialRecord: lambda record: self.users.pop(
                (record.name, record.mechanism), None
            ),
            RemoveDelegationTokenRecord: lambda record: self.tokens.pop(record.token_id, None),
            RegisterControllerRecord: self._register_controller,
            ClearElrRecord: self._clear_elr,
        }

    @property
    def metadata_version(self) -> int:
        """The level of metadata.version, which determines the versions of records."""
        return self.features.get(METADATA_VERSION, SUPPORTED[METADATA_VERSION].lowest)

    def replay(self, record: MetadataRecord) -> None:
        """Apply one record.

        Raise `CorruptData` if it contradicts the metadata, or is of a type that cannot be replayed.
        """
        replay = self._replayers.get(type(record))
        if replay is None:
            raise CorruptData(f"{record.NAME} is not expected here")
        replay(record)

    # ------------------------------------------------------------------ replay by type

    def _register_broker(self, record: RegisterBrokerRecord) -> None:
        self.brokers[record.broker_id] = record

    def _unregister_broker(self, record: UnregisterBrokerRecord) -> None:
        self.brokers.pop(record.broker_id, None)

    def _set_fenced(self, broker_id: int, *, is_fenced: bool) -> None:
        self.brokers[broker_id] = evolved(self._broker(broker_id), fenced=is_fenced)

    def _broker_registration_change(self, record: BrokerRegistrationChangeRecord) -> None:
        broker = self._broker(record.broker_id)
        changes: dict[str, object] = {}
        if record.fenced != UNCHANGED:
            changes["fenced"] = record.fenced == FENCED
        if record.in_controlled_shutdown != UNCHANGED:
            changes["in_controlled_shutdown"] = True
        if record.log_dirs:
            changes["log_dirs"] = record.log_dirs
        if record.cordoned_log_dirs is not None:
            changes["cordoned_log_dirs"] = record.cordoned_log_dirs
        self.brokers[record.broker_id] = evolved(broker, **changes)

    def _broker(self, broker_id: int) -> RegisterBrokerRecord:
        broker = self.brokers.get(broker_id)
        if broker is None:
            raise CorruptData(f"broker {broker_id} changes, but is not registered")
        return broker

    def _register_controller(self, record: RegisterControllerRecord) -> None:
        self.controllers[record.controller_id] = record

    def _topic(self, record: TopicRecord) -> None:
        if record.topic_id in self.topics or record.name in self.topic_ids:
            raise CorruptData(
                f"topic {record.name!r} with id {uuid_to_text(record.topic_id)} is created twice"
            )
        self.topics[record.topic_id] = record.name
        self.topic_ids[record.name] = record.topic_id
        self.partitions[record.topic_id] = {}

    def _remove_topic(self, record: RemoveTopicRecord) -> None:
        self.partitions_of(record.topic_id)
        name = self.topics.pop(record.topic_id)
        del self.topic_ids[name], self.partitions[record.topic_id]
        self.configs.pop((TOPIC_RESOURCE, name), None)

    def _partition(self, record: PartitionRecord) -> None:
        self.partitions_of(record.topic_id)[record.partition_id] = record

    def _partition_change(self, record: PartitionChangeRecord) -> None:
        partitions = self.partitions_of(record.topic_id)
        partition = partitions.get(record.partition_id)
        if partition is None:
            topic = self.topics[record.topic_id]
            raise CorruptData(f"partition {topic}-{record.partition_id} changes, but does not exist")
        partitions[record.partition_id] = merged(partition, record)

    def partitions_of(self, topic_id: bytes) -> dict[int, PartitionRecord]:
        """Return the partitions of a topic by number. Raise `CorruptData` if the topic is unknown."""
        partitions = self.partitions.get(topic_id)
        if partitions is None:
            raise CorruptData(f"there is no topic with id {uuid_to_text(topic_id)}")
        return partitions

    def _clear_elr(self, record: ClearElrRecord) -> None:
        ids = [self.topic_ids.get(record.topic_name, b"")] if record.topic_name else [*self.topics]
        for topic_id in ids:
            partitions = self.partitions_of(topic_id)
            for number, partition in partitions.items():
                partitions[number] = evolved(partition, eligible_leader_replicas=None, last_known_elr=None)

    def _config(self, record: ConfigRecord) -> None:
        resource = (record.resource_type, record.resource_name)
        configs = self.configs.setdefault(resource, {})
        if record.value is None:
            configs.pop(record.name, None)
        else:
            configs[record.name] = record.value
        if not configs:
            del self.configs[resource]

    def _client_quota(self, record: ClientQuotaRecord) -> None:
        entity = tuple(sorted((one.entity_type, one.entity_name) for one in record.entity))
        quotas = self.quotas.setdefault(entity, {})
        if record.remove:
            quotas.pop(record.key, None)
        else:
            quotas[record.key] = record.value
        if not quotas:
            del self.quotas[entity]

    def _producer_ids(self, record: ProducerIdsRecord) -> None:
        self.producer_ids = record

    def _feature_level(self, record: FeatureLevelRecord) -> None:
        if record.feature_level:
            self.features[record.name] = record.feature_level
        else:
            self.features.pop(record.name, None)

    def _access_control_entry(self, record: AccessControlEntryRecord) -> None:
        self.acls[record.id] = record

    def _user_scram_credential(self, record: UserScramCredentialRecord) -> None:
        self.users[record.name, record.mechanism] = record

    def _delegation_token(self, record: DelegationTokenRecord) -> None:
        self.tokens[record.token_id] = record

    # ------------------------------------------------------------------ snapshot

    def snapshot(self) -> Iterator[MetadataRecord]:
        """Iterate over the records that produce this metadata; metadata.version is the first one."""
        names = sorted(self.features, key=lambda name: (name != METADATA_VERSION, name))
        for name in names:
            yield FeatureLevelRecord(name=name, feature_level=self.features[name])
        yield from self.brokers.values()
        yield from self.controllers.values()
        for topic_id, name in self.topics.items():
            yield TopicRecord(name=name, topic_id=topic_id)
            partitions = self.partitions[topic_id]
            yield from (partitions[number] for number in sorted(partitions))
        for (kind, name), configs in self.configs.items():
            for option, value in configs.items():
                yield ConfigRecord(resource_type=kind, resource_name=name, name=option, value=value)
        for entity, quotas in self.quotas.items():
            for key, rate in quotas.items():
                yield ClientQuotaRecord(entity=entity_data(entity), key=key, value=rate, remove=False)
        if self.producer_ids is not None:
            yield self.producer_ids
        yield from self.acls.values()
        yield from self.users.values()
        yield from self.tokens.values()


def entity_data(entity: Entity) -> list[EntityData]:
    """Return the entity of a quota as its record has it."""
    return [EntityData(entity_type=kind, entity_name=name) for kind, name in entity]
