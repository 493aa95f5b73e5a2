"""Basic state of one broker: id, listeners, configuration, metadata.

All parts of a broker share its `Node` and read it on use, so that they do not depend on the `Broker` that
extends it (broker.py). Only the broker writes it, under the cluster's lock. The node outlives restarts; its
timing wheel and image are reset by each of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

from pykafka2.broker.base.features import DEFAULT, Release
from pykafka2.broker.base.image import ClusterImage, ListenerAddress
from pykafka2.broker.base.problems import Problems
from pykafka2.broker.base.timing_wheel import TimingWheel
from pykafka2.broker.config.configs import BrokerConfig
from pykafka2.broker.observed.event_log import EventLog
from pykafka2.clock import Clock

NO_EPOCH = -1


class Node:
    """One broker of a cluster, as its parts see it."""

    __slots__ = (
        "clock",
        "config",
        "epoch",
        "events",
        "id",
        "image",
        "is_paused",
        "is_running",
        "listeners",
        "lock",
        "log_levels",
        "problems",
        "release",
        "wheel",
    )

    def __init__(
        self,
        broker_id: int,
        listeners: Sequence[ListenerAddress],
        config: BrokerConfig,
        *,
        lock: AbstractContextManager[Any],
        clock: Clock,
        events: EventLog,
        problems: Problems,
        image: ClusterImage,
        release: Release = DEFAULT,
    ) -> None:
        self.id = broker_id
        self.listeners = tuple(listeners)
        """At least one; the first one is the broker's default address."""
        self.config = config
        self.lock = lock
        self.clock = clock
        self.events = events
        self.problems = problems
        self.image = image
        self.release = release
        """The release of Apache Kafka that clients see."""
        self.wheel = TimingWheel(clock.monotonic(), on_problem=problems.note)
        self.epoch = NO_EPOCH
        """The epoch of the latest registration."""
        self.is_running = False
        self.is_paused = False
        self.log_levels = {"root": "INFO"}

    def __repr__(self) -> str:
        return f"<node {self.id} at {self.address}>"

    @property
    def host(self) -> str:
        """The host of its first listener."""
        return self.listeners[0].host

    @property
    def port(self) -> int:
        """The port of its first listener."""
        return self.listeners[0].port

    @property
    def address(self) -> str:
        """Host and port of its first listener."""
        return self.listeners[0].address

    @property
    def rack(self) -> str | None:
        """`broker.rack`; None if it is unset."""
        return self.config.get("broker.rack") or None

    @property
    def has_telemetry(self) -> bool:
        """Whether clients can push their metrics (KIP-714): the option client.telemetry."""
        return bool(self.config.get("client.telemetry"))

    def reset(self, image: ClusterImage) -> None:
        """Reset what does not outlive a restart."""
        self.image = image
        self.wheel = TimingWheel(self.clock.monotonic(), on_problem=self.problems.note)
