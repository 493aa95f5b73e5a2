"""A broker's seat for the controller: empty, or with the active controller, its queue and its timers.

Every broker has one; the election (election.py) says whose is taken.  While it is, requests for the
controller become events here, broker sessions are watched, and leadership goes back to preferred replicas
from time to time.  A part of its own, so that the controller is never in the way of data.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from pykafka2.broker.base.image import ClusterImage
from pykafka2.broker.controller.controller import Controller
from pykafka2.broker.controller.elections import elect_preferred
from pykafka2.broker.controller.event_queue import EventQueue, Work
from pykafka2.broker.controller.records import PartitionSet, Record
from pykafka2.broker.controller.sessions import BrokerSessions
from pykafka2.broker.controller.state import Changes
from pykafka2.broker.node import Node
from pykafka2.broker.server.threads import Part
from pykafka2.clock import FOREVER
from pykafka2.errors import NotController

if TYPE_CHECKING:
    from pykafka2.broker.controller.controllers import Controllers

logger = logging.getLogger(__name__)

# Kafka's unclean.leader.election.interval.ms, which is none of its public options.
UNCLEAN_ELECTION_INTERVAL = 300.0


class ControllerNode(Part):
    """The seat on one broker."""

    def __init__(self, broker: Node, controllers: Controllers) -> None:
        super().__init__(f"controller-{broker.id}")
        self.active: Controller | None = None
        """Set while this broker believes that it is the controller; the log knows better."""
        self.events = EventQueue(broker.id, controllers.events, self.signal)
        self.sessions = BrokerSessions(broker.config.seconds("broker.session.timeout.ms"))
        self.broker_id = broker.id
        self._broker = broker
        self._controllers = controllers
        self._rebalances = bool(broker.config.get("auto.leader.rebalance.enable"))
        self._rebalance_every = float(broker.config.int("leader.imbalance.check.interval.seconds"))
        self._rebalance_at = FOREVER
        self._unclean_at = FOREVER

    @property
    def is_active(self) -> bool:
        return self.active is not None

    def require(self) -> Controller:
        """The controller on this seat; `NotController` if it is empty."""
        if self.active is None:
            raise NotController(f"broker {self._broker.id} is not the controller")
        return self.active

    # ------------------------------------------------------------------ office

    def activate(self, now: float) -> None:
        """Become the controller: begin an epoch, replay the log, tell everybody everything."""
        broker, controllers = self._broker, self._controllers

        def publish(image: ClusterImage, changed: Changes) -> None:
            at = broker.clock.monotonic()
            controllers.events.image_changed(image, changed, at)
            controllers.publisher.publish(broker.id, image, changed, at)

        controller = Controller(broker.id, controllers.log, controllers.config, controllers.entropy, publish)
        self.active = controller
        word = f"broker {broker.id} is the controller in epoch {controller.epoch}"
        controllers.events.note(now, "controller", word, broker=broker.id, epoch=controller.epoch)
        registered = controller.state.brokers.values()
        self.sessions.restart([one.id for one in registered if not one.is_fenced], now)
        self._rebalance_at = now + self._rebalance_every if self._rebalances else FOREVER
        self._unclean_at = now + UNCLEAN_ELECTION_INTERVAL
        self.change("the full state is published", controller.publish_all, now)
        for gone in controllers.known_gone():
            self.end_session(gone, now)
        self.signal()

    def resign(self) -> None:
        """Be the controller no more: another one is, or this broker stops."""
        self.active = None
        self._rebalance_at = self._unclean_at = FOREVER
        self.sessions.restart([], 0.0)

    def has_heard(self) -> None:
        """This broker was handed an image: if another controller made it, our epoch has ended."""
        if self.active is not None and self.active.epoch != self._controllers.epoch:
            self.resign()

    def has_slept(self, now: float) -> None:
        """This broker stood still: what others said meanwhile is not heard yet, so nobody's session ends for
        it.
        """
        controller = self.active
        if controller is not None:
            brokers = controller.state.brokers.values()
            self.sessions.restart([one.id for one in brokers if not one.is_fenced], now)

    # ------------------------------------------------------------------ events

    def change(
        self,
        name: str,
        work: Callable[[], object],
        now: float,
        *,
        deadline: float = FOREVER,
        refused: Callable[[NotController, float], None] | None = None,
        expire: Work | None = None,
    ) -> None:
        """Have the active controller do something, after all that came before.

        `refused` is told if our epoch has ended by then.
        """
        controller = self.active
        if controller is None:
            return

        def run(at: float) -> None:
            try:
                controller.check()
                work()
            except NotController as error:
                logger.info("broker %d: %s", self._broker.id, error)
                if self.active is controller:
                    self.resign()
                if refused is not None:
                    refused(error, at)

        self.events.submit(name, controller.epoch, run, now, deadline=deadline, expire=expire)

    def end_session(self, broker_id: int, now: float) -> None:
        """A broker is gone (rule 74)."""
        controller = self.active
        if controller is not None:
            self.sessions.forget(broker_id)
            self.change(
                f"session of broker {broker_id} ended", lambda: controller.broker_is_gone(broker_id), now
            )

    # ------------------------------------------------------------------ the part

    def run(self, now: float) -> float:
        with self._broker.lock:
            controller = self.active
            if not self._broker.is_running or controller is None:
                return FOREVER
            if not self._controllers.election.has_majority(
                self._broker.id, lambda broker_id: self.sessions.is_valid(broker_id, now)
            ):
                self._controllers.has_resigned(self._broker.id, now)
                return FOREVER
            for broker_id in self.sessions.lapsed(now):
                self.end_session(broker_id, now)
            if now >= self._rebalance_at:
                self._rebalance_at = now + self._rebalance_every
                self.change("leaders go back to preferred replicas", self._rebalance, now)
            if now >= self._unclean_at:
                self._unclean_at = now + UNCLEAN_ELECTION_INTERVAL
                self.change("leaders for partitions without one", controller.elect_leaderless, now)
            due = self.events.run(now)
            return min(due, self.sessions.next_end(), self._rebalance_at, self._unclean_at)

    def _rebalance(self) -> None:
        """Let preferred replicas lead where they may (auto.leader.rebalance.enable)."""
        controller = self.active
        if controller is None:
            return
        records: list[Record] = []
        for topic in controller.state.topics.values():
            for number, partition in enumerate(topic.partitions):
                elected = elect_preferred(partition, controller.image.is_eligible)
                if elected is not partition:
                    records.append(PartitionSet(topic.name, number, elected))
        controller.write(records)
