"""The ledger: a topic with the decisions of each sink and the tasks whose transactions have ended.

Partition 0 holds decisions, and partition 1 markers: a task's marker is part of its transaction, so it can be
read after the commit only. With one partition, open transactions of tasks would hide decisions. Records
have keys, so compacting brokers keep the last of each; without compaction, only the read at the start of a
run takes longer. The sink creates the topic; an existing one is used as it is.

Used in any process of Spark. Neighbors: ledger_state.py (the content of a decision), runner.py.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

import attrs

from pykafka2 import Columns, KafkaProducer, NewTopic, TopicPartition
from pykafka2.errors import (
    InvalidProducerEpoch,
    InvalidProducerIdMapping,
    InvalidTxnState,
    KafkaError,
    KafkaTimeoutError,
    NoBrokersAvailable,
    ProducerFenced,
    TopicAlreadyExists,
    UnknownTopicOrPartition,
)
from spark_connector import clock, connections
from spark_connector.errors import ExactlyOnceError
from spark_connector.options.kafka_options import redacted
from spark_connector.options.sink_options import SinkOptions
from spark_connector.sink.clients import committed_end_of, ends_of, kept_admin, kept_consumer, new_producer
from spark_connector.sink.exactly_once.commands import ANOTHER_SINK, Attempts, Contended
from spark_connector.sink.exactly_once.identity import Marker, TaskRows
from spark_connector.sink.exactly_once.ledger_state import LedgerState, from_bytes, to_bytes

PARTITIONS = 2
MOST_REPLICAS = 3


@attrs.define(frozen=True)
class TopicSettings:
    """None chooses by the number of brokers: up to three replicas, of which all but one must be in sync."""

    replication_factor: int | None = None
    min_insync_replicas: int | None = None
    segment_bytes: int = 16 << 20
    segment_ms: int = 3_600_000

    @classmethod
    def of(cls, options: SinkOptions) -> TopicSettings:
        return cls(
            options.ledger_replication_factor,
            options.ledger_min_insync_replicas,
            options.ledger_segment_bytes,
            options.ledger_segment_ms,
        )

    def new_topic(self, name: str, brokers: int) -> NewTopic:
        """Return the ledger topic; closed segments are compacted once a tenth is outdated."""
        replicas = self.replication_factor or max(1, min(MOST_REPLICAS, brokers))
        in_sync = self.min_insync_replicas or max(1, replicas - 1)
        configs = {
            "cleanup.policy": "compact",
            "min.insync.replicas": str(in_sync),
            "segment.bytes": str(self.segment_bytes),
            "segment.ms": str(self.segment_ms),
            "min.cleanable.dirty.ratio": "0.1",
            "unclean.leader.election.enable": "false",
        }
        return NewTopic(name, partitions=PARTITIONS, replication_factor=replicas, configs=configs)


logger = logging.getLogger(__name__)

DECISIONS, MARKERS = 0, 1
FIRST_WINDOW, WINDOW_GROWTH = 256, 4
"""Offsets of the first read, which ends at the last decision; each further read is larger by the factor."""
OWNER_TIMEOUT_MS = "10000"
"""Time after which brokers abort the decision of a dead process, unless another query aborts it first."""
DECISION_LOOKS = 24
FIRST_DECISION_PAUSE, LONGEST_DECISION_PAUSE = 0.01, 0.25
"""Pauses in seconds between checks of another query's open decision; each is twice as long as the last.
After the last check, about five seconds in all, the decision is aborted."""
CREATION_TIMEOUT = 30.0
DELETED_AFTER_MS = 5_000
"""How long a ledger can be missing before the sink checks whether it was deleted."""

FENCED = (ProducerFenced, InvalidProducerEpoch, InvalidProducerIdMapping, InvalidTxnState)
"""Errors of a transaction that another process has aborted by taking over."""

_read: dict[tuple[str, ...], tuple[int, LedgerState]] = {}
"""By ledger and sink: how far this process has read, and the last decision up to there."""
_there: set[tuple[str, str]] = set()
"""Ledgers that exist, as this process has found."""


@attrs.define
class Owner:
    """The producer that can write decisions of a sink until another owner takes over.  Kept between
    batches.
    """

    producer: KafkaProducer
    state: LedgerState

    def close(self) -> None:
        with suppress(KafkaError):
            self.producer.close(1)


@attrs.define
class Ledger:
    """The part of the ledger that belongs to one sink.

    kafka: options of clients.  owner_id: the transactional id of decisions.
    """

    _kafka: Mapping[str, str] = attrs.field(repr=lambda kafka: repr(redacted(kafka)))
    _topic: str
    _sink: str
    _owner_id: str
    _settings: TopicSettings = attrs.field(factory=TopicSettings)

    # ------------------------------------------------------------------ decisions

    def read(self, *, fresh: bool) -> LedgerState:
        """Return the last committed decision, or unless `fresh` the one that this process read last."""
        cached = _read.get(self._place)
        if cached is not None and not fresh:
            return cached[1]
        self.ensure()
        _read[self._place] = found = self._read_new(cached)
        return found[1]

    def _read_new(self, cached: tuple[int, LedgerState] | None) -> tuple[int, LedgerState]:
        """Return the end of the decisions and this sink's last decision, searching backwards from the end.

        For an active query, the time of the first read does not depend on the length of the ledger.
        """
        first, end = self._ends_of_decisions()
        if cached is None or cached[0] > end:  # the topic was recreated
            cached = first, LedgerState(self._sink)
        self._abort_open_decisions(end)
        start, state = max(first, cached[0]), cached[1]
        upper, width = end, FIRST_WINDOW
        while upper > start:
            lower = max(start, upper - width)
            record = self._last_decision(lower, upper)
            if record is not None:
                return end, from_bytes(record)
            upper, width = lower, width * WINDOW_GROWTH
        return end, state

    def _ends_of_decisions(self) -> tuple[int, int]:
        place = TopicPartition(self._topic, DECISIONS)
        try:
            return ends_of(self._kafka, place, DELETED_AFTER_MS)
        except (UnknownTopicOrPartition, KafkaTimeoutError, NoBrokersAvailable):
            _there.discard(self._topic_of_brokers)  # it may have been deleted since
            self.ensure()
            return ends_of(self._kafka, place)

    def _abort_open_decisions(self, end: int) -> None:
        """Abort decisions of other sinks that stay open before `end`, such as those of killed drivers.

        A decision is one write, so it is normally open for milliseconds.  A live driver whose decision is
        aborted is fenced, and decides again.  The caller's read waits for transactions that cannot be aborted
        here.
        """
        place = TopicPartition(self._topic, DECISIONS)
        looks: dict[int, int] = {}
        while (reached := committed_end_of(self._kafka, place)) < end:
            looks[reached] = looks.get(reached, 0) + 1
            if looks[reached] <= DECISION_LOOKS:
                clock.sleep(_pause_after(looks[reached]))
                continue
            sinks = {
                key.decode().partition("/")[0]
                for piece in kept_consumer(self._kafka).read_range(place, reached, reached + 1)
                for key in piece.keys
                if key is not None
            }
            if looks[reached] > DECISION_LOOKS + 1 or not sinks or self._sink in sinks:
                return
            logger.warning("ledgerTopic=%s: aborting the open decision of %s", self._topic, sinks)
            prefix = self._owner_id.removesuffix(f"{self._sink}/ledger")
            kept_admin(self._kafka).fence_producers(
                [f"{prefix}{sink}/ledger" for sink in sinks], raise_errors=False
            )

    def _last_decision(self, start: int, end: int) -> bytes | None:
        """Return this sink's last decision in the range; wait for open transactions, which may contain
        one.
        """
        wanted, found = self._sink.encode(), None
        for piece in self._committed(DECISIONS, start, end):
            for key, value in zip(piece.keys, piece.values, strict=True):
                if key == wanted and value is not None:
                    found = value
        return found

    def own(self, run: str | None, *, fresh: bool = False) -> LedgerState:
        """Take over the ledger, which aborts open decisions of other owners, and read the state.

        If this process already owns the ledger and the state names `run` as the writer, the cached state is
        returned, unless `fresh`: `write` detects a change.  Otherwise another process may have written since,
        so this process takes over again.
        """
        owner = connections.found("ledger", self._owner_options)
        if isinstance(owner, Owner) and (fresh or owner.state.run != run):
            connections.drop(owner)
        return connections.kept("ledger", self._owner_options, self._take_over).state

    def write(self, state: LedgerState) -> None:
        """Write a decision that follows from the state that `own` returned.

        Raises:
            Contended: another process has taken over since, or may have; nothing was written.
            KafkaError: the outcome is unknown; call `own` again to read it.
        """
        owner = connections.found("ledger", self._owner_options)
        if not isinstance(owner, Owner):  # closed to make room; a new owner would miss writes in between
            raise Contended(f"{self._owner_id} was closed by this process since the state was read")
        try:
            with owner.producer.transaction():
                if state.run != owner.state.run and state.run is not None:
                    owner.producer.send(
                        self._topic,
                        str(state.run_number).encode(),
                        key=self._run_key(state.run),
                        partition=DECISIONS,
                        on_delivery=_reported_by_commit,
                    )
                owner.producer.send(
                    self._topic,
                    to_bytes(state),
                    key=self._sink.encode(),
                    partition=DECISIONS,
                    on_delivery=_reported_by_commit,
                )
        except KafkaError as error:
            connections.drop(owner)
            if _is_fenced(error):
                # Expected: all tasks of a run's first batch try to take over at once.
                logger.info(
                    "another process took over the ledger first, reading it again: %s", self._owner_id
                )
                raise Contended(f"{self._owner_id} belongs to another process now") from error
            raise
        owner.state = state

    def has_run(self, run: str) -> bool:
        """Return whether this run has ever claimed the sink; read all decisions of the ledger.

        Each claim leaves a record with a key of its own, which compaction keeps.
        """
        wanted = self._run_key(run)
        first, end = ends_of(self._kafka, TopicPartition(self._topic, DECISIONS))
        return any(wanted in piece.keys for piece in self._committed(DECISIONS, first, end))

    # ------------------------------------------------------------------ markers

    def send_marker(self, producer: KafkaProducer, marker: Marker) -> Any:
        """Add a task's marker to its transaction.  Return the delivery, which has the marker's offset."""
        fields = {"batch": marker.batch, "source": marker.source, "run": marker.run}
        value = json.dumps({**fields, **attrs.asdict(marker.task)})
        key = self._marker_key(marker.task.partition)
        return producer.send(self._topic, value.encode(), key=key, partition=MARKERS)

    def committed_markers(self, batch: int, partitions: Mapping[int, int]) -> dict[int, Marker]:
        """Return markers of a batch with committed transactions, by partition; wait for older transactions.

        partitions: by the marker offset of each task.
        """
        if not partitions:
            return {}
        found: dict[int, Marker] = {}
        for piece in self._committed(MARKERS, min(partitions), max(partitions) + 1):
            for offset, key, value in zip(piece.offsets, piece.keys, piece.values, strict=True):
                partition = partitions.get(offset)
                if partition is None or key != self._marker_key(partition) or value is None:
                    continue  # of another task or sink: the ledger was recreated
                marker = _marker(value)
                if marker.batch == batch:
                    found[partition] = marker
        return found

    def markers(
        self, batch: int, partition: int | None, start: int, before: int | None = None
    ) -> dict[int, int]:
        """Return the partition of each marker of a batch from `start` on, committed or not, by offset.

        partition: only of this task; None for all.
        before: only of runs before this one.
        """
        own = f"{self._sink}/".encode()
        wanted = None if partition is None else self._marker_key(partition)
        return {
            offset: marker.task.partition
            for offset, key, value in self._all_markers(start)
            if (key.startswith(own) if wanted is None else key == wanted)
            and (marker := _marker(value)).batch == batch
            and (before is None or marker.run < before)
        }

    def _all_markers(self, start: int) -> Iterator[tuple[int, bytes, bytes]]:
        """Iterate over offset, key and value of the markers of all sinks from `start` on."""
        place = TopicPartition(self._topic, MARKERS)
        first, end = ends_of(self._kafka, place)
        start = max(start, first)
        if start >= end:
            return
        for piece in kept_consumer(self._kafka).read_range(place, start, end):
            for offset, key, value in zip(piece.offsets, piece.keys, piece.values, strict=True):
                if key is not None and value is not None:
                    yield offset, key, value

    def holder(self, offset: int) -> Attempts | None:
        """Return the task whose open transaction keeps readers from a marker, None if it can be read.

        A transaction has one marker, so readers stop at the marker of the oldest one.
        """
        place = TopicPartition(self._topic, MARKERS)
        reached = committed_end_of(self._kafka, place)
        if reached > offset:
            return None
        own = f"{self._sink}/".encode()
        for piece in kept_consumer(self._kafka).read_range(place, reached, reached + 1):
            for key, value in zip(piece.keys, piece.values, strict=True):
                if key is not None and value is not None and key.startswith(own):
                    marker = _marker(value)
                    return Attempts(marker.run, marker.batch, marker.task.partition)
        return ANOTHER_SINK

    def end_of_markers(self) -> int:
        return ends_of(self._kafka, TopicPartition(self._topic, MARKERS))[1]

    # ------------------------------------------------------------------ the topic

    def ensure(self) -> None:
        """Check that the topic exists with two partitions, and create it if it is missing.

        Raises:
            ExactlyOnceError: the topic has one partition.
            KafkaError: the topic does not exist and cannot be created.
        """
        if self._topic_of_brokers in _there:
            return
        admin = kept_admin(self._kafka)
        described = admin.describe_topics([self._topic], raise_errors=False)
        if self._topic in described.errors:
            brokers = len(admin.describe_cluster().nodes)
            made = admin.create_topics([self._settings.new_topic(self._topic, brokers)], raise_errors=False)
            error = made.errors.get(self._topic)
            if error is not None and not isinstance(error, TopicAlreadyExists):
                error.add_note(
                    f"ledgerTopic={self._topic} does not exist and could not be created. Create it with "
                    f"{PARTITIONS} partitions and cleanup.policy=compact."
                )
                raise error
            admin.wait_for_topics([self._topic], timeout=CREATION_TIMEOUT)
            described = admin.describe_topics([self._topic])
        count = len(described[self._topic].partitions)
        if count < PARTITIONS:
            raise ExactlyOnceError(
                f"ledgerTopic={self._topic} has {count} partition. Add one: it needs {PARTITIONS}."
            )
        _there.add(self._topic_of_brokers)

    # ------------------------------------------------------------------ inside

    @property
    def _topic_of_brokers(self) -> tuple[str, str]:
        return (self._kafka.get("bootstrap.servers", ""), self._topic)

    @property
    def _place(self) -> tuple[str, ...]:
        return (self._kafka.get("bootstrap.servers", ""), self._topic, self._sink)

    @property
    def _owner_options(self) -> dict[str, str]:
        return {
            **self._kafka,
            "transactional.id": self._owner_id,
            "transaction.timeout.ms": OWNER_TIMEOUT_MS,
            "ledger": self._topic,
            "thread": str(threading.get_ident()),  # one thread per transactional producer
        }

    def _take_over(self) -> Owner:
        """Called once per run and process.  Drop all caches: the topic may have been deleted or
        recreated.
        """
        _there.discard(self._topic_of_brokers)
        _read.pop(self._place, None)
        self.ensure()
        options = {**self._kafka, "transaction.timeout.ms": OWNER_TIMEOUT_MS}
        producer = new_producer(options, self._owner_id)
        try:
            producer.init_transactions()
            return Owner(producer, self.read(fresh=True))
        except KafkaError as error:
            producer.close(1)
            if _is_fenced(error):
                raise Contended(f"{self._owner_id} belongs to another process now") from error
            raise
        except BaseException:
            producer.close(1)
            raise

    def _committed(self, partition: int, start: int, end: int) -> Iterator[Columns]:
        place = TopicPartition(self._topic, partition)
        try:
            yield from kept_consumer(self._kafka).read_range(place, start, end, isolation="read_committed")
        except KafkaTimeoutError as error:
            raise KafkaTimeoutError(
                f"{error}. Open transactions of other queries in ledgerTopic={self._topic} delay this query "
                "until they end. Set another ledgerTopic for queries that must not wait for each other."
            ) from error

    def _run_key(self, run: str) -> bytes:
        return f"{self._sink}/{run}".encode()

    def _marker_key(self, partition: int) -> bytes:
        return f"{self._sink}/{partition}".encode()


def _marker(value: bytes) -> Marker:
    fields = json.loads(value)
    task = TaskRows(fields["partition"], fields["rows"], fields.get("digest"))
    return Marker(fields["batch"], task, fields.get("source"), fields.get("run", 0))


def _pause_after(look: int) -> float:
    return min(FIRST_DECISION_PAUSE * 2.0 ** (look - 1), LONGEST_DECISION_PAUSE)


def _reported_by_commit(metadata: object, error: object) -> None:
    """Ignore the outcome, which the commit reports; without a callback it would also be logged as an
    error.
    """


def _is_fenced(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, FENCED):
            return True
        error = error.__cause__
    return False
