"""`KafkaAdminClient` for asyncio: each call of the sync client, awaited, on a helper thread.

`awaited` makes one from a method of the sync client, with its arguments and its result; a test compares the
list with that client. A call that is missing in the list works, too, but type checkers do not know it.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping
from functools import partial, wraps
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar, Unpack

from pykafka2.admin.admin import KafkaAdminClient as SyncAdmin
from pykafka2.admin.admin import admin_of, new_cluster
from pykafka2.admin.options import ADMIN_OPTIONS
from pykafka2.aio.aiokafka_options import adapt_options
from pykafka2.aio.bridge import Bridge
from pykafka2.aio.client import AsyncClient
from pykafka2.errors import ClientClosed, KafkaError
from pykafka2.flattened import flattened
from pykafka2.other_clients import no_such_attribute
from pykafka2.types import AdminHealth, Metric

if TYPE_CHECKING:
    from pykafka2.admin.options import AdminConfig
    from pykafka2.driver.runtime import Runtime

P = ParamSpec("P")
T = TypeVar("T")


def awaited(
    method: Callable[Concatenate[SyncAdmin, P], T],
) -> Callable[Concatenate[KafkaAdminClient, P], Coroutine[Any, Any, T]]:
    """Return a coroutine function that runs a method of the sync client on a helper thread."""

    @wraps(method)
    async def call(self: KafkaAdminClient, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._bridge.run(method, self._admin, *args, **kwargs)

    call.__module__ = __name__
    return call


@flattened
class KafkaAdminClient(AsyncClient):
    """Creates, describes, alters and deletes the resources of a cluster, from the tasks of one event loop.

    Calls, arguments, results and errors are those of `pykafka2.KafkaAdminClient`. Any number of tasks can use
    it. A task that is cancelled stops waiting; the brokers can carry out its request nevertheless.

        async with KafkaAdminClient(bootstrap_servers="localhost:9092") as admin:
            await admin.create_topics([NewTopic("orders", partitions=3)])

    Args:
        config: options by dotted or underscored name.
        runtime: `simulation.runtime.at("shop")` in a `Simulation`; None for real threads and sockets.
        options: options by underscored name.

    Raises:
        UnknownOption, ConfigurationError: an option is unknown, invalid, or contradicts another.
    """

    def __init__(
        self,
        config: Mapping[str, Any] | None = None,
        /,
        *,
        runtime: Runtime | None = None,
        **options: Unpack[AdminConfig],
    ) -> None:
        self._bridge = bridge = Bridge("KafkaAdminClient", runtime)
        parsed = ADMIN_OPTIONS.parse(adapt_options(config, bridge), adapt_options(options, bridge))
        self._cluster = new_cluster(parsed, bridge.runtime, owns_runtime=bridge.owns_runtime)
        self._sync = self._admin = admin_of(self._cluster)

    # ------------------------------------------------------------------ cluster, topics, partitions

    describe_cluster = awaited(SyncAdmin.describe_cluster)
    api_versions = awaited(SyncAdmin.api_versions)
    check_cluster = awaited(SyncAdmin.check_cluster)
    describe_features = awaited(SyncAdmin.describe_features)
    update_features = awaited(SyncAdmin.update_features)
    describe_metadata_quorum = awaited(SyncAdmin.describe_metadata_quorum)
    add_raft_voter = awaited(SyncAdmin.add_raft_voter)
    remove_raft_voter = awaited(SyncAdmin.remove_raft_voter)
    unregister_broker = awaited(SyncAdmin.unregister_broker)
    unregister_controller = awaited(SyncAdmin.unregister_controller)
    describe_log_dirs = awaited(SyncAdmin.describe_log_dirs)
    describe_replica_log_dirs = awaited(SyncAdmin.describe_replica_log_dirs)
    alter_replica_log_dirs = awaited(SyncAdmin.alter_replica_log_dirs)
    list_topics = awaited(SyncAdmin.list_topics)
    describe_topics = awaited(SyncAdmin.describe_topics)
    describe_topics_by_id = awaited(SyncAdmin.describe_topics_by_id)
    create_topics = awaited(SyncAdmin.create_topics)
    delete_topics = awaited(SyncAdmin.delete_topics)
    delete_topics_by_id = awaited(SyncAdmin.delete_topics_by_id)
    wait_for_topics = awaited(SyncAdmin.wait_for_topics)
    create_partitions = awaited(SyncAdmin.create_partitions)
    delete_records = awaited(SyncAdmin.delete_records)
    list_offsets = awaited(SyncAdmin.list_offsets)
    elect_leaders = awaited(SyncAdmin.elect_leaders)
    alter_partition_reassignments = awaited(SyncAdmin.alter_partition_reassignments)
    list_partition_reassignments = awaited(SyncAdmin.list_partition_reassignments)

    # ------------------------------------------------------------------ configs, groups

    describe_configs = awaited(SyncAdmin.describe_configs)
    alter_configs = awaited(SyncAdmin.alter_configs)
    reset_configs = awaited(SyncAdmin.reset_configs)
    list_config_resources = awaited(SyncAdmin.list_config_resources)
    list_client_metrics_resources = awaited(SyncAdmin.list_client_metrics_resources)
    list_groups = awaited(SyncAdmin.list_groups)
    describe_groups = awaited(SyncAdmin.describe_groups)
    delete_groups = awaited(SyncAdmin.delete_groups)
    remove_members = awaited(SyncAdmin.remove_members)
    list_group_offsets = awaited(SyncAdmin.list_group_offsets)
    list_offsets_of_groups = awaited(SyncAdmin.list_offsets_of_groups)
    alter_group_offsets = awaited(SyncAdmin.alter_group_offsets)
    reset_group_offsets = awaited(SyncAdmin.reset_group_offsets)
    delete_group_offsets = awaited(SyncAdmin.delete_group_offsets)
    group_lag = awaited(SyncAdmin.group_lag)
    wait_for_group = awaited(SyncAdmin.wait_for_group)
    describe_share_groups = awaited(SyncAdmin.describe_share_groups)
    delete_share_groups = awaited(SyncAdmin.delete_share_groups)
    list_share_group_offsets = awaited(SyncAdmin.list_share_group_offsets)
    alter_share_group_offsets = awaited(SyncAdmin.alter_share_group_offsets)
    reset_share_group_offsets = awaited(SyncAdmin.reset_share_group_offsets)
    delete_share_group_offsets = awaited(SyncAdmin.delete_share_group_offsets)

    # ------------------------------------------------------------------ access, users, tokens, transactions

    describe_acls = awaited(SyncAdmin.describe_acls)
    create_acls = awaited(SyncAdmin.create_acls)
    delete_acls = awaited(SyncAdmin.delete_acls)
    describe_user_scram_credentials = awaited(SyncAdmin.describe_user_scram_credentials)
    alter_user_scram_credentials = awaited(SyncAdmin.alter_user_scram_credentials)
    describe_scram_users = awaited(SyncAdmin.describe_scram_users)
    upsert_scram_user = awaited(SyncAdmin.upsert_scram_user)
    delete_scram_user = awaited(SyncAdmin.delete_scram_user)
    describe_client_quotas = awaited(SyncAdmin.describe_client_quotas)
    alter_client_quotas = awaited(SyncAdmin.alter_client_quotas)
    create_delegation_token = awaited(SyncAdmin.create_delegation_token)
    renew_delegation_token = awaited(SyncAdmin.renew_delegation_token)
    expire_delegation_token = awaited(SyncAdmin.expire_delegation_token)
    describe_delegation_tokens = awaited(SyncAdmin.describe_delegation_tokens)
    list_transactions = awaited(SyncAdmin.list_transactions)
    describe_transactions = awaited(SyncAdmin.describe_transactions)
    describe_producers = awaited(SyncAdmin.describe_producers)
    fence_producers = awaited(SyncAdmin.fence_producers)
    abort_transaction = awaited(SyncAdmin.abort_transaction)
    force_terminate_transaction = awaited(SyncAdmin.force_terminate_transaction)
    find_hanging_transactions = awaited(SyncAdmin.find_hanging_transactions)

    # ------------------------------------------------------------------ inspection

    def metrics(self) -> dict[str, float]:
        """Return the client's metrics without tags by name; `metric_rows` returns all."""
        return self._admin.metrics()

    def metric_rows(self) -> list[Metric]:
        """Return every metric as a row: name, group, value, kind, unit, tags, description.

        Names, groups and tags are Apache Kafka's; the tag client-id is always there. Nothing is sent.
        """
        return self._admin.metric_rows()

    client_instance_id = awaited(SyncAdmin.client_instance_id)

    def register_metrics(self, rows: Callable[[], Iterable[Metric]]) -> None:
        """Push these metrics of the application with those of the client (KIP-1076).

        `rows` is called before each push, on the IO thread: it must not block. It returns `Metric` rows with
        names that the client does not have. If it raises, that is logged once, and its rows are left out.
        Nothing calls it while no broker asks for metrics.
        """
        self._admin.register_metrics(rows)

    def unregister_metrics(self, rows: Callable[[], Iterable[Metric]]) -> None:
        """Push the metrics of this function no more; does nothing if it is not registered."""
        self._admin.unregister_metrics(rows)

    def health(self) -> AdminHealth:
        """Return the client's state for readiness checks; send nothing and never block."""
        return self._admin.health()

    def explain(self) -> str:
        """Explain in words what the client is waiting for."""
        return self._admin.explain()

    # ------------------------------------------------------------------ lifecycle

    async def start(self) -> Self:
        """Connect to the cluster now. Return the client; if that fails, the client is closed."""
        cluster = self._cluster
        try:
            await self._bridge.run(cluster.bootstrap, cluster.options.default_api_timeout)
        except KafkaError:
            await self.close()
            raise
        return self

    async def close(self, timeout: float = 5.0) -> None:
        """Close all connections, within `timeout` seconds. Can be repeated."""
        self._bridge.enter_to_close()
        refusal = ClientClosed("the admin client is closed; create a new one")
        self._bridge.begin_close(refusal, partial(self._admin.close, timeout))
        await self._bridge.end_close()

    async def stop(self) -> None:
        """Close the client; aiokafka's name for `close`."""
        await self.close()

    async def __aenter__(self) -> Self:
        self._bridge.enter()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Callable[..., Any]:
            """Return a call of the sync client that the list above lacks."""
            method = None if name.startswith("_") else getattr(SyncAdmin, name, None)
            if method is None:
                raise no_such_attribute(self, name)
            return partial(awaited(method), self)
