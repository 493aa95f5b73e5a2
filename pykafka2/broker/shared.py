"""Environment shared by the brokers of a cluster.

Created by the owner of a cluster (testing/starting.py) before the first broker and passed to each of them; it
has no reference to a broker. The lock guards all state of brokers and the controller.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

import attrs

from pykafka2.broker.base.features import DEFAULT, Release
from pykafka2.broker.base.metadata_cache import MetadataCache
from pykafka2.broker.base.problems import Problems
from pykafka2.broker.config.configs import BrokerConfig
from pykafka2.broker.controller.controllers import Controllers
from pykafka2.broker.faults.engine import Faults
from pykafka2.broker.faults.throttle_rules import Throttles
from pykafka2.broker.log.memory_storage import MemoryLogStorages
from pykafka2.broker.log.storage import Storages
from pykafka2.broker.observed.event_log import EventLog
from pykafka2.broker.observed.history import History
from pykafka2.broker.observed.telemetry import Pushes, new_pushes
from pykafka2.broker.security.authentication import Credentials
from pykafka2.broker.security.listeners import ListenerSecurity
from pykafka2.broker.server.links import Links
from pykafka2.broker.server.threads import Loops
from pykafka2.driver.runtime import Runtime


@attrs.define(eq=False)
class Shared:
    """The environment shared by all brokers of one cluster."""

    config: BrokerConfig
    """The configuration for all brokers."""
    seed: int | str
    """The seed of every broker's random choices."""
    runtime: Runtime
    lock: AbstractContextManager[Any]
    loops: Loops
    links: Links
    """The links between brokers."""
    controllers: Controllers
    faults: Faults
    throttles: Throttles
    history: History
    events: EventLog
    problems: Problems
    listeners: Mapping[str, ListenerSecurity] = attrs.field(factory=dict)
    """The security of each listener, by name."""
    credentials: Credentials = attrs.field(factory=Credentials)
    """Users' credentials."""
    release: Release = DEFAULT
    """The release of Apache Kafka that clients see; brokers among themselves are not limited by it."""
    metadata_cache: MetadataCache = attrs.field(factory=MetadataCache)
    pushes: Pushes = attrs.field(factory=new_pushes)
    """The metrics that clients pushed."""
    storages: Storages = attrs.field(factory=MemoryLogStorages)
    """Creates the storage of each broker's logs."""
    history_started_at: float = 0.0
    """Start of history, metrics and timeline, by the monotonic clock: the cluster's start, or the last
    `forget`.
    """
