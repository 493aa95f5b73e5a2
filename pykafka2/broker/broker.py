"""One broker of a cluster: its permanent state, its parts, and its start, stop, crash, pause and resume.

Its state (node.py), the logs and the request metrics outlive restarts. Each start recreates the parts
(parts.py). Tests' threads call start and stop without the cluster's lock; both wait for the controller if
there is one. Several threads can call them at once: each waits until the previous call has ended (`_turn`),
and none starts a broker of a closed cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum
from functools import partial
from threading import get_ident

from pykafka2.broker.base.image import ClusterImage, ListenerAddress, TopicImage, address_text
from pykafka2.broker.handlers.services import Services
from pykafka2.broker.lifecycle import BrokerState
from pykafka2.broker.node import Node
from pykafka2.broker.parts import Parts
from pykafka2.broker.server.acceptor import Acceptor
from pykafka2.broker.server.request_metrics import RequestMetrics
from pykafka2.broker.server.threads import Part, pause, resume
from pykafka2.broker.shared import Shared
from pykafka2.clock import SeededEntropy
from pykafka2.errors import ConfigurationError, IllegalState
from pykafka2.network.transport import Listener

# Seconds that a start waits to be unfenced, and a stop to move leaderships.
START_TIMEOUT = 10.0
SHUTDOWN_TIMEOUT = 5.0
# Seconds that a stop with several flushing threads waits for the next log to be flushed. Then it flushes what
# is left with its own thread.
FLUSH_TIMEOUT = 10.0
# Seconds after which a waiting thread checks its turn again even without a notification.
TURN_INTERVAL = 1.0
NO_THREAD = -1


class Loss(Enum):
    """Records that a crash loses."""

    NOTHING = "nothing"
    UNREPLICATED = "records above the high watermark"
    UNFLUSHED = "records after the recovery point"


class Broker(Node):
    """A broker of a `KafkaCluster`. The controls start and stop it, from the test's thread."""

    def __init__(
        self,
        shared: Shared,
        broker_id: int,
        listeners: Sequence[ListenerAddress],
        rack: str | None,
        services_of: Callable[[int], Services],
    ) -> None:
        made = {"node.id": broker_id, "broker.id": broker_id, "broker.rack": rack}
        super().__init__(
            broker_id,
            listeners,
            shared.config.of_broker(made),
            lock=shared.lock,
            clock=shared.runtime.clock,
            events=shared.events,
            problems=shared.problems,
            image=shared.controllers.image,
            release=shared.release,
        )
        self.logs = shared.storages.new(broker_id, self.config)
        self.metrics = RequestMetrics()
        self._shared = shared
        self._entropy = SeededEntropy(f"broker-{shared.seed}-{broker_id}")  # continues after a restart
        self._services_of = services_of
        self._acceptors: list[Acceptor] = []
        self._waiting_to_open: list[Acceptor] = []  # opened with the first metadata
        self._turn_of = NO_THREAD  # the thread that starts or stops the broker
        self._waiting = 0  # threads that wait for their turn
        self._ending = 0  # threads among them that stop the broker unconditionally
        self._is_over = False
        self._use(self._new_parts())

    def __repr__(self) -> str:
        return f"<broker {self.id} at {self.address}, {'running' if self.is_running else 'stopped'}>"

    def _new_parts(self) -> Parts:
        return Parts(self._shared, self, self.logs, self.metrics, self._entropy, self._services_of)

    def _use(self, parts: Parts) -> None:
        self.parts = parts
        """The parts of the last start; before the first start they do not run."""
        self.replicas = parts.replicas
        """The replicas that it hosts."""
        self.fetchers = parts.fetchers
        """Its fetchers, which copy from leaders."""
        self.coordinators = parts.coordinators
        """Its group and transaction coordinators."""
        self.controller_node = parts.controller_node
        """Its controller node, which is active on at most one broker."""
        self.channel = parts.channel
        """Its channel to the controller."""
        self.lifecycle = parts.lifecycle
        """Its registration and heartbeats."""
        self.requests = parts.requests
        """Its request handling."""
        self.services = parts.services
        """The API that its handlers can call."""
        self.processors = parts.processors
        """The processors of its client connections."""

    # ------------------------------------------------------------------ called by controllers and controls

    def apply(self, image: ClusterImage, changed: Mapping[str, TopicImage | None]) -> None:
        """Apply a new image, with the topics that changed.

        Under the lock, from the thread that made the change.
        """
        self.parts.apply(image, changed)
        self._metadata_came()

    def controller_changed(self, now: float) -> None:
        """Handle a new controller: requests to the old one without a response are sent again."""
        self.parts.channel.controller_changed(now)

    # ------------------------------------------------------------------ start and stop

    @contextmanager
    def _turn(self, *, ends: bool = False) -> Iterator[None]:
        """Serialize starts and stop; within its turn, the same thread can start another one.

        With `ends`, a start or controlled shutdown in progress no longer waits for the controller.

        Wait via the runtime instead of a lock: in the simulation, a thread that holds a lock while it waits
        would stop the world.
        """
        me = get_ident()
        is_outer = self._turn_of != me
        try:
            while self._turn_of != me:
                self._wait_for_turn(me, ends)
            yield
        finally:
            if is_outer and self._turn_of == me:
                self._turn_of = NO_THREAD
                if self._waiting:
                    self._shared.runtime.notify()

    def _wait_for_turn(self, me: int, ends: bool) -> None:
        with self.lock:
            if self._turn_of == NO_THREAD:
                self._turn_of = me
                return
            self._waiting += 1
            self._ending += ends
        try:
            self._shared.runtime.notify()
            self._shared.runtime.wait_until(lambda: self._turn_of == NO_THREAD, TURN_INTERVAL)
        finally:
            with self.lock:
                self._waiting -= 1
                self._ending -= ends

    def restart(self) -> None:
        """Stop by a controlled shutdown if it is running, and start."""
        with self._turn():
            self.stop(crash=False)
            self.start()

    def start(self, *, waits: bool = True) -> None:
        """Start listening, register with the controller, and take its roles.

        Without a reachable controller it starts as well, and registers as soon as there is one.
        """
        with self._turn():
            self.begin_start()
            if not waits:
                return
            try:
                self.finish_start()
            except ConfigurationError:
                self.stop(crash=True)
                raise

    def begin_start(self) -> None:
        """Start up to the first request to the controller."""
        with self._turn():
            self._begin_start()

    def _begin_start(self) -> None:
        shared = self._shared
        if self._is_over:
            raise IllegalState(f"broker {self.id} cannot start: its cluster is closed")
        if self.is_running:
            raise IllegalState(f"broker {self.id} is running")
        self.logs.start()
        try:
            parts = self._new_parts()
            self._use(parts)
            self._acceptors = self._listen(parts)
        except BaseException:
            self.logs.stop(is_clean=True, broker_epoch=self.epoch)
            raise
        self.config.set_made(
            {
                "listeners": ",".join(
                    f"{one.name}://{address_text(one.host, one.port)}" for one in self.listeners
                ),
                "advertised.listeners": ",".join(
                    f"{one.name}://{address_text(*one.advertised)}" for one in self.listeners
                ),
                **_protocol_map(self.listeners),
            }
        )
        shared.loops.add_all([*parts.processors, *parts.loop_parts(), *self._acceptors])
        with self.lock:
            now = self.clock.monotonic()
            self.is_running, self.is_paused = True, False
            self.events.note(now, "broker", f"broker {self.id} started", broker=self.id, state="started")
            shared.links.connect(self.id, parts.queue)
            shared.controllers.broker_started(self.id, now)
            parts.lifecycle.begin(now)

    def _listen(self, parts: Parts) -> list[Acceptor]:
        """Bind all addresses, or none. Raise `ConfigurationError` if one cannot be bound."""
        listening: list[Listener] = []
        try:
            for address in self.listeners:
                security = self._shared.listeners.get(address.name)
                tls = None if security is None else security.tls
                listening.append(self._shared.runtime.network.listen(address.host, address.port, tls=tls))
        except BaseException:
            for listener in listening:
                listener.close()
            raise
        acceptors = []
        for address, endpoint, listener in zip(self.listeners, parts.endpoints, listening, strict=True):
            address.port = listener.port
            acceptors.append(Acceptor(endpoint, listener, parts.processors, parts.quotas))
        return acceptors

    def finish_start(self) -> None:
        """Wait until the controller unfences the broker, then accept clients.

        A broker without metadata accepts no clients, because it knows neither the cluster's ACLs nor its
        users. If the wait ends before the first metadata, its listeners open when that arrives (as in Kafka,
        whose acceptors start after the first metadata and the authorizer).

        Raise `ConfigurationError` if all data directories have failed meanwhile.
        """
        shared, lifecycle = self._shared, self.parts.lifecycle
        if self._reaches_controller() and not shared.controllers.publisher.is_held(self.id):
            not_yet = (BrokerState.STARTING, BrokerState.RECOVERY)
            shared.runtime.wait_until(
                lambda: (
                    lifecycle.state not in not_yet
                    or self._ending > 0
                    or shared.loops.has_failed
                    or self.logs.is_offline
                ),
                START_TIMEOUT,
            )
        with self.lock:
            self.logs.check_online()
            opens_now = self._has_metadata()
            self._waiting_to_open = [] if opens_now else list(self._acceptors)
        if opens_now:
            for acceptor in self._acceptors:
                shared.loops.call(acceptor, acceptor.open)

    def _metadata_came(self) -> None:
        """Handle a new image. Under the lock."""
        if self._waiting_to_open and self._has_metadata():
            for acceptor in self._waiting_to_open:
                acceptor.open_soon()
            self._waiting_to_open = []

    def _has_metadata(self) -> bool:
        return self.image.version >= 0

    def stop(
        self,
        *,
        crash: bool,
        loss: Loss = Loss.NOTHING,
        is_cluster_closing: bool = False,
        is_unnoticed: bool = False,
    ) -> None:
        """Stop by a controlled shutdown (leaders move first), or like a crash (connections are reset).

        Can be called repeatedly.

        `loss` is what a crash loses.
        `is_unnoticed`: the controller detects it only when the broker's session expires.
        `is_cluster_closing`: no start follows.
        """
        with self._turn(ends=crash or is_cluster_closing):
            self._is_over = self._is_over or is_cluster_closing
            if self.is_running:
                self._stop(crash, loss, is_cluster_closing, is_unnoticed)
            if not crash:
                self._flush()
            with self.lock:
                self.logs.stop(is_clean=not crash, broker_epoch=self.epoch)

    def shut_down(self) -> None:
        """Stop with the cluster: like `stop`, but without electing new leaders."""
        self.stop(crash=False, is_cluster_closing=True)

    def _stop(self, crash: bool, loss: Loss, is_cluster_closing: bool, is_unnoticed: bool) -> None:
        shared, parts = self._shared, self.parts
        if not crash and not is_cluster_closing:
            self._shut_down()
        with self.lock:
            self.is_running = self.is_paused = False
            self._waiting_to_open = []
            word = "crashed" if crash else "stopped"
            now = self.clock.monotonic()
            self.events.note(now, "broker", f"broker {self.id} {word}", broker=self.id, state=word)
            self._leave(now)
            if loss is Loss.UNREPLICATED:
                self.logs.lose_unreplicated()
            elif loss is Loss.UNFLUSHED:
                self.logs.lose_unflushed()
        ends: dict[Part, Callable[[], object] | None] = {}
        for acceptor in self._acceptors:
            ends[acceptor] = acceptor.close
        for processor in parts.processors:
            ends[processor] = partial(processor.close_all, reset=crash)
        shared.loops.remove_all({**ends, **dict.fromkeys(parts.loop_parts())})
        if not is_cluster_closing and not is_unnoticed:
            with self.lock:
                shared.controllers.broker_stopped(self.id, self.clock.monotonic())

    def _flush(self) -> None:
        """Flush the logs with several threads, so that the storage has nothing to flush when it stops."""
        runtime, logs = self._shared.runtime, self.logs
        with self.lock:
            logs.begin_flush(runtime.notify)
        remaining = logs.logs_to_flush
        while remaining and runtime.wait_until(partial(self._has_flushed_more, remaining), FLUSH_TIMEOUT):
            remaining = logs.logs_to_flush

    def _has_flushed_more(self, remaining: int) -> bool:
        return self.logs.logs_to_flush < remaining

    def _leave(self, now: float) -> None:
        """Give up every role and drop everything that waits. Under the lock."""
        shared, parts, broker_id = self._shared, self.parts, self.id
        parts.channel.close()
        parts.inter_broker.close()
        parts.controller_node.resign()
        parts.controller_node.events.drop()
        shared.controllers.publisher.forget(broker_id)
        shared.links.disconnect(broker_id, now)
        shared.faults.forget(broker_id)
        parts.fetchers.stop()
        parts.replicas.produces.discard_all()
        parts.replicas.fetches.discard_all()
        parts.replicas.deletes.discard_all()
        parts.queue.clear()

    def _shut_down(self) -> None:
        """Have the controller move the leaderships first, if one responds."""
        shared, lifecycle = self._shared, self.lifecycle
        orderly = self.config.get("controlled.shutdown.enable")
        if not orderly or self.is_paused or not self._reaches_controller():
            return
        with self.lock:
            lifecycle.begin_shutdown(self.clock.monotonic())
        shared.runtime.wait_until(
            lambda: (
                lifecycle.state is not BrokerState.PENDING_CONTROLLED_SHUTDOWN
                or self._ending > 0
                or shared.loops.has_failed
            ),
            SHUTDOWN_TIMEOUT,
        )
        with self.lock:
            self.parts.replicas.complete_delayed(self.clock.monotonic())

    def _reaches_controller(self) -> bool:
        with self.lock:
            return self._shared.controllers.reaches(self.id)

    def pause(self) -> None:
        """Pause like a suspended process: connections stay open, nothing is sent or fetched.

        Under the lock.
        """
        if self.is_running and not self.is_paused:
            self.is_paused = True
            self._shared.links.pause(self.id)
            pause(self.parts.loop_parts())

    def resume(self) -> None:
        """Resume after a pause. Under the lock."""
        if self.is_running and self.is_paused:
            self.is_paused = False
            self._shared.links.resume(self.id)
            now = self.clock.monotonic()
            self.parts.controller_node.restart_sessions(now)
            self.parts.lifecycle.heartbeat_now(now)
            resume(self.parts.loop_parts())


def _protocol_map(listeners: Sequence[ListenerAddress]) -> Mapping[str, object]:
    """Return listener.security.protocol.map, or nothing if all listeners are named after their protocols."""
    if all(listener.name == listener.protocol for listener in listeners):
        return {}
    return {
        "listener.security.protocol.map": ",".join(
            f"{listener.name}:{listener.protocol}" for listener in listeners
        )
    }
