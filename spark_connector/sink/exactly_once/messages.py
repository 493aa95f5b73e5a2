"""The messages that tasks send to the driver when they finish. Pickled; without connections and secrets."""

from __future__ import annotations

import attrs
from pyspark.sql.datasource import WriterCommitMessage

from pykafka2 import TransactionHandle


@attrs.define(frozen=True)
class OpenTransaction:
    """A task's transaction, as the ledger names it: how to end it, and where its marker is.

    marker_offset: in the ledger's partition of markers; -1 without a marker.
    """

    partition: int
    handle: TransactionHandle
    marker_offset: int = -1


@attrs.define(frozen=True)
class Written(WriterCommitMessage):
    """A task has written its rows.

    sink, run: of the epoch; None where there is none.
    transaction: to be ended by the driver; None where the task had no rows, or ended it itself.
    is_repeated: the rows were there from an earlier run, so nothing was written now.
    digest: of the rows' keys and values; None if it was not computed.
    source: digest of the source offsets of the batch; None if they are unknown.
    """

    partition: int
    rows: int
    sink: str | None = None
    run: str | None = None
    transaction: OpenTransaction | None = None
    is_repeated: bool = False
    digest: int | None = None
    source: str | None = None
