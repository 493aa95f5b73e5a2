"""`ConsumerCore`: the parts of one consumer, which the sync and the asyncio consumer share.

It never refers to the consumers that hold it. The guards of their calls are here, too: one thread at a time,
none after `close`, and no record lost to an interrupt. `Handover` is the one place that knows how records
reach the application, so it can take back those that an interrupted call did not return (see
pykafka2/interrupts.py). Used on the callers' threads.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Concatenate, ParamSpec, Protocol, TypeVar

from pykafka2 import lifecycle
from pykafka2.errors import ClientClosed, ConcurrentUse, IllegalState, KafkaError
from pykafka2.hooks import with_added
from pykafka2.other_clients import explain_arguments

if TYPE_CHECKING:
    from pykafka2.cluster.client import ClusterClient
    from pykafka2.consumer.group.group import Group
    from pykafka2.consumer.options import ConsumerOptions
    from pykafka2.consumer.poll.poller import Poller
    from pykafka2.consumer.state.iteration_queue import IterationQueue
    from pykafka2.consumer.state.subscription import Subscription
    from pykafka2.driver.runtime import Runtime
    from pykafka2.types import TopicPartition

P = ParamSpec("P")
T = TypeVar("T")
OwnedT = TypeVar("OwnedT", bound="Owned")


class Handover:
    """The last step of records to the application, which is repeated if an exception interrupts it."""

    def __init__(
        self,
        subscription: Subscription,
        poller: Poller,
        iteration_queue: IterationQueue,
    ) -> None:
        self._subscription = subscription
        self._poller = poller
        self._iteration_queue = iteration_queue
        self._position_control = poller.position_control
        self._checked_as_of = 0
        """`Subscription.changes` when the queued records were last compared with the assignment."""
        self._to_rewind: frozenset[TopicPartition] = frozenset()
        """Partitions whose queued records are being read again instead."""
        self._puts_back = False
        """Whether to read them from the fetch buffer, as far as it has them."""

    def begin(self) -> bool:
        """Start a call that returns records; return the state that `undo_interrupted_call` needs.

        Finish what an interrupt left of an earlier call first.
        """
        self._poller.collector.moved = self._iteration_queue.taken = None
        changes = self._subscription.changes
        if self._to_rewind or self._checked_as_of != changes:
            self._finish_rewinding()
            self._iteration_queue.keep_only(self._subscription.assigned)
            self._checked_as_of = changes
        return self._poller.is_in_pass

    def undo_interrupted_call(self, was_in_pass: bool) -> None:
        """Take the records of an interrupted call back, so that the next call returns them."""
        self._poller.is_in_pass = was_in_pass
        self._finish_rewinding()
        self._iteration_queue.restore_taken()
        if not self._iteration_queue:  # otherwise the polled records are in the queue
            self._poller.collector.undo_last_pass()

    def rewind(self, partitions: Iterable[TopicPartition]) -> None:
        """Read the queued records of these partitions again, because they were not returned."""
        self._rewind(partitions, puts_back=False)

    def put_back(self, partitions: Iterable[TopicPartition]) -> None:
        """Rewind like `rewind`, to the data in the fetch buffer, which can be read again at once."""
        self._rewind(partitions, puts_back=True)

    def _rewind(self, partitions: Iterable[TopicPartition], *, puts_back: bool) -> None:
        if self._iteration_queue:
            self._puts_back = puts_back
            self._to_rewind = self._to_rewind.union(partitions)
            self._finish_rewinding()

    def _finish_rewinding(self) -> None:
        if not self._to_rewind:
            return
        for partition, offset in self._iteration_queue.first_offsets(self._to_rewind).items():
            if partition not in self._subscription.assigned:
                continue
            if not (self._puts_back and self._poller.collector.put_back(partition, offset)):
                self._position_control.rewind(partition, offset)
        self._iteration_queue.forget(self._to_rewind)
        self._to_rewind = frozenset()


class CallLock(Protocol):
    """The lock of a consumer's calls: an RLock, or that of an asyncio consumer, which a wait releases."""

    def acquire(self, blocking: bool = True) -> bool: ...

    def release(self) -> None: ...


class ConsumerCore:
    """The parts of one consumer.

    Args:
        options: the options of the consumer.
        runtime: clock, network and threads; None for real ones, which the client creates and closes.
        owns_runtime: whether the client closes `runtime`.
        lock: the lock of the calls; an RLock by default.
        closed_error: the error of calls after `close`.

    Attributes:
        cluster: metadata, connections and router.
        subscription: topics, assignment and positions.
        buffer: the fetched batches, between the IO thread and `poll`.
        fetcher: the IO thread's part.
        queries: requests for offsets; `lookups` sends them.
        poller: one `poll`; its `position_control` moves positions.
        iteration_queue: records that iteration has polled and not returned yet.
        topics_read: the topics of positions, for offsets in transactions.
        slice_length: how many of them iteration returns between two checks of the group.
        handover: takes back the records of an interrupted call.
        group: commits and membership; None without a group_id.
        inspection: `metrics`, `health` and `explain`.
        interceptors: the hooks of the application.
        refusal: the error of all calls after a close or a fork; None while the consumer is open.
    """

    def __init__(
        self,
        options: ConsumerOptions,
        runtime: Runtime | None = None,
        *,
        owns_runtime: bool = False,
        lock: CallLock | None = None,
        closed_error: KafkaError | None = None,
    ) -> None:
        with lifecycle.loading:  # importing the class loads none of its parts
            from pykafka2.cluster.client import ClusterClient
            from pykafka2.consumer.fetch.buffer import FetchBuffer
            from pykafka2.consumer.fetch.fetcher import Fetcher
            from pykafka2.consumer.fetch.offset_lookups import OffsetLookups, OffsetQueries
            from pykafka2.consumer.inspection import Inspection
            from pykafka2.consumer.interceptors import Interceptors
            from pykafka2.consumer.poll.poller import Poller
            from pykafka2.consumer.state.iteration_queue import IterationQueue, SliceLength
            from pykafka2.consumer.state.subscription import Subscription
            from pykafka2.consumer.state.topics_read import TopicsRead
            from pykafka2.protocol.registry import ApiKey
        self.options = options
        self.lock: CallLock = threading.RLock() if lock is None else lock
        self.refusal: KafkaError | None = None
        self.closed_error = closed_error or ClientClosed("the consumer is closed; create a new one")
        self.iteration_queue = IterationQueue()
        self.interceptors = Interceptors(with_added("consumer", options.interceptors))
        self.subscription = Subscription(by_group=options.group_id is not None)
        self.cluster = cluster = ClusterClient(
            options, name=options.client_id, runtime=runtime, owns_runtime=owns_runtime
        )
        try:
            cluster.metrics.timed_api = ApiKey.FETCH
            self.buffer = FetchBuffer(cluster.driver.wake)
            self.lookups = OffsetLookups(cluster, options.isolation)
            self.fetcher = Fetcher(options, cluster, self.buffer, self.lookups)
            self.topics_read = TopicsRead(
                self.subscription, self.iteration_queue, self.fetcher.table.topic_id
            )
            self.group = group = self._new_group(options, cluster)
            self.poller = Poller(
                options,
                cluster,
                self.subscription,
                self.fetcher,
                self.interceptors,
                start_positions=group.resume if group is not None else None,
                poll_tasks=(group.rebalance, group.committer) if group is not None else (),
            )
            self.position_control = self.poller.position_control
            self.handover = Handover(self.subscription, self.poller, self.iteration_queue)
            self.slice_length = SliceLength(cluster.driver.clock)
            self.queries = OffsetQueries(cluster, self.lookups)
            self.inspection = Inspection(
                options,
                cluster,
                self.subscription,
                self.buffer,
                self.fetcher,
                self.poller.bad_records,
                self.poller.stall_detector,
                group,
            )
            cluster.add(self.lookups, self.fetcher)
            cluster.start_hooks(self.interceptors, "consumer", self.inspection.metric_rows)
            cluster.start_telemetry(self.inspection.metric_rows, self.inspection.labels)
        except BaseException:
            cluster.discard()
            raise

    def check_open(self) -> None:
        """Raise the error of a consumer that was closed, or belongs to the parent process."""
        refusal = self.refusal
        if refusal is not None:
            raise type(refusal)(str(refusal))  # a copy, because each raised error gets its own traceback

    def group_for(self, call: str) -> Group:
        """Return the group. Raise IllegalState without a group_id."""
        if self.group is None:
            raise IllegalState(
                f"{call}() needs a consumer with group_id. Without a group, store position() yourself and "
                "return to it with seek()."
            )
        return self.group

    def group_has_news(self) -> bool:
        """Run due commits between two polls; return whether the group needs a poll first.

        If it does, the remaining records of the last poll are read again.
        """
        if self.group is None:
            return False
        if self.group.rebalance.has_news():
            self.handover.rewind(self.subscription.assigned)
            return True
        self.group.rebalance.on_iteration()
        self.group.committer.run(0.0)
        return False

    def _new_group(self, options: ConsumerOptions, cluster: ClusterClient) -> Group | None:
        if options.group_id is None:
            return None
        with lifecycle.loading:
            from pykafka2.consumer.group.group import Group
        return Group.build(
            options,
            cluster,
            self.subscription,
            self.iteration_queue,
            self.interceptors,
            self.fetcher.table.is_of_old_topic,
        )


class Owned:
    """An object whose calls the guards guard, by the lock and the state of its core."""

    _core: ConsumerCore


def owned(
    method: Callable[Concatenate[OwnedT, P], T],
) -> Callable[Concatenate[OwnedT, P], T]:
    """Guard a call: one thread at a time, and none after close(). Calls within a call are allowed."""

    @functools.wraps(method)
    def guarded(self: OwnedT, /, *args: P.args, **kwargs: P.kwargs) -> T:
        core = self._core
        lock = core.lock
        if not lock.acquire(blocking=False):
            raise _second_thread(method.__name__)
        try:
            if core.refusal is not None:
                core.check_open()
            return method(self, *args, **kwargs)
        except TypeError as error:
            explain_arguments(error, self, method.__name__, kwargs)
            raise
        finally:
            lock.release()

    return guarded


def handing_over(
    method: Callable[Concatenate[OwnedT, P], T],
) -> Callable[Concatenate[OwnedT, P], T]:
    """Guard a call that returns records like `owned`; if an exception interrupts it, take its records back.

    A signal handler runs during a call, not between the return from here and the caller's next step, so
    every returned record reaches the application.
    """

    @functools.wraps(method)
    def guarded(self: OwnedT, /, *args: P.args, **kwargs: P.kwargs) -> T:
        core = self._core
        lock = core.lock
        if not lock.acquire(blocking=False):
            raise _second_thread(method.__name__)
        was_in_pass: bool | None = None
        try:
            try:
                if core.refusal is not None:
                    core.check_open()
                was_in_pass = core.handover.begin()
                records = method(self, *args, **kwargs)
            except TypeError as error:
                explain_arguments(error, self, method.__name__, kwargs)
                raise
            finally:
                lock.release()
            return records
        except BaseException:
            if was_in_pass is not None:
                core.handover.undo_interrupted_call(was_in_pass)
            raise

    return guarded


def _second_thread(call: str) -> ConcurrentUse:
    return ConcurrentUse(
        f"another thread is inside a call of this KafkaConsumer, so {call}() cannot run; create a consumer "
        "for each thread (any thread can call wakeup(), read_range(), health(), explain() and metrics())"
    )
