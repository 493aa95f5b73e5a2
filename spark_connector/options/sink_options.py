"""The options of the sink, and their checks.

Pure data; read on the driver.  docs/guides/spark.md lists the differences from Spark's own sink.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import attrs

from pykafka2.errors import ConfigurationError
from spark_connector.options import kafka_options
from spark_connector.options.fields import flag, milliseconds, number_of_bytes, one_of, option, whole_number

AT_LEAST_ONCE = "at_least_once"
EXACTLY_ONCE = "exactly_once"
PER_TASK = "exactly_once_per_task"

CHECK_ROWS = "rows"
CHECK_COUNTS = "counts"
CHECK_NONE = "none"

SHORTEST_TRANSACTION_MS = 10_000
"""A shorter transaction can time out before its micro-batch ends, so batches would be lost repeatedly."""
TRANSACTION_MS = 900_000
"""The longest that brokers allow by default (transaction.max.timeout.ms)."""

SMALLEST_SEGMENT = 1 << 20
"""Smallest segment.bytes that Kafka 4.0 and later accept."""

_NAME = re.compile(r"[A-Za-z0-9._-]{1,200}")


def _topic(text: str) -> str:
    if not text.strip():
        raise ValueError
    return text.strip()


def _name(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise ValueError
    return text


@attrs.define(kw_only=True, frozen=True)
class SinkOptions:
    """Options of a sink, parsed by `sink_options`."""

    topic: str | None = option(
        "topic", None, _topic, "a topic's name", "The topic for all rows; overrides a column named topic."
    )
    delivery: str = option(
        "delivery",
        AT_LEAST_ONCE,
        one_of(AT_LEAST_ONCE, EXACTLY_ONCE, PER_TASK),
        f"'{AT_LEAST_ONCE}', '{EXACTLY_ONCE}' or '{PER_TASK}'",
        "The guarantee for readers with read_committed: rows are never missing, or each row is there exactly "
        "once.",
    )
    ledger_topic: str = option(
        "ledgerTopic",
        "pykafka2-spark-ledger",
        _name,
        "a topic's name",
        "The topic in which exactly-once deliveries record decisions; created with two partitions if it does "
        "not exist.",
    )
    ledger_replication_factor: int | None = option(
        "ledgerReplicationFactor",
        None,
        whole_number(1),
        "a whole number from 1",
        "Replicas of a ledger that the sink creates.",
        shown="3, or the number of brokers if there are fewer",
    )
    ledger_min_insync_replicas: int | None = option(
        "ledgerMinInsyncReplicas",
        None,
        whole_number(1),
        "a whole number from 1, at most the number of replicas",
        "min.insync.replicas of a ledger that the sink creates.",
        shown="one less than the replicas, at least 1",
    )
    ledger_segment_bytes: int = option(
        "ledgerSegmentBytes",
        16 << 20,
        number_of_bytes,
        "a number of bytes, such as '16m', from 1 MiB",
        "segment.bytes of a ledger that the sink creates: the last segment is never compacted.",
        shown="16m",
    )
    ledger_segment_ms: int = option(
        "ledgerSegmentMs",
        3_600_000,
        milliseconds,
        "a time such as '1h'",
        "segment.ms of a ledger that the sink creates: the last segment is never compacted.",
        shown="1h",
    )
    replay_check: str = option(
        "replayCheck",
        CHECK_ROWS,
        one_of(CHECK_ROWS, CHECK_COUNTS, CHECK_NONE),
        f"'{CHECK_ROWS}', '{CHECK_COUNTS}' or '{CHECK_NONE}'",
        "How a replayed batch proves that it is the one in the ledger, in addition to its source offsets: "
        "rows compares the number of rows of each task and a digest of them; counts only the "
        "numbers, for queries that compute other values each time; none logs a warning.",
    )
    fail_on_ledger_loss: bool = option(
        "failOnLedgerLoss",
        True,
        flag,
        "'true' or 'false'",
        "Whether a query ends if its ledger lacks batches that its checkpoint has; otherwise a warning is "
        "logged, and rows may be written twice.",
    )
    id_prefix: str = option(
        "transactionalIdPrefix",
        "pykafka2-spark",
        _name,
        "letters, digits, '.', '_' and '-'",
        "Prefix of the transactional ids, for ACLs.",
    )
    id_per_attempt: bool = option(
        "transactionalIdPerAttempt",
        False,
        flag,
        "'true' or 'false'",
        "Whether each attempt of a task has its own transactional id, as spark.speculation requires.",
    )
    epoch_sink: str | None = option(
        "epoch.sink",
        None,
        _name,
        "letters, digits, '.', '_' and '-'",
        "Set by exactly_once_batches: the name of the batches in the ledger.",
        stream=False,
    )
    epoch_batch: int | None = option(
        "epoch.batch",
        None,
        whole_number(0),
        "a whole number",
        "Set by exactly_once_batches: the number of the batch.",
        stream=False,
    )
    epoch_run: str | None = option(
        "epoch.run",
        None,
        _name,
        "letters, digits, '.', '_' and '-'",
        "Set by exactly_once_batches: the run that writes.",
        stream=False,
    )
    kafka: Mapping[str, str] = attrs.field(
        factory=dict, repr=lambda values: repr(kafka_options.redacted(values))
    )
    """Options of the producers."""

    @property
    def is_transactional(self) -> bool:
        return self.delivery != AT_LEAST_ONCE


def checked(options: SinkOptions) -> SinkOptions:
    """Return the options with transaction.timeout.ms set.

    Raise ConfigurationError if it is too short, or set without transactions.
    """
    replicas, in_sync = options.ledger_replication_factor, options.ledger_min_insync_replicas
    if replicas is not None and in_sync is not None and in_sync > replicas:
        raise ConfigurationError(
            f"ledgerMinInsyncReplicas={in_sync} is above ledgerReplicationFactor={replicas}, so the ledger "
            f"could never be written. Set it to {max(1, replicas - 1)}."
        )
    if options.ledger_segment_bytes < SMALLEST_SEGMENT:
        raise ConfigurationError(
            f"ledgerSegmentBytes={options.ledger_segment_bytes} is below {SMALLEST_SEGMENT}, the minimum of "
            "brokers. Raise it."
        )
    name = "transaction.timeout.ms"
    timeout_ms = options.kafka.get(name)
    if not options.is_transactional:
        if timeout_ms is not None:
            raise ConfigurationError(
                f"kafka.{name}={timeout_ms} has no effect, as delivery={options.delivery} has no "
                "transactions. Remove "
                f"it, or set delivery={EXACTLY_ONCE}."
            )
        return options
    if timeout_ms is None:
        return attrs.evolve(options, kafka={**options.kafka, name: str(TRANSACTION_MS)})
    if not timeout_ms.strip().isdecimal() or int(timeout_ms) < SHORTEST_TRANSACTION_MS:
        raise ConfigurationError(
            f"kafka.{name}={timeout_ms} is too short for a micro-batch and its commit. Set at least "
            f"{SHORTEST_TRANSACTION_MS} ms (default {TRANSACTION_MS})."
        )
    return options
