"""What became of a run of a batch's records: all of them, or those of one of the batches it was split into.

Made on the IO thread with the outcome, read from any; part of batch_outcome.py.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence

import attrs

from pykafka2.errors import KafkaError
from pykafka2.producer.fields import FIELDS, Fields
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
    fields: Fields | None = None
    """Its records, as long as nothing else is made of them."""
    timestamps: Sequence[int] = ()
    key_sizes: Sequence[int] = ()
    value_sizes: Sequence[int] = ()

    def let_go(self) -> None:
        """Keep of the records only times and sizes, in little memory.  Once; others may read meanwhile."""
        fields = self.fields or []
        if len(fields) == FIELDS:  # whoever waits for each record
            value, key, timestamp, _, _ = fields
            self.timestamps = (timestamp,)
            self.key_sizes = (-1 if key is None else len(key),)
            self.value_sizes = (-1 if value is None else len(value),)
        else:
            self.timestamps = array("q", fields[2::FIELDS])
            self.key_sizes = array("q", [-1 if key is None else len(key) for key in fields[1::FIELDS]])
            self.value_sizes = array("q", [-1 if value is None else len(value) for value in fields[::FIELDS]])
        self.fields = None
