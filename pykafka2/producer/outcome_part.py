"""What became of a run of a batch's records: all of them, or those of one of the batches it was split into.

Made on the IO thread with the outcome, read from any; part of batch_outcome.py.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence

import attrs

from pykafka2.errors import KafkaError
from pykafka2.records.encoder import Row
from pykafka2.types import NO_OFFSET, NO_TIMESTAMP


@attrs.define(eq=False)
class Part:
    """The outcome of the records from `first` on, up to the next part's."""

    first: int
    base_offset: int = NO_OFFSET
    log_append_time: int = NO_TIMESTAMP
    error: KafkaError | None = None
    record_errors: Mapping[int, KafkaError] | None = None
    """Errors of single records, by their place in the part."""
    rows: Sequence[Row] | None = None
    """Its records, as long as nothing else is made of them."""
    timestamps: Sequence[int] = ()
    key_sizes: Sequence[int] = ()
    value_sizes: Sequence[int] = ()

    def let_go(self) -> None:
        """Keep of the records only times and sizes, in little memory.  Once; others may read meanwhile."""
        rows = self.rows or ()
        self.timestamps = array("q", [row[2] for row in rows])
        self.key_sizes = array("q", [-1 if row[1] is None else len(row[1]) for row in rows])
        self.value_sizes = array("q", [-1 if row[0] is None else len(row[0]) for row in rows])
        self.rows = None
