"""`pykafka2.contrib.prometheus.ClusterCollector` beside Java's kafka-consumer-groups on one cluster."""

from __future__ import annotations

import pytest

pytest.importorskip("prometheus_client")

from pykafka2 import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from pykafka2.contrib.prometheus import ClusterCollector

from .bridge import Bridge
from .brokers import Cluster

pytestmark = pytest.mark.real_kafka


def lags_of_java(java: Bridge, servers: str, group: str) -> dict[tuple[str, str, str], str]:
    """Return the column LAG of `kafka-consumer-groups --describe` by group, topic and partition."""
    arguments = ["--bootstrap-server", servers, "--describe", "--group", group]
    (done,) = java("tool", [{"class": "consumer.group.ConsumerGroupCommand", "arguments": arguments}])
    assert done["status"] == 0, done["output"]
    rows = [line.split() for line in str(done["output"]).splitlines()]
    head = next(row for row in rows if row[:1] == ["GROUP"])
    return {
        (row[0], row[1], row[2]): row[head.index("LAG")]
        for row in rows
        if row[:1] == [group] and len(row) == len(head)
    }


def test_lags_of_two_groups_are_those_of_kafka_consumer_groups(cluster: Cluster, java: Bridge) -> None:
    servers, topics = (
        cluster.bootstrap_servers,
        [cluster.new_topic(partitions=3), cluster.new_topic(partitions=2)],
    )
    with KafkaProducer(bootstrap_servers=servers, transactional_id=f"{topics[0]}-id") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        for number in range(60):
            producer.send(
                topics[number % 2], b"x", partition=number % 3 if number % 2 == 0 else number % 4 // 2
            )
        producer.commit_transaction()
        producer.begin_transaction()  # stays open: both count its records
        producer.send(topics[0], b"x", partition=0).result()
        one, other = f"{topics[0]}-one", f"{topics[0]}-other"
        with (
            KafkaAdminClient(bootstrap_servers=servers) as admin,
            KafkaConsumer(
                *topics,
                bootstrap_servers=servers,
                group_id=one,
                auto_offset_reset="earliest",
                enable_auto_commit=False,
            ) as consumer,
        ):
            count = 0
            while count < 25:
                count += sum(map(len, consumer.poll(1000, max_records=5).values()))
            consumer.commit()
            admin.alter_group_offsets(
                other, {TopicPartition(topics[0], 1): 3, TopicPartition(topics[1], 0): 7}
            )
            java_lags = {**lags_of_java(java, servers, one), **lags_of_java(java, servers, other)}
            ours = {
                tuple(sample.labels[name] for name in ("consumergroup", "topic", "partition")): str(
                    int(sample.value)
                )
                for family in ClusterCollector(admin, groups=[one, other]).collect()
                if family.name == "kafka_consumergroup_lag"
                for sample in family.samples
            }
        producer.abort_transaction()
    with_offset = {key: lag for key, lag in java_lags.items() if lag != "-"}
    assert ours == with_offset
    assert {group for group, _, _ in ours} == {one, other}
    assert sum(map(int, ours.values())) > 0
