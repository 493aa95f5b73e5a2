"""`Simulation(seed)`: a cluster, its clients and their users in one process, in virtual time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import iscoroutinefunction
from types import TracebackType
from typing import TYPE_CHECKING, Any

from pykafka2.clock import FOREVER
from pykafka2.testing.simulation.actors import Actor
from pykafka2.testing.simulation.driver import SimClock, SimRuntime
from pykafka2.testing.simulation.event_loop import run_coroutine
from pykafka2.testing.simulation.network import SimNetwork
from pykafka2.testing.simulation.problems import LoopFailed
from pykafka2.testing.simulation.scheduler import Scheduler
from pykafka2.testing.simulation.sync import SimEvent, SimQueue
from pykafka2.testing.simulation.trace import Trace

if TYPE_CHECKING:
    from pykafka2.cluster.client import ClusterClient
    from pykafka2.consumer.consumer import KafkaConsumer
    from pykafka2.producer.producer import KafkaProducer
    from pykafka2.share.consumer import KafkaShareConsumer
    from pykafka2.testing.cluster import KafkaCluster


class Simulation:
    """A simulated world: the same seed gives the same run, to the byte.

    The creating thread is the main actor: blocking calls there (`producer.flush()`, `simulation.sleep`) let
    everything else run.  Use it in a `with` statement, which closes all objects and raises background
    failures (`ActorFailed`, `LoopFailed`).

    `watchdog` is in real seconds: an actor that runs so long without a blocking call fails the simulation
    with its stack; 0 disables it (for a debugger).  `keep_timeline` keeps every line for `timeline()`.
    """

    def __init__(self, seed: int = 0, *, watchdog: float = 5.0, keep_timeline: bool = False) -> None:
        self.seed = seed
        self.scheduler = Scheduler(seed, watchdog=watchdog, trace=Trace(keep_all=keep_timeline))
        self.network = SimNetwork(self.scheduler, seed)
        self.clock = SimClock(self.scheduler)
        self.runtime = SimRuntime(self.scheduler, self.network, self.clock, seed)
        """The runtime of clients and clusters; `simulation.runtime.at("shop")` is that of one process."""
        self.files = self.runtime.sim_files
        """The disks of clusters with a data_dir, and their faults."""
        self._closers: list[Callable[[], object]] = []
        self._clusters: list[KafkaCluster] = []
        self._names: dict[str, int] = {}
        self.last_client = ""
        """The place of the last created client, for links and pauses."""
        self._is_closed = False

    # ------------------------------------------------------------------ time and actors

    @property
    def now(self) -> float:
        """Virtual seconds since the simulation began: the clock of the history, the events and all timers."""
        return self.scheduler.now

    @property
    def trace_hash(self) -> str:
        """The hash of every frame, wake-up and virtual time so far."""
        return self.scheduler.trace.digest

    def timeline(self) -> str:
        """Return a line for each event: recent ones, or all with `keep_timeline`."""
        return "\n".join(self.scheduler.trace.lines())

    def note(self, text: str) -> None:
        """Add a line to the timeline."""
        self.scheduler.trace.note(self.scheduler.now, text)

    def sleep(self, seconds: float) -> None:
        """Let virtual time pass for the calling actor."""
        self.scheduler.sleep(seconds)

    def run_for(self, seconds: float) -> None:
        """Let the world run for this time, while the test itself waits."""
        self.scheduler.sleep(seconds)

    def wait_until(self, predicate: Callable[[], bool], timeout: float = FOREVER) -> bool:
        """Block the calling actor until the predicate is true; return its value after at most `timeout`
        seconds.

        The predicate is evaluated after every event and every 10 virtual milliseconds, as it can depend on
        state without notifications, such as a broker's.
        """
        deadline = self.scheduler.now + timeout
        while not predicate():
            left = deadline - self.scheduler.now
            if left <= 0:
                return False
            self.scheduler.wait_until(predicate, min(0.01, left))
        return True

    def spawn(self, function: Callable[[], object], name: str | None = None) -> Actor:
        """Run blocking code as an actor; `actor.result()` waits for its end.

        A coroutine function runs in an event loop of its own: `asyncio.sleep`, timeouts and
        `asyncio.to_thread` are in virtual time, too.
        """
        actor_name = name or self._new_name(getattr(function, "__name__", "actor"))
        if iscoroutinefunction(function):
            return self.scheduler.spawn_actor(actor_name, lambda: run_coroutine(self.scheduler, function()))
        return self.scheduler.spawn_actor(actor_name, function)

    def run(self, function: Callable[[], object], name: str | None = None) -> Any:
        """Run a function or a coroutine function as an actor and return its result."""
        return self.spawn(function, name).result()

    def queue(self, capacity: int | None = None) -> SimQueue[Any]:
        """Create a FIFO queue between actors: `put` and `get` wait in virtual seconds.

        `put` waits while the queue holds `capacity` items; None for no limit.
        """
        return SimQueue(self.scheduler, capacity)

    def event(self) -> SimEvent:
        """Create a flag between actors: `set`, `clear`, `is_set`, `wait` in virtual seconds."""
        return SimEvent(self.scheduler)

    # ------------------------------------------------------------------ the system

    def cluster(
        self, brokers: int = 3, topics: Mapping[str, Any] | Sequence[str] | None = None, **options: Any
    ) -> KafkaCluster:
        """Create a `KafkaCluster` in this world, with its arguments.  Closed with the simulation.

        Each broker is a host and a place ("broker-0"), which links and pauses can name.  Each broker thread
        is a loop, so that the seed decides their order.  Every record is validated (log.validate=strict).
        """
        from pykafka2.testing.cluster import KafkaCluster

        options.setdefault("seed", self.seed)
        options.setdefault("host", "broker-{id}")
        options["config"] = {"threads": "separate", "log.validate": "strict", **(options.get("config") or {})}
        cluster = KafkaCluster(brokers=brokers, topics=topics, runtime=self.runtime, **options)
        cluster.problems.on_problem = lambda problem: self.note(str(problem))
        self._clusters.append(cluster)
        cluster.__enter__()
        self._closers.append(lambda: cluster.__exit__(None, None, None))
        cluster.links.on_frame = self._trace_link
        return cluster

    def producer(self, cluster: KafkaCluster, **options: Any) -> KafkaProducer[Any, Any]:
        """Create a `KafkaProducer` in a process of its own; closed with the simulation."""
        from pykafka2.producer.producer import KafkaProducer

        name = self.last_client = self._new_name("producer")
        options.setdefault("client_id", name)
        options.setdefault("bootstrap_servers", cluster.bootstrap_servers)
        producer = KafkaProducer(runtime=self.runtime.at(name), **options)
        self._closers.append(lambda: producer.close(timeout=0))
        return producer

    def consumer(self, cluster: KafkaCluster, *topics: str, **options: Any) -> KafkaConsumer[Any, Any]:
        """Create a `KafkaConsumer` in a process of its own; closed with the simulation."""
        from pykafka2.consumer.consumer import KafkaConsumer

        name = self.last_client = self._new_name("consumer")
        options.setdefault("client_id", name)
        options.setdefault("bootstrap_servers", cluster.bootstrap_servers)
        consumer = KafkaConsumer(*topics, runtime=self.runtime.at(name), **options)
        self._closers.append(consumer.close)
        return consumer

    def share_consumer(
        self, cluster: KafkaCluster, *topics: str, **options: Any
    ) -> KafkaShareConsumer[Any, Any]:
        """Create a `KafkaShareConsumer` in a process of its own; closed with the simulation."""
        from pykafka2.share.consumer import KafkaShareConsumer

        name = self.last_client = self._new_name("share-consumer")
        options.setdefault("client_id", name)
        options.setdefault("bootstrap_servers", cluster.bootstrap_servers)
        consumer = KafkaShareConsumer(*topics, runtime=self.runtime.at(name), **options)
        self._closers.append(consumer.close)
        return consumer

    def client(self, cluster: KafkaCluster, kind: str = "client", **options: Any) -> ClusterClient:
        """Create a bare client in a process of its own, for manual requests; closed with the simulation."""
        from pykafka2.cluster.client import ClusterClient
        from pykafka2.options import ClientOptions, OptionTable

        name = self.last_client = self._new_name(kind)
        options.setdefault("client_id", name)
        options.setdefault("bootstrap_servers", cluster.bootstrap_servers)
        parsed = OptionTable(ClientOptions).parse(None, options)
        client = ClusterClient(parsed, name=name, runtime=self.runtime.at(name))
        self._closers.append(client.close)
        return client

    def _trace_link(self, source: int, target: int, frame: memoryview) -> None:
        """Return the brokers' links, which do not use the network."""
        self.scheduler.trace.carried(self.scheduler.now, f"broker-{source}>broker-{target}", frame)

    def _new_name(self, kind: str) -> str:
        self._names[kind] = self._names.get(kind, 0) + 1
        return f"{kind}-{self._names[kind]}"

    # ------------------------------------------------------------------ the end

    @property
    def failures(self) -> list[BaseException]:
        """Failures that no caller has received: of loops, of brokers (`KafkaCluster.problems`), then of
        actors.
        """
        return [*self._loop_failures(), *self._actor_failures()]

    def close(self) -> None:
        """End all actors, clients and clusters of this world.  Can be repeated; raise none of their
        errors.
        """
        if self._is_closed:
            return
        self._is_closed = self.scheduler.is_closing = True
        try:
            for closer in reversed(self._closers):
                self._close_one(closer)
        finally:
            self.scheduler.close()

    def __enter__(self) -> Simulation:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        loops = self._loop_failures()
        self.close()
        failures: list[BaseException] = [*loops, *self._actor_failures()]
        if self.scheduler.failure is not None and not self.scheduler.failure_was_raised:
            failures.insert(0, self.scheduler.failure)
        if error is None and failures:
            raise failures[0]

    def _loop_failures(self) -> list[BaseException]:
        failures: list[BaseException] = list(self.scheduler.loop_failures)
        for problem in (problem for cluster in self._clusters for problem in cluster.problems):
            failed = LoopFailed(str(problem))
            failed.__cause__ = problem.error
            failures.append(failed)
        return failures

    def _actor_failures(self) -> list[BaseException]:
        failures = [actor.unclaimed_failure() for actor in self.scheduler.threads.actors]
        return [failure for failure in failures if failure is not None]

    def _close_one(self, closer: Callable[[], object]) -> None:
        try:
            closer()
        except Exception as error:
            self.note(f"closing: {error!r}")
