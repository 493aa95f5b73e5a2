"""Writes the rows of one task exactly once, in a transaction.

Used on a task's thread, in a worker. A task without rows sends nothing and begins no transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING

import attrs

from pykafka2 import KafkaProducer
from pykafka2.errors import ConfigurationError, KafkaError
from spark_connector.options.sink_options import CHECK_ROWS, PER_TASK, SinkOptions
from spark_connector.sink.clients import new_producer
from spark_connector.sink.context import Epoch, TaskPlace
from spark_connector.sink.exactly_once import crash_points as steps
from spark_connector.sink.exactly_once import protocol as scripts
from spark_connector.sink.exactly_once import transactional_ids as names
from spark_connector.sink.exactly_once.crash_points import Step
from spark_connector.sink.exactly_once.identity import Marker, Tally, TaskRows
from spark_connector.sink.exactly_once.ledger_state import LedgerState, check_task, checks_of
from spark_connector.sink.exactly_once.messages import OpenTransaction, Written
from spark_connector.sink.exactly_once.runner import Cluster
from spark_connector.sink.sending import Sending

if TYPE_CHECKING:
    import pyarrow as pa

CLOSE_TIMEOUT = 5.0
MOST_TASKS = 20_000
"""Limit per batch, so that its ledger record stays below the 1 MB that brokers allow by default."""


def write_epoch(
    options: SinkOptions,
    epoch: Epoch,
    batches: Iterable[pa.RecordBatch],
    place: TaskPlace,
) -> Written:
    """Write a task's part of a micro-batch, unless it is already written.

    The driver ends the transaction; with exactly_once_per_task it is committed here, unless the batch is
    replayed and may be committed in part.

    Raises:
        SupersededRun, CheckpointBehind: as `scripts.enter`.
        WrongRow, KafkaError: rows could not be written; the transaction is aborted.
    """
    _check_speculation(options, place)
    _check_task_count(place)
    rows = _with_first(batches)
    if rows is None:
        return Written(place.partition, 0, epoch.sink, epoch.run, source=epoch.source)
    cluster, checks = Cluster(options, epoch.sink), checks_of(options)
    # An attempt that outlived its batch must not register its id: a later batch may be using it.
    entry = cluster.perform(scripts.enter(epoch, place.partition, checks, fresh=True))
    if entry.is_written:
        return _drain(options, epoch, rows, place)
    is_per_task, commits = options.delivery == PER_TASK, False
    name = _id_of(options, epoch.sink, entry.state.run_number, place, epoch.number)
    steps.reach(Step.BEFORE_INIT, sink=epoch.sink)
    producer = new_producer(options.kafka, name)
    try:
        producer.init_transactions()
        if is_per_task:
            entry = cluster.perform(scripts.enter(epoch, place.partition, checks, fresh=True))
            if entry.is_written:
                return _drain(options, epoch, rows, place)
            part = cluster.perform(scripts.find_part(epoch, place.partition, entry.state))
            if part.marker is not None:
                repeated = _drain(options, epoch, rows, place)
                check_task(part.marker, repeated, epoch, checks)
                return repeated
            commits = not part.is_held
        return _write(options, producer, rows, place, cluster, epoch, entry.state, commits=commits)
    finally:
        _close(producer)


def write_job(options: SinkOptions, job: str, batches: Iterable[pa.RecordBatch], place: TaskPlace) -> Written:
    """Write a task's part of a batch write; the driver ends the transaction.

    Raises:
        NotCommitted: as `scripts.enter_job`.
        WrongRow, KafkaError: rows could not be written; the transaction is aborted.
    """
    _check_speculation(options, place)
    rows = _with_first(batches)
    if rows is None:
        return Written(place.partition, 0, job)
    steps.reach(Step.BEFORE_INIT, sink=job)
    producer = new_producer(options.kafka, _id_of(options, job, 1, place, 0))
    cluster = Cluster(options, job)
    try:
        producer.init_transactions()
        cluster.perform(scripts.enter_job(job))
        steps.reach(Step.AFTER_INIT, sink=job)
        return _write(options, producer, rows, place, cluster, None)
    finally:
        _close(producer)


def _write(
    options: SinkOptions,
    producer: KafkaProducer,
    batches: Iterable[pa.RecordBatch],
    place: TaskPlace,
    cluster: Cluster,
    epoch: Epoch | None,
    state: LedgerState | None = None,
    *,
    commits: bool = False,
) -> Written:
    """Write rows and marker.  After a failure, the caller aborts the transaction by closing the producer."""
    producer.begin_transaction()
    sending, tally = Sending(producer, options.topic), _tally(options, epoch)
    for batch in batches:
        tally.add(batch)
        sending.send(batch)
    steps.reach(Step.AFTER_APPEND, sink=cluster.sink)
    sent = None
    written = Written(place.partition, tally.rows, cluster.sink, digest=tally.digest)
    if epoch is not None:
        written = attrs.evolve(written, run=epoch.run, source=epoch.source)
        task = TaskRows(place.partition, tally.rows, tally.digest)
        marker = Marker(epoch.number, task, epoch.source, state.run_number if state is not None else 0)
        sent = cluster.ledger.send_marker(producer, marker)
    if commits:
        sending.finish()
        steps.reach(Step.AFTER_FLUSH, sink=cluster.sink)
        producer.commit_transaction()
        return written
    handle = producer.detach_transaction()
    steps.reach(Step.AFTER_FLUSH, sink=cluster.sink)
    offset = -1 if sent is None else sent.result(0).offset
    return attrs.evolve(written, transaction=OpenTransaction(place.partition, handle, offset))


def _drain(
    options: SinkOptions,
    epoch: Epoch,
    batches: Iterable[pa.RecordBatch],
    place: TaskPlace,
) -> Written:
    """Read the rows without writing: aggregations before the sink keep their state only if all are read."""
    tally = _tally(options, epoch)
    for batch in batches:
        tally.add(batch)
    return Written(
        place.partition,
        tally.rows,
        epoch.sink,
        epoch.run,
        is_repeated=True,
        digest=tally.digest,
        source=epoch.source,
    )


def _tally(options: SinkOptions, epoch: Epoch | None) -> Tally:
    """Return a tally; with a digest if a replay compares it, which costs about 0.2 µs for each value."""
    return Tally(epoch is not None and options.replay_check == CHECK_ROWS)


def _close(producer: KafkaProducer) -> None:
    """Abort an open transaction; the outcome of the rows has been reported before."""
    with suppress(KafkaError):
        producer.close(CLOSE_TIMEOUT)


def _id_of(options: SinkOptions, sink: str, run: int, place: TaskPlace, batch: int) -> str:
    attempt = place.attempt if options.id_per_attempt and options.delivery != PER_TASK else None
    return names.of_task(options.id_prefix, sink, run, place.partition, batch, attempt)


def _check_task_count(place: TaskPlace) -> None:
    if place.partition >= MOST_TASKS:
        raise ConfigurationError(
            f"This batch has more than {MOST_TASKS} tasks, which do not fit into one record of the ledger. "
            "Use fewer, with coalesce() or spark.sql.shuffle.partitions."
        )


def _check_speculation(options: SinkOptions, place: TaskPlace) -> None:
    if place.is_speculating and not options.id_per_attempt and options.delivery != PER_TASK:
        raise ConfigurationError(
            "spark.speculation=true runs two attempts of a task at once, and the later one aborts the "
            "other's transaction, even during its commit. Set transactionalIdPerAttempt=true or "
            "spark.speculation=false."
        )


def _with_first(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch] | None:
    """Return the batches from the first one with rows on, None if there are no rows."""
    left = iter(batches)
    for batch in left:
        if batch.num_rows:
            return chain([batch], left)
    return None
