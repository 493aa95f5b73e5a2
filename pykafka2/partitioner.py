"""kafka-python's module `partitioner`, for programs that only change their import."""

from __future__ import annotations

from pykafka2.producer.partitioning.murmur2 import murmur2
from pykafka2.producer.partitioning.partitioners import DefaultPartitioner, Partitioner, StickyPartitioner

__all__ = ["DefaultPartitioner", "Partitioner", "StickyPartitioner", "murmur2"]
