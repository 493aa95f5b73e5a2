"""Views of partitions, logs and connections: plain values of the moment."""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from pykafka2.broker.base.image import NO_LEADER, address_text, loopback_of
from pykafka2.broker.config.keys import nearest
from pykafka2.broker.log.transaction_index import AbortedTransaction
from pykafka2.broker.replication.replica import FollowerState
from pykafka2.errors import ConfigurationError, NotLeaderOrFollower
from pykafka2.records.batch import RecordBatch
from pykafka2.testing.running import Running
from pykafka2.types import ConsumerRecord


@attrs.define(frozen=True)
class ControllerView:
    """The broker that is the controller (-1: none), and its epoch."""

    id: int
    epoch: int


@attrs.define(frozen=True)
class BrokerView:
    """A broker of a cluster in another process."""

    id: int
    host: str
    port: int
    is_running: bool
    is_paused: bool

    @property
    def address(self) -> str:
        """The address of its first listener, or with all interfaces that of loopback."""
        return address_text(loopback_of(self.host), self.port)


@attrs.define(frozen=True)
class ReplicaView:
    """One replica; its broker's offsets."""

    broker: int
    is_leader: bool
    is_running: bool
    log_start_offset: int
    log_end_offset: int
    high_watermark: int
    last_caught_up: float | None = None
    """When it last had caught up, in seconds of the brokers' monotonic clock, by the leader's account; None
    for the leader itself, and without a leader."""


@attrs.define(frozen=True)
class PartitionView:
    """A partition; `leader` is -1 without a leader.  `controller_epoch` is that of the controller of the last
    change.
    """

    topic: str
    partition: int
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    replicas: dict[int, ReplicaView]
    controller_epoch: int = -1

    @property
    def high_watermark(self) -> int:
        """The leader's high watermark; -1 without a leader."""
        leader = self.replicas.get(self.leader)
        return -1 if leader is None else leader.high_watermark

    @property
    def log_end_offset(self) -> int:
        """The leader's log end offset; -1 without a leader."""
        leader = self.replicas.get(self.leader)
        return -1 if leader is None else leader.log_end_offset


ISOLATIONS = ("read_uncommitted", "read_committed")


@attrs.define(frozen=True)
class LogView:
    """A replica's log: all appended records, including those above the high watermark.

    With `isolation="read_committed"`, records, values and keys are those that such a consumer reads: below
    `last_stable_offset`, and without those of aborted transactions.
    """

    topic: str
    partition: int
    broker: int
    log_start_offset: int
    log_end_offset: int
    high_watermark: int
    last_stable_offset: int
    """Start of the first open transaction; the high watermark if none is open."""
    _batches: tuple[RecordBatch, ...]
    _aborted: tuple[AbortedTransaction, ...]

    def batches(self) -> list[RecordBatch]:
        """Return the batches as appended, including control batches, in log order."""
        return list(self._batches)

    def records(self, isolation: str = "read_uncommitted") -> Iterator[ConsumerRecord]:
        """Return records in order, without control records; keys and values are bytes.

        Raise `ConfigurationError` for an unknown isolation level.
        """
        if isolation not in ISOLATIONS:
            raise ConfigurationError(
                f"isolation={isolation!r} is illegal. Choose one of {', '.join(map(repr, ISOLATIONS))}."
                f"{nearest(str(isolation), ISOLATIONS)}"
            )
        return self._records(is_committed_only=isolation == "read_committed")

    def values(self, isolation: str = "read_uncommitted") -> list[bytes | None]:
        """Return the values of `records()`, in log order."""
        return [record.value for record in self.records(isolation)]

    def keys(self, isolation: str = "read_uncommitted") -> list[bytes | None]:
        """Return the keys of `records()`, in log order."""
        return [record.key for record in self.records(isolation)]

    def _records(self, is_committed_only: bool) -> Iterator[ConsumerRecord]:
        from pykafka2.records.decoder import decode_records  # the broker itself never decodes records

        for batch in self._batches:
            is_hidden = is_committed_only and (
                batch.base_offset >= self.last_stable_offset or self._is_aborted(batch)
            )
            if not (batch.is_control or is_hidden):
                yield from decode_records(batch, self.topic, self.partition, self.log_start_offset)

    def _is_aborted(self, batch: RecordBatch) -> bool:
        return batch.is_transactional and any(
            one.producer_id == batch.producer_id and one.first_offset <= batch.base_offset < one.last_offset
            for one in self._aborted
        )


@attrs.define(frozen=True)
class ConnectionView:
    """A client's connection to a broker; `peer` is the client's address, `in_flight` the number of its
    requests without a response.

    `client_id` is that of its last request, `software` the client's name and version ("librdkafka 2.10.0");
    before that, None and "".  `is_read` is false while the broker does not read from it, because a request is
    held, a quota is violated or the broker is paused; then a disconnect goes unnoticed, too.  `listener` is
    the connection's listener, `principal` its authenticated principal ("User:ann").
    """

    broker: int
    peer: str
    client_id: str | None
    software: str
    in_flight: int
    is_read: bool
    listener: str = "PLAINTEXT"
    principal: str = "User:ANONYMOUS"


def connection_views(running: Running, client_id: str | None) -> list[ConnectionView]:
    """Return the connections of all running brokers, by broker, oldest first; of all clients or one.  Read
    the processors' tables without waiting for them.
    """
    running.check()
    return [
        ConnectionView(
            broker.id,
            one.peer,
            one.client_id,
            one.software,
            len(client.incomplete()),
            one.may_read and not broker.is_paused,
            client.endpoint.listener,
            str(client.caller.principal),
        )
        for broker in running.brokers
        if broker.is_running
        for processor in broker.processors
        for one, client in list(processor.connections.items())
        if client_id in (None, one.client_id)
    ]


def partition_view(running: Running, topic: str, partition: int) -> PartitionView:
    """Implement `ClusterApi.partition`."""
    running.check()
    with running.lock:
        return _partition(running, topic, partition)


def _partition(running: Running, topic: str, partition: int) -> PartitionView:
    image = running.controllers.partition(topic, partition)
    views = {}
    leader = image.leader
    if leader in running.controllers.known_down():
        leader = NO_LEADER  # after the last broker stops, no broker can record that
    followers = _followers(running, topic, partition, leader)
    for broker_id in image.replicas:
        broker = running.broker(broker_id)
        replica = broker.replicas.replicas.get((topic, partition))
        if replica is not None:
            log = replica.log
            views[broker_id] = ReplicaView(
                broker_id,
                replica.is_leader and broker.is_running,
                broker.is_running,
                log.log_start_offset,
                log.log_end_offset,
                log.high_watermark,
                followers[broker_id].last_caught_up if broker_id in followers else None,
            )
    epoch = running.controllers.epoch
    return PartitionView(topic, partition, leader, image.leader_epoch, image.isr, views, epoch)


def _followers(running: Running, topic: str, partition: int, leader: int) -> dict[int, FollowerState]:
    """Return the leader's state of its followers."""
    if leader == NO_LEADER:
        return {}
    replica = running.broker(leader).replicas.replicas.get((topic, partition))
    return {} if replica is None else replica.followers


def log_view(running: Running, topic: str, partition: int, broker_id: int | None) -> LogView:
    """Implement `ClusterApi.log`."""
    running.check()
    with running.lock:
        return _log(running, topic, partition, broker_id)


def _log(running: Running, topic: str, partition: int, broker_id: int | None) -> LogView:
    image = running.controllers.partition(topic, partition)
    if broker_id is None:
        broker_id = image.leader if image.leader != NO_LEADER else image.isr[0]
    replica = running.broker(broker_id).replicas.replicas.get((topic, partition))
    if replica is None:
        raise NotLeaderOrFollower(f"broker {broker_id} has no replica of {topic}-{partition}")
    log = replica.log
    return LogView(
        topic,
        partition,
        broker_id,
        log.log_start_offset,
        log.log_end_offset,
        log.high_watermark,
        log.last_stable_offset,
        tuple(log.batches(log.log_start_offset)),
        tuple(log.aborted_transactions(log.log_start_offset, log.log_end_offset)),
    )
