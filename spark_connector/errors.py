"""Errors that only the connector raises.  Wrong options are `pykafka2.errors.ConfigurationError`."""

from __future__ import annotations

from pykafka2.errors import KafkaError


class SparkConnectorError(KafkaError):
    """Base class of the connector's errors."""


class DataLoss(SparkConnectorError):
    """Records that a query had to read were deleted, by retention or with their topic.

    `failOnDataLoss=false` logs a warning instead.
    """

    what_to_do = (
        "Set `failOnDataLoss=false` to continue with the remaining records, and raise the retention of "
        "the topic."
    )


class WrongSchema(SparkConnectorError, ValueError):
    """A schema that the source cannot produce or the sink cannot write."""

    what_to_do = "Correct the columns that the message names."


class WrongOffsets(SparkConnectorError, ValueError):
    """Checkpoint offsets that do not have the form {"topic": {"partition": offset}}."""

    what_to_do = "Correct `startingOffsets` or `endingOffsets`, or restore the checkpoint."


class WrongRow(SparkConnectorError, ValueError):
    """A row that cannot be written; no row of its Arrow batch was sent."""

    what_to_do = "Correct the row that the message names."


class ExactlyOnceError(SparkConnectorError):
    """Base class of the errors of delivery=exactly_once."""

    what_to_do = "Read the message, which names the batch and the run."


class SupersededRun(ExactlyOnceError):
    """A later run of the query, or a later batch of this run, has begun; late tasks can commit nothing."""

    what_to_do = "Nothing: the later run continues. Start each query once."


class CheckpointBehind(ExactlyOnceError):
    """The checkpoint is an older copy: the ledger has later batches, or another batch with the same
    number.
    """

    what_to_do = "Restore the newer checkpoint, or choose another `queryName` and ledger."


class LedgerBehind(ExactlyOnceError):
    """The ledger lacks batches that the checkpoint has; `failOnLedgerLoss=false` logs a warning instead."""

    what_to_do = "Restore the ledger topic, or set `failOnLedgerLoss=false`."


class NotCommitted(ExactlyOnceError):
    """Nothing of the batch was committed; it is written again when the query starts again."""

    what_to_do = "Start the query again."


class PartlyCommitted(ExactlyOnceError):
    """Transactions of some tasks of a decided batch were lost before they could be committed.

    The next run of a stream writes the missing rows.  For a batch write, the message names the missing rows.
    """

    what_to_do = "Start the query again; for a batch write, follow the message."
