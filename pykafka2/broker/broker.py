"""One broker of a cluster: its permanent state, and a facade for its parts.

The node, the logs and the request metrics outlive restarts; `parts` are recreated with each start (process.py
starts and stops them, parts.py defines them).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from pykafka2.broker.base.image import ClusterImage, Key, ListenerAddress, TopicImage
from pykafka2.broker.base.timing_wheel import TimingWheel
from pykafka2.broker.config.configs import BrokerConfig
from pykafka2.broker.controller.controller_node import ControllerNode
from pykafka2.broker.controller_channel import ControllerChannel
from pykafka2.broker.coordinators.coordinators import Coordinators
from pykafka2.broker.handlers.services import Services
from pykafka2.broker.lifecycle import BrokerLifecycle
from pykafka2.broker.node import Node
from pykafka2.broker.parts import Parts
from pykafka2.broker.process import BrokerProcess, Loss
from pykafka2.broker.replication.follower_fetcher import FollowerFetchers
from pykafka2.broker.replication.replica_manager import ReplicaManager
from pykafka2.broker.requests import BrokerRequests
from pykafka2.broker.server.processor import Processor
from pykafka2.broker.server.request_metrics import RequestMetrics
from pykafka2.broker.shared import Shared
from pykafka2.clock import Clock, SeededEntropy
from pykafka2.compression.steps import Steps


class Broker:
    """A broker of a `KafkaCluster`. The controls start and stop it, from the test's thread."""

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
            release=shared.release,
        )
        self.logs = shared.storages.new(broker_id, self.config)
        self.metrics = RequestMetrics()
        entropy = SeededEntropy(f"broker-{shared.seed}-{broker_id}")  # continues after a restart
        self.process = BrokerProcess(
            shared,
            self.node,
            self.logs,
            lambda: Parts(shared, self.node, self.logs, self.metrics, entropy, services_of),
        )

    def __repr__(self) -> str:
        return f"<broker {self.id} at {self.address}, {'running' if self.is_running else 'stopped'}>"

    # ------------------------------------------------------------------ attributes

    @property
    def id(self) -> int:
        """Its id in the cluster."""
        return self.node.id

    @property
    def host(self) -> str:
        """The host of its first listener."""
        return self.node.host

    @property
    def port(self) -> int:
        """The port of its first listener; 0 before the first start binds a free one."""
        return self.node.port

    @property
    def address(self) -> str:
        """Host and port of its first listener."""
        return self.node.address

    @property
    def listeners(self) -> Sequence[ListenerAddress]:
        """All listeners; `host` and `port` are those of the first."""
        return self.node.listeners

    @property
    def rack(self) -> str | None:
        """`broker.rack`; None if it is unset."""
        return self.node.rack

    @property
    def config(self) -> BrokerConfig:
        """Its options, including dynamic changes."""
        return self.node.config

    @property
    def lock(self) -> AbstractContextManager[Any]:
        """The cluster's lock."""
        return self.node.lock

    @property
    def clock(self) -> Clock:
        """The cluster's clock."""
        return self.node.clock

    @property
    def wheel(self) -> TimingWheel:
        """Its timers since the last start."""
        return self.node.wheel

    @property
    def image(self) -> ClusterImage:
        """The latest metadata that it received."""
        return self.node.image

    @property
    def epoch(self) -> int:
        """The broker epoch, -1 before the first registration."""
        return self.node.epoch

    @property
    def is_running(self) -> bool:
        """Whether it was started and not stopped since; a paused broker is running."""
        return self.node.is_running

    @property
    def is_paused(self) -> bool:
        """Whether it is paused."""
        return self.node.is_paused

    # ------------------------------------------------------------------ parts since the last start

    @property
    def parts(self) -> Parts:
        """The parts created by the last start."""
        return self.process.parts

    @property
    def replicas(self) -> ReplicaManager:
        """The replicas that it hosts."""
        return self.parts.replicas

    @property
    def fetchers(self) -> FollowerFetchers:
        """Its fetchers, which copy from leaders."""
        return self.parts.fetchers

    @property
    def coordinators(self) -> Coordinators:
        """Its group and transaction coordinators."""
        return self.parts.coordinators

    @property
    def controller_node(self) -> ControllerNode:
        """Its controller node, which is active on at most one broker."""
        return self.parts.controller_node

    @property
    def channel(self) -> ControllerChannel:
        """Its channel to the controller."""
        return self.parts.channel

    @property
    def lifecycle(self) -> BrokerLifecycle:
        """Its registration and heartbeats."""
        return self.parts.lifecycle

    @property
    def requests(self) -> BrokerRequests:
        """Its request handling."""
        return self.parts.requests

    @property
    def services(self) -> Services:
        """The API that its handlers can call."""
        return self.parts.services

    @property
    def processors(self) -> list[Processor]:
        """The processors of its client connections."""
        return self.parts.processors

    # ------------------------------------------------------------------ actions

    def apply(self, image: ClusterImage, changed: Mapping[str, TopicImage | None]) -> None:
        """Apply a new image, with the topics that changed.

        Under the lock, from the thread that made the change.
        """
        self.parts.apply(image, changed)
        self.process.metadata_came()

    def controller_changed(self, now: float) -> None:
        """Handle a new controller: requests to the old one without a response are sent again."""
        self.parts.channel.controller_changed(now)

    def compaction(self, keys: Iterable[Key], rolls: bool) -> Steps[int]:
        """Compact some replicas in steps, `rolls` segments first. Return the number of removed records."""
        return self.parts.compaction(keys, rolls)

    def apply_retention(self, keys: Iterable[Key] | None = None) -> int:
        """Apply retention to some replicas or all. Return the number of deleted segments."""
        return self.parts.apply_retention(keys)

    def wake(self) -> None:
        """Run the broker's timers and coordinators soon."""
        self.parts.wake()

    def start(self, *, waits: bool = True) -> None:
        """Start listening, register with the controller, and take its roles. See `BrokerProcess.start`."""
        self.process.start(waits=waits)

    def stop(self, *, crash: bool, loss: Loss = Loss.NOTHING, is_unnoticed: bool = False) -> None:
        """Stop, by a controlled shutdown or like a crash. See `BrokerProcess.stop`."""
        self.process.stop(crash=crash, loss=loss, is_unnoticed=is_unnoticed)

    def restart(self) -> None:
        """Stop by a controlled shutdown if it is running, and start."""
        self.process.restart()

    def shut_down(self) -> None:
        """Stop with the cluster: like `stop`, but without electing new leaders."""
        self.process.stop(crash=False, is_cluster_closing=True)

    def pause(self) -> None:
        """Pause like a suspended process. Under the lock. See `BrokerProcess.pause`."""
        self.process.pause()

    def resume(self) -> None:
        """Resume after a pause. Under the lock."""
        self.process.resume()
