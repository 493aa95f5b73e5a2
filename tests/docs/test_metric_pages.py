"""The reference pages have each metric of the clients, and each of Apache Kafka's producer or the reason."""

from __future__ import annotations

from pathlib import Path

from pykafka2 import KafkaAdminClient, KafkaConsumer, KafkaProducer
from pykafka2.producer.inspection import texts
from tests.docs.metric_pages import ADMIN, BOTH, CONSUMER, NOT_AVAILABLE, Subjects

ROOT = Path(__file__).parents[2]
# What `new KafkaProducer(...).metrics()` of Apache Kafka 4.3.1 has in the group producer-metrics.
APACHE = (ROOT / "tests" / "producer" / "apache-kafka-4.3.1-producer-metrics.txt").read_text().split()
NO_BROKER = "127.0.0.1:1"


def names(*subjects: Subjects) -> list[str]:
    return sorted(name for one in subjects for metrics in one.values() for name in metrics)


def test_a_producer_has_these_metrics_and_no_others() -> None:
    with KafkaProducer(bootstrap_servers=NO_BROKER) as producer:
        assert [*producer.metrics()] == [*texts()]


def test_a_consumer_has_these_metrics_and_no_others() -> None:
    with KafkaConsumer(bootstrap_servers=NO_BROKER) as consumer:
        assert sorted(consumer.metrics()) == names(CONSUMER, BOTH)


def test_an_admin_client_has_these_metrics_and_no_others() -> None:
    with KafkaAdminClient(bootstrap_servers=NO_BROKER) as admin:
        assert sorted(admin.metrics()) == names(ADMIN, BOTH)


def test_every_metric_of_apache_kafka_is_here_or_has_a_reason() -> None:
    without = [name for names_of in NOT_AVAILABLE for name in names_of.split()]
    assert sorted([*texts(), *without]) == sorted(APACHE)
