"""Produce to a Kafka cluster and read everything back.

Shows: a cluster of three brokers in this process, a producer with serializers and checked deliveries, and a
consumer that reads from the beginning to the end.  Pass the address of your own cluster to use it instead:

    python examples/produce_and_consume.py
    python examples/produce_and_consume.py localhost:9092
"""

from __future__ import annotations

import json
import sys

from pykafka2 import KafkaAdminClient, KafkaConsumer, KafkaProducer, NewTopic
from pykafka2.testing import KafkaCluster

TOPIC = "orders"
ORDERS = 1000


def produce(servers: str) -> None:
    """Send all orders; `flush` waits for them, and a delivery that failed raises its error."""
    with KafkaProducer(
        bootstrap_servers=servers,
        key_serializer=str.encode,
        value_serializer=lambda order: json.dumps(order).encode(),
    ) as producer:
        deliveries = [
            producer.send(TOPIC, key=f"customer-{number % 50}", value={"order": number})
            for number in range(ORDERS)
        ]
        producer.flush()
        last = deliveries[-1].result()
        print(f"sent {ORDERS} orders; the last one is in {last.topic}-{last.partition}, offset {last.offset}")


def consume(servers: str) -> list[int]:
    """Read the topic from its beginning; iteration ends when nothing came for two seconds."""
    with KafkaConsumer(
        TOPIC,
        bootstrap_servers=servers,
        auto_offset_reset="earliest",
        value_deserializer=json.loads,
        consumer_timeout_ms=2000,
    ) as consumer:
        return [record.value["order"] for record in consumer]


def run(servers: str) -> None:
    with KafkaAdminClient(bootstrap_servers=servers) as admin:
        if TOPIC not in admin.list_topics():
            admin.create_topics([NewTopic(TOPIC, partitions=6)])
            admin.wait_for_topics([TOPIC])
    produce(servers)
    orders = consume(servers)
    print(f"read {len(orders)} orders, {len(set(orders))} different ones")


def main(arguments: list[str]) -> None:
    if arguments:
        run(arguments[0])
        return
    with KafkaCluster(brokers=3) as cluster:
        run(cluster.bootstrap_servers)


if __name__ == "__main__":
    main(sys.argv[1:])
