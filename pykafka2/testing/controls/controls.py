"""Controls of a running cluster: `cluster.controls.crash_broker(1)`, `.cut_link(0, 2)`,
`.hold(FetchRequest)`.

Each family of controls is a mixin in a file of its own.  Every call has taken effect when it returns.  Any
thread except the cluster's own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from pykafka2.broker.config.keys import nearest
from pykafka2.flattened import flattened
from pykafka2.testing.controls.access import AccessControls
from pykafka2.testing.controls.brokers import BrokerControls
from pykafka2.testing.controls.controller import ControllerControls
from pykafka2.testing.controls.isr import IsrControls
from pykafka2.testing.controls.links import LinkControls
from pykafka2.testing.controls.quotas import QuotaControls
from pykafka2.testing.controls.replicas import ReplicaControls
from pykafka2.testing.controls.rules import RuleControls
from pykafka2.testing.controls.security import SecurityControls
from pykafka2.testing.controls.share_groups import ShareControls
from pykafka2.testing.running import Running


@flattened
class Controls(
    BrokerControls,
    ReplicaControls,
    IsrControls,
    ControllerControls,
    LinkControls,
    RuleControls,
    QuotaControls,
    AccessControls,
    SecurityControls,
    ShareControls,
):
    """The controls of one cluster.  A misspelt name raises `AttributeError` that names the nearest."""

    def __init__(self, running: Running) -> None:
        self._running = running

    def reset(self) -> None:
        """End the effects of all controls: remove rules, throttles, quotas and ACLs, heal links, release
        all that is held, slowed or refused, start and resume brokers.  Moved leaders stay, and all records;
        `KafkaCluster.reset` also deletes topics.
        """
        self.clear()
        self._reset_controller()
        self.heal()
        self._start_all_brokers()  # needs a controller and its links
        self.release_loading()
        self._allow_refused_mechanisms()
        self.clear_quotas()
        if self.access_rules():
            self.revoke_access()

    if not TYPE_CHECKING:  # type checkers must report misspelt names

        def __getattr__(self, name: str) -> NoReturn:
            """Called only for unknown names."""
            known = [word for word in dir(type(self)) if not word.startswith("_")]
            raise AttributeError(f"Unknown control {name!r}{nearest(name, known)}")
