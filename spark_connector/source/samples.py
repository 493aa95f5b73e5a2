"""Limits the size of a micro-batch by bytes, which are estimated from samples.

Driver side.  A broker returns where a partition ends, but not its size.  So a few batches of each range are
read, and the total is estimated from their size in the log (compressed, if they are).
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice

import attrs

from pykafka2 import KafkaConsumer, TopicPartition
from pykafka2.errors import KafkaError
from spark_connector.offsets import Offsets
from spark_connector.source.limits import shared_out, waiting

SAMPLE_BYTES = 1 << 16
PLACES = (0.0, 0.4, 0.8)
"""Positions of the samples, as fractions of the range."""
ROUNDS = 3
"""Sampling is repeated for the shortened range."""
MOST_STEPS = 12
"""Steps back to find the start of a batch."""


@attrs.define
class Samples:
    _consumer: KafkaConsumer
    _isolation: str

    def shared_out(
        self, limit_bytes: int, begins: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
    ) -> Offsets:
        """Return end offsets for about `limit_bytes` in all, shared in proportion to each partition's
        backlog.

        Each partition gets at least one offset.  If nothing can be sampled, there is no limit.
        """
        chosen = dict(ends)
        for _ in range(ROUNDS):
            sizes = waiting(begins, chosen)
            total_bytes = sum(
                size
                * self._bytes_per_offset(
                    partition, range(begins[partition], chosen[partition]), ends[partition]
                )
                for partition, size in sizes.items()
            )
            if total_bytes <= 0:
                return chosen
            affordable = int(sum(sizes.values()) * limit_bytes / total_bytes)
            before, chosen = chosen, shared_out(max(affordable, 1), begins, ends)
            if chosen == before:
                break
        return chosen

    # ------------------------------------------------------------------ inside

    def _bytes_per_offset(self, partition: TopicPartition, wanted: range, log_end: int) -> float:
        offsets = {wanted[int(len(wanted) * place)] for place in PLACES}
        sampled = [self._sample(partition, offset, log_end) for offset in sorted(offsets)]
        known = [size for size in sampled if size]
        return sum(known) / len(known) if known else 0.0

    def _sample(self, partition: TopicPartition, start: int, log_end: int) -> float:
        """Return bytes per offset of the batches near `start`; 0 if there are none.

        The first piece may begin in the middle of a batch, whose bytes are counted whole.  The next piece
        begins with a batch, so that one is measured.  If there is none, the start of the first batch is
        searched, further back each time.
        """
        found = 0.0
        at, step = start, 1
        for _ in range(MOST_STEPS):
            try:
                pieces = self._consumer.read_range(
                    partition, at, log_end, isolation=self._isolation, max_bytes=SAMPLE_BYTES
                )
                first, *others = islice(pieces, 2)
            except (KafkaError, ValueError):
                return found  # the log begins later, or the tasks report the error
            if others:
                return others[0].size_bytes / (others[0].last_offset - first.last_offset)
            found = first.size_bytes / (first.last_offset + 1 - at)
            if at == 0:
                break
            at, step = max(at - max(step, log_end - at), 0), step * 2
        return found
