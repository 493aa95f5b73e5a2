"""The partitioners: strategies by name, and the user's own callables and objects.

Used on the caller's thread within `send`. By default the murmur2 hash of the key decides, as in the Java
client, and records without a key stick to a partition for a while (sticky.py). librdkafka's names choose
the same partitions as librdkafka.
"""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable, Sequence
from itertools import count
from operator import index
from typing import Any, Protocol, SupportsIndex

from pykafka2.cluster.snapshot import ClusterSnapshot
from pykafka2.errors import ConfigurationError, IllegalArgument
from pykafka2.option_fields import NOT_AWAITED, is_async
from pykafka2.producer.accumulator.partition_queue import PartitionQueue
from pykafka2.producer.partitioning.key_hashes import KeyHashes, crc32, fnv1a, positive_murmur2
from pykafka2.producer.partitioning.topic_route import Route
from pykafka2.slotted import slotted

Choose = Callable[[Route, Any, "bytes | None", Any, "bytes | None"], "PartitionQueue | None"]
"""Returns the queue for route, key, key_bytes, value, value_bytes; None is the sticky partition."""

JAVA_CLASSES = {"org.apache.kafka.clients.producer.RoundRobinPartitioner": "round_robin"}


_OF_CALLABLE = ("key_bytes", "all_partitions", "available_partitions")
_OF_OBJECT = ("topic", "key", "key_bytes", "value", "value_bytes", "cluster")


@slotted(frozen=True)
class Strategy:
    """How `send` finds a record's partition.

    `choose` decides if it is set; otherwise `send` itself uses `ignores_keys` and `hashes`.
    """

    hashes: KeyHashes
    choose: Choose | None = None
    ignores_keys: bool = False
    close: Callable[[], object] = lambda: None
    """`close` of the user's partitioner, called when the producer is closed."""


class ClusterView:
    """The metadata that a partitioner can use (kafka-python's names)."""

    __slots__ = ("_snapshot",)

    def __init__(self, snapshot: ClusterSnapshot) -> None:
        self._snapshot = snapshot

    def topics(self) -> set[str]:
        """Return the topics that the producer knows."""
        return {*self._snapshot.topics}

    def partitions_for_topic(self, topic: str) -> set[int]:
        """Return the topic's partition numbers; empty if the topic is unknown."""
        known = self._snapshot.topics.get(topic)
        return {*known.partitions} if known is not None else set()

    def available_partitions_for_topic(self, topic: str) -> set[int]:
        """Return the partitions that have a leader."""
        known = self._snapshot.topics.get(topic)
        if known is None:
            return set()
        nodes = self._snapshot.nodes
        return {number for number, info in known.partitions.items() if info.leader in nodes}


class Partitioner(Protocol):
    """Interface of a custom partitioner.  The producer also calls `close()`, if the object has it."""

    def partition(
        self,
        topic: str,
        key: Any,
        key_bytes: bytes | None,
        value: Any,
        value_bytes: bytes | None,
        cluster: ClusterView,
        /,
    ) -> SupportsIndex:
        """Return the partition number for a record that has none.

        It runs on the thread that sends; several threads can call it at the same time.  If it raises, `send`
        raises its exception and the record is not appended.
        """
        ...


class DefaultPartitioner:
    """kafka-python's default partitioner, for programs that use or extend it.

    The producer treats an object of this class, or of `StickyPartitioner`, as partitioner=None.  Subclasses
    are called for each record that names no partition: their `__call__` if they define that instead of
    `partition`, as for kafka-python 2.
    """

    def __init__(self) -> None:
        self._turns = count()

    def partition(
        self,
        topic: str,
        key: Any,
        key_bytes: bytes | None,
        value: Any,
        value_bytes: bytes | None,
        cluster: ClusterView,
    ) -> SupportsIndex:
        """Return the partition of the key's murmur2 hash; without a key, the available ones in turn."""
        numbers = sorted(cluster.partitions_for_topic(topic))
        if key_bytes is not None:
            return numbers[positive_murmur2(key_bytes) % len(numbers)]
        numbers = sorted(cluster.available_partitions_for_topic(topic)) or numbers
        return numbers[next(self._turns) % len(numbers)]


class StickyPartitioner(DefaultPartitioner):
    """kafka-python's sticky partitioner: records without a key stick to a partition for a batch."""


def strategy_of(partitioner: Any, *, ignores_keys: bool, seeded: random.Random) -> Strategy:
    """Return the strategy for the option `partitioner`: a name, a callable, an object or None.

    `ignores_keys` applies to the default only, as in Java.
    """
    if partitioner is None or type(partitioner) in (DefaultPartitioner, StickyPartitioner):
        return Strategy(KeyHashes(), ignores_keys=ignores_keys)
    if isinstance(partitioner, str):
        name = JAVA_CLASSES.get(partitioner, partitioner.lower())
        if name in STRATEGIES:
            return STRATEGIES[name](seeded)
    elif not isinstance(partitioner, bytes | bytearray | type):
        partition = getattr(partitioner, "partition", None)
        is_inherited = getattr(type(partitioner), "partition", None) is DefaultPartitioner.partition
        # A subclass of kafka-python 2's DefaultPartitioner defines __call__ instead.
        if callable(partition) and not (is_inherited and callable(partitioner)):
            _check_call(partitioner, partition, _OF_OBJECT)
            close = getattr(partitioner, "close", None)
            choose = _object_chooser(partitioner, partition)
            return Strategy(KeyHashes(), choose, close=close if callable(close) else lambda: None)
        if callable(partitioner):
            _check_call(partitioner, partitioner, _OF_CALLABLE)
            return Strategy(KeyHashes(), _callable_chooser(partitioner))
    hint = f"; give an object: {partitioner.__name__}()" if isinstance(partitioner, type) else ""
    raise ConfigurationError(
        f"partitioner={partitioner!r} is not valid; use one of {', '.join(map(repr, STRATEGIES))}; a "
        f"callable ({', '.join(_OF_CALLABLE)}); or an object with partition({', '.join(_OF_OBJECT)}){hint}"
    )


def _check_call(partitioner: object, function: Callable[..., Any], arguments: Sequence[str]) -> None:
    """Raise ConfigurationError if the partitioner cannot be called as it will be."""
    if is_async(function):
        raise ConfigurationError(f"partitioner={partitioner!r} is not valid: {NOT_AWAITED}")
    if isinstance(inspect.getattr_static(type(function), "__call__"), classmethod | staticmethod):
        function = function.__call__  # type: ignore[operator]  # else `signature` leaves out its first argument
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # a C function without a signature
        return
    try:
        signature.bind(*arguments)
    except TypeError as error:
        raise ConfigurationError(
            f"partitioner={partitioner!r} is called with ({', '.join(arguments)}), and it takes "
            f"{signature}: {error}"
        ) from None


# ---------------------------------------------------------------------------------------------------
# By name
# ---------------------------------------------------------------------------------------------------


class _Turns(dict[str, "count[int]"]):
    """A counter for each topic that starts at `start()`. `next` of a counter is atomic under the GIL."""

    def __init__(self, start: Callable[[], int]) -> None:
        super().__init__()
        self._start = start

    def __missing__(self, topic: str) -> count[int]:
        return self.setdefault(topic, count(self._start()))


def _round_robin(seeded: random.Random) -> Strategy:
    """Java's RoundRobinPartitioner: each partition in turn from 0 on, whatever the key."""
    turns = _Turns(lambda: 0)

    def choose(route: Route, *ignored: object) -> PartitionQueue:
        queues = route.available or route.queues
        return queues[next(turns[route.topic]) % len(queues)]

    return Strategy(KeyHashes(), choose)


def _murmur2_round_robin(seeded: random.Random) -> Strategy:
    """The key's hash decides as in Java; without a key, each partition in turn from a random one on."""
    turns, hashes = _Turns(lambda: seeded.getrandbits(31)), KeyHashes()

    def choose(route: Route, key: Any, key_bytes: bytes | None, *values: object) -> PartitionQueue:
        queues = route.queues
        if key_bytes is not None:
            return queues[hashes[key_bytes] % len(queues)]
        queues = route.available or queues
        return queues[next(turns[route.topic]) % len(queues)]

    return Strategy(hashes, choose)


def _random(seeded: random.Random) -> Strategy:
    """Any partition with a leader, record by record, whatever the key."""

    def choose(route: Route, *ignored: object) -> PartitionQueue:
        queues = route.available or route.queues
        return queues[int(seeded.random() * len(queues))]

    return Strategy(KeyHashes(), choose)


def _consistent(seeded: random.Random) -> Strategy:
    """librdkafka's CRC32; no key is an empty key."""

    def choose(route: Route, key: Any, key_bytes: bytes | None, *values: object) -> PartitionQueue:
        queues = route.queues
        return queues[crc32(key_bytes or b"") % len(queues)]

    return Strategy(KeyHashes(crc32), choose)


def _consistent_random(seeded: random.Random) -> Strategy:
    """librdkafka's default: CRC32; records without a key, or with an empty one, are spread."""

    def choose(route: Route, key: Any, key_bytes: bytes | None, *values: object) -> PartitionQueue | None:
        queues = route.queues
        return queues[crc32(key_bytes) % len(queues)] if key_bytes else None

    return Strategy(KeyHashes(crc32), choose)


def _of_any_key(function: Callable[[bytes], int]) -> Callable[[random.Random], Strategy]:
    """The key's hash decides; no key is an empty key."""

    def strategy(seeded: random.Random) -> Strategy:
        hashes = KeyHashes(function)

        def choose(route: Route, key: Any, key_bytes: bytes | None, *values: object) -> PartitionQueue:
            queues = route.queues
            return queues[hashes[key_bytes or b""] % len(queues)]

        return Strategy(hashes, choose)

    return strategy


def _of_key(function: Callable[[bytes], int]) -> Callable[[random.Random], Strategy]:
    """The key's hash decides; records without a key are spread, which is what the hot path does."""
    return lambda seeded: Strategy(KeyHashes(function))


STRATEGIES: dict[str, Callable[[random.Random], Strategy]] = {
    "murmur2_round_robin": _murmur2_round_robin,
    "round_robin": _round_robin,
    "random": _random,
    "consistent": _consistent,
    "consistent_random": _consistent_random,
    "murmur2": _of_any_key(positive_murmur2),
    "murmur2_random": _of_key(positive_murmur2),
    "fnv1a": _of_any_key(fnv1a),
    "fnv1a_random": _of_key(fnv1a),
}


# ---------------------------------------------------------------------------------------------------
# User code
# ---------------------------------------------------------------------------------------------------


def _callable_chooser(partitioner: Callable[[bytes | None, list[int], list[int]], Any]) -> Choose:
    def choose(route: Route, key: Any, key_bytes: bytes | None, *values: object) -> PartitionQueue:
        try:
            # Copies, as user code can change them.
            chosen = partitioner(key_bytes, [*route.numbers], [*route.available_numbers])
        except Exception as error:
            _note(error, partitioner, route)
            raise
        return _queue(route, partitioner, chosen)

    return choose


def _object_chooser(partitioner: object, partition: Callable[..., Any]) -> Choose:
    def choose(
        route: Route, key: Any, key_bytes: bytes | None, value: Any, value_bytes: bytes | None
    ) -> PartitionQueue:
        view = ClusterView(route.snapshot)
        try:
            chosen = partition(route.topic, key, key_bytes, value, value_bytes, view)
        except Exception as error:
            _note(error, partitioner, route)
            raise
        return _queue(route, partitioner, chosen)

    return choose


def _note(error: Exception, partitioner: object, route: Route) -> None:
    error.add_note(
        f"raised by the partitioner {partitioner!r} for a record for topic {route.topic!r}, which was not "
        "appended"
    )


def _queue(route: Route, partitioner: object, chosen: Any) -> PartitionQueue:
    queues = route.queues
    if not isinstance(chosen, bool):
        try:
            number = index(chosen)
        except TypeError:
            pass
        else:
            if 0 <= number < len(queues):
                return queues[number]
    raise IllegalArgument(
        f"the partitioner {partitioner!r} returned {chosen!r} for a record for topic {route.topic!r}, which "
        f"was not appended. Return the number of one of its {len(queues)} partitions, counted from 0"
    )
