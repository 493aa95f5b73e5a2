"""The page of the site that lists the clients' metrics, made from pykafka2/metric_table.py.

`python -m tests.docs.option_pages` writes it; test_metric_pages.py compares it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pykafka2 import metric_table
from pykafka2.metrics import Definition
from tests.docs.definitions import linked, section, table
from tests.docs.option_subjects import OPTION_PAGES

HEAD = """\
# Metrics of the clients

Producers, consumers and admin clients, sync and asyncio, count what they do under Apache Kafka's names. Only
batches and requests are measured, never single records, so metrics are always on. Reading them sends
nothing, and any thread can do it.

- `client.metric_rows()` returns a list of [`Metric`](records.md#pykafka2.Metric): `name`, `group`, `value`,
  `kind`, `unit`, `tags` and `description`. There is a row for each broker, topic or partition where the
  table names such a tag.
- `client.metrics()` returns the metrics without such tags as a dict of numbers by name.

```python
from pykafka2 import KafkaConsumer, KafkaProducer
from pykafka2.testing import KafkaCluster

with KafkaCluster(brokers=1, topics=["orders"]) as cluster:
    options = {"bootstrap_servers": cluster.bootstrap_servers}
    with KafkaProducer(options) as producer:
        producer.send_many("orders", [b"value"] * 1000)
        producer.flush()
        assert producer.metrics()["record-send-total"] == 1000
    options["auto_offset_reset"] = "earliest"
    with KafkaConsumer("orders", **options) as consumer:
        while not consumer.poll(timeout_ms=1000):
            pass
        for row in consumer.metric_rows():
            if row.name == "records-lag":
                assert row.tags["topic"] == "orders"
                assert row.value == 500
```

| Kind | Value |
|---|---|
| `counter` | A total since the client was created. |
| `gauge` | The current value. |
| `rate` | The increase per second over the last 30 to 60 seconds, as in Kafka with its defaults. |
| `average`, `maximum`, `minimum` | Of the last 30 to 60 seconds; `nan` if nothing was measured. |

In the first 30 seconds a rate is divided by the time since the start plus 30 seconds, as in Kafka. For the
rate of another interval, take the difference of two readings of the counter.

Every row has the tag `client-id`. The tag `node-id` is `node-0` for broker 0, `node-+0` for the connection to
broker 0 as a coordinator, and `node--1` for the first bootstrap address. A topic appears with its first
record, a partition when it is assigned. The rows of a partition end with its assignment; those of a topic or
broker stay until the client is closed, as in Java, and take about 3 KB for each topic.
[Tuning](../guides/tuning.md#if-throughput-is-low) lists the metrics to look at when a client is slow.
"""

CLIENTS = {
    "producer": metric_table.PRODUCER,
    "consumer": metric_table.CONSUMER_ALL,
    "share consumer": metric_table.SHARE_CONSUMER,
    "admin client": metric_table.ADMIN,
}
NETWORK = ("producer", "consumer", "admin-client")

_QUEUES = (
    "application-event-queue-processing-time-avg application-event-queue-processing-time-max "
    "application-event-queue-size application-event-queue-time-avg application-event-queue-time-max "
    "application-events-expired-count background-event-queue-processing-time-avg "
    "background-event-queue-processing-time-max background-event-queue-size background-event-queue-time-avg "
    "background-event-queue-time-max time-between-network-thread-poll-avg "
    "time-between-network-thread-poll-max unsent-requests-queue-size unsent-requests-queue-time-avg "
    "unsent-requests-queue-time-max"
)

LEFT_OUT: Mapping[str, str] = {
    "commit-id start-time-ms version": "app-info describes the program, not its work",
    "count": "the number of Java's metrics",
    "record-size-max": "needs work for each record",
    "txn-prepare-time-ns-total": "there is no two-phase commit",
    _QUEUES: "queues between the two threads of Java's consumer, which have no counterpart",
}
"""Metrics of Apache Kafka's clients that the clients here do not have, and why."""

DIFFERENT: Mapping[str, str] = {
    "record-send-rate record-send-total": (
        "Counts records that were written; Kafka counts each attempt to send."
    ),
    "record-size-avg": "Without the overhead of batches; Kafka adds that of one batch to each record.",
    "records-lag-max records-lead-min": (
        "Without a partition: the extreme of the current values; Kafka's covers 30 to 60 seconds."
    ),
    "bytes-consumed-rate bytes-consumed-total fetch-size-avg fetch-size-max": (
        "Bytes of batches as fetched, with their headers and compressed; Kafka counts uncompressed records."
    ),
    "records-consumed-rate records-consumed-total": (
        "Counts records as poll() returns them; Kafka counts them when all data of their fetch was returned."
    ),
    "records-lag-avg records-lag-max records-lead-avg records-lead-min": (
        "Measured at most ten times a second for each partition; Kafka measures after each poll()."
    ),
    "poll-idle-ratio-avg": (
        "All time in poll() divided by all time; Kafka averages the ratios of single calls."
    ),
    "connection-creation-total connection-close-total": (
        "Connections by TCP and TLS, also those that SASL rejects."
    ),
}
"""Metrics whose values differ from those of Apache Kafka's clients after the same work, and how."""


def metrics_page() -> str:
    """Return the text of the page."""
    parts = [HEAD]
    for client, definitions in CLIENTS.items():
        own = [metric for metric in definitions if not _is_of_network(metric)]
        groups = dict.fromkeys((metric.group, metric.tags) for metric in own)
        parts += [_group(client, own, group, tags) for group, tags in groups]
    of_network = [metric for metric in metric_table.ADMIN if _is_of_network(metric)]
    parts.append(
        section(
            "Connections and requests of all clients",
            "The groups are `producer-metrics`, `consumer-metrics` and `admin-client-metrics`.\n",
            _table(metric for metric in of_network if not metric.tags),
            "By broker, with the tag `node-id`, in `producer-node-metrics`, `consumer-node-metrics` and "
            "`admin-client-node-metrics`. `request-latency` is that of Produce requests in a producer, and "
            "of Fetch requests in a consumer.\n",
            _table(metric for metric in of_network if metric.tags),
        )
    )
    rows = [(_names(names), f"{why}." if why else "") for names, why in LEFT_OUT.items()]
    differences = [(_names(names), text) for names, text in DIFFERENT.items()]
    parts.append(section("Differences", table(("Metric", "Difference from Apache Kafka"), differences)))
    parts.append(section("Not available", table(("Metric of Apache Kafka", "Why"), rows)))
    return "\n".join(parts)


def _is_of_network(metric: Definition) -> bool:
    prefix = metric.group.removesuffix("-metrics").removesuffix("-node")
    return prefix in NETWORK and metric in metric_table.network(prefix)


def _group(client: str, definitions: list[Definition], group: str, tags: tuple[str, ...]) -> str:
    names = " and ".join(f"`{tag}`" for tag in tags)
    return section(
        f"`{group}`{f' by {names}' if names else ''}",
        f"Of the {client}.\n",
        _table(metric for metric in definitions if (metric.group, metric.tags) == (group, tags)),
    )


def _table(definitions: Iterable[Definition]) -> str:
    rows = [
        (
            f"`{metric.name}`",
            metric.kind.value,
            metric.unit,
            linked(metric.description, (), "", OPTION_PAGES) + ("" if metric.is_kafka else " Not in Kafka."),
        )
        for metric in definitions
    ]
    return table(("Metric", "Kind", "Unit", "Description"), rows)


def _names(names: str) -> str:
    return ", ".join(f"`{name}`" for name in names.split())
