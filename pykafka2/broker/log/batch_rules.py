"""Requirements of a topic's configuration for each batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from pykafka2.records.batch import RecordBatch
from pykafka2.types import LOG_APPEND_TIME

if TYPE_CHECKING:
    from pykafka2.broker.config.configs import TopicConfig

CODECS_WITH_LEVELS: Final = frozenset({"gzip", "lz4", "zstd"})
NO_TIMESTAMP: Final = -1


@attrs.define(frozen=True)
class BatchRules:
    """Requirements for a batch, read once for each topic configuration."""

    max_bytes: int
    segment_bytes: int
    needs_keys: bool
    codec: str | None
    """None keeps the producer's codec."""
    level: int | None
    is_create_time: bool
    before_ms: int
    after_ms: int

    @classmethod
    def of(cls, config: TopicConfig) -> BatchRules:
        codec = config.get("compression.type")
        return cls(
            config.get("max.message.bytes"),
            config.get("segment.bytes"),
            config.is_compacted,
            None if codec == "producer" else codec,
            config.get(f"compression.{codec}.level") if codec in CODECS_WITH_LEVELS else None,
            config.get("message.timestamp.type") == "CreateTime",
            config.get("message.timestamp.before.max.ms"),
            config.get("message.timestamp.after.max.ms"),
        )

    def need_walk(self, batch: RecordBatch, now_ms: int) -> bool:
        """Return whether the records must be decoded, for keys or for timestamps that the header leaves open.

        The header contains the maximum timestamp, not the minimum.
        """
        if self.needs_keys:
            return True
        if not self.is_create_time:
            return batch.timestamp_type == LOG_APPEND_TIME
        return batch.max_timestamp > now_ms + self.after_ms or now_ms > self.before_ms

    def wrong_time(self, batch: RecordBatch, timestamp: int, now_ms: int) -> str | None:
        """Return why a record's timestamp is rejected, or None.

        A CreateTime topic accepts a batch marked LogAppendTime and clears the mark (4.3).
        """
        if self.is_create_time and timestamp != NO_TIMESTAMP:
            oldest, newest = now_ms - self.before_ms, now_ms + self.after_ms
            if oldest <= timestamp <= newest:
                return None
            return f"timestamp {timestamp} is outside [{oldest}, {newest}]"
        if batch.timestamp_type == LOG_APPEND_TIME:
            return "a producer must not mark its batch as LogAppendTime"
        return None
