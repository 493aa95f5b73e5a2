"""A broker's controller node: idle, or with the active controller, its queue and its timers.

Every broker has one; the election (election.py) determines the active one. The active node turns controller
requests into events, checks broker sessions, and returns leadership to preferred replicas periodically. It is
its own part (server/threads.py), so that the controller does not block data requests.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

import attrs

from pykafka2.broker.base.image import ClusterImage
from pykafka2.broker.config.configs import BrokerConfig
from pykafka2.broker.controller.control.brokers import BrokerSessions
from pykafka2.broker.controller.controller import Controller
from pykafka2.broker.controller.election import ControllerElection
from pykafka2.broker.controller.event_queue import EventQueue, Work
from pykafka2.broker.controller.metadata.image import Changes
from pykafka2.broker.controller.metadata.log import MetadataLog
from pykafka2.broker.controller.partition_changes import changed, elect_preferred
from pykafka2.broker.controller.publisher import MetadataPublisher
from pykafka2.broker.node import Node
from pykafka2.broker.observed.event_log import EventLog
from pykafka2.broker.server.threads import Part
from pykafka2.clock import FOREVER, Entropy
from pykafka2.errors import KafkaStorageError, NotController
from pykafka2.protocol.struct import MetadataRecord

logger = logging.getLogger(__name__)

# Kafka's unclean.leader.election.interval.ms, which is an internal option.
UNCLEAN_ELECTION_INTERVAL = 300.0


@attrs.define(frozen=True)
class CommonParts:
    """Shared components of all controller nodes, created once for a cluster.

    `config` is the cluster's configuration for the controller; a node also has its broker's.
    """

    log: MetadataLog
    election: ControllerElection
    publisher: MetadataPublisher
    config: BrokerConfig
    entropy: Entropy
    events: EventLog
    give_up: Callable[[int, float], None]
    """Callback: (broker, now); resigns a controller that lost its majority and starts an election."""


class ControllerNode(Part):
    """The controller node of one broker."""

    def __init__(self, node: Node, common: CommonParts) -> None:
        super().__init__(f"controller-{node.id}")
        self.active: Controller | None = None
        """Set while this broker considers itself the controller; the metadata log has the final word."""
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
        """Return the active controller. Raise `NotController` if it is not on this broker."""
        if self.active is None:
            raise NotController(f"broker {self.broker_id} is not the controller")
        return self.active

    # ------------------------------------------------------------------ active controller

    def activate(self, down: Iterable[int], now: float) -> None:
        """Become the controller: start an epoch, replay the log and publish the whole state.

        `down` are the brokers that are known to be down.
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
        registered, leaders = controller.state.brokers.values(), controller.leaders()
        self.sessions.restart(
            [broker.id for broker in registered if not broker.is_fenced or broker.id in leaders], now
        )
        self._rebalance_at = now + self._rebalance_every if self._rebalances else FOREVER
        self._unclean_at = now + UNCLEAN_ELECTION_INTERVAL
        self.change("the full state is published", controller.publish_all, now)
        for stopped in down:
            self.end_session(stopped, now)
        self.signal()

    def resign(self) -> None:
        """Stop being the controller: another one is active, or this broker stops."""
        self.active = None
        self._rebalance_at = self._unclean_at = FOREVER
        self.sessions.restart([], 0.0)

    def resign_if_replaced(self) -> None:
        """Resign if the received image comes from another controller, so that this one's epoch has ended."""
        if self.active is not None and self.active.epoch != self._common.log.epoch:
            self.resign()

    def restart_sessions(self, now: float) -> None:
        """Restart all sessions after a pause of this broker.

        Heartbeats sent during the pause are not processed yet.
        """
        controller = self.active
        if controller is not None:
            brokers = controller.state.brokers.values()
            self.sessions.restart([broker.id for broker in brokers if not broker.is_fenced], now)

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
        """Have the active controller make a change after all earlier ones.

        `work` returns why it was rejected, for the timeline. `refused` is called if the epoch has ended by
        then.
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
            except KafkaStorageError as error:
                # As in Kafka the controller stops; the brokers continue with the latest metadata.
                logger.error("broker %d stops being the controller: %s", self.broker_id, error)
                if self.active is controller:
                    self.resign()
                return error

        self.events.submit(name, controller.epoch, run, now, deadline=deadline, expire=expire)

    def end_session(self, broker_id: int, now: float) -> None:
        """Fence a broker that has stopped, or whose session has expired."""
        controller = self.active
        if controller is not None:
            self.sessions.forget(broker_id)
            self.change(
                f"session of broker {broker_id} ended", lambda: controller.fence_broker(broker_id), now
            )

    # ------------------------------------------------------------------ run by the loop

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
        """Make preferred replicas leaders if possible (auto.leader.rebalance.enable)."""
        controller = self.active
        if controller is None:
            return
        records: list[MetadataRecord] = []
        for topic in controller.state.topics.values():
            for number, partition in enumerate(topic.partitions):
                elected = elect_preferred(partition, controller.image.eligible_in(partition))
                if elected is not partition:
                    records.append(changed(controller.state, topic, number, elected))
        controller.write(records)
