"""Services of a broker for its handlers.

A handler gets the services of the broker that runs it. They refer to no connection and no thread; a handler
passes on what must wait (`respond_with`). Access requires the cluster's lock.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from pykafka2.broker.base.image import ClusterImage
from pykafka2.broker.base.metadata_cache import MetadataCache
from pykafka2.broker.controller import Controller, NewTopic
from pykafka2.broker.controller.controller_node import ControllerNode
from pykafka2.broker.controller.controllers import Controllers
from pykafka2.broker.coordinators.coordinators import Coordinators
from pykafka2.broker.log.record_validation import OpenValidations
from pykafka2.broker.log.storage import LogStorage
from pykafka2.broker.node import Node
from pykafka2.broker.quotas.client_quotas import ClientQuotas
from pykafka2.broker.replication.replica_manager import ReplicaManager
from pykafka2.broker.security.acls import Acls
from pykafka2.broker.security.authorizer import Access
from pykafka2.broker.server.request_context import RequestContext
from pykafka2.broker.server.responses import Responses
from pykafka2.clock import Entropy
from pykafka2.errors import BrokerError
from pykafka2.protocol.struct import Response

if TYPE_CHECKING:
    from pykafka2.broker.client_metrics import ClientMetricsManager
    from pykafka2.broker.coordinators.transactions.verifier import Verifier
    from pykafka2.broker.share.manager import SharePartitionManager
    from pykafka2.broker.share.persister import Persister


T = TypeVar("T")


class Gate(Protocol):
    """Authorizes requests (authorization.py)."""

    def lets_pass(self, context: RequestContext, image: ClusterImage) -> bool:
        """Return whether a request is known to be authorized. If False, `handle` decides."""
        ...

    def handle(
        self,
        services: Services,
        context: RequestContext,
        image: ClusterImage,
        check: Callable[[Any], Response | int | None],
        proceed: Callable[[], Response | None],
        *,
        by_controller: bool,
    ) -> Response | None:
        """Return the response of the API's function, `proceed`, or the error of its check."""
        ...

    def access(self, context: RequestContext, acls: Acls, *, by_controller: bool = False) -> Access:
        """Return the rights of the sender of a request under these ACLs."""
        ...


class Services:
    """One broker, as its handlers use it. Recreated with each start."""

    def __init__(
        self,
        node: Node,
        *,
        logs: LogStorage,
        replicas: ReplicaManager,
        coordinators: Coordinators,
        controllers: Controllers,
        controller_node: ControllerNode,
        responses: Responses,
        metadata_cache: MetadataCache,
        quotas: ClientQuotas,
        entropy: Entropy,
        next_producer_id: Callable[[], int],
        services_of: Callable[[int], Services],
        queue: Callable[[RequestContext], None],
        persister: Callable[[], Persister],
        shares: Callable[[], SharePartitionManager],
        client_metrics: Callable[[], ClientMetricsManager],
        gate: Gate | None = None,
    ) -> None:
        self.node = node
        self.id = node.id
        self.config = node.config
        self.clock = node.clock
        self.max_fetch_bytes = node.config.int("fetch.max.bytes")
        """Not dynamic in Kafka either, so each Fetch reads it here."""
        self.logs = logs
        self.replicas = replicas
        self.coordinators = coordinators
        self.controller_node = controller_node
        self.responses = responses
        self.metadata_cache = metadata_cache
        self.quotas = quotas
        self.respond_with = responses.respond_with
        self.gate = gate
        """None if no authorizer is configured: everything is allowed."""
        self.next_producer_id = next_producer_id
        """From this broker's block; `CoordinatorLoadInProgress` while a new one is on its way."""
        self.open_validations = OpenValidations()
        self._controllers = controllers
        self._entropy = entropy
        self._services_of = services_of
        self._queue = queue
        self._persister = persister
        self._shares = shares
        self._client_metrics = client_metrics

    # ------------------------------------------------------------------ attributes

    @property
    def image(self) -> ClusterImage:
        """This broker's latest metadata."""
        return self.node.image

    @property
    def log_levels(self) -> dict[str, str]:
        return self.node.log_levels

    def access_of(self, context: RequestContext) -> Access | None:
        """Return the rights of the sender of a request under this broker's metadata.

        None if none are needed.
        """
        if self.gate is None or context.caller.is_broker:
            return None
        return self.gate.access(context, self.image.acls)

    def resume_later(self, context: RequestContext, work: Callable[[float], Response | None]) -> None:
        """Queue a request again behind waiting ones; `work` continues it, called with the time.

        `work` returns the response, or None if it is sent later.
        """
        context.resume = lambda now: self.respond_with(context, lambda: work(now))
        self._queue(context)

    def shown_controller(self) -> int:
        """Return a broker to report as the controller: any live one, since all forward to it.

        As a release with ZooKeeper, the controller itself. -1 if none is known.
        """
        if self.node.release.has_zookeeper:
            return self._controllers.id
        alive = self.image.live_brokers()
        return self._entropy.random.choice(alive).id if alive else -1

    # ------------------------------------------------------------------ parts

    @property
    def verifier(self) -> Verifier:
        """The verifier of batches that start a transaction."""
        return self.coordinators.verifier

    @property
    def persister(self) -> Persister:
        """The client of the share coordinator, imported with the first share group."""
        return self._persister()

    @property
    def shares(self) -> SharePartitionManager:
        """The share partitions that this broker leads, imported with the first request for one."""
        return self._shares()

    @property
    def client_metrics(self) -> ClientMetricsManager:
        """The telemetry of clients, imported with the first request for it."""
        return self._client_metrics()

    @property
    def controller(self) -> Controller:
        """The active controller, for handlers at the controller; raises `NotController` elsewhere."""
        return self.controller_node.require()

    @property
    def entropy(self) -> Entropy:
        """The broker's source of randomness."""
        return self._entropy

    def change_now(self, name: str, change: Callable[[Controller], T]) -> T:
        """Have the controller make a change at once, and return or raise its outcome.

        Raise `NotController` if no controller is reachable, or it is busy.
        """
        outcome: list[T] = []
        self._controllers.change_now(self.id, name, lambda active: outcome.append(change(active)))
        return outcome[0]

    def create_topic(self, new: NewTopic) -> None:
        """Have the controller create a topic that a client needs. Raise if that is impossible now."""
        self._controllers.change_now(
            self.id, f"create topic {new.name}", lambda active: active.create_topic(new)
        )

    def create_topics(
        self, new: Sequence[NewTopic], charge_on: Callable[[int], Callable[[int], object]]
    ) -> None:
        """Have the controller create topics that a client needs, as far as possible.

        `charge_on`, called with the controller's id, returns what is called with the partitions of each topic
        and can reject it. Raise `NotController` if no controller is reachable, or it is busy.
        """

        def create(active: Controller) -> None:
            charge = charge_on(active.id)
            for topic in new:
                with suppress(BrokerError):
                    active.create_topic(topic, charge=charge)

        self._controllers.change_now(self.id, f"create {len(new)} topics", create)

    def catch_up(self, broker_id: int, now: float) -> None:
        """Send the missing metadata to a broker from which the controller received a heartbeat."""
        self._controllers.catch_up(broker_id, now)

    def of(self, broker_id: int) -> Services:
        """Return the services of another broker, for checks that it would have done before forwarding."""
        return self._services_of(broker_id)
