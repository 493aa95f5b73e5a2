"""The server of Apache Kafka 3.9.1, for tests of what brokers before 4.0 do otherwise."""

from __future__ import annotations

import pytest

from pykafka2 import KafkaAdminClient, NewTopic

from .maven import KafkaUnavailable, oldest_server_jars, skip_or_fail
from .real_kafka import RealKafka

pytestmark = [pytest.mark.real_kafka, pytest.mark.long]


def test_server_3_9_1_replicates_a_topic_over_three_brokers() -> None:
    try:
        jars = oldest_server_jars()
    except KafkaUnavailable as problem:
        skip_or_fail(str(problem))
    assert jars.clients_jar().name == "kafka-clients-3.9.1.jar"
    with (
        RealKafka(jars, brokers=3) as kafka,
        KafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers) as admin,
    ):
        admin.create_topics([NewTopic("orders", partitions=2, replication_factor=3)])
        admin.wait_for_topics(["orders"])
        replicas = [one.replicas for one in admin.describe_topics(["orders"])["orders"].partitions]
    assert [len(one) for one in replicas] == [3, 3]
