"""One broker: its parts, its image of the cluster, and what it does with a request.

The path of a request: acceptor -> processor (decodes) -> request channel -> handler (`handle`, under the
cluster's lock, see broker_requests.py) -> the API's function -> reply -> the same processor.  The broker
object outlives crashes and restarts (broker_process.py); its parts are made anew with each start, its logs
are not.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from pykafka2.broker.base.image import ALL_BROKERS, BROKER_RESOURCE, ClusterImage, TopicImage
from pykafka2.broker.base.timing_wheel import TimingWheel
from pykafka2.broker.controller import Controller, NewTopic
from pykafka2.broker.controller.node import ControllerNode
from pykafka2.broker.controller_channel import ControllerChannel
from pykafka2.broker.coordinators.hosting import Coordinators
from pykafka2.broker.lifecycle import BrokerLifecycle
from pykafka2.broker.log.log_dir import LogDir
from pykafka2.broker.process import BrokerProcess
from pykafka2.broker.producer_ids import ProducerIds
from pykafka2.broker.replication.follower_fetcher import FollowerFetchers
from pykafka2.broker.replication.replica import Key
from pykafka2.broker.replication.replica_manager import ReplicaManager
from pykafka2.broker.requests import BrokerRequests
from pykafka2.broker.server.acceptor import Acceptor
from pykafka2.broker.server.connection_quotas import ConnectionQuotas
from pykafka2.broker.server.handler_pool import Handler
from pykafka2.broker.server.processor import Processor
from pykafka2.broker.server.request_channel import RequestChannel
from pykafka2.broker.server.request_metrics import RequestMetrics
from pykafka2.broker.server.threads import Part
from pykafka2.broker.timers import Chores, Completions
from pykafka2.clock import Clock, SeededEntropy
from pykafka2.errors import KafkaError, KafkaTimeoutError
from pykafka2.protocol.struct import Request, Response

if TYPE_CHECKING:
    from pykafka2.broker.coordinators.transactions.verifier import Verifier
    from pykafka2.testing.cluster import KafkaCluster

R = TypeVar("R", bound=Response)

logger = logging.getLogger(__name__)


class Broker(BrokerRequests, BrokerProcess):
    """A broker of a `KafkaCluster`.  The controls start and stop it, from the test's thread."""

    def __init__(self, cluster: KafkaCluster, broker_id: int, port: int) -> None:
        self.id = broker_id
        self.host = cluster.host_of(broker_id)
        self.port = port
        self.config = cluster.config.of_broker(
            {"node.id": broker_id, "broker.id": broker_id, "broker.rack": cluster.rack_of(broker_id)}
        )
        self.lock = cluster.lock
        self.clock: Clock = cluster.runtime.clock
        self.rack: str | None = self.config.get("broker.rack") or None
        self.image: ClusterImage = cluster.controller.image
        self.logs = LogDir(self.config.text("log.dirs") or self.config.text("log.dir") or "")
        self.log_levels = {"root": "INFO"}
        self.metrics = RequestMetrics()
        self.events = cluster.events
        self.problems = cluster.problems
        self.is_running = False
        self.is_paused = False
        self.epoch = -1
        self._cluster = cluster
        self._entropy = SeededEntropy(f"broker-{cluster.seed}-{broker_id}")  # goes on after a restart
        self._prepare(self.clock.monotonic())

    def __repr__(self) -> str:
        return f"<broker {self.id} at {self.host}:{self.port}, {'running' if self.is_running else 'stopped'}>"

    @property
    def address(self) -> str:
        """Host and port, as clients are told."""
        return f"{self.host}:{self.port}"

    @property
    def _listeners(self) -> str:
        return f"{'PLAINTEXT' if self._cluster.tls is None else 'SSL'}://{self.address}"

    def _prepare(self, now: float) -> None:
        """Everything that does not outlive a restart."""
        controllers = self._cluster.controller
        self.image = controllers.image.nothing_known()
        self.wheel = TimingWheel(now, on_problem=self.problems.note)
        self.channel = ControllerChannel(self, self._cluster.links, controllers)
        self.lifecycle = BrokerLifecycle(self, controllers, self._entropy.token_bytes(16))
        self.controller_node = ControllerNode(self, controllers)
        self.producer_ids = ProducerIds(self)
        self.replicas = ReplicaManager(self.id, self.config, self.logs, self.wheel, self.image, self._entropy)
        self.replicas.isrs.send = self.channel.send
        self.coordinators = Coordinators(self, self._new_id)
        self.replicas.on_moved = self.coordinators.on_moved
        self.fetchers = FollowerFetchers(
            self.id, self.config, self._cluster.links, self.lock, self._on_follower_moved
        )
        self.fetchers.metrics = self.metrics
        self.replicas.on_follow = self.fetchers.follow
        self.replicas.on_stop_following = self.fetchers.unfollow
        self.replicas.on_log_start_moved = self.fetchers.log_start_moved
        self._requests = RequestChannel(
            self.config.int("queued.max.requests"), self.config.int("queued.max.request.bytes")
        )
        self.quotas = ConnectionQuotas(self.config)
        self._verifier: Verifier | None = None
        self._chores = Chores(self)
        self.processors = [
            Processor(
                f"processor-{self.id}-{number}",
                self._requests,
                self.config,
                self._on_request,
                self._on_gone,
                self._on_left,
                self.quotas,
                self._on_refused,
            )
            for number in range(self.config.int("num.network.threads"))
        ]
        self._handlers = [
            Handler(f"handler-{self.id}-{number}", self._requests, self.handle, self._after)
            for number in range(self.config.int("num.io.threads"))
        ]
        # On a thread of its own it would only come later, so there the handlers do its work.
        self._completions = None if self.config.get("threads") == "separate" else Completions(self)
        self._requests.connect(tuple(self._handlers))
        self._acceptor: Acceptor | None = None

    def _helpers(self) -> tuple[Part, ...]:
        helpers = (self.fetchers, self._chores)
        return helpers if self._completions is None else (*helpers, self._completions)

    # ------------------------------------------------------------------ the controller

    @property
    def controller(self) -> Controller:
        """The active controller, for handlers that run `by_controller`; `NotController` where it is not."""
        return self.controller_node.require()

    def create_topic(self, new: NewTopic) -> None:
        """Have the controller create a topic that a client needs; raises why it cannot be, or not now."""
        self._cluster.controller.change_now(
            self.id, f"create topic {new.name}", lambda active: active.create_topic(new)
        )

    def other(self, broker_id: int) -> Broker:
        """Another broker of the cluster: for what it would have done before it forwarded a request to us."""
        return self._cluster.broker(broker_id)

    def registered(self, epoch: int) -> None:
        """The controller has given us a broker epoch."""
        self.epoch = self.fetchers.broker_epoch = epoch

    def begins_to_serve(self, now: float) -> None:
        """The controller has unfenced us."""
        self.producer_ids.prefetch(now)
        self.notify()

    def catch_up(self, broker_id: int, now: float) -> None:
        """As the controller: see that a broker that was heard gets what it lacks of the metadata."""
        self._cluster.controller.publisher.catch_up(self.other(broker_id), now)

    def apply(self, image: ClusterImage, changed: Mapping[str, TopicImage | None]) -> None:
        """A new image, with the topics that changed.  Under the lock, from whichever thread made the
        change.
        """
        if self.image.version < 0:
            self.logs.remove_unknown(set(image.topic_names))  # deleted while we were down
        self.image = image
        self.controller_node.has_heard()
        now = self.clock.monotonic()
        if self._configure():
            changed = {**image.topics, **changed}
        self.replicas.apply(image, changed, now)
        self.coordinators.apply(image, changed, now)
        if self.replicas.has_moved or self.coordinators.due < self._chores.due:
            self._chores.signal()

    def ask(
        self,
        target: int,
        request: Request[R],
        version: int,
        on_response: Callable[[R, float], None],
        on_failure: Callable[[KafkaError, float], None],
        timeout: float,
        now: float,
    ) -> None:
        """Ask another broker, or ourselves, over its link.  One of the two is called once, unless we stop."""
        is_done = False

        def once(then: Callable[[Any, float], None]) -> Callable[[Any, float], None]:
            def end(outcome: Any, at: float) -> None:
                nonlocal is_done
                if not is_done:
                    is_done = True
                    self.wheel.cancel(timer)
                    then(outcome, at)
                    self.complete(at)

            return end

        fail = once(on_failure)
        late = KafkaTimeoutError(f"broker {target} did not answer within {timeout:g} seconds")
        timer = self.wheel.add(now + timeout, lambda at: fail(late, at))
        self._cluster.links.call(self.id, target, request, version, once(on_response), fail, now)

    @property
    def verifier(self) -> Verifier:
        """Asks transaction coordinators about batches that open a transaction."""
        if self._verifier is None:
            from pykafka2.broker.coordinators.transactions.verifier import Verifier

            self._verifier = Verifier(self)
        return self._verifier

    def expire_producers(self) -> None:
        """Forget producers that were not heard of for producer.id.expiration.ms (rule 35)."""
        self.replicas.expire_producers(self.clock.wall_ms() - self.config.int("producer.id.expiration.ms"))

    def _configure(self) -> bool:
        """Take over the dynamic configuration; True if it changed, and topics' defaults with it."""
        version = self.config.version
        own = self.image.configs_of(BROKER_RESOURCE, str(self.id))
        self.config.set_dynamic(own, self.image.configs_of(*ALL_BROKERS))
        if self.config.version == version:
            return False
        self.quotas.configure()
        self.replicas.configure()
        return True

    def next_producer_id(self) -> int:
        """From this broker's block; `CoordinatorLoadInProgress` while a new one is on its way."""
        return self.producer_ids.next(self.clock.monotonic())

    # ------------------------------------------------------------------ the rest

    def notify(self) -> None:
        """Wake test threads that wait for this broker."""
        self._cluster.runtime.notify()

    def wake_for_timers(self) -> None:
        """A timer was set or a deadline moved: have the chores look."""
        if min(self.wheel.next_deadline(), self.lifecycle.due, self.coordinators.due) < self._chores.due:
            self._chores.signal()

    def any_live_broker(self) -> int:
        """Whom answers name as the controller: any live broker, since each forwards what is the controller's
        (rule 69); -1 if none is known.
        """
        alive = self.image.live_brokers()
        return self._entropy.random.choice(alive).id if alive else -1

    def _new_id(self) -> str:
        """The random part of a member's id, as Java writes a UUID."""
        digits = self._entropy.token_bytes(16).hex()
        return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))

    def apply_retention(self, keys: Iterable[Key] | None = None) -> int:
        """Delete what retention lets go, of some replicas or all; how many segments went."""
        deleted = self.replicas.keeper.apply_retention(self.clock.wall_ms(), keys)
        if self.replicas.has_moved:
            self._chores.signal()
        return deleted

    def wake(self) -> None:
        """Have the broker look at its timers and coordinators now."""
        self._chores.signal()

    # ------------------------------------------------------------------ the end of a turn

    def _after(self, now: float) -> None:
        """The end of a handler's turn."""
        if self._completions is None:
            self.complete(now)
        else:
            self._completions.signal()

    def complete(self, now: float) -> None:
        """Complete what the requests handled so far have made possible."""
        with self.lock:
            if not self.is_running:
                return
            self.replicas.complete_delayed(now)
            self.coordinators.send_markers(now)
            if min(self.wheel.next_deadline(), self.coordinators.due) < self._chores.due:
                self._chores.signal()

    def _on_follower_moved(self, key: Key) -> None:
        """A high watermark moved on a partition that we follow: consumers may read it here."""
        self.replicas.moved(key)
        self._chores.signal()
