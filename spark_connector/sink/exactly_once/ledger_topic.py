"""Settings with which the sink creates the ledger's topic.

Pure.  An existing topic is taken as it is.
"""

from __future__ import annotations

import attrs

from pykafka2 import NewTopic
from spark_connector.options.sink_options import SinkOptions

PARTITIONS = 2
MOST_REPLICAS = 3


@attrs.define(frozen=True)
class TopicSettings:
    """None takes what the number of brokers allows: three replicas of which two are in sync."""

    replication_factor: int | None = None
    min_insync_replicas: int | None = None
    segment_bytes: int = 16 << 20
    segment_ms: int = 3_600_000

    @classmethod
    def of(cls, options: SinkOptions) -> TopicSettings:
        return cls(
            options.ledger_replication_factor,
            options.ledger_min_insync_replicas,
            options.ledger_segment_bytes,
            options.ledger_segment_ms,
        )

    def new_topic(self, name: str, brokers: int) -> NewTopic:
        """Closed segments are compacted as soon as a tenth of them is outdated."""
        replicas = self.replication_factor or max(1, min(MOST_REPLICAS, brokers))
        in_sync = self.min_insync_replicas or max(1, replicas - 1)
        configs = {
            "cleanup.policy": "compact",
            "min.insync.replicas": str(in_sync),
            "segment.bytes": str(self.segment_bytes),
            "segment.ms": str(self.segment_ms),
            "min.cleanable.dirty.ratio": "0.1",
            "unclean.leader.election.enable": "false",
        }
        return NewTopic(name, partitions=PARTITIONS, replication_factor=replicas, configs=configs)
