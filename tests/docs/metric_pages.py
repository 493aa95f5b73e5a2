"""The pages of the site that list the clients' metrics, made from the tables of the code.

`python -m tests.docs.option_pages` writes them; test_producer_metrics.py compares names and meanings.
"""

from __future__ import annotations

from collections.abc import Mapping

from pykafka2.producer.inspection import GAUGES, MEASURED, RATES, texts
from tests.docs.definitions import check_entries, definition, linked, overview, section, table
from tests.docs.option_subjects import OPTION_PAGES

Subjects = Mapping[str, Mapping[str, tuple[str, str]]]
"""For each subject, the unit and what the value shows, by the name of the metric."""

PRODUCER_HEAD = """\
# Metrics of the producer

`producer.metrics()` returns a dict of plain numbers with the names of Apache Kafka 4.3.1's producer.

Totals, averages and maxima are counted since the producer was created; without a value they are `nan`.
Rates cover the last 30 to 60 seconds, as in Kafka's clients with their defaults; in the first 30 seconds
they are divided by 30 seconds. For another interval, take the difference of two readings of a total. Only
batches and requests are measured, so metrics cost nothing per record and are always on.
[Tuning](../guides/tuning.md#if-throughput-is-low) says which metric to look at when a producer is slow.

```python
import time

from pykafka2 import KafkaProducer
from pykafka2.testing import KafkaCluster

NAME = "record-send-total"

with KafkaCluster(brokers=1, topics=["orders"]) as cluster:
    servers = cluster.bootstrap_servers
    with KafkaProducer(bootstrap_servers=servers) as producer:
        before, began = producer.metrics()[NAME], time.monotonic()
        producer.send_many("orders", [b"value"] * 1000)
        producer.flush()
        sent = producer.metrics()[NAME] - before
        rate = sent / (time.monotonic() - began)
        assert rate > 0
```
"""

PRODUCER: Subjects = {
    "Records": {
        "record-send-rate": ("records per second", "The throughput that arrives in the log."),
        "record-send-total": ("records", ""),
        "record-error-rate": ("records per second", "Anything above 0 is data that did not arrive."),
        "record-error-total": ("records", ""),
        "record-retry-rate": (
            "records per second",
            "Above 0 if leaders move or brokers are overloaded; `explain()` names the error.",
        ),
        "record-retry-total": ("records", ""),
        "record-queue-time-avg": (
            "milliseconds",
            "Near [`linger_ms`](producer-options.md#linger_ms) if the producer keeps up; far above it if "
            "batches wait for a broker.",
        ),
        "record-queue-time-max": ("milliseconds", ""),
        "record-size-avg": ("bytes", ""),
    },
    "Batches": {
        "batch-size-avg": (
            "bytes",
            "Far below [`batch_size`](producer-options.md#batch_size), a longer "
            "[`linger_ms`](producer-options.md#linger_ms) saves requests.",
        ),
        "batch-size-max": ("bytes", ""),
        "compression-rate-avg": ("ratio", "1 without compression; the smaller, the better."),
        "batch-split-rate": (
            "batches per second",
            "Above 0, batches are larger than the topic's `max.message.bytes`.",
        ),
        "batch-split-total": ("batches", ""),
    },
    "Requests": {
        "request-latency-avg": (
            "milliseconds",
            "Network and broker, with the replicas that `acks` waits for.",
        ),
        "request-latency-max": ("milliseconds", ""),
        "requests-in-flight": ("requests", ""),
        "records-per-request-avg": ("records", ""),
        "produce-throttle-time-avg": (
            "milliseconds",
            "Above 0, a [quota](../guides/administration.md#quotas) limits the producer.",
        ),
        "produce-throttle-time-max": ("milliseconds", ""),
    },
    "Memory": {
        "buffer-available-bytes": ("bytes", "Near 0, the brokers are slower than the program."),
        "buffer-total-bytes": ("bytes", ""),
        "bufferpool-wait-ratio": (
            "seconds per second",
            "The share of the time that calls of `send()` are blocked; with several threads it can exceed 1.",
        ),
        "bufferpool-wait-time-ns-total": ("nanoseconds", ""),
        "buffer-exhausted-rate": ("calls per second", ""),
        "buffer-exhausted-total": ("calls", ""),
        "waiting-threads": ("calls", ""),
    },
    "Connections and metadata": {
        "connection-count": ("connections", "0 means that no broker can be reached."),
        "metadata-age": ("seconds", ""),
        "metadata-wait-time-ns-total": ("nanoseconds", ""),
    },
    "Flush and transactions": {
        "flush-time-ns-total": ("nanoseconds", ""),
        "txn-init-time-ns-total": ("nanoseconds", ""),
        "txn-begin-time-ns-total": ("nanoseconds", ""),
        "txn-send-offsets-time-ns-total": ("nanoseconds", ""),
        "txn-commit-time-ns-total": ("nanoseconds", ""),
        "txn-abort-time-ns-total": ("nanoseconds", ""),
    },
}

NOT_AVAILABLE: Mapping[str, str] = {
    "connection-close-rate connection-creation-rate failed-authentication-rate failed-reauthentication-rate "
    "incoming-byte-rate io-ratio io-wait-ratio network-io-rate outgoing-byte-rate request-rate response-rate "
    "select-rate successful-authentication-rate successful-reauthentication-rate": (
        "rates and shares of the network, which is not counted (below), and of authentications"
    ),
    "failed-authentication-total failed-reauthentication-total reauthentication-latency-avg "
    "reauthentication-latency-max successful-authentication-no-reauth-total successful-authentication-total "
    "successful-reauthentication-total": (
        "re-authentications and authentications are not counted; see `events` and the log"
    ),
    "txn-prepare-time-ns-total": "there is no two-phase commit",
    "record-size-max": "needs work for each record",
    "connection-close-total connection-creation-total incoming-byte-total io-time-ns-avg io-time-ns-total "
    "io-wait-time-ns-avg io-wait-time-ns-total network-io-total outgoing-byte-total request-size-avg "
    "request-size-max request-total response-total select-total": (
        "the network is not counted: what a cluster for tests received is in its history"
    ),
}
"""Metrics of Apache Kafka's producer that this one does not have, and why."""

CONSUMER_HEAD = """\
# Metrics of the consumer and the admin client

`consumer.metrics()` and `admin.metrics()` return a dict of plain numbers. Totals, averages and maxima are
counted since the client was created. Only batches and requests are measured, so metrics cost nothing per
record and are always on. Their names can change until version 1.0.
[Tuning](../guides/tuning.md#if-throughput-is-low) says which metric to look at when a consumer is slow.

```python
from pykafka2 import KafkaConsumer, KafkaProducer
from pykafka2.testing import KafkaCluster

with KafkaCluster(brokers=1, topics=["orders"]) as cluster:
    options = {"bootstrap_servers": cluster.bootstrap_servers}
    with KafkaProducer(options) as producer:
        producer.send_many("orders", [b"value"] * 1000)
    options["auto_offset_reset"] = "earliest"
    with KafkaConsumer("orders", **options) as consumer:
        while not consumer.poll(timeout_ms=1000):
            pass
        assert consumer.metrics()["records-lag-max"] == 500
```
"""

CONSUMER: Subjects = {
    "Consumer": {
        "records-lag-max": (
            "records",
            "The records between the position and the end of the log, of the partition that is farthest "
            "behind. If it grows, the consumer is slower than the producers.",
        ),
        "bytes-consumed-total": (
            "bytes",
            "The bytes returned to the program. Divided by `fetch-total` it is the size of a response; if "
            "that is small, raise [`fetch_min_bytes`](consumer-options.md#fetch_min_bytes).",
        ),
        "fetch-total": ("requests", "The fetch requests that brokers responded to."),
        "fetch-throttle-time-avg": (
            "milliseconds",
            "The throttling by brokers per fetch request. Above 0, a "
            "[quota](../guides/administration.md#quotas) limits the consumer.",
        ),
        "fetch-throttle-time-max": ("milliseconds", "The longest throttling of one fetch request."),
        "bad-records-total": (
            "records",
            "The records that [`on_bad_record`](consumer-options.md#on_bad_record) skipped.",
        ),
        "assigned-partitions": (
            "partitions",
            "0 in a group means that it rebalances, or that it has more members than partitions.",
        ),
        "buffered-bytes": (
            "bytes",
            "The bytes that were fetched and not returned yet; limited by "
            "[`queued_max_bytes`](consumer-options.md#queued_max_bytes).",
        ),
    },
}

ADMIN: Subjects = {
    "Admin client": {
        "calls-in-progress": ("calls", "The calls that wait for brokers; `health()` names them."),
        "connection-count": ("connections", "The open connections; 0 means that no broker can be reached."),
        "metadata-age": (
            "seconds",
            "The time since the last refresh of the metadata; -1 before the first one.",
        ),
    },
}

BOTH: Subjects = {
    "Consumer and admin client": {
        "metadata-version": ("number", "The number of refreshes of the metadata."),
    },
}


def producer_metrics_page() -> str:
    """Return the text of the page. Raises SystemExit for metrics without an entry."""
    meanings = texts()
    check_entries("metric_pages.py", meanings, [name for names in PRODUCER.values() for name in names])
    parts = [PRODUCER_HEAD, overview(PRODUCER) + "\n"]
    for title, metrics in PRODUCER.items():
        parts.append(section(title, *(_definition(name, *metrics[name], meanings[name]) for name in metrics)))
    rows = [(", ".join(f"`{name}`" for name in names.split()), why) for names, why in NOT_AVAILABLE.items()]
    return "\n".join([*parts, section("Not available", table(("Metric of Apache Kafka", "Why"), rows))])


def _definition(name: str, unit: str, advice: str, meaning: str) -> str:
    kind = (
        "rate, 30 to 60 seconds"
        if name in RATES
        else "current value"
        if name in GAUGES
        else {"avg": "average", "max": "maximum"}[name.rpartition("-")[2]]
        if name.rpartition("-")[0] in MEASURED
        else "total"
    )
    sentence = linked(f"{meaning[0].upper()}{meaning[1:]}.", (), "", OPTION_PAGES)
    return definition(name, (("Unit", unit), ("Kind", kind)), f"{sentence} {advice}".strip())


def consumer_metrics_page() -> str:
    """Return the text of the page."""
    parts = [CONSUMER_HEAD]
    for title, metrics in {**CONSUMER, **ADMIN, **BOTH}.items():
        made = (definition(name, (("Unit", unit),), text) for name, (unit, text) in metrics.items())
        parts.append(section(title, *made))
    return "\n".join(parts)
