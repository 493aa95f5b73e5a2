"""The messages that tasks send to the driver when they finish. Pickled; without connections and secrets."""

from __future__ import annotations

import attrs
from pyspark.sql.datasource import WriterCommitMessage

from pykafka2 import TransactionHandle


@attrs.define(frozen=True)
class OpenTransaction:
    """A task's transaction, as the ledger records it: the handle to end it, and the offset of its marker.

    marker_offset: in the ledger's partition of markers; -1 without a marker.
    """

    partition: int
    handle: TransactionHandle
    marker_offset: int = -1


@attrs.define(frozen=True)
class Written(WriterCommitMessage):
    """The message of a task that has written its rows.

    sink, run: of the epoch; None without an epoch.
    transaction: for the driver to end; None if the task had no rows, or ended the transaction itself.
    is_repeated: an earlier run had written the rows, so this task wrote none.
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
