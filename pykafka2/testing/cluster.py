"""A Kafka cluster in this process: brokers, a controller and their links, for tests and experiments.

    with KafkaCluster(brokers=3, topics={"orders": 6}) as cluster:
        producer = KafkaProducer(bootstrap_servers=cluster.bootstrap_servers)

The facade.  `ClusterApi` (api.py) documents it; `Running` (running.py) holds the parts, which starting.py
creates.  Runs on real sockets and threads, or in the simulation.  One lock guards the state of brokers and
controller; the methods here acquire it and are thread-safe.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar, cast

from pykafka2.broker.base.image import INTERNAL_TOPICS
from pykafka2.broker.broker import Broker
from pykafka2.broker.controller import NewTopic
from pykafka2.broker.controller.controllers import Controllers
from pykafka2.broker.faults.engine import Faults
from pykafka2.broker.observed.history import MAX_ENTRIES
from pykafka2.broker.observed.telemetry import TelemetryPush
from pykafka2.broker.server.links import Links
from pykafka2.broker.server.threads import Loops
from pykafka2.driver.runtime import Runtime
from pykafka2.driver.thread_driver import ThreadRuntime
from pykafka2.errors import IllegalState
from pykafka2.network.tls import TlsContext
from pykafka2.testing.access import Access
from pykafka2.testing.api import LOOPBACK, ClusterApi
from pykafka2.testing.arguments import ClusterArguments, Topic, Topics, check_names
from pykafka2.testing.controls.controls import Controls
from pykafka2.testing.listeners import Listeners
from pykafka2.testing.remote.cluster import ProcessCluster
from pykafka2.testing.remote.http_port import AdminPort
from pykafka2.testing.running import NOT_RUNNING, Running
from pykafka2.testing.starting import ClusterContext, assemble, start_brokers
from pykafka2.testing.views.groups import GroupView, coordinator_of, group_view
from pykafka2.testing.views.metrics import ClusterMetrics, metrics_of
from pykafka2.testing.views.partitions import (
    ConnectionView,
    LogView,
    PartitionView,
    connection_views,
    log_view,
    partition_view,
)
from pykafka2.testing.views.share_groups import (
    ShareGroupView,
    SharePartitionView,
    share_group_view,
    share_partition_view,
)
from pykafka2.testing.views.timeline import Timeline, timeline_of
from pykafka2.testing.views.transactions import TransactionView, transaction_view, transaction_views
from pykafka2.testing.waiting import follows, waited, waited_async
from pykafka2.types import TopicPartition

T = TypeVar("T")


class KafkaCluster(ClusterApi):
    """A cluster of `brokers` brokers with these topics, which runs between `start` and `close`.

        with KafkaCluster(brokers=3, topics={"orders": 6}) as cluster:
            producer = KafkaProducer(bootstrap_servers=cluster.bootstrap_servers)

    Args:
        brokers: number of brokers.
        topics: partitions by name, or a `Topic` by name; or just names (["orders"]), one partition each.
        config: the brokers' configuration by Kafka's names; a misspelt name raises `UnknownOption`, which
            names the nearest.  Additional options: channel.mode (pipelined, serial), log.validate (headers,
            strict), threads (shared, separate), max.pipelined.requests, max.pipelined.bytes.
        pipelined: whether a broker reads a connection's next request while an acks=all produce waits for
            replicas (the default).  False mutes the connection as Apache Kafka does, like
            channel.mode=serial.
        seed: determines topic ids and the start of replica placement, and with the start the cluster id.
        racks: the brokers' racks, repeated if there are more brokers; a partition's replicas are spread over
            the racks.
        host: where brokers listen; "{id}" is replaced by the broker's id.
        ports: one for each broker; default: free ports.
        tls: listen with TLS: True for a throw-away authority (needs trustme; `client_options` has the options
            of a client, `ca_file` the certificate that it trusts), a `TlsContext`, or its arguments
            ({"cert_file": ..., "key_file": ...}).
        as_version: respond like this release of Apache Kafka ("2.8", "3.0" ... "4.4"): with its API
            versions and features; default: "4.4".  docs/fidelity.md lists the remaining differences.
        features: finalized levels other than the latest, by Kafka's names ({"transaction.version": 1}).
        controller: id of the first controller; default: the first broker.
        first_broker_id: the lowest broker id.
        advertised_host: the host that brokers advertise to clients, if it is not `host` (a proxy, a
            container); "{id}" is replaced by the broker's id.  Required if `host` is 0.0.0.0 or "::".
        advertised_ports: the ports that brokers advertise, one for each broker.  With either option, clients
            must bootstrap from the advertised address, not from `bootstrap_servers`.
        listeners: several listeners: a `Listener` or None by name, such as
            {"PLAINTEXT": None, "SASL_SSL": Listener(mechanisms=["PLAIN"])}, or a list of security protocols.
            `bootstrap_servers` belongs to the first.  Brokers need no listener among themselves.
        users: passwords by user, for PLAIN and both SCRAM mechanisms; `controls.add_user` adds more.
        token_key: the key that must sign OAUTHBEARER tokens: text (HS256; see `token`), or public keys as a
            JWKS (RS256); default: unsigned tokens are accepted, as by Kafka's validator for tests.
        data_dir: a directory that keeps the cluster across restarts, in the format of Apache Kafka
            (docs/guides/data-on-disk.md); `DATA_DIR/broker-0` is Kafka's log.dirs of node 0.  The
            directory can be new.  A cluster that it holds keeps its features and users, and only missing
            `topics` are created.  Default: everything is in memory.
        runtime: the runtime of a `Simulation`, whose `cluster` passes it; default: real threads and sockets.
        history_entries: how many requests the history keeps; 0 disables it.
        process: run the cluster in a child process, with the same controls and views (`ClusterApi`); the
            cluster is then a `ProcessCluster`.

    Raises `ConfigurationError` for illegal arguments.  After `close` no thread, socket or file is left.
    A context manager.
    """

    def __new__(cls, *arguments: Any, process: bool = False, **options: Any) -> Self:
        check_names(cls, options)
        if process and cls is KafkaCluster:
            return cast("Self", ProcessCluster(ClusterArguments(*arguments, **options)))
        return super().__new__(cls)

    def __init__(
        self,
        brokers: int = 3,
        topics: Topics | None = None,
        *,
        config: Mapping[str, object] | None = None,
        pipelined: bool | None = None,
        seed: int | str = 0,
        racks: Sequence[str] | None = None,
        host: str = "127.0.0.1",
        ports: Sequence[int] | None = None,
        tls: TlsContext | Mapping[str, str] | bool | None = None,
        runtime: Runtime | None = None,
        features: Mapping[str, int] | None = None,
        as_version: str | None = None,
        history_entries: int = MAX_ENTRIES,
        process: bool = False,
        controller: int | None = None,
        first_broker_id: int = 0,
        advertised_host: str | None = None,
        advertised_ports: Sequence[int] | None = None,
        listeners: Listeners | None = None,
        users: Mapping[str, str] | None = None,
        token_key: str | Mapping[str, Any] | None = None,
        data_dir: str | os.PathLike[str] | None = None,
    ) -> None:
        self._arguments = ClusterArguments(
            brokers,
            topics,
            config=config,
            pipelined=pipelined,
            seed=seed,
            racks=racks,
            host=host,
            ports=ports,
            tls=tls,
            runtime=runtime,
            features=features,
            as_version=as_version,
            history_entries=history_entries,
            controller=controller,
            first_broker_id=first_broker_id,
            advertised_host=advertised_host,
            advertised_ports=advertised_ports,
            listeners=listeners,
            users=users,
            token_key=token_key,
            data_dir=data_dir,
        )
        self._context = context = ClusterContext.of(self._arguments)
        self.config, self.lock = context.config, context.lock
        self._authority = context.authority
        self._access = Access.of(self._arguments)
        self.history, self.events, self.problems = context.history, context.events, context.problems
        self.seed = seed
        self._running: Running | None = None
        self._controls: Controls | None = None
        self._admin_port: AdminPort | None = None

    # ------------------------------------------------------------------ start and end

    def start(self) -> Self:
        """Start the brokers, then create the topics.  Three brokers take less than 100 ms."""
        if self._running is not None and not self._running.is_over:
            raise IllegalState("The cluster is already running.")
        self._running = running = assemble(self._arguments, self._context)
        self._controls = Controls(running)
        try:
            if self._authority is not None:
                self._authority.write()
            start_brokers(running, self._arguments.first_controller)
            self._create_missing()
        except BaseException:
            self._end(running)
            raise
        return self

    def close(self) -> None:
        if self._running is None or self._running.is_over:
            return
        if self._admin_port is not None:
            self._admin_port.close()
            self._admin_port = None
        self._end(self._running)
        self.problems.raise_any()

    def _end(self, running: Running) -> None:
        try:
            running.end()
        finally:
            if self._authority is not None:
                self._authority.remove()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except IllegalState as problem:
            if error is None:
                raise
            error.add_note(str(problem))  # the block's own exception takes precedence

    def check(self) -> None:
        self.running.check()

    # ------------------------------------------------------------------ what it is

    @property
    def running(self) -> Running:
        """The parts behind the facade, for code that needs more than views; `IllegalState` before `start`."""
        if self._running is None:
            raise IllegalState(NOT_RUNNING)
        return self._running

    @property
    def runtime(self) -> Runtime:
        """The threads, sockets and clock.  Raises `IllegalState` while the cluster does not run."""
        return self.running.runtime

    @property
    def loops(self) -> Loops:
        """The loops that the parts of the brokers run on."""
        return self.running.loops

    @property
    def links(self) -> Links:
        """The links between brokers."""
        return self.running.links

    @property
    def faults(self) -> Faults:
        """The active rules, and the requests that they hold."""
        return self.running.faults

    @property
    def brokers(self) -> list[Broker]:
        """All brokers by id, including stopped ones; empty before `start`."""
        return [] if self._running is None else self._running.brokers

    def broker(self, broker_id: int) -> Broker:
        return self.running.broker(broker_id)

    @property
    def controller(self) -> Controllers:
        """The controller, its epoch, and the state that brokers share about it."""
        return self.running.controllers

    @property
    def bootstrap_servers(self) -> str:
        self.check()
        return ",".join(broker.address for broker in self.brokers)

    def bootstrap_servers_of(self, listener: str) -> str:
        self.check()
        self._access.check_listener(listener)
        return ",".join(
            address.address
            for broker in self.brokers
            for address in broker.listeners
            if address.name == listener
        )

    @property
    def cluster_id(self) -> str:
        return self.controller.image.cluster_id

    @property
    def pid(self) -> int:
        return os.getpid()

    @property
    def controls(self) -> Controls:
        self.check()
        return cast(Controls, self._controls)  # made at the start

    # ------------------------------------------------------------------ topics

    def create_topic(
        self,
        topic: str,
        partitions: int = 1,
        replication_factor: int | None = None,
        configs: Mapping[str, object] | None = None,
        assignment: Sequence[Sequence[int]] = (),
    ) -> None:
        self._create(Topic(partitions, replication_factor, configs or {}, assignment).described(topic))

    def _create_missing(self) -> None:
        """Create the topics of `topics=`, apart from those that a data directory has."""
        for name, topic in self._arguments.described_topics().items():
            if name not in self.controller.image.topics:
                self._create(topic.described(name))

    def _create(self, new: NewTopic) -> None:
        self.check()
        self.controller.run(f"create topic {new.name}", lambda active: active.create_topic(new))

    def delete_topic(self, topic: str) -> None:
        self.check()
        self.controller.run(f"delete topic {topic}", lambda active: active.delete_topic(topic))

    def topics(self) -> list[str]:
        return sorted(self.controller.image.topics)

    # ------------------------------------------------------------------ views

    def wait_until(self, predicate: Callable[[], T], timeout: float = 10.0, what: str = "it") -> T:
        return waited(self.runtime, self.check, predicate, timeout, what)

    async def wait_until_async(
        self, predicate: Callable[[], T], timeout: float = 10.0, what: str = "it"
    ) -> T:
        if not isinstance(self.runtime, ThreadRuntime) and not follows(self.runtime.clock):
            raise IllegalState(
                "The brokers run in virtual time, which this event loop does not follow. Use wait_until, or "
                "start the coroutine with simulation.run()."
            )
        return await waited_async(self.runtime, self.check, predicate, timeout, what)

    def partition(self, topic: str, partition: int) -> PartitionView:
        return partition_view(self.running, topic, partition)

    def log(self, topic: str, partition: int, broker: int | None = None) -> LogView:
        return log_view(self.running, topic, partition, broker)

    def connections(self, client_id: str | None = None) -> list[ConnectionView]:
        return connection_views(self.running, client_id)

    def coordinator(self, key: str, kind: str = "group") -> int:
        return coordinator_of(self.running, key, kind)

    def group(self, group_id: str) -> GroupView:
        return group_view(self.running, group_id)

    def share_group(self, group_id: str) -> ShareGroupView:
        return share_group_view(self.running, group_id)

    def share_partition(
        self, group_id: str, partition: TopicPartition | tuple[str, int]
    ) -> SharePartitionView:
        return share_partition_view(self.running, group_id, partition)

    def transaction(self, transactional_id: str) -> TransactionView:
        return transaction_view(self.running, transactional_id)

    def transactions(self) -> list[TransactionView]:
        return transaction_views(self.running)

    def metrics(self) -> ClusterMetrics:
        return metrics_of(self.running)

    def telemetry(self, client_id: str | None = None) -> list[TelemetryPush]:
        with self.running.lock:
            pushes = list(self.running.shared.pushes)
        return [push for push in pushes if client_id in (None, push.client_id)]

    def timeline(self, last: int | None = None) -> Timeline:
        return timeline_of(self.running, last)

    def forget(self) -> None:
        self.check()
        self.running.forget()

    def reset(self) -> None:
        self.controls.reset()
        for name in self.topics():
            if name not in INTERNAL_TOPICS:
                self.delete_topic(name)
        self._create_missing()
        self.forget()

    # ------------------------------------------------------------------ steered from outside

    def open_admin_port(self, port: int = 0, token: str | None = None, *, host: str = LOOPBACK) -> AdminPort:
        if self._admin_port is not None:
            raise IllegalState(f"The admin port is already open at {self._admin_port.address}.")
        self._admin_port = AdminPort(self, self.runtime, port, token, host)
        return self._admin_port

    @property
    def has_admin_port(self) -> bool:
        return self._admin_port is not None


# Has the signature that `inspect` and `help` show for the class.
setattr(KafkaCluster.__new__, "__wrapped__", KafkaCluster.__init__)  # noqa: B010 - for mypy

# Makes `isinstance(KafkaCluster(process=True), KafkaCluster)` true: only these two are a `ClusterApi`.
KafkaCluster.register(ProcessCluster)
