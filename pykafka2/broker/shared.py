"""What the brokers of a cluster get from outside, and share.

Made by whoever runs a cluster (testing/starting.py) before the first broker, handed to each of them; it
knows none.  The lock guards all that brokers and controller decide.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

import attrs

from pykafka2.broker.base.known_metadata import KnownMetadata
from pykafka2.broker.base.problems import Problems
from pykafka2.broker.config.configs import BrokerConfig
from pykafka2.broker.controller.controllers import Controllers
from pykafka2.broker.faults.engine import Faults
from pykafka2.broker.faults.throttle import Throttles
from pykafka2.broker.log.log_dir import LogDirs
from pykafka2.broker.observed.event_log import EventLog
from pykafka2.broker.observed.history import History
from pykafka2.broker.replication.links import Links
from pykafka2.broker.security.listener import ListenerSecurity
from pykafka2.broker.security.mechanisms import Credentials
from pykafka2.broker.server.threads import Loops
from pykafka2.driver.runtime import Runtime


@attrs.define(eq=False)
class Shared:
    """The surroundings of every broker of one cluster."""

    config: BrokerConfig
    """What was configured for all brokers."""
    seed: int | str
    """Whence every broker's random choices come."""
    runtime: Runtime
    lock: AbstractContextManager[Any]
    loops: Loops
    links: Links
    """The ways between brokers."""
    controllers: Controllers
    faults: Faults
    throttles: Throttles
    history: History
    events: EventLog
    problems: Problems
    listeners: Mapping[str, ListenerSecurity] = attrs.field(factory=dict)
    """How each listener that brokers have secures itself, by name."""
    credentials: Credentials = attrs.field(factory=Credentials)
    """What users prove themselves by."""
    known_metadata: KnownMetadata = attrs.field(factory=KnownMetadata)
    log_dirs: LogDirs = attrs.field(factory=LogDirs)
    history_started_at: float = 0.0
    """When history, metrics and timeline begin, by the monotonic clock: at the start of the cluster, or when
    it was last told to forget."""
