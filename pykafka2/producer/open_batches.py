"""The short way of a plain record: straight into the batch that its topic's plain records join just now.

A plain record has bytes as its value, no key, headers, partition or timestamp of its own.  What would be
decided for it with the answer of the record before is decided once a batch or once a millisecond: route,
partition, whether the producer may send, the timestamp.  `KafkaProducer.send` looks here
first, and goes the whole way where this has no answer; that way notes here what the next record may do.
A record that has a key besides is sent to the open batch of its key's partition, if the topic's route is
current: nothing is noted for it.

Three places append without a lock: two at the head of `send`, and `PartitionQueue.try_append`.  What makes
that safe:

* A record joins by one line without a call, a loop or an object that the garbage collector counts.  CPython
  lets other threads, signal handlers, finalizers and tracers in at none of these places, so that a record's
  room, its fields and its number change together, or not at all.  (A tool that has itself told of each branch
  by `sys.monitoring` is let in there.)
* Whatever else changes a batch shuts it first (`room_bytes` is `SHUT`), under its queue's lock: from then on
  that line does nothing, and what joined before it is counted.
* A Ctrl-C behind that line loses at most the caller's notice.

Without CPython's global lock, and in another Python, nothing of that holds: there no batch has room for a
record that is not looked at (`HAS_GIL`).

What it saves: docs/benchmarks.md.
"""

from __future__ import annotations

from pykafka2.producer.batch import ProducerBatch
from pykafka2.producer.partition_queue import PartitionQueue
from pykafka2.records.encoder import SHORT

NS_PER_MS = 1_000_000


def note_open(open_batches: dict[str, ProducerBatch], queue: PartitionQueue, timestamp: int) -> None:
    """A plain record of this time went to this queue: others of its millisecond may join its batch.

    `open_batches` is by topic.  A batch that is there may be shut, or done, by now: whoever finds it looks at
    its room.
    """
    batch = queue.tail
    if batch is None or not 0 <= timestamp - batch.base_timestamp < SHORT:
        return
    # In this order: who reads between two of them finds no time that has this timestamp wrongly.
    batch.until_ns = 0
    batch.timestamp = timestamp
    batch.since_ns = timestamp * NS_PER_MS
    batch.until_ns = batch.since_ns + NS_PER_MS
    open_batches[queue.topic] = batch
