"""A broker's controller node: idle, or with the active controller, its queue and its timers.

Every broker has one; the election (election.py) says whose is active.  While it is, requests for the
controller become events here, broker sessions are watched, and leadership goes back to preferred replicas
from time to time.  A part of its own (server/threads.py), so that the controller is never in the way of data.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

import attrs

from pykafka2.broker.base.image import ClusterImage
from pykafka2.broker.config.configs import BrokerConfig
from pykafka2.broker.controller.controller import Controller
from pykafka2.broker.controller.election import ControllerElection
from pykafka2.broker.controller.elections import elect_preferred
from pykafka2.broker.controller.event_queue import EventQueue, Work
from pykafka2.broker.controller.metadata_log import MetadataLog
from pykafka2.broker.controller.publisher import MetadataPublisher
from pykafka2.broker.controller.records import PartitionSet, Record
from pykafka2.broker.controller.sessions import BrokerSessions
from pykafka2.broker.controller.state import Changes
from pykafka2.broker.node import Node
from pykafka2.broker.observed.event_log import EventLog
from pykafka2.broker.server.threads import Part
from pykafka2.clock import FOREVER, Entropy
from pykafka2.errors import NotController

logger = logging.getLogger(__name__)

# Kafka's unclean.leader.election.interval.ms, which is none of its public options.
UNCLEAN_ELECTION_INTERVAL = 300.0


@attrs.define(frozen=True)
class CommonParts:
    """What the controller nodes of all brokers stand on; made once for a cluster.

    `config` is the cluster's configuration, as a controller reads it; a node has its broker's besides.
    """

    log: MetadataLog
    election: ControllerElection
    publisher: MetadataPublisher
    config: BrokerConfig
    entropy: Entropy
    events: EventLog
    give_up: Callable[[int, float], None]
    """(broker, now): an active controller that has lost its majority resigns, and another one is elected."""


class ControllerNode(Part):
    """The controller node of one broker."""

    def __init__(self, node: Node, common: CommonParts) -> None:
        super().__init__(f"controller-{node.id}")
        self.active: Controller | None = None
        """Set while this broker believes that it is the controller; the log knows better."""
        self.events = EventQueue(node.id, common.events, self.signal)
        self.sessions = BrokerSessions(node.config.seconds("broker.session.timeout.ms"))
        self.broker_id = node.id
        self._node = node
        self._common = common
        self._rebalances = bool(node.config.get("auto.leader.rebalance.enable"))
        self._rebalance_every = float(node.config.int("leader.imbalance.check.interval.seconds"))
        self._rebalance_at = FOREVER
        self._unclean_at = FOREVER

    @property
    def is_active(self) -> bool:
        return self.active is not None

    def require(self) -> Controller:
        """The active controller; `NotController` if it is not here."""
        if self.active is None:
            raise NotController(f"broker {self.broker_id} is not the controller")
        return self.active

    # ------------------------------------------------------------------ being the controller

    def activate(self, gone: Iterable[int], now: float) -> None:
        """Become the controller: begin an epoch, replay the log, tell everybody everything.

        `gone` are the brokers that are known to be down.
        """
        broker_id, clock, common = self.broker_id, self._node.clock, self._common

        def publish(image: ClusterImage, changed: Changes) -> None:
            at = clock.monotonic()
            common.events.image_changed(image, changed, at)
            common.publisher.publish(broker_id, image, changed, at)

        controller = Controller(broker_id, common.log, common.config, common.entropy, publish)
        self.active = controller
        word = f"broker {broker_id} is the controller in epoch {controller.epoch}"
        common.events.note(now, "controller", word, broker=broker_id, epoch=controller.epoch)
        registered = controller.state.brokers.values()
        self.sessions.restart([one.id for one in registered if not one.is_fenced], now)
        self._rebalance_at = now + self._rebalance_every if self._rebalances else FOREVER
        self._unclean_at = now + UNCLEAN_ELECTION_INTERVAL
        self.change("the full state is published", controller.publish_all, now)
        for one in gone:
            self.end_session(one, now)
        self.signal()

    def resign(self) -> None:
        """Be the controller no more: another one is, or this broker stops."""
        self.active = None
        self._rebalance_at = self._unclean_at = FOREVER
        self.sessions.restart([], 0.0)

    def resign_if_replaced(self) -> None:
        """This broker was handed an image: if another controller made it, our epoch has ended."""
        if self.active is not None and self.active.epoch != self._common.log.epoch:
            self.resign()

    def restart_sessions(self, now: float) -> None:
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
        work: Callable[[], Exception | None],
        now: float,
        *,
        deadline: float = FOREVER,
        refused: Callable[[NotController, float], None] | None = None,
        expire: Work | None = None,
    ) -> None:
        """Have the active controller do something, after all that came before; `work` returns what it was
        refused with, for the timeline.

        `refused` is told if our epoch has ended by then.
        """
        controller = self.active
        if controller is None:
            return

        def run(at: float) -> Exception | None:
            try:
                controller.check()
                return work()
            except NotController as error:
                logger.info("broker %d: %s", self.broker_id, error)
                if self.active is controller:
                    self.resign()
                if refused is not None:
                    refused(error, at)
                return error

        self.events.submit(name, controller.epoch, run, now, deadline=deadline, expire=expire)

    def end_session(self, broker_id: int, now: float) -> None:
        """A broker is gone, or has not been heard for too long."""
        controller = self.active
        if controller is not None:
            self.sessions.forget(broker_id)
            self.change(
                f"session of broker {broker_id} ended", lambda: controller.fence_broker(broker_id), now
            )

    # ------------------------------------------------------------------ the part

    def run(self, now: float) -> float:
        with self._node.lock:
            controller = self.active
            if controller is None or not self._node.is_running:
                return FOREVER
            if not self._common.election.has_majority(
                self.broker_id, lambda broker_id: self.sessions.is_valid(broker_id, now)
            ):
                self._common.give_up(self.broker_id, now)
                return FOREVER
            for broker_id in self.sessions.end_overdue(now):
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
