"""The reference page has each metric of the clients."""

from __future__ import annotations

from collections import Counter

from pykafka2 import KafkaAdminClient, KafkaConsumer, KafkaProducer
from pykafka2.metric_table import ADMIN, CONSUMER_ALL, PRODUCER
from pykafka2.metrics import Definition
from tests.docs.metric_pages import DIFFERENT, LEFT_OUT
from tests.docs.option_pages import REFERENCE

PAGE = REFERENCE / "metrics.md"
NO_BROKER = "127.0.0.1:1"
ALL: list[Definition] = [*PRODUCER, *CONSUMER_ALL, *ADMIN]


def untagged(table: tuple[Definition, ...]) -> list[str]:
    return sorted(metric.name for metric in table if not metric.tags)


def test_a_producer_has_the_metrics_of_its_table_and_no_others() -> None:
    with KafkaProducer(bootstrap_servers=NO_BROKER) as producer:
        assert sorted(producer.metrics()) == untagged(PRODUCER)


def test_a_consumer_has_the_metrics_of_its_table_and_no_others() -> None:
    with KafkaConsumer(bootstrap_servers=NO_BROKER, group_id="g") as consumer:
        assert sorted(consumer.metrics()) == untagged(CONSUMER_ALL)


def test_an_admin_client_has_the_metrics_of_its_table_and_no_others() -> None:
    with KafkaAdminClient(bootstrap_servers=NO_BROKER) as admin:
        assert sorted(admin.metrics()) == untagged(ADMIN)


def test_metrics_without_tags_have_one_name_each_and_no_metric_is_declared_twice() -> None:
    for table in (PRODUCER, CONSUMER_ALL, ADMIN):
        assert len(set(untagged(table))) == len(untagged(table))
    places = Counter((metric.name, metric.group, metric.tags) for metric in ALL)
    assert max(places.values()) == 1


def test_each_metric_has_a_unit_that_fits_its_name_and_a_sentence() -> None:
    for metric in ALL:
        assert metric.description[0].isupper(), metric.name
        assert metric.description.endswith("."), metric.name
        if metric.name.endswith("-ns-total"):
            assert metric.unit == "nanoseconds", metric.name
        if "latency" in metric.name:
            assert metric.unit == "milliseconds", metric.name
        if "byte" in metric.name and not metric.name.endswith("-rate"):
            assert metric.unit == "bytes", metric.name


def test_page_has_each_metric_difference_and_omission() -> None:
    page = PAGE.read_text(encoding="utf-8")
    names = {metric.name for metric in ALL}
    different = {name for line in DIFFERENT for name in line.split()}
    left_out = {name for line in LEFT_OUT for name in line.split()}
    assert all(f"`{name}`" in page for name in names | left_out)
    assert different <= names
    assert not names & left_out
