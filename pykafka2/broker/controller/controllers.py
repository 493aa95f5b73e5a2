"""Shared state of a cluster's controllers: metadata log, election, publishing of images.

`cluster.controller` is this object: `id` and `epoch` of the active controller, the latest image, and changes
by a test, which go through the active controller's queue like all others.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, TypeVar

from pykafka2.broker.base.arguments import no_partition
from pykafka2.broker.base.image import ClusterImage, PartitionImage
from pykafka2.broker.config.configs import BrokerConfig
from pykafka2.broker.controller.controller import Controller
from pykafka2.broker.controller.controller_node import CommonParts, ControllerNode
from pykafka2.broker.controller.election import ControllerElection
from pykafka2.broker.controller.metadata.log import NO_CONTROLLER, MetadataLog
from pykafka2.broker.controller.publisher import Members, MetadataPublisher, can_act
from pykafka2.broker.node import Node
from pykafka2.broker.observed.event_log import EventLog
from pykafka2.broker.server.links import Links
from pykafka2.clock import Entropy
from pykafka2.driver.runtime import Runtime
from pykafka2.errors import KafkaStorageError, KafkaTimeoutError, NotController

logger = logging.getLogger(__name__)

T = TypeVar("T")

# Seconds that a test's change waits for a controller.
CHANGE_TIMEOUT = 30.0


class Controllers:
    """The controller of a cluster, whichever broker it is.

    Unless documented as taking the lock, methods are called with the cluster's lock held.
    """

    def __init__(
        self,
        log: MetadataLog,
        config: BrokerConfig,
        entropy: Entropy,
        links: Links,
        events: EventLog,
        runtime: Runtime,
        lock: Any,
        members: Members,
    ) -> None:
        self.log = log
        self.election = ControllerElection(config.seconds("broker.session.timeout.ms"), links, members)
        self.publisher = MetadataPublisher(log.state.image, links, members)
        self._members = members
        self._runtime = runtime
        self._lock = lock
        self._common = CommonParts(
            self.log,
            self.election,
            self.publisher,
            config,
            entropy,
            events,
            self.give_up,
        )
        self._nodes: dict[int, ControllerNode] = {}
        self._known_down: dict[int, None] = {}

    def __repr__(self) -> str:
        return f"<controller {self.id} in epoch {self.epoch}>"

    def new_node(self, node: Node) -> ControllerNode:
        """Return the controller node of a broker, recreated with each of its starts."""
        made = self._nodes[node.id] = ControllerNode(node, self._common)
        return made

    # ------------------------------------------------------------------ state

    @property
    def id(self) -> int:
        """The broker that is the controller, -1 if there is none; one that died undetected still counts."""
        return self.election.holder

    @property
    def epoch(self) -> int:
        """The controller epoch; each election increments it."""
        return self.log.epoch

    @property
    def image(self) -> ClusterImage:
        """The latest published image."""
        return self.publisher.latest

    def partition(self, topic: str, partition: int) -> PartitionImage:
        image = self.image.partition(topic, partition)
        if image is None:
            raise no_partition(self.image, topic, partition)
        return image

    @property
    def active_node(self) -> ControllerNode | None:
        """The node of the active controller, if its broker can act."""
        holder = self.election.holder
        if holder == NO_CONTROLLER or not can_act(self._members()[holder]):
            return None
        node = self._nodes[holder]
        return node if node.is_active else None

    def end_slowness(self) -> None:
        """End the slowness of all nodes; one that was slowed down can be inactive now."""
        for node in self._nodes.values():
            node.events.end_slowness()

    def reaches(self, broker_id: int) -> bool:
        """Return whether there is an active controller that the broker can reach."""
        node = self.active_node
        return node is not None and self.election.reaches(broker_id, node.broker_id)

    def change_now(self, broker_id: int, name: str, change: Callable[[Controller], object]) -> None:
        """Have the controller make a change on behalf of a broker and return its outcome, without a message.

        Raise the change's exception, or `NotController` if no controller is reachable or it is busy; then
        the change is made later.
        """
        node = self.active_node
        if node is None or not self.reaches(broker_id):
            raise NotController(f"broker {broker_id} cannot reach an active controller")
        attempt = self._attempt(name, change)
        attempt.begin(self._runtime.clock.monotonic())
        if attempt.outcome is None:
            raise NotController(f"the controller on broker {node.broker_id} is busy")
        attempt.outcome()

    def _attempt(self, name: str, change: Callable[[Controller], Any]) -> Attempt:
        return Attempt(name, change, lambda: self.active_node, self.log, self._runtime.notify)

    def catch_up(self, broker_id: int, now: float) -> None:
        """Send the missing metadata to a broker from which the controller received a heartbeat."""
        self.publisher.catch_up(broker_id, now)

    # ------------------------------------------------------------------ elections

    def elect(self, broker_id: int, now: float) -> None:
        """Make a broker the controller unconditionally."""
        old, new = self.active_node, self._nodes[broker_id]
        self.election.elected(broker_id, now)
        try:
            new.activate(self.known_down(), now)
        except KafkaStorageError as error:
            logger.error("broker %d cannot become the controller: %s", broker_id, error)
            self.election.give_up(broker_id)
            return
        if old is not None and old is not new:
            old.resign()
        for member in self._members().values():
            if can_act(member):
                member.controller_changed(now)
        self._runtime.notify()

    def stand_for_election(self, broker_id: int, now: float) -> bool:
        """Handle a broker's candidacy after it lost contact to the controller.

        Return whether it was elected.
        """
        if not self.election.may_win(broker_id, now):
            return False
        self.elect(broker_id, now)
        return True

    def elect_at_once(self, now: float) -> None:
        """Elect the next possible broker in the ring, because the controller is known to be down."""
        stopped_id = self.log.controller_id
        for broker_id in sorted(self._members(), key=lambda member_id: (member_id <= stopped_id, member_id)):
            if self.election.holder != NO_CONTROLLER:
                return
            self.stand_for_election(broker_id, now)

    def give_up(self, broker_id: int, now: float) -> None:
        """Resign a controller on its own initiative."""
        self._nodes[broker_id].resign()
        self.election.give_up(broker_id)
        self.elect_at_once(now)

    def broker_stopped(self, broker_id: int, now: float) -> None:
        """Handle a broker that has crashed or stopped in a way that all others detect."""
        self._known_down[broker_id] = None
        if self.election.holder == broker_id:
            self.election.give_up(broker_id)
            self.elect_at_once(now)
        else:
            node = self.active_node
            if node is not None:
                node.end_session(broker_id, now)

    def broker_started(self, broker_id: int, now: float) -> None:
        """Handle a broker that has started again."""
        self._known_down.pop(broker_id, None)
        if self.election.holder == NO_CONTROLLER:
            self.elect_at_once(now)

    def known_down(self) -> list[int]:
        """Return brokers that are known to be down."""
        return list(self._known_down)

    # ------------------------------------------------------------------ changes by a test

    def run(self, name: str, change: Callable[[Controller], T], *, timeout: float = CHANGE_TIMEOUT) -> T:
        """Have the active controller make a change, in queue order.

        Take the lock; any thread except the cluster's own. Raise the change's exception, or
        `KafkaTimeoutError` if no controller made the change in time.
        """
        deadline = self._runtime.clock.monotonic() + timeout
        while True:
            attempt = self._attempt(name, change)
            with self._lock:
                now = self._runtime.clock.monotonic()
                attempt.begin(now)
            left = deadline - now
            if not self._runtime.wait_until(attempt.is_over, left):
                attempt.is_cancelled = True
                raise KafkaTimeoutError(
                    f"{name}: no active controller made the change within {timeout:g} seconds; {self!r}"
                )
            if attempt.outcome is not None:
                with self._lock:  # then its event is over and in the timeline
                    outcome: Callable[[], T] = attempt.outcome
                return outcome()


class Attempt:
    """A change that a test's thread waits for; stale once another epoch starts."""

    def __init__(
        self,
        name: str,
        change: Callable[[Controller], Any],
        find_node: Callable[[], ControllerNode | None],
        log: MetadataLog,
        notify: Callable[[], None],
    ) -> None:
        self.outcome: Callable[[], Any] | None = None
        self.is_cancelled = False
        self._name = name
        self._change = change
        self._find_node = find_node
        self._log = log
        self._notify = notify
        self._epoch: int | None = None

    def begin(self, now: float) -> None:
        node = self._find_node()
        if node is None or node.active is None:
            return
        controller = node.active
        self._epoch = controller.epoch

        def work() -> Exception | None:
            if self.is_cancelled:
                return None
            refusal: Exception | None = None
            try:
                result = self._change(controller)
            except NotController:
                raise
            except Exception as error:
                refusal = error
                self.outcome = _raising(error)
            else:
                self.outcome = lambda: result
            self._notify()
            return refusal

        node.change(self._name, work, now)

    def is_over(self) -> bool:
        """Return whether it is done, or must be retried."""
        if self.outcome is not None:
            return True
        if self._epoch is None:
            return self._find_node() is not None
        return self._epoch != self._log.epoch


def _raising(error: Exception) -> Callable[[], Any]:
    def fail() -> Any:
        raise error

    return fail
