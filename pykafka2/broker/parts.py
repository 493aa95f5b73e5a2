"""The parts of a broker that each start recreates, and the security of its listeners.

A request passes: acceptor -> processor (decodes) -> request channel -> handler (requests.py, under the
cluster's lock) -> the API's function -> response -> the same processor. `Parts` connects these with replicas,
coordinators and the controller channel, applies new metadata images, and completes waiting requests.

Created with each start. SCRAM users are looked up in the broker's current metadata.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from pykafka2.broker.base.image import (
    ALL_BROKERS,
    BROKER_RESOURCE,
    ClusterImage,
    Key,
    ListenerAddress,
    TopicImage,
)
from pykafka2.broker.controller_channel import ControllerChannel, ProducerIds
from pykafka2.broker.coordinators.coordinators import Coordinators
from pykafka2.broker.coordinators.inter_broker import InterBrokerSender
from pykafka2.broker.handlers.api import APIS, ClientApis
from pykafka2.broker.handlers.authorization import Gate
from pykafka2.broker.handlers.services import Services
from pykafka2.broker.lifecycle import BrokerLifecycle
from pykafka2.broker.log.storage import LogStorage
from pykafka2.broker.node import Node
from pykafka2.broker.quotas.client_quotas import ClientQuotas, connection_rates
from pykafka2.broker.replication.follower_fetcher import FollowerFetchers
from pykafka2.broker.replication.replica_manager import ReplicaManager
from pykafka2.broker.requests import BrokerRequests, Forwarder
from pykafka2.broker.security.authentication import Credentials, SaslListener
from pykafka2.broker.security.listeners import ListenerEndpoint, ListenerSecurity
from pykafka2.broker.security.principal_mapping import PrincipalMapping
from pykafka2.broker.security.scram import ScramMechanism, ScramUser
from pykafka2.broker.server.connection_quotas import ConnectionQuotas
from pykafka2.broker.server.processor import Processor
from pykafka2.broker.server.request_channel import Handler, RequestChannel
from pykafka2.broker.server.request_metrics import RequestMetrics
from pykafka2.broker.server.responses import Responses
from pykafka2.broker.server.threads import Part
from pykafka2.broker.shared import Shared
from pykafka2.broker.timers import BrokerTimers
from pykafka2.clock import FOREVER, Entropy

if TYPE_CHECKING:
    from pykafka2.broker.client_metrics import ClientMetricsManager
    from pykafka2.broker.log.partition_log import PartitionLog
    from pykafka2.broker.share.manager import SharePartitionManager
    from pykafka2.broker.share.persister import Persister

NONCE_BYTES = 24
NO_SECURITY = ListenerSecurity()


class ListenerEndpoints:
    """Creates the `ListenerEndpoint` of each listener. User lookups need the cluster's lock."""

    def __init__(
        self,
        node: Node,
        listeners: Mapping[str, ListenerSecurity],
        credentials: Credentials,
        entropy: Entropy,
    ) -> None:
        self._node = node
        self._listeners = listeners
        self._credentials = credentials
        self._entropy = entropy

    def of(self, address: ListenerAddress) -> ListenerEndpoint:
        """Return the endpoint of a listener."""
        node = self._node
        security = self._listeners.get(address.name, NO_SECURITY)
        is_first = address is node.listeners[0]
        mapping = None
        if address.protocol == "SSL" and security.asks_for_certificate:
            mapping = PrincipalMapping(node.config.get("ssl.principal.mapping.rules"))
        return ListenerEndpoint(
            address.name,
            f"acceptor-{node.id}" if is_first else f"acceptor-{node.id}-{address.name}",
            self._sasl(security) if address.protocol.startswith("SASL_") else None,
            mapping,
            address.protocol,
        )

    def _sasl(self, security: ListenerSecurity) -> SaslListener:
        config = self._node.config
        mechanisms, max_reauth_ms = security.mechanisms, security.max_reauth_ms
        return SaslListener(
            self._credentials,
            tuple(config.get("sasl.enabled.mechanisms")) if mechanisms is None else mechanisms,
            self._scram_user,
            lambda: base64.b64encode(self._entropy.token_bytes(NONCE_BYTES)).decode(),
            self._node.clock.wall_ms,
            config.int("connections.max.reauth.ms") if max_reauth_ms is None else max_reauth_ms,
            config.int("sasl.server.max.receive.size"),
        )

    def _scram_user(self, kind: ScramMechanism, name: str, is_token: bool) -> ScramUser | None:
        if is_token:
            token = self._node.image.tokens.get(name)
            return None if token is None else token.scram_user(kind, self._node.clock.wall_ms())
        credential = self._node.image.scram_users.get(name, {}).get(kind)
        return None if credential is None else ScramUser(name, credential)


class Completions(Part):
    """Completes operations that the requests handled so far allow, once no more requests are available.

    A follower's waiting fetch then returns all batches of one socket read instead of the first one, and a
    hundred appends are checked at once.
    """

    runs_last = True

    def __init__(self, broker_id: int, complete: Callable[[float], object]) -> None:
        super().__init__(f"completions-{broker_id}")
        self._complete = complete

    def run(self, now: float) -> float:
        self._complete(now)
        return FOREVER


class Parts:
    """All parts of a running broker. Recreated with each start."""

    def __init__(
        self,
        shared: Shared,
        node: Node,
        logs: LogStorage,
        metrics: RequestMetrics,
        entropy: Entropy,
        services_of: Callable[[int], Services],
    ) -> None:
        controllers = shared.controllers
        node.reset(controllers.image.without_metadata())
        self._shared = shared
        self._node = node
        self._logs = logs
        self._entropy = entropy
        self._share_persister: Persister | None = None
        self._metrics_manager: ClientMetricsManager | None = None
        self.shares_or_none: SharePartitionManager | None = None
        """The share partitions that it leads; None until the first request for one."""
        self._make_roles(metrics)
        self._make_requests(metrics, services_of)
        self._make_connections()
        # On its own thread it would only run later, so the handlers complete requests there.
        on_threads = node.config.get("threads") == "separate"
        self._completions = None if on_threads else Completions(node.id, self.complete)

    def _make_roles(self, metrics: RequestMetrics) -> None:
        """Create the roles of the broker: follower, leader, coordinator, and possibly controller."""
        shared, node = self._shared, self._node
        controllers = shared.controllers
        self.channel = ControllerChannel(node, shared.links, controllers, self.wake_for_timers)
        self.lifecycle = BrokerLifecycle(
            node, controllers, self.channel, self, self._entropy.token_bytes(16), self._logs
        )
        self.controller_node = controllers.new_node(node)
        self.producer_ids = ProducerIds(node, self.channel)
        self.fetchers = FollowerFetchers(
            node.id, node.config, shared.links, node.lock, metrics, self._on_follower_moved
        )
        self.replicas = ReplicaManager(
            node.id,
            node.config,
            self._logs,
            node.wheel,
            node.image,
            self._entropy,
            self.fetchers,
            self.channel.send,
            self._on_replica_moved,
        )
        self.inter_broker = InterBrokerSender(node, shared.links, self.complete)
        self.coordinators = Coordinators(
            node,
            self.replicas,
            self.inter_broker,
            new_id=self._new_id,
            next_producer_id=self._next_producer_id,
            share_persister=self._persister,
        )
        self.timers = BrokerTimers(node, self._logs, self.lifecycle, self.replicas, self.coordinators)
        self._logs.watch(self.timers.storage_changed)

    def _make_requests(self, metrics: RequestMetrics, services_of: Callable[[int], Services]) -> None:
        """Create the request handling."""
        node, config = self._node, self._node.config
        self.queue = RequestChannel(config.int("queued.max.requests"), config.int("queued.max.request.bytes"))
        self.client_quotas = ClientQuotas(config)
        self.services = Services(
            node,
            logs=self._logs,
            replicas=self.replicas,
            coordinators=self.coordinators,
            controllers=self._shared.controllers,
            controller_node=self.controller_node,
            responses=Responses(node.id, APIS, node.problems),
            metadata_cache=self._shared.metadata_cache,
            quotas=self.client_quotas,
            entropy=self._entropy,
            next_producer_id=self._next_producer_id,
            services_of=services_of,
            queue=self.queue.put,
            persister=self._persister,
            shares=self._shares,
            client_metrics=self._client_metrics,
            gate=self._gate(),
        )
        self.requests = BrokerRequests(
            self._shared, self.services, metrics, self.queue, Forwarder(self.services, self.channel)
        )
        self.handlers = [
            Handler(f"handler-{node.id}-{number}", self.queue, self.requests.handle, self._end_of_turn)
            for number in range(config.int("num.io.threads"))
        ]
        self.queue.connect(tuple(self.handlers))

    def _persister(self) -> Persister:
        """Return the client of the share coordinator; the first call imports and creates it."""
        if self._share_persister is None:
            from pykafka2.broker.share.persister import Persister

            self._share_persister = Persister(self._node, self.inter_broker, self.services.create_topic)
        return self._share_persister

    def _shares(self) -> SharePartitionManager:
        """Return the share partitions that this broker leads; the first call imports and creates them."""
        if self.shares_or_none is None:
            from pykafka2.broker.handlers.offsets import first_at
            from pykafka2.broker.share.dead_letters import DeadLetterQueue
            from pykafka2.broker.share.manager import SharePartitionManager
            from pykafka2.broker.share.options import ShareOptions
            from pykafka2.compression.steps import finish

            def offset_at(log: PartitionLog, timestamp: int) -> int:
                return finish(first_at(log, timestamp)).offset

            options = ShareOptions(self._node)
            dead_letters = DeadLetterQueue(
                self._node, self.replicas, self.inter_broker, self.services.create_topic, options
            )
            self.shares_or_none = SharePartitionManager(
                self._node, self.replicas, options, self._persister(), dead_letters.send, offset_at
            )
        return self.shares_or_none

    def _client_metrics(self) -> ClientMetricsManager:
        """Return the telemetry of clients; the first call imports and creates it."""
        if self._metrics_manager is None:
            from pykafka2.broker.client_metrics import ClientMetricsManager

            self._metrics_manager = ClientMetricsManager(self._node, self._entropy, self._shared.pushes)
        return self._metrics_manager

    def _gate(self) -> Gate | None:
        """Create the authorization gate, if an authorizer is configured."""
        node = self._node
        if not node.config.text("authorizer.class.name"):
            return None
        matches_networks = node.release.is_since("4.4")
        return Gate(node.id, node.config, node.clock, node.events, matches_networks=matches_networks)

    def _make_connections(self) -> None:
        """Create connections and their processors."""
        node, requests = self._node, self.requests
        apis = ClientApis(node.release, has_telemetry=node.has_telemetry)
        self.quotas = ConnectionQuotas(node.config)
        endpoints = ListenerEndpoints(
            node, self._shared.listeners, self._shared.credentials, self._shared.runtime.entropy
        )
        self.endpoints = [endpoints.of(address) for address in node.listeners]
        self.processors = [
            Processor(
                f"processor-{node.id}-{number}",
                self.queue,
                node.config,
                apis,
                requests.on_request,
                requests.on_disconnected,
                requests.on_sent,
                self.quotas,
                requests.on_refused,
            )
            for number in range(node.config.int("num.network.threads"))
        ]

    def loop_parts(self) -> list[Part]:
        """Return the parts that are paused with the broker."""
        completions = [] if self._completions is None else [self._completions]
        return [*self.handlers, self.fetchers, self.timers, *completions, self.controller_node]

    # ------------------------------------------------------------------ a new image

    def apply(self, image: ClusterImage, changed: Mapping[str, TopicImage | None]) -> None:
        """Apply a new image, with the topics that changed.

        Under the lock, from the thread that made the change.
        """
        node = self._node
        is_first = node.image.version < 0
        if is_first:
            self._logs.remove_unknown(set(image.topic_names))  # deleted while this broker was down
        node.image = image
        self.controller_node.resign_if_replaced()
        now = node.clock.monotonic()
        if self.client_quotas.apply(image.quotas):
            self.quotas.set_address_rates(connection_rates(image.quotas))
        if self._configure():
            changed = {**image.topics, **changed}
        self.replicas.apply(image, changed, now)
        if is_first:
            self.timers.expire_producers()  # those that became inactive while this broker was down
        self.coordinators.apply(image, changed, now)
        if self.shares_or_none is not None:
            self.shares_or_none.apply(image, changed, now)
        if self.replicas.has_moved or self.coordinators.due < self.timers.due:
            self.timers.signal()

    def _configure(self) -> bool:
        """Apply the dynamic configuration. Return whether it changed, and topic defaults with it."""
        image, config = self._node.image, self._node.config
        version = config.version
        own = image.configs_of(BROKER_RESOURCE, str(self._node.id))
        config.set_dynamic(own, image.configs_of(*ALL_BROKERS))
        if config.version == version:
            return False
        self.quotas.configure()
        self._logs.configure(config)
        self.replicas.configure()
        return True

    # ------------------------------------------------------------------ lifecycle (LifecycleListener)

    def registered(self, epoch: int) -> None:
        """Store the broker epoch from the controller."""
        self._node.epoch = self.fetchers.broker_epoch = epoch

    def unfenced(self, now: float) -> None:
        """Handle that the controller has unfenced this broker."""
        self.producer_ids.prefetch(now)
        self._shared.runtime.notify()

    def leaderships_moved(self) -> None:
        """Wake the threads that wait for all leaderships to move."""
        self._shared.runtime.notify()

    def wake(self) -> None:
        """Run the broker's timers and coordinators soon."""
        self.timers.signal()

    def wake_for_timers(self) -> None:
        """Handle a new timer or a changed deadline."""
        self.timers.reschedule()

    # ------------------------------------------------------------------ turns

    def _end_of_turn(self, now: float) -> None:
        """End a handler's turn, when no more requests are available."""
        if self._completions is None:
            self.complete(now)
        else:
            self._completions.signal()

    def complete(self, now: float) -> None:
        """Complete operations that the requests handled so far allow."""
        with self._node.lock:
            if not self._node.is_running:
                return
            self.replicas.complete_delayed(now)
            if self.coordinators.markers is not None:
                self.coordinators.markers.send(now)
            if min(self._node.wheel.next_deadline(), self.coordinators.due) < self.timers.due:
                self.timers.signal()

    def apply_retention(self, keys: Iterable[Key] | None = None) -> int:
        """Apply retention to some replicas or all. Return the number of deleted segments."""
        deleted = self.replicas.log_manager.apply_retention(self._node.clock.wall_ms(), keys)
        if self.replicas.has_moved:
            self.timers.signal()
        return deleted

    def _on_replica_moved(self, key: Key) -> None:
        """Handle a moved replica: coordinators' responses and share fetches can depend on it."""
        if key in self.coordinators.epochs:
            self.coordinators.on_moved(key)
        if self.shares_or_none is not None:
            self.shares_or_none.on_moved(key, self._node.clock.monotonic())

    def _on_follower_moved(self, key: Key) -> None:
        """Handle a moved high watermark of a followed partition, which consumers can read here."""
        self.replicas.moved(key)
        # Usually no request waits for it, and a timer turn for each copied batch costs more than this check.
        if self.replicas.is_awaited(key):
            self.timers.signal()

    def _next_producer_id(self) -> int:
        return self.producer_ids.next(self._node.clock.monotonic())

    def _new_id(self) -> str:
        """Return the random part of a member id, in the format of a Java UUID."""
        digits = self._entropy.token_bytes(16).hex()
        return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
