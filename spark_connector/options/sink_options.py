"""The options of the sink, and what they refuse.

Pure data and its rules; read on the driver.  What differs from Spark's own sink stands in
docs/guides/spark.md.
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
"""Less than this is over before a micro-batch is; whoever asks for it will lose batches again and again."""
TRANSACTION_MS = 900_000
"""What brokers allow by default (transaction.max.timeout.ms)."""

SMALLEST_SEGMENT = 1 << 20
"""Bytes that Kafka 4.0 and later require of segment.bytes."""

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
    """What a sink was told; read by `sink_options`."""

    topic: str | None = option(
        "topic", None, _topic, "a topic's name", "The topic for all rows; it wins over a column named topic."
    )
    delivery: str = option(
        "delivery",
        AT_LEAST_ONCE,
        one_of(AT_LEAST_ONCE, EXACTLY_ONCE, PER_TASK),
        f"'{AT_LEAST_ONCE}', '{EXACTLY_ONCE}' or '{PER_TASK}'",
        "What a reader with read_committed is promised: no row is missing, or none is missing or there "
        "twice.",
    )
    ledger_topic: str = option(
        "ledgerTopic",
        "pykafka2-spark-ledger",
        _name,
        "a topic's name",
        "Where deliveries of exactly once keep what they decided; made with two partitions if it is not "
        "there.",
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
        "rows compares the number of rows of each task and, if offsets are unknown, a digest of keys and "
        "values; counts only the numbers; none logs a warning.",
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
        "What the transactional ids begin with, for ACLs.",
    )
    id_per_attempt: bool = option(
        "transactionalIdPerAttempt",
        False,
        flag,
        "'true' or 'false'",
        "Whether each attempt of a task has a transactional id of its own, as spark.speculation needs.",
    )
    epoch_sink: str | None = option(
        "epoch.sink",
        None,
        _name,
        "letters, digits, '.', '_' and '-'",
        "Set by exactly_once_batches: the name under which the ledger knows the batches.",
        stream=False,
    )
    epoch_batch: int | None = option(
        "epoch.batch",
        None,
        whole_number(0),
        "a whole number",
        "Set by exactly_once_batches: the batch.",
        stream=False,
    )
    epoch_run: str | None = option(
        "epoch.run",
        None,
        _name,
        "letters, digits, '.', '_' and '-'",
        "Set by exactly_once_batches: who writes.",
        stream=False,
    )
    kafka: Mapping[str, str] = attrs.field(factory=dict, repr=lambda one: repr(kafka_options.redacted(one)))
    """The producers' options."""

    @property
    def is_transactional(self) -> bool:
        return self.delivery != AT_LEAST_ONCE


def checked(options: SinkOptions) -> SinkOptions:
    """The same, with the transactions' time-out.

    Raises ConfigurationError for a time-out that is too short, or one where there are no transactions.
    """
    replicas, in_sync = options.ledger_replication_factor, options.ledger_min_insync_replicas
    if replicas is not None and in_sync is not None and in_sync > replicas:
        raise ConfigurationError(
            f"ledgerMinInsyncReplicas={in_sync} is above ledgerReplicationFactor={replicas}, so the ledger "
            f"could never be written; set it to {max(1, replicas - 1)}"
        )
    if options.ledger_segment_bytes < SMALLEST_SEGMENT:
        raise ConfigurationError(
            f"ledgerSegmentBytes={options.ledger_segment_bytes} is below {SMALLEST_SEGMENT}, the least that "
            "brokers accept; raise it"
        )
    name = "transaction.timeout.ms"
    given = options.kafka.get(name)
    if not options.is_transactional:
        if given is not None:
            raise ConfigurationError(
                f"kafka.{name}={given}: delivery={options.delivery} has no transactions; leave it out, or "
                f"choose delivery={EXACTLY_ONCE}"
            )
        return options
    if given is None:
        return attrs.evolve(options, kafka={**options.kafka, name: str(TRANSACTION_MS)})
    if not given.strip().isdecimal() or int(given) < SHORTEST_TRANSACTION_MS:
        raise ConfigurationError(
            f"kafka.{name}={given}: a micro-batch and its commit have to end within it; take "
            f"{SHORTEST_TRANSACTION_MS} ms at least (default {TRANSACTION_MS})"
        )
    return options
