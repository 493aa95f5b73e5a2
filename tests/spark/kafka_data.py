"""Records that tests of the source send, and ways to lose them."""

from __future__ import annotations

from collections.abc import Sequence

from confluent_kafka.admin import AdminClient, NewPartitions

from pykafka2 import KafkaProducer, TopicPartition
from pykafka2.testing import ClusterApi

AGES = {"retention.bytes": "1", "segment.bytes": "1048576"}
"""Configuration of a topic whose closed segments may go."""


def send(
    cluster: ClusterApi,
    topic: str,
    counts: Sequence[int],
    *,
    size: int = 10,
    first_ms: int | None = None,
    batch_bytes: int | None = None,
) -> None:
    """So many records into partitions 0, 1, ...; with `first_ms`, each a second after the one before."""
    more = {} if batch_bytes is None else {"bulk_batch_size": batch_bytes}
    with KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, **more) as producer:
        for partition, count in enumerate(counts):
            if count:
                values = [b"%0*d" % (size, number) for number in range(count)]
                times = None if first_ms is None else [first_ms + 1000 * number for number in range(count)]
                producer.send_many(topic, values, partitions=[partition] * count, timestamps_ms=times).result(
                    30
                )


def age_out(cluster: ClusterApi, topic: str, partition: int = 0) -> None:
    """Lose all that is there, of a topic made with `AGES`; what is sent afterwards stays."""
    one = TopicPartition(topic, partition)
    cluster.controls.roll_segments(one)
    send(cluster, topic, [0] * partition + [1])
    cluster.controls.apply_retention(one)


def add_partitions(cluster: ClusterApi, topic: str, total: int) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    for done in admin.create_partitions([NewPartitions(topic, total)]).values():
        done.result(10)


def groups(cluster: ClusterApi) -> list[str]:
    """Every group that the brokers know."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    return [one.group_id for one in admin.list_consumer_groups().result(10).valid]
