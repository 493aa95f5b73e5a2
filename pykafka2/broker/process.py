"""A broker as a process: it starts, stops, crashes, stands still and goes on.

Its parts are made anew with each start, its logs are not.  Start and stop are called from the test's thread,
without the cluster's lock, and wait for the controller where there is one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from pykafka2.broker.lifecycle import BrokerState
from pykafka2.broker.log.log_dir import LogDir
from pykafka2.broker.node import Node
from pykafka2.broker.parts import Parts
from pykafka2.broker.server.acceptor import Acceptor
from pykafka2.broker.server.threads import Part, pause, resume
from pykafka2.broker.shared import Shared
from pykafka2.errors import IllegalState

# How long a start waits to be let in, and a stop to lose its leaderships, in seconds.
START_TIMEOUT = 10.0
SHUTDOWN_TIMEOUT = 5.0


class BrokerProcess:
    """`start`, `stop`, `pause` and `resume` of a broker."""

    def __init__(self, shared: Shared, node: Node, logs: LogDir, make_parts: Callable[[], Parts]) -> None:
        self.parts = make_parts()
        """Those of the last start; before the first, parts that nobody runs."""
        self._shared = shared
        self._node = node
        self._logs = logs
        self._make_parts = make_parts
        self._acceptor: Acceptor | None = None

    def start(self, *, waits: bool = True) -> None:
        """Listen, register with the controller, take up the roles it gives.

        Without a controller in reach it starts all the same, and registers as soon as there is one.
        """
        self.begin_start()
        if waits:
            self.finish_start()

    def begin_start(self) -> None:
        """Everything up to the first word to the controller."""
        shared, node = self._shared, self._node
        if node.is_running:
            raise IllegalState(f"broker {node.id} is running")
        parts = self.parts = self._make_parts()
        listener = shared.runtime.network.listen(node.host, node.port, tls=shared.tls)
        node.port = listener.port
        listeners = f"{'PLAINTEXT' if shared.tls is None else 'SSL'}://{node.address}"
        node.config.set_made({"listeners": listeners, "advertised.listeners": listeners})
        self._acceptor = Acceptor(f"acceptor-{node.id}", listener, parts.processors, parts.quotas)
        shared.loops.add_all([*parts.processors, *parts.loop_parts(), self._acceptor])
        with node.lock:
            now = node.clock.monotonic()
            node.is_running, node.is_paused = True, False
            node.events.note(now, "broker", f"broker {node.id} started", broker=node.id, state="started")
            shared.links.connect(node.id, parts.queue)
            shared.controllers.broker_started(node.id, now)
            parts.lifecycle.begin(now)

    def finish_start(self) -> None:
        """Wait until the controller lets the broker serve, then let clients in."""
        shared, lifecycle = self._shared, self.parts.lifecycle
        if self._reaches_controller() and not shared.controllers.publisher.is_held(self._node.id):
            not_yet = (BrokerState.STARTING, BrokerState.RECOVERY)
            shared.runtime.wait_until(
                lambda: lifecycle.state not in not_yet or shared.loops.has_failed, START_TIMEOUT
            )
        acceptor = self._acceptor
        if acceptor is not None:
            shared.loops.call(acceptor, acceptor.open)

    def stop(
        self,
        *,
        crash: bool,
        lose_unreplicated: bool = False,
        is_cluster_closing: bool = False,
        is_unnoticed: bool = False,
    ) -> None:
        """Go away: in good order (leaders move first), or as by a crash (connections are reset).
        Repeatable.

        `is_unnoticed`: the controller learns of it only when the broker's session ends.
        """
        shared, node, parts = self._shared, self._node, self.parts
        if not node.is_running:
            return
        if not crash and not is_cluster_closing:
            self._shut_down()
        with node.lock:
            node.is_running = node.is_paused = False
            word = "crashed" if crash else "stopped"
            now = node.clock.monotonic()
            node.events.note(now, "broker", f"broker {node.id} {word}", broker=node.id, state=word)
            self._leave(now)
            if lose_unreplicated:
                self._logs.lose_unreplicated()
        ends: dict[Part, Callable[[], object] | None] = {}
        if self._acceptor is not None:
            ends[self._acceptor] = self._acceptor.close
        for processor in parts.processors:
            ends[processor] = partial(processor.close_all, reset=crash)
        shared.loops.remove_all({**ends, **dict.fromkeys(parts.loop_parts())})
        if not is_cluster_closing and not is_unnoticed:
            with node.lock:
                shared.controllers.broker_stopped(node.id, node.clock.monotonic())

    def _leave(self, now: float) -> None:
        """Under the lock: give up every role; nothing that waits is waited for any more."""
        shared, parts, broker_id = self._shared, self.parts, self._node.id
        parts.channel.close()
        parts.peers.close()
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
        """Have the controller move our leaderships first, if there is one that answers."""
        shared, node, lifecycle = self._shared, self._node, self.parts.lifecycle
        orderly = node.config.get("controlled.shutdown.enable")
        if not orderly or node.is_paused or not self._reaches_controller():
            return
        with node.lock:
            lifecycle.begin_shutdown(node.clock.monotonic())
        shared.runtime.wait_until(
            lambda: lifecycle.state is not BrokerState.PENDING_CONTROLLED_SHUTDOWN or shared.loops.has_failed,
            SHUTDOWN_TIMEOUT,
        )
        with node.lock:
            self.parts.replicas.complete_delayed(node.clock.monotonic())

    def _reaches_controller(self) -> bool:
        with self._node.lock:
            return self._shared.controllers.reaches(self._node.id)

    def pause(self) -> None:
        """Stand still as a stopped process does: connections stay open, nothing is answered, nothing
        fetched.  Under the lock.
        """
        node = self._node
        if node.is_running and not node.is_paused:
            node.is_paused = True
            self._shared.links.pause(node.id)
            pause(self.parts.loop_parts())

    def resume(self) -> None:
        """Go on where the pause began.  Under the lock."""
        node = self._node
        if node.is_running and node.is_paused:
            node.is_paused = False
            self._shared.links.resume(node.id)
            now = node.clock.monotonic()
            self.parts.controller_node.restart_sessions(now)
            self.parts.lifecycle.heartbeat_now(now)
            resume(self.parts.loop_parts())
