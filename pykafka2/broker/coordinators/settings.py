"""Settings of the coordinators: Kafka's broker options, durations in seconds.

The functions at the end read them from the broker's configuration.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from hashlib import blake2b
from typing import TYPE_CHECKING, Protocol

import attrs

if TYPE_CHECKING:
    from pykafka2.broker.config.configs import BrokerConfig


class MigrationPolicy(Enum):
    """group.consumer.migration.policy: the directions in which groups with members can be migrated."""

    DISABLED = "disabled"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    BIDIRECTIONAL = "bidirectional"


@attrs.define(frozen=True, kw_only=True)
class GroupSettings:
    """Options of the group coordinator; the comment is Kafka's name."""

    min_session_timeout: float = 6.0  # group.min.session.timeout.ms
    max_session_timeout: float = 1800.0  # group.max.session.timeout.ms
    initial_rebalance_delay: float = 3.0  # group.initial.rebalance.delay.ms
    max_size: int = 2**31 - 1  # group.max.size
    new_member_join_timeout: float = 300.0  # not an option in Kafka either
    offset_metadata_max_bytes: int = 4096  # offset.metadata.max.bytes
    offsets_retention: float = 7 * 86400.0  # offsets.retention.minutes
    offsets_retention_check_interval: float = 600.0  # offsets.retention.check.interval.ms
    commit_timeout: float = 5.0  # offsets.commit.timeout.ms
    consumer_session_timeout: float = 45.0  # group.consumer.session.timeout.ms
    consumer_heartbeat_interval: float = 5.0  # group.consumer.heartbeat.interval.ms
    consumer_max_size: int = 2**31 - 1  # group.consumer.max.size
    consumer_assignors: tuple[str, ...] = ("uniform", "range")  # group.consumer.assignors
    consumer_assignment_interval: float = 1.0  # group.consumer.assignment.interval.ms
    migration_policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL  # group.consumer.migration.policy
    share_session_timeout: float = 45.0  # group.share.session.timeout.ms
    share_heartbeat_interval: float = 5.0  # group.share.heartbeat.interval.ms
    share_max_size: int = 200  # group.share.max.size
    share_assignment_interval: float = 1.0  # group.share.assignment.interval.ms
    share_initialize_retry: float = 30.0  # group.share.initialize.retry.interval.ms, internal in Kafka
    is_before_4_0: bool = False
    """Whether groups are described as by the group coordinator of older releases."""
    is_before_4_4: bool = False
    """Whether KIP-848 groups without members have the assignment epoch, joins the errors, and offsets of
    transactions no topic id, as in 4.3."""


@attrs.define(frozen=True, kw_only=True)
class TransactionSettings:
    """Options of the transaction coordinator; the comment is Kafka's name."""

    max_timeout: float = 900.0  # transaction.max.timeout.ms
    expiration: float = 7 * 86400.0  # transactional.id.expiration.ms
    abort_check_interval: float = 10.0  # transaction.abort.timed.out.transaction.cleanup.interval.ms
    expiration_check_interval: float = 3600.0  # transaction.remove.expired.transaction.cleanup.interval.ms
    append_timeout: float = 5.0
    transaction_version: int = 2  # the finalized feature transaction.version


@attrs.define(frozen=True, kw_only=True)
class ShareSettings:
    """Options of the share coordinator; the comment is Kafka's name. The last two are internal in Kafka."""

    write_timeout: float = 5.0  # share.coordinator.write.timeout.ms
    updates_per_snapshot: int = 500  # share.coordinator.snapshot.update.records.per.snapshot
    prune_interval: float = 300.0  # share.coordinator.state.topic.prune.interval.ms
    cold_snapshot_interval: float = 300.0  # share.coordinator.cold.partition.snapshot.interval.ms


GroupConfigs = Callable[[str], Mapping[str, str]]
"""Callback: the options of a group by Kafka's names, such as consumer.session.timeout.ms; usually empty."""


def no_group_configs(group_id: str) -> Mapping[str, str]:
    return {}


def seconds_of(configs: Mapping[str, str], name: str, default: float) -> float:
    """Return a group's own duration, or the broker's."""
    text = configs.get(name)
    return default if text is None else int(text) / 1000.0


def group_settings(
    config: BrokerConfig, *, is_before_4_0: bool = False, is_before_4_4: bool = False
) -> GroupSettings:
    return GroupSettings(
        is_before_4_0=is_before_4_0,
        is_before_4_4=is_before_4_4,
        min_session_timeout=config.seconds("group.min.session.timeout.ms"),
        max_session_timeout=config.seconds("group.max.session.timeout.ms"),
        initial_rebalance_delay=config.seconds("group.initial.rebalance.delay.ms"),
        max_size=config.int("group.max.size"),
        offset_metadata_max_bytes=config.int("offset.metadata.max.bytes"),
        offsets_retention=config.int("offsets.retention.minutes") * 60.0,
        offsets_retention_check_interval=config.seconds("offsets.retention.check.interval.ms"),
        commit_timeout=config.seconds("offsets.commit.timeout.ms"),
        consumer_session_timeout=config.seconds("group.consumer.session.timeout.ms"),
        consumer_heartbeat_interval=config.seconds("group.consumer.heartbeat.interval.ms"),
        consumer_max_size=config.int("group.consumer.max.size"),
        consumer_assignors=config.get("group.consumer.assignors"),
        consumer_assignment_interval=config.seconds("group.consumer.assignment.interval.ms"),
        migration_policy=MigrationPolicy(config.get("group.consumer.migration.policy")),
        share_session_timeout=config.seconds("group.share.session.timeout.ms"),
        share_heartbeat_interval=config.seconds("group.share.heartbeat.interval.ms"),
        share_max_size=config.int("group.share.max.size"),
        share_assignment_interval=config.seconds("group.share.assignment.interval.ms"),
    )


def transaction_settings(config: BrokerConfig, transaction_version: int) -> TransactionSettings:
    return TransactionSettings(
        max_timeout=config.seconds("transaction.max.timeout.ms"),
        expiration=config.seconds("transactional.id.expiration.ms"),
        abort_check_interval=config.seconds("transaction.abort.timed.out.transaction.cleanup.interval.ms"),
        expiration_check_interval=config.seconds(
            "transaction.remove.expired.transaction.cleanup.interval.ms"
        ),
        transaction_version=transaction_version,
    )


def share_settings(config: BrokerConfig) -> ShareSettings:
    return ShareSettings(
        write_timeout=config.seconds("share.coordinator.write.timeout.ms"),
        updates_per_snapshot=config.int("share.coordinator.snapshot.update.records.per.snapshot"),
    )


class Topics(Protocol):
    """The cluster's topics, as a coordinator sees them: an immutable image."""

    def id_of(self, name: str) -> bytes | None: ...

    def name_of(self, topic_id: bytes) -> str | None: ...

    def partition_count(self, name: str) -> int:
        """Return the number of partitions, 0 for a missing topic."""
        ...

    def names(self) -> Iterable[str]: ...


def hash_of_topics(topics: Topics, names: Iterable[str]) -> int:
    """Return a hash that changes with the ids and partitions of these topics, 0 for no names."""
    ordered = sorted(names)
    if not ordered:
        return 0
    digest = blake2b(digest_size=8)
    for name in ordered:
        topic_id = topics.id_of(name)
        if topic_id is not None:
            digest.update(topic_id + b"%d" % topics.partition_count(name))
    return int.from_bytes(digest.digest(), "big", signed=True)


class TopicTable:
    """Topics from a mapping of names to (id, number of partitions)."""

    def __init__(self, topics: Mapping[str, tuple[bytes, int]]) -> None:
        self._topics = dict(topics)
        self._names = {topic_id: name for name, (topic_id, _) in self._topics.items()}

    def id_of(self, name: str) -> bytes | None:
        found = self._topics.get(name)
        return None if found is None else found[0]

    def name_of(self, topic_id: bytes) -> str | None:
        return self._names.get(topic_id)

    def partition_count(self, name: str) -> int:
        found = self._topics.get(name)
        return 0 if found is None else found[1]

    def names(self) -> Iterable[str]:
        return self._topics


NO_TOPICS = TopicTable({})
