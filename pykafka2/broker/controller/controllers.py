"""All that the brokers of a cluster share about their controller: log, election, way of the images.

`cluster.controller` is this: `id` and `epoch` of the active one, the newest image, and changes made by the
test's own hand, which take their turn in the active controller's queue like all others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from pykafka2.broker.base.arguments import no_partition
from pykafka2.broker.base.image import ClusterImage, PartitionImage
from pykafka2.broker.config.configs import BrokerConfig
from pykafka2.broker.controller.controller import Controller
from pykafka2.broker.controller.election import ControllerElection, can_act
from pykafka2.broker.controller.metadata_log import NO_CONTROLLER, MetadataLog
from pykafka2.broker.controller.node import ControllerNode
from pykafka2.broker.controller.publisher import MetadataPublisher
from pykafka2.broker.controller.state import State
from pykafka2.broker.observed.event_log import EventLog
from pykafka2.clock import Entropy
from pykafka2.driver.runtime import Runtime
from pykafka2.errors import KafkaTimeoutError, NotController

if TYPE_CHECKING:
    from pykafka2.broker.broker import Broker
    from pykafka2.broker.replication.links import Links

T = TypeVar("T")

# How long a change by the test's hand waits for a controller, in seconds.
CHANGE_TIMEOUT = 30.0


class Controllers:
    """The controller of a cluster, whoever it is at the moment.

    What is not said to take the lock itself is called with the cluster's lock held.
    """

    def __init__(
        self,
        state: State,
        config: BrokerConfig,
        entropy: Entropy,
        links: Links,
        events: EventLog,
        runtime: Runtime,
        lock: Any,
        brokers: Callable[[], list[Broker]],
    ) -> None:
        self.log = MetadataLog(state)
        self.entropy = entropy
        self.config = config
        self.events = events
        self.election = ControllerElection(config.seconds("broker.session.timeout.ms"), links, brokers)
        self.publisher = MetadataPublisher(state.image, links, brokers)
        self._brokers = brokers
        self._runtime = runtime
        self._lock = lock
        self._noticed: dict[int, None] = {}

    def __repr__(self) -> str:
        return f"<controller {self.id} in epoch {self.epoch}>"

    # ------------------------------------------------------------------ what it is

    @property
    def id(self) -> int:
        """The broker that is the controller, -1 while there is none; one that died unnoticed counts."""
        return self.election.holder

    @property
    def epoch(self) -> int:
        """Grows by one with each election."""
        return self.log.epoch

    @property
    def image(self) -> ClusterImage:
        """The newest that was published."""
        return self.publisher.latest

    def partition(self, topic: str, partition: int) -> PartitionImage:
        image = self.image.partition(topic, partition)
        if image is None:
            raise no_partition(self.image, topic, partition)
        return image

    @property
    def active_node(self) -> ControllerNode | None:
        """The seat that is taken, if its broker can act."""
        if self.election.holder == NO_CONTROLLER:
            return None
        broker = self._brokers()[self.election.holder]
        return broker.controller_node if can_act(broker) and broker.controller_node.is_active else None

    def reaches(self, broker_id: int) -> bool:
        """Whether there is an active controller, and a broker has a way to it."""
        node = self.active_node
        return node is not None and self.election.reaches(broker_id, node.broker_id)

    def change_now(self, broker_id: int, name: str, change: Callable[[Controller], object]) -> None:
        """A broker has the controller change something and sees what comes of it, without a message.

        Raises what the change raises; `NotController` if no controller is in reach, or it is busy: then the
        change comes later.
        """
        node = self.active_node
        if node is None or not self.reaches(broker_id):
            raise NotController(f"broker {broker_id} reaches no active controller")
        attempt = Attempt(self, name, change)
        attempt.begin(self._runtime.clock.monotonic())
        if attempt.outcome is None:
            raise NotController(f"the controller on broker {node.broker_id} is busy")
        attempt.outcome()

    def catch_up(self, broker_id: int, now: float) -> None:
        """As the controller: see that a broker that was heard gets what it lacks of the metadata."""
        self.publisher.catch_up(self._brokers()[broker_id], now)

    # ------------------------------------------------------------------ elections

    def elect(self, broker: Broker, now: float) -> None:
        """Make a broker the controller, whatever anybody says."""
        old = self.active_node
        self.election.elected(broker.id, now)
        broker.controller_node.activate(now)
        if old is not None and old is not broker.controller_node:
            old.resign()
        for other in self._brokers():
            if can_act(other):
                other.channel.controller_changed(now)
        self._runtime.notify()

    def consider(self, broker_id: int, now: float) -> bool:
        """A broker misses the controller and stands for election; whether it was elected."""
        broker = self._brokers()[broker_id]
        if not self.election.may_win(broker, now):
            return False
        self.elect(broker, now)
        return True

    def elect_at_once(self, now: float) -> None:
        """The controller is known to be gone: the next broker in the ring that can win takes over."""
        brokers = self._brokers()
        first = self.log.controller_id + 1
        for step in range(len(brokers)):
            if self.election.holder != NO_CONTROLLER:
                return
            self.consider((first + step) % len(brokers), now)

    def has_resigned(self, broker_id: int, now: float) -> None:
        """A controller gives up by itself."""
        self._brokers()[broker_id].controller_node.resign()
        self.election.give_up(broker_id)
        self.elect_at_once(now)

    def is_gone(self, broker_id: int, now: float) -> None:
        """A broker has died or stopped, and everybody knows."""
        self._noticed[broker_id] = None
        if self.election.holder == broker_id:
            self.election.give_up(broker_id)
            self.elect_at_once(now)
        else:
            node = self.active_node
            if node is not None:
                node.end_session(broker_id, now)

    def is_back(self, broker_id: int, now: float) -> None:
        """A broker's process runs again."""
        self._noticed.pop(broker_id, None)
        if self.election.holder == NO_CONTROLLER:
            self.elect_at_once(now)

    def known_gone(self) -> list[int]:
        """Brokers that are down, and of which everybody knows it."""
        return list(self._noticed)

    # ------------------------------------------------------------------ by the test's hand

    def run(self, name: str, change: Callable[[Controller], T], *, timeout: float = CHANGE_TIMEOUT) -> T:
        """Have the active controller make a change, in its turn.  Takes the lock; any thread but the
        cluster's own.

        Raises what the change raises, `KafkaTimeoutError` if no controller has made it in time.
        """
        deadline = self._runtime.clock.monotonic() + timeout
        while True:
            attempt = Attempt(self, name, change)
            with self._lock:
                now = self._runtime.clock.monotonic()
                attempt.begin(now)
            left = deadline - now
            if not self._runtime.wait_until(attempt.is_over, left):
                attempt.is_cancelled = True
                raise KafkaTimeoutError(
                    f"{name}: no active controller did it within {timeout:g} seconds; {self!r}"
                )
            if attempt.outcome is not None:
                result: T = attempt.outcome()
                return result


class Attempt:
    """A change that a test's thread wants and waits for; void as soon as another epoch begins."""

    def __init__(self, controllers: Controllers, name: str, change: Callable[[Controller], Any]) -> None:
        self.outcome: Callable[[], Any] | None = None
        self.is_cancelled = False
        self._controllers = controllers
        self._name = name
        self._change = change
        self._epoch: int | None = None

    def begin(self, now: float) -> None:
        node = self._controllers.active_node
        if node is None or node.active is None:
            return
        controller = node.active
        self._epoch = controller.epoch

        def work() -> None:
            if self.is_cancelled:
                return
            try:
                result = self._change(controller)
            except NotController:
                raise
            except Exception as error:
                self.outcome = _raising(error)
            else:
                self.outcome = lambda: result
            self._controllers._runtime.notify()

        node.change(self._name, work, now)

    def is_over(self) -> bool:
        """Whether it was done, or is to be tried again."""
        if self.outcome is not None:
            return True
        if self._epoch is None:
            return self._controllers.active_node is not None
        return self._epoch != self._controllers.epoch


def _raising(error: Exception) -> Callable[[], Any]:
    def fail() -> Any:
        raise error

    return fail
