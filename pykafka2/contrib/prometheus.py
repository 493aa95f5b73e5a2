"""Metrics for Prometheus: those of clients in this process, and the lag of consumer groups.

    from prometheus_client import REGISTRY
    from pykafka2.contrib.prometheus import ClientCollector

    collector = ClientCollector(producer, consumer)
    REGISTRY.register(collector)

`ClientCollector` names metrics as Micrometer does: `records-lag` of `consumer-fetch-manager-metrics` is
`kafka_consumer_fetch_manager_records_lag{client_id,topic,partition}`. `ClusterCollector` has the names and
labels of kafka_exporter, such as `kafka_consumergroup_lag{consumergroup,topic,partition}`.

Needs the extra `prometheus`, which installs prometheus_client.
"""

from __future__ import annotations

import logging
import math
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Protocol

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from pykafka2.admin import KafkaAdminClient, TopicDescription
from pykafka2.admin.offsets import isolation_number
from pykafka2.clock import SystemClock
from pykafka2.errors import ClientClosed, KafkaError
from pykafka2.metric_table import ADMIN, CONSUMER_ALL, NANOSECONDS, NS_PER_S, PRODUCER, SHARE_CONSUMER
from pykafka2.metrics import Definition, distinct_name
from pykafka2.types import ClientHealth, Metric, MetricKind, TopicPartition

logger = logging.getLogger("pykafka2.prometheus")

DESCRIBED_GROUPS = ("Classic", "Consumer", "")
"""Types of groups that have lag and members; "" is the type at brokers before Kafka 3.8."""


class Client(Protocol):
    """Any producer, consumer or admin client, also those for asyncio."""

    def metric_rows(self) -> list[Metric]: ...

    def health(self) -> ClientHealth: ...


# ---------------------------------------------------------------------------------------------------
# Clients in this process
# ---------------------------------------------------------------------------------------------------


class ClientCollector(Collector):
    """A collector of prometheus_client for any number of clients. Thread-safe; a scrape sends nothing.

    - Counters end with `_total`. Rates, averages and extremes are gauges over the last 30 to 60 seconds, and
      are missing while nothing was measured.
    - Values have Kafka's units, which the help texts name. Only nanoseconds become seconds, and
      `io-time-ns-total` becomes `io_time_seconds_total`; `connection-count` becomes `connections`.
    - A metric that Kafka has for the client, its topics and its partitions is exported for the last of these
      alone, so that sum() counts nothing twice.
    - Of several clients of one kind with the same client_id, the second has `client_id="NAME#2"`.
    - A client that was closed, that nothing else refers to, or that was created before a fork, is dropped at
      the next scrape.

    Args:
        clients: producers, consumers and admin clients; `add` adds more.
    """

    def __init__(self, *clients: Client) -> None:
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._clients: dict[str, weakref.ref[Client]] = {}
        for client in clients:
            self.add(client)

    def add(self, client: Client) -> None:
        """Add a client; one that was added before is not added again. Any thread."""
        kind, client_id = _identity(client)
        with self._lock:
            self._drop_closed()
            if any(known() is client for known in self._clients.values()):
                return
            name = distinct_name(client_id, lambda name: f"{kind} {name}" in self._clients)
            self._clients[f"{kind} {name}"] = weakref.ref(client)

    def describe(self) -> Iterable[Family]:
        """Return the families without samples; a registry looks for duplicates among them."""
        return [_family(metric, metric.tags) for metric in FINEST.values()]

    def collect(self) -> Iterator[Family]:
        """Return the families of all clients that are not closed."""
        with self._lock:
            self._drop_closed()
            clients = [(key.partition(" ")[2], known()) for key, known in self._clients.items()]
        families: dict[str, Family] = {}
        for name, client in clients:
            for row in () if client is None else client.metric_rows():
                if _is_finest(row) and not math.isnan(row.value):
                    _add_sample(families, row, name)
        yield from families.values()

    def _drop_closed(self) -> None:
        if self._process != os.getpid():
            self._clients.clear()
            self._process = os.getpid()
        for key, known in list(self._clients.items()):
            client = known()
            if client is None or client.health()["state"] == "closed":
                del self._clients[key]


def _identity(client: Client) -> tuple[str, str]:
    """Return the kind of client, `producer`, `consumer` or `admin`, and its client_id."""
    row = client.metric_rows()[0]
    return row.group.partition("-")[0], row.tags["client-id"]


def _finest() -> dict[tuple[str, str], Definition]:
    """Return the definition with the most tags, by group and name."""
    finest: dict[tuple[str, str], Definition] = {}
    for metric in (*PRODUCER, *CONSUMER_ALL, *SHARE_CONSUMER, *ADMIN):
        known = finest.setdefault((metric.group, metric.name), metric)
        if len(metric.tags) > len(known.tags):
            finest[metric.group, metric.name] = metric
    return finest


FINEST = _finest()


def _is_finest(row: Metric) -> bool:
    finest = FINEST.get((row.group, row.name))
    return finest is None or len(finest.tags) + 1 == len(row.tags)


def _add_sample(families: dict[str, Family], row: Metric, client_id: str) -> None:
    name = exported_name(row)
    family = families.get(name)
    if family is None:
        family = families[name] = _family(row, tuple(row.tags)[1:])
    value = row.value / NS_PER_S if row.unit == NANOSECONDS else row.value
    family.add_metric([client_id, *list(row.tags.values())[1:]], value)  # type: ignore[attr-defined]


def exported_name(metric: Metric | Definition) -> str:
    """Return the name of a metric in Prometheus."""
    name = metric.name.replace("-ns-", "-seconds-")
    if name.endswith("-count"):  # which Prometheus reserves for histograms
        name = f"{name.removesuffix('-count')}s"
    return f"kafka_{metric.group.removesuffix('-metrics')}_{name}".replace("-", "_")


def _family(metric: Metric | Definition, tags: Sequence[str]) -> Family:
    family = CounterMetricFamily if metric.kind is MetricKind.COUNTER else GaugeMetricFamily
    unit = "seconds" if metric.unit == NANOSECONDS else metric.unit
    described = metric.description.replace("Nanoseconds", "Seconds")
    labels = ["client_id", *(tag.replace("-", "_") for tag in tags)]
    return family(exported_name(metric), f"{described} Unit: {unit}.", labels=labels)


# ---------------------------------------------------------------------------------------------------
# The cluster and its groups
# ---------------------------------------------------------------------------------------------------

_TOPIC, _PARTITION = ("topic",), ("topic", "partition")
_GROUP, _GROUP_TOPIC = ("consumergroup",), ("consumergroup", "topic")
_GROUP_PARTITION = ("consumergroup", "topic", "partition")

FAMILIES: dict[str, tuple[tuple[str, ...], str]] = {
    "kafka_up": ((), "Whether the last scrape could read the cluster."),
    "kafka_scrape_errors": ((), "Brokers, groups and partitions that this scrape could not read."),
    "kafka_brokers": ((), "Brokers that are up."),
    "kafka_broker_info": (("id", "address"), "A broker that is up; always 1."),
    "kafka_topic_partitions": (_TOPIC, "Partitions of the topic."),
    "kafka_topic_partition_current_offset": (_PARTITION, "Offset at the end of the partition."),
    "kafka_topic_partition_oldest_offset": (_PARTITION, "Offset at the start of the partition."),
    "kafka_topic_partition_leader": (_PARTITION, "Id of the leader; -1 if there is none."),
    "kafka_topic_partition_leader_is_preferred": (_PARTITION, "Whether the first replica leads."),
    "kafka_topic_partition_replicas": (_PARTITION, "Replicas of the partition."),
    "kafka_topic_partition_in_sync_replica": (_PARTITION, "Replicas that are in sync."),
    "kafka_topic_partition_under_replicated_partition": (_PARTITION, "Whether a replica is not in sync."),
    "kafka_consumergroup_members": (_GROUP, "Members of the group."),
    "kafka_consumergroup_current_offset": (_GROUP_PARTITION, "Offset that the group committed."),
    "kafka_consumergroup_lag": (_GROUP_PARTITION, "Records between the committed offset and the end."),
    "kafka_consumergroup_current_offset_sum": (_GROUP_TOPIC, "Sum of the offsets that the group committed."),
    "kafka_consumergroup_lag_sum": (_GROUP_TOPIC, "Sum of the lags of the topic's partitions."),
}
"""Labels and help of each metric of a cluster. All are gauges, as those of kafka_exporter."""


class ClusterCollector(Collector):
    """A collector of prometheus_client that reads brokers, topics and the lag of groups at each scrape.

    Names and labels are those of kafka_exporter, so that its dashboards and alerts work. Partitions without
    a committed offset have no lag. Records that were deleted before the group read them are no lag either.
    A broker that is away never fails a scrape: `kafka_up` is 0 if no broker responds in time, and
    `kafka_scrape_errors` counts what is missing because some do not. Thread-safe; scrapes take turns.

    Args:
        admin: the client, which the caller closes. It needs DESCRIBE on the topics and groups.
        groups: one pattern with * and ?, or several; all groups if empty. Share and streams groups have no
            lag here.
        topics: the same for topics, internal ones included.
        isolation_level: with "read_committed", a partition ends before the first open transaction, so its
            records do not count as lag. By default they count, as in Java's kafka-consumer-groups and
            kafka_exporter.
        timeout: seconds for a scrape. Each of its eight requests has at least a tenth of them, so that a
            broker that does not respond leaves time for the others.
        sums: also export the sums by topic. `sum by (consumergroup, topic)` has the same values, and
            `promtool check metrics` complains about the ending `_sum`.
    """

    def __init__(
        self,
        admin: KafkaAdminClient,
        *,
        groups: Iterable[str] | str = (),
        topics: Iterable[str] | str = (),
        isolation_level: str = "read_uncommitted",
        timeout: float = 5.0,
        sums: bool = False,
    ) -> None:
        isolation_number(isolation_level)  # raises here, not in each scrape
        self._admin = admin
        self._groups = _matcher(groups)
        self._topics = _matcher(topics)
        self._isolation_level = isolation_level
        self._timeout = timeout
        self._deadline = 0.0
        self._has_sums = sums
        self._was_up = True
        self._lock = threading.Lock()

    def describe(self) -> Iterable[Family]:
        """Return the families without samples; a registry looks for duplicates among them."""
        return _Samples().families(even_if_empty=True)

    def collect(self) -> Iterable[Family]:
        """Read the cluster; return the families that have samples."""
        samples = _Samples()
        with self._lock:
            self._deadline = SystemClock.monotonic() + self._timeout
            error = self._read(samples)
            if error is not None and self._was_up and not isinstance(error, ClientClosed):
                logger.warning("Scrape failed: kafka_up is 0 until brokers respond again: %s", error)
            self._was_up = error is None
        samples.add("kafka_up", error is None)
        samples.add("kafka_scrape_errors", samples.errors + (error is not None))
        return samples.families()

    def _left(self) -> float:
        """Return the seconds that the next request of this scrape can take."""
        return max(self._deadline - SystemClock.monotonic(), self._timeout / 10)

    def _read(self, samples: _Samples) -> KafkaError | None:
        """Add all samples; return the error that ended it."""
        try:
            nodes = self._admin.describe_cluster(timeout=self._left()).nodes
            samples.add("kafka_brokers", len(nodes))
            for node in nodes:
                samples.add("kafka_broker_info", 1, node.id, f"{node.host}:{node.port}")
            ends = self._read_topics(samples)
            self._read_groups(samples, ends)
        except KafkaError as error:
            return error
        return None

    def _read_topics(self, samples: _Samples) -> dict[TopicPartition, tuple[int, int]]:
        """Add the samples of topics; return the first and the end offset of each partition."""
        admin, left = self._admin, self._left
        names = filter(self._topics, admin.list_topics(include_internal=True, timeout=left()))
        described = admin.describe_topics(names, timeout=left(), raise_errors=False)
        samples.errors += len(described.errors)
        for topic in described.succeeded.values():
            _add_topic(samples, topic)
        partitions = [
            TopicPartition(topic.name, one.partition)
            for topic in described.succeeded.values()
            for one in topic.partitions
        ]
        first = admin.list_offsets(dict.fromkeys(partitions, "earliest"), timeout=left(), raise_errors=False)
        end = admin.list_offsets(
            dict.fromkeys(first.succeeded, "latest"),
            isolation_level=self._isolation_level,
            timeout=left(),
            raise_errors=False,
        )
        samples.errors += len(first.errors) + len(end.errors)
        offsets = {one: (first[one].offset, end_of.offset) for one, end_of in end.succeeded.items()}
        for one, (start, last) in offsets.items():
            samples.add("kafka_topic_partition_oldest_offset", start, *one)
            samples.add("kafka_topic_partition_current_offset", last, *one)
        return offsets

    def _read_groups(self, samples: _Samples, ends: dict[TopicPartition, tuple[int, int]]) -> None:
        admin, left = self._admin, self._left
        listed = admin.list_groups(timeout=left(), raise_errors=False)
        names = [
            one.group_id for one in listed if one.type in DESCRIBED_GROUPS and self._groups(one.group_id)
        ]
        groups = admin.describe_groups(names, timeout=left(), raise_errors=False)
        offsets = admin.list_offsets_of_groups(names, timeout=left(), raise_errors=False)
        samples.errors += len(listed.errors) + len(groups.errors.keys() | offsets.errors.keys())
        for name, group in groups.succeeded.items():
            samples.add("kafka_consumergroup_members", len(group.members), name)
        for name, committed in offsets.succeeded.items():
            sums: dict[str, tuple[int, int]] = {}
            for one, found in committed.items():
                if not self._topics(one.topic):
                    continue
                samples.add("kafka_consumergroup_current_offset", found.offset, name, *one)
                if one in ends:  # otherwise its leader is away, or the topic was deleted
                    start, end = ends[one]
                    lag = max(0, end - max(found.offset, start))
                    samples.add("kafka_consumergroup_lag", lag, name, *one)
                    before = sums.get(one.topic, (0, 0))
                    sums[one.topic] = before[0] + found.offset, before[1] + lag
            for topic, (offset, lag) in sums.items() if self._has_sums else ():
                samples.add("kafka_consumergroup_current_offset_sum", offset, name, topic)
                samples.add("kafka_consumergroup_lag_sum", lag, name, topic)


class _Samples:
    """The samples of one scrape, and the number of things that could not be read."""

    def __init__(self) -> None:
        self.errors = 0
        self._families = {
            name: GaugeMetricFamily(name, text, labels=labels) for name, (labels, text) in FAMILIES.items()
        }

    def add(self, name: str, value: float, *labels: object) -> None:
        self._families[name].add_metric([str(label) for label in labels], float(value))

    def families(self, *, even_if_empty: bool = False) -> list[Family]:
        return [family for family in self._families.values() if family.samples or even_if_empty]


def _add_topic(samples: _Samples, topic: TopicDescription) -> None:
    samples.add("kafka_topic_partitions", len(topic.partitions), topic.name)
    for one in topic.partitions:
        values = {
            "leader": one.leader,
            "leader_is_preferred": one.replicas[:1] == (one.leader,),
            "replicas": len(one.replicas),
            "in_sync_replica": len(one.isr),
            "under_replicated_partition": len(one.isr) < len(one.replicas),
        }
        for name, value in values.items():
            samples.add(f"kafka_topic_partition_{name}", value, topic.name, one.partition)


def _matcher(patterns: Iterable[str] | str) -> Callable[[str], bool]:
    """Return a function that returns whether a name matches any of the patterns, or there is none."""
    listed = [patterns] if isinstance(patterns, str) else patterns
    wanted = [pattern.replace("[", "[[]") for pattern in listed]  # names can have brackets
    return lambda name: not wanted or any(fnmatchcase(name, pattern) for pattern in wanted)
