"""Errors that only the connector raises.  Wrong options are `pykafka2.errors.ConfigurationError`."""

from __future__ import annotations

from pykafka2.errors import KafkaError


class SparkConnectorError(KafkaError):
    """The root of what only the connector raises."""


class DataLoss(SparkConnectorError):
    """Records that a query was to read are gone: aged out, or their topic was deleted or made anew.

    `failOnDataLoss=false` makes a warning of it.
    """

    what_to_do = (
        "Set `failOnDataLoss=false` to go on with the records that are left, and raise the retention of "
        "the topic."
    )


class WrongSchema(SparkConnectorError, ValueError):
    """A schema that the source cannot give or the sink cannot write."""

    what_to_do = "Correct the columns that the message names."


class WrongOffsets(SparkConnectorError, ValueError):
    """Offsets of a checkpoint that are not in the shape {"topic": {"partition": offset}}."""

    what_to_do = "Correct `startingOffsets` or `endingOffsets`, or restore the checkpoint."


class WrongRow(SparkConnectorError, ValueError):
    """A row that cannot be written; no row of its Arrow batch was sent."""

    what_to_do = "Correct the row that the message names."


class ExactlyOnceError(SparkConnectorError):
    """The root of what delivery=exactly_once raises."""

    what_to_do = "Read the message, which names the batch and the run."


class SupersededRun(ExactlyOnceError):
    """A later run of the query has begun, or a later batch of this run; what is late can commit nothing."""

    what_to_do = "Nothing: the later run goes on. Start each query once."


class CheckpointBehind(ExactlyOnceError):
    """The checkpoint is an older copy: the ledger has later batches, or another batch of the same number."""

    what_to_do = "Restore the newer checkpoint, or choose another `queryName` and ledger."


class LedgerBehind(ExactlyOnceError):
    """The ledger lacks batches that the checkpoint has; `failOnLedgerLoss=false` makes a warning of it."""

    what_to_do = "Restore the ledger topic, or set `failOnLedgerLoss=false`."


class NotCommitted(ExactlyOnceError):
    """Nothing of the batch was committed; it is written again when the query starts again."""

    what_to_do = "Start the query again."


class PartlyCommitted(ExactlyOnceError):
    """Some tasks' transactions of a decided batch were lost before they could be committed.

    Of a stream, the next run writes what is missing.  Of a batch write, the message says what is there.
    """

    what_to_do = "Start the query again; for a batch write, follow the message."
