"""docs/reference/producer-metrics.md has each metric of Apache Kafka's producer: here, or with a reason."""

from __future__ import annotations

import re
from pathlib import Path

from pykafka2 import KafkaProducer
from pykafka2.producer.inspection import texts

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "producer-metrics.md").read_text(encoding="utf-8")
# What `new KafkaProducer(...).metrics()` of Apache Kafka 4.3.1 has in the group producer-metrics.
APACHE = (ROOT / "tests" / "producer" / "apache-kafka-4.3.1-producer-metrics.txt").read_text().split()


def test_the_table_is_that_of_the_code() -> None:
    rows = dict(
        re.findall(r"^\| `([\w-]+)` \| (.+) \|$", PAGE.partition("## Not available")[0], re.MULTILINE)
    )
    assert rows == texts()


def test_a_producer_has_these_metrics_and_no_others() -> None:
    with KafkaProducer(bootstrap_servers="127.0.0.1:1") as producer:
        assert [*producer.metrics()] == [*texts()]


def test_every_metric_of_apache_kafka_is_here_or_has_a_reason() -> None:
    without = re.findall(r"`([\w-]+)`", PAGE.partition("## Not available")[2].partition("why |")[2])
    assert sorted([*texts(), *(name for name in without if "-" in name)]) == sorted(APACHE)
