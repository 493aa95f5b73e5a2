"""The dead-letter topics of share groups: where rejected and exhausted records go (KIP-1191).

A dead letter has headers that name the record and the reason, and with copy.record.enable its key and value.
Letters of partition n go to partition n modulo the topic's partitions, by a Produce request to its leader.
The topic must allow it, or is created if the brokers allow that. Errors that pass are retried with backoff;
a record whose letter cannot be written is archived all the same. Like Kafka's ShareGroupDLQStateManager.
Access requires the cluster's lock.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Final

import attrs

from pykafka2.broker.controller.topics import NewTopic
from pykafka2.broker.coordinators.inter_broker import InterBrokerSender
from pykafka2.broker.node import Node
from pykafka2.broker.replication.replica_manager import ReplicaManager
from pykafka2.broker.share.options import ShareOptions
from pykafka2.broker.share.surroundings import DeadLetters
from pykafka2.errors import (
    BrokerError,
    CorruptData,
    InvalidConfig,
    KafkaError,
    NotLeaderOrFollower,
    TopicAlreadyExists,
    UnknownServerError,
    UnknownTopicOrPartition,
    error_of,
)
from pykafka2.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from pykafka2.records.batch import RecordBatch
from pykafka2.records.decoder import decode_tuples
from pykafka2.records.encoder import BatchBuilder

logger = logging.getLogger(__name__)

PREFIX: Final = "__dlq.errors."
ENABLE: Final = "errors.deadletterqueue.group.enable"
PRODUCE_VERSION: Final = 13
ALL_REPLICAS: Final = -1
REQUEST_TIMEOUT: Final = 30.0
FIRST_BACKOFF: Final = 1.0
MAX_ATTEMPTS: Final = 5
MAX_READ_BYTES: Final = 1 << 20
"""Bytes of the log that are read at a time to copy records."""

Original = tuple[bytes | None, bytes | None]
"""Key and value of a record."""


@attrs.define(eq=False)
class _Delivery:
    """Dead letters on their way; everything before `next_offset` is written."""

    letters: DeadLetters
    on_done: Callable[[float], object]
    next_offset: int
    attempts: int = 0


class DeadLetterQueue:
    """Writes the dead letters of the share partitions that one broker leads.

    `create_topic` has the controller create a topic, or raises.
    """

    def __init__(
        self,
        node: Node,
        replicas: ReplicaManager,
        sender: InterBrokerSender,
        create_topic: Callable[[NewTopic], object],
        options: ShareOptions,
    ) -> None:
        self._node = node
        self._replicas = replicas
        self._sender = sender
        self._create_topic = create_topic
        self._options = options

    def send(self, letters: DeadLetters, on_done: Callable[[float], object], now: float) -> None:
        """Write dead letters; `on_done` is called once with the time, whether they were written or not."""
        self._step(_Delivery(letters, on_done, letters.first_offset), now)

    def _step(self, delivery: _Delivery, now: float) -> None:
        """Write the next batch of letters."""
        try:
            name = self._topic_of(delivery.letters)
            topic = self._node.image.topics.get(name)
            if topic is None:
                self._create(name)
                topic = self._node.image.topics.get(name)
            if topic is None:
                raise UnknownTopicOrPartition(f"topic {name} is not in the metadata yet")
            partition = delivery.letters.key.partition % len(topic.partitions)
            leader = topic.partitions[partition].leader
            if not self._node.image.is_alive(leader):
                raise NotLeaderOrFollower(f"{name}-{partition} has no leader")
            batch, end_offset = self._batch(
                delivery, topic.config.over(self._node.config).get("max.message.bytes")
            )
        except BrokerError as error:
            self._failed(delivery, error, now)
            return
        request = ProduceRequest(
            acks=ALL_REPLICAS,
            timeout_ms=round(REQUEST_TIMEOUT * 1000),
            topic_data=[
                TopicProduceData(
                    name=name,
                    topic_id=topic.id,
                    partition_data=[PartitionProduceData(index=partition, records=batch)],
                )
            ],
        )

        def on_response(response: ProduceResponse, at: float) -> None:
            code = response.responses[0].partition_responses[0].error_code
            if code:
                self._failed(delivery, error_of(code), at)
            else:
                self._written(delivery, end_offset, at)

        self._sender.send(
            leader,
            request,
            PRODUCE_VERSION,
            on_response,
            lambda error, at: self._failed(delivery, error, at),
            REQUEST_TIMEOUT,
            now,
        )

    def _written(self, delivery: _Delivery, end_offset: int, now: float) -> None:
        delivery.attempts = 0
        delivery.next_offset = end_offset
        if end_offset > delivery.letters.last_offset:
            delivery.on_done(now)
        else:
            self._step(delivery, now)

    def _failed(self, delivery: _Delivery, error: KafkaError, now: float) -> None:
        """Try again later, or give up."""
        delivery.attempts += 1
        passes = isinstance(error, (NotLeaderOrFollower, UnknownTopicOrPartition, TopicAlreadyExists))
        if delivery.attempts < MAX_ATTEMPTS and (passes or not isinstance(error, BrokerError)):
            backoff = FIRST_BACKOFF * 2.0 ** (delivery.attempts - 1)
            self._node.wheel.add(now + backoff, lambda at: self._step(delivery, at))
            return
        letters = delivery.letters
        logger.error(
            "Broker %d could not write dead letters for offsets %d to %d of %s-%d in share group %s: %s",
            self._node.id,
            delivery.next_offset,
            letters.last_offset,
            *letters.key.place,
            letters.key.group_id,
            error,
        )
        delivery.on_done(now)

    # ------------------------------------------------------------------ the topic

    def _topic_of(self, letters: DeadLetters) -> str:
        """Return the dead-letter topic of a group. Raise `InvalidConfig` if it must not be used."""
        name = self._options.of(letters.key.group_id).dead_letter_topic
        config = self._node.config
        prefix = config.get("errors.deadletterqueue.topic.name.prefix")
        if not name or name.startswith("__"):
            raise InvalidConfig(f"{name!r} cannot be a dead-letter topic")
        if prefix and not name.startswith(prefix):
            raise InvalidConfig(f"the dead-letter topic {name} does not start with {prefix}")
        topic = self._node.image.topics.get(name)
        if topic is None and not config.get("errors.deadletterqueue.auto.create.topics.enable"):
            raise InvalidConfig(f"the dead-letter topic {name} does not exist, and brokers do not create it")
        if topic is not None and not topic.config.over(config).get(ENABLE):
            raise InvalidConfig(f"the topic {name} has {ENABLE}=false")
        return name

    def _create(self, name: str) -> None:
        configs = {ENABLE: "true", "message.timestamp.type": "CreateTime"}
        try:
            self._create_topic(NewTopic(name, configs=configs))
        except TopicAlreadyExists:
            pass  # another leader was faster
        except KafkaError as error:
            raise error if isinstance(error, BrokerError) else UnknownServerError(str(error)) from None

    # ------------------------------------------------------------------ the letters

    def _batch(self, delivery: _Delivery, max_bytes: int) -> tuple[bytes, int]:
        """Return a batch of the next letters that fit, and the offset after them."""
        letters, offset = delivery.letters, delivery.next_offset
        at_ms = self._node.clock.wall_ms()
        builder = BatchBuilder(max_bytes=max_bytes)
        copies = self._options.of(letters.key.group_id).copies_dead_letters
        originals = self._originals(letters, offset, max_bytes) if copies else iter(())
        original = next(originals, None)
        while offset <= letters.last_offset:
            key: bytes | None = None
            value: bytes | None = None
            while original is not None and original[0] < offset:
                original = next(originals, None)
            if original is not None and original[0] == offset:
                key, value = original[1]
            if builder.append(at_ms, key, value, headers_of(letters, offset)) is None:
                break
            offset += 1
        return builder.build(), offset

    def _originals(self, letters: DeadLetters, offset: int, max_bytes: int) -> Iterator[tuple[int, Original]]:
        """Iterate over the records that the log still has, by offset; larger ones are left out."""
        try:
            log = self._replicas.leader_of(letters.key.place).log
            while offset <= letters.last_offset:
                found = log.read(offset, log.high_watermark, MAX_READ_BYTES, min_one=True).batches
                for batch in found:
                    if not batch.is_control:
                        yield from _records_of(batch, letters, max_bytes)
                if not found:
                    return
                offset = found[-1].next_offset
        except (BrokerError, CorruptData) as error:
            logger.warning("Broker %d cannot copy records to dead letters: %s", self._node.id, error)


def _records_of(batch: RecordBatch, letters: DeadLetters, max_bytes: int) -> Iterator[tuple[int, Original]]:
    for offset, _, key, value, _ in decode_tuples(batch, keeps_headers=False):
        if not letters.first_offset <= offset <= letters.last_offset:
            continue
        if len(key or b"") + len(value or b"") <= max_bytes:
            yield offset, (None if key is None else bytes(key), None if value is None else bytes(value))


def headers_of(letters: DeadLetters, offset: int) -> list[tuple[str, bytes]]:
    """Return the headers of a dead letter, named as in Apache Kafka 4.4."""
    texts = {
        "topic": letters.key.topic,
        "partition": str(letters.key.partition),
        "offset": str(offset),
        "group": letters.key.group_id,
        "delivery.count": str(letters.delivery_count),
        "message": letters.cause,
    }
    return [(PREFIX + name, text.encode()) for name, text in texts.items()]
