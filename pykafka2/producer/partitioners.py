"""Which partition a record goes to when it does not say.

Runs on the caller's thread, inside `send`.  By default a key decides by its murmur2 hash, exactly as in the
Java client, and records without a key stick to one partition until its batch is full (KIP-480).  A user's own
partitioner is called per record with what it needs to know of the cluster.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from pykafka2.cluster.snapshot import ClusterSnapshot, TopicSnapshot
from pykafka2.errors import ConfigurationError
from pykafka2.producer.murmur2 import murmur2, positive

Chooser = Callable[[str, Any, "bytes | None", Any, "bytes | None", "ClusterView"], int]

# A hash costs 1 to 6 us, a look-up 0.06; a program has either few keys or no use for a cache.
CACHED_KEYS = 10_000
CACHED_KEY_BYTES = 1 << 20
LONGEST_CACHED_KEY_BYTES = 1 << 12


class KeyHashes(dict[bytes, int]):
    """The positive murmur2 of keys: `hashes[key]` computes what it does not know.  Any thread.

    Bounded by count and by the bytes of the keys; a long key is not kept, as it would drive out all others.
    """

    __slots__ = ("_key_bytes",)

    def __init__(self) -> None:
        super().__init__()
        self._key_bytes = 0

    def __missing__(self, key: bytes) -> int:
        number = positive(murmur2(key))
        if len(key) > LONGEST_CACHED_KEY_BYTES:
            return number
        if len(self) >= CACHED_KEYS or self._key_bytes + len(key) > CACHED_KEY_BYTES:
            self.clear()
            self._key_bytes = 0
        self[bytes(key)] = number
        # Threads that meet here may count one key too few: the number of keys bounds what that can add up to.
        self._key_bytes += len(key)
        return number


class ClusterView:
    """What a partitioner may ask about the cluster (kafka-python's names)."""

    __slots__ = ("_snapshot",)

    def __init__(self, snapshot: ClusterSnapshot) -> None:
        self._snapshot = snapshot

    def topics(self) -> set[str]:
        return {*self._snapshot.topics}

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        known = self._snapshot.topics.get(topic)
        return {*known.partitions} if known is not None and known.partitions else None

    def available_partitions_for_topic(self, topic: str) -> set[int]:
        """Partitions whose leader is known and alive."""
        known = self._snapshot.topics.get(topic)
        return {*available(self._snapshot, known)} if known is not None else set()


def available(snapshot: ClusterSnapshot, topic: TopicSnapshot) -> list[int]:
    """Numbers of the partitions whose leader is known and alive, in order."""
    return sorted(number for number, info in topic.partitions.items() if info.leader in snapshot.nodes)


def sticky_partition(
    snapshot: ClusterSnapshot, topic: TopicSnapshot, seeded: random.Random, avoid: int | None = None
) -> int:
    """The next partition to stick to: one with a leader if any has one, another than `avoid` if possible."""
    choices = available(snapshot, topic) or sorted(topic.partitions)
    if avoid is not None and len(choices) > 1:
        choices = [number for number in choices if number != avoid]
    return choices[int(seeded.random() * len(choices))]


def chooser_of(partitioner: Any) -> Chooser | None:
    """The user's partitioner in one form; None stands for the default."""
    if partitioner is None:
        return None
    partition = getattr(partitioner, "partition", None)
    # Text has a method of that name, too, and a class would be called without its object.
    is_no_object = isinstance(partitioner, str | bytes | bytearray | type)
    if callable(partition) and not is_no_object:
        return partition  # type: ignore[no-any-return]
    if not callable(partitioner) or is_no_object:
        hint = f"; give an object: {partitioner.__name__}()" if isinstance(partitioner, type) else ""
        raise ConfigurationError(
            f"partitioner={partitioner!r}: legal is a callable (key_bytes, all_partitions, "
            "available_partitions), or an object with partition(topic, key, key_bytes, value, value_bytes, "
            f"cluster){hint}"
        )

    def choose(
        topic: str,
        key: Any,
        key_bytes: bytes | None,
        value: Any,
        value_bytes: bytes | None,
        view: ClusterView,
    ) -> int:
        everything = sorted(view.partitions_for_topic(topic) or ())
        return partitioner(key_bytes, everything, sorted(view.available_partitions_for_topic(topic)))  # type: ignore[no-any-return]

    return choose
