"""The metadata of a cluster as admin clients describe it, to compare two clusters or two starts of one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pykafka2 import KafkaAdminClient, NewTopic
from pykafka2.admin import (
    AclBinding,
    ConfigResource,
    FeatureUpdate,
    NewPartitions,
    QuotaEntity,
    UpdateFeatureType,
)

AUTHORIZED = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}

LEFT_OUT = ("eligible.leader.replicas.version", "streams.version")
"""Features of Apache Kafka that the bundled brokers do not have."""

ALL_BROKERS = ConfigResource("BROKER", "")
GROUP = ConfigResource("GROUP", "readers")
METRICS = ConfigResource("CLIENT_METRICS", "sent")


def fill(admin: KafkaAdminClient, prefix: str, replicas: int = 2) -> None:
    """Make every kind of metadata: topics, options, ACLs, users, quotas, features."""
    one, two, gone = (f"{prefix}-{name}" for name in ("one", "two", "gone"))
    configs = {"retention.ms": "123456", "cleanup.policy": "compact,delete"}
    admin.create_topics(
        [NewTopic(one, 3, replicas, configs=configs), NewTopic(two, 2, replicas), NewTopic(gone, 1, replicas)]
    )
    admin.wait_for_topics([one, two, gone])
    admin.create_partitions({two: NewPartitions(4)})
    admin.delete_topics([gone])
    admin.alter_configs(
        {
            ConfigResource("TOPIC", two): {"max.message.bytes": "77777"},
            ConfigResource("TOPIC", one): {"retention.ms": "654321", "cleanup.policy": None},
            ALL_BROKERS: {"log.retention.ms": "1234567"},
            ConfigResource("BROKER", "1"): {"background.threads": "7"},
            GROUP: {"consumer.session.timeout.ms": "50000"},
            METRICS: {"interval.ms": "12000"},
        }
    )
    alice = AclBinding("TOPIC", prefix, "PREFIXED", "User:alice", "*", "READ", "ALLOW")
    bob = AclBinding("GROUP", "*", "LITERAL", "User:bob", "127.0.0.1", "ALL", "DENY")
    carol = AclBinding("CLUSTER", "kafka-cluster", "LITERAL", "User:carol", "*", "DESCRIBE", "ALLOW")
    admin.create_acls([alice, bob, carol])
    admin.delete_acls([carol])
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        admin.upsert_scram_user("alice", "alice-secret", mechanism=mechanism, iterations=4096)
        admin.upsert_scram_user("bob", "bob-secret", mechanism=mechanism, iterations=5000)
    admin.delete_scram_user("bob", mechanism="SCRAM-SHA-256")
    admin.alter_client_quotas(
        {
            QuotaEntity(user="alice"): {"producer_byte_rate": 1e6, "consumer_byte_rate": 2e6},
            QuotaEntity(user="alice", client_id=QuotaEntity.DEFAULT): {"request_percentage": 12.5},
            QuotaEntity(ip="127.0.0.9"): {"connection_creation_rate": 20.0},
        }
    )
    admin.alter_client_quotas({QuotaEntity(user="alice"): {"consumer_byte_rate": None}})
    downgrade = FeatureUpdate(1, UpdateFeatureType.SAFE_DOWNGRADE)
    admin.update_features({"transaction.version": downgrade})


def described(admin: KafkaAdminClient, brokers: Iterable[int] = (0, 1)) -> dict[str, Any]:
    """Return all metadata in comparable values; leaders and ISRs, which a restart moves, are left out."""
    cluster = admin.describe_cluster()
    topics = admin.describe_topics(admin.list_topics(include_internal=True))
    resources = [
        *(ConfigResource("TOPIC", name) for name in sorted(topics)),
        ALL_BROKERS,
        *(ConfigResource("BROKER", str(number)) for number in brokers),
        GROUP,
        METRICS,
    ]
    configs = admin.describe_configs(resources)
    features = admin.describe_features().finalized
    return {
        "cluster id": cluster.cluster_id,
        "topics": {
            name: (topic.topic_id, [(part.partition, part.replicas) for part in topic.partitions])
            for name, topic in sorted(topics.items())
        },
        "configs": {
            (resource.type.name, resource.name): {
                name: (entry.value, entry.source)
                for name, entry in sorted(configs[resource].items())
                if not entry.source.startswith(("DEFAULT", "STATIC"))
            }
            for resource in resources
        },
        "acls": admin.describe_acls(),
        "users": admin.describe_scram_users(),
        "quotas": sorted(
            (str(entity), sorted(values.items())) for entity, values in admin.describe_client_quotas().items()
        ),
        "features": {name: one for name, one in sorted(features.items()) if name not in LEFT_OUT},
    }
