"""Settings, names of topics, and the producer and admin client that all connections of a process share.

A queue is a topic with a share group of the same name; an exchange with transient queues is a topic, too.
Thread-safe. The child of a fork gets clients of its own.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Mapping
from typing import Any, Self

import attrs
from kombu.utils.json import dumps, loads
from kombu.utils.url import url_to_parts

from pykafka2 import (
    KafkaAdminClient,
    KafkaConsumer,
    KafkaProducer,
    KafkaShareConsumer,
    NewTopic,
    TopicPartition,
)
from pykafka2.admin.config_values import ConfigResource, ConfigResourceType
from pykafka2.clock import SystemClock
from pykafka2.errors import (
    ConfigurationError,
    GroupIdNotFound,
    KafkaError,
    NonEmptyGroup,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)
from pykafka2.interrupts import run_all
from pykafka2.logs import ClientLogger

DEFAULT_PORT = 9092
DELIVERY_LIMIT = "share.delivery.count.limit"
DEFAULT_DELIVERY_LIMIT = 5
"""Kafka's default, for brokers without the option of a group."""
START = {"share.auto.offset.reset": "earliest"}
"""A queue starts with its first message, not with the first one after its first worker."""
EXCHANGE_TOPIC = {"retention.ms": "600000", "segment.ms": "600000"}
"""Broadcasts are read at once or never ..."""
DEFAULT_EXCHANGE_TOPIC = {"retention.ms": "86400000", "segment.ms": "3600000"}
"""... but Celery keeps results for a day."""
RECHECK_SECONDS = 1.0
"""How long an exchange counts as one without transient queues."""
LONGEST_INTERVAL_MS = 2**31 - 1
"""A worker whose prefetch count is reached polls for hours no more, and stays in its group."""

logger = ClientLogger(__name__, "kombu")


# ---------------------------------------------------------------------- names

_ILLEGAL = r"[^a-zA-Z0-9._-]"
_TO_ESCAPE = re.compile(rf"{_ILLEGAL}|_(?=x[0-9a-f]{{2}}(?:_|{_ILLEGAL}))")
_ESCAPED = re.compile(r"(?:_x[0-9a-f]{2}_)+")


def topic_name(name: str) -> str:
    """Return a legal topic name: other characters become `_xHH_` for each byte, as `_x40_` for `@`."""
    return _TO_ESCAPE.sub(lambda found: "".join(f"_x{byte:02x}_" for byte in found[0].encode()), name)


def queue_name(topic: str, topic_prefix: str = "kombu.") -> str:
    """Return the queue of a topic, whose share group has the same name; the inverse of `topic_name`.

    What no queue can have as its topic is returned as it is.
    """
    topic = topic.removeprefix(f"{topic_name(topic_prefix)}queue.")
    try:
        return _ESCAPED.sub(lambda found: bytes.fromhex(re.sub("_x|_", "", found[0])).decode(), topic)
    except UnicodeDecodeError:
        return topic


# ---------------------------------------------------------------------- settings


def _seconds(value: float | None) -> float:
    return float("inf") if value is None else float(value)


@attrs.define(frozen=True)
class Settings:
    """The URL and the transport options of a connection.

    `broker_transport_options` of Celery, or `transport_options` of `kombu.Connection`:

    Args:
        servers: the hosts of all URLs of the connection.
        topic_prefix: what the names of all topics and groups begin with. A virtual host is added to it.
        num_partitions: of the topic of a new queue. Keep it below the number of workers, because a partition
            of a share group has at least one worker, and one that is busy keeps it.
        replication_factor: of new topics; -1 is the broker's default.
        visibility_timeout: how many seconds a message stays locked for its worker, at most; inf, the
            default, is as long as the worker is connected.
        topic_config, group_config: options of the topics and groups of new queues.
        client_options: options of all clients, such as `security_protocol`.
        producer_options, consumer_options: options of the producer, and of the consumers of queues.
    """

    servers: tuple[str, ...]
    topic_prefix: str = "kombu."
    num_partitions: int = 1
    replication_factor: int = -1
    visibility_timeout: float = attrs.field(default=None, converter=_seconds)
    topic_config: Mapping[str, str] = attrs.field(factory=dict)
    group_config: Mapping[str, str] = attrs.field(factory=dict)
    client_options: Mapping[str, Any] = attrs.field(factory=dict, repr=False)  # they can have secrets
    producer_options: Mapping[str, Any] = attrs.field(factory=dict, repr=False)
    consumer_options: Mapping[str, Any] = attrs.field(factory=dict, repr=False)

    @classmethod
    def of(cls, client: Any) -> Self:
        """Return the settings of a `kombu.Connection`; options of other transports are ignored."""
        known = {field.name for field in attrs.fields(cls)} - {"servers"}
        options = {name: value for name, value in client.transport_options.items() if name in known}
        virtual_host = (client.virtual_host or "").strip("/")
        if virtual_host:
            if not {"queue", "exchange"}.isdisjoint(virtual_host.split(".")):
                raise ConfigurationError(
                    f"the virtual host {virtual_host!r} has the part 'queue' or 'exchange', so its topics "
                    "could be those of another virtual host; choose another name"
                )
            options["topic_prefix"] = f"{options.get('topic_prefix', 'kombu.')}{virtual_host}."
        options["client_options"] = {**_security(client), **options.get("client_options", {})}
        return cls(servers=tuple(_servers(client)), **options)

    def queue_topic(self, queue: str) -> str:
        return topic_name(f"{self.topic_prefix}queue.{queue}")

    def exchange_topic(self, exchange: str) -> str:
        """Return the topic of an exchange; the default exchange has no name."""
        return topic_name(f"{self.topic_prefix}exchange" + (f".{exchange}" if exchange else ""))


def _servers(client: Any) -> list[str]:
    """Return the host and port of each URL of a connection, the current one first."""
    hosts = [(client.hostname, client.port)]
    for url in client.alt:
        parts = url_to_parts(url)
        hosts.append((parts.hostname, parts.port))
    return list(dict.fromkeys(f"{host or 'localhost'}:{port or DEFAULT_PORT}" for host, port in hosts))


def _security(client: Any) -> dict[str, Any]:
    """Return the security options that user, password and `ssl` of a connection stand for."""
    options: dict[str, Any] = {}
    if isinstance(client.ssl, Mapping):
        names = {"ca_certs": "ssl_cafile", "certfile": "ssl_certfile", "keyfile": "ssl_keyfile"}
        unknown = client.ssl.keys() - names.keys()
        if unknown:
            raise ConfigurationError(
                f"the ssl options {', '.join(sorted(unknown))} are not supported; set pykafka2's options in "
                "client_options of the transport options"
            )
        options |= {names[name]: value for name, value in client.ssl.items()}
    if client.userid:
        options |= {
            "sasl_mechanism": client.login_method or "PLAIN",
            "sasl_username": client.userid,
            "sasl_password": client.password,
        }
    if client.ssl or client.userid:
        options["security_protocol"] = (
            f"{'SASL_' if client.userid else ''}{'SSL' if client.ssl else 'PLAINTEXT'}"
        )
    return options


# ---------------------------------------------------------------------- clients


class Cluster:
    """The producer and the admin client of this process for one cluster, and what they have declared."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.pid = os.getpid()
        self.users = 0
        self._lock = threading.RLock()
        self._open_producer: KafkaProducer[Any, Any] | None = None
        self._open_admin: KafkaAdminClient | None = None
        self._limits: dict[str, int] = {}
        """The delivery limits of the declared queues, by topic."""
        self._exchanges: dict[str, float] = {}
        """When to look again whether the topic of an exchange exists; inf if it does."""
        self._transients: dict[str, int] = {}
        self._clock = SystemClock()

    def _options(self, more: Mapping[str, Any] = {}) -> dict[str, Any]:
        return {
            "client_id": "kombu",
            "bootstrap_servers": list(self.settings.servers),
            **self.settings.client_options,
            **more,
        }

    @property
    def _producer(self) -> KafkaProducer[Any, Any]:
        with self._lock:
            if self._open_producer is None:
                options = self._options({"linger_ms": 0, **self.settings.producer_options})
                self._open_producer = KafkaProducer(**options)
            return self._open_producer

    @property
    def _admin(self) -> KafkaAdminClient:
        with self._lock:
            if self._open_admin is None:
                self._open_admin = KafkaAdminClient(**self._options())
            return self._open_admin

    def check(self, timeout: float) -> None:
        """Connect. Raise KafkaError if no broker responds in time."""
        self._admin.describe_cluster(timeout=timeout)

    def close(self) -> None:
        """Send what is queued, and disconnect."""
        with self._lock:
            producer, self._open_producer = self._open_producer, None
            admin, self._open_admin = self._open_admin, None
        run_all([client.close for client in (producer, admin) if client is not None])

    # ------------------------------------------------------------------ queues

    def declare_queue(self, queue: str) -> int:
        """Create the topic of a queue that does not exist, and have its group start at the first message.

        Return how often a message is delivered before the brokers give it up.
        """
        topic = self.settings.queue_topic(queue)
        with self._lock:
            if topic not in self._limits or not self._has_topic(topic):  # another process can have deleted it
                group = ConfigResource(ConfigResourceType.GROUP, topic)
                self._admin.alter_configs({group: {**START, **self.settings.group_config}})
                self._create(topic, self.settings.num_partitions, self.settings.topic_config)
                entry = self._admin.describe_configs([group])[group].get(DELIVERY_LIMIT)
                value = None if entry is None else entry.value
                self._limits[topic] = DEFAULT_DELIVERY_LIMIT if value is None else int(value)
            return self._limits[topic]

    def _create(self, topic: str, partitions: int, configs: Mapping[str, str]) -> None:
        if self._has_topic(topic):  # the principal need not have the right to create it
            return
        new = NewTopic(topic, partitions, self.settings.replication_factor, configs)
        outcomes = self._admin.create_topics([new], wait_for_metadata=True, raise_errors=False)
        for error in outcomes.errors.values():
            if not isinstance(error, TopicAlreadyExists):
                raise error

    def has_queue(self, queue: str) -> bool:
        return self._has_topic(self.settings.queue_topic(queue))

    def _has_topic(self, topic: str) -> bool:
        outcomes = self._admin.describe_topics([topic], raise_errors=False)
        for error in outcomes.errors.values():
            if not isinstance(error, UnknownTopicOrPartition):
                raise error
        return not outcomes.errors

    def put(self, queue: str, data: bytes) -> None:
        """Append a message to a queue, and wait until the brokers have it."""
        topic = self.settings.queue_topic(queue)
        if topic not in self._limits:
            self.declare_queue(queue)
        try:
            self._producer.send(topic, data).result()
        except KafkaError:
            self._limits.pop(topic, None)  # it may have been deleted: the next attempt declares it
            raise

    def put_or_broadcast(self, name: str, data: bytes) -> None:
        """Append a message to a queue; if there is none, send it to the transient queues of this name.

        Without any of these the queue is created, so that no message is lost.
        """
        topic = self.settings.queue_topic(name)
        if topic not in self._limits and not self._has_topic(topic):
            with self._lock:
                if self._exchanges.get(exchange := self.settings.exchange_topic("")) != float("inf"):
                    self._exchanges.pop(exchange, None)  # before a queue is created, look again
            if self.broadcast("", data):
                return
        self.put(name, data)

    def is_used(self, queue: str) -> bool:
        """Return whether a queue has consumers, in any process."""
        topic = self.settings.queue_topic(queue)
        found = self._admin.describe_share_groups([topic], raise_errors=False)
        for error in found.errors.values():
            if not isinstance(error, GroupIdNotFound):
                raise error
        return topic not in found.errors and bool(found[topic].members)

    def size(self, queue: str) -> int:
        """Return how many messages of a queue are not accepted or rejected, including those in work."""
        topic = self.settings.queue_topic(queue)
        if not self._has_topic(topic):
            return 0
        offsets = self._admin.list_share_group_offsets(topic, raise_errors=False)
        total = 0
        for partition, (start, end) in self._ranges(topic).items():
            found = None if partition in offsets.errors else offsets.get(partition)
            lag = end - start if found is None or found.lag is None else found.lag
            total += min(lag, end - start)  # records that were deleted count until a worker polls
        return total

    def _ranges(self, topic: str) -> dict[TopicPartition, tuple[int, int]]:
        """Return the first and the next offset of each partition."""
        partitions = [
            TopicPartition(topic, one.partition)
            for one in self._admin.describe_topics([topic])[topic].partitions
        ]
        first = self._admin.list_offsets(dict.fromkeys(partitions, "earliest"))
        last = self._admin.list_offsets(dict.fromkeys(partitions, "latest"))
        return {partition: (first[partition].offset, last[partition].offset) for partition in partitions}

    def purge(self, queue: str) -> int:
        """Delete all messages of a queue; return how many were waiting."""
        topic = self.settings.queue_topic(queue)
        if not self._has_topic(topic):
            return 0
        count = self.size(queue)
        self._admin.delete_records(dict.fromkeys(self._ranges(topic), -1))
        return count

    def delete_queue(self, queue: str) -> None:
        """Delete the topic of a queue with its messages, and its group unless others are its members."""
        topic = self.settings.queue_topic(queue)
        with self._lock:
            self._limits.pop(topic, None)
            of_group = self._admin.delete_share_groups([topic], raise_errors=False).errors
            of_topic = self._admin.delete_topics([topic], raise_errors=False).errors
        for error in (*of_group.values(), *of_topic.values()):
            if not isinstance(error, UnknownTopicOrPartition | GroupIdNotFound | NonEmptyGroup):
                raise error

    def queue_consumer(self, queue: str, most_records: int) -> KafkaShareConsumer[Any, Any]:
        """Return a member of the share group of a queue, which has not joined it."""
        options: dict[str, Any] = {
            "group_id": self.settings.queue_topic(queue),
            "share_acknowledgement_mode": "explicit",
            "share_acquire_mode": "record_limit",
            "max_poll_records": most_records,
            "max_poll_interval_ms": LONGEST_INTERVAL_MS,
            "max_renew_ms": self.settings.visibility_timeout * 1000,
            "fetch_max_wait_ms": 100,  # acknowledgements wait for the fetch in flight
            **self.settings.consumer_options,
        }
        return KafkaShareConsumer(**self._options(options))

    # ------------------------------------------------------------------ exchanges

    def bind_exchange(self, exchange: str) -> int:
        """Create the topic of an exchange if there is none; return the offset of its next message."""
        topic = self.settings.exchange_topic(exchange)
        with self._lock:
            self._create(topic, 1, EXCHANGE_TOPIC if exchange else DEFAULT_EXCHANGE_TOPIC)
            self._exchanges[topic] = float("inf")
            place = TopicPartition(topic, 0)
            return self._admin.list_offsets({place: "latest"})[place].offset

    def declare_transient(self, queue: str) -> int:
        """Return the offset in the topic of the default exchange from which a transient queue is read.

        It is that of the first declaration in this process: a caller of Celery's `rpc` results declares the
        queue with one connection, sends the task, and consumes later with another.
        """
        with self._lock:
            if queue not in self._transients:
                self._transients[queue] = self.bind_exchange("")
            return self._transients[queue]

    def pass_transient(self, queue: str, offset: int) -> None:
        """Note that a transient queue has delivered the messages before this offset."""
        with self._lock:
            self._transients[queue] = max(offset, self._transients.get(queue, 0))

    def broadcast(self, exchange: str, data: bytes) -> bool:
        """Send a message to the transient queues of an exchange in all connections; do not wait.

        Return whether there was any such queue.
        """
        topic = self.settings.exchange_topic(exchange)
        with self._lock:
            checked_at = self._exchanges.get(topic, -1.0)
            now = self._clock.monotonic()
            if checked_at != float("inf") and now >= checked_at:
                checked_at = float("inf") if self._has_topic(topic) else now + RECHECK_SECONDS
                self._exchanges[topic] = checked_at
        if checked_at != float("inf"):
            return False
        self._producer.send(topic, data, on_delivery=_log_failure)
        return True

    def exchange_consumer(self) -> KafkaConsumer[Any, Any]:
        """Return a consumer for the topics of exchanges."""
        return KafkaConsumer(**self._options({"auto_offset_reset": "earliest"}))


def _log_failure(metadata: object, error: KafkaError | None) -> None:
    if error is not None:
        logger.warning("a broadcast could not be sent: %s", error)


def dump(message: Mapping[str, Any]) -> bytes:
    """Return a message of kombu as the value of a record."""
    return dumps(message).encode()  # type: ignore[no-any-return]


def load(data: bytes | None) -> dict[str, Any]:
    """Return the message of kombu in a record. Raise ValueError if it has none."""
    try:
        message = loads(data or b"")
        info = message["properties"].setdefault("delivery_info", {})
        is_valid = isinstance(info, dict) and all(
            isinstance(info.get(name, ""), str) for name in ("exchange", "routing_key")
        )
    except Exception as error:  # such as a RecursionError, or that of a decoder of kombu
        raise ValueError(f"it is not a message of kombu: {type(error).__name__}") from error
    if not is_valid:
        raise ValueError("it is not a message of kombu: its delivery_info is invalid")
    return message  # type: ignore[no-any-return]


# ---------------------------------------------------------------------- sharing

_clusters: list[Cluster] = []
_clusters_lock = threading.Lock()


def acquire(settings: Settings) -> Cluster:
    """Return the cluster that all connections of this process with equal settings share."""
    with _clusters_lock:
        for cluster in _clusters:
            if cluster.settings == settings:
                break
        else:
            cluster = Cluster(settings)
            _clusters.append(cluster)
        cluster.users += 1
        return cluster


def release(cluster: Cluster) -> None:
    """End the use of a cluster; the last user closes it."""
    with _clusters_lock:
        cluster.users -= 1
        if cluster.users:
            return
        _clusters.remove(cluster)
    cluster.close()


def _forget_clusters() -> None:
    """Start without clients in the child of a fork; a thread of the parent can have held the lock."""
    global _clusters_lock
    _clusters_lock = threading.Lock()
    _clusters.clear()


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_forget_clusters)
