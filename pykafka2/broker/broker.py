"""One broker of a cluster: what outlives its restarts, and the facade of what does not.

Its node (who it is), its logs and its request metrics stay; `parts` are made anew with each start
(process.py starts and stops them, parts.py says what they are).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from pykafka2.broker.base.endpoints import ListenerAddress
from pykafka2.broker.base.image import ClusterImage, TopicImage
from pykafka2.broker.base.timing_wheel import TimingWheel
from pykafka2.broker.config.configs import BrokerConfig
from pykafka2.broker.controller.node import ControllerNode
from pykafka2.broker.controller_channel import ControllerChannel
from pykafka2.broker.coordinators.hosting import Coordinators
from pykafka2.broker.handlers.services import Services
from pykafka2.broker.lifecycle import BrokerLifecycle
from pykafka2.broker.node import Node
from pykafka2.broker.parts import Parts
from pykafka2.broker.process import BrokerProcess
from pykafka2.broker.replication.follower_fetcher import FollowerFetchers
from pykafka2.broker.replication.key import Key
from pykafka2.broker.replication.replica_manager import ReplicaManager
from pykafka2.broker.requests import BrokerRequests
from pykafka2.broker.server.processor import Processor
from pykafka2.broker.server.request_metrics import RequestMetrics
from pykafka2.broker.shared import Shared
from pykafka2.clock import Clock, SeededEntropy


class Broker:
    """A broker of a `KafkaCluster`.  The controls start and stop it, from the test's thread."""

    def __init__(
        self,
        shared: Shared,
        broker_id: int,
        listeners: Sequence[ListenerAddress],
        rack: str | None,
        services_of: Callable[[int], Services],
    ) -> None:
        made = {"node.id": broker_id, "broker.id": broker_id, "broker.rack": rack}
        self.node = Node(
            broker_id,
            listeners,
            shared.config.of_broker(made),
            lock=shared.lock,
            clock=shared.runtime.clock,
            events=shared.events,
            problems=shared.problems,
            image=shared.controllers.image,
        )
        self.logs = shared.log_dirs.new(self.config.text("log.dirs") or self.config.text("log.dir") or "")
        self.metrics = RequestMetrics()
        entropy = SeededEntropy(f"broker-{shared.seed}-{broker_id}")  # goes on after a restart
        self.process = BrokerProcess(
            shared,
            self.node,
            self.logs,
            lambda: Parts(shared, self.node, self.logs, self.metrics, entropy, services_of),
        )

    def __repr__(self) -> str:
        return f"<broker {self.id} at {self.address}, {'running' if self.is_running else 'stopped'}>"

    # ------------------------------------------------------------------ its facts

    @property
    def id(self) -> int:
        """Its number in the cluster."""
        return self.node.id

    @property
    def host(self) -> str:
        """Where it listens."""
        return self.node.host

    @property
    def port(self) -> int:
        """Where it listens; 0 before the first start takes a free one."""
        return self.node.port

    @property
    def address(self) -> str:
        """Host and port at which it listens."""
        return self.node.address

    @property
    def listeners(self) -> Sequence[ListenerAddress]:
        """All that it listens at; `host` and `port` are those of the first."""
        return self.node.listeners

    @property
    def rack(self) -> str | None:
        """`broker.rack`; None where none is set."""
        return self.node.rack

    @property
    def config(self) -> BrokerConfig:
        """Its options, with what was altered while it runs."""
        return self.node.config

    @property
    def lock(self) -> AbstractContextManager[Any]:
        """The cluster's."""
        return self.node.lock

    @property
    def clock(self) -> Clock:
        """The cluster's."""
        return self.node.clock

    @property
    def wheel(self) -> TimingWheel:
        """Its timers since the last start."""
        return self.node.wheel

    @property
    def image(self) -> ClusterImage:
        """The newest metadata that it was given."""
        return self.node.image

    @property
    def epoch(self) -> int:
        """The broker epoch, -1 before the first registration."""
        return self.node.epoch

    @property
    def is_running(self) -> bool:
        """Whether it was started and not stopped since; a paused broker runs."""
        return self.node.is_running

    @property
    def is_paused(self) -> bool:
        """Whether it stands still."""
        return self.node.is_paused

    # ------------------------------------------------------------------ its parts since the last start

    @property
    def parts(self) -> Parts:
        """Everything that was made at the last start."""
        return self.process.parts

    @property
    def replicas(self) -> ReplicaManager:
        """What it leads and follows."""
        return self.parts.replicas

    @property
    def fetchers(self) -> FollowerFetchers:
        """Its way of following leaders."""
        return self.parts.fetchers

    @property
    def coordinators(self) -> Coordinators:
        """Its groups and transactions."""
        return self.parts.coordinators

    @property
    def controller_node(self) -> ControllerNode:
        """Its place for the controller, empty on all brokers but one."""
        return self.parts.controller_node

    @property
    def channel(self) -> ControllerChannel:
        """Its way to the controller."""
        return self.parts.channel

    @property
    def lifecycle(self) -> BrokerLifecycle:
        """Its life in the controller's eyes."""
        return self.parts.lifecycle

    @property
    def requests(self) -> BrokerRequests:
        """What it does with requests."""
        return self.parts.requests

    @property
    def services(self) -> Services:
        """What its handlers may call."""
        return self.parts.services

    @property
    def processors(self) -> list[Processor]:
        """Those that hold its clients' connections."""
        return self.parts.processors

    # ------------------------------------------------------------------ what is done with it

    def apply(self, image: ClusterImage, changed: Mapping[str, TopicImage | None]) -> None:
        """A new image, with the topics that changed.  Under the lock, from whichever thread made the
        change.
        """
        self.parts.apply(image, changed)
        self.process.metadata_came()

    def controller_changed(self, now: float) -> None:
        """There is a new controller: what the old one has not answered is asked again."""
        self.parts.channel.controller_changed(now)

    def apply_retention(self, keys: Iterable[Key] | None = None) -> int:
        """Delete what retention lets go, of some replicas or all; how many segments went."""
        return self.parts.apply_retention(keys)

    def wake(self) -> None:
        """Have the broker look at its timers and coordinators now."""
        self.parts.wake()

    def start(self, *, waits: bool = True) -> None:
        """Listen, register with the controller, take up the roles it gives.  See `BrokerProcess.start`."""
        self.process.start(waits=waits)

    def stop(self, *, crash: bool, lose_unreplicated: bool = False, is_unnoticed: bool = False) -> None:
        """Go away, in good order or as by a crash.  See `BrokerProcess.stop`."""
        self.process.stop(crash=crash, lose_unreplicated=lose_unreplicated, is_unnoticed=is_unnoticed)

    def restart(self) -> None:
        """Stop in good order if it runs, and start."""
        self.process.restart()

    def shut_down(self) -> None:
        """The cluster ends: as a stop, but nobody needs new leaders any more."""
        self.process.stop(crash=False, is_cluster_closing=True)

    def pause(self) -> None:
        """Stand still as a stopped process does.  Under the lock.  See `BrokerProcess.pause`."""
        self.process.pause()

    def resume(self) -> None:
        """Go on where the pause began.  Under the lock."""
        self.process.resume()
