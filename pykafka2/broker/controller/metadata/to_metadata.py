"""Conversion of the controller's records (records.py) to Kafka's metadata records.

The controller's records have whole values, Kafka's often only what changed, so the conversion needs the
metadata before each record. Sans-IO: `Converter.convert` returns the records and applies them to its image.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from pykafka2.broker.base.features import SUPPORTED, Levels
from pykafka2.broker.base.image import TOPIC_RESOURCE, UNASSIGNED, BrokerImage, Endpoint, PartitionImage
from pykafka2.broker.controller.metadata.image import (
    FENCED,
    UNCHANGED,
    UNFENCED,
    MetadataImage,
    entity_data,
    evolved,
)
from pykafka2.broker.controller.metadata.partitions import NO_LEADER_CHANGE, directories_of, merged
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
from pykafka2.broker.security.acls import Acl
from pykafka2.protocol.messages.metadata_records import (
    AccessControlEntryRecord,
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    ClientQuotaRecord,
    ConfigRecord,
    DelegationTokenRecord,
    FeatureLevelRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UnregisterBrokerRecord,
    UserScramCredentialRecord,
)
from pykafka2.protocol.struct import MetadataRecord

NO_EPOCH: Final = -1
DirectoriesOf = Callable[[int], Sequence[bytes]]
"""Callback: (broker) -> the ids of its log directories."""


class Converter:
    """Converts records in order; `image` is the metadata after the converted ones."""

    def __init__(
        self,
        image: MetadataImage,
        directories_of_broker: DirectoriesOf = lambda broker_id: (),
        features: Mapping[str, Levels] = SUPPORTED,
    ) -> None:
        self.image = image
        self._directories_of_broker = directories_of_broker
        self._features = features
        self._acl_ids: dict[Acl, bytes] = {acl_of(record): acl_id for acl_id, record in image.acls.items()}
        self._converters: dict[type[Record], Callable[[Any], Iterator[MetadataRecord]]] = {
            ControllerElected: lambda record: iter(()),  # a control record, written by the storage
            BrokerSet: self._broker_set,
            BrokerRemoved: self._broker_removed,
            TopicCreated: self._topic_created,
            TopicDeleted: self._topic_deleted,
            TopicConfigured: lambda record: self._configs(TOPIC_RESOURCE, record.name, record.configs),
            ConfigsSet: lambda record: self._configs(record.resource_type, record.name, record.configs),
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

    def convert(self, records: Iterable[Record]) -> list[MetadataRecord]:
        """Return the records that make the same changes; a `NoOpRecord` if nothing changes.

        Every write of the controller moves the log's end, because brokers compare images by it.
        """
        converted: list[MetadataRecord] = []
        for record in records:
            for made in self._converters[type(record)](record):
                self.image.replay(made)
                converted.append(made)
        return converted or [NoOpRecord()]

    # ------------------------------------------------------------------ brokers

    def _broker_set(self, record: BrokerSet) -> Iterator[MetadataRecord]:
        broker = record.broker
        known = self.image.brokers.get(broker.id)
        wanted = self._registration(broker, known)
        if known == wanted:
            return
        if known is not None and (broker.is_shutting_down or not known.in_controlled_shutdown):
            same = evolved(
                known,
                fenced=broker.is_fenced,
                in_controlled_shutdown=broker.is_shutting_down,
                log_dirs=wanted.log_dirs,
            )
            if same == wanted:
                yield BrokerRegistrationChangeRecord(
                    broker_id=broker.id,
                    broker_epoch=broker.epoch,
                    fenced=_change(known.fenced, broker.is_fenced),
                    in_controlled_shutdown=int(broker.is_shutting_down and not known.in_controlled_shutdown),
                    log_dirs=wanted.log_dirs if wanted.log_dirs != known.log_dirs else [],
                )
                return
        yield wanted

    def _registration(self, broker: BrokerImage, known: RegisterBrokerRecord | None) -> RegisterBrokerRecord:
        endpoints = broker.endpoints or (Endpoint("PLAINTEXT", broker.host, broker.port),)
        is_same = known is not None and known.broker_epoch == broker.epoch
        return RegisterBrokerRecord(
            broker_id=broker.id,
            is_migrating_zk_broker=known.is_migrating_zk_broker if known is not None and is_same else False,
            incarnation_id=broker.incarnation_id or UNASSIGNED,
            broker_epoch=broker.epoch,
            end_points=[
                BrokerEndpoint(
                    name=endpoint.listener,
                    host=endpoint.host,
                    port=endpoint.port,
                    security_protocol=endpoint.protocol,
                )
                for endpoint in endpoints
            ],
            features=known.features if known is not None and is_same else self._broker_features(),
            rack=broker.rack,
            fenced=broker.is_fenced,
            in_controlled_shutdown=broker.is_shutting_down,
            log_dirs=sorted(broker.directories)
            or (
                known.log_dirs
                if known is not None and is_same
                else sorted(self._directories_of_broker(broker.id))
            ),
            cordoned_log_dirs=known.cordoned_log_dirs if known is not None and is_same else None,
        )

    def _broker_features(self) -> list[BrokerFeature]:
        return [
            BrokerFeature(
                name=name, min_supported_version=levels.lowest, max_supported_version=levels.highest
            )
            for name, levels in self._features.items()
        ]

    def _broker_removed(self, record: BrokerRemoved) -> Iterator[MetadataRecord]:
        known = self.image.brokers.get(record.broker_id)
        if known is not None:
            yield UnregisterBrokerRecord(broker_id=record.broker_id, broker_epoch=known.broker_epoch)

    # ------------------------------------------------------------------ topics

    def _topic_created(self, record: TopicCreated) -> Iterator[MetadataRecord]:
        yield TopicRecord(name=record.name, topic_id=record.topic_id)
        yield from self._configs(TOPIC_RESOURCE, record.name, record.configs)

    def _topic_deleted(self, record: TopicDeleted) -> Iterator[MetadataRecord]:
        yield RemoveTopicRecord(topic_id=self.image.topic_ids[record.name])

    def _partition_set(self, record: PartitionSet) -> Iterator[MetadataRecord]:
        topic_id = self.image.topic_ids[record.topic]
        known = self.image.partitions[topic_id].get(record.partition)
        wanted = self._partition(topic_id, record.partition, record.image, known)
        if known is None:
            yield wanted
            return
        if known == wanted:
            return
        change = _partition_change(known, wanted)
        yield change if merged(known, change) == wanted else wanted

    def _partition(
        self, topic_id: bytes, number: int, image: PartitionImage, known: PartitionRecord | None
    ) -> PartitionRecord:
        replicas = [*image.replicas]
        before = [] if known is None else directories_of(replicas, known)
        directories = [
            self._default_directory(replica) if directory == UNASSIGNED else directory
            for replica, directory in zip(replicas, before or [UNASSIGNED] * len(replicas), strict=True)
        ]
        for replica, directory in image.directories:
            if replica in replicas:
                directories[replicas.index(replica)] = directory
        return PartitionRecord(
            partition_id=number,
            topic_id=topic_id,
            replicas=replicas,
            isr=[*image.isr],
            removing_replicas=[*image.removing],
            adding_replicas=[*image.adding],
            leader=image.leader,
            leader_epoch=image.leader_epoch,
            partition_epoch=image.partition_epoch,
            directories=directories,
            # This controller elects from the ISR alone, so those eligible before are eligible no longer.
        )

    def _default_directory(self, broker_id: int) -> bytes:
        """Return the only directory of a broker; with several, the broker chooses one."""
        directories = self._directories_of_broker(broker_id)
        return directories[0] if len(directories) == 1 else UNASSIGNED

    # ------------------------------------------------------------------ configuration

    def _configs(self, kind: int, name: str, configs: Mapping[str, str]) -> Iterator[MetadataRecord]:
        known = dict(self.image.configs.get((kind, name), {}))
        for option, value in configs.items():
            if known.pop(option, None) != value:
                yield ConfigRecord(resource_type=kind, resource_name=name, name=option, value=value)
        for option in known:
            yield ConfigRecord(resource_type=kind, resource_name=name, name=option, value=None)

    def _feature_set(self, record: FeatureSet) -> Iterator[MetadataRecord]:
        yield FeatureLevelRecord(name=record.name, feature_level=record.level)

    def _client_quota_set(self, record: ClientQuotaSet) -> Iterator[MetadataRecord]:
        yield ClientQuotaRecord(
            entity=entity_data(record.entity),
            key=record.key,
            value=record.value or 0.0,
            remove=record.value is None,
        )

    def _producer_ids_allocated(self, record: ProducerIdsAllocated) -> Iterator[MetadataRecord]:
        yield ProducerIdsRecord(broker_id=NO_EPOCH, next_producer_id=record.next_id)

    # ------------------------------------------------------------------ security

    def _acl_created(self, record: AclCreated) -> Iterator[MetadataRecord]:
        acl = record.acl
        self._acl_ids[acl] = record.id
        yield AccessControlEntryRecord(
            id=record.id,
            resource_type=acl.resource_type,
            resource_name=acl.resource_name,
            pattern_type=acl.pattern_type,
            principal=acl.principal,
            host=acl.host,
            operation=acl.operation,
            permission_type=acl.permission,
        )

    def _acl_removed(self, record: AclRemoved) -> Iterator[MetadataRecord]:
        acl_id = self._acl_ids.pop(record.acl, None)
        if acl_id is not None:
            yield RemoveAccessControlEntryRecord(id=acl_id)

    def _scram_user_set(self, record: ScramUserSet) -> Iterator[MetadataRecord]:
        for user, mechanism in [*self.image.users]:
            if user == record.user and mechanism not in record.credentials:
                yield RemoveUserScramCredentialRecord(name=user, mechanism=mechanism)
        for kind, credential in record.credentials.items():
            made = UserScramCredentialRecord(
                name=record.user,
                mechanism=int(kind),
                salt=credential.salt,
                stored_key=credential.stored_key,
                server_key=credential.server_key,
                iterations=credential.iterations,
            )
            if self.image.users.get((record.user, int(kind))) != made:
                yield made

    def _delegation_token_set(self, record: DelegationTokenSet) -> Iterator[MetadataRecord]:
        token = record.token
        yield DelegationTokenRecord(
            owner=str(token.owner),
            requester=str(token.requester),
            renewers=[str(renewer) for renewer in token.renewers],
            issue_timestamp=token.issued_at_ms,
            max_timestamp=token.max_at_ms,
            expiration_timestamp=token.expires_at_ms,
            token_id=token.id,
        )

    def _delegation_token_removed(self, record: DelegationTokenRemoved) -> Iterator[MetadataRecord]:
        if record.token_id in self.image.tokens:
            yield RemoveDelegationTokenRecord(token_id=record.token_id)


def acl_of(record: AccessControlEntryRecord) -> Acl:
    """Return the ACL in a record."""
    return Acl(
        record.resource_type,
        record.resource_name,
        record.pattern_type,
        record.principal,
        record.host,
        record.operation,
        record.permission_type,
    )


def _change(before: bool, after: bool) -> int:
    return UNCHANGED if before == after else FENCED if after else UNFENCED


def _partition_change(known: PartitionRecord, wanted: PartitionRecord) -> PartitionChangeRecord:
    """Return the change from one state of a partition to another, if one record can express it."""
    change = PartitionChangeRecord(partition_id=known.partition_id, topic_id=known.topic_id)
    for name in ("isr", "replicas", "removing_replicas", "adding_replicas"):
        if getattr(known, name) != getattr(wanted, name):
            setattr(change, name, getattr(wanted, name))
    change.leader = wanted.leader if wanted.leader_epoch != known.leader_epoch else NO_LEADER_CHANGE
    if known.leader_recovery_state != wanted.leader_recovery_state:
        change.leader_recovery_state = wanted.leader_recovery_state
    if directories_of(wanted.replicas, known) != wanted.directories:
        change.directories = wanted.directories
    for name in ("eligible_leader_replicas", "last_known_elr"):
        if getattr(known, name):
            setattr(change, name, [])
    return change
