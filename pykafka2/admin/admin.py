"""`KafkaAdminClient`: manages topics, ACLs, users, tokens and transactions of a cluster.

A facade over one `ClusterClient`, the core that the sync and the asyncio client share; each family of calls
has its own file. Requests can go to any broker: brokers forward those for the controller.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Unpack

from pykafka2 import lifecycle
from pykafka2.admin.acls import AclsAdmin
from pykafka2.admin.checks import ChecksAdmin
from pykafka2.admin.cluster import ClusterAdmin
from pykafka2.admin.configs import ConfigsAdmin
from pykafka2.admin.group_lag import GroupLagAdmin
from pykafka2.admin.group_resets import GroupResetsAdmin
from pykafka2.admin.inspection import InspectionCalls, measure, rows_of
from pykafka2.admin.log_dirs import LogDirsAdmin
from pykafka2.admin.options import ADMIN_OPTIONS, AdminConfig, AdminOptions
from pykafka2.admin.partitions import PartitionsAdmin
from pykafka2.admin.producers import ProducersAdmin
from pykafka2.admin.tokens import TokensAdmin
from pykafka2.admin.topics import TopicsAdmin
from pykafka2.admin.users import UsersAdmin
from pykafka2.cluster.client import ClusterClient
from pykafka2.errors import ForkedClientError
from pykafka2.flattened import flattened
from pykafka2.hooks import Hooks, with_added
from pykafka2.other_clients import explaining_all, no_such_attribute

if TYPE_CHECKING:
    from pykafka2.driver.runtime import Runtime


@explaining_all
@flattened
class KafkaAdminClient(
    TopicsAdmin,
    PartitionsAdmin,
    ConfigsAdmin,
    GroupResetsAdmin,
    GroupLagAdmin,
    AclsAdmin,
    UsersAdmin,
    TokensAdmin,
    ProducersAdmin,
    ClusterAdmin,
    LogDirsAdmin,
    ChecksAdmin,
    InspectionCalls,
):
    """Creates, describes, alters and deletes the resources of a cluster. Thread-safe.

    Options have Kafka's names with underscores and the Java client's defaults. The first call opens the first
    connection. Close the client, or use it as a context manager.

        with KafkaAdminClient(bootstrap_servers="localhost:9092") as admin:
            admin.create_topics([NewTopic("orders", partitions=3)])

    Calls take `timeout` in seconds (default: default_api_timeout_ms) and raise `KafkaTimeoutError`,
    `NoBrokersAvailable` or the broker's error. Calls with several items return `Outcomes`, and raise
    `ItemsFailed` if any failed, unless `raise_errors` is False. In a forked child all calls raise
    `ForkedClientError`.

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
        self._hold(new_cluster(ADMIN_OPTIONS.parse(config, options), runtime))

    def _hold(self, cluster: ClusterClient) -> None:
        """Become the sync admin client of this core."""
        self._cluster = cluster
        self._is_forked = False
        description = f"a KafkaAdminClient ({cluster.options.client_id})"
        self._tracked = lifecycle.track(self, description, functools.partial(cluster.close, 0.0))

    def close(self, timeout: float = 5.0) -> None:
        """Close all connections, within `timeout` seconds. Idempotent; any thread."""
        if self._is_forked:
            return  # the connections belong to the parent process
        self._cluster.close(self._cluster.seconds_of(timeout))
        self._tracked.end()
        self._cluster.hooks.close()

    def __enter__(self) -> KafkaAdminClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    if not TYPE_CHECKING:  # type checkers would accept any attribute otherwise

        def __getattr__(self, name: str) -> NoReturn:
            raise no_such_attribute(self, name)

    def __reduce__(self) -> NoReturn:
        lifecycle.refuse_pickling(self)

    def __repr__(self) -> str:
        cluster = self.__dict__.get("_cluster")
        return lifecycle.repr_of("KafkaAdminClient", None if cluster is None else cluster.options)

    # ------------------------------------------------------------------ for lifecycle.py

    def _on_fork_in_child(self, error: ForkedClientError) -> None:
        self._is_forked = True
        self._cluster.driver.abandon(error)

    def _on_exit(self, timeout: float) -> int:
        self._cluster.close(timeout)
        return 0


def new_cluster(
    options: AdminOptions, runtime: Runtime | None = None, *, owns_runtime: bool = False
) -> ClusterClient:
    """Return the core of an admin client; with `owns_runtime` it closes its runtime."""
    name = f"pykafka2-admin-{options.client_id}"
    cluster = ClusterClient(options, name=name, runtime=runtime, owns_runtime=owns_runtime)
    measure(cluster)
    hooks = Hooks(with_added("admin", options.interceptors))
    cluster.start_hooks(hooks, "admin", functools.partial(rows_of, cluster))
    cluster.start_telemetry(functools.partial(rows_of, cluster))
    return cluster


def admin_of(cluster: ClusterClient) -> KafkaAdminClient:
    """Return a sync admin client that uses this core; for the asyncio client, which holds the core, too."""
    admin: KafkaAdminClient = KafkaAdminClient.__new__(KafkaAdminClient)
    admin._hold(cluster)
    return admin
