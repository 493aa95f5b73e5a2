"""A broker as a process: it starts, stops, crashes, stands still and goes on.  Part of `Broker` (broker.py).

Its parts are made anew with each start, its logs are not.  Start and stop are called from the test's thread,
without the cluster's lock, and wait for the controller where there is one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from pykafka2.broker.lifecycle import BrokerState
from pykafka2.broker.server.acceptor import Acceptor
from pykafka2.broker.server.threads import Part, pause, resume
from pykafka2.errors import IllegalState

if TYPE_CHECKING:
    from pykafka2.broker.config.configs import BrokerConfig
    from pykafka2.broker.controller.node import ControllerNode
    from pykafka2.broker.controller_channel import ControllerChannel
    from pykafka2.broker.lifecycle import BrokerLifecycle
    from pykafka2.broker.log.log_dir import LogDir
    from pykafka2.broker.observed.event_log import EventLog
    from pykafka2.broker.replication.follower_fetcher import FollowerFetchers
    from pykafka2.broker.replication.replica_manager import ReplicaManager
    from pykafka2.broker.server.connection_quotas import ConnectionQuotas
    from pykafka2.broker.server.handler_pool import Handler
    from pykafka2.broker.server.processor import Processor
    from pykafka2.broker.server.request_channel import RequestChannel
    from pykafka2.clock import Clock
    from pykafka2.testing.cluster import KafkaCluster

# How long a start waits to be let in, and a stop to lose its leaderships, in seconds.
START_TIMEOUT = 10.0
SHUTDOWN_TIMEOUT = 5.0


class BrokerProcess:
    """`start`, `stop`, `pause` and `resume` of a broker."""

    id: int
    host: str
    port: int
    lock: Any
    clock: Clock
    config: BrokerConfig
    events: EventLog
    logs: LogDir
    is_running: bool
    is_paused: bool
    replicas: ReplicaManager
    fetchers: FollowerFetchers
    channel: ControllerChannel
    lifecycle: BrokerLifecycle
    controller_node: ControllerNode
    quotas: ConnectionQuotas
    processors: list[Processor]
    _cluster: KafkaCluster
    _requests: RequestChannel
    _handlers: list[Handler]
    _acceptor: Acceptor | None

    def _prepare(self, now: float) -> None:
        """Make all parts anew."""
        raise NotImplementedError

    def _helpers(self) -> tuple[Part, ...]:
        raise NotImplementedError

    @property
    def _listeners(self) -> str:
        raise NotImplementedError

    def start(self, *, waits: bool = True) -> None:
        """Listen, register with the controller, take up the roles it gives.

        Without a controller in reach it starts all the same, and registers as soon as there is one.
        """
        self.begin_start()
        if waits:
            self.finish_start()

    def begin_start(self) -> None:
        """Everything up to the first word to the controller."""
        if self.is_running:
            raise IllegalState(f"broker {self.id} is running")
        cluster = self._cluster
        self._prepare(self.clock.monotonic())
        listener = cluster.runtime.network.listen(self.host, self.port, tls=cluster.tls)
        self.port = listener.port
        self.config.set_made({"listeners": self._listeners, "advertised.listeners": self._listeners})
        self._acceptor = Acceptor(f"acceptor-{self.id}", listener, self.processors, self.quotas)
        cluster.loops.add_all([*self.processors, *self._own_parts(), self._acceptor])
        with self.lock:
            now = self.clock.monotonic()
            self.is_running, self.is_paused = True, False
            self.events.note(now, "broker", f"broker {self.id} started", broker=self.id, state="started")
            cluster.links.connect(self.id, self._requests)
            cluster.controller.is_back(self.id, now)
            self.lifecycle.begin(now)

    def finish_start(self) -> None:
        """Wait until the controller lets the broker serve, then let clients in."""
        cluster = self._cluster
        if self._reaches_controller() and not cluster.controller.publisher.is_held(self.id):
            not_yet = (BrokerState.STARTING, BrokerState.RECOVERY)
            cluster.runtime.wait_until(
                lambda: self.lifecycle.state not in not_yet or cluster.loops.has_failed, START_TIMEOUT
            )
        acceptor = self._acceptor
        if acceptor is not None:
            cluster.loops.call(acceptor, acceptor.open)

    def stop(
        self,
        *,
        crash: bool,
        lose_unreplicated: bool = False,
        is_last_act: bool = False,
        is_unnoticed: bool = False,
    ) -> None:
        """Go away: in good order (leaders move first), or as by a crash (connections are reset).
        Repeatable.

        `is_unnoticed`: the controller learns of it only when the broker's session ends.
        """
        if not self.is_running:
            return
        if not crash and not is_last_act:
            self._shut_down()
        with self.lock:
            self.is_running = self.is_paused = False
            word = "crashed" if crash else "stopped"
            now = self.clock.monotonic()
            self.events.note(now, "broker", f"broker {self.id} {word}", broker=self.id, state=word)
            self.channel.close()
            self.controller_node.resign()
            self.controller_node.events.drop()
            self._cluster.controller.publisher.forget(self.id)
            self._cluster.links.disconnect(self.id, self.clock.monotonic())
            self._cluster.faults.forget(self._cluster.broker(self.id))
            self.fetchers.stop()
            self.replicas.produces.discard_all()
            self.replicas.fetches.discard_all()
            self.replicas.deletes.discard_all()
            self._requests.clear()
            if lose_unreplicated:
                self.logs.lose_unreplicated()
        ends: dict[Part, Callable[[], object] | None] = {}
        if self._acceptor is not None:
            ends[self._acceptor] = self._acceptor.close
        for processor in self.processors:
            ends[processor] = partial(processor.close_all, reset=crash)
        self._cluster.loops.remove_all({**ends, **dict.fromkeys(self._own_parts())})
        if not is_last_act and not is_unnoticed:
            with self.lock:
                self._cluster.controller.is_gone(self.id, self.clock.monotonic())

    def _shut_down(self) -> None:
        """Have the controller move our leaderships first, if there is one that answers."""
        orderly = self.config.get("controlled.shutdown.enable")
        if not orderly or self.is_paused or not self._reaches_controller():
            return
        with self.lock:
            now = self.clock.monotonic()
            self.lifecycle.begin_shutdown(now)
        self._cluster.runtime.wait_until(
            lambda: (
                self.lifecycle.state is not BrokerState.PENDING_CONTROLLED_SHUTDOWN
                or self._cluster.loops.has_failed
            ),
            SHUTDOWN_TIMEOUT,
        )
        with self.lock:
            self.replicas.complete_delayed(self.clock.monotonic())

    def _reaches_controller(self) -> bool:
        with self.lock:
            return self._cluster.controller.reaches(self.id)

    def _own_parts(self) -> list[Part]:
        """What stands still while the broker is paused."""
        return [*self._handlers, *self._helpers(), self.controller_node]

    def pause(self) -> None:
        """Stand still as a stopped process does: connections stay open, nothing is answered, nothing
        fetched.  Under the lock.
        """
        if self.is_running and not self.is_paused:
            self.is_paused = True
            self._cluster.links.pause(self.id)
            pause(self._own_parts())

    def resume(self) -> None:
        """Go on where the pause began.  Under the lock."""
        if self.is_running and self.is_paused:
            self.is_paused = False
            self._cluster.links.resume(self.id)
            now = self.clock.monotonic()
            self.controller_node.has_slept(now)
            self.lifecycle.hurry(now)
            resume(self._own_parts())

    def shut(self) -> None:
        """The cluster ends: as a stop, but nobody needs new leaders any more."""
        self.stop(crash=False, is_last_act=True)
