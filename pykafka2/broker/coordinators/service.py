"""A broker's coordinators: one runtime for each partition of the internal topic that it leads.

Requests are routed to the partition of their key. Requests with several groups or transactional ids are
split, handled partition by partition, and merged. The broker reports elections, high watermarks, topics and
markers. Runs under the broker's lock; time is passed in.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from functools import partial
from typing import Any, Generic, TypeVar, cast

from pykafka2.broker.base.problems import OnProblem, log_problem
from pykafka2.broker.coordinators.replay import (
    Caller,
    Deferred,
    Shard,
)
from pykafka2.broker.coordinators.routing import partition_for
from pykafka2.broker.coordinators.runtime import Entry, Marker, ShardLog, ShardRuntime
from pykafka2.clock import FOREVER
from pykafka2.errors import NotCoordinator
from pykafka2.protocol.messages import (
    committed_offsets,
    consumer_group,
    group_admin,
    transaction,
    transaction_admin,
)
from pykafka2.protocol.struct import Request, Response

RETRY_INTERVAL = 1.0

ShardT = TypeVar("ShardT", bound=Shard)

Split = list[tuple[str, Request[Any]]]
"""Parts of a request, each with its routing key."""


class CoordinatorService(Generic[ShardT]):
    """Common parts of both coordinators: partitions, routing, time."""

    def __init__(self, partitions: int, write_timeout: float) -> None:
        self.partitions = partitions
        self.runtimes: dict[int, ShardRuntime] = {}
        self.shards: dict[int, ShardT] = {}
        self.due = FOREVER
        """When `poll` has work at the earliest; can be too early, never too late."""
        self.on_problem: OnProblem = log_problem
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
        self._note(runtime)

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

    def _note(self, runtime: ShardRuntime) -> None:
        """Record activity in a partition: its next deadline can have moved forward."""
        self.due = min(self.due, runtime.next_deadline)

    # -- requests -----------------------------------------------------------------------------------

    def submit(self, caller: Caller, request: Request[Any], now: float) -> Deferred[Any]:
        """Return the response to a request, now or later; it completes exactly once."""
        deferred: Deferred[Any] = Deferred(request, caller.version)
        parts = self.split(request, caller.version)
        if parts is None:
            self._route(self.key_of(request), caller, deferred, now)
            return deferred
        answers: list[Response | None] = [None] * len(parts)
        answered: list[int] = []

        def note(position: int, response: Response) -> None:
            answers[position] = response
            answered.append(position)
            if len(answered) == len(parts):
                deferred.complete(merge(request, cast("list[Response]", answers)))

        if not parts:
            deferred.complete(merge(request, []))
        for position, (key, part) in enumerate(parts):
            part_deferred: Deferred[Any] = Deferred(part, caller.version)
            part_deferred.then(partial(note, position))
            self._route(key, caller, part_deferred, now)
        return deferred

    def submit_to_all(self, caller: Caller, request: Request[Any], now: float) -> Deferred[Any]:
        """Submit a list request to every partition that the broker leads."""
        deferred: Deferred[Any] = Deferred(request, caller.version)
        runtimes = list(self.runtimes.values())
        answers: list[Response] = []

        def note(response: Response) -> None:
            answers.append(response)
            if len(answers) == len(runtimes):
                deferred.complete(merge(request, answers))

        if not runtimes:
            deferred.complete(merge(request, []))
        for runtime in runtimes:
            part_deferred: Deferred[Any] = Deferred(request, caller.version)
            part_deferred.then(note)
            runtime.submit(caller, part_deferred, now)
            self._note(runtime)
        return deferred

    def _route(self, key: str, caller: Caller, deferred: Deferred[Any], now: float) -> None:
        runtime = self.runtimes.get(partition_for(key, self.partitions))
        if runtime is None:
            deferred.refuse(NotCoordinator.code)
        else:
            runtime.submit(caller, deferred, now)
            self._note(runtime)

    def key_of(self, request: Request[Any]) -> str:
        raise NotImplementedError

    def split(self, request: Request[Any], version: int) -> Split | None:
        raise NotImplementedError


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


def merge(request: Request[Any], answers: list[Response]) -> Response:
    """Merge the responses to a request's parts; the first top-level error counts for all."""
    name = _MERGED_FIELD[type(request)]
    merged: dict[str, Any] = {name: [item for answer in answers for item in getattr(answer, name)]}
    if isinstance(request, transaction_admin.ListTransactionsRequest):
        unknown: dict[Hashable, None] = {}
        for answer in answers:
            unknown.update(dict.fromkeys(getattr(answer, "unknown_state_filters", ())))
        merged["unknown_state_filters"] = list(unknown)
    codes = [code for answer in answers if (code := getattr(answer, "error_code", 0))]
    if codes:
        merged["error_code"] = codes[0]
    return request.RESPONSE(**merged)
