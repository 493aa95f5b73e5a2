"""A FastStream broker on pykafka2's clients: `from pykafka2.contrib.faststream import KafkaBroker`.

FastStream's Kafka broker is written for aiokafka. `KafkaBroker` is a subclass of it that connects pykafka2's
asyncio clients instead, through three adapters with the calls that FastStream makes: `Producer`, `Consumer`
and `Admin`. Subscribers, publishers, middlewares, test brokers and the command line are FastStream's own.
aiokafka must be installed, since FastStream imports it; none of its clients is created.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

import aiokafka.errors
from aiokafka.producer.producer import _missing as _UNSET  # noqa: N812 - a constant
from aiokafka.structs import ConsumerRecord as AiokafkaRecord
from faststream._internal.parser import DefaultCodec
from faststream._internal.utils.data import filter_by_dict
from faststream.kafka import KafkaBroker as AiokafkaBroker
from faststream.kafka.helpers import AdminService, CreateResult
from faststream.kafka.schemas import Topic
from faststream.kafka.schemas.params import AdminClientConnectionParams, ConsumerConnectionParams

from pykafka2 import NewTopic, TopicPartition
from pykafka2.aio import KafkaAdminClient, KafkaConsumer, KafkaProducer
from pykafka2.aio.batch_builder import BatchBuilder
from pykafka2.errors import ConsumerStopped, KafkaError, TopicAlreadyExists
from pykafka2.types import ConsumerRecord, RecordMetadata

UNUSED_OPTIONS = frozenset({"loop", "api_version", "sasl_kerberos_service_name", "sasl_kerberos_domain_name"})
"""Options of aiokafka that FastStream always passes and that have no counterpart."""

CONSUMER_UNUSED_OPTIONS = frozenset(
    {"consumer_timeout_ms", "rebalance_timeout_ms", "partition_assignment_strategy"}
)
"""aiokafka's defaults of these, which FastStream passes as well, are the behavior of pykafka2."""

GROUP_OPTIONS = frozenset(
    {
        "enable_auto_commit",
        "auto_commit_interval_ms",
        "session_timeout_ms",
        "heartbeat_interval_ms",
        "max_poll_interval_ms",
        "group_instance_id",
    }
)
"""Options that pykafka2 rejects without a group; FastStream passes them to every consumer."""


class KafkaBroker(AiokafkaBroker):
    """FastStream's `KafkaBroker`, with the same arguments, on pykafka2's asyncio clients.

        broker = KafkaBroker("localhost:9092")

        @broker.subscriber("orders", group_id="billing")
        async def bill(order: Order) -> None: ...

    Options that are aiokafka's own are dropped: `loop`, `protocol_version`, `partition_assignment_strategy`
    (members use pykafka2's `range` and `cooperative-sticky`). Errors of pykafka2 reach handlers and callers
    of `publish` unchanged.
    """

    async def _connect(self) -> Callable[..., Any]:
        config, options = self.config.broker_config, self._connection_kwargs
        if not config.consumer_only:
            await config.producer.connect(
                Producer(options),
                serializer=config.fd_config._serializer,
                codec=config.broker_codec or DefaultCodec(),
            )
            config.admin = Admin()
            await config.admin.connect(**options)
        consumer_options, _ = filter_by_dict(ConsumerConnectionParams, options)
        if config.client_rack is not None:
            consumer_options["client_rack"] = config.client_rack
        config.builder = partial(Consumer, **consumer_options)
        return config.builder


# ---------------------------------------------------------------------- producing


class Producer:
    """The calls that FastStream makes of a producer."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        own = options_of(options)
        if type(own.get("partitioner")).__module__.startswith("aiokafka"):
            del own["partitioner"]  # its default, which is pykafka2's as well
        if not own.get("enable_idempotence"):
            # FastStream's default, not a wish: with acks=all records are sent idempotently.
            own.pop("enable_idempotence", None)
        self._producer: KafkaProducer[Any, Any] = KafkaProducer(**own)
        self._closed = False

    async def start(self) -> None:
        await self._producer.start()

    async def stop(self) -> None:
        self._closed = True
        await self._producer.close()

    async def flush(self) -> None:
        await self._producer.flush()

    async def send(
        self,
        topic: str,
        value: bytes | None = None,
        key: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Sequence[tuple[str, bytes]] | None = None,
    ) -> Awaitable[RecordMetadata]:
        return await self._producer.send(topic, value, key, headers, partition, timestamp_ms)

    def create_batch(self) -> BatchBuilder:
        return self._producer.create_batch()

    async def send_batch(
        self, batch: BatchBuilder, topic: str, *, partition: int | None = None
    ) -> Awaitable[RecordMetadata | None]:
        """Send the records of a batch; awaiting the result waits for all and return the first one's.

        The result of an empty batch is None.
        """
        deliveries = [
            await self._producer.send(topic, value, key, headers, partition, timestamp_ms)
            for key, value, timestamp_ms, headers in zip(
                batch.keys, batch.values, batch.timestamps_ms, batch.headers, strict=True
            )
        ]
        return asyncio.ensure_future(first_of(deliveries))


async def first_of(deliveries: Sequence[Awaitable[RecordMetadata]]) -> RecordMetadata | None:
    """Wait for all deliveries; raise the first error. Without deliveries it returns None."""
    outcomes = await asyncio.gather(*deliveries, return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
    return outcomes[0] if outcomes else None  # type: ignore[return-value]


# ---------------------------------------------------------------------- consuming


class Consumer:
    """The calls that FastStream makes of a consumer; records are aiokafka's `ConsumerRecord`."""

    def __init__(self, *, group_id: str | None = None, **options: Any) -> None:
        own = options_of(options, CONSUMER_UNUSED_OPTIONS)
        if group_id is None:
            own = {name: value for name, value in own.items() if name not in GROUP_OPTIONS}
        self._consumer: KafkaConsumer[Any, Any] = KafkaConsumer(group_id=group_id, **own)
        self._group_id = group_id
        self._subscription = SimpleNamespace(topics=frozenset())

    @property
    def _coordinator(self) -> SimpleNamespace:
        """The member id for FastStream's log lines."""
        group = self._consumer.health()["group"] or {}
        return SimpleNamespace(member_id=group.get("member_id", ""))

    def subscribe(self, topics: Iterable[str] = (), pattern: str | None = None, listener: Any = None) -> None:
        names = [*topics]
        self._subscription.topics = frozenset(names)
        # Without a group pykafka2 refuses a listener, and aiokafka never calls it.
        self._consumer.subscribe(names, pattern, listener if self._group_id else None)

    def assign(self, partitions: Iterable[Any]) -> None:
        self._consumer.assign([TopicPartition(*partition) for partition in partitions])

    async def start(self) -> None:
        await self._consumer.start()

    async def stop(self) -> None:
        await self._consumer.close()

    async def getone(self) -> AiokafkaRecord[Any, Any]:
        with AiokafkaErrors():
            return record_of(await self._consumer.getone())

    async def getmany(
        self, *, timeout_ms: float = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[AiokafkaRecord[Any, Any]]]:
        with AiokafkaErrors():
            polled = await self._consumer.getmany(timeout_ms=timeout_ms, max_records=max_records)
        return {partition: [record_of(record) for record in records] for partition, records in polled.items()}

    def __aiter__(self) -> Consumer:
        return self

    async def __anext__(self) -> AiokafkaRecord[Any, Any]:
        try:
            return record_of(await self._consumer.getone())
        except ConsumerStopped:
            raise StopAsyncIteration from None

    async def commit(self) -> None:
        await self._consumer.commit()

    def seek(self, partition: Any, offset: int) -> None:
        self._consumer.seek(TopicPartition(*partition), offset)


class AiokafkaErrors:
    """Raises aiokafka's errors, which FastStream's loop distinguishes, in place of pykafka2's."""

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, ConsumerStopped):
            raise aiokafka.errors.ConsumerStoppedError from error
        if isinstance(error, KafkaError):
            raise aiokafka.errors.KafkaError(f"{type(error).__name__}: {error}") from error


def record_of(record: ConsumerRecord[Any, Any]) -> AiokafkaRecord[Any, Any]:
    """Return aiokafka's record; FastStream decodes every header, so null values become empty ones."""
    return AiokafkaRecord(
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
        timestamp=record.timestamp,
        timestamp_type=record.timestamp_type,
        key=record.key,
        value=record.value,
        checksum=None,
        serialized_key_size=record.serialized_key_size,
        serialized_value_size=record.serialized_value_size,
        headers=tuple((name, b"" if data is None else data) for name, data in record.headers),
    )


# ---------------------------------------------------------------------- administration


class Admin(AdminService):
    """Creates the topics of subscribers, and answers `ping`."""

    async def connect(self, **options: Any) -> None:
        if self.admin_client is None:
            admin_options, _ = filter_by_dict(AdminClientConnectionParams, options)
            self.admin_client = KafkaAdminClient(**options_of(admin_options))

    async def create_topics(self, topics: list[Topic]) -> list[CreateResult]:
        if not topics:
            return []
        wanted = [NewTopic(topic.name, topic.num_partitions, topic.replication_factor) for topic in topics]
        try:
            errors = (await self.client.create_topics(wanted, raise_errors=False)).errors
        except Exception as error:
            return [CreateResult(topic.name, error) for topic in topics]
        return [
            CreateResult(topic.name, None if isinstance(error, TopicAlreadyExists) else error)
            for topic, error in ((topic, errors.get(topic.name)) for topic in topics)
        ]


# ---------------------------------------------------------------------- options


def options_of(options: Mapping[str, Any], unused: frozenset[str] = frozenset()) -> dict[str, Any]:
    """Return pykafka2's options for those that FastStream passes to aiokafka."""
    own = {
        name: value
        for name, value in options.items()
        if name not in UNUSED_OPTIONS and name not in unused and value is not _UNSET
    }
    return {name: value for name, value in own.items() if value is not None}
