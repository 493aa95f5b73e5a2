"""The metrics of the clients as data: name, kind, unit, tags and description of each.

`metric_rows()`, the reference page and exporters read these tables. Names, groups and tags are those of
Apache Kafka 4.4's clients. `of` names the number of `metrics.Metrics` that a metric is made from.
"""

from __future__ import annotations

from pykafka2.metrics import COUNT, SUM, Definition
from pykafka2.types import MetricKind

COUNTER, GAUGE, RATE = MetricKind.COUNTER, MetricKind.GAUGE, MetricKind.RATE
AVERAGE, MAXIMUM, MINIMUM = MetricKind.AVERAGE, MetricKind.MAXIMUM, MetricKind.MINIMUM

MILLISECONDS, NANOSECONDS, SECONDS, BYTES = "milliseconds", "nanoseconds", "seconds", "bytes"
NS_PER_S = 1e9

NODE, TOPIC, PARTITION = ("node-id",), ("topic",), ("topic", "partition")


class _Group:
    """Builds the definitions of one group."""

    def __init__(self, name: str, tags: tuple[str, ...] = (), *, is_kafka: bool = True) -> None:
        self._name = name
        self._tags = tags
        self._is_kafka = is_kafka

    def one(
        self,
        name: str,
        kind: MetricKind,
        unit: str,
        description: str,
        of: str = "",
        per: str = "",
        factor: float = 1,
    ) -> Definition:
        return Definition(
            name,
            self._name,
            kind,
            unit,
            description,
            of or name,
            self._tags,
            per,
            factor,
            self._is_kafka,
        )

    def counted(self, stem: str, unit: str, what: str, of: str = "", advice: str = "") -> list[Definition]:
        """Return the rate and the total of something that is counted."""
        of = of or f"{stem}-total"
        noun, *clause = what.partition(",")
        per_second = "".join([noun, " per second", *clause])
        return [
            self.one(f"{stem}-rate", RATE, f"{unit} per second", _text(per_second, advice), of),
            self.one(f"{stem}-total", COUNTER, unit, _text(what), of),
        ]

    def measured(
        self, stem: str, unit: str, what: str, kinds: str = "avg max", of: str = "", advice: str = ""
    ) -> list[Definition]:
        """Return the average and extremes of a measured value."""
        ends = {"avg": (AVERAGE, "average"), "max": (MAXIMUM, "largest"), "min": (MINIMUM, "smallest")}
        return [
            self.one(
                f"{stem}-{end}",
                ends[end][0],
                unit,
                _text(f"{ends[end][1]} {what}", advice if end == kinds[:3] else ""),
                of or stem,
            )
            for end in kinds.split()
        ]

    def time(self, name: str, description: str) -> Definition:
        """Return a total of nanoseconds."""
        return self.one(name, COUNTER, NANOSECONDS, _text(description))

    def gauge(self, name: str, unit: str, description: str) -> Definition:
        return self.one(name, GAUGE, unit, _text(description))


def _text(what: str, advice: str = "") -> str:
    sentence = f"{what[0].upper()}{what[1:]}."
    return f"{sentence} {advice}" if advice else sentence


def network(prefix: str) -> list[Definition]:
    """Return the metrics of the connections, which all clients have."""
    whole, node = _Group(f"{prefix}-metrics"), _Group(f"{prefix}-node-metrics", NODE)
    requests, sent = f"request-size{COUNT}", f"request-size{SUM}"
    responses, received = f"response-size{COUNT}", f"response-size{SUM}"
    found: list[Definition] = []
    for group in (whole, node):
        found += [
            *group.counted("outgoing-byte", BYTES, "bytes of the requests sent", sent),
            *group.counted("incoming-byte", BYTES, "bytes of the responses received", received),
            *group.counted("request", "requests", "requests sent", requests),
            *group.measured("request-size", BYTES, "size of a request"),
            *group.counted("response", "responses", "responses received", responses),
        ]
    return [
        *found,
        *node.measured("request-latency", MILLISECONDS, REQUEST_LATENCIES[prefix]),
        *whole.counted(
            "network-io", "messages", "requests sent and responses received", f"{requests}+{responses}"
        ),
        whole.gauge("connection-count", "connections", "open connections; 0 if no broker can be reached"),
        *whole.counted("connection-creation", "connections", "connections opened"),
        *whole.counted("connection-close", "connections", "connections closed, by either side"),
        *whole.counted("select", "turns", "turns of the IO thread, each of which waits for the network once"),
        whole.time("io-time-ns-total", "nanoseconds that the IO thread worked"),
        whole.one(
            "io-time-ns-avg",
            AVERAGE,
            NANOSECONDS,
            _text("average work of the IO thread in one turn"),
            "io-time-ns-total",
            "select-total",
        ),
        whole.one(
            "io-ratio",
            RATE,
            "ratio",
            "Share of the time that the IO thread worked. Near 1, the client needs a whole processor core.",
            "io-time-ns-total",
            factor=1 / NS_PER_S,
        ),
        whole.time("io-wait-time-ns-total", "nanoseconds that the IO thread waited for the network"),
        whole.one(
            "io-wait-time-ns-avg",
            AVERAGE,
            NANOSECONDS,
            _text("average wait of the IO thread in one turn"),
            "io-wait-time-ns-total",
            "select-total",
        ),
        whole.one(
            "io-wait-ratio",
            RATE,
            "ratio",
            _text("share of the time that the IO thread waited for the network"),
            "io-wait-time-ns-total",
            factor=1 / NS_PER_S,
        ),
        *whole.counted("successful-authentication", "connections", "connections authenticated with SASL"),
        *whole.counted("failed-authentication", "connections", "connections whose authentication failed"),
        *whole.counted(
            "successful-reauthentication", "times", "times that SASL authenticated an open connection again"
        ),
        *whole.counted(
            "failed-reauthentication", "times", "times that an open connection failed to authenticate again"
        ),
        *whole.measured(
            "reauthentication-latency", MILLISECONDS, "time to authenticate an open connection again"
        ),
        whole.one(
            "successful-authentication-no-reauth-total",
            COUNTER,
            "connections",
            _text("connections authenticated with SASL for the first time"),
            "successful-authentication-total",
        ),
    ]


REQUEST_LATENCIES = {
    "producer": "time from a Produce request to its response",
    "consumer": "time from a Fetch request to its response",
    "admin-client": "time from a request to its response",
}
_OF_PRODUCER = _Group("producer-metrics")
_OF_TOPICS = _Group("producer-topic-metrics", TOPIC)
_WAIT = "bufferpool-wait-time-ns-total"

PRODUCER: tuple[Definition, ...] = (
    *_OF_PRODUCER.counted(
        "record-send", "records", "records written", advice="The throughput that arrives in the log."
    ),
    *_OF_PRODUCER.counted(
        "record-error", "records", "records that failed", advice="Above 0, data did not arrive."
    ),
    *_OF_PRODUCER.counted(
        "record-retry",
        "records",
        "records in retried batches",
        advice="Above 0 if leaders move or brokers are overloaded; explain() names the error.",
    ),
    *_OF_PRODUCER.measured(
        "record-queue-time",
        MILLISECONDS,
        "time from a batch's first record until the batch is sent",
        advice="Near linger_ms if the producer keeps up; far above it if batches wait for a broker.",
    ),
    *_OF_PRODUCER.measured("record-size", BYTES, "size of a record before compression, by batch", "avg"),
    *_OF_PRODUCER.measured(
        "batch-size",
        BYTES,
        "size of a batch as sent",
        advice="Far below batch_size, a longer linger_ms saves requests.",
    ),
    *_OF_PRODUCER.measured(
        "compression-rate",
        "ratio",
        "compressed size of a batch divided by its uncompressed size",
        "avg",
        advice="1 without compression; the smaller, the better.",
    ),
    *_OF_PRODUCER.counted(
        "batch-split",
        "batches",
        "batches split because a broker found them too large",
        advice="Above 0, batches are larger than the topic's max.message.bytes.",
    ),
    *_OF_PRODUCER.measured(
        "request-latency",
        MILLISECONDS,
        REQUEST_LATENCIES["producer"],
        advice="Network and broker, with the replicas that acks waits for.",
    ),
    _OF_PRODUCER.gauge("requests-in-flight", "requests", "Produce requests in flight"),
    *_OF_PRODUCER.measured("records-per-request", "records", "number of records in a Produce request", "avg"),
    *_OF_PRODUCER.measured(
        "produce-throttle-time",
        MILLISECONDS,
        "throttling by a broker per Produce request",
        of="throttle-time",
        advice="Above 0, a quota limits the producer.",
    ),
    _OF_PRODUCER.gauge(
        "buffer-available-bytes", BYTES, "free bytes of buffer_memory; near 0 if brokers are too slow"
    ),
    _OF_PRODUCER.gauge("buffer-total-bytes", BYTES, "buffer_memory"),
    _OF_PRODUCER.one(
        "bufferpool-wait-ratio",
        RATE,
        "seconds per second",
        "Share of the time that calls of send() waited for buffer_memory; can exceed 1 with several threads.",
        _WAIT,
        factor=1 / NS_PER_S,
    ),
    _OF_PRODUCER.time(_WAIT, "nanoseconds that calls of send() waited for buffer_memory"),
    *_OF_PRODUCER.counted("buffer-exhausted", "calls", "calls of send() that raised BufferExhausted"),
    _OF_PRODUCER.gauge("waiting-threads", "calls", "calls of send() that wait for buffer_memory"),
    _OF_PRODUCER.gauge("metadata-age", SECONDS, "seconds since the metadata was last refreshed"),
    _OF_PRODUCER.time("metadata-wait-time-ns-total", "nanoseconds that calls of send() waited for metadata"),
    _OF_PRODUCER.time("flush-time-ns-total", "nanoseconds spent in flush()"),
    _OF_PRODUCER.time("txn-init-time-ns-total", "nanoseconds spent in init_transactions()"),
    _OF_PRODUCER.time("txn-begin-time-ns-total", "nanoseconds spent in begin_transaction()"),
    _OF_PRODUCER.time("txn-send-offsets-time-ns-total", "nanoseconds spent in send_offsets_to_transaction()"),
    _OF_PRODUCER.time("txn-commit-time-ns-total", "nanoseconds spent in commit_transaction()"),
    _OF_PRODUCER.time("txn-abort-time-ns-total", "nanoseconds spent in abort_transaction()"),
    *_OF_TOPICS.counted("record-send", "records", "records written to the topic"),
    *_OF_TOPICS.counted("byte", BYTES, "bytes of the topic's batches as sent", f"batch-size{SUM}"),
    *_OF_TOPICS.counted("record-error", "records", "records of the topic that failed"),
    *_OF_TOPICS.counted("record-retry", "records", "records of the topic in retried batches"),
    _OF_TOPICS.one(
        "compression-rate",
        AVERAGE,
        "ratio",
        _text("average compressed size of the topic's batches divided by their uncompressed size"),
    ),
    *network("producer"),
)

_FETCHES, _FETCHES_OF_TOPIC, _OF_PARTITIONS = (
    _Group("consumer-fetch-manager-metrics", tags) for tags in ((), TOPIC, PARTITION)
)


def _consumed(group: _Group, whose: str = "") -> list[Definition]:
    """Return the metrics of records that were returned, which both kinds of consumers have."""
    return [
        *group.counted(
            "bytes-consumed", BYTES, f"bytes of the fetched batches{whose} that were read to their end"
        ),
        *group.counted("records-consumed", "records", f"records{whose} that were returned"),
    ]


def _fetched(group: _Group, whose: str, size: str) -> list[Definition]:
    """Return the metrics of fetched data; those of a topic are not parts of those of all."""
    return [
        *_consumed(group, whose),
        *group.measured(
            "fetch-size",
            BYTES,
            f"size of the batches{whose} in a Fetch response that has some",
            of=size,
            advice="If it is small, raise fetch_min_bytes." if not whose else "",
        ),
        group.one(
            "records-per-request-avg",
            AVERAGE,
            "records",
            _text(f"average number of records{whose} in a Fetch response that has some"),
            "records-consumed-total",
            f"{size}{COUNT}",
        ),
    ]


def _requests(group: _Group, request: str) -> list[Definition]:
    """Return the metrics of requests for records, by the name of the request."""
    return [
        *group.measured(
            "fetch-latency",
            MILLISECONDS,
            f"time from a {request} request to its response, with the broker's wait for data",
            of="request-latency",
        ),
        *group.counted("fetch", "requests", f"{request} requests"),
        *group.measured(
            "fetch-throttle-time",
            MILLISECONDS,
            f"throttling by a broker per {request} request",
            of="throttle-time",
            advice="Above 0, a quota limits the consumer.",
        ),
    ]


CONSUMER: tuple[Definition, ...] = (
    _FETCHES.gauge(
        "records-lag-max",
        "records",
        "records between the position and the end of the log, of the partition that is farthest behind; if "
        "it grows, the consumer is slower than the producers",
    ),
    _FETCHES.gauge(
        "records-lead-min",
        "records",
        "records between the start of the log and the position, of the partition that is nearest to its "
        "start; near 0, retention is about to delete records that were not read",
    ),
    *_fetched(_FETCHES, "", "fetch-size"),
    *_requests(_FETCHES, "Fetch"),
    *_fetched(_FETCHES_OF_TOPIC, " of the topic", "fetch-size-of-topic"),
    _OF_PARTITIONS.gauge("records-lag", "records", "records between the position and the end of the log"),
    *_OF_PARTITIONS.measured(
        "records-lag", "records", "lag after a poll() with records, at most ten times a second"
    ),
    _OF_PARTITIONS.gauge("records-lead", "records", "records between the start of the log and the position"),
    *_OF_PARTITIONS.measured(
        "records-lead",
        "records",
        "lead after a poll() with records, at most ten times a second",
        "avg min",
    ),
    _OF_PARTITIONS.gauge(
        "preferred-read-replica",
        "node",
        "id of the follower that the partition is read from; -1 for the leader",
    ),
    *network("consumer"),
)


def _polls(group: _Group) -> list[Definition]:
    """Return the metrics of poll(), which both kinds of consumers have."""
    return [
        group.one(
            "time-between-poll-avg",
            AVERAGE,
            MILLISECONDS,
            _text("average time between the starts of two calls of poll()"),
            "time-between-poll-total",
            "poll-total",
            1000,
        ),
        group.one(
            "time-between-poll-max",
            MAXIMUM,
            MILLISECONDS,
            _text("longest time between the starts of two calls of poll()"),
            "longest-time-between-poll",
            factor=1000,
        ),
        group.gauge(
            "last-poll-seconds-ago",
            SECONDS,
            "seconds since the start of the last poll(); -1 before the first one",
        ),
        group.one(
            "poll-idle-ratio-avg",
            AVERAGE,
            "ratio",
            "Share of the time that the application spends in poll(). Near 0, its processing is the "
            "bottleneck.",
            "poll-time-total",
            "time-between-poll-total",
        ),
    ]


_OF_POLLS = _Group("consumer-metrics")
POLLS: tuple[Definition, ...] = (
    *_polls(_OF_POLLS),
    _OF_POLLS.time("commit-sync-time-ns-total", "nanoseconds spent in commit()"),
    _OF_POLLS.time("committed-time-ns-total", "nanoseconds spent in committed()"),
)


def _heartbeats(group: _Group) -> list[Definition]:
    """Return the metrics of heartbeats, which members of all groups have."""
    return [
        *group.counted(
            "heartbeat",
            "requests",
            "heartbeats that the coordinator responded to",
            f"heartbeat-response-time{COUNT}",
        ),
        group.one(
            "heartbeat-response-time-max",
            MAXIMUM,
            MILLISECONDS,
            _text("longest time from a heartbeat to its response"),
            "heartbeat-response-time",
        ),
        group.gauge(
            "last-heartbeat-seconds-ago",
            SECONDS,
            "seconds since the last heartbeat was sent; -1 before the first one",
        ),
    ]


_COORDINATOR = _Group("consumer-coordinator-metrics")
ASSIGNMENT: tuple[Definition, ...] = (
    _COORDINATOR.gauge(
        "assigned-partitions",
        "partitions",
        "assigned partitions; 0 in a group that rebalances, or that has more members than partitions",
    ),
)

GROUP: tuple[Definition, ...] = (
    *_COORDINATOR.counted(
        "commit", "requests", "OffsetCommit requests that brokers responded to", f"commit-latency{COUNT}"
    ),
    *_COORDINATOR.measured(
        "commit-latency", MILLISECONDS, "time from an OffsetCommit request to its response"
    ),
    *_heartbeats(_COORDINATOR),
    _COORDINATOR.one(
        "rebalance-total",
        COUNTER,
        "rebalances",
        _text("rebalances that completed"),
        f"rebalance-latency{COUNT}",
    ),
    _COORDINATOR.gauge(
        "rebalance-rate-per-hour", "rebalances per hour", "rebalances that completed in the last hour"
    ),
    *_COORDINATOR.measured("rebalance-latency", MILLISECONDS, "time of a rebalance"),
    _COORDINATOR.one(
        "rebalance-latency-total",
        COUNTER,
        MILLISECONDS,
        _text("time of all rebalances"),
        f"rebalance-latency{SUM}",
    ),
    _COORDINATOR.one(
        "failed-rebalance-total", COUNTER, "rebalances", _text("attempts to rebalance that failed")
    ),
    _COORDINATOR.gauge(
        "failed-rebalance-rate-per-hour",
        "rebalances per hour",
        "attempts to rebalance that failed in the last hour",
    ),
    _COORDINATOR.gauge(
        "last-rebalance-seconds-ago", SECONDS, "seconds since the last rebalance completed; -1 before that"
    ),
    *_COORDINATOR.measured("partition-assigned-latency", MILLISECONDS, "time of a call of on_assigned"),
    *_COORDINATOR.measured("partition-revoked-latency", MILLISECONDS, "time of a call of on_revoked"),
    *_COORDINATOR.measured("partition-lost-latency", MILLISECONDS, "time of a call of on_lost"),
)
"""The metrics of consumers with a group."""

CLASSIC_GROUP: tuple[Definition, ...] = (
    *_COORDINATOR.counted("join", "requests", "JoinGroup requests that succeeded", f"join-time{COUNT}"),
    *_COORDINATOR.measured(
        "join-time",
        MILLISECONDS,
        "time from a JoinGroup request to its response, when all members have joined",
    ),
    *_COORDINATOR.counted("sync", "requests", "SyncGroup requests that succeeded", f"sync-time{COUNT}"),
    *_COORDINATOR.measured(
        "sync-time", MILLISECONDS, "time from a SyncGroup request to its response, with the new assignment"
    ),
)
"""The metrics of members of classic groups."""

_SHARE_GROUP = _Group("consumer-share-coordinator-metrics")
_SHARE_FETCHES = _Group("consumer-share-fetch-manager-metrics")
_SHARE_POLLS = _Group("consumer-share-metrics")
SHARE_CONSUMER: tuple[Definition, ...] = (
    *_heartbeats(_SHARE_GROUP),
    _SHARE_GROUP.one("rebalance-total", COUNTER, "rebalances", _text("changes of the assignment")),
    _SHARE_GROUP.gauge(
        "rebalance-rate-per-hour", "rebalances per hour", "changes of the assignment in the last hour"
    ),
    *_SHARE_FETCHES.counted(
        "acknowledgements-send", "acknowledgements", "acknowledgements that brokers responded to"
    ),
    *_SHARE_FETCHES.counted(
        "acknowledgements-error",
        "acknowledgements",
        "acknowledgements that failed, so that their records are delivered again",
    ),
    *_consumed(_SHARE_FETCHES),
    *_SHARE_FETCHES.measured(
        "fetch-size", BYTES, "size of the batches in a ShareFetch response that has some"
    ),
    *_requests(_SHARE_FETCHES, "ShareFetch"),
    *_SHARE_FETCHES.measured(
        "records-per-request", "records", "number of acquired records in a ShareFetch response that has some"
    ),
    *_polls(_SHARE_POLLS),
    *network("consumer"),
)
"""The metrics of a share consumer."""

_OWN_FETCHES = _Group("consumer-fetch-manager-metrics", is_kafka=False)
OWN_CONSUMER: tuple[Definition, ...] = (
    _OWN_FETCHES.one("bad-records-total", COUNTER, "records", _text("records that on_bad_record skipped")),
    _OWN_FETCHES.gauge(
        "buffered-bytes", BYTES, "bytes fetched and not returned yet; limited by queued_max_bytes"
    ),
    _Group("consumer-metrics", is_kafka=False).gauge(
        "metadata-version", "number", "number of refreshes of the metadata"
    ),
)

_OWN_ADMIN = _Group("admin-client-metrics", is_kafka=False)
ADMIN: tuple[Definition, ...] = (
    _OWN_ADMIN.gauge("calls-in-progress", "calls", "calls that wait for brokers; health() names them"),
    _OWN_ADMIN.gauge(
        "metadata-age", SECONDS, "seconds since the last refresh of the metadata; -1 before the first one"
    ),
    _OWN_ADMIN.gauge("metadata-version", "number", "number of refreshes of the metadata"),
    *network("admin-client"),
)

CONSUMER_ALONE = (*CONSUMER, *POLLS, *ASSIGNMENT, *OWN_CONSUMER)
"""The metrics of a consumer without a group."""
CONSUMER_IN_GROUP = (*CONSUMER_ALONE, *GROUP)
"""The metrics of a consumer in a group with the protocol of KIP-848."""
CONSUMER_ALL = (*CONSUMER_IN_GROUP, *CLASSIC_GROUP)
"""All metrics of a consumer in a classic group, which has the most."""

OWN_NAMES = frozenset(
    (metric.group, metric.name) for metric in (*PRODUCER, *CONSUMER_ALL, *ADMIN) if not metric.is_kafka
)
"""Group and name of the metrics that Apache Kafka does not have."""
