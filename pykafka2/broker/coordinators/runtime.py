"""Runs shards over the partitions of an internal topic: append, replay, wait for the high watermark, respond.

One rule makes reads and writes consistent without snapshots: a response is sent once everything appended
before it is committed. State is replayed as soon as the records are in the leader's log, so the next
operation sees it; a failed append replays nothing. Loading replays the whole log first
(COORDINATOR_LOAD_IN_PROGRESS meanwhile); a log that fails to load gets NOT_COORDINATOR until the leader
changes. Losing the partition completes all waiting requests with NOT_COORDINATOR. Called under the broker's
lock; sans-IO, time is passed in.

Requests are routed to the partition of their key. Requests with several groups or transactional ids are
split, handled partition by partition, and merged. The broker reports elections, high watermarks, topics and
markers. Runs under the broker's lock; time is passed in.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from enum import Enum
from functools import partial
from typing import Any, Generic, Protocol, TypeVar, cast

import attrs

from pykafka2.broker.base.problems import OnProblem, log_problem
from pykafka2.broker.coordinators.internal_topics import partition_for
from pykafka2.broker.coordinators.refusals import append_error_code
from pykafka2.broker.coordinators.replay import (
    Caller,
    Deferred,
    Producer,
    Record,
    Result,
    Shard,
    WriteMarkers,
)
from pykafka2.clock import FOREVER
from pykafka2.errors import (
    BrokerError,
    CoordinatorLoadInProgress,
    IllegalState,
    NotCoordinator,
    RequestTimedOut,
)
from pykafka2.protocol.messages import (
    committed_offsets,
    consumer_group,
    group_admin,
    transaction,
    transaction_admin,
)
from pykafka2.protocol.struct import Request, Response

logger = logging.getLogger(__name__)


class ShardLog(Protocol):
    """The leader's replica of the shard's partition."""

    def append(self, records: Sequence[Record], producer: Producer | None, now: float) -> int:
        """Append one batch (transactional if `producer` is passed). Return the offset after it.

        Raises:
            BrokerError: nothing was appended (NOT_ENOUGH_REPLICAS, NOT_LEADER_OR_FOLLOWER ...).
        """
        ...

    def delete_before(self, offset: int) -> None:
        """Delete the records before an offset, as far as they are committed."""
        ...

    @property
    def high_watermark(self) -> int: ...


@attrs.define(frozen=True)
class Entry:
    """One record of a log that is loaded."""

    key: bytes
    value: bytes | None
    producer: Producer | None = None
    offset: int = -1


@attrs.define(frozen=True)
class Marker:
    """A control batch of a log that is loaded."""

    producer: Producer
    committed: bool


class RunState(Enum):
    """The state of a partition's coordinator."""

    LOADING = "Loading"
    ACTIVE = "Active"
    FAILED = "Failed"
    """The log could not be loaded; the next leader loads it again."""
    CLOSED = "Closed"


@attrs.define
class _Waiting:
    offset: int
    deadline: float
    deferred: Deferred[Any]
    response: Response


class ShardRuntime:
    """One shard, its log and the waiting responses. Created when the broker becomes the partition's leader.

    `actions` collects what the broker must execute (WriteMarkers).
    """

    def __init__(self, shard: Shard, log: ShardLog, *, write_timeout: float = 5.0) -> None:
        self.shard = shard
        self.log = log
        self.state = RunState.LOADING
        self.actions: deque[WriteMarkers] = deque()
        self.end_offset = 0
        self._write_timeout = write_timeout
        self._waiting: deque[_Waiting] = deque()
        self._held_actions: deque[tuple[int, WriteMarkers]] = deque()

    def load(self, entries: Iterable[Entry | Marker], end_offset: int, now: float) -> None:
        """Replay the log up to `end_offset` and start to respond.

        Raises:
            CorruptData: a record is invalid; the partition has failed.
        """
        if self.state is not RunState.LOADING:
            raise IllegalState(f"a coordinator can be loaded once; this one is {self.state.value}")
        try:
            self._replay(entries, now)
        except Exception:
            if not self.shard.LOADS_WHAT_CAN_BE_READ:
                self.state = RunState.FAILED
                raise
            logger.exception("the rest of a coordinator's log cannot be loaded")
        self.end_offset = end_offset
        self.state = RunState.ACTIVE
        self._carry_out(self.shard.on_loaded(now), now)

    def _replay(self, entries: Iterable[Entry | Marker], now: float) -> None:
        for entry in entries:
            if isinstance(entry, Marker):
                self.shard.replay_marker(entry.producer, entry.committed, now)
            else:
                self.shard.replay(entry.key, entry.value, entry.producer, now, entry.offset)

    @property
    def is_active(self) -> bool:
        return self.state is RunState.ACTIVE

    @property
    def has_failed(self) -> bool:
        return self.state is RunState.FAILED

    def submit(self, caller: Caller, deferred: Deferred[Any], now: float) -> None:
        """Handle `deferred.request`, which completes now or later, exactly once."""
        if self.state is not RunState.ACTIVE:
            loading = self.state is RunState.LOADING
            deferred.refuse(CoordinatorLoadInProgress.code if loading else NotCoordinator.code)
            return
        try:
            result = self.shard.operation(caller, deferred, now)
        except BrokerError as error:
            deferred.refuse(error.code or 0, str(error))
            return
        self._carry_out(result, now)

    def poll(self, now: float) -> float:
        """Run what is due. Return when it must be called again."""
        while self.state is RunState.ACTIVE and (result := self.shard.poll(now)) is not None:
            self._carry_out(result, now)
        while self._waiting and self._waiting[0].deadline <= now:
            self._refuse(self._waiting.popleft(), RequestTimedOut.code)
        return self.next_deadline

    @property
    def next_deadline(self) -> float:
        """When `poll` has work next; infinity if never."""
        if self.state is not RunState.ACTIVE:
            return FOREVER
        first_timeout = self._waiting[0].deadline if self._waiting else FOREVER
        return min(self.shard.next_deadline, first_timeout)

    def on_high_watermark(self, high_watermark: int) -> None:
        """Complete the responses up to the high watermark."""
        while self._waiting and self._waiting[0].offset <= high_watermark:
            waiting = self._waiting.popleft()
            waiting.deferred.complete(waiting.response)
        # A marker sent before its decision is committed could be revoked by a failover.
        while self._held_actions and self._held_actions[0][0] <= high_watermark:
            self.actions.append(self._held_actions.popleft()[1])

    def on_marker(self, producer: Producer, committed: bool, end_offset: int, now: float) -> None:
        """Handle a transaction marker that the broker appended to this partition (WriteTxnMarkers)."""
        self.end_offset = max(self.end_offset, end_offset)
        if self.state is RunState.ACTIVE:
            self.shard.replay_marker(producer, committed, now)

    def carry_out(self, result: Result, now: float) -> None:
        """Execute a result of the broker's own operations, such as completed markers or deleted topics."""
        if self.state is RunState.ACTIVE:
            self._carry_out(result, now)

    def unload(self) -> None:
        """Complete all waiting requests with NOT_COORDINATOR because the leader has changed."""
        if self.state is RunState.CLOSED:
            return
        was_active = self.state is RunState.ACTIVE
        self.state = RunState.CLOSED
        self.actions.clear()
        self._held_actions.clear()
        if was_active:
            for deferred, response in self.shard.on_unloaded().responses:
                deferred.complete(response)
        while self._waiting:
            self._waiting.popleft().deferred.refuse(NotCoordinator.code)

    @property
    def waiting(self) -> int:
        """The number of responses that wait for the high watermark."""
        return len(self._waiting)

    def _carry_out(self, result: Result, now: float) -> None:
        if result.records:
            try:
                self.end_offset = self.log.append(result.records, result.producer, now)
            except BrokerError as error:
                self._append_failed(result, error, now)
                return
            first = self.end_offset - len(result.records)
            for offset, record in enumerate(result.records, first):
                self.shard.replay(record.key, record.value, result.producer, now, offset)
        if result.delete_before is not None:
            self.log.delete_before(result.delete_before)
        if result.on_appended is not None:
            result.on_appended(result)
        self._held_actions.extend((self.end_offset, action) for action in result.actions)
        for deferred, response in result.responses:
            self._respond(deferred, response, now)
        if self._held_actions:
            self.on_high_watermark(self.log.high_watermark)

    def _append_failed(self, result: Result, error: BrokerError, now: float) -> None:
        for deferred, _ in result.responses:
            deferred.refuse(append_error_code(deferred.request.API_KEY, error.code or 0))
        if result.on_append_error is not None:
            repair = Result()
            result.on_append_error(error, repair)
            self._carry_out(repair, now)

    def _respond(self, deferred: Deferred[Any], response: Response, now: float) -> None:
        if not self._waiting and self.end_offset <= self.log.high_watermark:
            deferred.complete(response)
        else:
            self._waiting.append(_Waiting(self.end_offset, now + self._write_timeout, deferred, response))

    def _refuse(self, waiting: _Waiting, code: int) -> None:
        waiting.deferred.refuse(append_error_code(waiting.deferred.request.API_KEY, code))


RETRY_INTERVAL = 1.0

ShardT = TypeVar("ShardT", bound=Shard)

Split = list[tuple[str, Request[Any]]]
"""Parts of a request, each with its routing key."""


class CoordinatorService(Generic[ShardT]):
    """Common parts of the coordinators: partitions, routing, time."""

    def __init__(self, partitions: int, write_timeout: float) -> None:
        self.partitions = partitions
        self.runtimes: dict[int, ShardRuntime] = {}
        self.shards: dict[int, ShardT] = {}
        self.due = FOREVER
        """When `poll` has work at the earliest; can be too early, never too late."""
        self.on_problem: OnProblem = log_problem
        self.on_due: Callable[[], object] = lambda: None
        """Called when `due` becomes earlier."""
        self._write_timeout = write_timeout

    # -- called by the broker ---------------------------------------------------------------------------

    def begin(self, partition: int, shard: ShardT, log: ShardLog) -> ShardRuntime:
        """Start coordinating a partition; until `load` requests get COORDINATOR_LOAD_IN_PROGRESS."""
        self.resign(partition)
        self.shards[partition] = shard
        runtime = self.runtimes[partition] = ShardRuntime(shard, log, write_timeout=self._write_timeout)
        return runtime

    def load(self, partition: int, entries: Iterable[Entry | Marker], end_offset: int, now: float) -> None:
        """Replay the partition's log and start to respond."""
        runtime = self.runtimes[partition]
        runtime.load(entries, end_offset, now)
        self.note_activity(runtime)

    def resign(self, partition: int) -> None:
        """Stop coordinating a partition: waiting requests get NOT_COORDINATOR."""
        runtime = self.runtimes.pop(partition, None)
        self.shards.pop(partition, None)
        if runtime is not None:
            runtime.unload()

    def on_high_watermark(self, partition: int, high_watermark: int) -> None:
        runtime = self.runtimes.get(partition)
        if runtime is not None:
            runtime.on_high_watermark(high_watermark)

    def poll(self, now: float) -> float:
        """Run what is due in all partitions. Return when it must be called again. Costs nothing before."""
        if now >= self.due:
            polled = [self._poll_one(*entry, now) for entry in list(self.runtimes.items())]
            self.due = min(polled, default=FOREVER)
        return self.due

    def _poll_one(self, partition: int, runtime: ShardRuntime, now: float) -> float:
        """Run one partition's timers; a failure affects this partition only, and is retried."""
        try:
            return runtime.poll(now)
        except Exception as error:
            self.on_problem(f"a timer of {type(self).__name__}, partition {partition}", error)
            return now + RETRY_INTERVAL

    def note_activity(self, runtime: ShardRuntime) -> None:
        """Record activity in a partition: its next deadline can have moved forward."""
        deadline = runtime.next_deadline
        if deadline < self.due:
            self.due = deadline
            self.on_due()

    # -- requests -----------------------------------------------------------------------------------

    def submit(self, caller: Caller, request: Request[Any], now: float) -> Deferred[Any]:
        """Return the response to a request, now or later; it completes exactly once."""
        deferred: Deferred[Any] = Deferred(request, caller.version)
        parts = self.split(request, caller.version)
        if parts is None:
            self._route(self.key_of(request), caller, deferred, now)
            return deferred
        responses: list[Response | None] = [None] * len(parts)
        arrived: list[int] = []

        def note(position: int, response: Response) -> None:
            responses[position] = response
            arrived.append(position)
            if len(arrived) == len(parts):
                deferred.complete(self.merge(request, cast("list[Response]", responses)))

        if not parts:
            deferred.complete(self.merge(request, []))
        for position, (key, part) in enumerate(parts):
            part_deferred: Deferred[Any] = Deferred(part, caller.version)
            part_deferred.then(partial(note, position))
            self._route(key, caller, part_deferred, now)
        return deferred

    def submit_to_all(self, caller: Caller, request: Request[Any], now: float) -> Deferred[Any]:
        """Submit a list request to every partition that the broker leads."""
        deferred: Deferred[Any] = Deferred(request, caller.version)
        runtimes = list(self.runtimes.values())
        responses: list[Response] = []

        def note(response: Response) -> None:
            responses.append(response)
            if len(responses) == len(runtimes):
                deferred.complete(self.merge(request, responses))

        if not runtimes:
            deferred.complete(self.merge(request, []))
        for runtime in runtimes:
            part_deferred: Deferred[Any] = Deferred(request, caller.version)
            part_deferred.then(note)
            runtime.submit(caller, part_deferred, now)
            self.note_activity(runtime)
        return deferred

    def _route(self, key: str, caller: Caller, deferred: Deferred[Any], now: float) -> None:
        runtime = self.runtimes.get(partition_for(key, self.partitions))
        if runtime is None:
            deferred.refuse(NotCoordinator.code)
        else:
            runtime.submit(caller, deferred, now)
            self.note_activity(runtime)

    def key_of(self, request: Request[Any]) -> str:
        raise NotImplementedError

    def split(self, request: Request[Any], version: int) -> Split | None:
        raise NotImplementedError

    def merge(self, request: Request[Any], responses: list[Response]) -> Response:
        """Merge the responses to a request's parts; the first top-level error counts for all."""
        name = _MERGED_FIELD[type(request)]
        merged: dict[str, Any] = {name: [item for response in responses for item in getattr(response, name)]}
        if isinstance(request, transaction_admin.ListTransactionsRequest):
            unknown: dict[Hashable, None] = {}
            for response in responses:
                unknown.update(dict.fromkeys(getattr(response, "unknown_state_filters", ())))
            merged["unknown_state_filters"] = list(unknown)
        codes = [code for response in responses if (code := getattr(response, "error_code", 0))]
        if codes:
            merged["error_code"] = codes[0]
        return request.RESPONSE(**merged)


_MERGED_FIELD: dict[type[Any], str] = {
    group_admin.DescribeGroupsRequest: "groups",
    group_admin.DeleteGroupsRequest: "results",
    group_admin.ListGroupsRequest: "groups",
    consumer_group.ConsumerGroupDescribeRequest: "groups",
    committed_offsets.OffsetFetchRequest: "groups",
    transaction_admin.DescribeTransactionsRequest: "transaction_states",
    transaction_admin.ListTransactionsRequest: "transaction_states",
    transaction.AddPartitionsToTxnRequest: "results_by_transaction",
}
