"""Conversion of Kafka's metadata to the controller's records (records.py), which restore its state.

Sans-IO. What this broker does not implement (other features, registered controllers, eligible leader
replicas) stays in the `MetadataImage` alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from pykafka2.broker.base.features import IMPLEMENTED, METADATA_VERSION, Levels
from pykafka2.broker.base.image import (
    INTERNAL_TOPICS,
    TOPIC_RESOURCE,
    UNASSIGNED,
    BrokerImage,
    Endpoint,
    PartitionImage,
)
from pykafka2.broker.controller.metadata.image import MetadataImage
from pykafka2.broker.controller.metadata.records import (
    AclCreated,
    BrokerSet,
    ClientQuotaSet,
    ConfigsSet,
    DelegationTokenSet,
    FeatureSet,
    PartitionSet,
    ProducerIdsAllocated,
    Record,
    ScramUserSet,
    TopicCreated,
)
from pykafka2.broker.controller.metadata.to_metadata import acl_of
from pykafka2.broker.security.delegation_tokens import DelegationToken, TokenCredentials, hmac_of
from pykafka2.broker.security.principal import principal_of
from pykafka2.broker.security.scram import KINDS, SALT_BYTES, ScramCredential, ScramMechanism
from pykafka2.clock import Entropy
from pykafka2.errors import ConfigurationError, CorruptData
from pykafka2.protocol.messages.metadata_records import (
    DelegationTokenRecord,
    PartitionRecord,
    RegisterBrokerRecord,
)

_SCRAM: Final = frozenset(KINDS.values())


def records_of(
    image: MetadataImage,
    secret_key: str | None,
    entropy: Entropy,
    features: Mapping[str, Levels] = IMPLEMENTED,
) -> Iterator[Record]:
    """Iterate over the records that produce the controller's state.

    `secret_key` is delegation.token.secret.key; without it tokens are not usable, as in Kafka. Raise
    `CorruptData` for metadata that no controller can have written, or of a later release.
    """
    check_features(image, features)
    for name, level in image.features.items():
        if name in features:
            yield FeatureSet(name, level)
    for broker in image.brokers.values():
        yield BrokerSet(_broker(broker))
    for (kind, name), configs in image.configs.items():
        if kind != TOPIC_RESOURCE:
            yield ConfigsSet(kind, name, dict(configs))
    for topic_id, name in image.topics.items():
        yield from _topic(image, topic_id, name)
    for entity, quotas in image.quotas.items():
        for key, value in quotas.items():
            yield ClientQuotaSet(entity, key, value)
    if image.producer_ids is not None:
        yield ProducerIdsAllocated(image.producer_ids.next_producer_id)
    for acl_id, acl in image.acls.items():
        yield AclCreated(acl_id, acl_of(acl))
    yield from _users(image)
    if secret_key:
        for token in image.tokens.values():
            yield DelegationTokenSet(_token(token, secret_key, entropy))


def check_features(image: MetadataImage, features: Mapping[str, Levels] = IMPLEMENTED) -> None:
    """Raise `CorruptData` for a level of a feature that this release does not implement."""
    for name, level in image.features.items():
        known = features.get(name)
        if known is not None and not known.lowest <= level <= known.highest:
            what = "version" if name == METADATA_VERSION else "level"
            raise CorruptData(
                f"{name} is {level}, and this release supports {what}s {known.lowest} to {known.highest}"
            )


def _broker(record: RegisterBrokerRecord) -> BrokerImage:
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


def _topic(image: MetadataImage, topic_id: bytes, name: str) -> Iterator[Record]:
    configs = image.configs.get((TOPIC_RESOURCE, name), {})
    yield TopicCreated(name, topic_id, dict(configs), name in INTERNAL_TOPICS)
    partitions = image.partitions[topic_id]
    if sorted(partitions) != [*range(len(partitions))]:
        raise CorruptData(f"topic {name!r} has the partitions {sorted(partitions)}")
    for number in range(len(partitions)):
        yield PartitionSet(name, number, _partition(partitions[number]))


def _partition(record: PartitionRecord) -> PartitionImage:
    return PartitionImage(
        tuple(record.replicas),
        tuple(record.isr),
        record.leader,
        record.leader_epoch,
        record.partition_epoch,
        tuple(record.adding_replicas),
        tuple(record.removing_replicas),
        tuple(
            (replica, directory)
            for replica, directory in zip(record.replicas, record.directories, strict=False)
            if directory != UNASSIGNED
        ),
    )


def _users(image: MetadataImage) -> Iterator[Record]:
    users: dict[str, dict[ScramMechanism, ScramCredential]] = {}
    for (user, mechanism), record in image.users.items():
        if mechanism not in _SCRAM:
            raise CorruptData(f"user {user!r} has a credential of the unknown SCRAM mechanism {mechanism}")
        users.setdefault(user, {})[ScramMechanism(mechanism)] = ScramCredential(
            bytes(record.salt), bytes(record.stored_key), bytes(record.server_key), record.iterations
        )
    for user, credentials in users.items():
        yield ScramUserSet(user, credentials)


def _token(record: DelegationTokenRecord, secret_key: str, entropy: Entropy) -> DelegationToken:
    """Return the token; its HMAC follows from the key, and its credentials get new salts."""
    made = hmac_of(secret_key, record.token_id)
    salts = {kind: entropy.token_bytes(SALT_BYTES) for kind in KINDS.values()}
    try:
        return DelegationToken(
            record.token_id,
            principal_of(record.owner),
            principal_of(record.requester),
            tuple(principal_of(renewer) for renewer in record.renewers),
            record.issue_timestamp,
            record.max_timestamp,
            record.expiration_timestamp,
            made,
            TokenCredentials(made, salts),
        )
    except ConfigurationError as error:
        raise CorruptData(f"delegation token {record.token_id}: {error}") from error
