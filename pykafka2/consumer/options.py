"""The consumer's options, with Kafka's names and defaults, and the options of each group protocol.

Pure data, read when a consumer is created. The machinery is in `pykafka2.options`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Generic, Literal, Self, get_args

import attrs

from pykafka2.compression import MAX_OUTPUT_BYTES
from pykafka2.consumer.bad_records import RAISE, read_policy
from pykafka2.consumer.reset_policy import LATEST
from pykafka2.consumer.reset_policy import read_policy as read_reset_policy
from pykafka2.errors import ConfigurationError
from pykafka2.hooks import CONSUMER_HOOKS
from pykafka2.option_fields import (
    OPTION,
    callback,
    custom,
    duration,
    flag,
    integer,
    interceptor_list,
    sendable_text,
    text,
)
from pykafka2.options import ClientConfig, ClientOptions, OptionTable, Refused
from pykafka2.serializers import SupportsDeserialize
from pykafka2.types import READ_COMMITTED, READ_UNCOMMITTED, BadRecord, IsolationLevel, K, V

if TYPE_CHECKING:
    from pykafka2.consumer.assignors.assignor import Assignor


PublicName = Callable[[str], str]
"""Returns the public name of an option by the name of its field."""

CLASSIC = "classic"
CONSUMER = "consumer"
GROUPS_ONLY = (
    "enable_auto_commit",
    "enable_auto_offset_store",
    "group_instance_id",
    "partition_assignment_strategy",
    "session_timeout",
    "heartbeat_interval",
    "max_poll_interval",
    "group_protocol",
    "group_remote_assignor",
)
"""Options that have no effect without a group_id."""
_HARMLESS = {"enable_auto_commit": False, "enable_auto_offset_store": True, "group_protocol": CLASSIC}
"""Values of such options that are allowed without a group_id."""

OF_CLASSIC_GROUPS = {
    "partition_assignment_strategy": "the coordinator assigns; name its assignor with group_remote_assignor",
    "session_timeout": "the brokers decide (group.consumer.session.timeout.ms, or the group's "
    "consumer.session.timeout.ms)",
    "heartbeat_interval": "the brokers decide (group.consumer.heartbeat.interval.ms, or the group's "
    "consumer.heartbeat.interval.ms)",
}
"""Options that the KIP-848 protocol does not use, and what decides instead."""


def check_protocol(protocol: str, values: Mapping[str, Any], public_name: PublicName) -> None:
    """Raise ConfigurationError for options of the other group protocol."""
    if protocol == CLASSIC:
        if values.get("group_remote_assignor") is not None:
            raise ConfigurationError(
                f"group_remote_assignor={values['group_remote_assignor']!r} works only with "
                "group_protocol='consumer'; for classic groups set partition_assignment_strategy"
            )
        return
    for name, instead in OF_CLASSIC_GROUPS.items():
        if name in values:
            raise ConfigurationError(
                f"{public_name(name)} works only with group_protocol='classic'; leave it out: with "
                f"'consumer' {instead}"
            )


def refuse_without_group(values: Mapping[str, Any], public_name: PublicName) -> None:
    """Raise ConfigurationError for options of groups without a group_id."""
    for name in GROUPS_ONLY:
        if name in values and values[name] != _HARMLESS.get(name):
            # Durations have become seconds; nothing else is a float.
            shown = f"{values[name] * 1000:g}" if isinstance(values[name], float) else repr(values[name])
            raise ConfigurationError(
                f"{public_name(name)}={shown} needs a group_id; set one, or leave the option out"
            )


# ruff: noqa: RUF009 (the calls in the class bodies declare attrs fields)


AutoOffsetReset = Literal["earliest", "latest", "none"]
IsolationName = Literal["read_uncommitted", "read_committed"]
GroupProtocol = Literal["classic", "consumer"]
AssignorName = Literal["range", "roundrobin", "sticky", "cooperative-sticky"]

if TYPE_CHECKING:
    GivenAssignor = AssignorName | Assignor | type[Assignor]


def _read_name(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError
    return sendable_text(value)


def _read_isolation(value: Any) -> str:
    name = value.name.lower() if isinstance(value, IsolationLevel) else value
    if not isinstance(name, str) or name.lower() not in get_args(IsolationName):
        raise ValueError
    return name.lower()


def _read_protocol(value: Any) -> str:
    if not isinstance(value, str) or value.lower() not in (CLASSIC, CONSUMER):
        raise ValueError
    return value.lower()


def _read_strategy(value: Any) -> Any:
    """Keep the value as it is: assignors have state, so each consumer creates its own
    (assignors/registry.py)."""
    return tuple(value) if isinstance(value, list) else value


@attrs.define(kw_only=True, frozen=True)
class ConsumerOptions(ClientOptions):
    """A consumer's options.  Durations are in seconds; the table has the public names and units."""

    client_id: str = text(
        "client_id",
        "pykafka2-consumer",
        "The name of the client in broker logs and quotas.",
        is_sent=True,
    )
    default_api_timeout: float = duration(
        "default_api_timeout_ms", 60_000, "The timeout of blocking calls that are made without one."
    )
    """Polling and deserialization, medium: Lower it if calls such as commit() and position() must not
    wait for so long.
    """
    key_deserializer: Any = callback(
        "key_deserializer",
        "Converts bytes to keys: f(data), or an object with deserialize(topic, headers, data).",
    )
    """Polling and deserialization, high: Set it to read keys as your own types;
    [serializers](serializers.md) lists ready ones.
    """
    value_deserializer: Any = callback(
        "value_deserializer",
        "Converts bytes to values: f(data), or an object with deserialize(topic, headers, data).",
    )
    """Polling and deserialization, high: Set it to read values as your own types;
    [serializers](serializers.md) lists ready ones.
    """
    auto_offset_reset: str = custom(
        "auto_offset_reset",
        LATEST,
        read_reset_policy,
        "'earliest', 'latest', 'none', a timedelta, or 'by_duration:' and an ISO 8601 duration such as PT1H",
        "Where to start if a partition has no committed offset, or its position is outside the log.",
    )
    """Offsets and commits, medium: Set `earliest` for a group that must not miss records, and `none` to
    get an error instead of a jump. [Commits](../guides/commits.md#the-start-position) explains.
    """
    isolation_level: str = custom(
        "isolation_level",
        "read_uncommitted",
        _read_isolation,
        "one of 'read_uncommitted', 'read_committed', or an IsolationLevel",
        "Whether records of open and aborted transactions are returned.",
    )
    """Fetching, medium: Set `read_committed` for topics that are written in
    [transactions](../guides/transactions.md).
    """
    fetch_min_bytes: int = integer(
        "fetch_min_bytes",
        1,
        "The broker responds when it has this many bytes, or after fetch_max_wait_ms.",
    )
    """Fetching, high: Raise it, and set fetch_max_wait_ms to the delay that is acceptable, for fewer
    requests on quiet topics. [Tuning](../guides/tuning.md#fetch_min_bytes-and-fetch_max_wait_ms) shows
    the measured effect.
    """
    fetch_max_wait: float = duration(
        "fetch_max_wait_ms",
        500,
        "How long the broker waits for fetch_min_bytes.",
        is_sent=True,
    )
    """Fetching, low: Lower it together with a larger fetch_min_bytes."""
    enable_incremental_fetch_sessions: bool = flag(
        "enable_incremental_fetch_sessions",
        True,
        "Whether fetch sessions are used, so that requests contain only changes (KIP-227).",
    )
    """Fetching, low, from kafka-python: Set `False` only to examine a broker's trouble with fetch
    sessions.
    """
    fetch_max_bytes: int = integer(
        "fetch_max_bytes",
        52_428_800,
        "The maximum size in bytes of a fetch response; a larger first batch is still returned.",
    )
    """Fetching, medium: Lower it to save memory. It covers all partitions of one broker."""
    max_partition_fetch_bytes: int = integer(
        "max_partition_fetch_bytes",
        1_048_576,
        "The maximum size in bytes per partition of a response; a larger first batch is still returned.",
    )
    """Fetching, high: Lower it to save memory with hundreds of partitions; 128 KiB are enough for full
    throughput. [Tuning](../guides/tuning.md#max_partition_fetch_bytes) shows the measured effect.
    """
    queued_max_bytes: int = integer(
        "queued_max_bytes",
        52_428_800,
        "The maximum size in bytes of prefetched records of all partitions.",
        minimum=1,
    )
    """Fetching, medium, from pykafka2: Lower it to limit the memory of the consumer."""
    max_poll_records: int = integer(
        "max_poll_records", 500, "The maximum number of records that poll() returns.", minimum=1
    )
    """Polling and deserialization, medium: Lower it if each record takes long, so that poll() is called
    within max_poll_interval_ms. It does not change what is fetched.
    """
    max_decompressed_bytes: int = integer(
        "max_decompressed_bytes",
        MAX_OUTPUT_BYTES,
        "The maximum size in bytes of a decompressed batch; a larger one raises `CorruptData`.",
        minimum=1,
    )
    """Fetching, low, from pykafka2: Raise it for batches that are larger, if you trust their producers."""
    on_bad_record: Any = custom(
        "on_bad_record",
        RAISE,
        read_policy,
        "'raise', 'skip' or a callable of one argument",
        "What to do if a deserializer fails or a batch is damaged: raise and stay at it, log and skip it, "
        "or call f(bad_record), which skips it unless it raises; asyncio consumers await it.",
    )
    """Polling and deserialization, medium, from pykafka2: Pass a function that writes the record to a
    dead-letter topic. [Consuming](../guides/consuming.md#records-that-cannot-be-read) has an example.
    """
    interceptors: tuple[Any, ...] = interceptor_list(
        "Objects with hooks, such as on_consume and on_commit: see `ConsumerInterceptor`.",
        *CONSUMER_HOOKS,
    )
    check_crcs: bool = flag("check_crcs", True, "Whether the checksum of each batch is verified.")
    """Fetching, low: Keep it. `False` saves little time and returns damaged data."""
    consumer_timeout: float = duration(
        "consumer_timeout_ms",
        float("inf"),
        "Iteration ends after this time without a record.",
        allow_infinite=True,
    )
    """Polling and deserialization, low, from kafka-python: Set it for jobs and tests that are to end when
    everything has been read.
    """
    group_id: str | None = text("group_id", None, "The consumer group to join.", is_sent=True)
    """Group, high: Give each application a group of its own. Consumers of one group share the partitions;
    without a group nothing is committed.
    """
    enable_auto_commit: bool = flag(
        "enable_auto_commit", True, "Whether the offsets of returned records are committed automatically."
    )
    """Offsets and commits, medium: Set `False` to commit after the work is done.
    [Commits](../guides/commits.md) compares the guarantees.
    """
    enable_auto_offset_store: bool = flag(
        "enable_auto_offset_store",
        True,
        "Whether the offsets of returned records are committed; False commits only those of store_offsets().",
    )
    """Offsets and commits, low, from librdkafka: Set `False` if records are finished out of order or on
    other threads.
    """
    default_offset_commit_callback: Any = callback(
        "default_offset_commit_callback",
        "Called as f(offsets, error) after asynchronous commits without a callback; the default logs errors.",
        is_function=True,
    )
    """Offsets and commits, low, from kafka-python: Set it to count failed commits."""
    auto_commit_interval: float = duration(
        "auto_commit_interval_ms", 5_000, "The minimum time between two automatic commits."
    )
    """Offsets and commits, low: Lower it to read fewer records twice after a crash; each commit is one
    request.
    """
    session_timeout: float = duration(
        "session_timeout_ms",
        45_000,
        "The coordinator removes a member without a heartbeat for this time.",
        is_sent=True,
    )
    """Group, high: Lower it to notice a crashed member sooner; raise it if pauses of a machine remove
    healthy members. Brokers accept 6 seconds to 30 minutes by default. Only with
    `group_protocol="classic"`.
    """
    heartbeat_interval: float = duration("heartbeat_interval_ms", 3_000, "The time between two heartbeats.")
    """Group, high: At most a third of session_timeout_ms. Lower it to notice a rebalance sooner. Only
    with `group_protocol="classic"`.
    """
    max_poll_interval: float = duration(
        "max_poll_interval_ms",
        300_000,
        "A member that does not call poll() for this time leaves its group.",
        minimum_ms=1,
        is_sent=True,
    )
    """Group, medium: Raise it, or lower max_poll_records, if the work on one poll takes longer.
    [Consuming](../guides/consuming.md#staying-a-member) explains.
    """
    group_instance_id: str | None = custom(
        "group_instance_id",
        None,
        _read_name,
        "a string that is not empty",
        "The id of a static member, which can restart within session_timeout_ms without a rebalance.",
    )
    """Group, medium: Set it to the name of the instance, such as that of a pod in a StatefulSet, to
    restart members without rebalances.
    """
    partition_assignment_strategy: Any = custom(
        "partition_assignment_strategy",
        ("range", "cooperative-sticky"),
        _read_strategy,
        "an assignor (a name, class or object), or a list of them",
        "How the leader of the group assigns partitions; the first that all members support is used.",
    )
    """Group, medium: Set `cooperative-sticky` alone to rebalance without interruption, once all members
    support it. [Assignors](../guides/assignors.md) compares them. Only with `group_protocol="classic"`.
    """
    client_rack: str = text(
        "client_rack",
        "",
        "The rack of the consumer: it fetches from replicas there if the brokers allow it (KIP-392), and "
        "assignors prefer partitions with such a replica.",
        is_sent=True,
    )
    """Fetching, low: Set it to the availability zone to save traffic between zones. [The nearest
    replica](../guides/nearest-replica.md) names the settings that the brokers need.
    """
    group_protocol: str = custom(
        "group_protocol",
        CLASSIC,
        _read_protocol,
        "'classic' or 'consumer'",
        "What assigns the partitions: the leader of the group (classic), or the coordinator (consumer: "
        "KIP-848, brokers 4.0 or later).",
    )
    """Group, high: Set `consumer` with brokers 4.0 or later: rebalances are shorter, and members go on
    reading meanwhile. [Consuming](../guides/consuming.md#the-consumer-protocol-kip-848) compares both.
    """
    group_remote_assignor: str | None = custom(
        "group_remote_assignor",
        None,
        _read_name,
        "a string that is not empty",
        "The coordinator's assignor with `group_protocol=\"consumer\"`; the default is the brokers' first.",
    )
    """Group, medium: Choose `uniform`, `range`, or an assignor from the configuration of your brokers."""
    exclude_internal_topics: bool = flag(
        "exclude_internal_topics", True, "Whether patterns and topics() exclude internal topics."
    )
    """Metadata and retries, medium: Set `False` to read `__consumer_offsets` by a pattern; subscribe() by
    name works anyway.
    """

    @property
    def isolation(self) -> int:
        """The protocol's number of the isolation level."""
        return READ_COMMITTED if self.isolation_level == "read_committed" else READ_UNCOMMITTED

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> Self:
        options = super().from_values(values)
        if options.group_id == "":
            raise ConfigurationError("group_id='' is empty; set a name, or leave it out")
        check_protocol(options.group_protocol, values, _public_name)
        if options.heartbeat_interval >= options.session_timeout:
            raise ConfigurationError(
                f"heartbeat_interval_ms={options.heartbeat_interval * 1000:g} is not less than "
                f"session_timeout_ms={options.session_timeout * 1000:g}; set it to a third of "
                "session_timeout_ms or less"
            )
        if options.group_id is None:
            refuse_without_group(values, _public_name)
            return attrs.evolve(options, enable_auto_commit=False)
        return options


def _public_name(field: str) -> str:
    name: str = attrs.fields_dict(ConsumerOptions)[field].metadata[OPTION].name
    return name


CONSUMER_OPTIONS = OptionTable(
    ConsumerOptions,
    refused={
        "share_acknowledgement_mode": Refused("use KafkaShareConsumer", harmless=("implicit",)),
        "share_acquire_mode": Refused("use KafkaShareConsumer", harmless=("batch_optimized",)),
    },
    ignored={
        "max_in_flight_requests_per_connection": "a consumer has one fetch in flight per broker",
    },
)


class ConsumerConfig(ClientConfig, Generic[K, V], total=False):
    """The keyword options of `KafkaConsumer`, for type checkers; a test compares it with the table."""

    default_api_timeout_ms: float
    key_deserializer: SupportsDeserialize[K] | Callable[[bytes], K] | None
    value_deserializer: SupportsDeserialize[V] | Callable[[bytes], V] | None
    auto_offset_reset: AutoOffsetReset | timedelta
    isolation_level: IsolationName | IsolationLevel
    fetch_min_bytes: int
    fetch_max_wait_ms: float
    enable_incremental_fetch_sessions: bool
    fetch_max_bytes: int
    max_partition_fetch_bytes: int
    queued_max_bytes: int
    max_poll_records: int
    max_decompressed_bytes: int
    on_bad_record: Literal["raise", "skip"] | Callable[[BadRecord], Any]
    interceptors: Sequence[Any]
    interceptor_classes: Sequence[Any]
    check_crcs: bool
    consumer_timeout_ms: float
    group_id: str | None
    enable_auto_commit: bool
    enable_auto_offset_store: bool
    default_offset_commit_callback: Callable[[Any, Any], Any] | None
    auto_commit_interval_ms: float
    session_timeout_ms: float
    heartbeat_interval_ms: float
    max_poll_interval_ms: float
    group_instance_id: str | None
    partition_assignment_strategy: GivenAssignor | Sequence[GivenAssignor]
    client_rack: str
    group_protocol: GroupProtocol
    group_remote_assignor: str | None
    exclude_internal_topics: bool
