"""A Kafka cluster in this process: brokers, a controller, links between them, for tests and for trying
things out.

    with KafkaCluster(brokers=3, topics={"orders": 6}) as cluster:
        producer = KafkaProducer(bootstrap_servers=cluster.bootstrap_servers)

Runs on real sockets and threads by default, or in the simulation with neither.  One lock guards all that
brokers and controller decide; the methods here take it themselves and may be called from any thread.
"""

from __future__ import annotations

import base64
import threading
from collections.abc import Mapping, Sequence
from inspect import Parameter, signature
from types import TracebackType
from typing import TYPE_CHECKING, Any

import attrs

from pykafka2.broker.base.features import finalised
from pykafka2.broker.base.problems import Problems
from pykafka2.broker.config.configs import BrokerConfig, nearest
from pykafka2.broker.controller import NewTopic
from pykafka2.broker.controller.controllers import Controllers
from pykafka2.broker.controller.placement import first_host
from pykafka2.broker.controller.state import State
from pykafka2.broker.faults.engine import Faults
from pykafka2.broker.faults.rule import FaultRule
from pykafka2.broker.faults.throttle import Throttles
from pykafka2.broker.handlers.registry import APIS
from pykafka2.broker.handlers.registry import load as load_handlers
from pykafka2.broker.observed.event_log import EventLog
from pykafka2.broker.observed.history import MAX_ENTRIES, History
from pykafka2.broker.replication.links import Links
from pykafka2.broker.server.threads import Loops
from pykafka2.broker.shared import Shared
from pykafka2.clock import SeededEntropy
from pykafka2.driver.runtime import Runtime
from pykafka2.errors import ConfigurationError, IllegalState
from pykafka2.protocol.registry import name_of
from pykafka2.testing.views.queries import ClusterViews

if TYPE_CHECKING:
    from pykafka2.broker.broker import Broker
    from pykafka2.broker.server.request_context import RequestContext
    from pykafka2.network.tls import TlsContext
    from pykafka2.testing.controls.controls import Controls
    from pykafka2.testing.remote.http_port import AdminPort

MAX_BROKERS = 1000
TLS_ARGUMENTS = ("_file", "_data", "_password", "ciphers")


@attrs.define(frozen=True)
class Topic:
    """A topic to create: None takes the cluster's default; configs by Kafka's names, such as
    "retention.ms".

    `assignment` says where replicas live, a list of brokers for each partition, the first of which leads; it
    replaces both numbers.
    """

    partitions: int = 1
    replication_factor: int | None = None
    configs: Mapping[str, object] = attrs.field(factory=dict)
    assignment: Sequence[Sequence[int]] = ()


class KafkaCluster(ClusterViews):
    """A cluster of `brokers` brokers (ids from 0) with these topics, running between `start` and `close`.

    Args:
        brokers: how many.
        topics: partitions by name, or a `Topic` by name.
        config: the brokers' configuration by Kafka's names; a misspelt one raises `UnknownOption` naming the
            nearest.  Beyond Kafka's: channel.mode (pipelined, serial), log.validate (headers, strict),
            threads (shared, separate), max.pipelined.requests, max.pipelined.bytes.
        pipelined: whether a connection's next request may come in while an acks=all produce waits for its
            replicas (the default); False is Apache's muting, as does channel.mode=serial.
        seed: topic and cluster ids come from it, and where the placement of replicas begins.
        racks: the brokers' racks in turn, from the first again when there are more brokers; a partition's
            replicas are spread over them.
        host: where brokers listen; "{id}" in it stands for the broker's id.
        ports: one for each broker; default: free ones.
        tls: listen with TLS: a `TlsContext`, or its arguments ({"cert_file": ..., "key_file": ...}).
        features: finalised levels that are not the latest, by Kafka's names ({"transaction.version": 1}).
        controller: the broker that is the controller at first.
        runtime: what it runs on; default: real threads and sockets.
        history_entries: how many requests the history remembers; 0 switches it off.
        process: run it in a child process, with the same controls and views (see process_cluster.py).

    Raises `ConfigurationError` for anything that cannot be.  Leaves no thread, socket or file behind after
    `close`; is a context manager.
    """

    def __new__(cls, *arguments: Any, process: bool = False, **options: Any) -> KafkaCluster:
        taken = signature(cls.__init__).parameters
        for name in options:
            if name not in taken and not any(one.kind is Parameter.VAR_KEYWORD for one in taken.values()):
                close = nearest(name, taken)
                raise TypeError(f"{cls.__name__}() got an unexpected keyword argument {name!r}{close}")
        if process and cls is KafkaCluster:
            from pykafka2.testing.remote.cluster import ProcessCluster

            return super().__new__(ProcessCluster)
        return super().__new__(cls)

    def __init__(
        self,
        brokers: int = 3,
        topics: Mapping[str, int | Topic] | None = None,
        *,
        config: Mapping[str, object] | None = None,
        pipelined: bool | None = None,
        seed: int | str = 0,
        racks: Sequence[str] | None = None,
        host: str = "127.0.0.1",
        ports: Sequence[int] | None = None,
        tls: TlsContext | Mapping[str, str] | None = None,
        runtime: Runtime | None = None,
        features: Mapping[str, int] | None = None,
        history_entries: int = MAX_ENTRIES,
        process: bool = False,
        controller: int = 0,
    ) -> None:
        if not isinstance(brokers, int) or not 1 <= brokers <= MAX_BROKERS:
            raise ConfigurationError(f"brokers={brokers!r}: say a number from 1 to {MAX_BROKERS}")
        if ports is not None and len(ports) != brokers:
            raise ConfigurationError(f"{brokers} brokers need {brokers} ports, not {len(ports)}")
        if not 0 <= controller < brokers:
            raise ConfigurationError(f"controller={controller}: say a broker from 0 to {brokers - 1}")
        self._first_controller = controller
        self.config = BrokerConfig(_with_mode(config, pipelined))
        self._features = finalised(features)
        self.lock = threading.RLock()
        self.tls = _tls_of(tls)
        self.history = History(max_entries=history_entries)
        self.events = EventLog()
        self.problems = Problems()
        """What raised inside the brokers and must not have: mistakes in pykafka2.  `close` raises if there
        are any; `take()` hands them over to a test that planted them.
        """
        self.started_at = 0.0
        """When it started, by its monotonic clock."""
        self.faults = Faults(APIS, self._on_fault)
        self.throttles = Throttles()
        self._topics = {name: topic_of(name, topic) for name, topic in (topics or {}).items()}
        self._host = host
        self._racks = list(racks or [])
        self._ports = list(ports or [0] * brokers)
        self.seed = seed
        self._given_runtime = runtime
        self._runtime: Runtime | None = None
        self._brokers: list[Broker] = []
        self._controls: Controls | None = None
        self._admin_port: AdminPort | None = None

    # ------------------------------------------------------------------ start and end

    def start(self) -> KafkaCluster:
        """Start the brokers, then create the topics.  Three brokers take less than 100 ms."""
        if self._runtime is not None:
            raise IllegalState("the cluster is running")
        load_handlers()
        from pykafka2.broker.broker import Broker

        self._runtime = self._given_runtime or _thread_runtime()
        self.started_at = self._runtime.clock.monotonic()
        try:
            entropy = SeededEntropy(f"cluster-{self.seed}")
            cluster_id = base64.urlsafe_b64encode(entropy.token_bytes(16)).decode().rstrip("=")
            state = State(cluster_id, self.config, self._features)
            state.first_host = first_host(self.seed)
            self.loops = Loops(
                self._runtime,
                "kafka-cluster",
                separate=self.config.get("threads") == "separate",
                problems=self.problems,
            )
            self.links = Links(self.lock)
            self.loops.add_all([self.links])
            self.controller = Controllers(
                state,
                self.config,
                entropy,
                self.links,
                self.events,
                self._runtime,
                self.lock,
                lambda: self._brokers,
            )
            shared = Shared(
                self.config,
                self.seed,
                self._runtime,
                self.lock,
                self.loops,
                self.links,
                self.controller,
                self.faults,
                self.throttles,
                self.history,
                self.events,
                self.problems,
                self.tls,
                history_started_at=self.started_at,
            )
            self._shared = shared
            self._brokers = [
                Broker(
                    shared,
                    number,
                    self.host_of(number),
                    port,
                    self.rack_of(number),
                    lambda broker_id: self._brokers[broker_id].services,
                )
                for number, port in enumerate(self._ports)
            ]
            self._start_brokers()
            for name, topic in self._topics.items():
                self.create_topic(
                    name, topic.partitions, topic.replication_factor, topic.configs, topic.assignment
                )
        except BaseException:
            self._release()
            raise
        return self

    def _start_brokers(self) -> None:
        """All register with the first controller at the same time."""
        election = self.controller.election
        election.is_held = True
        for broker in self._brokers:
            broker.process.begin_start()
        with self.lock:
            election.is_held = False
            self.controller.elect(self._first_controller, self.runtime.clock.monotonic())
        for broker in self._brokers:
            broker.process.finish_start()
        # How brokers register is the same in every run; a timeline begins with what the test does.
        elections = [one for one in self.events.events("controller") if "event" not in one.facts]
        self.forget()
        now = self.history_started_at
        took_ms = (now - self.started_at) * 1000
        count = f"{len(self._brokers)} brokers" if len(self._brokers) > 1 else "1 broker"
        text = f"{count} started in {took_ms:.0f} ms"
        self.events.note(now, "cluster", text, brokers=len(self._brokers))
        for one in elections:
            self.events.note(now, one.kind, one.text, **one.facts)

    def close(self) -> None:
        """Stop everything and release every thread and socket.  Safe to repeat.

        Raises `IllegalState`, once all is released, if something went wrong inside the brokers (`problems`).
        """
        if self._runtime is not None:
            self._release()
            self.problems.raise_any()

    def _release(self) -> None:
        runtime, self._runtime = self._runtime, None
        if runtime is None:
            return
        if self._admin_port is not None:
            self._admin_port.close()
            self._admin_port = None
        for broker in self._brokers:
            broker.shut()
        self.loops.stop()
        if self._given_runtime is None:
            runtime.close()

    def __enter__(self) -> KafkaCluster:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            self.close()
        except IllegalState as problem:
            if error is None:
                raise
            error.add_note(str(problem))  # what the block raised comes first

    # ------------------------------------------------------------------ what it is

    @property
    def runtime(self) -> Runtime:
        """The threads, sockets and clock it runs on.  Raises `IllegalState` while it does not run."""
        if self._runtime is None:
            raise IllegalState("the cluster is not running; use it in a with block, or call start()")
        return self._runtime

    @property
    def brokers(self) -> list[Broker]:
        """All brokers, by id, those that are down included; none before `start`."""
        return list(self._brokers)

    def broker(self, broker_id: int) -> Broker:
        """The broker with this id, running or not.  Raises `ConfigurationError` if there is none."""
        if not isinstance(broker_id, int) or not 0 <= broker_id < len(self._brokers):
            raise ConfigurationError(f"no broker {broker_id!r}; there are 0 to {len(self._brokers) - 1}")
        return self._brokers[broker_id]

    @property
    def bootstrap_servers(self) -> str:
        """All brokers' addresses, separated by commas; those that are down included."""
        self.check()
        return ",".join(broker.address for broker in self._brokers)

    @property
    def cluster_id(self) -> str:
        """The id that clients are told, 22 characters of base64; the same for the same seed."""
        return self.controller.image.cluster_id

    @property
    def controls(self) -> Controls:
        """Crash, cut, hold and fail: see `Controls`."""
        self.check()
        if self._controls is None:
            from pykafka2.testing.controls.controls import Controls

            self._controls = Controls(self)
        return self._controls

    def rack_of(self, broker_id: int) -> str | None:
        """The broker's rack; None where no racks were given."""
        return self._racks[broker_id % len(self._racks)] if self._racks else None

    def host_of(self, broker_id: int) -> str:
        """The host name or address at which this broker listens and is advertised."""
        return self._host.replace("{id}", str(broker_id))

    @property
    def pid(self) -> int:
        """The process that the brokers run in: this one, or with `process=True` a child."""
        import os

        return os.getpid()

    def check(self) -> None:
        """Raise if the cluster does not run, or one of its loops has ended by a bug."""
        _ = self.runtime
        self.loops.raise_failure()

    # ------------------------------------------------------------------ topics

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        replication_factor: int | None = None,
        configs: Mapping[str, object] | None = None,
        assignment: Sequence[Sequence[int]] = (),
    ) -> None:
        """Create a topic; its leaders are elected when this returns.  Raises what a client would be told.

        `assignment` (see `Topic`) goes before both numbers.
        """
        self.check()
        factor = -1 if replication_factor is None else replication_factor
        if assignment:
            partitions = factor = -1
        replicas = {number: tuple(brokers) for number, brokers in enumerate(assignment)}
        new = NewTopic(name, partitions, factor, configs or {}, replicas)
        self.controller.run(f"create topic {name}", lambda active: active.create_topic(new))

    def delete_topic(self, name: str) -> None:
        """Delete a topic with all its records.  Raises what a client would be told, such as
        `UnknownTopicOrPartition`.
        """
        self.check()
        self.controller.run(f"delete topic {name}", lambda active: active.delete_topic(name))

    def topics(self) -> list[str]:
        """The names of all topics, Kafka's own included, sorted."""
        return sorted(self.controller.image.topics)

    def open_admin_port(self, port: int = 0, token: str | None = None) -> AdminPort:
        """Offer controls, rules and views over HTTP and JSON on loopback, until `close`; for tests in other
        languages.  Port 0 takes a free one; callers show the token (default: a random one).
        """
        from pykafka2.testing.remote.http_port import AdminPort

        if self._admin_port is not None:
            raise IllegalState(f"the admin port is open at {self._admin_port.address}")
        self._admin_port = AdminPort(self, self.runtime, port, token)
        return self._admin_port

    @property
    def has_admin_port(self) -> bool:
        """Whether `open_admin_port` was called (a cluster in another process has one of its own)."""
        return self._admin_port is not None

    # ------------------------------------------------------------------ what happened

    @property
    def history_started_at(self) -> float:
        """When history, metrics and timeline begin, by the monotonic clock: at the start, or when it was
        last told to forget.
        """
        return self._shared.history_started_at

    def forget(self) -> None:
        """Forget what was seen so far: history, events and metrics are empty, the timeline begins now.

        Between the preparation of a test and what it is about: `cluster.history.exactly(1, "Produce")` then
        counts only the latter.  Rules, links and all that brokers hold stay.
        """
        self.check()
        with self.lock:
            self._shared.history_started_at = self.runtime.clock.monotonic()
            self.history.clear()
            self.events.clear()
            self.faults.forget_numbers()
            for broker in self._brokers:
                broker.metrics.clear()

    def _on_fault(self, rule: FaultRule, broker_id: int, context: RequestContext) -> None:
        text = f"rule {rule.id} fired on {name_of(context.api_key)} of {context.client_id}: {rule.then}"
        now = self.runtime.clock.monotonic()
        self.events.note(now, "fault", text, rule=rule.id, broker=broker_id, then=rule.then)


def _with_mode(config: Mapping[str, object] | None, pipelined: bool | None) -> Mapping[str, object] | None:
    """The configuration with `pipelined` in it, under the name that the brokers read."""
    if pipelined is None:
        return config
    mode = "pipelined" if pipelined else "serial"
    if (config or {}).get("channel.mode", mode) != mode:
        raise ConfigurationError(f"pipelined={pipelined} and channel.mode={config['channel.mode']}: say one")  # type: ignore[index]
    return {**(config or {}), "channel.mode": mode}


def topic_of(name: str, topic: int | Topic) -> Topic:
    if isinstance(topic, Topic):
        return topic
    if isinstance(topic, int):
        return Topic(topic)
    raise ConfigurationError(f"topic {name!r}: say its number of partitions, or a Topic, not {topic!r}")


def _tls_of(tls: TlsContext | Mapping[str, str] | None) -> TlsContext | None:
    if not isinstance(tls, Mapping):
        return tls
    from pykafka2.network.tls import TlsContext

    names = [name for name in signature(TlsContext.__init__).parameters if name.endswith(TLS_ARGUMENTS)]
    for name in tls:
        if name not in names:
            raise ConfigurationError(f"tls= has no {name!r}{nearest(name, names)}")
    # Clients show no certificate unless they are asked for one.
    return TlsContext(**tls, verify="ca_file" in tls, server_side=True)  # type: ignore[arg-type]


def _thread_runtime() -> Runtime:
    from pykafka2.driver.thread_driver import ThreadRuntime

    return ThreadRuntime()
