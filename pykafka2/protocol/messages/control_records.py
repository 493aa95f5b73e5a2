"""Keys and values of control records: the end of a transaction (KIP-98).

records/ puts them into control batches, each after its version as an int16.
"""

from __future__ import annotations

from pykafka2.protocol.fields import Int16, Int32
from pykafka2.protocol.struct import Data


class ControlRecordTypeSchema(Data, versions="0"):
    """The key of a control record: 0 aborts a transaction, 1 commits it."""

    type: Int16  # 0: abort, 1: commit


class EndTxnMarker(Data, versions="0"):
    """The value of a control record: the epoch of the coordinator that wrote it."""

    coordinator_epoch: Int32
