"""Keys and values of control records: the end of a transaction (KIP-98).

records/ puts them into control batches, each after its version as an int16.
"""

from __future__ import annotations

from pykafka2.protocol.fields import Int16, Int32
from pykafka2.protocol.struct import Data


class ControlRecordTypeSchema(Data, versions="0"):
    type: Int16


class EndTxnMarker(Data, versions="0"):
    coordinator_epoch: Int32
