"""A broker's coordinators: one runtime for each partition of the internal topic that it leads.

Requests go to the partition of their key; those that name many groups or transactional ids are taken apart,
asked partition by partition and put together again.  The broker tells of elections, high watermarks, topics
and markers. Runs under the broker's lock; time comes in.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from functools import partial
from typing import Any, Generic, TypeVar, cast

import attrs

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
from pykafka2.testing.coordinators.group_shard import GroupShard
from pykafka2.testing.coordinators.offset_requests import missing_partitions
from pykafka2.testing.coordinators.refusals import (
    FIRST_ADD_PARTITIONS_WITH_TRANSACTIONS,
    FIRST_OFFSET_FETCH_WITH_GROUPS,
    refusal,
)
from pykafka2.testing.coordinators.replay import (
    Caller,
    Deferred,
    Producer,
    Shard,
    WriteMarkers,
)
from pykafka2.testing.coordinators.routing import partition_for
from pykafka2.testing.coordinators.runtime import Entry, Marker, ShardLog, ShardRuntime
from pykafka2.testing.coordinators.settings import (
    GroupConfigs,
    GroupSettings,
    Topics,
    TransactionSettings,
    no_group_configs,
)
from pykafka2.testing.coordinators.transactions import TransactionShard

ShardT = TypeVar("ShardT", bound=Shard)

Split = list[tuple[str, Request[Any]]]
"""Parts of a request, each with the key that says whose it is."""


class CoordinatorService(Generic[ShardT]):
    """What both kinds have in common: partitions, routing, time."""

    def __init__(self, partitions: int, write_timeout: float) -> None:
        self.partitions = partitions
        self.runtimes: dict[int, ShardRuntime] = {}
        self.shards: dict[int, ShardT] = {}
        self.due = FOREVER
        """When `poll` has something to do, at the earliest; may be too early, never too late."""
        self._write_timeout = write_timeout

    # -- the broker tells ---------------------------------------------------------------------------

    def begin(self, partition: int, shard: ShardT, log: ShardLog) -> ShardRuntime:
        """The broker leads a partition now; until `load` requests are told that it loads."""
        self.resign(partition)
        self.shards[partition] = shard
        runtime = self.runtimes[partition] = ShardRuntime(shard, log, write_timeout=self._write_timeout)
        return runtime

    def load(self, partition: int, entries: Iterable[Entry | Marker], end_offset: int, now: float) -> None:
        """Replay the partition's log and begin to answer."""
        runtime = self.runtimes[partition]
        runtime.load(entries, end_offset, now)
        self._note(runtime)

    def resign(self, partition: int) -> None:
        """The broker leads the partition no more: who waits is told NOT_COORDINATOR."""
        runtime = self.runtimes.pop(partition, None)
        self.shards.pop(partition, None)
        if runtime is not None:
            runtime.unload()

    def on_high_watermark(self, partition: int, high_watermark: int) -> None:
        runtime = self.runtimes.get(partition)
        if runtime is not None:
            runtime.on_high_watermark(high_watermark)

    def poll(self, now: float) -> float:
        """Do what is due in all partitions; when to come again.  Costs nothing before that."""
        if now >= self.due:
            self.due = min((runtime.poll(now) for runtime in list(self.runtimes.values())), default=FOREVER)
        return self.due

    def _note(self, runtime: ShardRuntime) -> None:
        """Something happened in a partition: its next deadline may have come nearer."""
        self.due = min(self.due, runtime.next_deadline)

    # -- requests -----------------------------------------------------------------------------------

    def submit(self, caller: Caller, request: Request[Any], now: float) -> Deferred[Any]:
        """The answer to a request, now or later; it completes exactly once."""
        deferred: Deferred[Any] = Deferred(request, caller.version)
        parts = self.split(request, caller.version)
        if parts is None:
            self._ask(self.key_of(request), caller, deferred, now)
            return deferred
        answers: list[Response | None] = [None] * len(parts)

        def note(position: int, response: Response) -> None:
            answers[position] = response
            if None not in answers:
                deferred.complete(merge(request, cast("list[Response]", answers)))

        if not parts:
            deferred.complete(merge(request, []))
        for position, (key, part) in enumerate(parts):
            one: Deferred[Any] = Deferred(part, caller.version)
            one.then(partial(note, position))
            self._ask(key, caller, one, now)
        return deferred

    def ask_all(self, caller: Caller, request: Request[Any], now: float) -> Deferred[Any]:
        """For lists: every partition that the broker leads is asked."""
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
            one: Deferred[Any] = Deferred(request, caller.version)
            one.then(note)
            runtime.submit(caller, one, now)
            self._note(runtime)
        return deferred

    def _ask(self, key: str, caller: Caller, deferred: Deferred[Any], now: float) -> None:
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


class GroupCoordinator(CoordinatorService[GroupShard]):
    """Groups and committed offsets.

    `new_id` makes the random part of member ids, `group_configs` tells what is set on a group now.
    """

    def __init__(
        self,
        settings: GroupSettings,
        partitions: int,
        wall_ms: Callable[[float], int],
        new_id: Callable[[], str],
        group_configs: GroupConfigs = no_group_configs,
    ) -> None:
        super().__init__(partitions, settings.commit_timeout)
        self._group_configs = group_configs
        self.settings = settings
        self._wall_ms = wall_ms
        self._new_id = new_id
        self._topics: Topics | None = None

    def elect(self, partition: int, log: ShardLog) -> None:
        """The broker was elected leader of a partition; `load` follows."""
        shard = GroupShard(self.settings, self._wall_ms, self._new_id)
        shard.consumer.group_configs = self._group_configs
        if self._topics is not None:
            shard.on_topics(self._topics, frozenset())
        self.begin(partition, shard, log)

    def on_topics(self, topics: Topics, now: float) -> None:
        """The cluster's topics changed."""
        known = () if self._topics is None else self._topics.names()
        now_known = set(topics.names())
        gone = {name for name in known if name not in now_known}
        self._topics = topics
        for partition, shard in self.shards.items():
            runtime = self.runtimes[partition]
            runtime.carry_out(shard.on_topics(topics, gone), now)
            self._note(runtime)

    def on_marker(
        self, partition: int, producer: Producer, committed: bool, end_offset: int, now: float
    ) -> None:
        """A transaction's marker was appended to a partition of __consumer_offsets."""
        runtime = self.runtimes.get(partition)
        if runtime is not None:
            runtime.on_marker(producer, committed, end_offset, now)
            self._note(runtime)

    def key_of(self, request: Request[Any]) -> str:
        return request.group_id  # type: ignore[attr-defined,no-any-return]

    def submit(self, caller: Caller, request: Request[Any], now: float) -> Deferred[Any]:
        if isinstance(request, group_admin.ListGroupsRequest):
            return self.ask_all(caller, request, now)
        if isinstance(request, committed_offsets.OffsetCommitRequest | transaction.TxnOffsetCommitRequest):
            return self._submit_commit(caller, request, now)
        return super().submit(caller, request, now)

    def _submit_commit(
        self,
        caller: Caller,
        request: committed_offsets.OffsetCommitRequest | transaction.TxnOffsetCommitRequest,
        now: float,
    ) -> Deferred[Any]:
        """A commit; the broker itself refuses partitions that do not exist, whatever the group says."""
        missing = missing_partitions(request, caller.version, self._topics)
        if not missing:
            return super().submit(caller, request, now)
        whole: Deferred[Any] = Deferred(request, caller.version)

        def complete(response: Any) -> None:
            for place, code in missing.items():
                response.topics[place[0]].partitions[place[1]].error_code = code
            whole.complete(response)

        if len(missing) == sum(len(topic.partitions) for topic in request.topics):
            complete(refusal(request, caller.version, 0))
        else:
            super().submit(caller, request, now).then(complete)
        return whole

    def split(self, request: Request[Any], version: int) -> Split | None:
        if isinstance(request, group_admin.DescribeGroupsRequest):
            return [
                (
                    name,
                    group_admin.DescribeGroupsRequest(
                        groups=[name],
                        include_authorized_operations=request.include_authorized_operations,
                    ),
                )
                for name in request.groups
            ]
        if isinstance(request, group_admin.DeleteGroupsRequest):
            names = dict.fromkeys(request.groups_names)
            return [(name, group_admin.DeleteGroupsRequest(groups_names=[name])) for name in names]
        if isinstance(request, consumer_group.ConsumerGroupDescribeRequest):
            return [
                (
                    name,
                    consumer_group.ConsumerGroupDescribeRequest(
                        group_ids=[name],
                        include_authorized_operations=request.include_authorized_operations,
                    ),
                )
                for name in request.group_ids
            ]
        if (
            isinstance(request, committed_offsets.OffsetFetchRequest)
            and version >= FIRST_OFFSET_FETCH_WITH_GROUPS
        ):
            return [
                (
                    one.group_id,
                    committed_offsets.OffsetFetchRequest(groups=[one], require_stable=request.require_stable),
                )
                for one in request.groups
            ]
        return None


class TransactionCoordinator(CoordinatorService[TransactionShard]):
    """Transactions.  `new_producer_id` takes one from the controller's blocks."""

    def __init__(
        self,
        settings: TransactionSettings,
        partitions: int,
        wall_ms: Callable[[float], int],
        new_producer_id: Callable[[], int],
        offsets_partitions: int = 50,
    ) -> None:
        super().__init__(partitions, settings.append_timeout)
        self.settings = settings
        self._wall_ms = wall_ms
        self._new_producer_id = new_producer_id
        self._offsets_partitions = offsets_partitions
        self._topics: Topics | None = None

    def elect(self, partition: int, leader_epoch: int, log: ShardLog) -> None:
        """The broker was elected leader of a partition in this epoch; `load` follows."""
        shard = TransactionShard(
            self.settings, leader_epoch, self._wall_ms, self._new_producer_id, self._offsets_partitions
        )
        if self._topics is not None:
            shard.topics = self._topics
        self.begin(partition, shard, log)

    def on_topics(self, topics: Topics) -> None:
        """The cluster's topics changed."""
        self._topics = topics
        for shard in self.shards.values():
            shard.topics = topics

    def use_version(self, transaction_version: int) -> None:
        """The finalised feature transaction.version, which may change while transactions are open."""
        if transaction_version != self.settings.transaction_version:
            self.settings = attrs.evolve(self.settings, transaction_version=transaction_version)
            for shard in self.shards.values():
                shard.settings = self.settings

    def take_markers(self) -> list[WriteMarkers]:
        """Markers to write, each handed out once; `marker_written` tells how it went."""
        taken: list[WriteMarkers] = []
        for runtime in self.runtimes.values():
            taken += runtime.actions
            runtime.actions.clear()
        return taken

    def marker_written(self, markers: WriteMarkers, place: tuple[str, int], code: int, now: float) -> None:
        """A partition's leader took a marker (0), or said why not; others are tried again."""
        partition = partition_for(markers.transactional_id, self.partitions)
        shard = self.shards.get(partition)
        if shard is not None:
            runtime = self.runtimes[partition]
            runtime.carry_out(shard.marker_written(markers, place, code, now), now)
            self._note(runtime)

    def submit(self, caller: Caller, request: Request[Any], now: float) -> Deferred[Any]:
        if isinstance(request, transaction_admin.ListTransactionsRequest):
            return self.ask_all(caller, request, now)
        if isinstance(request, transaction.InitProducerIdRequest) and request.transactional_id is None:
            # A producer that is only idempotent: any broker serves it.
            deferred: Deferred[Any] = Deferred(request, caller.version)
            producer_id = self._new_producer_id()
            response = transaction.InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)
            deferred.complete(response)
            return deferred
        return super().submit(caller, request, now)

    def key_of(self, request: Request[Any]) -> str:
        if isinstance(request, transaction.AddPartitionsToTxnRequest):
            return request.v3_and_below_transactional_id
        return request.transactional_id  # type: ignore[attr-defined,no-any-return]

    def split(self, request: Request[Any], version: int) -> Split | None:
        if isinstance(request, transaction_admin.DescribeTransactionsRequest):
            return [
                (name, transaction_admin.DescribeTransactionsRequest(transactional_ids=[name]))
                for name in request.transactional_ids
            ]
        if (
            isinstance(request, transaction.AddPartitionsToTxnRequest)
            and version >= FIRST_ADD_PARTITIONS_WITH_TRANSACTIONS
        ):
            return [
                (one.transactional_id, transaction.AddPartitionsToTxnRequest(transactions=[one]))
                for one in request.transactions
            ]
        return None


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
    """One answer out of those to a request's parts; the first error at the top stands for all."""
    name = _MERGED_FIELD[type(request)]
    merged: dict[str, Any] = {name: [one for answer in answers for one in getattr(answer, name)]}
    if isinstance(request, transaction_admin.ListTransactionsRequest):
        unknown: dict[Hashable, None] = {}
        for answer in answers:
            unknown.update(dict.fromkeys(getattr(answer, "unknown_state_filters", ())))
        merged["unknown_state_filters"] = list(unknown)
    codes = [code for answer in answers if (code := getattr(answer, "error_code", 0))]
    if codes:
        merged["error_code"] = codes[0]
    return request.RESPONSE(**merged)
