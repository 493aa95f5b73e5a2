"""`ShareCore`: the parts of one share consumer, and its calls without their waits.

The sync and the asyncio consumer share it; each waits in its own way. The guards of calls are here, too: one
thread at a time polls, any thread acknowledges.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from pykafka2 import lifecycle
from pykafka2.cluster.arguments import checked_topic
from pykafka2.errors import ClientClosed, IllegalArgument, IllegalState, KafkaError, KafkaTimeoutError
from pykafka2.interrupts import run_all
from pykafka2.share.records import AcknowledgeType, ShareRecord, delivery_of, is_of
from pykafka2.types import TopicPartition

if TYPE_CHECKING:
    from pykafka2.driver.runtime import Runtime
    from pykafka2.share.decoding import Records
    from pykafka2.share.lock import Lock
    from pykafka2.share.options import ShareConsumerOptions

Results = dict[TopicPartition, KafkaError | None]
Callback = Callable[[dict[TopicPartition, set[int]], KafkaError | None], object]

PREFETCH_BELOW = 0.1
"""Records are requested ahead if the application handled the last ones within so many seconds: then the locks
of the next ones hardly wait, and it matters that they are here."""
QUICK_POLLS = 3
"""So many polls in a row must be that quick. Each record that is requested ahead and released counts as
delivered, and a program that takes a few records and ends would do that often."""

EXPLICIT_NEEDED = (
    "acknowledge() needs share_acknowledgement_mode='explicit': in implicit mode the next poll() accepts the "
    "records. Use `with record:`, or set the mode"
)


class ShareCore:
    """The parts of one share consumer.

    Attributes:
        cluster: metadata, connections and router.
        locks: the acquired records.
        membership: heartbeats; its `failure` is the error of the next poll().
        sessions: requests to the leaders.
        buffer: fetched data, between the IO thread and poll().
        inspection: `metrics`, `health` and `explain`.
        refusal: the error of all calls after a close or a fork; None while the consumer is open.
    """

    def __init__(
        self,
        options: ShareConsumerOptions,
        runtime: Runtime | None = None,
        *,
        owns_runtime: bool = False,
        closed_error: KafkaError | None = None,
    ) -> None:
        with lifecycle.loading:  # importing the class loads none of its parts
            from pykafka2.cluster.client import ClusterClient
            from pykafka2.consumer.bad_records import BadRecords
            from pykafka2.consumer.interceptors import Interceptors
            from pykafka2.consumer.poll.meters import PollTimes
            from pykafka2.hooks import with_added
            from pykafka2.protocol.registry import ApiKey
            from pykafka2.share.decoding import ShareBuffer, ShareCollector
            from pykafka2.share.inspection import ShareInspection
            from pykafka2.share.locks import Locks
            from pykafka2.share.membership import ShareMembership
            from pykafka2.share.node_session import SessionContext
            from pykafka2.share.sessions import ShareSessions
        self.options = options
        self._is_implicit = options.is_implicit
        self.lock = threading.RLock()
        self.refusal: KafkaError | None = None
        self.closed_error = closed_error or ClientClosed("the share consumer is closed; create a new one")
        self.callback: Callback | None = None
        self.is_woken = False
        self.queue: deque[ShareRecord[Any, Any]] = deque()
        """Records that iteration has polled and not returned."""
        self._found_locks: list[Lock] = []
        """The locks of the records of the last poll()."""
        self._found_at: float | None = None
        """When a poll() returned records, until the next one begins."""
        self._quick_polls = 0
        """The polls in a row whose records the application handled within PREFETCH_BELOW."""
        self._may_fetch_ahead = False
        self._checked: tuple[int, frozenset[str]] | None = None
        """The metadata version and the topics of the last check for errors of topics."""
        self._is_wake_due = False
        self.hooks = Interceptors(with_added("share_consumer", options.interceptors))
        self.cluster = cluster = ClusterClient(
            options, name=options.client_id, runtime=runtime, owns_runtime=owns_runtime
        )
        try:
            driver = cluster.driver
            cluster.metrics.timed_api = ApiKey.SHARE_FETCH
            self.clock = driver.clock
            self.locks = Locks(driver.clock, options.client_id, options.max_renew, driver.wake)
            self.locks.record_hooks = self.hooks if self.hooks.sees_records else None
            self.locks.keeps_outcomes = self._sees_commits = self.hooks.has("on_acknowledgement_commit")
            self.buffer = ShareBuffer()
            self.membership = ShareMembership(options, cluster)
            context = SessionContext(options, cluster, self.membership, self.locks, self.buffer)
            self.sessions = ShareSessions(context)
            bad_records = BadRecords(options.on_bad_record, self.hooks)
            self._collector = ShareCollector(
                options, self.buffer, self.locks, bad_records, driver.clock, cluster.metrics
            )
            self._times = PollTimes(cluster.metrics, driver.clock.monotonic)
            self.inspection = ShareInspection(self.sessions)
            cluster.add(self.membership, self.sessions)
            cluster.start_hooks(self.hooks, "share_consumer", self.inspection.metric_rows)
            cluster.start_telemetry(self.inspection.metric_rows, self.inspection.labels)
        except BaseException:
            cluster.discard()
            raise

    def check_open(self) -> None:
        """Raise the error of a consumer that was closed, or belongs to the parent process."""
        if self.refusal is not None:
            raise self.refusal.anew()

    # ------------------------------------------------------------------ subscription

    def subscribe(self, topics: Iterable[str] | str) -> None:
        if not isinstance(topics, Iterable) or isinstance(topics, bytes | Mapping):
            raise IllegalArgument(
                f"subscribe(): topics={topics!r} must be a topic or a list of topics, such as ['jobs']"
            )
        names = [topics] if isinstance(topics, str) else list(topics)
        if not names:
            raise IllegalArgument(
                "subscribe() needs at least one topic; call unsubscribe() to leave the group"
            )
        self.membership.subscribe(frozenset(checked_topic(name) for name in names))

    # ------------------------------------------------------------------ poll

    def begin_poll(self) -> None:
        """Start a poll(): in implicit mode accept the records of the last one; send what is due."""
        self._found_locks = []
        if not self.membership.topics:
            raise IllegalState("no topic is subscribed; call subscribe() first")
        self.hooks.call("on_poll_start")
        now = self.clock.monotonic()
        self._times.begin(now)
        if self._found_at is not None:
            limit = min(PREFETCH_BELOW, (self.sessions.context.lock_timeout or 0.0) / 10)
            self._quick_polls = self._quick_polls + 1 if now - self._found_at < limit else 0
            self._found_at = None
            self._may_fetch_ahead = self.sessions.context.fetches_ahead = (
                self._quick_polls >= QUICK_POLLS and not self.options.is_strict
            )
        self.membership.is_polling = True
        self.membership.on_poll()
        # collect() wakes the driver, so that one request can carry acknowledgements and ask for records.
        self._is_wake_due |= self.locks.flush(accepts=self._is_implicit)
        self.call_back()

    def flush(self) -> None:
        """Send the acknowledgements that the application has decided, or implicit mode decides."""
        self._is_wake_due |= self.locks.flush(accepts=self._is_implicit)
        self._wake_if_due()

    def _wake_if_due(self) -> None:
        if self._is_wake_due:
            self._is_wake_due = False
            self.cluster.driver.wake()

    def collect(self, max_records: int | None, *, for_iteration: bool = False) -> Records | None:
        """Return the records that are available; None after a wakeup().

        In implicit mode the next poll() accepts them, unless they are queued for an iteration.
        """
        if self.is_woken:
            self.is_woken = False
            return None
        for part in (self.membership, self.sessions.context):
            if part.failure is not None:
                failure, part.failure = part.failure, None
                raise failure.anew()
        error = self.cluster.metadata.last_error
        if error is not None and not error.retriable:
            raise error.anew()
        checked = (self.cluster.metadata.version, self.membership.topics)
        if checked != self._checked:
            self._checked = checked
            self._raise_topic_error()
        options = self.options
        limit = options.max_poll_records if max_records is None else max_records
        found, locks = self._take_queued(limit)
        if not found:
            if 0 < self.buffer.count() < 2 * limit:
                self._fetch_ahead()  # the request is under way while these records are decoded
            is_strict = max_records is not None or options.is_strict
            found, locks = self._collector.collect(limit, is_strict=is_strict)
            if found and self.hooks.consumes:
                found = self._intercepted(found)
        if not found:
            if self.sessions.want_records(limit):
                self._is_wake_due = False
        elif self.buffer.first() is None:
            self._fetch_ahead()
        if found:
            self._found_at = self.clock.monotonic()
            if self._is_implicit and not for_iteration:
                self._found_locks = locks
                self.locks.accept_later(locks)
        self._wake_if_due()
        return found

    def _raise_topic_error(self) -> None:
        """Raise a topic's error that is not retriable, once per metadata response."""
        metadata = self.cluster.metadata
        for topic in sorted(self.membership.topics):
            error = metadata.topic_error(topic)
            if error is not None and not error.retriable:
                metadata.request_update(error)  # the next response can be without the error
                raise error.anew()

    def _intercepted(self, found: Records) -> Records:
        """Return the records that the hooks on_consume leave; the others are rejected."""
        places = _places(found)
        try:
            kept: Any = self.hooks.on_consume(dict(found))  # type: ignore[arg-type]
        except BaseException:  # such as a Ctrl-C: the next poll() returns them
            self.put_queued(found)
            raise
        for delivery, offset in places - _places(kept):
            self.locks.decide_held(delivery, [offset], AcknowledgeType.REJECT)
        self._is_wake_due |= self.locks.flush(accepts=False)
        return cast("Records", kept)

    def _fetch_ahead(self) -> None:
        """Request the next records before a quick application waits for them; once in a poll()."""
        if self._may_fetch_ahead:
            self._may_fetch_ahead = self._is_wake_due = False
            self.sessions.want_ahead()

    def _take_queued(self, limit: int) -> tuple[Records, list[Lock]]:
        """Return records that an iteration has left, and their locks."""
        found: Records = {}
        offsets: dict[Lock, list[int]] = {}
        while limit > 0 and (record := self.next_queued()) is not None:
            found.setdefault(TopicPartition(record.topic, record.partition), []).append(record)
            offsets.setdefault(delivery_of(record), []).append(record.offset)
            limit -= 1
        return found, [self.locks.split(*item) for item in offsets.items()] if self._is_implicit else []

    def news(self) -> Callable[[], bool]:
        """Return a function that tells whether poll() has something to do. Any thread."""
        arrivals, metadata = self.buffer.arrivals, self.cluster.metadata
        version = metadata.version

        def is_news() -> bool:
            return (
                self.buffer.arrivals != arrivals
                or metadata.version != version
                or self.is_woken
                or self.refusal is not None
                or self.membership.failure is not None
                or self.sessions.context.failure is not None
            )

        return is_news

    def end_poll(self, *, is_waiting: bool) -> None:
        """End a poll(); `is_waiting` is False if the application waits for records no more."""
        self._wake_if_due()
        if not is_waiting:
            self.sessions.context.wants_records = False
        self.membership.is_polling = False
        self.membership.polled_at = self._times.ended_at = self.clock.monotonic()

    def withdraw_poll(self) -> None:
        """Accept no record of a poll() whose result the application does not get, as after a Ctrl-C."""
        self.locks.withdraw(self._found_locks)

    def wakeup(self) -> None:
        self.is_woken = True
        self.cluster.driver.notify()

    # ------------------------------------------------------------------ iteration

    def next_queued(self) -> ShareRecord[Any, Any] | None:
        """Return the next polled record of an iteration, whose lock is still held; None without one."""
        queue = self.queue
        if queue:
            now = self.membership.polled_at = self.clock.monotonic()
            while queue:
                record = queue.popleft()
                if self.locks.is_held(delivery_of(record), record.offset, now):
                    return record
        return None

    def end_record(self, record: ShareRecord[Any, Any] | None) -> None:
        """Accept a record of an iteration in implicit mode, unless a `with` block decides."""
        if record is not None and self._is_implicit:
            self._is_wake_due |= self.locks.accept_implicitly(delivery_of(record), record.offset)

    def put_queued(self, found: Records) -> None:
        for records in found.values():
            self.queue.extend(records)

    # ------------------------------------------------------------------ acknowledgements

    def acknowledge(self, delivery: Lock, offset: int, type: AcknowledgeType | int) -> None:
        if self._is_implicit:
            raise IllegalState(EXPLICIT_NEEDED)
        self.locks.decide(delivery, offset, AcknowledgeType(type))

    def delivery_of(self, record: ShareRecord[Any, Any]) -> Lock:
        """Return the lock of a record's delivery. Raise IllegalState for a record of another consumer."""
        if not isinstance(record, ShareRecord):
            raise TypeError(f"acknowledge() takes a ShareRecord, not {type(record).__name__}")
        if not is_of(record, self.locks):
            raise IllegalState("this record was not returned by this consumer")
        lock: Lock = delivery_of(record)
        return lock

    def begin_commit(self) -> list[Lock]:
        """Send what is due; return the acknowledgements that have no result yet."""
        self._is_wake_due |= self.locks.flush(accepts=self._is_implicit)
        unsettled = self.locks.unsettled()
        self._is_wake_due |= bool(unsettled)  # a Ctrl-C can have ended the call that made them due
        self._wake_if_due()
        return unsettled

    def results(self, locks: Sequence[Lock], timeout: float) -> Results:
        """Return the result of each partition after a commit()."""
        results: Results = {}
        for lock in locks:
            if lock.type == 0 and lock.error is None and lock.state.value != "held":
                continue  # offsets without a record; renewed records are held
            error = lock.error
            if error is None and lock.is_due:
                error = KafkaTimeoutError(
                    f"{lock.partition}: no acknowledgement was confirmed within {timeout:g} s"
                )
            if results.get(lock.partition) is None:
                results[lock.partition] = error
        return results

    def call_back(self) -> None:
        """Call the acknowledgement callback and hooks with the results so far; exceptions are logged."""
        while self.locks.outcomes:
            outcome = self.locks.outcomes.popleft()
            offsets = {outcome.partition: outcome.offsets}
            if self.callback is not None:
                try:
                    self.callback(offsets, outcome.error)
                except Exception as error:
                    self.hooks.report(self.callback, "the acknowledgement callback %r failed", error)
            self.hooks.call("on_acknowledgement_commit", offsets, outcome.error, outcome.seconds)

    def set_callback(self, callback: Callback | None) -> None:
        if callback is not None and not callable(callback):
            raise TypeError(f"callback={callback!r} is not callable; pass f(offsets, error)")
        self.callback = callback
        self.locks.keeps_outcomes = callback is not None or self._sees_commits
        if not self.locks.keeps_outcomes:
            self.locks.outcomes.clear()

    # ------------------------------------------------------------------ the end

    def close(self, timeout: float) -> None:
        """Send the decided acknowledgements, release the other records, leave the group, and disconnect."""
        from contextlib import suppress

        from pykafka2.errors import ClientFailed

        deadline = self.clock.monotonic() + timeout
        with suppress(ClientFailed, ClientClosed):
            run_all([lambda: self._end_sessions(deadline), lambda: self._leave(deadline)])

    def finish(self, error: KafkaError, timeout: float) -> None:
        """Refuse further calls and disconnect; brokers release what a lost connection held."""
        self.refusal = error
        self.queue.clear()
        self.buffer.clear()
        self.cluster.close(timeout)
        self.locks.close(error)

    def _end_sessions(self, deadline: float) -> None:
        self.locks.flush(accepts=False)
        self._await(deadline, self.sessions.close)

    def _leave(self, deadline: float) -> None:
        def start(done: Callable[[], object]) -> None:
            def left(error: KafkaError | None) -> None:
                done()

            self.membership.leave(left)

        self._await(deadline, start)

    def _await(self, deadline: float, start: Callable[[Callable[[], object]], object]) -> None:
        from pykafka2.driver.completion import Completion

        completion: Completion[None] = Completion(self.cluster.driver, "close")
        start(lambda: completion.succeed(None))
        remaining = max(deadline - self.clock.monotonic(), 0.0)
        self.cluster.driver.wait_until(completion.done, remaining, completion.waiters)


def _places(found: Records) -> set[tuple[Lock, int]]:
    """Return delivery and offset of each record; a hook on_consume can add records of other kinds."""
    return {
        (delivery_of(record), record.offset)
        for records in found.values()
        for record in records
        if isinstance(record, ShareRecord)
    }
