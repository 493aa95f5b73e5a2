"""What is raised of a log that was cut behind what was read (KIP-320).

Pure.
"""

from __future__ import annotations

from pykafka2.errors import LogTruncated
from pykafka2.protocol.messages.fetch import EpochEndOffset
from pykafka2.types import TopicPartition


def log_truncated(partition: TopicPartition, offset: int, epoch: int, end: EpochEndOffset) -> LogTruncated:
    """The log does not hold what was read last, up to `offset` and of this leader epoch: it was cut, and
    perhaps written anew from there on.  `end` is where the logs part, as the broker says."""
    error = LogTruncated(
        f"{partition}: the log was truncated to offset {min(end.end_offset, offset)} after records up to "
        f"{offset} (leader epoch {epoch}) had been fetched"
    )
    error.offset = min(end.end_offset, offset)
    # The logs part at an epoch that was asked for, or before it; any other would never be heard of again.
    error.leader_epoch = end.epoch if end.epoch <= epoch else -1
    return error
