"""What compression has made of each topic's records so far, so that batches are filled up to batch_size.

Callers' threads ask when they begin a batch, the IO thread tells what a finished one came to; a value is one
float, so there is no lock.  Part of the accumulator (accumulator.py); a producer has one codec.
"""

from __future__ import annotations

START = 1.0
IMPROVING_STEP = 0.005
DETERIORATING_STEP = 0.05


class CompressionRatios:
    """Compressed over raw bytes, by topic; as in Java, slow to believe in better and quick in worse."""

    __slots__ = ("_by_topic",)

    def __init__(self) -> None:
        self._by_topic: dict[str, float] = {}

    def ratio(self, topic: str) -> float:
        """What to expect of the topic's next batch."""
        return self._by_topic.get(topic, START)

    def observe(self, topic: str, raw_bytes: int, compressed_bytes: int) -> None:
        """A batch of so many bytes of records became so many on the wire, without its header."""
        if raw_bytes <= 0:
            return
        # The frame around a few small records is larger than they are, and says nothing about a full batch.
        before, seen = self.ratio(topic), min(START, compressed_bytes / raw_bytes)
        if seen > before:
            self._by_topic[topic] = min(START, max(before + DETERIORATING_STEP, seen))
        elif seen < before:
            self._by_topic[topic] = max(before - IMPROVING_STEP, seen)
