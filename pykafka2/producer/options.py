"""The producer's options: Kafka's names and defaults, and which of them contradict each other.

Pure data; read on the caller's thread when a producer is created. The table machinery is `pykafka2.options`.
"""

# ruff: noqa: RUF009 (the calls in the class bodies declare attrs fields)
from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal, Self, SupportsIndex, TypeVar, get_args

import attrs

from pykafka2.errors import ConfigurationError
from pykafka2.hooks import PRODUCER_HOOKS
from pykafka2.option_fields import (
    INT64_MAX,
    callback,
    choice,
    custom,
    duration,
    flag,
    integer,
    interceptor_list,
    sendable_text,
    text,
)
from pykafka2.options import ClientConfig, ClientOptions, OptionTable, Refused
from pykafka2.producer.arguments import K, V
from pykafka2.serializers import SupportsSerialize, ToBytes

if TYPE_CHECKING:
    from pykafka2.producer.partitioning.partitioners import Partitioner

Acks = Literal[0, 1, -1, "0", "1", "-1", "all"]
CompressionType = Literal["none", "gzip", "snappy", "lz4", "zstd"]
PartitionerName = Literal[
    "consistent",
    "consistent_random",
    "fnv1a",
    "fnv1a_random",
    "murmur2",
    "murmur2_random",
    "murmur2_round_robin",
    "random",
    "round_robin",
    "org.apache.kafka.clients.producer.RoundRobinPartitioner",
]

logger = logging.getLogger(__name__)

ACKS_ALL = -1
MAX_IN_FLIGHT_IDEMPOTENT = 5
"""A broker recognizes the last five batches of a producer per partition."""

_ACKS = {"all": ACKS_ALL, "-1": ACKS_ALL, -1: ACKS_ALL, "0": 0, 0: 0, "1": 1, 1: 1}
_TWO_PHASE_COMMIT = "transactions that an external coordinator prepares are not implemented"


def _read_acks(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError
    key = value.lower() if isinstance(value, str) else value
    if key not in _ACKS:
        raise ValueError
    return _ACKS[key]


def _read_transactional_id(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError
    return sendable_text(value)


@attrs.define(kw_only=True, frozen=True)
class ProducerOptions(ClientOptions):
    """A producer's options. Durations are in seconds; the table has the public names and units."""

    client_id: str = text(
        "client_id",
        "pykafka2-producer",
        "The name of the client in broker logs and quotas.",
        is_sent=True,
    )
    key_serializer: Any = callback(
        "key_serializer",
        "Converts keys to bytes: f(key), or an object with serialize(topic, headers, data).",
    )
    value_serializer: Any = callback(
        "value_serializer",
        "Converts values to bytes: f(value), or an object with serialize(topic, headers, data).",
    )
    acks: int = custom(
        "acks",
        "all",
        _read_acks,
        "0, 1, -1 or 'all'",
        "The replicas that must have a batch before its delivery succeeds.",
    )
    enable_idempotence: bool = flag(
        "enable_idempotence", True, "Whether brokers detect retried batches, so that no record is duplicated."
    )
    retries: int = integer(
        "retries",
        2**31 - 1,
        "The maximum number of retries of a batch; normally delivery_timeout_ms ends them first.",
        infinity_is_maximum=True,
    )
    delivery_timeout: float = duration(
        "delivery_timeout_ms", 120_000, "The maximum time from send() to the result of a record."
    )
    linger: float = duration("linger_ms", 5, "How long a batch waits for more records before it is sent.")
    batch_size: int = integer(
        "batch_size",
        16_384,
        "The size in bytes at which a batch is sent; send_many uses bulk_batch_size instead.",
    )
    bulk_batch_size: int = integer(
        "bulk_batch_size",
        1_048_576,
        "The size in bytes of send_many's batches, before compression; at most max_request_size.",
    )
    buffer_memory: int = integer(
        "buffer_memory",
        33_554_432,
        "The maximum size in bytes of all records that are queued or in flight.",
        maximum=INT64_MAX,
    )
    max_block: float = duration(
        "max_block_ms", 60_000, "How long send() waits for metadata and for free buffer_memory."
    )
    max_request_size: int = integer(
        "max_request_size", 1_048_576, "The maximum size in bytes of a request, and therefore of a record."
    )
    max_in_flight: int = integer(
        "max_in_flight_requests_per_connection",
        5,
        "The maximum number of requests in flight to one broker.",
        minimum=1,
    )
    compression_type: str = choice(
        "compression_type",
        "none",
        get_args(CompressionType),
        "The compression codec of batches.",
    )
    compression_gzip_level: int = integer(
        "compression_gzip_level",
        -1,
        "The level of gzip: 1 (fast) to 9 (small), or -1 for gzip's own default.",
        minimum=-1,
        maximum=9,
    )
    compression_lz4_level: int = integer(
        "compression_lz4_level",
        9,
        "The level of lz4: 9 is the fast compressor, all others are slower and write less.",
        minimum=1,
        maximum=17,
    )
    compression_zstd_level: int = integer(
        "compression_zstd_level",
        3,
        "The level of zstd: higher is smaller and slower.",
        minimum=-131072,
        maximum=22,
    )
    partitioner: Any = callback(
        "partitioner",
        "Selects the partition of a record without one: a strategy by name, an object with partition(topic, "
        "key, key_bytes, value, value_bytes, cluster), or kafka-python's f(key_bytes, all_partitions, "
        "available_partitions).  None selects murmur2 of the key, as in the Java client; records without a "
        "key stick to one partition for batch_size bytes.",
        aliases=("partitioner_class",),
        legal="a name, a callable, or an object with a method partition",
    )
    partitioner_ignore_keys: bool = flag(
        "partitioner_ignore_keys",
        False,
        "Whether records with a key are distributed like those without one; only without a partitioner.",
    )
    partitioner_adaptive_partitioning_enable: bool = flag(
        "partitioner_adaptive_partitioning_enable",
        True,
        "Whether partitions with long queues get fewer of the records without a key.",
    )
    partitioner_availability_timeout: float = duration(
        "partitioner_availability_timeout_ms",
        0,
        "Records without a key avoid partitions whose leader accepted nothing for this time; 0: never.",
    )
    partitioner_rack_aware: bool = flag(
        "partitioner_rack_aware",
        False,
        "Whether records without a key prefer partitions whose leader is in client_rack (KIP-1123).",
    )
    client_rack: str = text("client_rack", "", "The rack of the producer, as in the brokers' broker.rack.")
    interceptors: tuple[Any, ...] = interceptor_list(
        "Objects with hooks, such as on_send and on_acknowledgement: see `ProducerInterceptor`.",
        *PRODUCER_HOOKS,
    )
    transactional_id: str | None = custom(
        "transactional_id",
        None,
        _read_transactional_id,
        "a string that is not empty",
        "The id of the producer for transactions; all records must then be sent in transactions.",
    )
    transaction_timeout: float = duration(
        "transaction_timeout_ms",
        60_000,
        "The coordinator aborts a transaction that is open for this time.",
        minimum_ms=1,
        is_sent=True,
    )
    metadata_max_idle: float = duration(
        "metadata_max_idle_ms",
        300_000,
        "The client drops the metadata of a topic that is unused for this time.",
        minimum_ms=5_000,
    )

    @property
    def compression_level(self) -> int | None:
        """The level for the codec chosen; None for a codec without levels."""
        levels = {
            "gzip": self.compression_gzip_level,
            "lz4": self.compression_lz4_level,
            "zstd": self.compression_zstd_level,
        }
        return levels.get(self.compression_type)

    @classmethod
    def from_values(cls, settings: Mapping[str, Any]) -> Self:
        values = dict(settings)
        values.setdefault("default_api_timeout", values.get("max_block", 60.0))
        options = super().from_values(values)
        if options.compression_gzip_level == 0:
            raise ConfigurationError(
                "compression_gzip_level=0 is not valid; use 1 to 9, or -1 for gzip's own default"
            )
        if options.partitioner_rack_aware and not options.client_rack.strip():
            raise ConfigurationError(
                "partitioner_rack_aware=True needs client_rack; set it to the rack of the producer"
            )
        options = _with_delivery_timeout(options, settings)
        return _with_idempotence(options, settings)


P = TypeVar("P", bound=ProducerOptions)


def _with_delivery_timeout(options: P, settings: Mapping[str, Any]) -> P:
    """Return options whose delivery timeout covers linger and one request; raise if the user set less."""
    needed = options.linger + options.request_timeout
    if options.delivery_timeout >= needed:
        return options
    if "delivery_timeout" in settings:
        raise ConfigurationError(
            f"delivery_timeout_ms={options.delivery_timeout * 1000:g} is less than linger_ms + "
            f"request_timeout_ms = {needed * 1000:g}; raise it, or lower one of the two"
        )
    logger.warning("delivery_timeout_ms raised to linger_ms + request_timeout_ms = %g", needed * 1000)
    return attrs.evolve(options, delivery_timeout=needed)


def _with_idempotence(options: P, settings: Mapping[str, Any]) -> P:
    """Return options whose acks, retries and max_in_flight fit idempotence (KIP-679; as in Java 4.x).

    If enable_idempotence was not set, acks and retries disable it with a log line. Too many requests in
    flight raise nevertheless, because order would be lost silently.
    """
    if not options.enable_idempotence:
        if options.transactional_id is not None:
            raise ConfigurationError(
                "enable_idempotence=False contradicts transactional_id, which needs it; drop one of them"
            )
        return options
    is_required = "enable_idempotence" in settings or options.transactional_id is not None
    because = "enable_idempotence=True" if "enable_idempotence" in settings else "transactional_id"
    if options.max_in_flight > MAX_IN_FLIGHT_IDEMPOTENT:
        raise ConfigurationError(
            f"max_in_flight_requests_per_connection={options.max_in_flight} contradicts enable_idempotence: "
            f"with it at most {MAX_IN_FLIGHT_IDEMPOTENT}; lower it or set enable_idempotence=False"
        )
    conflict = ""
    if options.acks != ACKS_ALL:
        conflict = f"acks={options.acks}"
    elif options.retries == 0:
        conflict = "retries=0"
    if not conflict:
        return options
    if is_required:
        raise ConfigurationError(
            f"{conflict} contradicts {because}, which needs acks='all' and retries of at least 1; "
            "drop one of them"
        )
    logger.info("enable_idempotence is disabled because of %s", conflict)
    return attrs.evolve(options, enable_idempotence=False)


PRODUCER_OPTIONS = OptionTable(
    ProducerOptions,
    refused={
        "transaction_two_phase_commit_enable": Refused(_TWO_PHASE_COMMIT, harmless=(False,)),
    },
)


class ProducerConfig(ClientConfig, Generic[K, V], total=False):
    """The keyword options of `KafkaProducer`, for type checkers; a test compares it with the table."""

    key_serializer: SupportsSerialize[K] | ToBytes[K] | None
    value_serializer: SupportsSerialize[V] | ToBytes[V] | None

    metadata_max_idle_ms: float
    acks: Acks
    enable_idempotence: bool
    retries: int | float
    delivery_timeout_ms: float
    linger_ms: float
    batch_size: int
    bulk_batch_size: int
    buffer_memory: int
    max_block_ms: float
    max_request_size: int
    max_in_flight_requests_per_connection: int
    transactional_id: str | None
    transaction_timeout_ms: float
    compression_type: CompressionType | None
    compression_gzip_level: int
    compression_lz4_level: int
    compression_zstd_level: int
    partitioner: PartitionerName | Partitioner | Callable[..., SupportsIndex] | None
    partitioner_class: PartitionerName | Partitioner | Callable[..., SupportsIndex] | None
    partitioner_ignore_keys: bool
    partitioner_adaptive_partitioning_enable: bool
    partitioner_availability_timeout_ms: float
    partitioner_rack_aware: bool
    client_rack: str
    interceptors: Sequence[Any]
    interceptor_classes: Sequence[Any]
