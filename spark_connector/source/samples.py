"""How much of what waits goes into one micro-batch, by bytes: offsets are counted, bytes are sampled.

Driver side.  A broker tells where a partition ends, not how large it is, so some batches are read here and
there, and the bytes between are reckoned from theirs, as they lie in the log (compressed, if they are).
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
"""Where samples are taken, as parts of the range."""
ROUNDS = 3
"""Sampling begins anew once the range is about as long as it will be."""
MOST_STEPS = 12
"""Back to where a batch begins."""


@attrs.define
class Samples:
    _consumer: KafkaConsumer
    _isolation: str

    def shared_out(
        self, limit_bytes: int, begins: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
    ) -> Offsets:
        """Ends so that about `limit_bytes` lie between, shared out by how much waits in each partition.

        At least one offset of each partition; all, where nothing can be sampled.
        """
        chosen = dict(ends)
        for _ in range(ROUNDS):
            sizes = waiting(begins, chosen)
            total_bytes = sum(
                size * self._bytes_per_offset(one, range(begins[one], chosen[one]), ends[one])
                for one, size in sizes.items()
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
        known = [one for one in sampled if one]
        return sum(known) / len(known) if known else 0.0

    def _sample(self, partition: TopicPartition, start: int, log_end: int) -> float:
        """Bytes per offset of the batches near `start`; 0 if there are none.

        What is read first may begin in the midst of a batch, whose bytes are counted whole.  What follows
        begins with a batch, so that is measured; where nothing follows, the beginning is looked for, further
        back each time.
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
                return found  # the log begins later, or the tasks will say what there is to say
            if others:
                return others[0].size_bytes / (others[0].last_offset - first.last_offset)
            found = first.size_bytes / (first.last_offset + 1 - at)
            if at == 0:
                break
            at, step = max(at - max(step, log_end - at), 0), step * 2
        return found
