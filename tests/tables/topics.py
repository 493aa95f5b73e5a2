"""Topics for the tests of tables: plain, compacted, transactional and trimmed, each with two partitions."""

from __future__ import annotations

from pykafka2 import KafkaAdminClient, KafkaProducer, TopicPartition
from pykafka2.testing import KafkaCluster

NOW = 1_700_000_000_000
ORDERS = [TopicPartition("orders", 0), TopicPartition("orders", 1)]


def fill(cluster: KafkaCluster, topic: str = "orders", count: int = 100, partitions: int = 2) -> None:
    """Send records whose timestamps ascend over all partitions; record n is in partition n % partitions."""
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for partition in range(partitions):
            rows = range(partition, count, partitions)
            producer.send_many(
                topic,
                [b'{"id": %d}' % row for row in rows],
                keys=[b"k%d" % (row % 10) for row in rows],
                partition=partition,
                timestamps_ms=[NOW + row for row in rows],
            ).result(30)


def abort(cluster: KafkaCluster, topic: str = "orders") -> None:
    """Send an aborted and then a committed transaction to both partitions."""
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, transactional_id="tables") as producer:
        producer.init_transactions()
        for value in (b"aborted", b"committed"):
            producer.begin_transaction()
            for partition in (0, 1):
                for _ in range(5):
                    producer.send(topic, value, partition=partition, timestamp_ms=NOW)
            producer.flush()
            producer.abort_transaction() if value == b"aborted" else producer.commit_transaction()


def trim(cluster: KafkaCluster, offset: int, topic: str = "orders") -> None:
    """Delete the records before this offset of both partitions."""
    with KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
        admin.delete_records({TopicPartition(topic, number): offset for number in (0, 1)})
