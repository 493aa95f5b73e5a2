"""The share consumer's options, with Kafka's names and defaults, and those that share groups do not allow.

Pure data, read when a consumer is created. The machinery is in `pykafka2.options`.
"""

# ruff: noqa: RUF009 (the calls in the class bodies declare attrs fields)
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, Literal, Self, get_args

import attrs

from pykafka2.compression import MAX_OUTPUT_BYTES
from pykafka2.consumer.bad_records import RAISE, read_policy
from pykafka2.errors import ConfigurationError
from pykafka2.hooks import SHARE_CONSUMER_HOOKS
from pykafka2.option_fields import callback, choice, custom, duration, flag, integer, interceptor_list, text
from pykafka2.options import ClientConfig, ClientOptions, OptionTable, Refused
from pykafka2.serializers import SupportsDeserialize
from pykafka2.types import BadRecord, K, V

AcknowledgementMode = Literal["implicit", "explicit"]
AcquireMode = Literal["batch_optimized", "record_limit"]
IMPLICIT = "implicit"
RECORD_LIMIT = "record_limit"


@attrs.define(kw_only=True, frozen=True)
class ShareConsumerOptions(ClientOptions):
    """A share consumer's options.  Durations are in seconds; the table has the public names and units."""

    client_id: str = text(
        "client_id",
        "pykafka2-share-consumer",
        "The name of the client in broker logs and quotas.",
        is_sent=True,
    )
    group_id: str = text("group_id", "", "The share group to join; required.", is_sent=True)
    """Group, high: Give each application a group of its own. All consumers of a share group take records
    from one queue.
    """
    share_acknowledgement_mode: str = choice(
        "share_acknowledgement_mode",
        IMPLICIT,
        get_args(AcknowledgementMode),
        "Whether records are accepted by the next poll() (implicit), or only by acknowledge() and "
        "`with record:` (explicit).",
    )
    """Acknowledgement, high: Set `explicit` if records are processed on other threads or tasks.
    [Queues](../guides/queues.md) compares both.
    """
    share_acquire_mode: str = choice(
        "share_acquire_mode",
        "batch_optimized",
        get_args(AcquireMode),
        "What brokers lock at once: whole batches, all of whose records poll() returns, also beyond "
        "max_poll_records (batch_optimized); or at most max_poll_records (record_limit).",
    )
    """Acknowledgement, high: Set `record_limit`, with a small max_poll_records, if each record takes long:
    then few records wait here while other consumers are idle. Needs Kafka 4.2.
    """
    max_renew: float = duration(
        "max_renew_ms",
        300_000,
        "How long the lock of a record is renewed in its `with record:` block. 0: never.",
        allow_infinite=True,
    )
    """Acknowledgement, high, from pykafka2: Set it to the longest time that a handler may take. After it
    the lock expires, and the brokers deliver the record again.
    """
    max_poll_records: int = integer(
        "max_poll_records",
        500,
        "The maximum number of records that poll() returns; with `batch_optimized` the last batch is whole.",
        minimum=1,
    )
    """Fetching, high: Lower it if each record takes long: the locks of all returned records run at the
    same time.
    """
    max_poll_interval: float = duration(
        "max_poll_interval_ms",
        300_000,
        "A member that does not call poll() for this time leaves its group.",
        minimum_ms=1,
    )
    """Group, medium: Raise it if the work on one poll takes longer. The locks of running `with record:`
    blocks are renewed also after the member has left, and the next poll() joins again.
    """
    client_rack: str = text(
        "client_rack", "", "The rack of the consumer, for assignors that consider it.", is_sent=True
    )
    """Group, low: Set it to the availability zone."""
    default_api_timeout: float = duration(
        "default_api_timeout_ms", 60_000, "The timeout of blocking calls that are made without one."
    )
    """Polling and deserialization, medium: Lower it if calls such as commit() must not wait for so long."""
    fetch_min_bytes: int = integer(
        "fetch_min_bytes", 1, "The broker responds when it has this many bytes, or after fetch_max_wait_ms."
    )
    """Fetching, low: Keep it; a queue is seldom better for waiting."""
    fetch_max_wait: float = duration(
        "fetch_max_wait_ms", 500, "How long the broker waits for fetch_min_bytes.", is_sent=True
    )
    """Fetching, low: Lower it to confirm acknowledgements sooner: they wait for a fetch in flight."""
    fetch_max_bytes: int = integer(
        "fetch_max_bytes",
        52_428_800,
        "The maximum size in bytes of a fetch response; a larger first batch is still returned.",
    )
    """Fetching, medium: Lower it to save memory."""
    key_deserializer: Any = callback(
        "key_deserializer",
        "Converts bytes to keys: f(data), or an object with deserialize(topic, headers, data).",
    )
    """Polling and deserialization, high: Set it to read keys as your own types."""
    value_deserializer: Any = callback(
        "value_deserializer",
        "Converts bytes to values: f(data), or an object with deserialize(topic, headers, data).",
    )
    """Polling and deserialization, high: Set it to read values as your own types."""
    on_bad_record: Any = custom(
        "on_bad_record",
        RAISE,
        read_policy,
        "'raise', 'skip' or a callable of one argument",
        "What to do if a deserializer fails: release the record and raise, log and reject it, or call "
        "f(bad_record), after which it is rejected unless f raises.",
    )
    """Polling and deserialization, medium, from pykafka2: Set `skip` in a group with a dead-letter queue."""
    interceptors: tuple[Any, ...] = interceptor_list(
        "Objects with hooks, such as on_record and on_acknowledgement_commit: see `ConsumerInterceptor`.",
        *SHARE_CONSUMER_HOOKS,
    )
    check_crcs: bool = flag("check_crcs", True, "Whether the checksum of each batch is verified.")
    """Fetching, low: Keep it. `False` saves little time and returns damaged data."""
    max_decompressed_bytes: int = integer(
        "max_decompressed_bytes",
        MAX_OUTPUT_BYTES,
        "The maximum size in bytes of a decompressed batch; the records of a larger one are rejected.",
        minimum=1,
    )
    """Fetching, low, from pykafka2: Raise it for batches that are larger, if you trust their producers."""
    consumer_timeout: float = duration(
        "consumer_timeout_ms",
        float("inf"),
        "Iteration ends after this time without a record.",
        allow_infinite=True,
    )
    """Polling and deserialization, low, from kafka-python: Set it for jobs and tests that are to end when
    the queue is empty.
    """

    @property
    def is_implicit(self) -> bool:
        """Whether the next poll() accepts the records of the last one."""
        return self.share_acknowledgement_mode == IMPLICIT

    @property
    def is_strict(self) -> bool:
        """Whether brokers acquire max_poll_records at most."""
        return self.share_acquire_mode == RECORD_LIMIT

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> Self:
        options = super().from_values(values)
        if not options.group_id:
            raise ConfigurationError("a share consumer needs a group_id; set the name of its share group")
        return options


_BY_GROUP = "the option {} of the share group decides; set it with KafkaAdminClient.alter_configs"
_OF_GROUP = [
    "share_auto_offset_reset",
    "share_delivery_count_limit",
    "share_heartbeat_interval_ms",
    "share_isolation_level",
    "share_record_lock_duration_ms",
    "share_session_timeout_ms",
]
_BY_COORDINATOR = "share groups have their own protocol, in which the coordinator assigns partitions"

SHARE_CONSUMER_OPTIONS = OptionTable(
    ShareConsumerOptions,
    refused={
        "auto_offset_reset": Refused(_BY_GROUP.format("share.auto.offset.reset")),
        "enable_auto_commit": Refused(
            "share groups have no offsets to commit; share_acknowledgement_mode chooses who acknowledges"
        ),
        "auto_commit_interval_ms": Refused("share groups have no offsets to commit"),
        "group_instance_id": Refused("members of share groups own no partitions that they could keep"),
        "isolation_level": Refused(_BY_GROUP.format("share.isolation.level")),
        "partition_assignment_strategy": Refused(_BY_COORDINATOR),
        "session_timeout_ms": Refused(_BY_GROUP.format("share.session.timeout.ms")),
        "heartbeat_interval_ms": Refused(_BY_GROUP.format("share.heartbeat.interval.ms")),
        "group_protocol": Refused(_BY_COORDINATOR),
        "group_remote_assignor": Refused(_BY_COORDINATOR),
        **dict.fromkeys(
            _OF_GROUP,
            Refused("it is an option of the share group; set it with KafkaAdminClient.alter_configs"),
        ),
    },
    ignored={
        "max_in_flight_requests_per_connection": "a share consumer has one request in flight per broker",
        "max_partition_fetch_bytes": "ShareFetch has no limit for a partition; use fetch_max_bytes",
    },
)


class ShareConsumerConfig(ClientConfig, Generic[K, V], total=False):
    """The keyword options of `KafkaShareConsumer`, for type checkers; a test compares it with the table."""

    group_id: str
    share_acknowledgement_mode: AcknowledgementMode
    share_acquire_mode: AcquireMode
    max_renew_ms: float
    max_poll_records: int
    max_poll_interval_ms: float
    client_rack: str
    default_api_timeout_ms: float
    fetch_min_bytes: int
    fetch_max_wait_ms: float
    fetch_max_bytes: int
    key_deserializer: SupportsDeserialize[K] | Callable[[bytes], K] | None
    value_deserializer: SupportsDeserialize[V] | Callable[[bytes], V] | None
    on_bad_record: Literal["raise", "skip"] | Callable[[BadRecord], Any]
    interceptors: Sequence[Any]
    interceptor_classes: Sequence[Any]
    check_crcs: bool
    max_decompressed_bytes: int
    consumer_timeout_ms: float
