"""What a test may look at of its cluster: partitions, logs, groups, transactions, metrics, the timeline.

The part of `KafkaCluster` (cluster.py) that only reads.  Each call takes the cluster's lock and gives plain
values as of now; any thread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar, cast

from pykafka2.errors import KafkaTimeoutError

if TYPE_CHECKING:
    from pykafka2.driver.runtime import Runtime
    from pykafka2.testing.cluster import KafkaCluster
    from pykafka2.testing.views.groups import GroupView
    from pykafka2.testing.views.metrics import ClusterMetrics
    from pykafka2.testing.views.partitions import ConnectionView, LogView, PartitionView
    from pykafka2.testing.views.timeline import Timeline
    from pykafka2.testing.views.transactions import TransactionView


T = TypeVar("T")

# Nobody tells waiting tests of every change, so they look.
LOOK_EVERY = 0.002


class ClusterViews:
    """`cluster.partition("orders", 0)`, `cluster.log(...)`, `cluster.group(...)`, `cluster.timeline()`."""

    @property
    def _cluster(self) -> KafkaCluster:
        return cast("KafkaCluster", self)

    def wait_until(self, predicate: Callable[[], T], timeout: float = 10.0, what: str = "it") -> T:
        """Wait until the predicate is true, and return its value: what it looks at is this cluster's (views,
        history, rules), or the test's own.  `timeout` in seconds (virtual ones in a simulation).

        Raises `KafkaTimeoutError` saying that `what` did not come true, and what ended the cluster.
        """
        return waited(self._cluster.runtime, self._cluster.check, predicate, timeout, what)

    def partition(self, topic: str, partition: int) -> PartitionView:
        """Leader, epoch, ISR and each replica's offsets, as of now.  Raises `UnknownTopicOrPartition`."""
        from pykafka2.testing.views.partitions import partition_view

        self._cluster.check()
        with self._cluster.lock:
            return partition_view(self._cluster, topic, partition)

    def log(self, topic: str, partition: int, broker: int | None = None) -> LogView:
        """What a replica holds, the leader's by default: `values()`, `records()`, `batches()`, offsets."""
        from pykafka2.testing.views.partitions import log_view

        self._cluster.check()
        with self._cluster.lock:
            return log_view(self._cluster, topic, partition, broker)

    def connections(self, client_id: str | None = None) -> list[ConnectionView]:
        """The connections that clients (or this one) hold open now, of any library: broker, the client's
        address, id and software, and its unanswered requests.
        """
        from pykafka2.testing.views.partitions import connection_views

        self._cluster.check()
        return [one for one in connection_views(self._cluster) if client_id in (None, one.client_id)]

    def coordinator(self, key: str, kind: str = "group") -> int:
        """The id of the broker that coordinates a group, or with kind="transaction" a transactional id; -1
        while there is none.  Raises `CoordinatorNotAvailable` if no client ever asked for one of this kind.
        """
        from pykafka2.testing.views.groups import coordinator_partition

        self._cluster.check()
        with self._cluster.lock:
            return self._cluster.controller.partition(*coordinator_partition(self._cluster, key, kind)).leader

    def group(self, group_id: str) -> GroupView:
        """A group as its coordinator knows it now: state, epoch, members with assignments, offsets.

        Raises `GroupIdNotFound`, `CoordinatorNotAvailable`, `CoordinatorLoadInProgress`.
        """
        from pykafka2.testing.views.groups import group_view

        self._cluster.check()
        with self._cluster.lock:
            return group_view(self._cluster, group_id)

    def transaction(self, transactional_id: str) -> TransactionView:
        """A transactional id as its coordinator knows it now: state, producer, partitions, timeout.

        Raises `TransactionalIdNotFound`, `CoordinatorNotAvailable`, `CoordinatorLoadInProgress`.
        """
        from pykafka2.testing.views.transactions import transaction_view

        self._cluster.check()
        with self._cluster.lock:
            return transaction_view(self._cluster, transactional_id)

    def transactions(self) -> list[TransactionView]:
        """All transactional ids that their coordinators know now; `is_open` tells those not ended."""
        from pykafka2.testing.views.transactions import transaction_views

        self._cluster.check()
        with self._cluster.lock:
            return transaction_views(self._cluster)

    def metrics(self) -> ClusterMetrics:
        """Request times and bytes as of now, by API, of each broker and all together."""
        from pykafka2.testing.views.metrics import ClusterMetrics

        with self._cluster.lock:
            return ClusterMetrics({broker.id: broker.metrics.copy() for broker in self._cluster.brokers})

    def timeline(self, last: int | None = None) -> Timeline:
        """Requests and events (leaders, ISRs, brokers, faults) in order: `str()`, `json()`, `as_list()`.

        With `last` only so many of the newest.
        """
        from pykafka2.testing.views.timeline import timeline_of

        with self._cluster.lock:
            return timeline_of(self._cluster, last)


def waited(
    runtime: Runtime, check: Callable[[], None], predicate: Callable[[], T], timeout: float, what: str
) -> T:
    """The predicate's first true value; looks at least twice."""
    deadline = runtime.clock.monotonic() + timeout
    while True:
        is_late = runtime.clock.monotonic() >= deadline
        value = predicate()
        if value:
            return value
        check()
        if is_late:
            raise KafkaTimeoutError(f"{what} did not come true within {timeout:g} seconds; last: {value!r}")
        runtime.wait_until(lambda: False, LOOK_EVERY)
