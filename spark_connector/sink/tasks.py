"""What a task does with its rows when each is to be there exactly once.

A task's thread, in a worker.  A task without rows asks Kafka nothing and begins no transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING

from pykafka2 import KafkaProducer
from pykafka2.errors import ConfigurationError, KafkaError
from spark_connector.options.sink_options import PER_TASK, SinkOptions
from spark_connector.sink import names, scripts, steps
from spark_connector.sink.clients import new_producer
from spark_connector.sink.cluster import Cluster
from spark_connector.sink.context import Epoch, TaskPlace
from spark_connector.sink.messages import OpenTransaction, Written
from spark_connector.sink.sending import Sending
from spark_connector.sink.steps import Step

if TYPE_CHECKING:
    import pyarrow as pa

CLOSE_TIMEOUT = 5.0


def write_epoch(
    options: SinkOptions,
    epoch: Epoch,
    batches: Iterable[pa.RecordBatch],
    place: TaskPlace,
    *,
    fresh: bool = False,
) -> Written:
    """Write a task's part of a micro-batch, unless it is there already.

    The transaction is left open for the driver, or with exactly_once_per_task committed here.

    Args:
        fresh: whether the same run may write a batch twice, as in foreachBatch.

    Raises:
        SupersededRun, CheckpointBehind: as `scripts.enter`.
        WrongRow, KafkaError: rows could not be written; the transaction is aborted.
    """
    _check_speculation(options, place)
    rows = _with_first(batches)
    if rows is None:
        return Written(place.partition, 0, epoch.sink, epoch.run)
    cluster = Cluster(options, epoch.sink)
    entry = cluster.perform(scripts.enter(epoch, place.partition, fresh=fresh))
    repeated = Written(place.partition, 0, epoch.sink, epoch.run, is_repeated=True)
    if entry.is_written:
        _drain(rows)
        return repeated
    is_per_task = options.delivery == PER_TASK
    run = names.PER_TASK_RUN if is_per_task else entry.state.run_number
    name = _id_of(options, epoch.sink, run, place)
    steps.reach(Step.BEFORE_INIT, sink=epoch.sink)
    producer = new_producer(options.kafka, name)
    try:
        producer.init_transactions()
        if is_per_task and _is_there(cluster, epoch, place):
            _drain(rows)
            return repeated
        return _write(options, producer, rows, place, cluster, epoch)
    finally:
        _close(producer)


def write_job(options: SinkOptions, job: str, batches: Iterable[pa.RecordBatch], place: TaskPlace) -> Written:
    """Write a task's part of a batch write in a transaction that is left open for the driver.

    Raises:
        NotCommitted: as `scripts.enter_job`.
        WrongRow, KafkaError: rows could not be written; the transaction is aborted.
    """
    _check_speculation(options, place)
    rows = _with_first(batches)
    if rows is None:
        return Written(place.partition, 0, job)
    steps.reach(Step.BEFORE_INIT, sink=job)
    producer = new_producer(options.kafka, _id_of(options, job, 1, place))
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
) -> Written:
    """Closing the producer aborts what a failure leaves open."""
    producer.begin_transaction()
    sending = Sending(producer, options.topic)
    for batch in batches:
        sending.send(batch)
    steps.reach(Step.AFTER_APPEND, sink=cluster.sink)
    marker = None
    if epoch is not None:
        marker = cluster.ledger.send_marker(producer, epoch.number, place.partition, sending.rows)
    sink, run = cluster.sink, None if epoch is None else epoch.run
    if options.delivery == PER_TASK:
        sending.finish()
        steps.reach(Step.AFTER_FLUSH, sink=cluster.sink)
        producer.commit_transaction()
        return Written(place.partition, sending.rows, sink, run)
    handle = producer.detach_transaction()
    steps.reach(Step.AFTER_FLUSH, sink=cluster.sink)
    offset = -1 if marker is None else marker.result(0).offset
    return Written(place.partition, sending.rows, sink, run, OpenTransaction(place.partition, handle, offset))


def _drain(batches: Iterable[pa.RecordBatch]) -> None:
    """Let the rows go by: aggregations before the sink keep their state only when all of it was read."""
    for _ in batches:
        pass


def _close(producer: KafkaProducer) -> None:
    """Aborts what is open; whatever became of the rows was told before."""
    with suppress(KafkaError):
        producer.close(CLOSE_TIMEOUT)


def _is_there(cluster: Cluster, epoch: Epoch, place: TaskPlace) -> bool:
    """Whether this task's part was committed before it took its id over: by an earlier run, or by another
    attempt.

    Raises as `scripts.enter`: a task that has outlived its run may not have heard of the next one before.
    """
    entry = cluster.perform(scripts.enter(epoch, place.partition, fresh=True))
    if entry.is_written:
        return True
    return cluster.perform(scripts.find_written(epoch, place.partition, entry.state.markers_from))


def _id_of(options: SinkOptions, sink: str, run: int | str, place: TaskPlace) -> str:
    attempt = place.attempt if options.id_per_attempt and run != names.PER_TASK_RUN else None
    return names.of_task(options.id_prefix, sink, run, place.partition, attempt)


def _check_speculation(options: SinkOptions, place: TaskPlace) -> None:
    if place.is_speculating and not options.id_per_attempt and options.delivery != PER_TASK:
        raise ConfigurationError(
            "spark.speculation=true runs two attempts of a task at once, of which the later one aborts the "
            "other's transaction, even one that is being committed; set transactionalIdPerAttempt=true, or "
            "spark.speculation=false"
        )


def _with_first(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch] | None:
    """The same, or None if there are no rows."""
    left = iter(batches)
    for batch in left:
        if batch.num_rows:
            return chain([batch], left)
    return None
