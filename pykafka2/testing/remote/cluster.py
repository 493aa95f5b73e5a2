"""`KafkaCluster(process=True)`: a cluster in a child process (cluster_process.py), controlled through its
admin port.

For CPU-bound tests: in one process they take the interpreter away from the brokers, and a round trip takes 20
to 30 ms instead of 0.15.  All plain data works as in this process; functions cannot be sent (a `where` of the
history runs here, a rule's `where` is rejected).  Thread-safe.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

import attrs

import pykafka2
from pykafka2.broker.observed.telemetry import TelemetryPush
from pykafka2.broker.server.request_metrics import RequestMetrics
from pykafka2.driver.thread_driver import ThreadRuntime
from pykafka2.errors import ConfigurationError, Disconnected, IllegalState, KafkaError
from pykafka2.testing.access import Access
from pykafka2.testing.api import LOOPBACK, ClusterApi
from pykafka2.testing.arguments import ClusterArguments
from pykafka2.testing.authority import Authority
from pykafka2.testing.controls.controls import Controls
from pykafka2.testing.listeners import Listener
from pykafka2.testing.remote.as_data import from_data, to_data
from pykafka2.testing.remote.http_client import AdminClient, remote_error
from pykafka2.testing.remote.proxies import (
    RemoteControls,
    RemoteEvents,
    RemoteHistory,
    RemoteProblems,
    RemoteTimeline,
)
from pykafka2.testing.running import NOT_RUNNING
from pykafka2.testing.views.groups import GroupView
from pykafka2.testing.views.metrics import ClusterMetrics
from pykafka2.testing.views.partitions import (
    BrokerView,
    ConnectionView,
    ControllerView,
    LogView,
    PartitionView,
)
from pykafka2.testing.views.share_groups import ShareGroupView, SharePartitionView
from pykafka2.testing.views.timeline import Timeline
from pykafka2.testing.views.transactions import TransactionView
from pykafka2.testing.waiting import waited, waited_async
from pykafka2.types import TopicPartition

logger = logging.getLogger(__name__)

CLOSE_TIMEOUT = 10.0
# Attributes that exist only in the child's memory.
NOT_HERE = frozenset({"faults", "links", "lock", "loops", "running", "runtime", "throttles"})

T = TypeVar("T")


@attrs.define(frozen=True)
class AdminPortView:
    """The address of the admin port, and the token that callers must send."""

    address: str
    token: str


class ProcessCluster(ClusterApi):
    """A cluster in a child process, created by `KafkaCluster(process=True)`.

    The child ends with `close`, and with this process, however that ends.  Attributes of the child's memory
    (`lock`, `loops`, `runtime`) raise `IllegalState`.
    """

    def __init__(self, arguments: ClusterArguments) -> None:
        if arguments.runtime is not None:
            raise ConfigurationError("runtime= cannot be set for a cluster in another process. Remove it.")
        arguments.check()
        if not isinstance(arguments.tls, Mapping | bool | None):
            raise ConfigurationError(
                "A TlsContext cannot be sent to another process. "
                'Set tls=True or {"cert_file": ..., "key_file": ...}.'
            )
        self._authority = Authority(arguments.hosts()) if arguments.needs_authority else None
        self._access = Access.of(arguments)
        self.config = arguments.broker_config()
        values = {one.name: getattr(arguments, one.name) for one in attrs.fields(ClusterArguments)}
        del values["runtime"]
        if arguments.listeners is not None or arguments.needs_authority:
            values["listeners"] = {
                name: attrs.asdict(self._described(arguments, one))
                for name, one in self._access.listeners.items()
            }
        self._arguments = to_data({**values, "topics": arguments.described_topics()})
        self._process: subprocess.Popen[str] | None = None
        self._client: AdminClient | None = None
        self._last_timeline: Timeline | None = None

    def _described(self, arguments: ClusterArguments, listener: Listener) -> Listener:
        """Return a listener for the child."""
        if not arguments.needs_authority:
            return listener
        # In the child, the authority's certificate would make brokers request certificates of clients.
        wanted = arguments.client_auth_of(listener) if listener.uses_tls else None
        return attrs.evolve(listener, client_auth=wanted)

    # ------------------------------------------------------------------ start and end

    def start(self) -> Self:
        """Start the child and wait for its brokers: about 0.3 s."""
        if self._process is not None:
            raise IllegalState("The cluster is already running.")
        if self._authority is not None:
            self._authority.write()
            files = {"cert_file": self._authority.cert_file, "ca_file": self._authority.ca_file}
            self._arguments["tls"] = files
        self._process = process = subprocess.Popen(
            [sys.executable, "-m", "pykafka2.testing.cluster_process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": _python_path()},
        )
        try:
            answer = self._introduce(process)
        except BaseException:
            self._release()
            raise
        self._client = AdminClient(answer["address"], answer["token"])
        self._admin_port_view = AdminPortView(answer["address"], answer["token"])
        self.history = RemoteHistory(self._client)
        self.events = RemoteEvents(self._client)
        self.problems = RemoteProblems(self._client)
        self.check()
        return self

    def _introduce(self, process: subprocess.Popen[str]) -> dict[str, Any]:
        if process.stdin is None or process.stdout is None:
            raise IllegalState("the child has no pipes")
        try:
            process.stdin.write(json.dumps(self._arguments) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except OSError as error:
            raise Disconnected(f"the cluster's process ended at its start: {error}") from error
        if not line:
            raise Disconnected(f"the cluster's process ended at its start with {process.wait(CLOSE_TIMEOUT)}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise remote_error(answer["error"]["type"], answer["error"]["message"])
        return answer

    def close(self) -> None:
        """End the child.  Can be repeated.  Raise like `KafkaCluster.close` for unexpected exceptions in
        it.
        """
        problem: IllegalState | None = None
        if self._client is not None:
            try:
                self.problems.raise_any()
            except IllegalState as error:
                problem = error
            except KafkaError:
                pass  # the child has ended by itself
        self._release()
        if problem is not None:
            raise problem

    def _release(self) -> None:
        if self._authority is not None:
            self._authority.remove()
        client, self._client = self._client, None
        if client is not None:
            client.close()
        process, self._process = self._process, None
        if process is None:
            return
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except BrokenPipeError:
                    pass
        try:
            process.wait(CLOSE_TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            try:
                self._last_timeline = self.timeline()  # the plugin shows it with the failure
            except KafkaError as failure:
                logger.debug("Timeline of a failed cluster is unavailable: %s", failure)
        self.close()

    @property
    def pid(self) -> int:
        """The child's process id."""
        if self._process is None:
            raise IllegalState(NOT_RUNNING)
        return self._process.pid

    def check(self) -> None:
        """Raise `IllegalState` if the cluster does not run."""
        self.call("cluster_id")

    # ------------------------------------------------------------------ over the admin port

    def call(self, name: str, /, **arguments: Any) -> Any:
        """Execute a call of the admin port by name, with plain data."""
        if self._client is None:
            raise IllegalState(NOT_RUNNING)
        return self._client.call(name, **arguments)

    def _view(self, kind: type[T], name: str, **arguments: Any) -> T:
        view: T = from_data(kind, self.call(name, **arguments))
        return view

    @property
    def brokers(self) -> list[BrokerView]:
        """Addresses and states of the brokers, by id."""
        found: list[BrokerView] = from_data(list[BrokerView], self.call("brokers"))
        return found

    def broker(self, broker_id: int) -> BrokerView:
        known = self.brokers
        if not isinstance(broker_id, int) or not 0 <= broker_id < len(known):
            raise ConfigurationError(f"Unknown broker {broker_id!r}. Ids are 0 to {len(known) - 1}.")
        return known[broker_id]

    @property
    def bootstrap_servers(self) -> str:
        return str(self.call("bootstrap_servers"))

    def bootstrap_servers_of(self, listener: str) -> str:
        self._access.check_listener(listener)
        return str(self.call("bootstrap_servers_of", listener=listener))

    @property
    def cluster_id(self) -> str:
        return str(self.call("cluster_id"))

    @property
    def has_admin_port(self) -> bool:
        return False

    def open_admin_port(
        self, port: int = 0, token: str | None = None, *, host: str = LOOPBACK
    ) -> AdminPortView:
        """Return the existing admin port of the child; its address and token cannot be chosen."""
        if port or token is not None or host != LOOPBACK:
            raise ConfigurationError("The admin port is already open: the child chose its port and token.")
        self.check()
        return self._admin_port_view

    @property
    def controller(self) -> ControllerView:
        return self._view(ControllerView, "controller")

    @property
    def controls(self) -> Controls:
        """The same controls as in this process."""
        self.check()
        assert self._client is not None  # noqa: S101  check has seen it
        return cast(Controls, RemoteControls(self._client))

    def create_topic(
        self,
        topic: str,
        partitions: int = 1,
        replication_factor: int | None = None,
        configs: Mapping[str, object] | None = None,
        assignment: Sequence[Sequence[int]] = (),
    ) -> None:
        self.call(
            "create_topic",
            topic=topic,
            partitions=partitions,
            replication_factor=replication_factor,
            configs=to_data(configs or {}),
            assignment=to_data(list(map(list, assignment))),
        )

    def delete_topic(self, topic: str) -> None:
        self.call("delete_topic", topic=topic)

    def topics(self) -> list[str]:
        return list(self.call("topics"))

    def forget(self) -> None:
        self.call("forget")

    def reset(self) -> None:
        self.call("reset")

    def partition(self, topic: str, partition: int) -> PartitionView:
        return self._view(PartitionView, "partition", topic=topic, partition=partition)

    def log(self, topic: str, partition: int, broker: int | None = None) -> LogView:
        return self._view(LogView, "log", topic=topic, partition=partition, broker=broker)

    def wait_until(self, predicate: Callable[[], T], timeout: float = 10.0, what: str = "it") -> T:
        runtime = ThreadRuntime()
        try:
            return waited(runtime, self.check, predicate, timeout, what)
        finally:
            runtime.close()

    async def wait_until_async(
        self, predicate: Callable[[], T], timeout: float = 10.0, what: str = "it"
    ) -> T:
        runtime = ThreadRuntime()
        try:
            return await waited_async(runtime, self.check, predicate, timeout, what)
        finally:
            runtime.close()

    def connections(self, client_id: str | None = None) -> list[ConnectionView]:
        return self._view(list[ConnectionView], "connections", client_id=client_id)

    def coordinator(self, key: str, kind: str = "group") -> int:
        return int(self.call("coordinator", key=key, kind=kind))

    def group(self, group_id: str) -> GroupView:
        return self._view(GroupView, "group", group_id=group_id)

    def share_group(self, group_id: str) -> ShareGroupView:
        return self._view(ShareGroupView, "share_group", group_id=group_id)

    def share_partition(
        self, group_id: str, partition: TopicPartition | tuple[str, int]
    ) -> SharePartitionView:
        return self._view(SharePartitionView, "share_partition", group_id=group_id, partition=partition)

    def transaction(self, transactional_id: str) -> TransactionView:
        return self._view(TransactionView, "transaction", transactional_id=transactional_id)

    def transactions(self) -> list[TransactionView]:
        return self._view(list[TransactionView], "transactions")

    def metrics(self) -> ClusterMetrics:
        state = self.call("metrics_state")
        return ClusterMetrics({int(number): RequestMetrics.from_state(one) for number, one in state.items()})

    def telemetry(self, client_id: str | None = None) -> list[TelemetryPush]:
        return self._view(list[TelemetryPush], "telemetry", client_id=client_id)

    def timeline(self, last: int | None = None) -> Timeline:
        if self._client is None and self._last_timeline is not None:
            return self._last_timeline
        return RemoteTimeline(**self.call("timeline", last=last), metrics=self.call("metrics"))

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """Raise for attributes that exist only for a cluster in this process."""
            if name in ("history", "events", "problems"):
                raise IllegalState(NOT_RUNNING)
            if name in NOT_HERE:
                raise IllegalState(
                    f"{name} exists only in the cluster's own process. Use controls and views."
                )
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


def _python_path() -> str:
    """Return an environment in which the child imports this package."""
    root = str(Path(pykafka2.__file__).parents[1])
    before = os.environ.get("PYTHONPATH")
    return os.pathsep.join([root, before] if before else [root])
