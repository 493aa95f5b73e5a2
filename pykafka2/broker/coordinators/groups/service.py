"""The group coordinator of a broker: groups and committed offsets, for the partitions that it leads.

service.py has the common parts of both coordinators; coordinators.py reports elections, topics and time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pykafka2.broker.coordinators.groups.offset_requests import (
    FIRST_OFFSET_FETCH_WITH_GROUPS,
    Commit,
    Missing,
    missing_partitions,
)
from pykafka2.broker.coordinators.groups.shard import GroupShard
from pykafka2.broker.coordinators.refusals import refusal
from pykafka2.broker.coordinators.replay import (
    Caller,
    Deferred,
    Producer,
    Result,
)
from pykafka2.broker.coordinators.runtime import CoordinatorService, ShardLog, ShardRuntime, Split
from pykafka2.broker.coordinators.settings import (
    NO_TOPICS,
    GroupConfigs,
    GroupSettings,
    Topics,
    no_group_configs,
)
from pykafka2.errors import CoordinatorNotAvailable, NotCoordinator
from pykafka2.protocol.messages import (
    committed_offsets,
    consumer_group,
    group_admin,
    transaction,
)
from pykafka2.protocol.registry import ApiKey
from pykafka2.protocol.struct import Request, Response

if TYPE_CHECKING:
    from pykafka2.broker.coordinators.inter_broker import ShareStateClient


SHARE_APIS_WITH_GROUPS = (ApiKey.SHARE_GROUP_DESCRIBE, ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS)


class _ShareContext:
    """The coordinator as the share groups of one shard use it."""

    def __init__(self, coordinator: GroupCoordinator, runtime: ShardRuntime) -> None:
        self._coordinator = coordinator
        self._runtime = runtime

    def call(self, group_id: str, topic_id: bytes, entry: Any, done: Callable[[Any, float], None]) -> None:
        persister = self._coordinator.share_persister
        if persister is None:
            raise CoordinatorNotAvailable("there is no client of the share coordinator")
        persister().call(group_id, topic_id, entry, done, self._coordinator.clock())

    def carry_out(self, result: Result, now: float) -> None:
        if self._runtime.is_active:
            self._runtime.carry_out(result, now)
            self._coordinator.note_activity(self._runtime)
            return
        for deferred, _ in result.responses:
            deferred.refuse(NotCoordinator.code)


class GroupCoordinator(CoordinatorService[GroupShard]):
    """Groups and committed offsets.

    `new_id` returns the random part of member ids, `group_configs` the current options of a group.
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
        self.share_persister: Callable[[], ShareStateClient] | None = None
        """The client of the share coordinator, for share groups."""
        self.clock: Callable[[], float] = lambda: 0.0

    def elect(self, partition: int, log: ShardLog) -> None:
        """Create the shard of a partition that this broker leads now; `load` follows."""
        shard = GroupShard(self.settings, self._wall_ms, self._new_id)
        shard.consumer.group_configs = self._group_configs
        if self._topics is not None:
            shard.on_topics(self._topics, frozenset())
        runtime = self.begin(partition, shard, log)
        shard.share_context = _ShareContext(self, runtime)

    def on_topics(self, topics: Topics, now: float) -> None:
        """Apply a change of the cluster's topics."""
        before = NO_TOPICS if self._topics is None else self._topics
        # By id, as a topic can be deleted and created again within one change.
        deleted = {name for name in before.names() if topics.id_of(name) != before.id_of(name)}
        self._topics = topics
        for partition, shard in self.shards.items():
            runtime = self.runtimes[partition]
            runtime.carry_out(shard.on_topics(topics, deleted), now)
            self.note_activity(runtime)

    def on_marker(
        self, partition: int, producer: Producer, committed: bool, end_offset: int, now: float
    ) -> None:
        """Handle a transaction marker that was appended to a partition of __consumer_offsets."""
        runtime = self.runtimes.get(partition)
        if runtime is not None:
            runtime.on_marker(producer, committed, end_offset, now)
            self.note_activity(runtime)

    def key_of(self, request: Request[Any]) -> str:
        return request.group_id  # type: ignore[attr-defined,no-any-return]

    def submit(self, caller: Caller, request: Request[Any], now: float) -> Deferred[Any]:
        if isinstance(request, group_admin.ListGroupsRequest):
            return self.submit_to_all(caller, request, now)
        if isinstance(request, committed_offsets.OffsetCommitRequest | transaction.TxnOffsetCommitRequest):
            return self._submit_commit(caller, request, now)
        return super().submit(caller, request, now)

    def _submit_commit(self, caller: Caller, request: Commit, now: float) -> Deferred[Any]:
        """Submit a commit without the missing partitions, which the broker rejects itself."""
        missing = self.missing_in(request, caller.version)
        whole: Deferred[Any] = Deferred(request, caller.version)

        def complete(response: Any) -> None:
            missing.add_to(response)
            whole.complete(response)

        if missing.are_all:
            complete(refusal(request, caller.version, 0))
            return whole
        if not missing.codes:
            return super().submit(caller, request, now)
        super().submit(caller, request, now).then(complete)
        return whole

    def missing_in(self, request: Commit, version: int) -> Missing:
        """Return the partitions of a commit that do not exist. If none exists, its group is not looked up."""
        return missing_partitions(request, version, self._topics)

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
        if request.API_KEY in SHARE_APIS_WITH_GROUPS:
            from pykafka2.broker.coordinators.groups.share.requests import split

            return split(request)
        if (
            isinstance(request, committed_offsets.OffsetFetchRequest)
            and version >= FIRST_OFFSET_FETCH_WITH_GROUPS
        ):
            return [
                (
                    group.group_id,
                    committed_offsets.OffsetFetchRequest(
                        groups=[group], require_stable=request.require_stable
                    ),
                )
                for group in request.groups
            ]
        return None

    def merge(self, request: Request[Any], responses: list[Response]) -> Response:
        if request.API_KEY in SHARE_APIS_WITH_GROUPS:
            from pykafka2.broker.coordinators.groups.share.requests import merge

            return merge(request, responses)
        return super().merge(request, responses)
