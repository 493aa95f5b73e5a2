"""Kafka's metadata records for the changes that the controller makes, and the values that records have.

Builders return records for a value and the one before it; they leave out what does not change. Readers return
the values of a record, for the replay in image.py. Pure functions.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import Any, Final

import attrs

from pykafka2.broker.base.features import SUPPORTED, Levels
from pykafka2.broker.base.image import UNASSIGNED, BrokerImage, Endpoint, PartitionImage
from pykafka2.broker.quotas.entities import QuotaEntity
from pykafka2.broker.security.acls import Acl
from pykafka2.broker.security.delegation_tokens import DelegationToken, TokenCredentials
from pykafka2.broker.security.principal import principal_of
from pykafka2.broker.security.scram import ScramCredential
from pykafka2.errors import ConfigurationError, CorruptData
from pykafka2.protocol.messages import metadata_records as kafka
from pykafka2.protocol.struct import MetadataRecord

NO_LEADER_CHANGE: Final = -2


# ---------------------------------------------------------------------- brokers


def registration_of(
    broker: BrokerImage, supported: Mapping[str, Levels] = SUPPORTED
) -> kafka.RegisterBrokerRecord:
    """Return the record that registers a broker, with the `supported` levels of features."""
    return kafka.RegisterBrokerRecord(
        broker_id=broker.id,
        incarnation_id=broker.incarnation_id or UNASSIGNED,
        broker_epoch=broker.epoch,
        end_points=[
            kafka.BrokerEndpoint(
                name=one.listener, host=one.host, port=one.port, security_protocol=one.protocol
            )
            for one in broker.endpoints or (Endpoint("PLAINTEXT", broker.host, broker.port),)
        ],
        features=[
            kafka.BrokerFeature(
                name=name, min_supported_version=one.lowest, max_supported_version=one.highest
            )
            for name, one in supported.items()
        ],
        rack=broker.rack,
        fenced=broker.is_fenced,
        in_controlled_shutdown=broker.is_shutting_down,
        log_dirs=sorted(broker.directories),
    )


def registration_changes(
    broker: BrokerImage,
    known: kafka.RegisterBrokerRecord | None,
    supported: Mapping[str, Levels] = SUPPORTED,
) -> list[MetadataRecord]:
    """Return the record that registers a broker, or changes its registration; none if nothing changes.

    Only a registration with a new epoch changes a broker's endpoints, its rack and its `supported` features.
    """
    if known is None or known.broker_epoch != broker.epoch:
        return [registration_of(broker, supported)]
    wanted = copy(known)
    wanted.fenced, wanted.in_controlled_shutdown = broker.is_fenced, broker.is_shutting_down
    wanted.log_dirs = sorted(broker.directories)
    if wanted == known:
        return []
    change = kafka.BrokerRegistrationChangeRecord(
        broker_id=broker.id,
        broker_epoch=broker.epoch,
        fenced=wanted.fenced - known.fenced,
        in_controlled_shutdown=int(wanted.in_controlled_shutdown and not known.in_controlled_shutdown),
        log_dirs=wanted.log_dirs if wanted.log_dirs != known.log_dirs else [],
    )
    # A change cannot end a controlled shutdown, or remove the last directory.
    return [change if registration_after(known, change) == wanted else wanted]


def registration_after(
    known: kafka.RegisterBrokerRecord, change: kafka.BrokerRegistrationChangeRecord
) -> kafka.RegisterBrokerRecord:
    """Return the registration after a change."""
    after = copy(known)
    if change.fenced:  # 1, or -1 for unfenced
        after.fenced = change.fenced > 0
    if change.in_controlled_shutdown:
        after.in_controlled_shutdown = True
    if change.log_dirs:
        after.log_dirs = change.log_dirs
    if change.cordoned_log_dirs is not None:
        after.cordoned_log_dirs = change.cordoned_log_dirs
    return after


def broker_of(record: kafka.RegisterBrokerRecord) -> BrokerImage:
    endpoints = tuple(
        Endpoint(one.name, one.host, one.port, one.security_protocol) for one in record.end_points
    )
    first = endpoints[0] if endpoints else Endpoint("", "", 0)
    return BrokerImage(
        record.broker_id,
        first.host,
        first.port,
        record.rack,
        record.broker_epoch,
        record.fenced,
        record.in_controlled_shutdown,
        record.incarnation_id,
        endpoints,
        tuple(record.log_dirs),
    )


# ---------------------------------------------------------------------- partitions


Extras = Mapping[str, Any]
"""Fields of a partition's record that only Apache Kafka uses, by name; images do not have them.

The recovery of a leader after an unclean election; this broker knows none.
"""
NO_EXTRAS: Final[Extras] = {}
_RECOVERY: Final = "leader_recovery_state"
_NONE, _UNCHANGED = 0, -1


def partition_record(
    topic_id: bytes, number: int, image: PartitionImage, extras: Extras = NO_EXTRAS
) -> kafka.PartitionRecord:
    """Return the record with the whole state of a partition."""
    record = kafka.PartitionRecord(
        partition_id=number,
        topic_id=topic_id,
        replicas=[*image.replicas],
        isr=[*image.isr],
        removing_replicas=[*image.removing],
        adding_replicas=[*image.adding],
        leader=image.leader,
        leader_epoch=image.leader_epoch,
        partition_epoch=image.partition_epoch,
        directories=[*image.directories],
        eligible_leader_replicas=[*image.elr] or None,
        last_known_elr=[*image.last_known_elr] or None,
    )
    for name, value in extras.items():
        setattr(record, name, value)
    return record


def partition_change(
    topic_id: bytes, number: int, before: PartitionImage, after: PartitionImage, extras: Extras = NO_EXTRAS
) -> MetadataRecord:
    """Return the change from one image of a partition to another, or the whole record if it needs one.

    A change increments the partition epoch, and the leader epoch exactly if it has a leader.
    """
    has_leader = after.leader_epoch != before.leader_epoch
    if (
        after.partition_epoch != before.partition_epoch + 1
        or after.leader_epoch != before.leader_epoch + has_leader
        or (after.leader != before.leader and not has_leader)
    ):
        return partition_record(topic_id, number, after)
    change = kafka.PartitionChangeRecord(partition_id=number, topic_id=topic_id)
    if after.isr != before.isr:
        change.isr = [*after.isr]
    if has_leader:
        change.leader = after.leader
    if after.replicas != before.replicas:
        change.replicas = [*after.replicas]
    if after.removing != before.removing:
        change.removing_replicas = [*after.removing]
    if after.adding != before.adding:
        change.adding_replicas = [*after.adding]
    if after.directories != before.directories_of(after.replicas):
        change.directories = [*after.directories]
    if after.elr != before.elr:
        change.eligible_leader_replicas = [*after.elr]
    if after.last_known_elr != before.last_known_elr:
        change.last_known_elr = [*after.last_known_elr]
    for name in extras:
        setattr(change, name, 0)
    return change


def partition_of(record: kafka.PartitionRecord) -> PartitionImage:
    replicas, isr, directories = tuple(record.replicas), tuple(record.isr), tuple(record.directories)
    adding, removing = tuple(record.adding_replicas), tuple(record.removing_replicas)
    epochs = record.leader_epoch, record.partition_epoch
    eligible = tuple(record.eligible_leader_replicas or ()), tuple(record.last_known_elr or ())
    return PartitionImage(replicas, isr, record.leader, *epochs, adding, removing, directories, *eligible)


def partition_after(before: PartitionImage, change: kafka.PartitionChangeRecord) -> PartitionImage:
    """Return the partition after a change, as Kafka's PartitionRegistration.merge."""
    replicas = before.replicas if change.replicas is None else tuple(change.replicas)
    has_leader = change.leader != NO_LEADER_CHANGE
    return PartitionImage(
        replicas,
        before.isr if change.isr is None else tuple(change.isr),
        change.leader if has_leader else before.leader,
        before.leader_epoch + has_leader,
        before.partition_epoch + 1,
        before.adding if change.adding_replicas is None else tuple(change.adding_replicas),
        before.removing if change.removing_replicas is None else tuple(change.removing_replicas),
        tuple(change.directories or ()) or before.directories_of(replicas),
        before.elr if change.eligible_leader_replicas is None else tuple(change.eligible_leader_replicas),
        before.last_known_elr if change.last_known_elr is None else tuple(change.last_known_elr),
    )


def extras_of(record: kafka.PartitionRecord) -> Extras:
    found = record.leader_recovery_state
    return NO_EXTRAS if found == _NONE else {_RECOVERY: found}


def extras_after(extras: Extras, change: kafka.PartitionChangeRecord) -> Extras:
    found = change.leader_recovery_state
    if found == _UNCHANGED:
        return extras
    return NO_EXTRAS if found == _NONE else {_RECOVERY: found}


# ---------------------------------------------------------------------- configuration


def config_changes(
    resource_type: int, name: str, before: Mapping[str, str], after: Mapping[str, str]
) -> list[MetadataRecord]:
    """Return the records that change all options of a resource to `after`."""
    changed = [(option, text) for option, text in after.items() if before.get(option) != text]
    removed = [(option, None) for option in before if option not in after]
    return [
        kafka.ConfigRecord(resource_type=resource_type, resource_name=name, name=option, value=value)
        for option, value in [*changed, *removed]
    ]


def quota_record(entity: QuotaEntity, key: str, value: float | None) -> kafka.ClientQuotaRecord:
    """Return the record that sets a quota of an entity, or removes it (None)."""
    return kafka.ClientQuotaRecord(
        entity=[kafka.EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
        key=key,
        value=value or 0.0,
        remove=value is None,
    )


def entity_in(record: kafka.ClientQuotaRecord) -> QuotaEntity:
    return tuple(sorted((one.entity_type, one.entity_name) for one in record.entity))


# ---------------------------------------------------------------------- security


_ACL_FIELDS: Final = [entry.name for entry in kafka.AccessControlEntryRecord._fields[1:]]
"""The fields after the id, in the order of those of `Acl`."""


def acl_record(acl_id: bytes, acl: Acl) -> kafka.AccessControlEntryRecord:
    return kafka.AccessControlEntryRecord(
        id=acl_id, **dict(zip(_ACL_FIELDS, attrs.astuple(acl), strict=True))
    )


def acl_of(record: kafka.AccessControlEntryRecord) -> Acl:
    return Acl(*(getattr(record, name) for name in _ACL_FIELDS))


def scram_records(user: str, credentials: Mapping[Any, ScramCredential]) -> list[MetadataRecord]:
    """Return the records that set credentials of a user, by mechanism."""
    return [
        kafka.UserScramCredentialRecord(
            name=user,
            mechanism=int(mechanism),
            salt=credential.salt,
            stored_key=credential.stored_key,
            server_key=credential.server_key,
            iterations=credential.iterations,
        )
        for mechanism, credential in credentials.items()
    ]


def token_of(
    record: kafka.DelegationTokenRecord, token_hmac: bytes, credentials: TokenCredentials
) -> DelegationToken:
    """Return the token in a record, which has neither its HMAC nor its credentials."""
    names = [record.owner, record.requester, *record.renewers]
    try:
        owner, requester, *renewers = map(principal_of, names)
    except ConfigurationError as error:
        raise CorruptData(f"delegation token {record.token_id}: {error}") from error
    times = record.issue_timestamp, record.max_timestamp, record.expiration_timestamp
    return DelegationToken(
        record.token_id, owner, requester, tuple(renewers), *times, token_hmac, credentials
    )
