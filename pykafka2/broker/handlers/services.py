"""What a handler may call: the parts of its broker that requests are about.

A handler gets the services of the broker that runs it.  They name no connection and no thread; whatever a
handler has to wait for it hands on (`respond_with`).  Under the cluster's lock.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol, TypeVar

from pykafka2.broker.base.image import ClusterImage
from pykafka2.broker.base.known_metadata import KnownMetadata
from pykafka2.broker.config.configs import BrokerConfig
from pykafka2.broker.controller import Controller, NewTopic
from pykafka2.broker.controller.controllers import Controllers
from pykafka2.broker.controller.node import ControllerNode
from pykafka2.broker.coordinators.hosting import Coordinators
from pykafka2.broker.log.log_dir import LogDir
from pykafka2.broker.log.record_walk import OpenWalks
from pykafka2.broker.node import Node
from pykafka2.broker.replication.replica_manager import ReplicaManager
from pykafka2.broker.security.acls import Acls
from pykafka2.broker.security.asker import Asker
from pykafka2.broker.server.answers import Answers
from pykafka2.broker.server.request_context import RequestContext
from pykafka2.clock import Clock, Entropy
from pykafka2.errors import BrokerError
from pykafka2.protocol.struct import Response

if TYPE_CHECKING:
    from pykafka2.broker.coordinators.transactions.verifier import Verifier


T = TypeVar("T")


class Gate(Protocol):
    """Whether who sent a request may have it carried out (authorization/gate.py)."""

    def lets_pass(self, context: RequestContext, image: ClusterImage) -> bool:
        """Whether it is known at once that nothing stands in a request's way; False: `handle` finds out."""
        ...

    def handle(
        self,
        services: Services,
        context: RequestContext,
        image: ClusterImage,
        go_on: Callable[[], Response | None],
        *,
        by_controller: bool,
    ) -> Response | None:
        """The answer to a request: of its function, `go_on`, or why it is not called."""
        ...

    def asker(self, context: RequestContext, acls: Acls, *, by_controller: bool = False) -> Asker:
        """The rights of who sent a request, by these rules."""
        ...


class Services:
    """One broker, as its handlers see it.  Made anew with each start."""

    def __init__(
        self,
        node: Node,
        *,
        logs: LogDir,
        replicas: ReplicaManager,
        coordinators: Coordinators,
        controllers: Controllers,
        controller_node: ControllerNode,
        answers: Answers,
        known_metadata: KnownMetadata,
        entropy: Entropy,
        next_producer_id: Callable[[], int],
        services_of: Callable[[int], Services],
        queue: Callable[[RequestContext], None],
        gate: Gate | None = None,
    ) -> None:
        self.node = node
        self.logs = logs
        self.replicas = replicas
        self.coordinators = coordinators
        self.controller_node = controller_node
        self.answers = answers
        self.known_metadata = known_metadata
        self.respond_with = answers.respond_with
        self.gate = gate
        """None where no authorizer is configured: everybody may do everything."""
        self.next_producer_id = next_producer_id
        """From this broker's block; `CoordinatorLoadInProgress` while a new one is on its way."""
        self.open_walks = OpenWalks()
        self._controllers = controllers
        self._entropy = entropy
        self._services_of = services_of
        self._queue = queue

    # ------------------------------------------------------------------ facts

    @property
    def id(self) -> int:
        return self.node.id

    @property
    def config(self) -> BrokerConfig:
        return self.node.config

    @property
    def clock(self) -> Clock:
        return self.node.clock

    @property
    def image(self) -> ClusterImage:
        """The newest metadata that this broker was given."""
        return self.node.image

    @property
    def log_levels(self) -> dict[str, str]:
        return self.node.log_levels

    def asker_of(self, context: RequestContext) -> Asker | None:
        """The rights of who sent a request, by this broker's metadata; None where nobody is asked for any."""
        if self.gate is None or context.caller.is_broker:
            return None
        return self.gate.asker(context, self.image.acls)

    def resume_later(self, context: RequestContext, work: Callable[[float], Response | None]) -> None:
        """Queue a request again behind those that wait; `work` continues it, called with the time.

        `work` returns the response, or None if it comes later.
        """
        context.resume = lambda now: self.respond_with(context, lambda: work(now))
        self._queue(context)

    def any_live_broker(self) -> int:
        """Whom answers name as the controller: any live broker, since each forwards what is the
        controller's; -1 if none is known.
        """
        alive = self.image.live_brokers()
        return self._entropy.random.choice(alive).id if alive else -1

    # ------------------------------------------------------------------ parts

    @property
    def verifier(self) -> Verifier:
        """Asks transaction coordinators about batches that open a transaction."""
        return self.coordinators.verifier

    @property
    def controller(self) -> Controller:
        """The active controller, for handlers that run `by_controller`; `NotController` where it is not."""
        return self.controller_node.require()

    @property
    def entropy(self) -> Entropy:
        """What is random here."""
        return self._entropy

    def change_now(self, name: str, change: Callable[[Controller], T]) -> T:
        """Have the controller change something at once; what it comes to, or raises.  `NotController` where
        no controller is in reach, or it is busy.
        """
        outcome: list[T] = []
        self._controllers.change_now(self.id, name, lambda active: outcome.append(change(active)))
        return outcome[0]

    def create_topic(self, new: NewTopic) -> None:
        """Have the controller create a topic that a client needs; raises why it cannot be, or not now."""
        self._controllers.change_now(
            self.id, f"create topic {new.name}", lambda active: active.create_topic(new)
        )

    def create_topics(self, new: Sequence[NewTopic]) -> None:
        """Have the controller create topics that a client needs, those that can be; `NotController` where no
        controller is in reach, or it is busy.
        """

        def create(active: Controller) -> None:
            for one in new:
                with suppress(BrokerError):
                    active.create_topic(one)

        self._controllers.change_now(self.id, f"create {len(new)} topics", create)

    def catch_up(self, broker_id: int, now: float) -> None:
        """As the controller: see that a broker that was heard gets what it lacks of the metadata."""
        self._controllers.catch_up(broker_id, now)

    def of(self, broker_id: int) -> Services:
        """Those of another broker: for what it would have done before it forwarded a request to us."""
        return self._services_of(broker_id)
